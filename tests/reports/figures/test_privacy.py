"""Quality against epsilon: which runs share a line, and what the caption says of it."""

from __future__ import annotations

import pytest

from reports.epsilons import epsilon_lines
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
    (line,) = epsilon_lines(runs)
    assert line.level == pytest.approx(0.35)  # (0.3 + 0.4) / 2
    assert line.points == (pytest.approx((8.0, 0.32)), pytest.approx((1.0, 0.15)))


def test_runs_with_other_options_are_other_lines_and_those_without_a_level_are_none():
    runs = [ease(0.0, 0.3), ease(1.0, 0.2), ease(1.0, 0.25, max_rules=5), ease(1.0, 0.1, homes=50), run("mf")]
    (line,) = epsilon_lines(runs)
    assert (line.homes, line.points) == (1000, ((1.0, 0.2),))


def test_of_several_settings_on_the_same_homes_that_with_the_most_epsilons_is_the_line():
    few = [ease(0.0, 0.9, max_rules=5), ease(1.0, 0.8, max_rules=5)]
    (line,) = epsilon_lines([*few, ease(0.0, 0.3), ease(8.0, 0.25), ease(1.0, 0.2)])
    assert line.points == ((8.0, 0.25), (1.0, 0.2))


def test_seeds_that_some_epsilon_lacks_are_left_out_of_all():
    (line,) = epsilon_lines([ease(0.0, 0.3), ease(0.0, 0.9, 1), ease(1.0, 0.2)])
    assert (line.level, line.seeds, line.points) == (0.3, 1, ((1.0, 0.2),))


def test_the_caption_has_the_numbers_of_the_most_homes_and_the_axis_says_none():
    values = {0.0: 0.4, 8.0: 0.398, 2.0: 0.39}
    small = [ease(epsilon, mrr / 2, homes=50) for epsilon, mrr in values.items()]
    drawing = privacy.by_epsilon(Inputs((*(ease(epsilon, mrr) for epsilon, mrr in values.items()), *small)))
    assert drawing.about.caption == (
        "Mean reciprocal rank with 1,000 homes: ease has 0.400 without privacy, 0.398 at epsilon 8, 0.390 at epsilon 2."
    )
    (axes,) = panels(drawing).values()
    lines = [line.get_data() for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_marker() != "None"]
    assert [(list(x), list(y)) for x, y in lines] == [([8.0, 2.0], [0.199, 0.195]), ([8.0, 2.0], [0.398, 0.39])]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "8", "2"]
    assert "over homes only: one seed" in drawing.layout.note


def test_without_private_runs_the_page_says_which_command_makes_them():
    with pytest.raises(Missing) as missing:
        privacy.by_epsilon(Inputs((run("ease"),)))
    assert missing.value.command == "python -m benchmarks run privacy"
