"""Clients of the paper's network trained by one compiled kernel, all of a chunk in one call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.homes import Array, Mask
from fedrule.federated.algorithm import Precise
from fedrule.federated.client import Task
from fedrule.federated.protocols import Population, Work
from fedrule.federated.states import Aligned
from fedrule.federated.trainers.kernel_loops import train_clients
from fedrule.federated.vectors import Layout, Vector
from fedrule.federated.vectors import Vector as Floats
from fedrule.training.examples import Examples, ExampleSampler
from fedrule.training.losses import bce

# --- What the compiled kernel is handed, as flat arrays, and that these fit together: compiled code does not look.

NONE = np.zeros((0, 0), dtype=np.float32)
NO_NUMBERS = np.zeros(0, dtype=np.int64)


class Shape(NamedTuple):
    """The network's sizes."""

    n_types: int
    hidden: int
    units: int  # between the predictor's two layers
    n_relations: int

    @property
    def n_dense(self) -> int:
        """Numbers before the rows of relations."""
        return 2 * (self.n_types + self.hidden + 1) * self.hidden + (2 * self.hidden + 1) * self.units

    @property
    def size(self) -> int:
        """Numbers in all."""
        return self.n_dense + self.n_relations * (self.units + 1)


class Clients(NamedTuple):
    """Homes one after the other; each `*_start` [n_clients + 1] says where they begin. Devices count within a home.

    A message goes from the trigger of each rule to its action; equal ones count as often as they come. A client's rows
    are the relations whose rows it trains: those of its triples, and any others that a correction is to move.
    """

    device_start: Array
    device_type: Array  # [n_devices]
    edge_start: Array
    sender: Array  # [n_edges]
    receiver: Array  # [n_edges]
    triple_start: Array
    trigger: Array  # [n_triples]
    action: Array  # [n_triples]
    place: Array  # [n_triples]  of the triple's relation among the client's rows
    positive: Floats  # [n_triples]  1 for a rule, 0 for a non-rule
    row_start: Array
    row: Array  # [n_rows]  relations, sorted within a client, none twice
    weight: Precise  # [n_clients]  in the sums; no number: the client sends none


class Training(NamedTuple):
    """How every client trains."""

    steps: int = 3  # tau
    theta_rate: float = 0.1
    phi_rate: float = 0.1
    proximal: float = 0.0  # mu
    adam: bool = False
    kept: bool = False  # Adam's moments outlive the round
    by_gradients: bool = False  # p_k is the mean of g~; otherwise that of the steps
    # Leave out of the sum what a shared vector alone does to rows, tau eta lambda shared_k, if there is one. The rows
    # that a client does not have move by just that, so that whoever adds it can add it for all rows at once.
    without_base: bool = False


class Correction(NamedTuple):
    """What clients remember, changed in place, and what they are told. The default corrects nothing."""

    used: bool = False
    theta_lambda: float = 0.0
    phi_lambda: float = 0.0
    own_dense: Floats = NONE  # [n_clients, n_dense]
    own_rows: Floats = NONE  # [n_rows, units + 1]
    shared: Floats = NONE  # [n_groups, size]
    group: Array = NO_NUMBERS  # [n_clients]  which of these is shared_k; -1: none


class Moments(NamedTuple):
    """What Adam remembers where its moments are kept, changed in place."""

    first_dense: Floats = NONE  # [n_clients, n_dense]
    first_rows: Floats = NONE  # [n_rows, units + 1]
    second_dense: Floats = NONE
    second_rows: Floats = NONE
    steps: Array = NO_NUMBERS  # [n_clients]


class Outcome(NamedTuple):
    """What comes of it, in place; sums are added to what is there, on the grid."""

    update: Precise  # [size]  sum of weight * Delta_k
    progress: Precise  # [size]  sum of weight * p_k, of Adam by gradients; otherwise empty
    loss: Floats  # [n_clients]  of the model that was sent; 0 without triples
    finite: Mask  # [n_clients]


class Shard(NamedTuple):
    """Clients as the compiled loops want them."""

    device_start: Array
    device_type: Array
    edge_start: Array
    sender: Array
    sender_type: Array
    receiver: Array
    share: Floats  # [n_edges]  1 / how many messages the receiver gets
    triggers_start: Array
    triggers: Array  # devices that are the trigger of a triple, each once
    trigger: Array  # [n_triples]  by place among these
    actions_start: Array
    actions: Array
    action: Array
    triple_start: Array
    place: Array
    positive: Floats
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
            clients.place,
            clients.positive,
            clients.row_start,
            clients.row,
            clients.weight,
        )
        return cls(*map(read_only, columns))


def _distinct(start: Array, first: Array, device: Array) -> tuple[Array, Array, Array]:
    """Start and number of the devices of each client that occur, and where among them each of `device` is."""
    used = np.zeros(start[-1] + 1, dtype=np.int64)
    used[first + device] = 1
    before = np.cumsum(used) - used
    found = np.flatnonzero(used) - np.repeat(start[:-1], np.diff(before[start]))
    return before[start], found, before[first + device] - before[first]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous view that nobody can write to, of whatever comes: one type for compiled code."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def check(
    shape: Shape,
    model: Floats,
    clients: Clients,
    training: Training,
    correction: Correction,
    moments: Moments,
    outcome: Outcome,
) -> None:
    """An error for what would be read or written beside an array."""
    n, dense, rows = len(clients.weight), shape.n_dense, (len(clients.row), shape.units + 1)
    progress = shape.size if training.adam and training.by_gradients else 0
    read: list[tuple[str, npt.NDArray[Any], type[np.generic], tuple[int, ...]]] = [
        ("model", model, np.float32, (shape.size,)),
        ("weight", clients.weight, np.float64, (n,)),
        ("receiver", clients.receiver, np.int64, clients.sender.shape),
        ("action", clients.action, np.int64, clients.trigger.shape),
        ("place", clients.place, np.int64, clients.trigger.shape),
        ("positive", clients.positive, np.float32, clients.trigger.shape),
        ("shared", correction.shared, np.float32, (len(correction.shared), shape.size if correction.used else 0)),
        ("group", correction.group, np.int64, (n if correction.used else 0,)),
    ]
    written: list[tuple[str, npt.NDArray[Any], type[np.generic], tuple[int, ...]]] = [
        ("update", outcome.update, np.float64, (shape.size,)),
        ("progress", outcome.progress, np.float64, (progress,)),
        ("loss", outcome.loss, np.float32, (n,)),
        ("finite", outcome.finite, np.bool_, (n,)),
    ]
    if correction.used:
        written.append(("own_dense", correction.own_dense, np.float32, (n, dense)))
        written.append(("own_rows", correction.own_rows, np.float32, rows))
    if training.adam and training.kept:
        for name in ("first", "second"):
            written.append((f"{name}_dense", getattr(moments, f"{name}_dense"), np.float32, (n, dense)))
            written.append((f"{name}_rows", getattr(moments, f"{name}_rows"), np.float32, rows))
        written.append(("steps", moments.steps, np.int64, (n,)))
    for name, array, dtype, size in read + written:
        if array.dtype != dtype or array.shape != size:
            raise DataError(
                f"kernel: {name} is {array.dtype} of {array.shape}; it has to be {np.dtype(dtype)} of {size}"
            )
    for name, array, _, _ in written:
        if not array.flags.carray:
            raise DataError(f"kernel: {name} is to be written in place; hand in a contiguous array that can be")
    if training.steps < 1:
        raise DataError(f"kernel: {training.steps} local steps; a client takes at least 1")
    _check_numbers(shape, clients, correction)


def _check_numbers(shape: Shape, clients: Clients, correction: Correction) -> None:
    """An error where devices, rows, types, relations or shared vectors are named that are not there."""
    n = len(clients.weight)
    for name, start, column in (
        ("device_start", clients.device_start, clients.device_type),
        ("edge_start", clients.edge_start, clients.sender),
        ("triple_start", clients.triple_start, clients.trigger),
        ("row_start", clients.row_start, clients.row),
    ):
        ends = start.shape == (n + 1,) and start[0] == 0 and start[-1] == len(column)
        if not ends or (np.diff(start) < 0).any():
            raise DataError(f"kernel: {name} does not divide {len(column):,} numbers among {n:,} clients")
    devices, rows = np.diff(clients.device_start), np.diff(clients.row_start)
    edges, triples = np.diff(clients.edge_start), np.diff(clients.triple_start)
    for name, number, limit in (
        ("device_type", clients.device_type, np.array(shape.n_types)),
        ("row", clients.row, np.array(shape.n_relations)),
        ("sender", clients.sender, np.repeat(devices, edges)),
        ("receiver", clients.receiver, np.repeat(devices, edges)),
        ("trigger", clients.trigger, np.repeat(devices, triples)),
        ("action", clients.action, np.repeat(devices, triples)),
        ("place", clients.place, np.repeat(rows, triples)),
        ("group", correction.group + 1, np.array(len(correction.shared) + 1)),  # -1 is none
    ):
        if (number < 0).any() or (number >= limit).any():
            raise DataError(f"kernel: a {name} is not among those that there are")


# --- Local training by one compiled function: a shard of clients one after the other, each of them within the cache.
#
# The equations are those of `plan`. Vectors are laid out as in `layout`, for GraphSAGE with messages along rules:
#
#     self1 in1 bias1 self2 in2 bias2 | trigger action hidden_bias | one row for each relation


def train_shard(
    shape: Shape,
    model: Floats,
    clients: Clients,
    training: Training,
    outcome: Outcome,
    *,
    correction: Correction | None = None,
    moments: Moments | None = None,
) -> None:
    """Train every client from `model` [size]; `outcome`, `correction.own_*` and `moments` are written in place.

    A client that does not end finite (its model, its loss, or what it would remember) is told so in `outcome.finite`,
    adds nothing to the sums and remembers what it did before. One without triples has no gradient; a correction still
    moves it. The interpreter's lock is free meanwhile: threads can train shards, with sums of their own.
    """
    correction = correction if correction and correction.used else Correction()
    moments = moments if moments and training.adam and training.kept else Moments()
    check(shape, model, clients, training, correction, moments, outcome)
    # What is compiled is compiled for each combination of types: plain numbers, and read-only what is only read.
    train_clients(
        Shape(*map(int, shape)),
        read_only(model),
        Shard.of(clients),
        Training(
            int(training.steps),
            float(training.theta_rate),
            float(training.phi_rate),
            float(training.proximal),
            bool(training.adam),
            bool(training.kept),
            bool(training.by_gradients),
            bool(training.without_base),
        ),
        Correction(
            bool(correction.used),
            float(correction.theta_lambda),
            float(correction.phi_lambda),
            correction.own_dense,
            correction.own_rows,
            read_only(correction.shared),
            read_only(correction.group),
        ),
        moments,
        outcome,
    )


def is_fast(task: Task) -> bool:
    """Whether the kernel knows the model: GraphSAGE as in Algorithm 1, the predictor, cross entropy, no more."""
    network = task.scorer.network
    return network is not None and network.is_papers and not task.scorer.terms and task.objective is bce


@dataclass(frozen=True, eq=False)
class Fast(Population):
    """The homes of training as clients."""

    kept: dict[int, FastRound] = field(default_factory=dict)  # rounds of all clients by draw, where draws come again

    @cached_property
    def _sampler(self) -> ExampleSampler:
        return self.task.sampler(self.homes)

    def begin(self, number: int, clients: Array, model: Vector) -> FastRound:
        task = self.task
        if len(clients) < int((self.rules > 0).sum()):
            homes = self.homes.subset(clients)
            examples = task.sampler(homes).draw(task.key(number, clients), score=task.score(model))
            return FastRound.of(task, examples, clients)
        turn = task.turn(number)
        if turn is not None and turn in self.kept:
            return self.kept[turn]
        everybody = np.arange(self.homes.n_homes)
        examples = self._sampler.draw(task.key(number, everybody), score=task.score(model))
        made = FastRound.of(task, examples, everybody)
        if turn is not None:
            self.kept[turn] = made
        return made


@dataclass(frozen=True, slots=True, eq=False)
class FastRound:
    """One round of them: devices, messages and candidates, client after client."""

    task: Task
    clients: Array
    device_start: Array
    device_type: Array
    edge_start: Array
    sender: Array  # numbers of devices within the home
    receiver: Array
    triple_start: Array
    trigger: Array
    action: Array
    relation: Array
    positive: Vector
    row_start: Array
    row: Array

    @classmethod
    def of(cls, task: Task, examples: Examples, clients: Array) -> FastRound:
        """Examples whose homes are these clients; those that are asked nothing are left out."""
        asked = np.unique(examples.candidates.home)
        if len(asked) < len(clients):
            examples = examples.subset(asked)
        homes, candidates, n_relations = examples.context, examples.candidates, len(examples.context.relations)
        begin, rules = homes.device_start[:-1], homes.rules
        many = np.arange(len(asked) + 1)
        touched = np.unique(candidates.home * n_relations + candidates.relation)
        return cls(
            task,
            clients[asked],
            homes.device_start,
            homes.device_type,
            np.searchsorted(rules.home, many),
            rules.trigger - begin[rules.home],
            rules.action - begin[rules.home],
            np.searchsorted(candidates.home, many),
            candidates.trigger - begin[candidates.home],
            candidates.action - begin[candidates.home],
            candidates.relation,
            examples.positive.astype(np.float32),
            np.searchsorted(touched, many * n_relations),
            touched % n_relations,
        )

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        start = self.row_start[first : end + 1]
        return start - start[0], self.row[start[0] : start[-1]]

    def train(self, work: Work) -> None:
        plan, memory, told = work.plan, work.memory, work.told
        triples, devices, edges = (
            slice(int(start[work.first]), int(start[work.end]))
            for start in (self.triple_start, self.device_start, self.edge_start)
        )
        clients = Clients(
            _from_zero(self.device_start, work),
            self.device_type[devices],
            _from_zero(self.edge_start, work),
            self.sender[edges],
            self.receiver[edges],
            _from_zero(self.triple_start, work),
            self.trigger[triples],
            self.action[triples],
            _places(memory, _from_zero(self.triple_start, work), self.relation[triples], self.layout.n_rows),
            self.positive[triples],
            memory.row_start,
            memory.row,
            np.where(work.broken, np.nan, work.weight),
        )
        network = self.task.scorer.network
        assert network is not None
        sizes = network.sizes
        correction = Correction(
            plan.corrects,
            plan.theta_lambda,
            plan.phi_lambda,
            memory.own.dense,
            memory.own.rows,
            told.shared,
            told.group[work.first : work.end],
        )
        train_shard(
            Shape(sizes.n_types, sizes.hidden, self.layout.row_length - 1, sizes.n_relations),
            told.model,
            clients,
            Training(
                plan.steps,
                plan.theta_rate,
                plan.phi_rate,
                plan.proximal,
                plan.adam,
                plan.optimizer == "kept-adam",
                plan.sends_progress,
                without_base=plan.corrects and plan.row_sparse,
            ),
            Outcome(work.update, work.progress, work.loss, work.finite),
            correction=correction if plan.corrects else None,
            moments=Moments(
                memory.first.dense, memory.first.rows, memory.second.dense, memory.second.rows, memory.steps
            ),
        )

    @property
    def layout(self) -> Layout:
        return self.task.layout


def _from_zero(start: Array, work: Work) -> Array:
    """Where the clients of a chunk begin, counted from its first."""
    counted: Array = start[work.first : work.end + 1] - start[work.first]
    return counted


def _places(memory: Aligned, triple_start: Array, relation: Array, n_rows: int) -> Array:
    """[n_triples]: the place of each triple's relation among the rows of its client."""
    client = np.repeat(np.arange(len(triple_start) - 1), np.diff(triple_start))
    owner = np.repeat(np.arange(len(memory.row_start) - 1), np.diff(memory.row_start))
    found = np.searchsorted(owner * n_rows + memory.row, client * n_rows + relation)
    return found - memory.row_start[client]
