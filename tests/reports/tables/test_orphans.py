"""What the hint of devices without a known rule is worth, by data set."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.orphans import orphans
from reports.text.formats import NONE
from tests.support.made_runs import keep
from tests.support.seen import column, texts

COUNTS = {"homes": 40, "devices": 200, "devices without rules": 50}  # 25 %: the headline is of all valid candidates


def keep_hits(folder, method, hits, closed, **other):
    orphaned = {"with an orphan: hidden": 10.0}  # of 40 hidden rules
    keep(folder, method, 0.1, counts=COUNTS, summary={"hr@10": hits, "hr@10, closed": closed} | orphaned, **other)


def test_a_row_has_hit_rates_of_both_lists_on_the_seeds_that_all_methods_have(tmp_path):
    keep_hits(tmp_path, "random", 0.1, 0.2)
    keep_hits(tmp_path, "random", 0.9, 0.9, seeds=(2,))  # of a seed that the probe lacks
    keep_hits(tmp_path, "orphans", 0.15, 0.2)
    table = orphans(Inputs.read(tmp_path))
    (row,) = texts(table)
    assert row[:4] == ["wyze-synthetic (40 homes)", "25 %", "all valid candidates", "25 %"]
    assert row[4:8] == ["0.1000", "0.1500", NONE, NONE]
    assert [cell.text for cell in column(table, "closed: random")] == ["0.2000"]
    assert table.about.caption.endswith("the hit rate of random order: 1.5 on wyze-synthetic (40 homes).")
    assert len(table.about.sources) == 4


def test_without_the_probe_the_table_says_what_to_run(tmp_path):
    keep_hits(tmp_path, "random", 0.1, 0.2)
    with pytest.raises(Missing, match="the probe `orphans` was not run") as missing:
        orphans(Inputs.read(tmp_path))
    assert missing.value.command.startswith("python -m benchmarks run rivals --methods random,orphans,")
