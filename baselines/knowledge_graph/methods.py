"""Rules as triples of a knowledge graph, (trigger type, relation, action type): RotatE and ComplEx.

Z. Sun, Z. Deng, J. Nie and J. Tang, RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space, ICLR
2019, https://arxiv.org/abs/1902.10197. T. Trouillon, J. Welbl, S. Riedel, E. Gaussier and G. Bouchard, Complex
Embeddings for Simple Link Prediction, ICML 2016, https://arxiv.org/abs/1606.06357. Entity types and relations have
vectors h, r, t in C^d, and a triple has the score

    RotatE:   gamma - |h r - t|, where r only rotates: |r_k| = 1 in every dimension k,
    ComplEx:  Re(sum over k of h_k r_k conj(t_k)).

Both are trained with the self-adversarial loss of Sun et al. (equations 5 and 6): for
a rule with score s and sampled non-rules with scores s_i,

    -log sigmoid(s) - sum over i of p_i log sigmoid(-s_i),    p = softmax(alpha s_i), taken as constant.

Three things differ from the papers. A triple counts once for each home that has it, so that common rules score higher.
Non-rules are rules that the home could have but has not (`corrupted_triples` are the papers' way: another trigger or
action type). And a home has a vector u, which is added to h: what a type does as a trigger in this home. With learned
vectors v_i = a_r + b_h + c_t, of the relation and the two types of each of its n rules, and o of the types it owns,

    u = sum of v_i over its rules / sqrt(n + 1) + mean of o over its types.

In training the automation that is predicted is left out of u, or the model would learn to repeat its input. Homes have
no weights of their own, so homes never seen in training are folded in by what they have and own.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from baselines.items import Items, NonRules, automations
from baselines.knowledge_graph.gradients import KnownRules, Loss, Rows, Tables, Typed, batch_gradient
from baselines.knowledge_graph.model import KnowledgeGraphModel, ScoreFunction
from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask


class Batch(NamedTuple):
    """Rules of homes and sampled non-rules."""

    typed: Typed  # of candidates by number: the items, and behind them those that are none
    home: Array  # [n]  sorted
    entry: Array  # [n]  of the rule among all rules
    candidate: Array  # [n, 1 + n_non_rules]  the rule first
    is_drawn: Mask  # [n, 1 + n_non_rules]  whether there is one


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """Draws batches from the rules of homes."""

    items: Items
    typed: Typed  # the items
    rules: KnownRules
    home: Array  # [n_rules]
    non_rules: NonRules | None  # None: rules with another trigger or action type instead
    n_non_rules: int

    @classmethod
    def of(cls, train: Homes, items: Items, method: KnowledgeGraph) -> Sampler:
        known = items.matrix(train)
        trigger, action, relation = items.valid.typed()
        return cls(
            items,
            Typed(trigger, relation, action),
            KnownRules.of(train, known, automations(train, items)),
            np.repeat(np.arange(train.n_homes), np.diff(known.indptr)),
            None if method.corrupted_triples else NonRules.of(train, items, owned=method.owned),
            method.non_rules,
        )

    def epoch(self, batch_size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """All rules once, in random order, in batches of about this size."""
        n_batches = math.ceil(len(self.home) / batch_size)
        for some in np.array_split(rng.permutation(len(self.home)), n_batches):
            yield self.batch(np.sort(some), rng)

    def batch(self, entry: Array, rng: np.random.Generator) -> Batch:
        """Of these rules, sorted: those of a home are side by side."""
        home, item = self.home[entry], self.rules.item[entry]
        if self.non_rules is None:
            typed, others, is_drawn = self._corrupt(item, rng)
        else:
            typed, (others, is_drawn) = self.typed, self.non_rules.draw_each(home, self.n_non_rules, rng)
        drawn = np.column_stack([np.ones(len(entry), dtype=np.bool_), is_drawn])
        return Batch(typed, home, entry, np.column_stack([item, others]), drawn)

    def _corrupt(self, item: Array, rng: np.random.Generator) -> tuple[Typed, Array, Mask]:
        """The rules with another trigger or action type; one that some home has is none."""
        trigger, relation, action = (np.repeat(column[item], self.n_non_rules) for column in self.typed)
        other, replaces_head = rng.integers(0, self.items.valid.n_types, len(trigger)), rng.random(len(trigger)) < 0.5
        head, tail = np.where(replaces_head, other, trigger), np.where(replaces_head, action, other)
        both = Typed(*map(np.concatenate, zip(self.typed, (head, relation, tail), strict=True)))
        other, is_none = len(self.items) + np.arange(len(head)), self.items.valid.contains(head, tail, relation)
        return both, other.reshape(-1, self.n_non_rules), ~is_none.reshape(-1, self.n_non_rules)


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), changing `x` in place."""

    FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, x: Rows, weight_decay: float) -> None:
        self.x, self.weight_decay = x, weight_decay
        self.first, self.second, self.steps = np.zeros_like(x), np.zeros_like(x), 0

    def step(self, gradient: Rows, rate: float) -> None:
        self.steps += 1
        self.first += (1 - self.FIRST_DECAY) * (gradient - self.first)
        self.second += (1 - self.SECOND_DECAY) * (gradient**2 - self.second)
        root = np.sqrt(self.second) / math.sqrt(1 - self.SECOND_DECAY**self.steps) + self.EPSILON
        self.x *= 1 - rate * self.weight_decay
        self.x -= rate / (1 - self.FIRST_DECAY**self.steps) * self.first / root


@dataclass(frozen=True)
class KnowledgeGraph(ABC):
    """A knowledge-graph model of typed rules, in which a home has a vector made of what it has and owns."""

    NAME: ClassVar[str]
    SCORE: ClassVar[ScoreFunction]
    log_odds: ClassVar[bool] = False  # its non-rules are those a home could have, not the evaluation's
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "dimension": ("choice", 8, 16, 32, 64),
        "non_rules": ("choice", 4, 8, 16, 32),
        "temperature": ("float", 0.0, 2.0),
        "learning_rate": ("log", 0.002, 0.05),
        "weight_decay": ("log", 0.03, 10.0),
        "least_steps": ("int", 300, 1500),
    }

    dimension: int = 16  # d: complex numbers in a vector
    personal: bool = True  # homes have a vector; without, all homes get the same scores
    non_rules: int = 16  # sampled for each rule, anew in each epoch
    corrupted_triples: bool = False  # the papers' non-rules: another trigger or action type, and no home has them
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    temperature: float = 1.0  # alpha: how much more high-scoring non-rules count; 0: all the same
    epochs: int = 10  # passes over all rules
    least_steps: int = 600  # more epochs where so few rules are trained on that they would be fewer steps; 0: never
    batch_size: int = 512  # rules in a step
    learning_rate: float = 0.01  # of Adam; it falls to zero along half a cosine
    weight_decay: float = 1.0  # of Adam, decoupled: pull of all weights towards zero, times the learning rate

    def __post_init__(self) -> None:
        check_range(self.NAME, self, "at least 1", "dimension", "non_rules", "epochs", "batch_size")
        check_range(self.NAME, self, "at least 0", "temperature", "least_steps", "weight_decay")
        check_range(self.NAME, self, "above 0", "learning_rate")
        if self.corrupted_triples and not self.owned:
            raise DataError(f"{self.NAME}: owned False has no effect with corrupted_triples; leave it at True")

    @property
    def gamma(self) -> float:
        """The score of a triple that fits exactly; ComplEx has none."""
        return 0.0

    def schedule(self, n_rules: int) -> tuple[int, int]:
        """Epochs and steps of each: more than `epochs` where so few rules would be fewer than `least_steps`."""
        steps = math.ceil(n_rules / self.batch_size)
        return max(self.epochs, math.ceil(self.least_steps / steps)), steps

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> KnowledgeGraphModel:
        """Adam on batches of rules; a round is an epoch."""
        items = Items.of(train)
        tables = Tables(len(train.types), len(train.relations), self.dimension, self.personal)
        x = tables.initial(self.SCORE, rng)
        if not len(items):
            return KnowledgeGraphModel(items, train, tables.embeddings(x, self.SCORE, self.gamma))
        sampler = Sampler.of(train, items, self)
        loss = Loss(self.SCORE == "rotate", self.gamma, float(self.temperature), self.personal)
        epochs, steps = self.schedule(len(sampler.home))
        optimizer = AdamW(x, self.weight_decay)
        for epoch in range(epochs):
            total = 0.0
            for batch in sampler.epoch(self.batch_size, rng):
                gradient = np.zeros_like(x)
                total += batch_gradient(x, tables.offsets, loss, batch.typed, sampler.rules, *batch[1:], gradient)
                done = optimizer.steps / (steps * epochs)
                optimizer.step(gradient, self.learning_rate * (0.5 + 0.5 * math.cos(math.pi * done)))
            if on_round is not ignore:
                model = KnowledgeGraphModel(items, train, tables.embeddings(x, self.SCORE, self.gamma))
                on_round(epoch + 1, epochs, model, {"loss": total / steps})
        return KnowledgeGraphModel(items, train, tables.embeddings(x, self.SCORE, self.gamma))


@register("rotate")
@dataclass(frozen=True)
class RotateMethod(KnowledgeGraph):
    """Rules as triples of a knowledge graph: a relation rotates trigger type to action type (Sun et al. 2019)."""

    NAME: ClassVar[str] = "rotate"
    SCORE: ClassVar[ScoreFunction] = "rotate"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = KnowledgeGraph.SPACE | {"margin": ("float", 1.0, 12.0)}

    dimension: int = 32
    weight_decay: float = 0.3
    margin: float = 4.0  # gamma: the score of a triple that fits exactly

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "above 0", "margin")

    @property
    def gamma(self) -> float:
        return float(self.margin)


@register("complex")
@dataclass(frozen=True)
class ComplexMethod(KnowledgeGraph):
    """Rules as triples of a knowledge graph with complex bilinear scores (Trouillon et al. 2016)."""

    NAME: ClassVar[str] = "complex"
    SCORE: ClassVar[ScoreFunction] = "complex"

    weight_decay: float = 2.0
