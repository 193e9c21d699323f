"""Path features against counting by hand and against a plain walk over all devices."""

from __future__ import annotations

from math import log1p

import numpy as np
import pytest
from hypothesis import given

from datasets.candidates import Pairs
from datasets.homes import Homes, Rules
from fedrule.evidence.features import MEAN_SCALE, PATH_NAMES, path_features
from tests.support.plain_paths import walked
from tests.support.strategies import homes as any_homes


def every_pair(homes: Homes) -> Rules:
    pairs = Pairs.of(homes, self_pairs=True)
    home, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    return Rules(home, trigger, action, np.zeros(len(home), dtype=np.int64))


@given(any_homes())
def test_paths_are_those_of_a_walk_over_all_devices(homes):
    asked = every_pair(homes)
    expected = [walked(homes, int(i), int(j)) for i, j in zip(asked.trigger, asked.action, strict=True)]
    np.testing.assert_allclose(path_features(homes, asked), np.reshape(expected, (-1, len(PATH_NAMES))), rtol=1e-5)


@given(any_homes())
def test_no_candidate_gives_no_row(homes):
    none = np.zeros(0, dtype=np.int64)
    assert path_features(homes, Rules(none, none, none, none)).shape == (0, len(PATH_NAMES))


def test_a_lamp_that_goes_with_another_is_three_rules_away():
    # sensor 0 -> lamp 2; sensor 1 -> lamps 2 and 3. From 0 to 3: 0 -> 2 <- 1 -> 3 is the one path of three rules.
    # In the mean: 0 has one lamp (1/1), lamp 2 has two sensors, one of them is 1 (1/2), and 1 acts on 3: 1/2.
    column = np.array
    homes = Homes(
        "one",
        ("Sensor", "Lamp"),
        (("On", "Turn on"),),
        column([7]),
        column([0, 0, 0, 0]),
        column([0, 0, 1, 1]),
        column([0, 1, 2, 3]),
        Rules(column([0, 0, 0]), column([0, 1, 1]), column([2, 2, 3]), column([0, 0, 0])),
    )
    asked = Rules(column([0]), column([0]), column([3]), column([0]))
    assert path_features(homes, asked)[0] == pytest.approx([0, 0, 0, log1p(1), log1p(MEAN_SCALE * 0.5)])
