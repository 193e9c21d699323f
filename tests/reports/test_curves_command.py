"""The figure of curves by round: what is drawn, what is said about it, and that it is the same every time."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.markers import MarkerStyle

from benchmarks.results.store import Key, Result, Store
from datasets.common.training_warnings import training_warnings
from reports.curves import main
from reports.drawing.curves import MAX_LINES, METRICS, curves_layout, rows
from reports.drawing.layout import draw, render
from reports.drawing.styles import COLOURS, line_styles

TABLE = pd.DataFrame({"user": ["a"]})
VALUES = {"loss": (0.8, 0.4, 0.2), "auc": (0.5, 0.7, 0.9), "mr": (9.0, 5.0, 3.0)}
ROUNDS = (1, 10, 20)


def run(method="toy-a", seed=0, *, rounds=ROUNDS, planned=20, protocol="paper", curves=10, homes=80, **values):
    """A run of a method that nobody knows, which announced 20 rounds and was measured after `rounds`.

    `values` of test instead of VALUES; without `planned` the method has no parameter for its rounds.
    """
    key = Key(
        method=method,
        parameters={"rounds": planned},
        data="wyze-synthetic",
        data_options={"homes": homes},
        fingerprint=f"{homes:016x}",
        track="types",
        split={"split": "holdout", "seed": seed, "fraction": 0.2, "validation": True},
        protocol=protocol,
        seed=seed,
        curves=curves,
    )
    measured = {f"test_{name}": of for name, of in (VALUES | values).items() if of is not None}
    history = [
        {"round": float(done), "loss": 1.0, **{name: of[number] for name, of in measured.items()}}
        for number, done in enumerate(rounds)
    ]
    warnings = tuple(training_warnings(history, 20))
    return Result(key, warnings=warnings, history=history, counts={"homes": homes})


def figure(shown, **options):
    """Rows as a figure."""
    return draw(curves_layout([("test", row) for row in shown], **options))


def drawn(runs, **options):
    """The panels of a figure, by their metrics, for one data set."""
    return dict(zip(METRICS, figure(rows(runs, "test"), **options).axes, strict=True))


def lines(panel):
    """Its lines without the crosses: rounds and values of each."""
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in panel.lines if line.get_marker() != "x"]


def crosses(panel):
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in panel.lines if line.get_marker() == "x"]


@pytest.fixture
def kept(tmp_path):
    """A folder with two methods on one data set and one of them on a smaller one."""
    store = Store(tmp_path / "kept")
    for each in (run(), run(seed=1, loss=(0.9, 0.5, 0.3)), run("toy-b", loss=None), run(homes=40)):
        store.save(each, TABLE, TABLE)
    return store.folder


def test_a_line_is_the_mean_over_seeds_and_its_band_goes_from_the_smallest_to_the_largest():
    panel = drawn([run(loss=(0.8, 0.4, 0.2)), run(seed=1, loss=(1.0, 0.4, 0.6))])["loss"]
    ((rounds, values),) = lines(panel)
    assert rounds == [1, 10, 20]
    assert values == pytest.approx([0.9, 0.4, 0.4])  # (0.8 + 1.0) / 2, (0.4 + 0.4) / 2, (0.2 + 0.6) / 2
    (band,) = panel.collections
    corners = band.get_paths()[0].vertices
    assert sorted(set(corners[corners[:, 0] == 20][:, 1])) == [0.2, 0.6]


def test_one_seed_has_no_band_and_the_figure_says_so():
    shown = rows([run()], "test")
    picture = figure(shown)
    assert not any(panel.collections for panel in picture.axes)
    assert [text.get_text() for text in picture.texts] == [
        "wyze-synthetic, 80 homes, types, holdout, paper: 1 seed",
        "Line: one seed.",
    ]


def test_titles_say_how_many_seeds_the_lines_are_of():
    runs = [run(), run(seed=1), run("toy-b"), run("toy-b", homes=40), run("toy-b", 1, homes=40)]
    layout = curves_layout([("test", row) for row in rows(runs, "test")])
    headings = [block.heading for block in layout.blocks]
    assert [(each.split(",")[1].split(":")[0], each.rpartition(": ")[2]) for each in headings] == [
        (" 40 homes", "2 seeds"),
        (" 80 homes", "1 to 2 seeds"),
    ]


def test_a_run_that_ended_early_has_a_cross_and_counts_on_with_its_last_model():
    early = run(seed=1, rounds=(1, 6), loss=(0.8, 0.1), auc=(0.5, 0.9), mr=(9.0, 2.0))
    panels = drawn([run(), early])
    assert crosses(panels["auc"]) == [(6, 0.9)]
    ((rounds, values),) = lines(panels["auc"])
    assert rounds == [1, 6, 10, 20]
    # The other seed in round 6: 0.5 + (0.7 - 0.5) 5/9 = 0.6111. Means: (0.6111 + 0.9) / 2, (0.7 + 0.9) / 2, 0.9.
    assert values == pytest.approx([0.5, 0.7556, 0.8, 0.9], abs=1e-4)
    picture = figure(rows([run(), early], "test"))
    said = " ".join(picture.texts[-1].get_text().split())
    assert "Cross: the end of a run that went wrong" in said
    ended = "1 of 2 seeds ended before the last round, without a reason given (seed 1, round 6)"
    assert said.endswith(f"† toy-a on wyze-synthetic, 80 homes: {ended}.")
    assert [text.get_text() for text in picture.legends[0].get_texts()] == ["toy-a †"]


def test_a_line_whose_seeds_all_ended_early_ends_with_them():
    panel = drawn([run(rounds=(1, 6), loss=(0.8, 0.7))])["loss"]
    assert lines(panel) == [([1, 6], [0.8, 0.7])]
    assert crosses(panel) == [(6, 0.7)]


def test_a_loss_that_diverged_does_not_flatten_the_others():
    away = run("toy-b", rounds=(1, 6), loss=(0.8, 1e6))
    panel = drawn([run(), away])["loss"]
    top = panel.get_ylim()[1]
    assert 0.8 < top < 1.2
    assert crosses(panel) == [(6, top)]  # on the edge
    alone = drawn([away])["loss"]
    assert alone.get_ylim()[1] > 1e6
    assert crosses(alone) == [(6, 1e6)]


def test_a_method_without_a_parameter_for_its_rounds_ended_early_where_it_had_announced_more():
    assert crosses(drawn([run(planned=None), run(seed=1, planned=None, rounds=(1, 10))])["auc"]) == [(10, 0.7)]


def test_only_numbers_that_span_more_than_ten_are_drawn_by_their_logarithms():
    panels = drawn([run(loss=(2.0, 1.0, 0.2), mr=(21.0, 5.0, 2.0))])  # 2 / 0.2 = 10 is not more than 10
    assert {metric: panel.get_yscale() for metric, panel in panels.items()} == {
        **{"loss": "linear", "auc": "linear", "mr": "log"}
    }
    assert drawn([run(loss=(2.1, 1.0, 0.2))])["loss"].get_yscale() == "log"
    assert drawn([run(loss=(2.1, 1.0, 0.0))])["loss"].get_yscale() == "linear"  # 0 has no logarithm


def test_what_was_not_measured_is_left_out_and_a_panel_without_lines_says_so():
    assert len(lines(drawn([run(), run("toy-b", loss=None)])["loss"])) == 1
    panel = drawn([run(loss=None)])["loss"]
    assert not panel.lines
    assert [text.get_text() for text in panel.texts] == ["not measured"]
    gone = drawn([run(loss=(0.8, math.inf, math.nan))])["loss"]
    assert lines(gone) == [([1], [0.8])]


def test_a_fit_that_was_evaluated_twice_is_drawn_once_as_it_was_measured_most_often():
    often = run(curves=5, rounds=(1, 5, 10, 20), loss=(4, 3, 2, 1), auc=(0.5,) * 4, mr=(2.0,) * 4)
    (row,) = rows([run(), often, run(protocol="ranking")], "test")
    ((drawn_run,),) = [line.runs for line in row.lines]
    assert drawn_run.curve("loss").tolist() == [[1, 4], [5, 3], [10, 2], [20, 1]]


def test_the_same_runs_give_the_same_bytes_in_any_order():
    runs = [run(), run(seed=1, rounds=(1, 6)), run("toy-b")]
    for suffix in (".svg", ".png", ".pdf"):
        first, second = (render(figure(rows(each, "test"), metrics=["loss"]), suffix) for each in (runs, runs[::-1]))
        assert first == second
        assert len(first) > 10_000
        assert b"<dc:date>" not in first
        assert b"CreationDate" not in first


def test_no_two_lines_look_the_same_and_settings_look_alike_in_all_methods():
    methods = [*[*COLOURS][:10], "toy-a", "toy-b"]
    assert len(set(line_styles({method: method for method in methods}).values())) == MAX_LINES
    assert len(set(line_styles({f"fedrule (rounds={n})": "fedrule" for n in range(MAX_LINES)}).values())) == MAX_LINES
    both = line_styles({f"{name}{how}": name for name in ("fedgnn", "fedrule") for how in ("", " (rounds=5)")})
    assert both["fedgnn"].dash == both["fedrule"].dash == (0, ())
    assert both["fedgnn (rounds=5)"].dash == both["fedrule (rounds=5)"].dash != (0, ())
    assert both["fedgnn"].colour == both["fedgnn (rounds=5)"].colour != both["fedrule"].colour
    for style in both.values():
        assert to_hex(style.colour) == style.colour.lower()
        MarkerStyle(style.marker)


@pytest.mark.parametrize("metrics", [("auc",), ("loss", "auc", "mr")])
def test_no_text_is_cut_off_and_none_lies_on_another(metrics):
    long = "a-method-with-a-name-that-is-much-longer-than-any-reasonable-name-of-a-method-of-this-field"
    runs = [run(f"{long}-{number}", seed, homes=homes) for number in range(4) for seed in (0, 1) for homes in (40, 80)]
    runs.append(run(f"{long}-4", rounds=(1, 6)))
    picture = figure(rows(runs, "test"), metrics=metrics)
    picture.savefig(io.BytesIO(), format="png", dpi=72)  # only then texts have their places
    page = picture.bbox
    (legend,) = picture.legends
    boxes = [text.get_window_extent() for text in picture.texts]
    boxes += [panel.get_tightbbox() for panel in picture.axes]
    boxes.append(legend.get_window_extent())
    for number, box in enumerate(boxes):
        assert page.x0 <= box.x0 < box.x1 <= page.x1, number
        assert page.y0 <= box.y0 < box.y1 <= page.y1, number
        assert not any(box.overlaps(other) for other in boxes[:number]), number


def test_the_command_writes_a_figure_of_the_lines_that_were_asked_for(kept, tmp_path, capsys):
    out = tmp_path / "figures" / "federated.svg"
    assert main(["--results", str(kept), "--out", str(out), "--data", "wyze-synthetic", "--metric", "auc,mr"]) == 0
    everything = out.read_bytes()
    assert everything.startswith(b"<?xml")
    assert main(["--results", str(kept), "--out", str(out), "--methods", "toy-a", "--line", "toy-b"]) == 0
    both = out.read_bytes()
    assert main(["--results", str(kept), "--out", str(out), "--line", "toy-b"]) == 0
    assert len({everything, both, out.read_bytes()}) == 3
    assert capsys.readouterr().out == ""
    assert len(rows([run(), run("toy-b")], "test", lines=["toy-b"])[0].lines) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "acu"], "unknown metric 'acu'; did you mean 'auc'? Known: auc, loss, mr"),
        (["--part", "tests"], "unknown part 'tests'; did you mean 'test'? Known: test, train, validation"),
        (["--part", "train"], "none of the 4 runs here was measured by round on train"),
        (["--data", "wyze-sinthetic"], "unknown data set 'wyze-sinthetic'; did you mean 'wyze-synthetic'?"),
        (["--methods", "toy-x"], "unknown method 'toy-x'; did you mean 'toy-b'? Known: toy-a, toy-b"),
        (["--line", "toy-a (x=1)"], "unknown line 'toy-a (x=1)'; did you mean 'toy-a'? Known: toy-a, toy-b"),
        (["--out", "curves.jpg"], "--out curves.jpg: must end in .svg, .pdf, .png"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(kept, tmp_path, capsys, options, message):
    assert main(["--results", str(kept), "--out", str(tmp_path / "curves.png"), *options]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "curves.png").exists()


def test_results_without_curves_are_answered_with_how_to_get_some(tmp_path, capsys):
    store = Store(tmp_path / "kept")
    store.save(replace(run(), history=[{"round": 1.0, "loss": 1.0, "test_own": 2.0}]), TABLE, TABLE)
    store.save(replace(run("toy-b"), history=[]), TABLE, TABLE)
    for folder, number in ((store.folder, 2), (tmp_path / "none", 0)):
        assert main(["--results", str(folder), "--out", str(tmp_path / "curves.png")]) == 1
        said = capsys.readouterr().err
        assert f"none of the {number} runs here was measured by round on test" in said
        assert "`python -m benchmarks run federated --curves 10`" in said


def test_too_many_lines_are_answered_with_how_to_choose():
    runs = [run(f"toy-{number:02}") for number in range(MAX_LINES + 1)]
    with pytest.raises(
        ValueError, match=r"13 lines are too many .* choose methods with --methods A,B, or lines with --line"
    ):
        rows(runs, "test")
    (row,) = rows(runs, "test", methods=["toy-03"], lines=["toy-01"])
    assert [line.label for line in row.lines] == ["toy-01", "toy-03"]
    assert np.array_equal(row.lines[0].runs[0].curve("mr"), np.column_stack([ROUNDS, VALUES["mr"]]))
