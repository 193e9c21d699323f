"""Flower's messages that cannot be read leave out their node, not the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("flwr", reason="the app needs the extra flower")
pytest.importorskip("numba", reason="rounds need the extra graph")

from flwr.app import ConfigRecord, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedrule.flower.messages import Kind, Message
from fedrule.flower.server_app import FlowerTransport


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
