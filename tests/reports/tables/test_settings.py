"""The tables of settings, tuning and circumstances."""

from __future__ import annotations

import pytest

from benchmarks.results.records import STUDY_FORMAT, Confirmation, Study, Trial, write_record
from benchmarks.results.speeds import Speed
from reports.inputs import Inputs, load_studies
from reports.outputs import Missing
from reports.tables.settings import environment, parameters, tuning
from reports.text.formats import NONE
from tests.support.made_runs import HOMES, keep, keep_failure
from tests.support.seen import texts

MRR = {"mrr": [0.5] * HOMES}
EASE = {"regularization": 30.0, "dropout": 0.5, "ownership": 0.25}
PRIVATE = {"popularity": "0", "epsilon": "0", "delta": "0", "max_rules": "2"}  # and their defaults


def study(folder, method="toy", *, trials=(), **key):
    """A study as `benchmarks.tune` keeps it."""
    about = {"method": method, "fixed": {}, "seeds": (100, 101), "confirm_seeds": (102,), "seed": 0}
    about |= {"space": {"depth": ("int", 1, 9)}, "defaults": {"depth": 3, "rate": 0.1}}
    about |= {"data": ({"data": "ifttt", "track": "types"},)}
    made = Study(**(about | {"metric": "mrr"} | key), trials=tuple(trials))
    write_record(folder / "tuning" / made.file, made, STUDY_FORMAT)


EMPTY = (
    '{"format": 4, "method": "toy", "fixed": {}, "seeds": [], "confirm_seeds": [], "seed": 0, '
    '"space": {}, "defaults": {}, "data": [], "metric": "mrr", "trials": [%s]}'
)
DEFAULTS = Trial({}, 0.5, [0.5], 1.0)
BETTER = Trial({"depth": 5, "rate": 0.1}, 0.625, [0.625], 1.0)
BROKEN = Trial({"depth": 9}, None, [], 1.0, "Traceback\nValueError")


def test_a_parameter_is_shown_with_its_default_and_what_else_it_was_run_with(tmp_path):
    keep(tmp_path, "ease", MRR, parameters=EASE)
    keep(tmp_path, "ease", MRR, parameters=EASE | {"dropout": 0.0})
    keep(tmp_path, "ease", MRR, parameters=EASE | {"dropout": 0.25, "ownership": 1.0}, data="ifttt-synthetic")
    table = parameters(Inputs.read(tmp_path))
    assert texts(table) == [
        ["ease", "regularization", "30", ""],
        ["ease", "dropout", "0.5", "0, 0.25"],
        ["ease", "ownership", "0.25", "1"],
        *(["ease", name, default, ""] for name, default in PRIVATE.items()),
    ]
    assert [row[-1].strong for row in table.rows] == [False, True, True, *[False] * len(PRIVATE)]
    assert table.about.caption.startswith("1 method with 7 parameters, of which 2 were also run with values other")


def test_of_a_method_that_nobody_knows_the_values_that_differ_are_listed(tmp_path):
    for depth in (1, 2):
        keep(tmp_path, "toy-stranger", MRR, parameters={"depth": depth, "wide": [True, None]})
    table = parameters(Inputs.read(tmp_path))
    assert texts(table) == [
        ["toy-stranger", "depth", NONE, "1, 2"],
        ["toy-stranger", "wide", "[true, null]", ""],
    ]
    assert any("Never run with all of the defaults: toy-stranger" in note for note in table.about.notes)


def test_methods_without_parameters_and_failed_runs_are_named(tmp_path):
    keep(tmp_path, "toy-bare", MRR)
    keep_failure(tmp_path, "toy-broken", "MemoryError")
    notes = parameters(Inputs.read(tmp_path)).about.notes
    assert "Without parameters: toy-bare." in notes
    assert any("toy-broken" in note and "MemoryError" in note for note in notes)


def test_a_study_shows_what_tuning_has_gained(tmp_path):
    again = Confirmation(Trial({}, 0.5, [0.5], 1.0), Trial(BETTER.parameters, 0.5625, [0.5625], 1.0))
    study(tmp_path, trials=[DEFAULTS, BETTER, BROKEN], confirmation=again)
    studies, problems = load_studies(tmp_path)
    assert problems == []
    table = tuning(Inputs(studies=tuple(studies)))
    # 0.625 - 0.5, and 0.5625 - 0.5 on other seeds; the rate of the best trial is the default's
    assert texts(table) == [["toy", "ifttt", "mrr", "100, 101", "3", "0.5000", "0.6250", "0.1250", "0.0625", "depth=5"]]
    assert table.about.caption.endswith(
        "The defaults are best in 0 of 1. On splits that no trial has seen, the best trial beats the defaults in 1 of "
        "1 studies, by most for toy: +0.0625 mrr."
    )
    assert "Trials that failed: toy on ifttt: 1." in table.about.notes
    assert table.about.sources == (f"tuning/{studies[0].file}",)


def test_defaults_that_nothing_beats_are_said_to_be_best(tmp_path):
    study(tmp_path, trials=[DEFAULTS, Trial({"depth": 1}, 0.25, [0.25], 1.0)], fixed={"rate": 0.5})
    (row,) = texts(tuning(Inputs(studies=tuple(load_studies(tmp_path)[0]))))
    assert row[0] == "toy (rate=0.5)"
    assert row[-5:] == ["0.5000", "0.5000", "0.0000", NONE, "the defaults"]


@pytest.mark.parametrize("trials", [[], [BROKEN], [Trial({}, float("nan"), [], 1.0)]])
def test_a_study_without_an_answer_is_a_row_of_dashes(tmp_path, trials):
    study(tmp_path, trials=trials)
    (row,) = texts(tuning(Inputs(studies=tuple(load_studies(tmp_path)[0]))))
    assert row[-4:] == [NONE] * 4


def test_a_trial_that_diverged_is_not_the_best_however_good_it_looks_and_a_note_counts_it(tmp_path):
    diverged = Trial({"depth": 7}, 0.9, [0.9], 1.0, warnings=["ifttt, seed 100: training diverged in round 4 of 20"])
    study(tmp_path, trials=[DEFAULTS, BETTER, diverged])
    table = tuning(Inputs.read(tmp_path))
    (row,) = texts(table)
    assert row[table.columns.index("best")] == "0.6250"
    assert "Trials that diverged or refused many updates, never chosen: toy on ifttt: 1." in table.about.notes
    assert not any(note.startswith("Trials that failed") for note in table.about.notes)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "it cannot be read"),
        ("[]", "it has no format"),
        ('{"key": {}, "trials": []}', "it has no format"),
        ('{"format": 4, "trials": []}', "method"),
        (EMPTY % '{"nonsense": 1}', "nonsense"),
        (EMPTY % '{"parameters": {}, "value": "x", "values": [], "seconds": 1}', "'x'"),
        ('{"format": 3, "trials": []}', "made by an older version"),
        ('{"format": 5, "trials": []}', "made by a newer version"),
    ],
)
def test_a_file_that_is_no_study_is_named_and_left_alone(tmp_path, content, reason):
    study(tmp_path, trials=[DEFAULTS])
    path = tmp_path / "tuning" / "bad.json"
    path.write_text(content)
    studies, problems = load_studies(tmp_path)
    assert len(studies) == 1
    ((name, why),) = problems
    assert name == "tuning/bad.json"
    assert reason in why
    assert path.read_text() == content


def test_circumstances_are_counted_and_differences_named(tmp_path):
    keep(tmp_path, "toy-a", MRR, seeds=(0,))
    keep(tmp_path, "toy-b", MRR, seeds=(0,), commit="1" * 40 + " with changes", threads=2, written="")
    table = environment(Inputs.read(tmp_path))
    assert texts(table) == [
        ["runs", "python", "3.11.7", "2"],
        ["runs", "threads", "1", "1"],
        ["runs", "threads", "2", "1"],
        ["runs", "commit", "0123456789ab", "1"],
        ["runs", "commit", "111111111111 with changes", "1"],
        ["runs", "day", "2026-11-10", "1"],
        ["runs", "day", "unknown", "1"],
        ["runs", "numpy", "2.4.6", "2"],
    ]
    assert table.about.notes == (
        "The runs differ in threads: 1, 2.",
        "The runs differ in commit: 0123456789ab, 111111111111 with changes.",
    )
    assert table.about.caption == "2 runs of 2026-11-10, by 2 commits."


def test_the_machine_of_the_speeds_is_named():
    made = "2024-05-06T07:08:09+00:00"
    speed = Speed("test_a", "x.py::test_a", "", {}, 1.0, 1.0, 3, {}, "m/0001.json", made, "A processor, 2 cores", "")
    table = environment(Inputs(speeds=(speed,)))
    assert ["speeds", "machine", "A processor, 2 cores", "1"] in texts(table)
    assert table.about.caption == "1 speed measured on A processor, 2 cores."
    assert table.about.sources == ("speed/m/0001.json",)
    assert table.about.notes == ("The environment was the same for all.",)


@pytest.mark.parametrize("make", [parameters, tuning, environment])
def test_without_anything_a_table_says_what_to_run(make):
    with pytest.raises(Missing) as error:
        make(Inputs())
    assert error.value.command.startswith("python -m ")
