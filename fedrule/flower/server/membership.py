"""The nodes of a run as its server sees them: who is there, who was refused and why, requests and their answers.

A node joins by saying how many homes it holds and which of them have rules. One whose version, vocabulary, clock or
folder does not fit is refused in words, and asked again now and then: its owner may have mended what was said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from datasets.common.errors import DataError, counted
from datasets.common.files import Json
from fedrule.federated.array_file import AnyArray
from fedrule.flower import LIMIT
from fedrule.flower.messages import (
    BROKEN,
    CLOCK_TOLERANCE,
    Identity,
    Kind,
    Message,
    Refusal,
    check_clock,
    check_sender,
    unpack_mask,
)
from fedrule.flower.server.folder import ServerFolder

log = logging.getLogger(__name__)

JOIN_SECONDS = 120.0  # for a new node to join; a round does not wait longer for it
AGAIN = 30.0  # seconds after which a node that was refused is asked again
FIRST_NOTE = 15.0  # seconds until the server says again what it waits for, then twice as many, and so on


class Transport(Protocol):
    """How requests reach nodes: by Flower, or in tests within one process."""

    def nodes(self) -> Sequence[int]:
        """Those that are connected now."""

    def exchange(self, requests: Mapping[int, Message], *, seconds: float) -> Mapping[int, Message]:
        """The answers that come within this time; sooner if all do. A request may reach a node more than once."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a federation is run; everything about the model is the method's."""

    folder: Path
    nodes: int = 1  # to wait for before the run begins
    seed: int = 0
    wait: float = 600.0  # seconds for these nodes to connect
    limit: float = LIMIT  # seconds for an answer; a node that takes longer has dropped out of the round
    clock: float = CLOCK_TOLERANCE  # seconds that a node's clock may be off

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise DataError(f"nodes must be at least 1, got {self.nodes}")
        for name in ("wait", "limit", "clock"):
            if not getattr(self, name) > 0:
                raise DataError(f"{name} must be above 0 seconds, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the run and its clients, numbered from `first` on."""

    node: str  # the name in its folder
    first: int
    homes: int

    @property
    def clients(self) -> slice:
        return slice(self.first, self.first + self.homes)


@dataclass(eq=False)
class Membership:
    """Which nodes take part in a run; asks them."""

    transport: Transport
    options: ServerOptions
    identity: Identity
    members: list[Member] = field(default_factory=list)  # of the run; empty before all have joined
    connected: dict[str, int] = field(default_factory=dict)  # Flower's number of a node, by its name
    joined: dict[str, Message] = field(default_factory=dict)  # their answers
    refused: dict[int, str] = field(default_factory=dict)  # why nodes are not in the run, by Flower's number
    answered_at: dict[int, float] = field(default_factory=dict)  # when nodes last answered whether they join

    def connect(self, *, enough: int = 0, remedy: str = "start the others, or set nodes to fewer") -> None:
        """Learn which nodes are there and which of the run's members they are, waiting until there are enough."""
        end = time.monotonic() + self.options.wait
        due, pause = time.monotonic(), FIRST_NOTE
        while True:
            changed = self._ask_new_nodes()
            if len(self.connected) >= enough:
                return
            now = time.monotonic()
            if now > end:
                raise DataError(
                    f"{len(self.connected)} of {counted(enough, 'node')} joined within {self.options.wait:g} seconds; "
                    f"{remedy}{self._reasons()}"
                )
            if changed or now >= due:
                self._say_what_is_missing(enough, end - now)
                due, pause = now + pause, 2 * pause
            time.sleep(0.5)

    def request(self, kind: Kind, arrays: Mapping[str, AnyArray] | None = None, **header: Json) -> Message:
        """A request, with the time at which it is made."""
        common = {"limit": self.options.limit, "clock": self.options.clock}
        return Message(kind, self.identity.header(**common, **header), arrays or {})

    def ask(
        self, requests: Mapping[str, Message], *, all_of_them: bool = False, seconds: float | None = None
    ) -> dict[str, Message]:
        """The answers of nodes by name; those that do not answer, or refuse, are left out, with a warning.

        With `all_of_them` that is an error: a sum without a node would define another model.
        """
        found: dict[str, Message] = {}
        begin = time.time()
        places = {self.connected[name]: name for name in requests if name in self.connected}
        # A request may be made long before it is sent: nodes compare its time with their clocks.
        sent = {node: requests[name].at(begin) for node, name in places.items()}
        answers = self.transport.exchange(sent, seconds=seconds or self.options.limit)
        problems = dict.fromkeys(requests, "no answer")
        for node, answer in answers.items():
            try:
                found[places[node]] = self._checked(answer, begin)
                del problems[places[node]]
            except BROKEN as error:
                problems[places[node]] = str(error)
                if isinstance(error, Refusal) and error.needs is not None:
                    found[places[node]] = answer  # the caller sends what the node needs
        for name, problem in problems.items():
            log.warning("node %s: %s", name, problem)
        if all_of_them and problems:
            listed = "; ".join(f"node {name}: {problem}" for name, problem in problems.items())
            raise DataError(f"before the first round every node has to answer: {listed}")
        return found

    def _ask_new_nodes(self) -> bool:
        """Whether the nodes that joined, or the reasons why others did not, are others than before."""
        before = {*self.connected}, dict(self.refused)
        recent = (node for node, at in self.answered_at.items() if time.monotonic() < at + AGAIN)
        known, present = {*self.connected.values(), *recent}, set(self.transport.nodes())
        self.refused = {node: reason for node, reason in self.refused.items() if node in present}
        requests = {node: self.request(Kind.JOIN) for node in present - known}
        if not requests:
            return before != ({*self.connected}, self.refused)
        answers = self.transport.exchange(requests, seconds=min(JOIN_SECONDS, self.options.limit))
        self.answered_at |= dict.fromkeys(answers, time.monotonic())
        for node, answer in answers.items():
            try:
                self._join(node, answer, present)
            except BROKEN as error:
                if self.refused.get(node) != str(error):
                    log.warning("node %d is left out: %s", node, error)
                self.refused[node] = str(error)
        return before != ({*self.connected}, self.refused)

    def _join(self, node: int, answer: Message, present: set[int]) -> None:
        name = self._checked(answer).text("node")
        check_joined(answer)
        other = self.connected.get(name, node)
        if other != node and other in present:
            raise Refusal(
                f"node {name} is connected already, by another key: the folder (state=) of one machine "
                "was copied to another; empty the copy, so that it gets a name of its own"
            )
        if self.members and name not in {member.node for member in self.members}:
            raise Refusal(f"node {name} is not a member of this run; it can join the next one")
        self.connected[name], self.joined[name] = node, answer
        self.refused.pop(node, None)

    def _say_what_is_missing(self, enough: int, seconds: float) -> None:
        log.info(
            "%d of %s joined; the server waits up to %.0f s for the others%s",
            len(self.connected),
            counted(enough, "node"),
            seconds,
            f" and asks those that were refused again every {AGAIN:g} s{self._reasons()}" if self.refused else "",
        )
        ServerFolder(self.options.folder).write_status(
            "waiting for nodes",
            joined=[*self.connected],
            wanted=enough,
            refused={str(node): reason for node, reason in self.refused.items()},
        )

    def _reasons(self) -> str:
        return "".join(f"; node {node}: {reason}" for node, reason in self.refused.items())

    def _checked(self, answer: Message, begin: float | None = None) -> Message:
        """An answer that is not a refusal, of the same version and by a clock that is right."""
        if answer.kind == Kind.REFUSED:
            needs = answer.header.get("needs")
            raise Refusal(f"it refuses: {answer.text('reason')}", needs=Kind(str(needs)) if needs else None)
        check_sender(answer, here="the server", there="the node", vocabulary=self.identity.vocabulary)
        if answer.text("run") != self.identity.run:
            raise Refusal(
                f"an answer of run {answer.text('run')}, this is {self.identity.run}; it came too late, or two servers "
                "use the same nodes: stop one of them"
            )
        now = time.time()
        check_clock(
            answer.real("time"),
            earliest=now - self.options.limit if begin is None else begin,
            latest=now,
            whose="the node",
            tolerance=self.options.clock,
        )
        return answer


def check_joined(answer: Message) -> None:
    """Refuse an answer of a node that joins from which its clients cannot be numbered."""
    if answer.number("homes") < 1:
        raise Refusal(f"{answer.number('homes')} homes; a node holds at least one")
    if answer.value("first") is not None and answer.number("first") < 0:
        raise Refusal(f"first must be a whole number from 0 on, got {answer.number('first')}")
    unpack_mask(answer.array("with_rules"), answer.number("homes"))


def assign_numbers(nodes: Sequence[tuple[str, int, int | None]]) -> list[Member]:
    """The clients of each node, given by name, number of homes and, where its owner has fixed it, its first number.

    The others follow in the order of their names, which are kept, behind the last fixed one.
    """
    fixed = sorted((first, name, homes) for name, homes, first in nodes if first is not None)
    members: list[Member] = []
    end = 0
    for begin, name, homes in fixed:
        if begin < end:
            other = members[-1]
            raise DataError(
                f"node {name} has homes {begin} to {begin + homes - 1}, node {other.node} {other.first} to {end - 1}; "
                "set first= in their node-configs so that they do not overlap"
            )
        members.append(Member(name, begin, homes))
        end = begin + homes
    for name, homes, first in sorted(nodes, key=lambda node: node[0]):
        if first is None:
            members.append(Member(name, end, homes))
            end += homes
    return members
