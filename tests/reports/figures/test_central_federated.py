"""Central against federated in one figure: both dots of each pair, their intervals, and what federation keeps."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from reports.drawing.layout import draw
from reports.figures.formulations import CENTRAL, IN_HOMES, central_federated
from reports.inputs import Inputs
from reports.outputs import Missing
from tests.support.made_runs import keep


@pytest.fixture
def results(tmp_path):
    """Two pairs on smart homes, one of them on recipes too; mf has no twin there."""
    for method, mean in {"graphrank": 0.4, "fedrank": 0.3, "ease": 0.2, "fedease": 0.2, "mf": 0.1}.items():
        keep(tmp_path, method, mean)
    for method, mean in {"ease": 0.5, "fedease": 0.4}.items():
        keep(tmp_path, method, mean, data="ifttt-synthetic")
    return tmp_path


def drawn(results, *, phone=False):
    figure = draw(central_federated(Inputs.read(results)).layout, phone=phone)
    FigureCanvasAgg(figure)
    return figure


def dots(axes, style):
    """(row, value) of the dots of a style, from top to bottom."""
    marked = [line for line in axes.lines if line.get_marker() == style.marker]
    return sorted((round(float(line.get_ydata()[0])), float(line.get_xdata()[0])) for line in marked)


def test_each_pair_has_two_dots_in_its_row_and_rows_are_the_same_in_all_panels(results):
    smart, recipes = drawn(results).axes
    for axes in (smart, recipes):
        assert [label.get_text() for label in axes.get_yticklabels()] == ["ease, fedease", "graphrank, fedrank"]
    assert dots(smart, CENTRAL) == [(0, pytest.approx(0.2)), (1, pytest.approx(0.4))]
    assert dots(smart, IN_HOMES) == [(0, pytest.approx(0.2)), (1, pytest.approx(0.3))]
    assert dots(recipes, CENTRAL) == [(0, pytest.approx(0.5))]
    assert dots(recipes, IN_HOMES) == [(0, pytest.approx(0.4))]


def test_a_pair_has_the_share_that_it_keeps_in_bold_where_the_two_differ(results):
    smart, _ = drawn(results).axes
    # 0.2 / 0.2, and 0.3 / 0.4, less in every home.
    assert [(text.get_text(), text.get_weight()) for text in smart.texts] == [("100 %", "normal"), ("75 %", "bold")]


def test_the_caption_names_the_pairs_that_lose_most_and_least(results):
    about = central_federated(Inputs.read(results)).about
    assert about.caption.startswith(
        "On wyze-synthetic, 40 homes federated methods have 75 % (fedrank of graphrank) to 100 % (fedease of ease) of "
        "the MRR of their twins."
    )
    assert len(about.sources) == 14  # 7 rows of 2 seeds
    assert any(note.startswith("Home Assistant: no rankings on home-assistant") for note in about.notes)


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_names_and_titles_stay_on_the_sheet(results, phone):
    figure = drawn(results, phone=phone)
    for axes in figure.axes:
        for text in (*axes.get_yticklabels(), axes._left_title, *axes.texts):
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.x1


def test_without_a_pair_it_is_missing_with_a_command(tmp_path):
    keep(tmp_path, "ease", 0.2)
    with pytest.raises(Missing, match="no federated method was ranked beside its central twin") as missing:
        central_federated(Inputs.read(tmp_path))
    assert missing.value.command == "python -m benchmarks run rivals"
