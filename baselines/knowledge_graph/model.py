"""A fitted knowledge-graph model: it scores typed rules by embeddings, with the equations of `methods`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from baselines.items import Items, UserItemModel
from datasets.homes import Array, Homes
from datasets.private_counts import owned_types

ScoreFunction: TypeAlias = Literal["rotate", "complex"]
Vectors: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """What is learned, as complex vectors: d real parts, then d imaginary parts."""

    score: ScoreFunction
    margin: float  # gamma of RotatE
    entity: Vectors  # [n_types, 2 d]
    relation: Vectors  # [n_relations, 2 d]  of length 1 in every dimension with RotatE
    # Of the homes' vectors; None: homes have none.
    rule_relation: Vectors | None = None  # a: [n_relations, 2 d]
    rule_trigger: Vectors | None = None  # b: [n_types, 2 d]
    rule_action: Vectors | None = None  # c: [n_types, 2 d]
    owned: Vectors | None = None  # o: [n_types, 2 d]


class KnowledgeGraphModel(UserItemModel):
    """Scores all items for homes; homes without rules are scored by the types that they own."""

    def __init__(self, items: Items, train: Homes, embeddings: Embeddings) -> None:
        super().__init__(items, train)
        self.embeddings = embeddings
        trigger, action, relation = items.valid.typed()
        self._head: Vectors = embeddings.entity[trigger]
        self._tail = times_conjugate(embeddings.entity[action], embeddings.relation[relation])
        self._rule: Vectors | None = None
        if embeddings.rule_relation is not None:
            assert embeddings.rule_trigger is not None
            assert embeddings.rule_action is not None
            of_types = embeddings.rule_trigger[trigger] + embeddings.rule_action[action]
            self._rule = embeddings.rule_relation[relation] + of_types

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """As torch-geometric's models score triples of types h + u, r and t, but all items in one product.

        h r conj(t) is h times the conjugate of t conj(r), and |h r - t| is |h - t conj(r)|, since r only rotates. In
        float64: rounded to float32 the scores do not depend on which homes share a product.
        """
        home = self._home_vectors(homes, which)
        if self.embeddings.score == "complex":
            return np.asarray(home @ self._tail.T + (self._head * self._tail).sum(axis=1))
        apart = self._head - self._tail
        square = (home**2).sum(axis=1)[:, None] + 2 * (home @ apart.T) + (apart**2).sum(axis=1)
        return np.asarray(self.embeddings.margin - np.sqrt(np.maximum(square, 0)))

    def _home_vectors(self, homes: Homes, which: Array) -> Vectors:
        """u: [len(which), 2 d]."""
        if self._rule is None or self.embeddings.owned is None:
            return np.zeros((len(which), self._head.shape[1]))
        known, owned = self.items.matrix(homes)[which], owned_types(homes)[which]
        of_rules = (known @ self._rule) / np.sqrt(np.diff(known.indptr) + 1.0)[:, None]
        of_types = (owned @ self.embeddings.owned) / np.maximum(np.diff(owned.indptr), 1)[:, None]
        return np.asarray(of_rules + of_types)


def times_conjugate(t: Vectors, r: Vectors) -> Vectors:
    """t conj(r) in every dimension: [n, 2 d]."""
    (t_re, t_im), (r_re, r_im) = np.split(t, 2, axis=1), np.split(r, 2, axis=1)
    return np.concatenate([t_re * r_re + t_im * r_im, t_im * r_re - t_re * r_im], axis=1)
