"""The search by the paper's text in plain Python lists: every ordered pair with every relation, then what is valid.

Nothing is pruned unless one asks for it, so that it shows what a pruned search may leave out. What any programmer
would do is done: A z and B z of the predictor's first layer, phi^1 [z_i ; z_j] = A z_i + B z_j, once for each device.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from struct import pack, unpack
from typing import TypeAlias

import numpy as np

from datasets.homes import Array
from fedrule.inference.encode import Graph
from fedrule.inference.network import NumpyNetwork
from fedrule.models.file import SavedModel

Rule: TypeAlias = tuple[int, int, int]  # trigger device, action device, relation
Vector: TypeAlias = list[float]

LARGEST = 3.4028234663852886e38  # of float32


class PlainSearch:
    """A model's numbers as lists."""

    def __init__(self, saved: SavedModel) -> None:
        options = saved.card.options
        self.n_types, n_relations = len(saved.card.types), len(saved.card.relations)
        self.weights = {name: array.tolist() for name, array in saved.weights.items()}
        self.columns = {name: array.T.tolist() for name, array in saved.weights.items() if array.ndim == 2}
        self.ways = {"in": ("in",), "out": ("out",), "both": ("in", "out"), "none": ()}[options["direction"]]
        self.relation_is_told = options["messages"] == "relation"
        cells = [divmod(cell, n_relations) for cell in saved.arrays["valid.cell"].tolist()]
        typed = [(*divmod(types, self.n_types), relation) for types, relation in cells]
        self.itself = {rule for rule, homes in zip(typed, saved.arrays["counts.itself"].tolist(), strict=True) if homes}
        self.valid = set(typed)
        self.relations: dict[tuple[int, int], list[int]] = {}
        for trigger_type, action_type, relation in sorted(self.valid):
            self.relations.setdefault((trigger_type, action_type), []).append(relation)

    def best(
        self, types: Sequence[int], rules: Sequence[Rule], k: int, *, pruned: bool = False
    ) -> list[tuple[Rule, float]]:
        """The best `k` rules that a home of devices of these types, and with these rules, does not have.

        `pruned` scores valid relations only: what the valid-rule tensor alone brings.
        """
        z = self.embed(types, rules)
        as_trigger = self._layer("phi.trigger", z, bias="phi.hidden_bias")
        as_action = self._layer("phi.action", z)
        second = list(zip(self.weights["phi.relation"], self.weights["phi.relation_bias"], strict=True))
        found, known = [], set(rules)
        for i, a in enumerate(as_trigger):
            for j, b in enumerate(as_action):
                hidden = [max(0.0, p + q) for p, q in zip(a, b, strict=True)]
                asked = self.relations.get((types[i], types[j]), []) if pruned else range(len(second))
                logits = [second[relation][1] + sum(map(mul, hidden, second[relation][0])) for relation in asked]
                for relation, logit in zip(asked, logits, strict=True):
                    rule = (types[i], types[j], relation)
                    possible = rule in self.itself if i == j else rule in self.valid
                    if possible and (i, j, relation) not in known:
                        found.append((-_single(logit), i, j, relation))
        return [((i, j, relation), -score) for score, i, j, relation in sorted(found)[:k]]

    def embed(self, types: Sequence[int], rules: Sequence[Rule]) -> list[Vector]:
        """Algorithm 1: z of each device."""
        heard: dict[str, list[list[tuple[int, int]]]] = {way: [[] for _ in types] for way in ("in", "out")}
        for trigger, action, relation in rules:
            heard["in"][action].append((trigger, relation))
            heard["out"][trigger].append((action, relation))
        h = [[float(kind == number) for number in range(self.n_types)] for kind in types]
        h = [[max(0.0, value) for value in state] for state in self._convolved(1, h, heard)]
        return self._convolved(2, h, heard)

    def _convolved(self, layer: int, h: list[Vector], heard: dict[str, list[list[tuple[int, int]]]]) -> list[Vector]:
        """theta [h ; mean of what the neighbours say], for each device."""
        out = self._layer(f"theta.self{layer}", h, bias=f"theta.bias{layer}")
        for way in self.ways:
            state = self._layer(f"theta.{way}{layer}", h)
            for device, neighbours in enumerate(heard[way]):
                said = [state[neighbour] for neighbour, _ in neighbours]
                if self.relation_is_told:
                    said += [self.weights[f"theta.relation_{way}{layer}"][relation] for _, relation in neighbours]
                if neighbours:
                    mean = [sum(part) / len(neighbours) for part in zip(*said, strict=True)]
                    out[device] = [own + part for own, part in zip(out[device], mean, strict=True)]
        return out

    def _layer(self, name: str, vectors: list[Vector], bias: str = "") -> list[Vector]:
        rows = self.columns[name]
        added = self.weights[bias] if bias else [0.0] * len(rows)
        return [[b + sum(map(mul, vector, row)) for row, b in zip(rows, added, strict=True)] for vector in vectors]


def _single(logit: float) -> float:
    """As float32, in which scores are compared; never infinite."""
    value: float = unpack("f", pack("f", min(max(logit, -LARGEST), LARGEST)))[0]
    return value


# --- The search without pruning, vectorised: every pair with every relation by one product of matrices, then the mask.
#
# What one would write first in NumPy, and the second reference of the pruned search beside plain Python; in the float64
# that its lists are exact to, or in float32, which is to its advantage.


class DenseSearch:
    """The weights of all relations, and which typed rules are valid."""

    def __init__(self, saved: SavedModel, kind: type[np.float32] | type[np.float64]) -> None:
        self.network = NumpyNetwork.of(saved)
        weight, bias = saved.weights["phi.relation"], saved.weights["phi.relation_bias"]
        self.weight = np.ascontiguousarray(
            np.column_stack([weight, bias]).T, dtype=kind
        )  # the last hidden number is always 1
        self.valid = saved.valid.dense()
        self.itself = np.zeros_like(self.valid)
        self.itself.reshape(-1)[saved.valid.cell[saved.itself]] = True

    def best(self, graph: Graph, k: int) -> list[tuple[int, int, int]]:
        """Trigger, action and relation of the best that the home does not have, best first."""
        kind, each = graph.device_type, np.arange(len(graph.device_type))
        as_trigger, as_action = (
            side.astype(self.weight.dtype) for side in self.network.sides(self.network.embed(graph))
        )
        hidden = as_trigger[:, None] + as_action
        np.maximum(hidden, 0, out=hidden)
        score = hidden.reshape(-1, hidden.shape[2]) @ self.weight
        possible = self.valid[kind[:, None], kind]
        possible[each, each] = self.itself[kind, kind]
        possible[graph.trigger, graph.action, graph.relation] = False
        place = np.flatnonzero(possible)
        found = score.reshape(-1)[place]
        chosen: Array = np.argpartition(found, -k)[-k:] if len(found) > k else np.arange(len(found))
        chosen = place[chosen[np.argsort(-found[chosen], kind="stable")]]
        columns = np.unravel_index(chosen, possible.shape)
        return [(t, a, r) for t, a, r in zip(*(column.tolist() for column in columns), strict=True)]
