"""The server of a federation: sets up a run, then rounds by way of the nodes, with the engine's own server part.

Before the first round the nodes say how many homes they hold, and homes add up which typed rules there are and, for
methods that count homes, the rest of `fedrule.evidence.statistics`. In a round each node trains those of its clients
that are in the cohort and sends one sum. A node that does not answer in time has dropped out with its clients, as a
simulated fault would make them; `missing` says in which rounds that happened, and a simulation with it computes the
same bits.

All that has to survive is in the server's folder: the run, the sums of the setup, a checkpoint after every round
before any node hears of the next one.
"""

from __future__ import annotations

import json
import logging
import operator
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from datasets.common.environment import versions
from datasets.common.errors import DataError
from datasets.common.files import Json, atomic_file
from datasets.homes import Array
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.federated.array_file import AnyArray, read_arrays, write_arrays
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.loop import run_rounds
from fedrule.federated.rounds import Engine, RoundReport, RoundSum
from fedrule.federated.states import ServerState
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.flower.messages import (
    CLOCK_TOLERANCE,
    Identity,
    Kind,
    Message,
    Refusal,
    broadcast_bytes,
    check_clock,
    check_sender,
    pack_mask,
    package_version,
    unpack_mask,
    unpack_sums,
)
from fedrule.flower.node import SETUP as PREFIX
from fedrule.flower.node import (
    check_nodes,
    federated_method,
    layout_text,
    method_text,
    threshold_of_nodes,
    valid_rules,
)
from fedrule.flower.vocabulary import Vocabulary
from fedrule.lazy import torch
from fedrule.methods.federated import Federated
from fedrule.network.score import GraphModel

if TYPE_CHECKING:
    from datasets.private_counts import NoisySum

log = logging.getLogger(__name__)

FORMAT = 1  # of the server's files
RUN, SETUP, CHECKPOINT, ROUNDS, WEIGHTS = "run.json", "setup.npz", "checkpoint.npz", "rounds.jsonl", "weights.npz"
MODEL = "model.safetensors"  # for recommendations
RELEASED = "released.npz"  # of a private run, before its setup is complete
JOIN_SECONDS = 120.0  # for a new node to join; a round does not wait longer for it
AGAIN = 30.0  # seconds after which a node that refused is asked again: its owner may have mended what it said
END_SECONDS = 60.0  # for nodes to hear that the run is over; those that do not lose nothing
BROKEN = (DataError, ValueError, TypeError, LookupError, OverflowError)  # what reading an odd answer may end in
REMEDY = "restore it from a copy, or empty the folder and start a new run"


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
    limit: float = 600.0  # seconds for an answer; a node that takes longer has dropped out of the round
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


@dataclass(frozen=True, slots=True, eq=False)
class RoundTraffic:
    """What was sent in a round, without headers."""

    sent: dict[str, int]  # bytes of the sum, by node
    received: dict[str, int]  # bytes of the model and the shared vectors, by node
    missing: tuple[int, ...]  # clients whose node did not answer
    rows: dict[str, int]  # of relations in the sum, by node
    shared: dict[str, int]  # vectors, by node
    ready: dict[str, Json]  # processor seconds and megabytes of a node's process before it trains
    seconds: dict[str, Json]  # processor time of a node's process in all

    def as_json(self) -> dict[str, Json]:
        return cast("dict[str, Json]", asdict(self) | {"missing": [*self.missing]})


OnRound = Callable[[int, RoundReport, RoundTraffic], None]


@dataclass(eq=False)
class Federation:
    """One run: nodes, setup and rounds."""

    transport: Transport
    method: Federated
    vocabulary: Vocabulary
    options: ServerOptions
    identity: Identity = field(init=False)
    members: list[Member] = field(init=False, default_factory=list)
    connected: dict[str, int] = field(init=False, default_factory=dict)  # Flower's number of a node, by its name
    joined: dict[str, Message] = field(init=False, default_factory=dict)  # their answers
    refused: dict[int, str] = field(init=False, default_factory=dict)  # why nodes are not in the run
    asked: dict[int, float] = field(init=False, default_factory=dict)  # when nodes answered whether they join
    with_rules: AnyArray = field(init=False)  # [n_clients]  bool
    # Of the cohorts of a private run, in place of the seed that nodes know: the account counts on that nobody but the
    # server knows who takes part. Without it nobody can compute the run again.
    sampling_seed: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        federated_method(method_text(self.method.NAME, asdict(self.method)))  # refuses what nodes would refuse
        check_nodes(self.method, self.options.nodes)
        if self.secure and (size := self.method.engine().cohorts.size):
            self._check_cohort(size, self.options.nodes)
        self.options.folder.mkdir(parents=True, exist_ok=True)
        self.identity = Identity(
            self._run(), self.vocabulary.fingerprint, method_text(self.method.NAME, asdict(self.method))
        )

    @property
    def secure(self) -> bool:
        """Whether the server learns sums over nodes only: fedrule.flower.secure."""
        return self.method.secure_threshold > 0

    def _check_cohort(self, homes: int, nodes: int) -> None:
        """Refuse cohorts that no secure sum could be made of: every round would be given up."""
        needed = threshold_of_nodes(self.method, nodes)
        if homes < needed:
            raise DataError(
                f"a cohort of {homes} homes is too small for secure sums of {nodes} nodes, which need a home on each "
                f"of {needed} nodes at least; set a larger cohort or participation, or a smaller secure_threshold"
            )

    def train(self, on_round: OnRound | None = None) -> GraphModel:
        """The model after all rounds, resumed where the server was stopped."""
        cell, self_pairs, counts = self._setup()
        valid = valid_rules(self.vocabulary, cell)
        scorer = self.method.scorer(valid, counts)
        rng = np.random.default_rng(self.options.seed)
        seed = int(rng.integers(2**62))  # as `Federated.fit` draws it
        initial = scorer.initial(torch.Generator().manual_seed(seed))
        layout = FlatParameters.of(initial)
        setup = self._setup_of_nodes(cell, self_pairs, counts, layout, seed)
        engine = self.method.engine()
        rounds = _Rounds(self, engine, layout, seed, setup)
        state = engine.begin_server(layout, layout.flat(initial), len(self.with_rules))
        checkpoint = Checkpoint(self.options.folder / CHECKPOINT, 1, configuration=self._configuration())

        def after_round(done: int, model: Vector, report: RoundReport) -> bool:  # noqa: ARG001
            traffic = rounds.traffic
            self._record(done, report, traffic)
            if on_round is not None:
                on_round(done, report, traffic)
            return False

        model = run_rounds(rounds.step, self.method.schedule(seed), state, after_round, checkpoint)
        fitted = GraphModel(
            self.method.NAME, scorer, layout.parameters(model), self.vocabulary.types, self.vocabulary.relations
        )
        self._save_model(fitted, counts, valid)
        arrays = {name: value.numpy() for name, value in fitted.parameters.items()}
        about = {"format": FORMAT, "method": self.identity.method, "run": self.identity.run}
        write_arrays(self.options.folder / WEIGHTS, about, {**arrays, "valid.cell": cell})
        rounds.end()
        return fitted

    def _save_model(self, fitted: GraphModel, counts: Statistics | None, valid: ValidRules) -> None:
        """Write the model for `python -m fedrule recommend`, with what the server may know of its training.

        Where the method counts nothing, the counts are 0. Of a private run the card names neither a seed nor homes.
        """
        from fedrule.models.card import TrainingRun
        from fedrule.models.restore import saved_model

        private, names = self.method.privacy.noisy, (self.vocabulary.types, self.vocabulary.relations)
        nobody = Statistics.of_nobody(*names, valid, all_patterns=self.method.evidence > 0)
        training = TrainingRun(
            data="federation",
            fingerprint=None if private else self.identity.run,
            homes=len(self.with_rules),
            rules=None if private or counts is None else int(counts.have[0].sum()),
            seed=None if private else self.options.seed,
            rounds=self.method.rounds,
            trained_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        saved = saved_model(
            fitted,
            self.method,
            replace(nobody, noisy=private) if counts is None else counts,
            trainings=(training,),
            versions={"fedrule": package_version(), **versions()},
        )
        saved.save(self.options.folder / MODEL)

    def missing(self) -> dict[int, Array]:
        """Clients that dropped out because their node did not answer, by rounds done before.

        A simulation with them is that run, unless it is private: its cohorts are drawn by a secret seed.
        """
        return missing_of(self.options.folder)

    # Before the first round.

    def _setup(self) -> tuple[Array, bool, Statistics | None]:
        """Valid rules, whether a device acts on itself, and counts over homes; from the folder if they are there."""
        path = self.options.folder / SETUP
        if path.exists():
            saved, arrays = read_arrays(path, what="setup of a federation", remedy=REMEDY)
            self._check_run(saved, path)
            self.members = [Member(**member) for member in saved["members"]]
            self.with_rules = arrays.pop("with_rules")
            cell, self_pairs = arrays.pop("cell"), bool(saved["self_pairs"])
            self._connect(enough=min(self.options.nodes, len(self.members)))
            return cell, self_pairs, self._statistics(cell, [arrays]) if self.method.counts_homes else None
        if self.released is not None:  # all of the homes whose rules were counted belong to the run
            self.members = [Member(**member) for member in self.released[0]["members"]]
        self._connect(enough=len(self.members) or self.options.nodes)
        joined = self.joined
        self.members = self.members or assign_numbers(
            [
                (name, answer.number("homes"), cast("int | None", answer.value("first")))
                for name, answer in joined.items()
            ]
        )
        self.with_rules = np.zeros(max(member.clients.stop for member in self.members), dtype=bool)
        for member in self.members:
            self.with_rules[member.clients] = unpack_mask(joined[member.node].array("with_rules"), member.homes)
        if not self.with_rules.any():
            raise DataError("no home of this federation has a rule; there is nothing to learn from")
        if self.secure:
            n_clients = int(self.with_rules.sum())
            fraction = self.method.engine().cohorts.fraction(self.method.engine().n_clients(self.with_rules))
            self._check_cohort(round(fraction * n_clients), len(self.members))
        every = [member.node for member in self.members]
        counts = None
        if self.method.privacy.noisy:
            cell, counts = self._private_counts(every)
            self_pairs = True  # whether a device acts on itself anywhere is not in the account
        else:
            cell, self_pairs = self._rules(every)
        arrays = {} if counts is None else {**counts.arrays(all_patterns=self.method.evidence > 0)}
        if self.method.counts_homes and counts is None:
            request = self._request(Kind.COUNTS, {"cell": cell}, all_patterns=self.method.evidence > 0)
            requests = dict.fromkeys(every, request)
            if self.secure:
                nobody = self._statistics(cell, [])
                counts = nobody.with_integers(self._secure_sum("counts", requests, len(nobody.integers())))
            else:
                answers = self._ask(requests, all_of_them=True)
                counts = self._statistics(cell, [answer.arrays for answer in answers.values()])
                sent = sum(answer.payload_bytes for answer in answers.values())
                log.info("%s: the nodes sent %.1f kB of counts", self.method.NAME, sent / 1e3)
            arrays = {**counts.arrays(all_patterns=self.method.evidence > 0)}
        about = {
            "format": FORMAT,
            "run": self.identity.run,
            "members": [asdict(member) for member in self.members],
            "self_pairs": self_pairs,
        }
        write_arrays(path, about, {**arrays, "cell": cell, "with_rules": self.with_rules})
        return cell, self_pairs, counts

    def _rules(self, every: Sequence[str]) -> tuple[Array, bool]:
        """Which rules some home has, as cells of the valid-rule tensor, and whether a device acts on itself."""
        requests = {name: self._request(Kind.RULES) for name in every}
        if self.secure:
            n_cells = len(self.vocabulary.types) ** 2 * len(self.vocabulary.relations)
            total = self._secure_sum("rules", requests, n_cells + 1)
            return np.flatnonzero(total[:-1]), bool(total[-1])
        answers = self._ask(requests, all_of_them=True)
        cell = np.unique(np.concatenate([answer.array("cell") for answer in answers.values()]))
        return cell, any(answer.number("self_rules") for answer in answers.values())

    def _secure_sum(self, name: str, requests: Mapping[str, Message], size: int) -> Array:
        """The sum over all nodes, of which the server sees no addend; an error where one is missing."""
        from fedrule.flower.secure import secure_total

        nodes = [member.node for member in self.members]
        name = f"{self.identity.run}.{name}"
        found = secure_total(
            nodes,
            requests,
            size=size,
            name=name,
            threshold=threshold_of_nodes(self.method, len(nodes)),
            ask=lambda each: self._ask(each, all_of_them=True),
        )
        log.info("%s: %d bytes of a node in a secure sum", name, max(found.sent.values()))
        return found.total

    def _statistics(self, cell: Array, parts: Sequence[Mapping[str, AnyArray]]) -> Statistics:
        """The sum of what nodes counted."""
        valid: ValidRules = valid_rules(self.vocabulary, cell)
        names = self.vocabulary.types, self.vocabulary.relations
        total = Statistics.of_nobody(*names, valid, all_patterns=self.method.evidence > 0)
        nobody = total
        for arrays in parts:
            total = total + nobody.with_arrays({name: array.astype(np.int64) for name, array in arrays.items()})
        return replace(total, noisy=self.method.privacy.noisy)

    def _private_counts(self, every: Sequence[str]) -> tuple[Array, Statistics | None]:
        """Valid rules and counts with noise that nobody can predict; without counts all rules are valid."""
        from datasets import private_counts  # of private runs only
        from datasets.common.gaussian_mechanism import secret_normals
        from fedrule.evidence import private_statistics

        method, n_homes, n_types = self.method, len(self.with_rules), len(self.vocabulary.types)
        if not method.counts_share:
            return np.arange(n_types**2 * len(self.vocabulary.relations)), None
        account = method.privacy.account(n_homes, method.engine().cohorts.fraction(n_homes))
        rules = self._noisy_rules(every, account.counts)
        valid = private_counts.valid_rules(rules, self.vocabulary)
        request = self._request(Kind.COUNTS, {"cell": valid.cell}, all_patterns=method.evidence > 0, private=True)
        answers = self._ask(dict.fromkeys(every, request), all_of_them=True)
        parts = [private_statistics.BoundedSums(dict(answer.arrays)) for answer in answers.values()]
        sums = reduce(operator.add, parts).noisy(account.counts, secret_normals)
        return valid.cell, private_statistics.statistics(self.vocabulary, valid, rules, sums, n_homes=n_homes)

    def _noisy_rules(self, every: Sequence[str], multiplier: float) -> NoisySum:
        """Rules with noise, kept before any node hears which are valid: a second draw would not be in the account."""
        from datasets.common.gaussian_mechanism import secret_normals
        from datasets.private_counts import NoisySum
        from fedrule.evidence import private_statistics

        if self.released is not None:
            about, arrays = self.released
            return NoisySum(arrays["rules"], float(about["deviation"]))
        answers = self._ask({name: self._request(Kind.RULES, private=True) for name in every}, all_of_them=True)
        total = np.sum([answer.array("sum") for answer in answers.values()], axis=0)
        rules = private_statistics.noisy_rules(total, multiplier, secret_normals)
        about = {"format": FORMAT, "run": self.identity.run, "members": [asdict(member) for member in self.members]}
        write_arrays(self.options.folder / RELEASED, {**about, "deviation": rules.deviation}, {"rules": rules.values})
        return rules

    @cached_property
    def released(self) -> tuple[dict[str, Any], dict[str, AnyArray]] | None:
        """What a server that was stopped before the setup was complete had released."""
        path = self.options.folder / RELEASED
        if not path.exists():
            return None
        about, arrays = read_arrays(path, what="release of a federation", remedy=REMEDY)
        self._check_run(about, path)
        return about, arrays

    def _setup_of_nodes(
        self, cell: Array, self_pairs: bool, counts: Statistics | None, layout: FlatParameters, seed: int
    ) -> Message:
        """What all clients have to know, but the number of a node's first one."""
        arrays: dict[str, AnyArray] = {f"{PREFIX}cell": cell}
        if counts is not None:
            sums = counts.arrays(all_patterns=self.method.evidence > 0)
            arrays |= {f"{PREFIX}{name}": array.astype(np.int32) for name, array in sums.items()}
        return Message(Kind.ROUND, {"seed": seed, "self_pairs": self_pairs, "layout": layout_text(layout)}, arrays)

    def _connect(self, *, enough: int = 0) -> None:
        """Learn which nodes are there and which of the run's members they are, waiting until there are enough."""
        needed = {member.node for member in self.members}
        end = time.monotonic() + self.options.wait
        while True:
            known = {*self.connected.values(), *(n for n, at in self.asked.items() if time.monotonic() < at + AGAIN)}
            present = set(self.transport.nodes())
            new = [node for node in present if node not in known]
            if new:
                requests = {node: self._request(Kind.JOIN) for node in new}
                answers = self.transport.exchange(requests, seconds=min(JOIN_SECONDS, self.options.limit))
                self.asked |= dict.fromkeys(answers, time.monotonic())
                for node, answer in answers.items():
                    try:
                        name = self._checked(answer).text("node")
                        check_joined(answer)
                        other = self.connected.get(name, node)
                        if other != node and other in present:
                            raise Refusal(
                                f"node {name} is connected already, by another key: the folder (state=) of one machine "
                                "was copied to another; empty the copy, so that it gets a name of its own"
                            )
                        if needed and name not in needed:
                            raise Refusal(f"node {name} is not a member of this run; it can join the next one")
                        self.connected[name], self.joined[name] = node, answer
                        self.refused.pop(node, None)
                    except BROKEN as error:
                        self.refused[node] = str(error)
                        log.warning("node %d is left out: %s", node, error)
            if len(self.connected) >= enough:
                return
            if time.monotonic() > end:
                reasons = "".join(f"; node {node}: {reason}" for node, reason in self.refused.items())
                raise DataError(
                    f"{len(self.connected)} of {enough} nodes are there after {self.options.wait:g} seconds; start the "
                    f"others, or set nodes to fewer{reasons}"
                )
            time.sleep(0.5)

    # Requests and answers.

    def _request(self, kind: Kind, arrays: Mapping[str, AnyArray] | None = None, **header: Json) -> Message:
        """A request, with the time at which it is made."""
        common = {"limit": self.options.limit, "clock": self.options.clock}
        return Message(kind, self.identity.header(**common, **header), arrays or {})

    def _ask(
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

    def _checked(self, answer: Message, begin: float | None = None) -> Message:
        """An answer that is not a refusal, of the same version and by a clock that is right."""
        if answer.kind == Kind.REFUSED:
            needs = answer.header.get("needs")
            raise Refusal(f"it refuses: {answer.text('reason')}", needs=Kind(str(needs)) if needs else None)
        check_sender(answer, here="the server", there="the node", vocabulary=self.vocabulary.fingerprint)
        if answer.text("run") != self.identity.run:
            raise Refusal(f"an answer of run {answer.text('run')}, this is {self.identity.run}")
        now = time.time()
        check_clock(
            answer.real("time"),
            earliest=now - self.options.limit if begin is None else begin,
            latest=now,
            whose="the node",
            tolerance=self.options.clock,
        )
        return answer

    # The server's folder.

    def _configuration(self) -> dict[str, object]:
        """What must be equal where a run is resumed."""
        return {
            "run": self.identity.run,
            "method": self.method.NAME,
            "parameters": asdict(self.method),
            "vocabulary": self.vocabulary.fingerprint,
            "seed": self.options.seed,
        }

    def _run(self) -> str:
        """The name of the run, drawn where the folder is new."""
        path = self.options.folder / RUN
        now = {
            "method": self.method.NAME,
            "parameters": json.loads(json.dumps(asdict(self.method))),
            "vocabulary": self.vocabulary.fingerprint,
            "seed": self.options.seed,
        }
        if not path.exists():
            drawn: dict[str, object] = {"format": FORMAT, "run": secrets.token_hex(8), **now}
            if self.method.privacy.noisy:
                drawn["sampling_seed"] = secrets.randbits(62)
            with atomic_file(path) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_text(json.dumps(drawn, indent=1) + "\n", "utf-8")
        try:
            saved = json.loads(path.read_text("utf-8"))
            run = str(saved.pop("run"))
            self.sampling_seed = int(saved["sampling_seed"]) if self.method.privacy.noisy else None
        except (ValueError, LookupError, AttributeError):
            raise DataError(f"{path}: damaged; {REMEDY}") from None
        different = [name for name, value in now.items() if saved.get(name) != value]
        if different or saved.get("format") != FORMAT:
            raise DataError(
                f"{path}: of another run, with another {', '.join(different) or 'format'}; choose another folder, or "
                "empty this one to start again"
            )
        return run

    def _check_run(self, about: Mapping[str, object], path: Path) -> None:
        if about.get("run") != self.identity.run or about.get("format") != FORMAT:
            raise DataError(f"{path}: of another run than {RUN} beside it; {REMEDY}")

    def _record(self, done: int, report: RoundReport, traffic: RoundTraffic) -> None:
        """A line for the round; a round that is done again after a crash has its last line count."""
        line = {"round": done, **report.values(), **traffic.as_json()}
        path = self.options.folder / ROUNDS
        if path.exists() and (text := path.read_text("utf-8")) and not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], "utf-8")  # a line that a killed server did not end
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: None if value != value else value for name, value in line.items()}) + "\n")


@dataclass(eq=False)
class _Rounds:
    """Rounds by way of the nodes, as `Engine.step` does them in a simulation."""

    federation: Federation
    engine: Engine
    layout: FlatParameters
    seed: int
    setup: Message  # what nodes are sent with their first round
    traffic: RoundTraffic = field(default_factory=lambda: RoundTraffic({}, {}, (), {}, {}, {}, {}))
    has_setup: set[str] = field(default_factory=set)  # nodes that were sent it since the server started
    state_bytes: dict[str, int] = field(default_factory=dict)
    after: ServerState | None = None  # the last round

    def step(self, state: ServerState, rate: float) -> tuple[ServerState, RoundReport]:
        """One more round."""
        federation, engine = self.federation, self.engine
        federation._connect()
        with_rules = np.flatnonzero(federation.with_rules)
        n_clients = engine.n_clients(federation.with_rules)
        seed = self.seed if federation.sampling_seed is None else federation.sampling_seed
        cohort = engine.cohorts.of(with_rules, seed=seed, number=state.round, n_clients=n_clients)
        faulty = cohort.present[cohort.corrupted]
        secure = federation.secure
        members = {m.node: m for m in federation.members if secure or _has_any(m, cohort.present)}
        requests, shared = {}, {}
        for member in members.values():
            requests[member.node], shared[member.node] = self._request(state, member, cohort.present, faulty)
        collect = self._secure_sums if secure else self._plain_sums
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
        self.traffic = RoundTraffic(
            sent,
            {name: broadcast_payload(requests[name]) for name in answers},
            tuple(missing.tolist()),
            {name: len(answer.array("row")) for name, answer in answers.items() if "row" in answer.arrays},
            {name: len(requests[name].array("shared")) for name in answers},
            {name: answer.header.get("ready") for name, answer in answers.items()},
            {name: answer.header.get("seconds") for name, answer in answers.items()},
        )
        self.after = after
        return after, report

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
        from fedrule.flower.secure import secure_total

        nothing = self.engine.nothing(self.layout, len(state.shared))
        threshold = threshold_of_nodes(self.federation.method, len(members))
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
        try:
            found = secure_total(
                [*members],
                requests,
                size=len(nothing.integers()),
                name=f"{self.federation.identity.run}.round{state.round}",
                threshold=threshold,
                contributors=contributors,
                check=lambda name, answer: _counted(answer, requests[name], members[name]),
                ask=lambda each: self._answers(each, members),
            )
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
        for member in self.federation.members:
            last = state.clients.last[member.clients].astype(np.int32)
            requests[member.node] = self.federation._request(Kind.END, {"last": last}, round=state.round)
        self.federation._ask(requests, seconds=min(END_SECONDS, self.federation.options.limit))

    def _answers(self, requests: Mapping[str, Message], members: Mapping[str, Member]) -> dict[str, Message]:
        """The nodes' answers; a node that lacks the setup, because it or its folder is new, is sent it first."""
        found = self.federation._ask(
            {
                name: request
                if name in self.has_setup or request.kind != Kind.ROUND
                else self._with_setup(request, members[name])
                for name, request in requests.items()
            }
        )
        lacking = [name for name, answer in found.items() if answer.kind == Kind.REFUSED]
        if lacking:
            self.federation._ask({name: self.federation._request(Kind.JOIN) for name in lacking})
            again = {name: self._with_setup(requests[name], members[name]) for name in lacking}
            found |= self.federation._ask(again)
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
        if len(which) and state.shared_round[0] >= 0 and not self.federation.secure:
            which = np.flatnonzero(np.isin(state.shared_round, last[cohort]))
        arrays: dict[str, AnyArray] = {
            "model": state.model,
            "shared": state.shared[which],
            "shared_round": state.shared_round[which].astype(np.int32),
            "last": last.astype(np.int32),
            "cohort": pack_mask(cohort),
            "faulty": pack_mask(np.isin(numbers, faulty)),
        }
        header: dict[str, Json] = {"round": state.round}
        if self.federation.secure:
            header["n_clients"] = self.engine.n_clients(self.federation.with_rules)
        return self.federation._request(Kind.ROUND, arrays, **header), which

    def _sums(self, answer: Message, which: Array, state: ServerState) -> RoundSum:
        """The sums in an answer, with the weights of all shared vectors; refused where it does not fit."""
        vectors = 2 if self.engine.hyperparameters.sends_mean_gradient else 1
        sums = unpack_sums(answer, self.layout, vectors=vectors, n_shared=len(which))
        base = self.engine.nothing(self.layout, len(state.shared)).base_weight
        if len(base) and len(sums.base_weight):
            base[which] = sums.base_weight
        return replace(sums, base_weight=base)


def _counted(answer: Message, request: Message, member: Member) -> Array:
    """Which of a member's clients an answer counts; refused where it does not fit the request."""
    counted = unpack_mask(answer.array("counted"), member.homes)
    if (counted & ~unpack_mask(request.array("cohort"), member.homes)).any():
        raise Refusal("it counts clients that are not in the cohort")
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


def check_joined(answer: Message) -> None:
    """Refuse an answer of a node that joins from which its clients cannot be numbered."""
    if answer.number("homes") < 1:
        raise Refusal(f"{answer.number('homes')} homes; a node holds at least one")
    if answer.value("first") is not None and answer.number("first") < 0:
        raise Refusal(f"first must be a whole number from 0 on, got {answer.number('first')}")
    unpack_mask(answer.array("with_rules"), answer.number("homes"))


def missing_of(folder: Path) -> dict[int, Array]:
    """From the record of the rounds, what `Federated.fit` takes as `missing`."""
    found: dict[int, Array] = {}
    for line in rounds_of(folder):
        done, missing = int(str(line["round"])), cast("list[int]", line["missing"])
        found.pop(done - 1, None)
        if missing:
            found[done - 1] = np.array(missing, dtype=np.int64)
    return found


def rounds_of(folder: Path) -> list[dict[str, Json]]:
    """The record of the rounds; a last line that is being written, or never was to its end, is left out."""
    path = folder / ROUNDS
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n") and line.strip()]


def predicted_bytes(engine: Engine, layout: FlatParameters, *, rows: int, shared: int) -> tuple[float, int]:
    """Bytes that a node sends and receives in a round, where its clients touch `rows` different rows of relations.

    As long as four bytes hold a number. For a node with one home these are `RoundReport.sent_bytes` and, from its
    second round on, `received_bytes`.
    """
    vectors = 2 if engine.hyperparameters.sends_mean_gradient else 1
    return layout.sent_bytes(rows, vectors=vectors), broadcast_bytes(layout, shared=shared)
