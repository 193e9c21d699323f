"""What accuracy costs: the figures of training time and of bytes sent, and names beside their points."""

from __future__ import annotations

import math

import pytest
from matplotlib.text import Text

from benchmarks.results.leaderboard import boards
from reports.boards import sent
from reports.drawing.layout import Block, Label, Layout, Panel, add_labels, draw, wrap_label
from reports.figures import tradeoffs
from reports.figures.tradeoffs import Point, front, in_seconds, points, seconds
from reports.inputs import Inputs
from reports.text.formats import in_bytes
from tests.support.made_runs import rounds, run
from tests.support.seen import dots, inscriptions, panels


@pytest.mark.parametrize(
    ("worst", "label"), [(0.16, "mean reciprocal rank (not from 0)"), (0.14, "mean reciprocal rank")]
)
def test_an_axis_that_is_cut_says_so_and_begins_at_0_where_points_come_near(worst, label):
    # Near: less than half of the best, 0.3 / 2 = 0.15.
    runs = run("ease", summary={"mrr": 0.3}), run("mf", summary={"mrr": worst})
    (axes,) = panels(tradeoffs.time(Inputs(runs))).values()
    assert axes.get_ylabel() == label
    assert (axes.get_ylim()[0] == 0) == (worst < 0.15)


def test_accuracy_is_a_mean_over_seeds_and_time_a_median():
    inputs = Inputs(
        (
            run("ease", 0, summary={"mrr": 0.2}, seconds={"fit": 1.0}),
            run("ease", 1, summary={"mrr": 0.4}, seconds={"fit": 2.0}),
            run("ease", 2, summary={"mrr": 0.3}, seconds={"fit": 9.0}),
            run("mf", 0, summary={"mrr": 0.25}, seconds={"fit": 8.0}),
        )
    )
    drawing = tradeoffs.time(inputs)
    (axes,) = panels(drawing).values()
    # ease: (0.2 + 0.4 + 0.3) / 3 = 0.3, and 2 seconds in the middle; the first may include compiling
    assert {(x, round(y, 9)) for x, y in dots(axes)} == {(2.0, 0.3), (8.0, 0.25)}
    assert "MRR: mean over seeds, time: median over seeds" in drawing.layout.note
    assert sorted(inscriptions(axes)) == ["ease", "mf"]
    assert "ease is the best (0.300) and trains in 2 s" in drawing.about.caption


def test_the_caption_names_the_fastest_that_is_nearly_as_good():
    runs = [
        run("graphrank", summary={"mrr": 0.4}, seconds={"fit": 60.0}),
        run("ease", summary={"mrr": 0.39}, seconds={"fit": 0.5}),
        run("popularity", summary={"mrr": 0.1}, seconds={"fit": 0.01}),
    ]
    caption = tradeoffs.time(Inputs(tuple(runs))).about.caption
    # 0.39 / 0.4 = 97.5 %, which is written 98 %; 60 / 0.5 = 120
    assert caption.endswith("ease has 98% of that in 0.5 s, 120.0 times faster.")


@pytest.mark.parametrize("broken", [{"seconds": {}}, {"seconds": {"fit": 0.0}}, {"summary": {"mrr": math.nan}}])
def test_a_method_without_time_or_rank_is_named_and_not_drawn(broken):
    drawing = tradeoffs.time(Inputs((run("ease"), run("toy", **broken))))
    (axes,) = panels(drawing).values()
    assert inscriptions(axes) == ["ease"]
    assert "wyze-synthetic, 40 homes: no time or no rank of toy." in drawing.about.notes


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_seed_without_a_number_is_never_left_out_of_a_mean_in_silence(value):
    runs = run("ease"), run("toy", 0, summary={"mrr": 0.9}), run("toy", 1, summary={"mrr": value})
    (_, toy) = sorted(points(boards(runs)[0], "mrr", seconds), key=lambda point: point.label)
    assert str(toy.accuracy) == str(value)
    drawing = tradeoffs.time(Inputs(runs))
    assert inscriptions(*panels(drawing).values()) == ["ease"]
    assert "wyze-synthetic, 40 homes: no time or no rank of toy (1 of 2 seeds)." in drawing.about.notes


def test_a_federated_method_without_accuracy_is_named_beside_the_others():
    runs = [
        run("fedrule", history=rounds(1)),
        run("fedgnn", 0, history=rounds(1)),
        run("fedgnn", 1, history=rounds(1), summary={}),
        run("ease"),
        run("mf", summary={}),
    ]
    drawing = tradeoffs.bytes_sent(Inputs(tuple(runs)))
    assert sorted(inscriptions(*panels(drawing).values())) == ["ease", "fedrule"]
    assert "wyze-synthetic, 40 homes: no bytes or no rank of fedgnn (1 of 2 seeds), mf." in drawing.about.notes


def test_homes_that_were_not_counted_are_left_out_of_the_title():
    assert list(panels(tradeoffs.time(Inputs((run("ease", counts={}),))))) == ["wyze-synthetic"]


def test_nobody_on_the_front_is_both_slower_and_worse():
    cheap, good, bad = Point("a", "graph", 1, 0.2), Point("b", "graph", 5, 0.4), Point("c", "graph", 3, 0.1)
    assert front([bad, good, cheap]) == [cheap, good]


def test_a_home_sends_only_in_rounds_of_its_cohort_and_counts_once():
    # 3 rounds of 100 bytes, 10 of 40 homes in each: 3 * 100 * 10 / 40 = 75; and 1000 before.
    federated = run("toy", history=rounds(3, clients=10, first={"statistics_bytes": 1000.0}))
    assert sent(federated) == 1075
    assert math.isnan(sent(run("toy")))


def test_bytes_stand_beside_the_best_central_method_of_each_kind():
    runs = [
        run("fedrule", summary={"mrr": 0.2}, history=rounds(10)),
        run("fedgnn", summary={"mrr": 0.1}, history=rounds(10, sends=50.0)),
        run("ease", summary={"mrr": 0.3}),
        run("mf", summary={"mrr": 0.25}),
    ]
    drawing = tradeoffs.bytes_sent(Inputs(tuple(runs)))
    (axes,) = panels(drawing).values()
    assert set(dots(axes)) == {(1000.0, 0.2), (500.0, 0.1)}
    assert sorted(inscriptions(axes)) == ["ease", "fedgnn", "fedrule"]
    (line,) = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert list(line.get_ydata()) == [0.3, 0.3]
    assert drawing.about.caption == (
        "On wyze-synthetic a client sends 1 kB for MRR 0.200 with fedrule, 500 bytes for 0.100 with fedgnn; ease, "
        "central, has 0.300."
    )
    assert len(drawing.about.sources) == 3  # without mf, which is not shown


def test_bytes_are_shown_with_auc_where_no_federated_method_was_ranked():
    runs = [
        run("ease"),
        run("fedrule", protocol="paper", curves=10, summary={"auc": 0.9}, history=rounds(2)),
        run("graphrule", protocol="paper", curves=10, summary={"auc": 0.8}),
        run("graphrule", protocol="paper", summary={"auc": 0.7}),  # fitted to more rules, so not in the same list
    ]
    drawing = tradeoffs.bytes_sent(Inputs(tuple(runs)))
    (axes,) = panels(drawing).values()
    assert axes.get_ylabel() == "AUC, mean over homes (not from 0)"
    assert set(dots(axes)) == {(200.0, 0.9)}
    assert "graphrule, central, has 0.800" in drawing.about.caption
    assert any("AUC by the protocol paper" in note for note in drawing.about.notes)


def test_numbers_are_said_as_people_say_them():
    assert [in_bytes(each) for each in (12, 1500, 2.5e6, 3e9)] == ["12 bytes", "1.5 kB", "2.5 MB", "3 GB"]
    # 999,960 bytes are 1,000 kB in three digits.
    assert [in_bytes(each) for each in (999, 999_960, 4e12, 2e15)] == ["999 bytes", "1 MB", "4 TB", "2,000 TB"]
    assert [in_seconds(each) for each in (0.00001, 0.0123, 9.9, 99.9)] == ["0.00001 s", "0.012 s", "9.9 s", "100 s"]
    # 70,000 / 3,600 = 19.44; 7,199 / 60 = 119.98; 4,000,000 / 3,600 = 1,111.1
    assert [in_seconds(each) for each in (100, 119, 180, 7_199)] == ["100 s", "119 s", "3 min", "120 min"]
    assert [in_seconds(each) for each in (70_000, 4e6)] == ["19.4 h", "1,111 h"]


@pytest.mark.parametrize(("low", "high"), [(1e-3, 1e4), (0.9, 1.1e3), (2.1, 6.0), (900.0, 1100.0)])
def test_an_axis_has_few_round_numbers_and_at_least_one(low, high):
    found = tradeoffs.ticks(low, high)
    assert 1 <= len(found) <= tradeoffs.MAX_TICKS
    assert all(low <= value <= high for value in found)


def test_a_long_label_is_broken_between_its_settings():
    assert wrap_label("toy (rate=0.5, optimizer=kept-adam)", 16) == "toy (rate=0.5,\noptimizer=\nkept-adam)"


def test_names_beside_points_cover_neither_points_nor_each_other():
    points = [Label(f"method-{n}", 0.5 + 0.02 * (n % 3), 0.5 + 0.015 * n) for n in range(8)]
    (axes,) = draw(Layout((Block("", (Panel(lambda axes: add_labels(axes, points)),)),), columns=1, height=3)).axes
    for text in axes.texts:
        text.get_window_extent()  # which also moves it to its place
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the lines to their points
    assert len(boxes) == 8
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert not any(box.contains(*axes.transData.transform((point.x, point.y))) for point in points)
        assert axes.get_window_extent().containsx(box.x0)
        assert axes.get_window_extent().containsx(box.x1)
