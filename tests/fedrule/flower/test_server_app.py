"""Flower's messages that cannot be read leave out their node, not the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("flwr", reason="the app needs the extra flower")
pytest.importorskip("numba", reason="rounds need the extra graph")

from flwr.app import ConfigRecord, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from datasets.common.errors import DataError
from fedrule.federated.rounds import RoundReport
from fedrule.flower.messages import Kind, Message
from fedrule.flower.server.folder import status_of
from fedrule.flower.server_app import FlowerTransport, round_text, write_failure


@dataclass
class TwoNodes:
    """Two nodes: the first answers as another app would, the second what it was sent."""

    sent: dict[str, FlowerMessage] = field(default_factory=dict)

    def get_node_ids(self) -> list[int]:
        return [1, 2]

    def push_messages(self, messages: list[FlowerMessage]) -> list[str]:
        numbers = [f"{len(self.sent) + at}" for at in range(len(messages))]
        self.sent |= dict(zip(numbers, messages, strict=True))
        return numbers

    def pull_messages(self, numbers: list[str]) -> list[SimpleNamespace]:
        found = []
        for number in numbers:
            message = self.sent[number]
            foreign = RecordDict({"header": ConfigRecord({"kind": "?"})})
            content = foreign if message.metadata.dst_node_id == 1 else message.content
            about = SimpleNamespace(reply_to_message_id=number)
            found.append(SimpleNamespace(metadata=about, content=content, has_error=lambda: False))
        return found


def test_a_node_whose_answer_cannot_be_read_is_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_task_id", "_run_id", "_node_id"):  # which Flower sets where it starts a ServerApp
        monkeypatch.setattr(TaskIdentity, name, 1)
    request = Message(Kind.JOIN, {"run": "a"})
    grid = TwoNodes()
    answers = FlowerTransport(cast(Grid, grid)).exchange({1: request, 2: request}, seconds=1.0)
    assert [*answers] == [2]
    assert answers[2].header == {"run": "a"}
    assert "node 1 is left out: not a message of fedrule" in caplog.text
    assert len(grid.sent) == 2  # it is not asked again


def test_why_a_run_failed_is_in_the_folder_of_the_server(tmp_path: Path) -> None:
    write_failure({"folder": str(tmp_path / "server")}, DataError("nodes must be at least 1, got 0"))
    assert status_of(tmp_path / "server") == {"state": "failed", "error": "nodes must be at least 1, got 0"}
    write_failure({}, DataError("run-config: folder is missing"))  # there is no place to say it


def test_the_log_of_a_private_round_has_no_numbers_without_noise() -> None:
    exact, private = RoundReport(0.5, 37, refused=2), RoundReport(0.5, 37, refused=2, epsilon=1.5, delta=1e-5)
    assert "loss=0.5 clients=37" in round_text(exact)
    assert "refused=2" in round_text(exact)
    assert "epsilon=1.5 " in round_text(private)
    for name in ("loss", "clients", "refused"):
        assert f"{name}=" not in round_text(private)
