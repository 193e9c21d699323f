"""The lists of the page: how large they are, and what random order reaches."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.lists import shown_lists
from reports.text.formats import NONE
from tests.support.made_runs import keep
from tests.support.seen import texts


def test_a_row_says_how_large_homes_are_and_what_random_order_has(tmp_path):
    counts = {"homes": 40, "devices": 100, "rules": 50}
    for method, mean in (("ease", 0.3), ("random", 0.1)):
        keep(tmp_path, method, mean, swing=0.0, data="ifttt-fedrule", counts=counts)
    keep(tmp_path, "ease", 0.3, track="instances", counts={"homes": 40})
    # 100 / 40 = 2.5 devices and 50 / 40 = 1.25 rules; each of the 40 homes hides one.
    assert texts(shown_lists(Inputs.read(tmp_path))) == [
        ["ifttt-fedrule", "real", "40", "2.5", "1.2", "40", "2", "0.1000 [0.1000, 0.1000]"],
        ["wyze-synthetic (single devices)", "synthetic", "40", NONE, NONE, "40", "1", NONE],
    ]


def test_data_of_ones_own_is_neither_real_nor_synthetic_for_all_we_know(tmp_path):
    keep(tmp_path, "ease", 0.3, data="their-data")
    assert texts(shown_lists(Inputs.read(tmp_path)))[0][:3] == ["their-data", NONE, "40"]


def test_without_rankings_there_is_nothing_to_show():
    with pytest.raises(Missing, match="no rankings"):
        shown_lists(Inputs())
