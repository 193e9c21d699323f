"""How fitting grows with the number of homes: what is drawn of measurements and runs, and what is said about it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest

from datasets.common.errors import DataError
from reports.drawing.layout import draw, render
from reports.figures.scaling import GREY, MAX_LABELS, quality, scaling, scaling_memory
from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.scaling import by_homes
from tests.support import made_runs
from tests.support.speeds import drawn, speed


def fit(method, homes, seconds=1.0, megabytes=100.0, **more):
    name = f"test_fit[{homes}-{method}]"
    found = speed(
        name, f"benchmarks/speed/test_fit.py::{name}", seconds=seconds, homes=homes, peak_megabytes=megabytes, **more
    )
    return replace(found, params={"name": method, "size": homes})


def one_round(homes, seconds):
    name = f"test_growth_of_a_fedrule_round[{homes}]"
    return speed(name, f"benchmarks/speed/test_federated.py::{name}", seconds=seconds, homes=homes, peak_megabytes=9.0)


def run(homes, seconds, *, method="toy-a", fingerprint="", code="1", seed=0):
    measured = {"seconds": {"fit": seconds}, "memory": {"fit": 50.0}, "counts": {"homes": homes}, "code": code}
    fingerprint = fingerprint or f"{homes:016x}"
    return made_runs.run(method, seed, options={"homes": homes}, fingerprint=fingerprint, **measured)


def lines(axes):
    """Without those that lead to the names, and those of other families."""
    found = [line for line in axes.lines if line.get_marker() != "None"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in found]


def names(axes):
    return {text.get_text().strip() for text in axes.texts}


# 2 s with 100 homes and 50 s with 10,000 are 25 times as much for twice ten times the homes: 5 for each.
# 100 MB and 400 MB: 4 times, 2 for each.
EASE = (fit("ease", 100, 2.0, 100.0), fit("ease", 10_000, 50.0, 400.0), fit("ease", 1_000, 7.0, 150.0))


def test_a_line_has_the_seconds_and_megabytes_of_a_method_and_its_growth_per_ten_times_the_homes():
    drawing, of_memory = scaling(Inputs(speeds=EASE)), scaling_memory(Inputs(speeds=EASE))
    (seconds,), (megabytes,) = drawn(drawing).axes, drawn(of_memory).axes
    assert lines(seconds) == [([100, 1_000, 10_000], [2.0, 7.0, 50.0])]
    assert lines(megabytes) == [([100, 1_000, 10_000], [100.0, 150.0, 400.0])]
    assert names(seconds) == {"ease x5"}
    assert names(megabytes) == {"ease x2"}
    growth = "Per ten times the homes, the {} to fit grows by a factor of {} (ease, 100 to 10,000 homes)."
    assert drawing.about.caption == growth.format("time", 5)
    assert of_memory.about.caption == growth.format("memory", 2)
    assert drawing.about.sources == ("speed/m/0001_default.json",)


def test_families_have_panels_of_their_own_and_an_unknown_method_is_shown_like_any_other():
    speeds = [fit(method, homes) for method in ("ease", "graphrule", "my-own") for homes in (100, 1_000)]
    drawing = scaling(Inputs(speeds=(*speeds, one_round(100, 1.0), one_round(1_000, 20.0))))
    (block,) = drawing.layout.blocks
    assert [panel.title for panel in block.panels] == [
        "User-item, non-personalized",
        "Graph",
        "Federated",
        "Other methods",
    ]
    # 1 s and 20 s for one time ten times the homes.
    panels = drawn(drawing).axes
    assert [names(axes) for axes in panels] == [
        {"ease x1"},
        {"graphrule x1"},
        {"fedrule, 1 round x20"},
        {"my-own x1"},
    ]
    # The three lines of the other families are behind those of each panel.
    assert [sum(line.get_color() == GREY for line in axes.lines) for axes in panels] == [3, 3, 3, 3]


def test_random_order_and_probes_are_not_drawn_and_a_name_has_the_colour_of_its_line():
    others = [fit(method, homes, 1e-4) for method in ("random", "orphans") for homes in (100, 1_000)]
    drawing = scaling(Inputs(speeds=(*EASE, *others)))
    (axes,) = drawn(drawing).axes
    assert names(axes) == {"ease x5"}
    assert "Not drawn, since they learn nothing: orphans, random." in drawing.about.notes
    (line,) = [line for line in axes.lines if line.get_marker() != "None"]
    assert [text.get_color() for text in axes.texts] == [line.get_color()]
    assert drawing.layout.note.startswith("Times: of the fastest fit, of one to three.")


def test_more_lines_than_fit_go_on_in_another_panel():
    speeds = [fit(f"method-{n:02d}", homes) for n in range(MAX_LABELS + 1) for homes in (100, 1_000)]
    (block,) = scaling(Inputs(speeds=tuple(speeds))).layout.blocks
    assert [panel.title for panel in block.panels] == ["Other methods", "Other methods, continued"]


def test_times_of_another_machine_or_scale_are_left_out():
    elsewhere = (fit("ease", 100, 9.0, machine="another"), fit("mf", 100, scale="smoke"), fit("mf", 300, scale="smoke"))
    drawing = scaling(Inputs(speeds=(*EASE, *elsewhere)))
    assert names(drawn(drawing).axes[0]) == {"ease x5"}
    assert "Measured at scale default on a machine." in drawing.about.notes


def test_what_was_not_measured_at_the_largest_size_is_said_and_one_size_has_no_factor():
    drawing = scaling(Inputs(speeds=(*EASE, fit("mf", 100, 1.0))))
    assert names(drawn(drawing).axes[0]) == {"ease x5", "mf"}
    assert any(
        note.startswith("Not measured with 10,000 homes") and note.endswith(": mf.") for note in drawing.about.notes
    )


def test_a_round_measured_with_more_homes_makes_no_fit_look_short():
    drawing = scaling(Inputs(speeds=(*EASE, one_round(1_000, 1.0), one_round(100_000, 9.0))))
    assert not any(note.startswith("Not measured") for note in drawing.about.notes)


def test_a_round_is_no_fit_in_the_caption_and_each_line_has_its_own_sizes():
    # 1 s and 9 s for twice ten times the homes are 3 for each; 9 MB stay 9 MB. mf: 1 s and 2 s, 100 MB and 300 MB.
    others = (fit("mf", 100, 1.0, 100.0), fit("mf", 1_000, 2.0, 300.0), one_round(1_000, 1.0), one_round(100_000, 9.0))
    inputs = Inputs(speeds=(*EASE, *others))
    assert scaling(inputs).about.caption == (
        "Per ten times the homes, the time to fit grows by a factor of 2 (mf, 100 to 1,000 homes) to 5 (ease, 100 to "
        "10,000 homes). For a single round of fedrule, per ten times the homes, the time grows by a factor of 3 (1,000 "
        "to 100,000 homes)."
    )
    assert scaling_memory(inputs).about.caption == (
        "Per ten times the homes, the memory to fit grows by a factor of 2 (ease, 100 to 10,000 homes) to 3 (mf, 100 "
        "to 1,000 homes). For a single round of fedrule, per ten times the homes, the memory grows by a factor of 1 "
        "(1,000 to 100,000 homes)."
    )


def test_rounds_alone_have_a_caption():
    caption = scaling(Inputs(speeds=(one_round(100, 1.0), one_round(1_000, 4.0)))).about.caption
    assert caption.startswith("For a single round of fedrule, per ten times the homes, the time grows by a factor of 4")


def test_a_line_whose_sizes_are_close_has_no_factor_whatever_the_others_span():
    close = (fit("mf", 100, 1.0), fit("mf", 300, 2.0), fit("single", 100))
    note = "Sizes less than ten times apart, so without a factor: {}."
    drawing = scaling(Inputs(speeds=(*EASE, *close)))
    assert note.format("mf") in drawing.about.notes
    assert names(drawn(drawing).axes[0]) == {"ease x5", "mf"}
    alone = scaling(Inputs(speeds=close[:2])).about
    assert note.format("all lines") in alone.notes
    assert alone.caption == "No line has sizes that are ten times apart to compare."
    assert not any("without a factor" in each for each in scaling(Inputs(speeds=EASE)).about.notes)


def test_times_of_milliseconds_are_said_to_be_too_short():
    notes = scaling(Inputs(speeds=(*EASE, fit("mf", 100, 0.009), fit("mf", 1_000, 2.0)))).about.notes
    assert "With times below 10 ms, which are mostly noise: mf." in notes


def test_a_growth_of_a_hundred_times_has_no_exponent():
    drawing = scaling(Inputs(speeds=(fit("mf", 100, 1.0), fit("mf", 1_000, 100.0))))
    assert names(drawn(drawing).axes[0]) == {"mf x100"}
    assert "a factor of 100 (mf" in drawing.about.caption


def test_numbers_that_have_no_logarithm_are_left_out():
    odd = (fit("mf", 100, 0.0, math.nan), fit("mf", 1_000, 1.0, math.inf), fit("mf", 10_000, 10.0, None))
    inputs = Inputs(speeds=(*EASE, *odd))
    (seconds,), (megabytes,) = drawn(scaling(inputs)).axes, drawn(scaling_memory(inputs)).axes
    assert ([1_000, 10_000], [1.0, 10.0]) in lines(seconds)
    assert names(megabytes) == {"ease x2"}


def test_without_measurements_runs_of_several_sizes_by_the_same_code_are_used():
    # The median of 1, 2 and 9 s is 2 s; 6 s with ten times the homes are 3 times as much.
    seeds = [run(100, seconds, seed=seed) for seed, seconds in enumerate((1.0, 9.0, 2.0))]
    inputs = Inputs(runs=(*seeds, run(1_000, 6.0), run(10_000, 1.0, code="edited")))
    drawing = scaling(inputs)
    (seconds,), (megabytes,) = drawn(drawing).axes, drawn(scaling_memory(inputs)).axes
    assert lines(seconds) == [([100, 1_000], [2.0, 6.0])]
    assert names(seconds) == {"toy-a x3"}
    assert names(megabytes) == {"toy-a x1"}
    assert len(drawing.about.sources) == 4


def test_runs_of_different_data_are_refused():
    with pytest.raises(DataError, match="different data"):
        scaling(Inputs(runs=(run(100, 1.0), run(100, 1.0, fingerprint="f" * 16, seed=1), run(1_000, 6.0))))


def test_without_two_sizes_it_is_missing_with_a_command():
    for inputs in (Inputs(), Inputs(speeds=EASE[:1]), Inputs(runs=(run(100, 1.0),))):
        with pytest.raises(Missing) as missing:
            scaling(inputs)
        assert missing.value.command == "pytest benchmarks/ --benchmark-only --scale default"


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_names_at_the_ends_of_lines_do_not_touch_and_stay_on_the_sheet(phone):
    speeds = [
        fit(f"a-method-with-a-very-long-name-{n}", homes, homes / 100)
        for n in range(MAX_LABELS)
        for homes in (100, 1_000)
    ]
    figure = drawn(scaling(Inputs(speeds=tuple(speeds))), phone=phone)
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == MAX_LABELS
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)
        assert not any(min(a.y1, b.y1) - max(a.y0, b.y0) > 2 for a, b in combinations(boxes, 2))


def test_the_same_measurements_in_another_order_give_the_same_bytes():
    first, second = (scaling(Inputs(speeds=each)) for each in (EASE, EASE[::-1]))
    assert render(draw(first.layout), ".svg") == render(draw(second.layout), ".svg")
    assert first.about == second.about


def sized(folder, method, values, **more):
    """Rankings of a method with 40 homes each, of data that says it has so many."""
    for homes, value in values.items():
        where = {"options": {"homes": homes}, "fingerprint": f"{homes:016x}", "counts": {"homes": homes}}
        made_runs.keep(folder, method, value, **where, **more)


@pytest.fixture
def by_size(tmp_path):
    """Two user-item methods and a graph method with 1,000 homes; one of each with 10,000."""
    sized(tmp_path, "ease", {1_000: 0.20, 10_000: 0.25})
    sized(tmp_path, "mf", {1_000: 0.22})
    sized(tmp_path, "graphrank", {1_000: 0.18, 10_000: 0.30})
    sized(tmp_path, "itemknn", {1_000: 0.10, 10_000: 0.12})
    return Inputs.read(tmp_path)


def test_quality_has_the_best_method_of_each_family_by_number_of_homes_and_the_others_grey(by_size):
    drawing = quality(by_size)
    (axes,) = drawn(drawing).axes
    assert names(axes) == {"ease 0.250", "graphrank 0.300"}
    grey = [list(line.get_xdata()) for line in axes.lines if line.get_color() == GREY]
    assert grey == [[1_000, 10_000], [1_000]]  # itemknn, mf
    assert drawing.about.caption == (
        "MRR on wyze-synthetic by number of homes: graphrank (graph) goes from 0.180 with 1,000 homes to 0.300 with "
        "10,000; ease (user-item) goes from 0.200 with 1,000 homes to 0.250 with 10,000."
    )
    assert len(drawing.about.sources) == 14  # 7 rows of 2 seeds


def test_quality_says_which_sizes_and_methods_are_missing(by_size):
    notes = quality(by_size).about.notes
    assert "Not run with 76,218 homes: `python -m benchmarks run sizes` does." in notes
    assert "Not run with 10,000 homes: mf." in notes


def test_a_size_whose_tables_are_gone_is_left_out_and_not_said_to_be_missing(tmp_path):
    sized(tmp_path, "ease", {1_000: 0.20, 10_000: 0.25, 76_218: 0.3})
    inputs = Inputs.read(tmp_path)
    for run in inputs.runs:
        if run.counts["homes"] == 10_000:
            (tmp_path / f"{run.key.hash}.homes.parquet").unlink()
    found = quality(inputs).about
    assert "from 0.200 with 1,000 homes to 0.300 with 76,218" in found.caption
    (note,) = found.notes
    assert note.startswith("Left out: wyze-synthetic")


def test_without_two_sizes_quality_is_missing_and_says_which_there_is(tmp_path):
    sized(tmp_path, "ease", {1_000: 0.2})
    with pytest.raises(Missing, match="at more than one size; there are runs with 1,000 homes") as missing:
        quality(Inputs.read(tmp_path))
    assert missing.value.command == "python -m benchmarks run sizes"
    with pytest.raises(Missing, match=r"at more than one size$"):
        quality(Inputs())


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_names_of_the_quality_figure_stay_on_the_sheet(by_size, phone):
    figure = drawn(quality(by_size), phone=phone)
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in figure.axes[0].texts)


def test_the_table_has_quality_and_cost_of_each_method_and_size(by_size):
    table = by_homes(by_size)
    rows = {(row[0].text, row[1].value): row for row in table.rows}
    assert len(rows) == 7
    assert rows["graphrank", 10_000][2].value == pytest.approx(0.30)
    assert rows["graphrank", 10_000][3].text == "1.5 s"  # of `made_runs`
    assert rows["mf", 1_000][3].text == "–"  # noqa: RUF001  one size: no line
    assert table.about.caption.startswith("4 methods on wyze-synthetic with 1,000, 10,000 homes")


def test_the_table_says_which_half_is_missing():
    table = by_homes(Inputs(speeds=EASE))
    assert [row[1].value for row in table.rows] == [100, 1_000, 10_000]
    assert "Missing: no method was ranked on wyze-synthetic at more than one size." in table.about.notes
    with pytest.raises(Missing, match="at more than one size; no method was timed"):
        by_homes(Inputs())
