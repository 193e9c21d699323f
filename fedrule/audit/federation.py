"""The attacked federation: homes that train, and what the server is sent of them. Attacks never see this file's types.

What a client sends is what `Engine.train_clients` returns for a cohort of that client alone; sums of cohorts are sums
of those, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_array

from baselines.items import Items, homes_with_both
from datasets.homes import Array, Homes, Mask, spans
from datasets.private_counts import ones
from datasets.valid import ValidRules
from fedrule.audit.view import Guess, Public, UpdateView, truth_of
from fedrule.evidence.counts import PATTERNS, ColumnReader, PatternCounts, RoomCounts, companion_cells
from fedrule.federated.loop import ServerSchedule
from fedrule.federated.optimizers import Precise
from fedrule.federated.rounds import Engine, RoundSum
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.trainer import Trainer
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.methods.federated import Federated, trainer_of

PRIOR_HAVE, PRIOR_OWN = 0.3, 3.0  # added to both counts of a share


@dataclass(frozen=True, eq=False)
class Federation:
    """Homes, the method that trains on them, and the server's state so far."""

    homes: Homes
    method: Federated
    public: Public
    engine: Engine
    trainer: Trainer
    schedule: ServerSchedule
    state: ServerState
    has: Mask  # [n_homes, n_valid]  typed rules of homes
    devices: Array  # [n_homes, n_types]
    share: Precise  # [n_valid]  homes with each rule
    could: Precise  # [n_valid]  homes that own both of its types

    @classmethod
    def of(cls, homes: Homes, method: Federated, *, seed: int) -> Federation:
        """Before the first round."""
        prepared = method.prepare(homes, np.random.default_rng(seed))
        initial = prepared.scorer.initial(torch.Generator().manual_seed(seed))
        task = method.task(prepared, FlatParameters.of(initial), seed)
        engine, trainer, valid = method.engine(), trainer_of(prepared.train, task), prepared.scorer.valid
        has = np.asarray(Items(valid).matrix(homes).todense()) > 0
        devices = np.bincount(
            homes.device_home * len(homes.types) + homes.device_type, minlength=homes.n_homes * len(homes.types)
        )
        trigger, action, _ = valid.typed()
        return cls(
            homes,
            method,
            Public(homes.types, homes.relations, prepared.scorer, task.layout, task.hyperparameters, task.self_pairs),
            engine,
            trainer,
            ServerSchedule(method.NAME, method.rounds, seed, method.server_rate, method.decay),
            engine.begin(trainer, task.layout.flat(initial)),
            has,
            devices.reshape(homes.n_homes, len(homes.types)),
            has.sum(axis=0).astype(np.float64),
            homes_with_both(homes)[trigger * valid.n_types + action],
        )

    def after(self, rounds: int) -> Federation:
        """The same after so many rounds in all."""
        state = self.state
        while state.round < rounds:
            rate = self.schedule.rate_after(state.round)
            state, _ = self.engine.step(self.trainer, state, seed=self.schedule.seed, rate=rate)
        return replace(self, state=state)

    def updates(self, clients: Array) -> dict[int, RoundSum]:
        """What each of these clients sends in the next round; those that have nothing to train on are left out."""
        broadcast, found = self.state.broadcast(), {}
        for client in clients.tolist():
            trained = self.engine.train_clients(self.trainer, self.state.clients.copy(), broadcast, np.array([client]))
            if len(trained.counted):
                found[client] = trained.sums
        return found

    def skipped(self) -> Federation:
        """The same, but the next round draws other batches: the server has done one more and the model stayed."""
        return replace(self, state=replace(self.state, round=self.state.round + 1))

    def own(self, client: int) -> Precise | None:
        """own_k of a client, which the server knows where it has seen all its updates; None where there is none."""
        states, layout = self.state.clients, self.public.layout
        if states.own.empty or states.last[client] < 0:
            return None
        vector, rows = np.zeros(layout.size), slice(states.row_start[client], states.row_start[client + 1])
        vector[: layout.n_dense] = states.own.dense[client]
        vector[layout.in_rows(states.row[rows])] = states.own.rows[rows]
        return vector

    def shared(self, client: int) -> Vector | None:
        """shared_k, which the server sends to a client; None: zeros."""
        broadcast = self.state.broadcast()
        (group,) = broadcast.group(self.state.clients.last[[client]])
        return None if group < 0 else broadcast.shared[group]

    def prior(self, client: int) -> Precise:
        """[n_valid]: of the other homes that own both types, the share that has the rule."""
        trigger, action, _ = self.public.valid.typed()
        owns = (self.devices[client][trigger] > 0) & (self.devices[client][action] > 0)
        prior: Precise = (self.share - self.has[client] + PRIOR_HAVE) / (self.could - owns + PRIOR_OWN)
        return prior

    def truth(self, client: int) -> Guess:
        """What a perfect attacker would claim."""
        return truth_of(self.public.valid, self.has[client])

    def view(self, client: int, update: Precise, deviation: float, *, clients: int) -> UpdateView:
        """What the server sees and knows of a client from a sum."""
        return UpdateView(
            public=self.public,
            model=self.state.model,
            update=update,
            prior=self.prior(client),
            clients=clients,
            noise=deviation,
            shared=self.shared(client),
            devices=self.devices[client],
        )


def contributions(homes: Homes, valid: ValidRules) -> dict[str, csr_array]:
    """[n_homes, n_cells] by the name of each counting sum of fedrank: the zeros and ones that each home adds."""
    reader, rules, n_types = ColumnReader.of(homes.types, homes.relations), homes.rules, valid.n_types
    trigger, action, relation = valid.typed()
    patterns = PatternCounts.of(reader.typed(trigger, relation, action), PATTERNS)
    number = patterns.find(reader.columns(homes, rules))
    item = number[PATTERNS[0]] - 1
    room_names = ("rooms, by types", "same room, by types", "rooms, by typed rule", "same room, by typed rule")
    sizes = (n_types**2, n_types**2, len(valid), len(valid))
    rooms = zip(room_names, RoomCounts.of_each_home(homes, valid), sizes, strict=True)
    found = {
        "typed rules": (rules.home, item, len(valid)),
        **{
            f"rules by {', '.join(p).replace('_', ' ')}": (rules.home, number[p], len(patterns.count(p)))
            for p in PATTERNS[1:]
        },
        "pairs of owned types": _pairs(homes.device_home, homes.device_type, n_types, diagonal=True),
        "pairs of typed rules": _pairs(rules.home, item, len(valid), diagonal=False),
        "relations in common": (*companion_cells(homes, valid), 0),
        **{name: (*cells, size) for name, cells, size in rooms},
    }
    return {name: _table(homes.n_homes, *columns) for name, columns in found.items()}


def _table(n_homes: int, home: Array, cell: Array, n_cells: int) -> csr_array:
    """A 1 for each home and cell that occur, however often."""
    if not n_cells:  # too many to have a column each: those that occur
        _, cell = np.unique(cell, return_inverse=True)
        n_cells = int(cell.max(initial=-1)) + 1
    return ones(home, cell, (n_homes, n_cells))


def _pairs(home: Array, item: Array, n_items: int, *, diagonal: bool) -> tuple[Array, Array, int]:
    """Every unordered pair of items of a home, or with `diagonal` also each with itself: homes, cells, their number."""
    key = np.unique(home * max(n_items, 1) + item)
    home, item = np.divmod(key, max(n_items, 1))
    begin = np.searchsorted(home, home)  # of the home's run
    many = np.arange(len(home)) - begin + diagonal
    first = np.repeat(np.arange(len(home)), many)
    return home[first], item[spans(begin, begin + many)] * n_items + item[first], n_items**2
