"""Speed as it was measured: the largest scale on one machine, with ratios to plain references."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing, all_outputs
from reports.tables.speed import MEASURED, measured
from reports.text.formats import NONE
from tests.support.speeds import speed

FOLDER = Path(__file__).parents[3] / "benchmarks" / "speed"
ROUND = "benchmarks/speed/test_federated.py::test_federated_round"


def federated_round(parameters, seconds, **info):
    return speed(f"test_federated_round[{parameters}]", f"{ROUND}[{parameters}]", seconds=seconds, **info)


def test_a_row_has_seconds_rates_and_the_ratio_of_the_largest_scale():
    rates = {"units per second": 40_000.0, "units per second of the reference": 320.0, "ratio": 125.0}
    speeds = (
        federated_round("drawn_once-fedgnn", 0.25, scale="paper", **rates),
        federated_round("drawn_once-fedrule", 0.5, scale="paper", ratio=110.0, homes=76_218, peak_megabytes=3100.0),
        federated_round("drawn_once-fedgnn", 0.01, scale="smoke", ratio=7.0),
        federated_round("drawn_once-fedgnn", 0.2, scale="default", machine="another", ratio=1.0),
    )
    table = measured(Inputs(speeds=speeds), "federated")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["federated round, drawn once, fedgnn", NONE, "0.25 s", "40,000", "320", "125.0", NONE],
        ["federated round, drawn once, fedrule", "76,218", "0.5 s", NONE, NONE, "110.0", "3.1 GB"],
    ]
    assert table.about.caption == (
        "So many times as fast as a plain reference: 110 (federated round, drawn once, fedrule) to 125 (federated "
        "round, drawn once, fedgnn)."
    )
    assert table.about.sources == ("speed/m/0001_default.json",)


def test_a_unit_of_time_is_not_shown_as_a_reference():
    rates = {"units per second": 5_400.0, "units per second of the reference": 151_667.0, "ratio to counting": 0.04}
    (row,) = measured(Inputs(speeds=(federated_round("gcmc", 0.25, **rates),)), "federated").rows
    assert [cell.text for cell in row[3:6]] == ["5,400", NONE, NONE]


def test_what_was_not_measured_has_a_command():
    with pytest.raises(Missing, match="the speed of the graph methods was not measured") as missing:
        measured(Inputs(speeds=(federated_round("a", 1.0),)), "graph")
    assert missing.value.command.startswith("pytest benchmarks/speed/test_graph.py ")


def test_fits_have_a_row_for_each_method_and_number_of_homes_in_the_order_of_numbers():
    place = "benchmarks/speed/test_fit.py::test_fit"
    speeds = tuple(
        speed(f"test_fit[ease-{n}]", f"{place}[ease-{n}]", seconds=0.5, scale="paper", homes=n, ratio=2.0)
        for n in (10_000, 76_218, 1_000)
    )
    assert [[cell.text for cell in row[:3]] for row in measured(Inputs(speeds=speeds), "fits").rows] == [
        ["fit, ease, 1000", "1,000", "0.5 s"],
        ["fit, ease, 10000", "10,000", "0.5 s"],
        ["fit, ease, 76218", "76,218", "0.5 s"],
    ]


def test_a_table_of_some_benchmarks_of_a_file_leaves_out_the_others():
    place = "benchmarks/speed/test_private.py::"
    noted = {"seconds per home": 0.0032, "sent per home": 55_709.0, "plain_bytes": 61_864.0, "ratio": 0.001}
    noted |= {"received per home": 2_016.0, "server_seconds": 0.004}
    name = "test_secure_sum[8-7733]"
    summed = replace(speed(name, place + name, **noted), params={"homes": 8, "numbers": 7733})
    other = speed("test_paillier_against_a_secure_sum", f"{place}test_paillier_against_a_secure_sum", ratio=9.0)
    table = measured(Inputs(speeds=(summed, other)), "secure-sum")
    # 55,709 of 61,864 bytes are 90 %.
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["8", "7,733", "0.0032 s", "55.7 kB", "90 %", "2.02 kB", "0.004 s"]
    ]
    assert table.about.caption == "The cost of secure sums: 1 measurement."
    assert table.about.command == (
        "pytest benchmarks/speed/test_private.py -k test_secure_sum --benchmark-only --scale paper"
    )


def test_a_cell_of_continued_training_has_the_model_before_and_after_and_one_from_scratch():
    name = "test_continue_with_new_users[graphrule]"
    noted = {"method": "graphrule", "before, new users: MRR": 0.06, "continued, new users: MRR": 0.0684}
    one = speed(name, f"benchmarks/speed/test_continue_training.py::{name}", **noted)
    table = measured(Inputs(speeds=(one,)), "continued")
    (row,) = table.rows
    assert row[0].text == "graphrule"
    assert row[table.columns.index("new users: MRR")].text == f"0.060 / 0.068 / {NONE}"


def test_the_time_of_the_reference_follows_from_its_rate():
    name = "test_from_command_to_list[100]"
    noted = {"entities": 100, "units per second of the reference": 4.0, "megabytes": 246.0}
    one = speed(name, f"benchmarks/speed/test_home_assistant.py::{name}", seconds=1.2, **noted)
    (row,) = measured(Inputs(speeds=(one,)), "home-assistant-time").rows
    assert [cell.text for cell in row] == ["100", "1.2 s", "0.25 s", "246 MB"]


def test_every_table_is_an_output_and_its_benchmarks_exist():
    shown = {output.name for output in all_outputs() if output.name.startswith(("speed-", "home-assistant-"))}
    assert {name if name.startswith("home-assistant-") else f"speed-{name}" for name in MEASURED} == shown
    for table in MEASURED.values():
        functions = [
            line for file in table.files for line in (FOLDER / file).read_text().splitlines() if "def test_" in line
        ]
        assert any(table.only in line for line in functions), table.subject
