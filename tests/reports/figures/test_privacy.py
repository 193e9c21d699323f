"""Quality against epsilon: which runs share a line, and what the caption says of it."""

from __future__ import annotations

import pytest

from reports.figures import privacy
from reports.inputs import Inputs
from reports.outputs import Missing
from tests.support.made_runs import run
from tests.support.seen import panels


def ease(epsilon, mrr, seed=0, homes=1000, **parameters):
    return run(
        "ease",
        seed,
        parameters={"epsilon": epsilon, "popularity": 1.0} | parameters,
        options={"homes": homes},
        summary={"mrr": mrr},
        counts={"homes": homes},
    )


def test_a_line_has_the_mean_over_seeds_by_falling_epsilon_and_its_level_without_privacy():
    runs = [ease(0.0, 0.3), ease(0.0, 0.4, 1), ease(1.0, 0.2), ease(1.0, 0.1, 1), ease(8.0, 0.3), ease(8.0, 0.34, 1)]
    (line,) = privacy.lines(runs)
    assert line.level == pytest.approx(0.35)  # (0.3 + 0.4) / 2
    assert line.points == (pytest.approx((8.0, 0.32)), pytest.approx((1.0, 0.15)))


def test_runs_with_other_options_are_other_lines_and_those_without_a_level_are_none():
    runs = [ease(0.0, 0.3), ease(1.0, 0.2), ease(1.0, 0.25, max_rules=5), ease(1.0, 0.1, homes=50), run("mf")]
    (line,) = privacy.lines(runs)
    assert (line.homes, line.points) == (1000, ((1.0, 0.2),))


def test_the_smallest_epsilon_that_costs_nothing_is_the_last_before_the_first_that_costs_more_than_one_percent():
    values = {0.0: 0.4, 8.0: 0.398, 4.0: 0.397, 2.0: 0.39, 1.0: 0.399}  # 0.99 * 0.4 = 0.396
    (line,) = privacy.lines([ease(epsilon, mrr) for epsilon, mrr in values.items()])
    assert line.free == 4.0
    drawing = privacy.by_epsilon(Inputs(tuple(ease(epsilon, mrr) for epsilon, mrr in values.items())))
    # 1 - 0.399 / 0.4 = 0.25 %
    assert drawing.about.caption == (
        "With 1,000 homes: ease (0.400 without privacy) within 1% down to epsilon 4, at epsilon 1 0% worse."
    )
    (axes,) = panels(drawing).values()
    x, y = axes.get_lines()[0].get_data()
    assert (list(x), list(y)) == ([8.0, 4.0, 2.0, 1.0], [0.398, 0.397, 0.39, 0.399])


def test_without_private_runs_the_page_says_which_command_makes_them():
    with pytest.raises(Missing) as missing:
        privacy.by_epsilon(Inputs((run("ease"),)))
    assert missing.value.command == "python -m benchmarks run privacy"
