"""Clients of the paper's network, a chunk in one call of a compiled kernel: `algorithm.client_round`, faster.

Tests compare the two. Vectors are laid out as in `fedrule.federated.vectors`, for GraphSAGE with messages along rules:

    self1 in1 bias1 self2 in2 bias2 | trigger action hidden_bias | one row for each relation
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, Mask, distinct
from fedrule.arrays import read_only
from fedrule.federated.algorithm import FedAvg, FedGate, FedProx, FedRule, Scaffold
from fedrule.federated.client import LocalTraining
from fedrule.federated.optimizers import Precise
from fedrule.federated.trainers.kernel_client_round import train_clients
from fedrule.federated.trainers.trainer import ClientChunk, Population
from fedrule.federated.vectors import Vector
from fedrule.network.network import Network
from fedrule.training.examples import Examples, ExampleSampler
from fedrule.training.losses import bce

NONE = np.zeros((0, 0), dtype=np.float32)
NO_INDICES = np.zeros(0, dtype=np.int64)


class Shape(NamedTuple):
    """The network's sizes."""

    n_types: int
    hidden: int
    units: int  # between the predictor's two layers
    n_relations: int

    @property
    def n_dense(self) -> int:
        """Size of the part before the rows of relations."""
        return 2 * (self.n_types + self.hidden + 1) * self.hidden + (2 * self.hidden + 1) * self.units

    @property
    def size(self) -> int:
        return self.n_dense + self.n_relations * (self.units + 1)


class Clients(NamedTuple):
    """Homes one after the other; each `*_start` [n_clients + 1] says where they begin. Devices are numbered by home.

    A message goes from the trigger of each rule to its action; equal ones count repeatedly. A client's rows are the
    relations whose rows it trains: those of its triples, and others that a correction moves.
    """

    device_start: Array
    device_type: Array  # [n_devices]
    edge_start: Array
    sender: Array  # [n_edges]
    receiver: Array  # [n_edges]
    triple_start: Array
    trigger: Array  # [n_triples]
    action: Array  # [n_triples]
    relation: Array  # [n_triples]
    positive: Vector  # [n_triples]  1 for a rule, 0 for a non-rule
    row_start: Array
    row: Array  # [n_rows]  relations, sorted within a client, none twice
    weight: Precise  # [n_clients]  in the sums; NaN: a simulated fault

    def part(self, first: int, end: int) -> Clients:
        """Clients first to end."""
        columns: dict[str, Any] = self._asdict()
        span = slice(0, 0)
        for name, column in self._asdict().items():
            if name.endswith("_start"):
                span = slice(int(column[first]), int(column[end]))
                columns[name] = column[first : end + 1] - column[first]
            else:
                columns[name] = column[span]
        return Clients(**columns | {"weight": self.weight[first:end]})


class Training(NamedTuple):
    """Hyperparameters of all clients."""

    steps: int = 3  # tau
    theta_rate: float = 0.1
    phi_rate: float = 0.1
    proximal: float = 0.0  # mu
    adam: bool = False
    kept: bool = False  # whether Adam keeps its moments after the round
    by_gradients: bool = False  # p_k is the mean of g~; otherwise that of the steps
    without_base: bool = False  # leave tau eta lambda shared_k out of the sum of rows: see `ClientChunk`
    clip: float = 0.0  # largest L2 norm of a client's weighted update in the sum; 0: any


class Correction(NamedTuple):
    """own_k, changed in place, and shared_k. The default corrects nothing."""

    used: bool = False
    theta_lambda: float = 0.0
    phi_lambda: float = 0.0
    own_dense: Vector = NONE  # [n_clients, n_dense]
    own_rows: Vector = NONE  # [n_rows, units + 1]
    shared: Vector = NONE  # [n_groups, size]
    group: Array = NO_INDICES  # [n_clients]  which of these is shared_k; -1: none


class Moments(NamedTuple):
    """State of an Adam that keeps its moments, changed in place."""

    first_dense: Vector = NONE  # [n_clients, n_dense]
    first_rows: Vector = NONE  # [n_rows, units + 1]
    second_dense: Vector = NONE
    second_rows: Vector = NONE
    steps: Array = NO_INDICES  # [n_clients]


class Outcome(NamedTuple):
    """Results, written in place; exact sums are added to what is there."""

    update: Precise  # [size]  sum of weight * Delta_k
    mean_gradient: Precise  # [size]  sum of weight * p_k, of Adam by gradients; otherwise empty
    loss: Vector  # [n_clients]  of the global model; 0 without triples
    finite: Mask  # [n_clients]


class Shard(NamedTuple):
    """Clients, with what the compiled loops need besides."""

    device_start: Array
    device_type: Array
    edge_start: Array
    sender: Array
    sender_type: Array
    receiver: Array
    norm: Vector  # [n_edges]  1 / how many messages the receiver gets
    triggers_start: Array
    triggers: Array  # devices that are the trigger of a triple, each once
    trigger: Array  # [n_triples]  by place among these
    actions_start: Array
    actions: Array
    action: Array
    triple_start: Array
    place: Array  # [n_triples]  of the relation among the client's rows
    positive: Vector
    row_start: Array
    row: Array
    weight: Precise

    @classmethod
    def of(cls, clients: Clients) -> Shard:
        start = clients.device_start
        edge, triple = (np.repeat(start[:-1], np.diff(s)) for s in (clients.edge_start, clients.triple_start))
        messages = np.bincount(edge + clients.receiver)
        columns: tuple[npt.NDArray[Any], ...] = (
            start,
            clients.device_type,
            clients.edge_start,
            clients.sender,
            clients.device_type[edge + clients.sender],
            clients.receiver,
            (1 / messages[edge + clients.receiver]).astype(np.float32),
            *_distinct(start, triple, clients.trigger),
            *_distinct(start, triple, clients.action),
            clients.triple_start,
            _places(clients),
            clients.positive,
            clients.row_start,
            clients.row,
            clients.weight,
        )
        return cls(*map(read_only, columns))


def _places(clients: Clients) -> Array:
    """[n_triples]: the place of each triple's relation among the rows of its client."""
    width = int(max(clients.row.max(initial=0), clients.relation.max(initial=0))) + 1
    each = np.arange(len(clients.row_start) - 1)
    rows = np.repeat(each, np.diff(clients.row_start)) * width + clients.row
    client = np.repeat(each, np.diff(clients.triple_start))
    wanted = client * width + clients.relation
    found = np.searchsorted(rows, wanted)
    if len(wanted) and (found.max() >= len(rows) or (rows[found] != wanted).any()):
        raise DataError("kernel: relation is not among the client's rows")
    return found - clients.row_start[client]


def _distinct(start: Array, first: Array, device: Array) -> tuple[Array, Array, Array]:
    """Start and number of the devices of each client that occur, and the place of each of `device` among them."""
    used = np.zeros(start[-1] + 1, dtype=np.int64)
    used[first + device] = 1
    before = np.cumsum(used) - used
    found = np.flatnonzero(used) - np.repeat(start[:-1], np.diff(before[start]))
    return before[start], found, before[first + device] - before[first]


def check(
    shape: Shape,
    model: Vector,
    clients: Clients,
    training: Training,
    correction: Correction,
    moments: Moments,
    outcome: Outcome,
) -> None:
    """An error where the kernel would read or write outside an array: compiled code does not check."""
    n, n_triples, size = len(clients.weight), len(clients.trigger), shape.size
    dense, rows = (n, shape.n_dense), (len(clients.row), shape.units + 1)
    none = (0, 0)
    kept, used = training.adam and training.kept, correction.used
    read: dict[str, tuple[npt.NDArray[Any], type[np.generic], tuple[int, ...]]] = {
        "model": (model, np.float32, (size,)),
        "weight": (clients.weight, np.float64, (n,)),
        "receiver": (clients.receiver, np.int64, clients.sender.shape),
        "action": (clients.action, np.int64, (n_triples,)),
        "relation": (clients.relation, np.int64, (n_triples,)),
        "positive": (clients.positive, np.float32, (n_triples,)),
        "shared": (correction.shared, np.float32, (len(correction.shared), size if used else 0)),
        "group": (correction.group, np.int64, (n if used else 0,)),
    }
    written = {
        "update": (outcome.update, np.float64, (size,)),
        "mean_gradient": (outcome.mean_gradient, np.float64, (size if training.adam and training.by_gradients else 0,)),
        "loss": (outcome.loss, np.float32, (n,)),
        "finite": (outcome.finite, np.bool_, (n,)),
        "own_dense": (correction.own_dense, np.float32, dense if used else none),
        "own_rows": (correction.own_rows, np.float32, rows if used else none),
        **{
            name: (getattr(moments, name), np.float32, (dense if name.endswith("dense") else rows) if kept else none)
            for name in moments._fields[:4]
        },
        "steps": (moments.steps, np.int64, (n if kept else 0,)),
    }
    for name, (array, dtype, expected) in (read | written).items():
        if array.dtype != dtype or array.shape != expected:
            raise DataError(
                f"kernel: {name} must be {np.dtype(dtype)} of shape {expected}, got {array.dtype} of {array.shape}"
            )
        if name in written and not array.flags.carray:
            raise DataError(f"kernel: {name} is written in place and must be contiguous and writable")
    if training.steps < 1:
        raise DataError(f"kernel: local steps must be at least 1, got {training.steps}")
    counts = {}
    for name, column in (
        ("device", clients.device_type),
        ("edge", clients.sender),
        ("triple", clients.trigger),
        ("row", clients.row),
    ):
        start = getattr(clients, f"{name}_start")
        ends = start.shape == (n + 1,) and start[0] == 0 and start[-1] == len(column)
        if not ends or (np.diff(start) < 0).any():
            raise DataError(f"kernel: {name}_start does not divide {len(column):,} values among {n:,} clients")
        counts[name] = np.diff(start)
    devices = {name: np.repeat(counts["device"], counts[name]) for name in ("edge", "triple")}
    for name, index, limit in (
        ("device_type", clients.device_type, np.array(shape.n_types)),
        ("row", clients.row, np.array(shape.n_relations)),
        ("sender", clients.sender, devices["edge"]),
        ("receiver", clients.receiver, devices["edge"]),
        ("trigger", clients.trigger, devices["triple"]),
        ("action", clients.action, devices["triple"]),
        ("group", correction.group + 1, np.array(len(correction.shared) + 1)),  # -1 is none
    ):
        if (index < 0).any() or (index >= limit).any():
            raise DataError(f"kernel: {name} is out of range")


def train_shard(
    shape: Shape,
    model: Vector,
    clients: Clients,
    training: Training,
    outcome: Outcome,
    *,
    correction: Correction | None = None,
    moments: Moments | None = None,
) -> None:
    """Train every client from `model` [size]; `outcome`, `correction.own_*` and `moments` are written in place.

    A client whose model, loss or next state is not finite adds nothing to the sums and keeps its state; see
    `outcome.finite`. One without triples has no gradient, but is moved by its correction. The interpreter's lock is
    released: threads can train shards, each with its own sums.
    """
    correction = correction if correction and correction.used else Correction()
    moments = moments if moments and training.adam and training.kept else Moments()
    check(shape, model, clients, training, correction, moments, outcome)
    # numba compiles once for each combination of types: plain numbers, and read-only arrays where nothing is written.
    numbers = zip((int, float, float, float, bool, bool, bool, bool, float), training, strict=True)
    correction = correction._replace(
        theta_lambda=float(correction.theta_lambda),
        phi_lambda=float(correction.phi_lambda),
        shared=read_only(correction.shared),
        group=read_only(correction.group),
    )
    training = Training(*(kind(value) for kind, value in numbers))
    shape, model = Shape(*map(int, shape)), read_only(model)
    train_clients(shape, model, Shard.of(clients), training, correction, moments, outcome)


def fits_kernel(task: LocalTraining) -> bool:
    """Whether the kernel computes this algorithm and this model: GraphSAGE of Algorithm 1, predictor, cross entropy."""
    if type(task.hyperparameters.equations) not in (FedAvg, FedProx, FedGate, FedRule, Scaffold):
        return False
    network = task.scorer.network
    return network is not None and network.is_papers and not task.scorer.terms and task.objective is bce


@dataclass(frozen=True, eq=False)
class KernelTrainer(Population):
    """The training homes as clients."""

    cache: dict[int, KernelRound] = field(default_factory=dict)  # rounds of all clients by draw, where used again

    @cached_property
    def _sampler(self) -> ExampleSampler:
        return self.task.sampler(self.homes)

    def begin(self, number: int, clients: Array, model: Vector) -> KernelRound:
        task, turn = self.task, self.task.turn(number)
        if len(clients) < int((self.rule_counts > 0).sum()):
            key = task.key(number, self.numbers_of(clients))
            examples = task.sampler(self.homes.subset(clients)).draw(key, score=task.score(model))
            return KernelRound.of(task, task.labelled(examples, key.client), clients)
        if turn is not None and turn in self.cache:
            return self.cache[turn]
        everybody = np.arange(self.homes.n_homes)
        key = task.key(number, self.numbers_of(everybody))
        examples = task.labelled(self._sampler.draw(key, score=task.score(model)), key.client)
        made = KernelRound.of(task, examples, everybody)
        if turn is not None:
            self.cache[turn] = made
        return made


@dataclass(frozen=True, slots=True, eq=False)
class KernelRound:
    """A round of `KernelTrainer`."""

    task: LocalTraining
    clients: Array
    homes: Clients  # with the rows of the relations in their batches, without weights

    @classmethod
    def of(cls, task: LocalTraining, examples: Examples, clients: Array) -> KernelRound:
        """Of the training examples of these clients; clients without any are left out."""
        trained = distinct(examples.candidates.home)
        if len(trained) < len(clients):
            examples = examples.subset(trained)
        homes, candidates, n_relations = examples.context, examples.candidates, len(examples.context.relations)
        begin, rules = homes.device_start[:-1], homes.rules
        each = np.arange(len(trained) + 1)
        touched = distinct(candidates.home * n_relations + candidates.relation)
        batches = Clients(
            homes.device_start,
            homes.device_type,
            np.searchsorted(rules.home, each),
            rules.trigger - begin[rules.home],
            rules.action - begin[rules.home],
            np.searchsorted(candidates.home, each),
            candidates.trigger - begin[candidates.home],
            candidates.action - begin[candidates.home],
            candidates.relation,
            examples.positive.astype(np.float32),
            np.searchsorted(touched, each * n_relations),
            touched % n_relations,
            np.zeros(len(trained)),
        )
        return cls(task, clients[trained], batches)

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        start = self.homes.row_start[first : end + 1]
        return start - start[0], self.homes.row[start[0] : start[-1]]

    def train(self, chunk: ClientChunk) -> None:
        h, states, broadcast, network = chunk.h, chunk.states, chunk.broadcast, self.task.scorer.network
        assert isinstance(network, Network)
        sizes = network.sizes
        first, second = states.first, states.second
        train_shard(
            Shape(sizes.n_types, sizes.hidden, chunk.layout.row_length - 1, sizes.n_relations),
            broadcast.model,
            self.homes.part(chunk.first, chunk.end)._replace(
                row_start=states.row_start, row=states.row, weight=np.where(chunk.faulty, np.nan, chunk.weight)
            ),
            Training(
                h.steps,
                h.theta_rate,
                h.phi_rate,
                h.proximal,
                h.adam,
                h.optimizer == "kept-adam",
                h.sends_mean_gradient,
                without_base=h.corrects and h.row_sparse,
                clip=chunk.clip,
            ),
            Outcome(chunk.update, chunk.mean_gradient, chunk.loss, chunk.finite),
            correction=Correction(
                h.corrects,
                h.theta_lambda,
                h.phi_lambda,
                states.own.dense,
                states.own.rows,
                broadcast.shared,
                chunk.group,
            ),
            moments=Moments(first.dense, first.rows, second.dense, second.rows, states.steps),
        )
