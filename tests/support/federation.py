"""A federation in one process: nodes that are reached by a call, through the same bytes that Flower would carry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from datasets import Homes
from fedrule.flower.messages import Kind, Message
from fedrule.flower.node import Node, NodeOptions
from fedrule.flower.server.federation import Federation
from fedrule.flower.server.membership import ServerOptions
from fedrule.flower.vocabulary import Vocabulary
from fedrule.methods.federated import Federated

Fault = Callable[[int, Message], bool]  # node and request: whether there is no answer


def through_bytes(message: Message) -> Message:
    """The same after header and arrays were bytes."""
    arrays = {}
    for name, array in message.arrays.items():
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        arrays[name] = np.load(io.BytesIO(file.getvalue()), allow_pickle=False)
    return Message(Kind(str(message.kind)), json.loads(json.dumps(message.header)), arrays)


@dataclass
class InProcess:
    """Nodes by number; `lost` requests never arrive, answers that are `late` come after the time limit."""

    members: dict[int, Node]
    lost: Fault = lambda _node, _request: False
    late: Fault = lambda _node, _request: False
    requests: list[tuple[int, Message]] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)  # that reached the server

    def nodes(self) -> Sequence[int]:
        return [*self.members]

    def exchange(self, requests: Mapping[int, Message], *, seconds: float) -> Mapping[int, Message]:  # noqa: ARG002
        answers = {}
        for node, request in requests.items():
            if self.lost(node, request):
                continue
            self.requests.append((node, request))
            answer = through_bytes(self.members[node].answer(through_bytes(request)))
            if not self.late(node, request):
                answers[node] = answer
        self.answers += answers.values()
        return answers


def parts(homes: Homes, sizes: Sequence[int]) -> list[Homes]:
    """Consecutive homes, so many each."""
    ends = np.cumsum(sizes)
    assert ends[-1] == homes.n_homes
    return [homes.subset(np.arange(end - size, end)) for end, size in zip(ends.tolist(), sizes, strict=True)]


def in_process(homes: Homes, sizes: Sequence[int], folder: Path, *, fixed: bool = True) -> InProcess:
    """Nodes that hold consecutive homes, with their files and folders."""
    members, first = {}, 0
    for number, part in enumerate(parts(homes, sizes)):
        path = folder / f"node-{number}.parquet"
        part.save(path)
        options = NodeOptions(path, folder / f"state-{number}", first if fixed else None)
        members[100 + number] = Node(options, Vocabulary.of(homes))
        first += part.n_homes
    return InProcess(members)


def federation(transport: InProcess, method: Federated, homes: Homes, folder: Path, **options: object) -> Federation:
    """A run; with `secure` the server learns sums over nodes only."""
    if options.pop("secure", False):
        method = replace(method, secure_threshold=0.6)
    given = ServerOptions(folder, **{"nodes": len(transport.members), "wait": 1.0, **options})  # type: ignore[arg-type]
    return Federation(transport, method, Vocabulary.of(homes), given)
