"""Which runs a figure of the paper is drawn from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from datasets.common.errors import DataError
from reports.inputs import IFTTT, INSTANCES, WYZE, Inputs, group_runs, select_runs
from tests.support import made_runs


def run(
    data="wyze-synthetic", method="toy", *, homes=100, track="types", split="holdout", seed=0, print_of="", **options
):
    where = {"data": data, "track": track, "fingerprint": print_of or f"{homes:016x}"}
    options = {"homes": homes, **options}
    return made_runs.run(method, seed, options=options, split={"split": split}, counts={"homes": homes}, **where)


def chosen(role, runs, wanted=bool):
    return select_runs(role, Inputs(tuple(runs)), wanted)


def test_seeds_of_one_place_stay_together():
    assert [len(place.runs) for place in group_runs([run(), run(seed=1), run(homes=50)])] == [2, 1]


def test_curves_are_at_the_same_place_as_runs_without():
    plain = run()
    curved = replace(plain, key=replace(plain.key, curves=10, split=plain.key.split | {"validation": True}))
    assert len(group_runs([plain, curved])) == 1


def test_real_data_goes_before_synthetic_data_whatever_its_size():
    assert chosen(WYZE, [run(homes=5000), run("wyze", homes=50)]).data == "wyze"
    assert chosen(IFTTT, [run("ifttt-synthetic"), run("ifttt-fedrule", homes=5)]).data == "ifttt-fedrule"


def test_more_methods_go_before_more_homes():
    assert chosen(WYZE, [run(homes=50), run(homes=50, method="other"), run(homes=5000)]).homes == 50
    assert chosen(WYZE, [run(homes=50), run(homes=5000)]).homes == 5000


def test_only_wanted_runs_count():
    runs = [run(homes=5000), run(homes=50, method="other")]
    assert chosen(WYZE, runs, lambda each: each.key.method == "other").homes == 50
    assert chosen(WYZE, runs, lambda each: each.key.method == "third") is None


def test_tracks_and_splits_are_not_mixed():
    assert chosen(INSTANCES, [run()]) is None
    assert chosen(INSTANCES, [run(), run(track="instances", homes=7)]).homes == 7
    assert chosen(WYZE, [run(split="new_homes")]) is None


def test_runs_on_different_data_are_refused():
    with pytest.raises(DataError, match="results of different data cannot be compared"):
        chosen(WYZE, [run(), run(method="other", print_of="f" * 16)])


def test_homes_that_were_not_counted_are_unknown_and_go_behind_others():
    uncounted = replace(run(homes=5000), counts={})
    assert chosen(WYZE, [uncounted]).homes is None
    assert chosen(WYZE, [uncounted, run(homes=50)]).homes == 50


def test_data_as_it_comes_goes_before_data_with_options():
    usual = {"min_pair_count": 8, "part": "all", "on_error": "raise"}
    runs = [run("ifttt-fedrule", homes=678, **usual, cut=6), run("ifttt-fedrule", homes=130, **usual, cut=0)]
    assert chosen(IFTTT, runs).homes == 130
