"""FedE: the knowledge-graph embeddings of `rotate` or `complex`, learned in the homes.

M. Chen, W. Zhang, Z. Yuan, Y. Jia and H. Chen, FedE: Embedding Knowledge Graphs in Federated Setting, 2021 (IJCKG),
https://arxiv.org/abs/2010.12882. Every home trains on its own triples (trigger type, relation, action type) with the
self-adversarial loss, and the server averages each row of the tables over the homes that hold it, which an existence
mask says. With v_e^k in {0, 1} whether home k holds row e,

    E_e <- sum over k of v_e^k E_e^k / sum over k of v_e^k.

Both sums are sums over homes: each home sends a 1 behind each of its rows. So secure sums are enough, and faults,
checkpoints and server optimizers are those of the engine (`fedrule.federated`). The paper's server is `plain` with
rate 1; the others take the masked mean of the updates as a gradient.

In the paper clients are a few organisations with many entities each, and relations stay with them. Here a home has
2 to 5 rules, entity types are few and relations many, so that no home could learn a relation on its own. So rows of
relations are averaged with the mask as well, and those that the vectors of homes are made of, which are not in the
paper (`baselines.knowledge_graph.methods`). A home holds the rows of its rules, of the types that it owns, and of the
non-rules that it draws in the round. This is written from the paper's text; its data has no homes to compare with.

What leaves a home in each round in which it takes part are the updates of its rows. Without secure sums the server sees
which rows these are, and so types that the home owns and relations among which are those of its rules. The list of
typed rules that any home has is known to all homes, as in the other federated methods. Neither is in an account of
differential privacy, hence there is no `epsilon`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from baselines.items import Items, NonRules, automations
from baselines.knowledge_graph.gradients import KnownRules, Loss, Tables, Typed
from baselines.knowledge_graph.model import Embeddings, KnowledgeGraphModel, ScoreFunction
from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.common.errors import DataError, unknown
from datasets.homes import Homes
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.loop import train as train_rounds
from fedrule.federated.options import FederatedOptions
from fedrule.federated.rounds import Engine, RoundReport, Weighting
from fedrule.federated.trainers.triples import TripleTrainer, layout_of
from fedrule.federated.vectors import Vector

log = logging.getLogger(__name__)


@register("fede")
@dataclass(frozen=True)
class FedE(FederatedOptions):
    """Knowledge-graph embeddings of typed rules, averaged over the homes that hold them (Chen et al. 2021)."""

    NAME: ClassVar[str] = "fede"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "score": ("choice", *get_args(ScoreFunction)),
        "dimension": ("choice", 8, 16, 32),
        "local_steps": ("choice", 1, 3),
        "learning_rate": ("log", 0.03, 3.0),
        "server_rate": ("log", 0.003, 0.1),
        "rounds": ("int", 100, 300),
        "regularization": ("log", 1e-4, 0.1),
    }
    SERVER_RATES: ClassVar[dict[str, float]] = FederatedOptions.SERVER_RATES | {"adam": 0.04, "yogi": 0.04}

    score: ScoreFunction = "rotate"  # of a triple: rotate or complex
    dimension: int = 16  # d: complex numbers in a vector
    personal: bool = True  # homes have a vector; without, all homes get the same scores
    non_rules: int = 8  # drawn for each rule, anew in each round
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    temperature: float = 1.0  # alpha: how much more high-scoring non-rules count; 0: all the same
    margin: float = 4.0  # gamma of rotate: the score of a triple that fits exactly
    regularization: float = 0.002  # on the squared length of the rows that a home holds
    rounds: int = 150
    local_steps: int = 1  # more take as much longer, and Adam at the server gains nothing by them
    weighting: Weighting = "rules"  # of updates: all rules count the same, as in `rotate`
    cohort: int = 128  # homes in a round
    decay: bool = True

    def __post_init__(self) -> None:
        check_range(self.NAME, self, "at least 1", "dimension", "non_rules")
        check_range(self.NAME, self, "at least 0", "temperature", "regularization")
        check_range(self.NAME, self, "above 0", "margin")
        if self.score not in get_args(ScoreFunction):
            raise unknown(f"score of {self.NAME}", self.score, get_args(ScoreFunction))
        super().__post_init__()

    def _check_privacy(self) -> None:
        if self.epsilon or self.noise_multiplier:
            raise DataError(
                "which typed rules there are, and how many homes hold a row, leave the homes without noise, so that an "
                "epsilon would not be true; set epsilon and noise_multiplier to 0, or use fedrank or fedgnn"
            )

    def _check_clients(self) -> None:
        super()._check_clients()
        if self.client_optimizer == "kept-adam":
            raise DataError("kept-adam moves rows that a home does not hold in the round; use sgd or adam")

    def engine(self) -> Engine:
        return replace(super().engine(), row_means=True)

    def fit(
        self,
        train: Homes,
        *,
        rng: np.random.Generator,
        on_round: OnRound = ignore,
        checkpoint: Checkpoint | None = None,
    ) -> KnowledgeGraphModel:
        """All randomness comes from `rng`, by way of one seed; `checkpoint` saves states and resumes from the last."""
        items, seed = Items.of(train), int(rng.integers(2**62))
        tables = Tables(len(train.types), len(train.relations), self.dimension, self.personal)
        initial = self._initial(tables, seed)
        if not len(items):
            return KnowledgeGraphModel(items, train, self._embeddings(tables, initial))
        trainer, engine = self._trainer(train, items, tables, seed), self.engine()

        def after_round(done: int, model: Vector, report: RoundReport) -> bool:
            if on_round is not ignore:
                fitted = KnowledgeGraphModel(items, train, self._embeddings(tables, model))
                on_round(done, self.rounds, fitted, report.values())
            return False

        state = engine.begin(trainer, initial)
        checkpoint = self.own_checkpoint(checkpoint, train, seed)
        model = train_rounds(engine, trainer, self.schedule(seed), state, after_round, checkpoint)
        return KnowledgeGraphModel(items, train, self._embeddings(tables, model))

    def _trainer(self, train: Homes, items: Items, tables: Tables, seed: int) -> TripleTrainer:
        trigger, action, relation = items.valid.typed()
        return TripleTrainer(
            tables=tables,
            loss=Loss(self.score == "rotate", float(self.margin), float(self.temperature), self.personal),
            regularization=self.regularization,
            typed=Typed(trigger, relation, action),
            rules=KnownRules.of(train, items.matrix(train), automations(train, items)),
            non_rules=NonRules.of(train, items, owned=self.owned),
            n_non_rules=self.non_rules,
            seed=seed,
        )

    def _initial(self, tables: Tables, seed: int) -> Vector:
        """As `rotate` and `complex` begin; no client holds a row yet."""
        rows = tables.initial(self.score, np.random.default_rng(seed))
        return np.pad(rows, ((0, 0), (0, 1))).reshape(-1)

    def _embeddings(self, tables: Tables, model: Vector) -> Embeddings:
        """The tables in a model, copied."""
        rows = model.reshape(tables.n_rows, layout_of(tables).row_length)[:, :-1]
        return tables.embeddings(rows, self.score, self.margin)
