"""The figure of learning rates: which runs it is made of, and how those that diverged are shown."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.results.store import Overrides
from datasets.common.training_warnings import training_warnings
from reports.drawing.layout import draw, render
from reports.figures.by_round import WRONG, learning_rates
from reports.inputs import Inputs
from reports.outputs import Missing
from tests.support import made_runs

PLANNED = 20


def run(rate, seed=0, *, method="toy", ended=PLANNED, curves=10, sends=True, settings=None, homes=40, **values):
    """A run of a method that nobody knows, with what it ended at."""
    last = {"round": float(ended)} | ({"sent_bytes": 8.0} if sends else {})
    summary = {"loss": 0.5, "auc": 0.9, "mr": 4.0} | values
    history = [{"round": 1.0}, last]
    return made_runs.run(
        method,
        seed,
        parameters={"learning_rate": rate, "rounds": PLANNED} | (settings or {}),
        overrides=Overrides({"learning_rate": rate} | (settings or {}), {"homes": homes}),
        options={"homes": homes},
        fingerprint=f"{homes:016x}",
        protocol="paper",
        curves=curves,
        summary=summary,
        history=history,
        warnings=tuple(training_warnings(history, PLANNED)),
        counts={"homes": homes},
    )


def panels(drawing):
    """Of the first data set, by what they measure."""
    return dict(zip(("loss", "auc", "mr"), draw(drawing.layout).axes, strict=False))


def line(axes):
    (found,) = [each for each in axes.lines if each.get_marker() != "x"]
    return [(float(x), float(y)) for x, y in zip(found.get_xdata(), found.get_ydata(), strict=True)]


def crosses(axes):
    return [(float(each.get_xdata()[0]), float(each.get_ydata()[0])) for each in axes.lines if each.get_marker() == "x"]


def test_a_line_is_the_mean_over_seeds_at_each_rate():
    runs = run(0.1, auc=0.9), run(0.1, 1, auc=0.7), run(1.0, auc=0.6), run(1.0, 1, auc=0.6)
    drawing = learning_rates(Inputs(runs))
    axes = panels(drawing)["auc"]
    # (0.9 + 0.7) / 2 = 0.8
    assert line(axes) == [(0.1, pytest.approx(0.8)), (1.0, pytest.approx(0.6))]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "1"]
    assert drawing.layout.blocks[0].heading.endswith("40 homes: 2 seeds")
    assert drawing.about.caption.endswith("toy 0.800 at rate 0.1 and 0.600 at 1.")
    assert "Cross" not in drawing.layout.note
    assert "gap" not in drawing.layout.note


def test_a_run_that_ended_early_has_a_cross_and_counts():
    drawing = learning_rates(Inputs((run(0.1), run(1.0, auc=0.2, ended=7))))
    axes = panels(drawing)["auc"]
    assert crosses(axes) == [(1.0, 0.2)]
    assert line(axes)[1] == (1.0, 0.2)
    assert f"1 of 2 runs of toy {WRONG}." in drawing.about.caption
    assert "Cross" in drawing.layout.note


def test_the_rank_of_a_run_that_ended_early_stays_in_its_panel_and_its_loss_may_leave():
    drawing = learning_rates(Inputs((run(0.1), run(1.0, loss=90.0, mr=40.0, ended=7))))
    assert panels(drawing)["mr"].get_ylim()[1] > 40
    loss = panels(drawing)["loss"]
    assert loss.get_ylim()[1] < 1  # the other's is 0.5
    assert crosses(loss) == [(1.0, loss.get_ylim()[1])]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_loss_that_is_no_number_is_a_cross_on_the_upper_edge(value):
    drawing = learning_rates(Inputs((run(0.1), run(1.0, loss=value))))
    axes = panels(drawing)["loss"]
    assert crosses(axes) == [(1.0, axes.get_ylim()[1])]
    assert line(axes) == [(0.1, 0.5), (1.0, pytest.approx(math.nan, nan_ok=True))]
    assert crosses(panels(drawing)["auc"]) == [(1.0, 0.9)]


def test_a_rate_at_which_one_seed_has_no_number_has_no_mean_of_the_others():
    runs = run(0.1), run(0.1, 1), run(1.0, loss=0.4), run(1.0, 1, loss=math.inf), run(9.0), run(9.0, 1)
    drawing = learning_rates(Inputs(runs))
    axes = panels(drawing)["loss"]
    assert [rate for rate, value in line(axes) if math.isnan(value)] == [1.0]  # a gap, not a line from 0.1 to 9
    assert crosses(axes) == [(1.0, axes.get_ylim()[1])]
    assert "wyze-synthetic: no loss, and so no mean, of toy at 1 (1 of 2 seeds)." in drawing.about.notes
    assert f"1 of 6 runs of toy {WRONG}." in drawing.about.caption
    assert "A line has a gap where a seed is not finite." in drawing.layout.note


def test_a_loss_that_diverged_does_not_flatten_the_others():
    axes = panels(learning_rates(Inputs((run(0.1, loss=0.5), run(1.0, loss=1e6, ended=3)))))["loss"]
    assert axes.get_ylim()[1] == pytest.approx(0.6)  # 1.2 * 0.5
    assert crosses(axes) == [(1.0, pytest.approx(0.6))]


def test_losses_of_many_sizes_are_drawn_as_logarithms():
    axes = panels(learning_rates(Inputs((run(0.1, loss=0.5), run(1.0, loss=500.0)))))["loss"]
    assert axes.get_yscale() == "log"


def test_only_federated_methods_with_several_rates_and_nothing_else_changed_are_shown():
    runs = [
        *(run(rate) for rate in (0.1, 1.0)),
        run(0.1, method="one-rate"),
        *(run(rate, method="central", sends=False) for rate in (0.1, 1.0)),
        *(run(0.1, method="more", settings={"steps": steps}) for steps in (1, 2)),
    ]
    drawing = learning_rates(Inputs(tuple(runs)))
    assert list(drawing.layout.styles) == ["toy"]
    assert len(drawing.about.sources) == 2


def test_rates_are_compared_among_fits_to_the_same_rules_only():
    """With curves a fit does without validation rules: a rate with and one without them are no comparison."""
    with pytest.raises(Missing) as missing:
        learning_rates(Inputs((run(0.1, curves=0), run(1.0))))
    assert missing.value.command.startswith("python -m benchmarks run")


def test_homes_of_another_number_are_another_place():
    runs = run(0.1), run(1.0), run(0.1, homes=80), run(1.0, homes=80)
    (block,) = learning_rates(Inputs(runs)).layout.blocks
    assert "80 homes" in block.heading


def test_homes_that_were_not_counted_are_left_out_of_the_heading():
    runs = [replace(run(rate), counts={}) for rate in (0.1, 1.0)]
    assert learning_rates(Inputs(tuple(runs))).layout.blocks[0].heading == "wyze-synthetic: 1 seed"


def test_a_metric_that_nobody_has_is_said_to_be_not_measured():
    runs = run(0.1, mr=math.nan), run(1.0, mr=math.nan)
    drawing = learning_rates(Inputs(runs))
    assert [text.get_text() for text in panels(drawing)["mr"].texts] == ["not measured"]
    assert "wyze-synthetic: no mr, and so no mean, of toy at all rates." in drawing.about.notes
    assert render(draw(drawing.layout, phone=True), ".svg") == render(draw(drawing.layout, phone=True), ".svg")
