"""Runs that vary privacy, attacks or faults: they are left out of leaderboards, and nothing else is."""

from __future__ import annotations

import pytest

from reports.boards import main_lists, ranked_boards
from reports.figures import leaderboard
from reports.inputs import Inputs
from reports.outputs import Missing
from reports.sweeps import ATTACKS, FAULTS, PRIVACY, sweeps, swept
from tests.support.made_runs import keep, run

HIDDEN = {"split": "leave_one_out"}


def names(found):
    return sorted({subject.name for subject in found.values()})


def test_runs_that_are_equal_but_for_epsilon_are_a_sweep():
    plain, private = run("ease"), run("ease", parameters={"epsilon": 1.0})
    (sweep,) = sweeps([plain, private, run("mf")], PRIVACY)
    assert (sweep.runs, sweep.without) == ((plain, private), (plain,))


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"epsilon": 1.0, "popularity": 1.0}},
        {"parameters": {"epsilon": 1.0}, "options": {"homes": 50}},
        {"parameters": {"epsilon": 1.0}, "split": HIDDEN},
        {"parameters": {"epsilon": 1.0}, "protocol": "paper"},
    ],
)
def test_a_run_that_differs_in_more_than_the_subject_is_no_part_of_a_sweep(other):
    runs = [run("ease"), run("ease", **other)]
    assert list(sweeps(runs, PRIVACY)) == []
    assert swept(runs) == {}


def test_a_run_with_defaults_stays_and_the_level_of_another_setting_goes_with_its_sweep():
    default, private = run("ease"), run("ease", parameters={"epsilon": 1.0})
    level, other = (run("ease", parameters={"popularity": 1.0, "epsilon": epsilon}) for epsilon in (0.0, 1.0))
    found = swept([default, private, level, other])
    assert found.keys() == {each.key.hash for each in (private, level, other)}


@pytest.mark.parametrize(
    ("subject", "options"),
    [(ATTACKS, {"attack": "scale", "attackers": 0.1}), (ATTACKS, {"aggregation": "median"}), (FAULTS, {"late": 0.1})],
)
def test_attacks_defences_and_faults_are_sweeps_too(subject, options):
    runs = [run("fedgnn"), run("fedgnn", parameters=options), run("fedgnn", parameters={"rounds": 3})]
    assert swept(runs) == {runs[1].key.hash: subject}


@pytest.fixture
def results(tmp_path):
    for method, mean in {"ease": 0.5, "mf": 0.4}.items():
        keep(tmp_path, method, mean)
        keep(tmp_path, method, mean, split=HIDDEN)
    keep(tmp_path, "ease", 0.45, parameters={"popularity": 1.0})
    for epsilon in (8.0, 1.0):
        keep(tmp_path, "ease", 0.3, parameters={"epsilon": epsilon})
        keep(tmp_path, "ease", 0.3, parameters={"epsilon": epsilon}, split=HIDDEN)
    return Inputs.read(tmp_path)


def test_leaderboards_have_no_row_for_an_epsilon_and_say_where_it_is_shown(results):
    (board,), notes = ranked_boards(results, split="holdout")
    assert board.ordered == ["ease", "ease (popularity=1.0)", "mf"]
    # Two epsilons with two seeds each.
    note = "Runs that vary one subject with all else equal are left out: epsilon (4, see cost-of-privacy)."
    assert note in notes


def test_the_figure_with_one_automation_hidden_has_methods_only(results):
    drawing = leaderboard.one_hidden(results)
    assert "epsilon" not in drawing.about.caption
    assert len(drawing.about.sources) == 4  # two methods, two seeds


def test_the_summary_is_about_methods(results):
    (found,), _ = main_lists(results)
    assert [row.label for row in found.rows] == ["ease", "mf"]


def test_a_figure_that_has_nothing_else_to_show_says_where_the_runs_are(tmp_path):
    for epsilon in (0.0, 1.0):
        keep(tmp_path, "ease", 0.3, parameters={"epsilon": epsilon, "popularity": 1.0}, split=HIDDEN)
    with pytest.raises(Missing, match=r"epsilon \(4, see cost-of-privacy"):
        leaderboard.one_hidden(Inputs.read(tmp_path))
