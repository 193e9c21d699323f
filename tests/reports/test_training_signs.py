"""Rows with a seed whose training went wrong have a sign in every figure, table and text that shows their numbers."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from datasets.common.training_warnings import TrainingWarning
from reports.boards import main_lists
from reports.drawing.layout import draw
from reports.figures import by_round, leaderboard, ranking, tradeoffs
from reports.inputs import WYZE, Inputs
from reports.tables.results import final_results
from reports.tables.results import leaderboard as board_table
from reports.text.formats import NONE, as_csv, as_html, as_latex, as_markdown
from reports.text.summary import summary
from tests.support.made_runs import keep, rounds, run, sliced
from tests.support.seen import panels

DIVERGED = TrainingWarning("diverged", 41, 1, "training diverged in round 41 of 100; the model is its last good one")
FEW = TrainingWarning("few refused", 2, 7, "7 of 100 updates were NaN or infinite and refused")
STATUS = "1 of 5 seeds diverged (seed 3, round 41) and counts with its last good model"
NOTE = f"† fedrule on wyze-synthetic: {STATUS}."


def five_seeds(folder, method, mean, **other):
    """Of which seed 3 diverged where the method is fedrule."""
    for seed in range(5):
        warnings = (DIVERGED, FEW) if method == "fedrule" and seed == 3 else ()
        keep(folder, method, mean, seeds=(seed,), warnings=warnings, history=rounds(3), **other)


@pytest.fixture
def inputs(tmp_path):
    five_seeds(tmp_path, "fedrule", 0.4)
    five_seeds(tmp_path, "graphrule", 0.3)
    return Inputs.read(tmp_path)


@pytest.fixture
def healthy(tmp_path):
    five_seeds(tmp_path / "healthy", "fedgnn", 0.4)
    five_seeds(tmp_path / "healthy", "graphrule", 0.3)
    return Inputs.read(tmp_path / "healthy")


def drawings(inputs):
    yield leaderboard.intervals(inputs)
    yield tradeoffs.time(inputs)
    yield tradeoffs.bytes_sent(inputs)
    yield ranking.federated(inputs, WYZE)


def test_every_figure_has_the_sign_in_its_caption_and_says_what_it_means(inputs):
    for drawing in drawings(inputs):
        assert drawing.about.caption.endswith(NOTE)
        assert drawing.layout.note.endswith(NOTE)
        number = drawing.about.caption.removesuffix(NOTE)
        assert "†" in number  # beside the number as well


def test_without_such_a_seed_there_is_no_sign_anywhere(healthy):
    for drawing in drawings(healthy):
        assert "†" not in drawing.about.caption + drawing.layout.note + "".join(drawing.layout.styles)
    table = board_table(healthy)
    assert not any("†" in form(table) for form in (as_csv, as_markdown, as_html))
    assert {row[-1].text for row in table.rows} == {""}
    assert "†" not in str(summary(*main_lists(healthy)))


def test_the_row_of_the_board_has_a_hollow_dot_a_dashed_bar_and_a_sign(inputs):
    (axes,) = panels(leaderboard.intervals(inputs)).values()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fedrule †", "graphrule"]
    dots = {line.get_ydata()[0]: line.get_markerfacecolor() for line in axes.lines if len(line.get_xdata()) == 1}
    assert (dots[0] == "white", dots[1] == "white") == (True, False)
    bars = {line.get_ydata()[0]: line.is_dashed() for line in axes.lines if len(line.get_xdata()) == 2}
    assert bars == {0: True, 1: False}


def test_a_line_of_hit_rates_ends_with_a_cross_and_its_label_has_the_sign(inputs):
    drawing = ranking.federated(inputs, WYZE)
    assert sorted(drawing.layout.styles) == ["fedrule †", "graphrule"]
    (axes,) = draw(drawing.layout).axes
    assert len([line for line in axes.lines if line.get_marker() == "x"]) == 1


def test_dots_by_home_size_are_hollow():
    runs = [replace(sliced("graphrule", seed), warnings=(DIVERGED,) if seed == 1 else ()) for seed in (0, 1)]
    drawing = ranking.sizes(Inputs((*runs, sliced("mf"), sliced("mf", 1))))
    assert "† graphrule on wyze-synthetic: 1 of 2 seeds diverged (seed 1, round 41)" in drawing.about.caption
    assert list(drawing.layout.styles) == ["graphrule †", "mf"]
    hollow = [line for line in draw(drawing.layout).axes[0].lines if line.get_markerfacecolor() == "white"]
    assert hollow


def test_curves_by_round_have_the_sign_in_legend_and_caption():
    values = {f"{part}_{name}": 0.5 for part in ("train", "test") for name in ("loss", "auc", "mr")}
    history = [{"round": float(number), **values} for number in (1, 2)]
    measured = {"protocol": "paper", "curves": 1, "history": history}
    runs = run("fedrule", warnings=(DIVERGED,), **measured), run("fedgnn", **measured)
    drawing = by_round.federated(Inputs(runs), WYZE)
    assert list(drawing.layout.styles) == ["fedgnn", "fedrule †"]
    assert drawing.about.caption.startswith("Test AUC at the end: fedgnn 0.500, fedrule 0.500†.")
    status = "1 of 1 seed diverged (seed 0, round 41) and counts with its last good model"
    said = f"† fedrule on wyze-synthetic, 40 homes: {status}."
    assert drawing.about.caption.endswith(said)
    assert drawing.layout.note.endswith(said)
    crosses = [line for axes in draw(drawing.layout).axes for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == 6  # one in each panel


def test_the_table_has_the_sign_in_every_form_and_the_status_in_words(inputs):
    table = board_table(inputs)
    first, second = table.rows
    assert first[3].text.startswith("0.4000† [")
    assert (first[-1].text, second[-1].text) == (STATUS, "")
    assert table.about.notes[0] == NOTE
    for form in (as_markdown, as_html):
        assert form(table).count("†") == 1
    assert as_latex(table).count(r"0.4000$\dagger$") == 1
    first, second = csv.DictReader(as_csv(table).splitlines())
    assert float(first["MRR"]) == pytest.approx(0.4)  # for programs, without the sign
    assert (first["status"], second["status"]) == (STATUS, "")


def test_final_results_have_the_sign_beside_every_number(tmp_path):
    values = {name: [0.5] * 40 for name in ("loss", "auc", "mr", "mr_rt")}
    for seed in range(2):
        keep(tmp_path, "fedrule", values, seeds=(seed,), protocol="paper", warnings=(DIVERGED,) if seed else ())
        keep(tmp_path, "graphrule", values, seeds=(seed,), protocol="paper")
    table = final_results(Inputs.read(tmp_path), WYZE)
    rows = {row[0].text: [cell.text for cell in row] for row in table.rows if row[1].text == "here"}
    assert sum("†" in text for text in rows["fedrule"]) == 4
    assert rows["fedrule"][6] == NONE
    assert not any("†" in text for text in rows["graphrule"])
    assert table.about.notes[0].startswith("† fedrule on wyze-synthetic: 1 of 2 seeds diverged (seed 1, round 41)")
    assert "fedrule AUC 0.500†" in table.about.caption


def test_the_summary_has_the_sign_beside_its_numbers_and_the_note_in_its_details(inputs):
    best, _, cost = summary(*main_lists(inputs))
    assert "(40 homes, MRR 0.400†)" in best.sentence
    assert NOTE in best.details
    assert "of graphrule's MRR†" in cost.sentence
    assert "fedrule has 0.400† against 0.300 of graphrule" in cost.details[0]
