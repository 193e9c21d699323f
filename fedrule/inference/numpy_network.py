"""The paper's network in NumPy alone, as inference needs it: an edge device runs it without torch.

Algorithm 1 gives z; the predictor's first layer splits, phi^1 [z_i ; z_j] = A z_i + B z_j, so that A z and B z are made
once for each device. Of the second layer only rows of relations that are valid between two types are ever used,
and they stand together: one matrix for each ordered pair of types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from datasets.errors import DataError
from datasets.homes import Array
from datasets.valid import ValidRules
from fedrule.inference.graph import Graph, Matrix
from fedrule.inference.model_file import SavedModel

WAYS = {"in": ("in",), "out": ("out",), "both": ("in", "out"), "none": ()}
NOTHING_ELSE = {"encoder": "sage", "node_embedding": 0, "bias": "none", "context": 0, "evidence": 0}


def is_network_alone(options: Mapping[str, Any]) -> bool:
    """Whether a model with these options is GraphSAGE and a predictor, and nothing else."""
    return bool(options["hidden"]) and all(options[name] == value for name, value in NOTHING_ELSE.items())


@dataclass(frozen=True, slots=True, eq=False)
class NumpyNetwork:
    """Parameters in float64, so that scores in float32 are the same however many homes are asked at once."""

    valid: ValidRules
    ways: tuple[str, ...]  # along which messages go
    layers: tuple[dict[str, Matrix], dict[str, Matrix]]  # self, bias, and for each way `in`, `relation_in`
    trigger: Matrix  # [hidden, width]  A
    action: Matrix  # [hidden, width]  B
    hidden_bias: Matrix  # [width]
    weight: tuple[Matrix, ...]  # by ordered pair of types [width, n_valid]
    n_valid: tuple[int, ...]  # by ordered pair of types
    width: int  # of hidden vectors; the last one is always 1 and meets the bias

    @classmethod
    def of(cls, saved: SavedModel) -> NumpyNetwork:
        given = {name: array.astype(np.float64) for name, array in saved.weights.items()}
        options, valid = saved.card.options, saved.valid
        ways = WAYS[options["direction"]]
        parts = ["self", "bias", *ways]
        if options["messages"] == "relation":
            parts += [f"relation_{way}" for way in ways]
        try:
            layers = tuple({part: given[f"theta.{part}{layer}"] for part in parts} for layer in (1, 2))
            rows = np.column_stack([given["phi.relation"], given["phi.relation_bias"]])
            sides = given["phi.trigger"], given["phi.action"]
            hidden_bias = np.append(given["phi.hidden_bias"], 1.0)
        except KeyError as error:
            raise DataError(f"the model lacks weights.{error.args[0]}") from None
        trigger, action = (np.pad(side, ((0, 0), (0, 1))) for side in sides)
        bounds = valid.start.tolist()
        runs = [valid.relation[first:last] for first, last in pairwise(bounds)]
        weight = tuple(np.ascontiguousarray(rows[run].T) for run in runs)
        n_valid = tuple(map(len, runs))
        return cls(valid, ways, (layers[0], layers[1]), trigger, action, hidden_bias, weight, n_valid, rows.shape[1])

    def embed(self, graph: Graph) -> Matrix:
        """z [n_devices, hidden]."""
        first, second = self.layers
        kind = graph.device_type
        hidden = first["self"][kind] + first["bias"]
        for way in self.ways:
            hidden += self._mean(graph, way, first, first[way][kind])
        np.maximum(hidden, 0.0, out=hidden)
        z = hidden @ second["self"] + second["bias"]
        for way in self.ways:
            z += self._mean(graph, way, second, hidden @ second[way])
        return z

    def sides(self, z: Matrix) -> tuple[Matrix, Matrix]:
        """A z plus the bias, and B z: what each device brings to a pair as its trigger and as its action."""
        return z @ self.trigger + self.hidden_bias, z @ self.action

    def _mean(self, graph: Graph, way: str, layer: dict[str, Matrix], state: Matrix) -> Matrix:
        """The mean of the messages that reach each device, zeros where none does."""
        heard = np.zeros_like(state)
        sender, receiver = (graph.trigger, graph.action) if way == "in" else (graph.action, graph.trigger)
        if not len(sender):
            return heard
        order = np.argsort(receiver, kind="stable")
        message = state[sender[order]]
        if (of_relation := layer.get(f"relation_{way}")) is not None:
            message = message + of_relation[graph.relation[order]]
        receiver = receiver[order]
        start = np.concatenate([[0], np.flatnonzero(np.diff(receiver)) + 1])
        many = np.diff(np.append(start, len(receiver)))
        heard[receiver[start]] = np.add.reduceat(message, start, axis=0) / many[:, None]
        return heard

    def place(self, graph: Graph) -> tuple[Array, Array]:
        """Of each rule: the ordered pair of its types, and its place among what is valid there, -1 if it is not."""
        trigger_type, action_type = graph.device_type[graph.trigger], graph.device_type[graph.action]
        pair = trigger_type * self.valid.n_types + action_type
        number = self.valid.number(trigger_type, action_type, graph.relation)
        return pair, np.where(number >= 0, number - self.valid.start[pair], -1)
