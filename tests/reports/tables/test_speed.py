"""Speed as it was measured: the largest scale on one machine, with ratios to plain references."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.speed import federated, fits, graph
from reports.text.formats import NONE
from tests.support.speeds import speed

ROUND = "benchmarks/speed/test_federated.py::test_federated_round"


def measured(parameters, seconds, **info):
    return speed(f"test_federated_round[{parameters}]", f"{ROUND}[{parameters}]", seconds=seconds, **info)


def test_a_row_has_seconds_rates_and_the_ratio_of_the_largest_scale():
    rates = {"units per second": 40_000.0, "units per second of the reference": 320.0, "ratio": 125.0}
    speeds = (
        measured("drawn_once-fedgnn", 0.25, scale="paper", **rates),
        measured("drawn_once-fedrule", 0.5, scale="paper", ratio=110.0, homes=76_218, peak_megabytes=3100.0),
        measured("drawn_once-fedgnn", 0.01, scale="smoke", ratio=7.0),
        measured("drawn_once-fedgnn", 0.2, scale="default", machine="another", ratio=1.0),
    )
    table = federated(Inputs(speeds=speeds))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["federated round, drawn once, fedgnn", NONE, "0.25 s", "40,000", "320", "125.0", NONE],
        ["federated round, drawn once, fedrule", "76,218", "0.5 s", NONE, NONE, "110.0", "3.1 GB"],
    ]
    assert table.about.caption == (
        "So many times as fast as a plain reference: 110 (federated round, drawn once, fedrule) to 125 (federated "
        "round, drawn once, fedgnn)."
    )
    assert table.about.sources == ("speed/m/0001_default.json",)


def test_what_was_not_measured_has_a_command():
    with pytest.raises(Missing, match=r"test_graph\.py, .* was not measured") as missing:
        graph(Inputs(speeds=(measured("a", 1.0),)))
    assert missing.value.command.startswith("pytest benchmarks/speed/test_graph.py ")


def test_fits_have_a_row_for_each_method_and_number_of_homes():
    place = "benchmarks/speed/test_fit.py::test_fit"
    speeds = tuple(
        speed(f"test_fit[ease-{n}]", f"{place}[ease-{n}]", seconds=0.5, scale="paper", homes=n, ratio=2.0)
        for n in (1_000, 10_000)
    )
    assert [[cell.text for cell in row[:3]] for row in fits(Inputs(speeds=speeds)).rows] == [
        ["fit, ease, 1000", "1,000", "0.5 s"],
        ["fit, ease, 10000", "10,000", "0.5 s"],
    ]
