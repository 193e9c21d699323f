"""The leaderboard as a figure, the families of methods, and what all figures beyond the paper have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest

from datasets.common.errors import DataError
from reports.boards import family_of
from reports.drawing.layout import draw, render
from reports.drawing.styles import FAMILY_STYLES
from reports.figures import leaderboard as leaderboards
from reports.figures import ranking as breakdown
from reports.figures import tradeoffs
from reports.inputs import Inputs
from reports.outputs import Missing
from tests.support.made_runs import keep, rounds, run, sliced
from tests.support.seen import dots, inscriptions, panels


def test_a_method_that_nobody_knows_is_federated_where_its_homes_send_and_other_elsewhere():
    assert family_of(run("mf")) == "user-item"
    assert family_of(run("popularity")) == "non-personalized"
    assert family_of(run("fedrule")) == "federated"  # also of a version that did not say what is sent
    assert family_of(run("toy")) == "other"
    assert family_of(run("toy", history=rounds(1))) == "federated"


@pytest.fixture
def ranked(tmp_path):
    """ease and toy swing against each other and are tied; popularity is 0.2 lower in every home as ease is."""
    keep(tmp_path, "ease", 0.5)
    keep(tmp_path, "toy", 0.49, swing=-0.02)
    keep(tmp_path, "popularity", 0.3)
    return tmp_path


def test_the_leaderboard_has_the_best_method_on_top_and_numbers_its_groups(ranked):
    (axes,) = panels(leaderboards.intervals(Inputs.read(ranked))).values()
    assert axes.get_title("left") == "wyze-synthetic, 40 homes"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ease", "≈ toy", "popularity"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is the upper one
    assert inscriptions(axes) == ["1", "2"]
    styles = {"ease": "user-item", "toy": "other", "popularity": "non-personalized"}
    means = {"ease": 0.5, "toy": 0.49, "popularity": 0.3}
    expected = {(means[name], float(row)): _mark(styles[name]) for row, name in enumerate(styles)}
    assert dots(axes) == expected


def _mark(family):
    return FAMILY_STYLES[family].marker, FAMILY_STYLES[family].colour.lower()


def test_bars_are_the_intervals_of_the_leaderboard(ranked):
    """popularity is 0.28 or 0.32, in half of the homes each, so its mean over drawn homes lies between."""
    (axes,) = panels(leaderboards.intervals(Inputs.read(ranked))).values()
    bars = {line.get_ydata()[0]: line.get_xdata() for line in axes.lines if line.get_linestyle() == "-"}
    low, high = bars[2]
    # Of 40 homes, the same with both seeds: 0.3 +- 2.02 * 0.02 / sqrt(39) = 0.3 +- 0.0065.
    assert (low, high) == pytest.approx((0.3 - 0.0065, 0.3 + 0.0065), abs=0.0001)


def test_the_seeds_are_dots_below_their_bar(tmp_path):
    for seed, mean in enumerate((0.3, 0.5, 0.1)):
        keep(tmp_path, "ease", mean, seeds=(seed,))
    keep(tmp_path, "popularity", 0.2, seeds=(0,))  # one seed is no spread
    drawing = leaderboards.intervals(Inputs.read(tmp_path))
    (axes,) = panels(drawing).values()
    (seeds,) = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert sorted(seeds.get_xdata()) == [0.1, 0.3, 0.5]
    assert set(seeds.get_ydata()) == {leaderboards.BELOW}
    assert axes.get_xlim()[0] < 0.1
    assert "95 % interval over homes and seeds (over homes only in rows of one seed)" in drawing.layout.note


def test_the_leaderboards_caption_says_who_leads_by_how_much_and_who_is_tied(ranked):
    about = leaderboards.intervals(Inputs.read(ranked)).about
    # 0.5 - 0.49 = 0.01
    assert "ease leads with 0.5000" in about.caption
    assert "0.0100 ahead of toy; it cannot be told apart from toy." in about.caption
    assert len(about.sources) == 6
    keep(ranked, "graphrank", 0.9)
    caption = leaderboards.intervals(Inputs.read(ranked)).about.caption
    assert "0.4000 ahead of ease, a significant difference." in caption


def test_many_that_cannot_be_told_apart_are_counted_in_the_caption(tmp_path):
    keep(tmp_path, "ease", 0.5)
    for number in range(leaderboards.MAX_NAMED + 1):
        keep(tmp_path, f"toy-{number}", 0.49, swing=-0.02)
    keep(tmp_path, "popularity", 0.3)
    caption = leaderboards.intervals(Inputs.read(tmp_path)).about.caption
    # Nine of them, and popularity is told apart.
    assert caption.endswith("; it cannot be told apart from 9 of 10 others.")


def test_one_common_seed_does_not_tell_the_leader_from_the_next(tmp_path):
    keep(tmp_path, "ease", 0.5, seeds=(0, 1))
    keep(tmp_path, "popularity", 0.3, seeds=(1,))
    caption = leaderboards.intervals(Inputs.read(tmp_path)).about.caption
    assert "0.2000 ahead of popularity, but on one seed only." in caption


def test_other_settings_are_left_out_of_a_long_leaderboard_with_a_note(ranked):
    for number in range(leaderboards.MAX_ROWS - 3):
        keep(ranked, "ease", 0.2, parameters={"regularization": 1000.0 + number})
    full = leaderboards.intervals(Inputs.read(ranked))
    assert not full.about.notes
    keep(ranked, "ease", 0.2, parameters={"regularization": 99.0})
    short = leaderboards.intervals(Inputs.read(ranked))
    (axes,) = panels(short).values()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ease", "≈ toy", "popularity"]
    assert "12 more rows" in short.about.notes[0]
    assert full.layout.height > short.layout.height


def test_each_further_data_set_has_a_panel_of_its_own(ranked):
    keep(ranked, "ease", 0.2, data="ifttt-synthetic")
    keep(ranked, "ease", 0.2, data="their-data")
    drawing = leaderboards.intervals(Inputs.read(ranked))
    titles = ["wyze-synthetic, 40 homes", "ifttt-synthetic, 40 homes", "their-data, 40 homes"]
    assert list(panels(drawing)) == titles
    assert "nothing else was run there" in drawing.about.caption
    assert "ifttt-synthetic: 2 seeds" in drawing.layout.note


def test_all_lists_of_the_findings_are_drawn_and_single_devices_say_so(ranked):
    keep(ranked, "ease", 0.2, track="instances")
    for data in ("ifttt-fedrule", "ifttt-synthetic", "home-assistant"):
        keep(ranked, "ease", 0.2, data=data)
    keep(ranked, "ease", 0.2, data="home-assistant", track="instances", seeds=(0,))
    drawing = leaderboards.intervals(Inputs.read(ranked))
    assert [title.replace(", 40 homes", "") for title in panels(drawing)] == [
        *("wyze-synthetic", "ifttt-fedrule", "ifttt-synthetic", "home-assistant"),
        *("wyze-synthetic, single devices", "home-assistant, single devices"),
    ]
    assert "home-assistant: 2 seeds" in drawing.layout.note
    assert "home-assistant, single devices: 1 seed" in drawing.layout.note


def test_lists_of_less_than_half_of_the_methods_are_left_out_with_a_note(tmp_path):
    split = {"split": "new_homes"}
    for method in ("ease", "mf", "popularity"):
        keep(tmp_path, method, 0.3, split=split)
        keep(tmp_path, method, 0.3, split=split, track="instances")
    keep(tmp_path, "ease", 0.3, split=split, data="home-assistant", track="instances")
    drawing = leaderboards.unseen_homes(Inputs.read(tmp_path))
    assert list(panels(drawing)) == ["wyze-synthetic, 40 homes", "wyze-synthetic, 40 homes, single devices"]
    note = "Not drawn: home-assistant, single devices, with 1 method where the longest list has 3."
    assert note in drawing.about.notes


def test_a_leaderboard_never_mixes_data(ranked):
    keep(ranked, "mf", 0.2, fingerprint="e" * 16)
    with pytest.raises(DataError, match="different data"):
        leaderboards.intervals(Inputs.read(ranked))


def test_other_data_that_is_mixed_does_not_take_the_main_data_with_it(ranked):
    keep(ranked, "ease", 0.2, data="their-data", fingerprint="d" * 16)
    keep(ranked, "mf", 0.2, data="their-data", fingerprint="e" * 16)
    drawing = leaderboards.intervals(Inputs.read(ranked))
    assert list(panels(drawing)) == ["wyze-synthetic, 40 homes"]
    assert drawing.about.notes[0].startswith("Left out: their-data: results of different data cannot be compared")


def test_a_board_whose_tables_are_gone_is_left_out_with_a_note(ranked):
    keep(ranked, "ease", 0.2, data="ifttt-synthetic")
    inputs = Inputs.read(ranked)
    for lost in ranked.glob("*.homes.parquet"):
        if any(f"{each.key.hash}." in lost.name for each in inputs.runs if each.key.data == "ifttt-synthetic"):
            lost.unlink()
    drawing = leaderboards.intervals(inputs)
    assert list(panels(drawing)) == ["wyze-synthetic, 40 homes"]
    assert drawing.about.notes[0].startswith("Left out: ifttt-synthetic")


def test_the_same_runs_draw_the_same_bytes(ranked):
    one, two = (leaderboards.intervals(Inputs.read(ranked)) for _ in range(2))
    assert render(draw(one.layout), ".svg") == render(draw(two.layout), ".svg")


@pytest.mark.parametrize(
    "make",
    [leaderboards.intervals, tradeoffs.time, tradeoffs.bytes_sent, breakdown.sizes],
    ids=lambda make: make.__name__,
)
def test_a_figure_without_runs_says_what_to_run(make):
    with pytest.raises(Missing) as missing:
        make(Inputs())
    assert missing.value.command.startswith("python -m benchmarks run")


def test_both_layouts_can_be_written():
    runs = [sliced("ease"), sliced("graphrule"), run("fedrule", history=rounds(2))]
    timed = [replace(each, seconds={"fit": 1.0 + number}) for number, each in enumerate(runs)]
    for make in (tradeoffs.time, tradeoffs.bytes_sent, breakdown.sizes):
        drawing = make(Inputs(tuple(timed)))
        for phone in (False, True):
            assert render(draw(drawing.layout, phone=phone), ".png").startswith(b"\x89PNG")
