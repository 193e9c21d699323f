"""FedE: the knowledge-graph embeddings of `rotate` or `complex`, learned in the homes.

M. Chen, W. Zhang, Z. Yuan, Y. Jia and H. Chen, FedE: Embedding Knowledge Graphs in Federated Setting, 2021 (IJCKG),
https://arxiv.org/abs/2010.12882. Every home trains on its own triples (trigger type, relation, action type) with the
self-adversarial loss, and the server averages each row of the tables over the homes that hold it, which an existence
mask says. With v_e^k in {0, 1} whether home k holds row e, and w_k the weight of home k,

    E_e <- sum over k of w_k v_e^k E_e^k / sum over k of w_k v_e^k.

Both sums are sums over homes: each home sends its weight behind each of its rows. So secure sums are enough, and
faults, checkpoints and server optimizers are those of the engine (`fedrule.federated`). The paper's server is
`server_optimizer=plain weighting=clients decay=false`, with all w_k the same. By default w_k is the number of rules of
the home, and Adam takes the masked mean of the updates as a gradient.

In the paper clients are a few organisations with many entities each, and relations stay with them. Here a home has
2 to 5 rules, entity types are few and relations many, so that no home could learn a relation on its own. So rows of
relations are averaged with the mask as well, and those that the vectors of homes are made of, which are not in the
paper (`baselines.knowledge_graph.methods`). A home holds the rows of its rules, of the types that it owns, and of the
non-rules that it draws in the round. This is written from the paper's text; its data has no homes to compare with.

What leaves a home in each round in which it takes part are the updates of its rows. Without secure sums the server sees
which rows these are, and so types that the home owns and relations among which are those of its rules. The list of
typed rules that any home has is known to all homes, from a sum before training (`ItemMethod`). Neither is in an account
of differential privacy, hence there is no `epsilon`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from baselines.items import Items, NonRules, automations
from baselines.knowledge_graph.gradients import KnownRules, Loss, Tables, Typed
from baselines.knowledge_graph.model import KnowledgeGraphModel, ScoreFunction
from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError, unknown
from datasets.homes import Homes
from fedrule.federated.rounds import Engine, Weighting
from fedrule.federated.trainers.triples import TripleTrainer, layout_of
from fedrule.federated.vectors import Vector
from fedrule.methods.user_item.federated_items import NOISE, ItemMethod
from fedrule.network.options import derived

MARGIN = 4.0


@register("fede")
@dataclass(frozen=True)
class FedE(ItemMethod):
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
    SERVER_RATES: ClassVar[dict[str, float]] = ItemMethod.SERVER_RATES | {"adam": 0.0076, "yogi": 0.0076}
    UNAVAILABLE: ClassVar[dict[str, str]] = NOISE | dict.fromkeys(
        ("clip", "aggregation", "trim", "assumed_attackers", "norm_bound", "norm_relative"),
        "would also change the weights by which rows are averaged over the homes that sent them",
    )

    score: ScoreFunction = "complex"  # of a triple: rotate or complex
    dimension: int = 16  # d: complex numbers in a vector
    personal: bool = True  # homes have a vector; without, all homes get the same scores
    non_rules: int = 8  # drawn for each rule, anew in each round
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    temperature: float = 1.0  # alpha: how much more high-scoring non-rules count; 0: all the same
    margin: float = MARGIN  # gamma of rotate: the score of a triple that fits exactly
    regularization: float = 0.0023  # on the squared length of the rows that a home holds
    rounds: int = 255
    learning_rate: float = derived(0.2)  # of clients
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
        if self.score != "rotate" and self.margin != MARGIN:
            raise DataError(f"{self.NAME}: margin {self.margin:g} has no effect with score {self.score}; use rotate")
        super().__post_init__()

    def _check_clients(self) -> None:
        super()._check_clients()
        if self.client_optimizer == "kept-adam":
            raise DataError("client_optimizer kept-adam would move rows that a home does not hold; set sgd or adam")

    def engine(self) -> Engine:
        return replace(super().engine(), row_means=True)

    def tables(self, items: Items) -> Tables:
        return Tables(items.valid.n_types, items.valid.n_relations, self.dimension, self.personal)

    def trainer(self, train: Homes, items: Items, seed: int) -> TripleTrainer:
        trigger, action, relation = items.valid.typed()
        return TripleTrainer(
            tables=self.tables(items),
            loss=Loss(self.score == "rotate", float(self.margin), float(self.temperature), self.personal),
            regularization=self.regularization,
            typed=Typed(trigger, relation, action),
            rules=KnownRules.of(train, items.matrix(train), automations(train, items)),
            non_rules=NonRules.of(train, items, owned=self.owned),
            n_non_rules=self.non_rules,
            seed=seed,
        )

    def initial(self, items: Items, rng: np.random.Generator) -> Vector:
        """As `rotate` and `complex` begin; no client holds a row yet."""
        return np.pad(self.tables(items).initial(self.score, rng), ((0, 0), (0, 1))).reshape(-1)

    def model(self, train: Homes, items: Items, vector: Vector) -> KnowledgeGraphModel:
        tables = self.tables(items)
        rows = vector.reshape(tables.n_rows, layout_of(tables).row_length)[:, :-1]
        return KnowledgeGraphModel(items, train, tables.embeddings(rows, self.score, self.margin))
