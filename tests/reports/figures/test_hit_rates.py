"""The figures of hit rates: whose curves are drawn, and what is said of runs that have none."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.results.published import CUTOFFS
from reports.figures.ranking import federated, formulations
from reports.inputs import WYZE, Inputs
from reports.outputs import Missing
from tests.support.made_runs import run
from tests.support.seen import panels


def hits(at_ten, longest=CUTOFFS[-1]):
    """A summary whose hit rate grows along a line through that among ten."""
    return {"mrr": 0.1} | {f"hr@{n}": at_ten * n / 10 for n in range(1, longest + 1)}


def test_a_line_is_the_mean_over_seeds():
    drawing = federated(Inputs((run("fedrule", 0, summary=hits(0.1)), run("fedrule", 1, summary=hits(0.2)))), WYZE)
    (axes,) = panels(drawing).values()
    # (0.1 + 0.2) / 2 = 0.15 among ten
    assert axes.lines[0].get_ydata()[CUTOFFS.index(10)] == pytest.approx(0.15)
    assert drawing.about.caption == "Hit rate at 10: fedrule 0.15."


def test_the_title_says_how_many_seeds_the_methods_have():
    runs = [run("fedrule", seed, summary=hits(0.1)) for seed in range(3)]
    drawing = federated(Inputs((*runs, run("graphrule", summary=hits(0.1)))), WYZE)
    assert list(panels(drawing)) == ["wyze-synthetic, 40 homes, 1 to 3 seeds"]


def test_homes_that_were_not_counted_are_left_out_of_the_title():
    assert list(panels(federated(Inputs((run("fedrule", counts={}, summary=hits(0.1)),)), WYZE))) == [
        "wyze-synthetic, 1 seed"
    ]


@pytest.mark.parametrize("short", [{"mrr": 0.1}, hits(0.1, 10), hits(float("nan"))], ids=["none", "few", "nan"])
def test_a_run_without_all_hit_rates_is_left_out_and_named(short):
    runs = run("graphrule", summary=hits(0.3)), run("ease", summary=hits(0.2)), run("ease", 1, summary=short)
    drawing = formulations(Inputs((*runs, run("mf", summary=short))))
    assert "(ease 0.20)" in drawing.about.caption
    assert "Not run on wyze-synthetic: graphrank, gcmc, popularity." in drawing.about.notes
    assert (
        "Left out on wyze-synthetic, without hit rates up to 50: mf (1 of 1 seed), ease (1 of 2 seeds)."
        in drawing.about.notes
    )


def test_without_any_hit_rate_it_is_missing():
    for make in (formulations, partial(federated, role=WYZE)):
        with pytest.raises(Missing):
            make(Inputs((run("graphrule"),)))
