"""How near the made-up homes come to the published numbers, and whether the comparison can be trusted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from datasets.describe import PUBLISHED, Published, fidelity, marginals, report
from datasets.homes import Homes, Provenance, Relation, Rules
from datasets.registry import load, names
from datasets.synthetic.ifttt import ifttt_synthetic
from datasets.synthetic.wyze import wyze_synthetic
from tests.support.strategies import homes as any_homes

REAL = Path(os.environ.get("FEDRULE_DATA", "")) / "home-assistant-2"
needs_real_homes = pytest.mark.skipif(not REAL.is_dir(), reason="FEDRULE_DATA has no home-assistant-2 folder")


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


def test_other_data_is_shown_without_a_verdict() -> None:
    frame = fidelity(wyze_synthetic(homes=300), wyze_synthetic(homes=200, seed=1))
    assert frame.loc["homes", "real"] == 200
    assert "verdict on real" not in frame
    assert "real: not the data that is imitated, shown for information only" in report(frame)


@pytest.mark.parametrize(
    ("published", "real_name", "real_published", "judged"),
    [
        ("wyze-public", "wyze", "wyze-public", True),
        ("wyze-public", "wyze", "", False),  # another part of it
        ("wyze-public", "home-assistant", "wyze-public", False),
        ("wyze-paper", "wyze", "wyze-public", False),  # the paper's own data is not to be had
        ("ifttt-paper", "ifttt-full", "ifttt-paper", False),  # compared with the same numbers, but with 178 services
        ("", "", "", False),
    ],
)
def test_only_the_very_data_that_is_imitated_gives_a_verdict(
    published: str, real_name: str, real_published: str, judged: bool
) -> None:
    homes = wyze_synthetic(homes=20)
    ours = replace(homes, provenance=Provenance(published=published))
    real = replace(homes, name=real_name, provenance=Provenance(published=real_published))
    frame = fidelity(ours, real)
    assert ("verdict on real" in frame) == judged
    assert ("real numbers are met" in report(frame)) == judged
    assert ("for information only" in report(frame)) != judged


def test_the_data_that_published_numbers_name_can_be_loaded() -> None:
    assert {published.data for published in PUBLISHED.values()} <= {"", *names()}


@pytest.mark.parametrize(
    ("statistic", "published", "just_inside"),
    [
        ("homes", 1_000.0, 10.0),  # a count: 1 %
        ("rules per home, mean", 2.0, 0.02),  # a mean: 1 %
        ("share of rules that touch Cloud", 0.5, 0.02),  # a share: 2 points
        ("rules per home with >= 2 rules, share <= 5", 0.5, 0.02),
        ("devices per home with >= 2 rules, median", 100.0, 5.0),  # a median: 5 %
        ("rules per home with >= 2 rules, 90 %", 100.0, 5.0),  # a quantile: 5 %
        ("rules per home with >= 2 rules, max", 200.0, 10.0),  # a maximum: 5 %
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_number_is_met_just_inside_its_tolerance_and_off_just_outside(
    statistic: str, published: float, just_inside: float, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = replace(wyze_synthetic(homes=5), provenance=Provenance(published="made up"))
    monkeypatch.setitem(PUBLISHED, "made up", Published("nowhere", {statistic: published}))
    for part, verdict in ((0.999, "met"), (1.001, "off")):
        ours = published + sign * part * just_inside
        monkeypatch.setattr("datasets.describe.statistics", lambda _, ours=ours: {statistic: ours})
        assert fidelity(homes).loc[statistic, "verdict"] == verdict


@needs_real_homes
def test_home_assistant_can_be_laid_beside() -> None:
    frame = fidelity(wyze_synthetic(homes=100), load("home-assistant"))
    assert frame.loc["homes", "real"] == 261
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
