"""The figures of hit rates and of training by round: which lines they have and what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.runs.experiment import method_parameters
from reports.drawing.layout import draw
from reports.figures import by_round
from reports.figures import ranking as hit_rates
from reports.inputs import INSTANCES, WYZE, Inputs
from reports.outputs import Missing
from tests.support.made_runs import run


def ranked(method, at_ten, *, seed=0, **more):
    """A run whose hit rate grows by a tenth of `at_ten` with each of the first ten recommendations, then stays."""
    summary = {f"hr@{n}": at_ten * min(n, 10) / 10 for n in range(1, 51)}
    return run(method, seed, options={"homes": 100}, summary=summary, counts={"homes": 100}, **more)


def measured(method, losses, *, seed=0, **parameters):
    """A run that was measured by round on train and test."""
    history = [
        {"round": float(number + 1)}
        | {f"{part}_{name}": value for part in ("train", "test") for name, value in values.items()}
        for number, loss in enumerate(losses)
        for values in [{"loss": loss, "auc": 1 - loss / 10, "mr": 1 + loss}]
    ]
    return ranked(method, 0.0, seed=seed, curves=1, protocol="paper", parameters=parameters, history=history)


def test_the_hit_rate_is_the_mean_over_seeds_and_the_caption_gives_it():
    runs = [ranked("popularity", 0.4), ranked("popularity", 0.6, seed=1), ranked("mf", 0.8), ranked("mf", 0.7, seed=1)]
    drawing = hit_rates.formulations(Inputs(tuple(runs)))
    # (0.4 + 0.6) / 2 and (0.8 + 0.7) / 2
    assert drawing.about.caption == ("On wyze-synthetic mf has a hit rate of 0.75 at 10 (popularity 0.50).")
    (axes,) = draw(drawing.layout).axes
    assert sorted(round(float(line.get_ydata()[-1]), 6) for line in axes.lines) == [0.5, 0.75]
    assert "Not run on wyze-synthetic: graphrank, graphrule, gcmc, ease." in drawing.about.notes
    assert len(drawing.about.sources) == 4


def test_runs_with_other_settings_and_with_curves_are_left_out():
    usual = method_parameters("popularity", {})
    other = ranked("popularity", 0.9, parameters=usual | {"smoothing": 99.0})
    curved = ranked("popularity", 0.9, parameters=usual, curves=10)
    drawing = hit_rates.formulations(Inputs((ranked("popularity", 0.5, parameters=usual), other, curved)))
    assert "popularity has a hit rate of 0.50" in drawing.about.caption
    assert len(drawing.about.sources) == 1


def test_the_papers_setting_is_a_figure_of_its_own():
    runs = [measured(method, (0.7, 0.4), preset="paper") for method in ("fedgnn", "fedrule")]
    drawing = by_round.papers_setting(Inputs((*runs, measured("graphrule", (0.7, 0.1)))))
    # AUC as made up: 1 - 0.4 / 10; graphrule was run with its defaults only.
    assert drawing.about.caption == ("Test AUC at the end: fedgnn (preset=paper) 0.960, fedrule (preset=paper) 0.960.")
    assert drawing.about.notes[0] == "Not run: graphrule."
    with pytest.raises(Missing) as missing:
        by_round.papers_setting(Inputs((measured("graphrule", (0.7, 0.1)),)))
    assert missing.value.command == "python -m benchmarks run federated"


def test_a_figure_without_runs_says_which_and_how_to_get_them():
    with pytest.raises(Missing, match=r"no rankings of graphrule, fedgnn, fedrule .* \(instances\)"):
        hit_rates.federated(Inputs((ranked("fedgnn", 0.5),)), INSTANCES)
    with pytest.raises(Missing, match="no rankings of graphrank"):
        hit_rates.formulations(Inputs())
    with pytest.raises(Missing, match="no curves by round"):
        by_round.federated(Inputs((ranked("fedgnn", 0.5),)), WYZE)


def test_six_panels_show_train_and_test_by_loss_auc_and_mean_rank():
    runs = [measured("graphrule", [0.9, 0.5, 0.4]), measured("fedgnn", [0.9, 0.2, 0.8])]
    drawing = by_round.federated(Inputs(tuple(runs)), WYZE)
    axes = draw(drawing.layout).axes
    assert [each.get_ylabel().split()[0] for each in axes] == ["train"] * 3 + ["test"] * 3
    # AUC is 1 - loss / 10; fedgnn ends at 0.8, four times its lowest loss, graphrule at its lowest.
    assert drawing.about.caption == (
        "Test AUC at the end: fedgnn 0.920, graphrule 0.960. "
        "The test loss of fedgnn ends more than a fifth above its lowest point, and so does that of training: "
        "divergence."
    )
    assert drawing.about.notes[0] == "Not run: fedrule."


def test_encoders_that_differ_in_nothing_else_are_put_side_by_side():
    runs = [
        measured("graphrule", [0.9, 0.5], learning_rate=0.03, encoder="sage"),
        measured("graphrule", [0.9, 0.6], learning_rate=0.03, encoder="gcn"),
        measured("graphrule", [0.9, 0.7], learning_rate=0.03, encoder="gcn", self_loops=True),
        measured("graphrule", [0.9, 0.1], learning_rate=0.5, encoder="gat"),
    ]
    drawing = by_round.encoders(Inputs(tuple(runs)))
    assert list(drawing.layout.styles) == ["GCN", "GCN, self loops", "GraphSAGE"]
    assert len({style.colour for style in drawing.layout.styles.values()}) == 3
    assert drawing.about.notes == ("Not run: GAT.",)
    with pytest.raises(Missing, match="different encoders"):
        by_round.encoders(Inputs((runs[0],)))


@pytest.mark.parametrize("phone", [False, True])
def test_nothing_of_a_hit_rate_figure_is_cut_off(phone):
    runs = [ranked(method, 0.05 * number, seed=0) for number, method in enumerate(hit_rates.FORMULATIONS, 1)]
    figure = draw(hit_rates.formulations(Inputs(tuple(runs))).layout, phone=phone)
    figure.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [figure.legends[0].get_window_extent()]
    boxes += [text.get_window_extent() for text in figure.texts]
    for box in boxes:
        assert np.all(box.min >= figure.bbox.min)
        assert np.all(box.max <= figure.bbox.max)
