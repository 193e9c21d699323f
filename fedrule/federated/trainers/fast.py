"""Clients of the paper's network trained by one compiled kernel, all of a chunk in one call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from datasets.homes import Array
from fedrule.federated.aligned import Aligned
from fedrule.federated.at_home import Task
from fedrule.federated.trainers.kernel import Clients, Correction, Moments, Outcome, Shape, Training, train_shard
from fedrule.federated.layout import Layout, Vector
from fedrule.federated.population import Population
from fedrule.federated.work import Work
from fedrule.model.model import Network
from fedrule.training.losses import bce
from fedrule.training.examples import Practice, Practices


def is_fast(task: Task) -> bool:
    """Whether the kernel knows the model: GraphSAGE as in Algorithm 1, the predictor, cross entropy, no more."""
    network, scorer = task.scorer.network, task.scorer
    if not isinstance(network, Network) or scorer.terms or task.objective is not bce or network.encoder != "sage":
        return False
    sizes = network.sizes
    plain = sizes.direction == "in" and sizes.messages == "type"
    return plain and not sizes.node_embedding and not sizes.dropout


@dataclass(frozen=True, eq=False)
class Fast(Population):
    """The homes of training as clients."""

    kept: dict[int, FastRound] = field(default_factory=dict)  # rounds of all clients by draw, where draws come again

    @cached_property
    def _practices(self) -> Practices:
        return self.task.practices(self.homes)

    def begin(self, number: int, clients: Array, model: Vector) -> FastRound:
        task = self.task
        if len(clients) < int((self.rules > 0).sum()):
            homes = self.homes.subset(clients)
            practice = task.practices(homes).draw(task.key(number, clients), score=task.score(model))
            return FastRound.of(task, practice, clients)
        turn = task.turn(number)
        if turn is not None and turn in self.kept:
            return self.kept[turn]
        everybody = np.arange(self.homes.n_homes)
        practice = self._practices.draw(task.key(number, everybody), score=task.score(model))
        made = FastRound.of(task, practice, everybody)
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
    def of(cls, task: Task, practice: Practice, clients: Array) -> FastRound:
        """Of a practice whose homes are these clients; those that are asked nothing are left out."""
        asked = np.unique(practice.candidates.home)
        if len(asked) < len(clients):
            practice = practice.part(asked)
        homes, candidates, n_relations = practice.context, practice.candidates, len(practice.context.relations)
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
            practice.positive.astype(np.float32),
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
