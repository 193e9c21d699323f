"""The search without pruning, vectorised: every pair with every relation by one product of matrices, then the mask.

What one would write first in NumPy, and the second reference of the pruned search beside plain Python; in the float64
that its lists are exact to, or in float32, which is to its advantage.
"""

from __future__ import annotations

import numpy as np

from datasets.homes import Array
from fedrule.inference.graph import Graph
from fedrule.models.model_file import SavedModel
from fedrule.inference.network import NumpyNetwork


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
