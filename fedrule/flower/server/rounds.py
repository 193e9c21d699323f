"""Rounds by way of the nodes, with the engine's own server part.

In a round each node trains those of its clients that are in the cohort and sends one sum. A node that does not answer
in time has dropped out with its clients, as a simulated fault would make them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.homes import Array
from fedrule.federated.array_file import AnyArray
from fedrule.federated.rounds import Engine, RoundReport, RoundSum
from fedrule.federated.states import ServerState
from fedrule.federated.vectors import FlatParameters
from fedrule.flower.messages import BROKEN, Kind, Message, Refusal, pack_mask, unpack_mask, unpack_sums
from fedrule.flower.method import threshold_of_nodes
from fedrule.flower.server.folder import ServerFolder
from fedrule.flower.server.membership import Member, Membership
from fedrule.methods.federated import Federated

log = logging.getLogger(__name__)

END_SECONDS = 60.0  # for nodes to hear that the run is over; those that do not lose nothing


@dataclass(frozen=True, slots=True, eq=False)
class RoundTraffic:
    """What was sent in a round, without headers, and what layout and touched rows say that it should be."""

    sent: dict[str, int]  # bytes of the sum, by node
    predicted_sent: dict[str, float]  # not of secure sums, whose messages depend on who takes part
    received: dict[str, int]  # bytes of the model and the shared vectors, by node
    predicted_received: dict[str, int]
    missing: tuple[int, ...]  # clients whose node did not answer
    ready: dict[str, Json]  # processor seconds and megabytes of a node's process before it trains; not of private runs
    seconds: dict[str, Json]  # processor time of a node's process in all; not of private runs

    def as_json(self) -> dict[str, Json]:
        return cast("dict[str, Json]", asdict(self) | {"missing": [*self.missing]})


NOTHING_SENT = RoundTraffic({}, {}, {}, {}, (), {}, {})


@dataclass(eq=False)
class NodeRounds:
    """Rounds by way of the nodes, as `Engine.step` does them in a simulation."""

    method: Federated
    engine: Engine
    layout: FlatParameters
    membership: Membership
    with_rules: AnyArray  # [n_clients]  bool
    seed: int  # of cohorts
    setup: Message  # what nodes are sent with their first round
    traffic: RoundTraffic = NOTHING_SENT  # of the last round
    has_setup: set[str] = field(default_factory=set)  # nodes that were sent it since the server started
    excluded: set[str] = field(default_factory=set)  # nodes that dealt wrong shares in a secure sum
    state_bytes: dict[str, int] = field(default_factory=dict)
    after: ServerState | None = None  # the last round

    def step(self, state: ServerState, rate: float) -> tuple[ServerState, RoundReport]:
        """One more round."""
        engine = self.engine
        self.membership.connect()
        n_clients = engine.n_clients(self.with_rules)
        cohort = engine.cohorts.of(
            np.flatnonzero(self.with_rules), seed=self.seed, number=state.round, n_clients=n_clients
        )
        faulty = cohort.present[cohort.corrupted]
        members = {m.node: m for m in self.membership.members if self.secure or _has_any(m, cohort.present)}
        requests, shared = {}, {}
        for member in members.values():
            if member.node not in self.excluded:
                requests[member.node], shared[member.node] = self._request(state, member, cohort.present, faulty)
        collect = self._secure_sums if self.secure else self._plain_sums
        total, answers, sent = collect(state, requests, members, shared)
        last, corrupted, absent = state.clients.last.copy(), 0, []
        for member in members.values():
            answer = answers.get(member.node)
            if answer is None:
                numbers = np.arange(member.first, member.clients.stop)
                absent.append(numbers[np.isin(numbers, cohort.present)])
                continue
            counted = _counted(answer, requests[member.node], member)
            last[member.first + counted] = state.round
            corrupted += answer.number("corrupted")
        missing = np.concatenate([np.zeros(0, dtype=np.int64), *absent])
        state = replace(state, clients=replace(state.clients, last=last))
        if total is None:
            after, report = engine.give_up_round(state, self.layout, n_clients=n_clients)
        else:
            after, report = engine.finish_round(state, total, self.layout, n_clients=n_clients, rate=rate)
        report = engine.log_faults(after.round, report, cohort.without(missing), corrupted=corrupted)
        plain = {name: answer for name, answer in answers.items() if "row" in answer.arrays}
        self.traffic = RoundTraffic(
            sent,
            {name: predicted_sum(engine, self.layout, rows=len(each.array("row"))) for name, each in plain.items()},
            {name: broadcast_payload(requests[name]) for name in answers},
            {name: predicted_broadcast(self.layout, shared=len(shared[name])) for name in answers},
            tuple(missing.tolist()),
            *(
                {name: answer.header[what] for name, answer in answers.items() if what in answer.header}
                for what in ("ready", "seconds")
            ),
        )
        self.after = after
        return after, report

    @property
    def secure(self) -> bool:
        """Whether the server learns sums over nodes only: fedrule.flower.server.secure."""
        return self.method.secure_threshold > 0

    def _plain_sums(
        self,
        state: ServerState,
        requests: Mapping[str, Message],
        members: Mapping[str, Member],
        shared: Mapping[str, Array],
    ) -> tuple[RoundSum | None, dict[str, Message], dict[str, int]]:
        """The sum of the sums of the nodes, their answers, and the bytes that they sent."""
        total, answers = self.engine.nothing(self.layout, len(state.shared)), self._answers(requests, members)
        for name, answer in [*answers.items()]:
            try:
                _counted(answer, requests[name], members[name])
                sums = self._sums(answer, shared[name], state)
                total = total + sums
            except BROKEN as error:
                log.warning("node %s is left out of this round: %s", name, error)
                del answers[name]
                continue
            self.state_bytes[name] = sums.state_bytes
        total = replace(total, state_bytes=sum(self.state_bytes.values()))
        return total, answers, {name: sum_payload(answer) for name, answer in answers.items()}

    def _secure_sums(
        self,
        state: ServerState,
        requests: Mapping[str, Message],
        members: Mapping[str, Member],
        shared: Mapping[str, Array],  # noqa: ARG002  all of them
    ) -> tuple[RoundSum | None, dict[str, Message], dict[str, int]]:
        """The same where the server sees the sum only; None where too few nodes stay to the end."""
        from fedrule.federated.secure.messages import WrongShares
        from fedrule.flower.server.secure import kept_total, secure_total

        nothing = self.engine.nothing(self.layout, len(state.shared))
        nodes = [*requests]
        threshold = threshold_of_nodes(self.method, len(nodes))
        contributors = {name for name, request in requests.items() if request.array("cohort").any()}
        if len(contributors) < threshold:
            log.warning(
                "round %d is given up, and no node is asked: %d nodes have a home in its cohort, and the sum of fewer "
                "than %d would say too much of each; set a larger cohort or participation",
                state.round + 1,
                len(contributors),
                threshold,
            )
            return None, {}, {}
        run, options = self.membership.identity.run, self.membership.options
        compute = partial(
            secure_total,
            nodes,
            requests,
            size=len(nothing.integers()),
            name=f"{run}.round{state.round}",
            threshold=threshold,
            contributors=contributors,
            check=lambda name, answer: _counted(answer, requests[name], members[name]),
            ask=lambda each: self._answers(each, members),
        )
        try:
            found = kept_total(ServerFolder(options.folder), run, "round", compute, key=_round_key(state, requests))
        except WrongShares as error:
            self.excluded.add(nodes[error.participant])
            log.warning("%s; node %s is left out from here on", error, nodes[error.participant])
            return None, {}, {}
        except DataError as error:
            log.warning("%s", error)
            return None, {}, {}
        total = RoundSum.from_integers(found.total, **nothing.lengths())
        return total, found.answers, found.sent

    def end(self) -> None:
        """Tell the nodes that the last round counted; not where a run is resumed that was over."""
        state, requests = self.after, {}
        if state is None:
            return
        for member in self.membership.members:
            last = state.clients.last[member.clients].astype(np.int32)
            requests[member.node] = self.membership.request(Kind.END, {"last": last}, round=state.round)
        self.membership.ask(requests, seconds=min(END_SECONDS, self.membership.options.limit))

    def _answers(self, requests: Mapping[str, Message], members: Mapping[str, Member]) -> dict[str, Message]:
        """The nodes' answers; a node that lacks the setup, because it or its folder is new, is sent it first."""
        found = self.membership.ask(
            {
                name: request
                if name in self.has_setup or request.kind != Kind.ROUND
                else self._with_setup(request, members[name])
                for name, request in requests.items()
            }
        )
        lacking = [name for name, answer in found.items() if answer.kind == Kind.REFUSED]
        if lacking:
            self.membership.ask({name: self.membership.request(Kind.JOIN) for name in lacking})
            again = {name: self._with_setup(requests[name], members[name]) for name in lacking}
            found |= self.membership.ask(again)
        self.has_setup |= {name for name, answer in found.items() if answer.kind != Kind.REFUSED}
        return {name: answer for name, answer in found.items() if answer.kind != Kind.REFUSED}

    def _with_setup(self, request: Message, member: Member) -> Message:
        setup: Json = {**self.setup.header, "first": member.first}
        return Message(request.kind, {**request.header, "setup": setup}, {**request.arrays, **self.setup.arrays})

    def _request(self, state: ServerState, member: Member, present: Array, faulty: Array) -> tuple[Message, Array]:
        """The request of a round for one node, and which of the shared vectors its clients need: they are in it."""
        numbers = np.arange(member.first, member.clients.stop)
        last, cohort = state.clients.last[member.clients], np.isin(numbers, present)
        which = np.arange(len(state.shared))
        if len(which) and state.shared_round[0] >= 0 and not self.secure:
            which = np.flatnonzero(np.isin(state.shared_round, last[cohort]))
        arrays: dict[str, AnyArray] = {
            "model": state.model,
            "shared": state.shared[which],
            "shared_round": state.shared_round[which].astype(np.int32),
            "last": last.astype(np.int32),
            "cohort": pack_mask(cohort),
            "faulty": pack_mask(np.isin(numbers, faulty)),
        }
        return self.membership.request(Kind.ROUND, arrays, round=state.round), which

    def _sums(self, answer: Message, which: Array, state: ServerState) -> RoundSum:
        """The sums in an answer, with the weights of all shared vectors; refused where it does not fit."""
        vectors = 2 if self.engine.hyperparameters.sends_mean_gradient else 1
        sums = unpack_sums(answer, self.layout, vectors=vectors, n_shared=len(which))
        base = self.engine.nothing(self.layout, len(state.shared)).base_weight
        if len(base) and len(sums.base_weight):
            base[which] = sums.base_weight
        return replace(sums, base_weight=base)


def _round_key(state: ServerState, requests: Mapping[str, Message]) -> str:
    """What the sum of a round depends on, as one text."""
    key = hashlib.sha256(f"{state.round}".encode())
    key.update(state.model.tobytes())
    for name in sorted(requests):
        key.update(name.encode() + requests[name].array("cohort").tobytes() + requests[name].array("last").tobytes())
    return key.hexdigest()


def _counted(answer: Message, request: Message, member: Member) -> Array:
    """Which of a member's clients an answer counts; refused where it does not fit the request."""
    counted = unpack_mask(answer.array("counted"), member.homes)
    if (counted & ~unpack_mask(request.array("cohort"), member.homes)).any():
        raise Refusal(
            "it counts clients that are not in the cohort: its homes, or its version of fedrule, are others than when "
            "it joined; start it with the folder (state=) that it had then"
        )
    if not 0 <= answer.number("corrupted") <= member.homes:
        raise Refusal(f"{answer.number('corrupted')} corrupted updates of {member.homes} homes")
    return np.flatnonzero(counted)


def _has_any(member: Member, clients: Array) -> bool:
    return bool(((clients >= member.first) & (clients < member.clients.stop)).any())


def sum_payload(answer: Message) -> int:
    """Bytes of a node's sum."""
    return sum(answer.array(name).nbytes for name in ("numbers", "row"))


def broadcast_payload(request: Message) -> int:
    """Bytes of the model and of the shared vectors in a request."""
    return sum(request.array(name).nbytes for name in ("model", "shared"))


def predicted_sum(engine: Engine, layout: FlatParameters, *, rows: int) -> float:
    """Bytes of a node's sum where its clients touch `rows` different rows of relations and four bytes hold a number.

    For a node with one home these are `RoundReport.sent_bytes`.
    """
    return layout.sent_bytes(rows, vectors=2 if engine.hyperparameters.sends_mean_gradient else 1)


def predicted_broadcast(layout: FlatParameters, *, shared: int) -> int:
    """Bytes of a request: the model, and the shared vectors that the node's clients need.

    For a node with one home these are `RoundReport.received_bytes`, from its second round on.
    """
    return 4 * (1 + shared) * layout.size
