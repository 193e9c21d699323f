"""What speed benchmarks measure with: the fastest of several runs, and the memory of a child, not of its parent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from benchmarks.speed.measure import note_growth, note_ratio, peak_megabytes, seconds

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture


def test_an_idle_child_of_a_fat_parent_holds_little() -> None:
    fat = np.ones(25_000_000)  # 200 MB, every page of it touched
    assert peak_megabytes("pass") < 100
    assert fat[-1] == 1


def test_what_a_child_holds_is_counted_even_if_it_lets_go_of_it() -> None:
    # 150 MiB = 157,286,400 bytes, filled so that they are really there
    assert 150 < peak_megabytes("held = b'x' * 157_286_400\ndel held") < 250


def test_what_the_program_says_is_not_taken_for_its_memory() -> None:
    assert peak_megabytes("print('7', end='')") > 7.5


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_shortest_of_all_repeats_counts(repeats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # runs of 5, 2 and 4 seconds
    clock = iter([0.0, 5.0, 10.0, 12.0, 20.0, 24.0])
    monkeypatch.setattr("benchmarks.speed.measure.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert seconds(lambda: None, repeats=repeats) == (5.0 if repeats == 1 else 2.0)


def test_the_ratio_is_the_rate_beside_that_of_the_reference() -> None:
    measured = SimpleNamespace(stats={"min": 0.5}, extra_info={})
    # 100 units in 0.5 s are 200 a second; the reference does one in 0.25 s, so 4 a second: 50 times as many
    note_ratio(cast("BenchmarkFixture", measured), 100, 0.25, peak_megabytes=7.0)
    assert measured.extra_info["units per second"] == 200
    assert measured.extra_info["ratio"] == 50
    assert measured.extra_info["peak_megabytes"] == 7


def test_growth_is_per_ten_times_the_homes() -> None:
    measured = SimpleNamespace(stats={"min": 50.0}, extra_info={})
    # 100 times the homes, twice ten times: 2 to 50 seconds is 5 * 5, 100 to 400 megabytes is 2 * 2
    few, many = {"seconds": 2.0, "peak_megabytes": 100.0}, {"seconds": 50.0, "peak_megabytes": 400.0}
    note_growth(cast("BenchmarkFixture", measured), {30: few, 3000: many}, 30, 30)
    assert measured.extra_info == {}  # of the first size itself
    note_growth(cast("BenchmarkFixture", measured), {30: few, 3000: many}, 30, 3000)
    assert measured.extra_info == pytest.approx({"seconds per 10x": 5, "peak_megabytes per 10x": 2})
