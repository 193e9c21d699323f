"""What a home sends, receives and stores: means over rounds and seeds, from the histories of runs."""

from __future__ import annotations

import pytest

from reports.inputs import WYZE, Inputs
from reports.outputs import Missing
from reports.tables.traffic import by_round
from reports.text.formats import NONE
from tests.support.made_runs import keep, rounds


def test_a_method_has_what_is_sent_and_received_in_a_round_and_what_is_stored_at_the_end(tmp_path):
    history = rounds(10, sends=100.0, clients=8, first={"statistics_bytes": 500.0, "state_bytes": 1.0})
    history = [row | {"received_bytes": 2_000.0} for row in history]
    history[-1]["state_bytes"] = 64.0
    keep(tmp_path, "fedrank", 0.3, history=history)
    keep(tmp_path, "fedgnn", 0.2, history=rounds(2, sends=300.0))
    keep(tmp_path, "ease", 0.2)  # nothing leaves a home
    table = by_round(Inputs.read(tmp_path), WYZE)
    # 10 rounds of 100 bytes, in which 8 of 40 homes send: 10 * 100 * 8 / 40 = 200; and 500 of counts before.
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["fedgnn", "2", "40", "300 bytes", NONE, NONE, "0 bytes", "600 bytes"],
        ["fedrank", "10", "8", "100 bytes", "2 kB", "64 bytes", "500 bytes", "700 bytes"],
    ]
    assert table.about.caption == (
        "In a round a home sends 100 bytes (fedrank) to 300 bytes (fedgnn) and receives 2 kB (fedrank)."
    )


def test_without_federated_runs_the_table_says_what_to_run(tmp_path):
    keep(tmp_path, "ease", 0.2)
    with pytest.raises(Missing, match="no federated method was run on wyze or wyze-synthetic") as missing:
        by_round(Inputs.read(tmp_path), WYZE)
    assert missing.value.command == "python -m benchmarks run default"
