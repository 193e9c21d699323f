"""For whom it works: the figure by home size and by seen and unseen rules."""

from __future__ import annotations

import math
from dataclasses import replace

from reports.figures import ranking as breakdown
from reports.inputs import Inputs
from tests.support.made_runs import run, sliced
from tests.support.seen import dots, panels


def test_sizes_without_hidden_rules_are_not_shown():
    axes = panels(breakdown.sizes(Inputs((sliced("ease"),))))["devices of the home (valid filter)"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1-2\nn = 10"]
    assert list(dots(axes)) == [(0.0, 0.5)]


def test_a_method_without_results_by_size_was_run_and_is_said_to_lack_them():
    drawing = breakdown.sizes(Inputs((sliced("ease"), run("mf"))))
    assert "Not run on wyze-synthetic: graphrank, graphrule, gcmc, popularity." in drawing.about.notes
    assert "Left out on wyze-synthetic, without results by home size: mf (1 of 1 seed)." in drawing.about.notes


def test_seeds_count_by_their_hidden_rules_in_a_slice():
    runs = sliced("ease", 0, small=(30, 0.5)), sliced("ease", 1, small=(10, 0.1))
    axes = panels(breakdown.sizes(Inputs(runs)))["devices of the home (valid filter)"]
    # (30 * 0.5 + 10 * 0.1) / 40 = 0.4; the bar goes from the one seed to the other
    assert list(dots(axes)) == [(0.0, 0.4)]
    assert [list(line.get_ydata()) for line in axes.lines if list(line.get_xdata()) == [0, 0]] == [[0.1, 0.5]]


def test_unseen_rules_are_shown_without_the_filter_and_silence_is_said():
    drawing = breakdown.sizes(Inputs((sliced("graphrule", unseen=(2, 0.3)), sliced("ease", silent=2.0))))
    axes = panels(drawing)["rule seen in training? (no filter)"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["seen\nn = 8", "unseen\nn = 2"]
    assert sorted(value for _, value in dots(axes)) == [0.1, 0.3, 0.6, 0.6]
    few = "Too few hidden rules to name the best: in homes with 1-2 devices (10), on unseen rules (2)."
    assert few in drawing.about.caption
    assert "On wyze-synthetic ease cannot score unseen rules, which counts as 0." in drawing.about.notes
    assert "Not run on wyze-synthetic: graphrank, mf, gcmc, popularity." in drawing.about.notes


def test_a_slice_in_which_one_seed_has_no_number_has_no_dot_of_the_others():
    runs = sliced("ease", 0, small=(30, 0.5)), sliced("ease", 1, small=(10, math.nan))
    drawing = breakdown.sizes(Inputs(runs))
    (dot,) = dots(panels(drawing)["devices of the home (valid filter)"])
    assert math.isnan(dot[1])
    note = "Not finite on wyze-synthetic, and so without a dot: ease, devices 1-2 (1 of 2 seeds)."
    assert note in drawing.about.notes


def test_a_best_method_is_named_where_there_are_rules_enough_to_say_so():
    runs = sliced("ease", small=(30, 0.5), unseen=(2, 0.1)), sliced("mf", small=(30, 0.4), unseen=(2, 0.3))
    caption = breakdown.sizes(Inputs(runs)).about.caption
    assert "of the 2 methods shown the best are ease (0.500) in homes with 1-2 devices (30 hidden rules)." in caption
    assert caption.endswith("Too few hidden rules to name the best: on unseen rules (2).")


def test_slices_are_of_open_lists_where_those_of_the_leaderboard_are_closed():
    counts = {"homes": 40, "devices": 100, "devices without rules": 0}
    drawing = breakdown.sizes(Inputs((replace(sliced("ease"), counts=counts),)))
    assert [block.heading for block in drawing.layout.blocks] == ["wyze-synthetic, 40 homes: 1 seed"]
    assert "With orphans, devices without a known rule: lists of wyze-synthetic are not closed here." in (
        drawing.about.caption
    )


def test_it_is_said_where_every_hidden_rule_was_seen():
    drawing = breakdown.sizes(Inputs((sliced("ease", unseen=(0, math.nan)),)))
    assert "Every hidden rule of wyze-synthetic was seen in training." in drawing.about.notes
