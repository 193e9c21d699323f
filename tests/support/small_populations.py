"""Small populations of clients for tests of the federated engine, and a server and an oracle side by side on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from hypothesis import strategies as st

from datasets import Homes, Relation, Rules, Words
from datasets.valid import ValidRules
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.client import LocalTraining
from fedrule.federated.rounds import WEIGHT_POWER, Engine, RoundReport
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.trainer import Trainer
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.network.encoders import Sizes
from fedrule.network.network import Network
from fedrule.network.score import Scorer
from fedrule.training.losses import bce
from tests.support.plain_federated import Loss, Server, loss_of

HIDDEN, PREDICTOR = 4, 5  # sizes of the network


def population(seed: int, *, n_homes: int = 5, n_types: int = 3, n_relations: int = 5, bare: bool = True) -> Homes:
    """Homes of 1 to 5 devices, twins among them, most with a word, with up to 6 rules, also of a device with itself.

    With `bare` homes may have no rule; the first always has one.
    """
    rng = np.random.default_rng(seed)
    many = rng.integers(1, 6, n_homes)
    start = np.cumsum(many) - many
    rules = set()
    for home in range(n_homes):
        for _ in range(rng.integers(0 if bare and home else 1, 7)):
            trigger, action = start[home] + rng.integers(many[home], size=2)
            rules.add((home, int(trigger), int(action), int(rng.integers(n_relations))))
    named = np.flatnonzero(rng.random(many.sum()) < 0.7)
    return Homes(
        name="small",
        types=tuple(f"type {i}" for i in range(n_types)),
        relations=tuple(Relation(f"state {i}", "On") for i in range(n_relations)),
        users=np.arange(n_homes),
        device_home=np.repeat(np.arange(n_homes), many),
        device_type=rng.integers(n_types, size=many.sum()),
        device_ids=np.arange(many.sum()),
        rules=Rules(*np.array(sorted(rules)).T),
        words=Words(named, rng.integers(3, size=len(named))),
    )


def populations(*, bare: bool = True) -> st.SearchStrategy[Homes]:
    """Random ones: 1 to 6 homes, 2 to 5 types, 3 to 6 relations."""
    return st.builds(
        population,
        st.integers(0, 2**32),
        n_homes=st.integers(1, 6),
        n_types=st.integers(2, 5),
        n_relations=st.integers(3, 6),
        bare=st.just(bare),
    )


@dataclass(frozen=True, eq=False)
class Setting:
    """Homes, an algorithm, and what clients are asked; both the engine and the oracle can play it."""

    homes: Homes
    engine: Engine
    seed: int = 3
    draws: int = 0
    hidden_rules: float = 0.0
    rate: float = 1.0  # of the server
    start: Vector = field(init=False)
    task: LocalTraining = field(init=False)

    def __post_init__(self) -> None:
        sizes = Sizes(len(self.homes.types), len(self.homes.relations), hidden=HIDDEN)
        scorer = Scorer(Network(sizes, predictor_hidden=PREDICTOR), ValidRules.of(self.homes))
        initial = scorer.initial(torch.Generator().manual_seed(self.seed))
        layout = FlatParameters.of(initial)
        object.__setattr__(self, "start", layout.flat(initial))
        sampling_options = {"non_rules": "paper", "per_rule": 1, "candidates": 0}
        more = (sampling_options, self.hidden_rules, True, self.seed, self.draws)
        object.__setattr__(self, "task", LocalTraining(scorer, bce, self.engine.hyperparameters, layout, *more))

    @property
    def hyperparameters(self) -> Hyperparameters:
        return self.engine.hyperparameters

    @property
    def rule_counts(self) -> np.ndarray:
        """Of each home."""
        return np.bincount(self.homes.rules.home, minlength=self.homes.n_homes)

    def played(
        self, trainer: Trainer, rounds: int, engine: Engine | None = None
    ) -> tuple[ServerState, list[RoundReport]]:
        """The state after so many rounds of the engine."""
        engine = engine or self.engine
        state, reports = engine.begin(trainer, self.start), []
        for _ in range(rounds):
            state, report = engine.step(trainer, state, seed=self.seed, rate=self.rate)
            reports.append(report)
        return state, reports

    def asked(self, number: int) -> dict[int, Loss]:
        """The losses of those who take part in a round and are asked something."""
        cohort = self.engine.cohorts.of(np.flatnonzero(self.rule_counts), seed=self.seed, number=number)
        everybody = np.arange(self.homes.n_homes)
        examples = self.task.sampler(self.homes).draw(self.task.key(number, everybody))
        parts = {int(k): examples.subset(np.array([k])) for k in cohort.present[~cohort.corrupted]}
        network = self.task.scorer.network
        assert network is not None
        return {k: loss_of(network, part) for k, part in parts.items() if len(part.candidates)}

    def expected(self, rounds: int, epsilon: float = 1e-8) -> tuple[Server, list[float]]:
        """The oracle after as many; `epsilon` is that of the clients' Adam."""
        initial = self.task.layout.parameters(self.start)
        server = Server(self.hyperparameters, self.engine.server, initial, int((self.rule_counts > 0).sum()), epsilon)
        weight = self.rule_counts.astype(float) ** WEIGHT_POWER[self.engine.weighting]
        losses = [server.round(self.asked(n), dict(enumerate(weight)), rate=self.rate) for n in range(rounds)]
        return server, losses


def whole(state: ServerState, layout: FlatParameters, client: int) -> Vector:
    """own_k of a client as a whole vector."""
    memories = state.clients
    rows = slice(memories.row_start[client], memories.row_start[client + 1])
    vector = np.zeros(layout.size, dtype=np.float32)
    vector[: layout.n_dense] = memories.own.dense[client]
    vector[layout.in_rows(memories.row[rows])] = memories.own.rows[rows]
    return vector


def control(state: ServerState, layout: FlatParameters, client: int, algorithm: str) -> Vector:
    """The papers' delta_k, or c_k of scaffold."""
    own = whole(state, layout, client)
    last = state.clients.last[client]
    if algorithm == "scaffold" or last < 0:
        return own
    return own - state.shared[list(state.shared_round).index(last)]
