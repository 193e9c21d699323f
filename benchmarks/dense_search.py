"""The search without pruning, vectorised: every pair with every relation by one product of matrices, then the mask.

What one would write first in NumPy, and the second reference of the pruned search beside plain Python. In float32,
which is to its advantage.
"""

from __future__ import annotations

import numpy as np

from datasets.homes import Array
from fedrule.inference.graph import Graph
from fedrule.inference.model_file import SavedModel
from fedrule.inference.numpy_network import NumpyNetwork


class DenseSearch:
    """The weights of all relations, and minus infinity where a typed rule is not valid."""

    def __init__(self, saved: SavedModel) -> None:
        self.network = NumpyNetwork.of(saved)
        self.weight = np.ascontiguousarray(saved.weights["phi.relation"].T)
        self.bias = saved.weights["phi.relation_bias"]
        self.penalty = np.where(saved.valid.dense(), np.float32(0), np.float32(-np.inf))
        self.penalty_itself = np.full_like(self.penalty, -np.inf)
        self.penalty_itself.reshape(-1)[saved.valid.cell[saved.itself]] = 0

    def best(self, graph: Graph, k: int) -> list[tuple[int, int, int]]:
        """Trigger, action and relation of the best that the home does not have, best first."""
        width = self.weight.shape[0]
        sides = self.network.sides(self.network.embed(graph))
        as_trigger, as_action = (side[:, :width].astype(np.float32) for side in sides)
        hidden = as_trigger[:, None] + as_action[None]
        np.maximum(hidden, 0, out=hidden)
        score = (hidden.reshape(-1, width) @ self.weight + self.bias).reshape(*hidden.shape[:2], -1)
        score += self.penalty[graph.device_type[:, None], graph.device_type]
        score[graph.trigger, graph.action, graph.relation] = -np.inf
        each = np.arange(len(score))
        score[each, each] += self.penalty_itself[graph.device_type, graph.device_type]
        flat = score.reshape(-1)
        chosen: Array = np.argpartition(flat, -k)[-k:] if len(flat) > k else np.arange(len(flat))
        chosen = chosen[np.argsort(-flat[chosen], kind="stable")]
        found = np.stack(np.unravel_index(chosen[flat[chosen] > -np.inf], score.shape), axis=1)
        return [(trigger, action, relation) for trigger, action, relation in found.tolist()]
