"""Searches that the pruned search is tested against and compared with: in plain Python, and dense in NumPy.

Both follow the paper's text: every ordered pair with every relation, then the mask of valid rules. They share one
optimization with the pruned search: A z and B z of the predictor's first layer, phi^1 [z_i ; z_j] = A z_i + B z_j, are
computed once for each device.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from struct import pack, unpack
from typing import TypeAlias

import numpy as np

from baselines.method import LARGEST_SCORE
from datasets.homes import Array
from fedrule.inference.encode import Graph
from fedrule.inference.network import NumpyNetwork
from fedrule.models.file import SavedModel
from fedrule.network.options import EDGES

Rule: TypeAlias = tuple[int, int, int]  # trigger device, action device, relation
Vector: TypeAlias = list[float]
Neighbours: TypeAlias = dict[str, list[list[tuple[int, int]]]]  # by edge and device: senders and relations


class PlainSearch:
    """The search with Python lists."""

    def __init__(self, saved: SavedModel) -> None:
        options = saved.card.options
        self.n_types, n_relations = len(saved.card.types), len(saved.card.relations)
        self.weights = {name: array.tolist() for name, array in saved.weights.items()}
        self.columns = {name: array.T.tolist() for name, array in saved.weights.items() if array.ndim == 2}
        self.edges = EDGES[options["direction"]]
        self.relation_messages = options["messages"] == "relation"
        cells = [divmod(cell, n_relations) for cell in saved.arrays["valid.cell"].tolist()]
        typed = [(*divmod(types, self.n_types), relation) for types, relation in cells]
        self.self_rules = {
            rule for rule, homes in zip(typed, saved.arrays["counts.self_rules"].tolist(), strict=True) if homes
        }
        self.valid = set(typed)
        self.relations: dict[tuple[int, int], list[int]] = {}
        for trigger_type, action_type, relation in sorted(self.valid):
            self.relations.setdefault((trigger_type, action_type), []).append(relation)

    def best(
        self, types: Sequence[int], rules: Sequence[Rule], k: int, *, pruned: bool = False
    ) -> list[tuple[Rule, float]]:
        """The best `k` rules that a home with devices of these types and with these rules lacks.

        `pruned` scores valid relations only, to measure what the valid-rule tensor alone saves.
        """
        z = self.embed(types, rules)
        as_trigger = self._layer("phi.trigger", z, bias="phi.hidden_bias")
        as_action = self._layer("phi.action", z)
        second = list(zip(self.weights["phi.relation"], self.weights["phi.relation_bias"], strict=True))
        found, known = [], set(rules)
        for i, a in enumerate(as_trigger):
            for j, b in enumerate(as_action):
                hidden = [max(0.0, p + q) for p, q in zip(a, b, strict=True)]
                relations = self.relations.get((types[i], types[j]), []) if pruned else range(len(second))
                logits = [second[relation][1] + sum(map(mul, hidden, second[relation][0])) for relation in relations]
                for relation, logit in zip(relations, logits, strict=True):
                    rule = (types[i], types[j], relation)
                    possible = rule in self.self_rules if i == j else rule in self.valid
                    if possible and (i, j, relation) not in known:
                        found.append((-_single(logit), i, j, relation))
        return [((i, j, relation), -score) for score, i, j, relation in sorted(found)[:k]]

    def embed(self, types: Sequence[int], rules: Sequence[Rule]) -> list[Vector]:
        """Algorithm 1: z of each device."""
        neighbours: Neighbours = {edge: [[] for _ in types] for edge in ("in", "out")}
        for trigger, action, relation in rules:
            neighbours["in"][action].append((trigger, relation))
            neighbours["out"][trigger].append((action, relation))
        h = [[float(kind == number) for number in range(self.n_types)] for kind in types]
        h = [[max(0.0, value) for value in state] for state in self._convolve(1, h, neighbours)]
        return self._convolve(2, h, neighbours)

    def _convolve(self, layer: int, h: list[Vector], neighbours: Neighbours) -> list[Vector]:
        """theta [h ; mean of the neighbours' messages], for each device."""
        out = self._layer(f"theta.self{layer}", h, bias=f"theta.bias{layer}")
        for edge in self.edges:
            state = self._layer(f"theta.{edge}{layer}", h)
            for device, senders in enumerate(neighbours[edge]):
                messages = [state[sender] for sender, _ in senders]
                if self.relation_messages:
                    messages += [self.weights[f"theta.relation_{edge}{layer}"][relation] for _, relation in senders]
                if senders:
                    mean = [sum(part) / len(senders) for part in zip(*messages, strict=True)]
                    out[device] = [own + part for own, part in zip(out[device], mean, strict=True)]
        return out

    def _layer(self, name: str, vectors: list[Vector], bias: str = "") -> list[Vector]:
        rows = self.columns[name]
        added = self.weights[bias] if bias else [0.0] * len(rows)
        return [[b + sum(map(mul, vector, row)) for row, b in zip(rows, added, strict=True)] for vector in vectors]


def _single(logit: float) -> float:
    """As a finite float32, in which scores are compared."""
    value: float = unpack("f", pack("f", min(max(logit, -LARGEST_SCORE), LARGEST_SCORE)))[0]
    return value


class DenseSearch:
    """The search by one matrix product over all pairs and relations: what one would write first in NumPy.

    In float64, as exact as the pruned search, or in float32, which is faster.
    """

    def __init__(self, saved: SavedModel, kind: type[np.float32] | type[np.float64]) -> None:
        self.network = NumpyNetwork.of(saved)
        weight, bias = saved.weights["phi.relation"], saved.weights["phi.relation_bias"]
        # The last hidden entry is always 1.
        self.weight = np.ascontiguousarray(np.column_stack([weight, bias]).T, dtype=kind)
        self.valid = saved.valid.dense()
        self.self_rules = np.zeros_like(self.valid)
        self.self_rules.reshape(-1)[saved.valid.cell[saved.self_rules]] = True

    def best(self, graph: Graph, k: int) -> list[tuple[int, int, int]]:
        """Trigger, action and relation of the best rules that the home lacks, best first."""
        kind, each = graph.device_type, np.arange(len(graph.device_type))
        as_trigger, as_action = (
            side.astype(self.weight.dtype) for side in self.network.split(self.network.sides(self.network.embed(graph)))
        )
        hidden = as_trigger[:, None] + as_action
        np.maximum(hidden, 0, out=hidden)
        score = hidden.reshape(-1, hidden.shape[2]) @ self.weight
        possible = self.valid[kind[:, None], kind]
        possible[each, each] = self.self_rules[kind, kind]
        possible[graph.trigger, graph.action, graph.relation] = False
        place = np.flatnonzero(possible)
        found = score.reshape(-1)[place]
        chosen: Array = np.argpartition(found, -k)[-k:] if len(found) > k else np.arange(len(found))
        chosen = place[chosen[np.argsort(-found[chosen], kind="stable")]]
        columns = np.unravel_index(chosen, possible.shape)
        return [(t, a, r) for t, a, r in zip(*(column.tolist() for column in columns), strict=True)]
