"""The figure of how large homes are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.results.records import DatasetSummary
from reports.drawing.layout import draw
from reports.figures.data import home_counts
from reports.inputs import Inputs
from reports.outputs import Missing

SMALL = DatasetSummary(
    data="toy",
    options={"homes": 4},
    fingerprints={},
    statistics=(),
    source="",
    notes=(),
    fidelity=(),
    rules_per_home={0: 1, 2: 2, 7: 1},
    devices_per_home={3: 4},
    types=(),
    relations=(),
    example=None,
)


def test_a_line_is_the_share_of_homes_with_at_most_so_many():
    drawing = home_counts(Inputs(summaries=(SMALL,)))
    _, rules = draw(drawing.layout).axes
    (line,) = rules.lines
    assert list(line.get_ydata()) == [0.25, 0.75, 1.0]  # 1, 1 + 2 and 1 + 2 + 1 of 4 homes
    assert np.array_equal(line.get_xdata(), [0.5, 2, 7])  # none has no place on a logarithmic axis
    assert drawing.about.caption == "The median home has: toy 3 devices and 2 rules."


def test_of_a_data_set_the_version_with_most_homes_is_shown():
    large = replace(SMALL, options={"homes": 8}, devices_per_home={5: 8})
    drawing = home_counts(Inputs(summaries=(SMALL, large)))
    assert list(drawing.layout.styles) == ["toy"]
    assert drawing.about.sources == (f"data/{large.file}",)


def test_without_a_portrait_the_figure_says_what_to_run():
    with pytest.raises(Missing, match="no data set has been summarized"):
        home_counts(Inputs())
