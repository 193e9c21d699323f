"""How near the made-up homes come to the published numbers, and whether the comparison can be trusted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from datasets.fidelity import fidelity, marginals, report
from datasets.homes import Homes, Provenance, Rules
from datasets.published import PUBLISHED
from datasets.registry import load
from datasets.synthetic.ifttt import ifttt_synthetic
from datasets.synthetic.wyze import wyze_synthetic
from datasets.view import Relation
from tests.strategies import homes as any_homes

REAL = Path(os.environ.get("FEDRULE_DATA", "")) / "home-assistant"
needs_real_homes = pytest.mark.skipif(not REAL.is_dir(), reason="FEDRULE_DATA has no home-assistant folder")


@pytest.mark.parametrize("preset", ["paper", "public"])
def test_every_published_number_is_met(preset: str) -> None:
    frame = fidelity(wyze_synthetic(preset=preset))
    judged = frame[frame["verdict"] != ""]
    assert set(judged.index) == set(PUBLISHED[f"wyze-{preset}"].statistics)
    assert set(judged["verdict"]) == {"met"}, report(frame)
    assert report(frame).endswith(f"{len(judged)} of {len(judged)} published numbers are met")


def test_synthetic_ifttt_is_met_too() -> None:
    assert set(fidelity(ifttt_synthetic())["verdict"]) == {"met", ""}


def test_a_number_that_is_off_is_named() -> None:
    homes = wyze_synthetic(homes=700)
    posing = replace(homes, provenance=Provenance(published="wyze-paper"))
    frame = fidelity(posing)
    # 700 homes are not 76,218; the mean of 2.65 rules, 11 types and 163 relations hold at any size
    assert frame.loc["homes", "verdict"] == "off"
    assert frame.loc["relations", "verdict"] == "met"
    assert "3 of 6 published numbers are met; off: homes; rules; distinct rules" in report(frame)


def test_a_scaled_down_set_gets_no_verdict() -> None:
    frame = fidelity(wyze_synthetic(homes=50))
    assert set(frame["verdict"]) == {""}
    assert report(frame).endswith("no verdict")


def test_other_data_is_shown_without_a_verdict_and_the_same_data_with_one() -> None:
    ours, other = wyze_synthetic(homes=300), wyze_synthetic(homes=200, seed=1)
    frame = fidelity(ours, other)
    assert frame.loc["homes", "real"] == 200
    assert "verdict beside real" not in frame
    imitated = Provenance(published="wyze-public")
    frame = fidelity(replace(ours, provenance=imitated), replace(ours, provenance=imitated))
    assert set(frame["verdict beside real"]) == {"met"}
    assert "real numbers are met" in report(frame)


@needs_real_homes
def test_home_assistant_can_be_laid_beside() -> None:
    frame = fidelity(wyze_synthetic(homes=100), load("home-assistant"))
    assert frame.loc["homes", "real"] == 210
    assert "no verdict" in report(frame)


def test_marginals_of_homes_counted_by_hand() -> None:
    homes = Homes(
        name="two homes",
        types=("Camera", "Light"),
        relations=(Relation("Motion", "On"), Relation("Motion", "Off")),
        users=np.array([1, 2]),
        device_home=np.array([0, 0, 0, 1]),
        device_type=np.array([0, 1, 1, 0]),
        device_ids=np.array([1, 2, 3, 4]),
        rules=Rules(
            home=np.array([0, 0, 1]),
            trigger=np.array([0, 0, 3]),
            action=np.array([1, 1, 3]),
            relation=np.array([0, 1, 0]),
        ),
    )
    found = marginals(homes)
    assert found["share of homes with several devices of one type"] == 1 / 2  # two lamps in the first
    assert found["share of devices that no rule uses"] == 1 / 4  # the second lamp
    assert found["share of rules of a device with itself"] == 1 / 3
    assert found["rules per connected pair of devices, mean"] == 3 / 2  # camera to lamp, twice; camera to itself
    assert found["types per home, mean"] == 3 / 2
    assert found["share of rules whose typed rule no other home has"] == 1


@settings(max_examples=30, deadline=None)
@given(any_homes())
def test_any_homes_can_be_compared_and_shares_stay_shares(homes: Homes) -> None:
    homes = replace(homes, provenance=Provenance())  # drawn ones claim to imitate anything
    frame = fidelity(homes, homes)
    shares = frame[frame.index.str.contains("share")]
    assert shares["ours"].between(0, 1).all()
    assert report(frame).count("\n") >= len(frame)
