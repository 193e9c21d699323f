"""Inference by size of home: what is drawn of saved measurements, and what is said about it."""

from __future__ import annotations

import math

import pytest

from reports.drawing.layout import draw, render
from reports.figures.speed import delay, memory
from reports.inputs import Inputs
from reports.outputs import Missing
from tests.support.speeds import drawn, speed


def inference(devices, p50, p95, method="fedrule", **more):
    info = {"method": method, "devices": devices, "milliseconds_p50": p50, "milliseconds_p95": p95, "megabytes": 1.0}
    name = f"test_recommend[{method}-{devices}]"
    return speed(name, f"benchmarks/speed/test_inference.py::{name}", "inference", **info, **more)


def lines(axes):
    """Without those that lead to the names."""
    found = [line for line in axes.lines if line.get_marker() != "None"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in found]


def test_the_delay_is_drawn_by_devices_and_held_against_the_papers_mark():
    speeds = (inference(8, 20.0, 50.0), inference(2, 4.0, 5.0), inference(2, 900.0, 1_000.0, "slow"))
    drawing = delay(Inputs(speeds=speeds))
    (axes,) = drawn(drawing).axes
    assert ([2, 8], [4.0, 20.0]) in lines(axes)
    assert any(list(line.get_ydata()) == [500, 500] for line in axes.lines)
    # 500 ms are 10 times the slowest 50 ms.
    assert (
        "fedrule takes 4 ms with 2 devices and 20 ms with 8 devices; the 95th percentile is at least 10 times faster"
        in (drawing.about.caption)
    )
    assert "slow takes 900 ms with 2 devices; homes with 2 devices or more can take longer" in drawing.about.caption


def test_the_memory_of_homes_is_counted_below_and_above_the_papers_mark():
    told = inference(2, 1.0, 2.0, **{"megabytes of homes": [1.0, 2.0, 3.0, 40.0, math.nan]})
    drawing = memory(Inputs(speeds=(told,)))
    (axes,) = drawn(drawing).axes
    assert sum(bar.get_height() for bar in axes.patches) == 4
    # The median of 1, 2, 3 and 40 is 2.5.
    assert (
        "less than 10 MB for 3 of 4 homes; half of them need at most 2.5 MB, the largest 40 MB" in drawing.about.caption
    )


@pytest.mark.parametrize("make", [delay, memory])
def test_inference_is_missing_until_it_was_measured(make):
    incomplete = inference(2, math.nan, 1.0)
    for speeds in ((), (incomplete,)):
        with pytest.raises(Missing) as missing:
            make(Inputs(speeds=speeds))
        assert missing.value.what == "the inference benchmark has not been run"
        assert missing.value.command == "pytest benchmarks/speed/test_inference.py --benchmark-only"


def test_the_same_measurements_in_another_order_give_the_same_bytes():
    speeds = (inference(8, 20.0, 50.0), inference(2, 4.0, 5.0))
    first, second = (delay(Inputs(speeds=each)) for each in (speeds, speeds[::-1]))
    assert render(draw(first.layout), ".svg") == render(draw(second.layout), ".svg")
    assert first.about == second.about
