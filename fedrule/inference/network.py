"""The paper's network in NumPy, so that inference runs on an edge device without torch.

Algorithm 1 gives z. The predictor's first layer splits, phi^1 [z_i ; z_j] = A z_i + B z_j, so that A z and B z are
computed once per device. Of the second layer only the rows of relations that are valid between two types are used: one
matrix for each ordered pair of types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from baselines.method import Scores
from datasets.common.errors import DataError
from datasets.homes import Array
from datasets.valid import ValidRules
from fedrule.inference.encode import Graph
from fedrule.models.card import Card
from fedrule.models.file import SavedModel, check_weights
from fedrule.network.options import EDGES, Supports, needs_defaults, parameters_depend_on

Matrix: TypeAlias = npt.NDArray[np.float64]
Kind = TypeVar("Kind", np.float32, np.float64)

NEEDS_DEFAULTS = needs_defaults(Supports.NUMPY)


def is_network_alone(saved: SavedModel) -> bool:
    """Whether a model is GraphSAGE and a predictor, and nothing else.

    A method may bring a network of its own under the same options: then it has other parameters as well.
    """
    options: Mapping[str, Any] = saved.card.options
    if missing := set(parameters_depend_on()) - options.keys():
        raise DataError(f"the card's options lack {', '.join(sorted(missing))}")
    if not options["hidden"] or any(options[name] != value for name, value in NEEDS_DEFAULTS.items()):
        return False
    return saved.weights.keys() <= _shapes(saved.card).keys()


@dataclass(frozen=True, slots=True, eq=False)
class NumpyNetwork:
    """Parameters in float64, so that scores in float32 do not depend on how many homes are scored at once."""

    valid: ValidRules
    edges: tuple[str, ...]  # that messages follow
    layers: tuple[dict[str, Matrix], dict[str, Matrix]]  # self, bias, and for each edge direction `in`, `relation_in`
    first: Matrix  # [hidden, 2 * width]  A and B, side by side
    hidden_bias: Matrix  # [2 * width]  of A; 0 for B
    of_valid: Matrix  # [n_valid, width]  weights of the second layer
    weight: tuple[Matrix, ...]  # the same by ordered pair of types [width, n_valid]
    single: tuple[Scores, ...]  # the same in float32
    largest: float  # over relations, of the sum of their absolute weights
    n_valid: tuple[int, ...]  # by ordered pair of types
    width: int  # of hidden vectors; the last entry is always 1, for the bias

    @classmethod
    def of(cls, saved: SavedModel) -> NumpyNetwork:
        card, valid = saved.card, saved.valid
        check_weights(saved.weights, _shapes(card), card)
        given = {name: array.astype(np.float64) for name, array in saved.weights.items()}
        parts = [name.removeprefix("theta.")[:-1] for name in given if name.startswith("theta.") and name[-1] == "1"]
        first, second = ({part: given[f"theta.{part}{layer}"] for part in parts} for layer in (1, 2))
        trigger, action = (np.pad(given[f"phi.{side}"], ((0, 0), (0, 1))) for side in ("trigger", "action"))
        rows = np.column_stack([given["phi.relation"], given["phi.relation_bias"]])
        of_valid = rows[valid.relation]
        weight = tuple(of_valid[start:end].T for start, end in pairwise(valid.start.tolist()))
        return cls(
            valid,
            edges=EDGES[card.options["direction"]],
            layers=(first, second),
            first=np.concatenate([trigger, action], axis=1),
            hidden_bias=np.concatenate([given["phi.hidden_bias"], [1.0], np.zeros(rows.shape[1])]),
            of_valid=of_valid,
            weight=weight,
            single=tuple(np.ascontiguousarray(each, dtype=np.float32) for each in weight),
            largest=float(np.abs(rows).sum(axis=1).max(initial=0.0)),
            n_valid=tuple(each.shape[1] for each in weight),
            width=rows.shape[1],
        )

    def embed(self, graph: Graph) -> Matrix:
        """z [n_devices, hidden]."""
        first, second = self.layers
        kind = graph.device_type
        received = [_Messages.of(graph, edge) for edge in self.edges] if len(graph.trigger) else []
        hidden = first["self"][kind] + first["bias"]
        for messages in received:
            messages.add_mean(hidden, first, first[messages.edge][kind])
        np.maximum(hidden, 0.0, out=hidden)
        z = hidden @ second["self"] + second["bias"]
        for messages in received:
            messages.add_mean(z, second, hidden @ second[messages.edge])
        return z

    def sides(self, z: Matrix) -> Matrix:
        """[n, 2 * width]: A z plus the bias, and B z: what each contributes to a pair as its trigger and its action."""
        both = z @ self.first
        both += self.hidden_bias
        return both

    def split(self, sides: npt.NDArray[Kind]) -> tuple[npt.NDArray[Kind], npt.NDArray[Kind]]:
        """Both parts of sides."""
        return sides[:, : self.width], sides[:, self.width :]

    def logits(self, as_trigger: Matrix, as_action: Matrix, number: Array) -> Matrix:
        """The logits of single candidates, from both sides of each and its number among the valid rules."""
        hidden = np.maximum(as_trigger + as_action, 0.0)
        return np.asarray(np.einsum("ij,ij->i", hidden, self.of_valid[number]))

    def type_pairs(self, graph: Graph) -> Array:
        """The ordered pair of types of each rule."""
        return graph.device_type[graph.trigger] * self.valid.n_types + graph.device_type[graph.action]

    def numbers(self, graph: Graph) -> Array:
        """The number of each rule among the valid ones; -1 if it is not valid."""
        return self.valid.number_of_cells(self.type_pairs(graph) * self.valid.n_relations + graph.relation)


class _Messages(NamedTuple):
    """Messages along the rules of a graph, sorted by receiver."""

    edge: str
    sender: Array  # [n_rules]
    relation: Array  # [n_rules]
    start: Array  # [n_receivers]  the first message of each receiver
    degree: Matrix  # [n_receivers, 1]
    receiver: Array  # [n_receivers]

    @classmethod
    def of(cls, graph: Graph, edge: str) -> _Messages:
        """For a graph with at least one rule."""
        sender, receiver = (graph.trigger, graph.action) if edge == "in" else (graph.action, graph.trigger)
        order = np.argsort(receiver, kind="stable")
        sorted_ = receiver[order]
        bounds = run_bounds(sorted_)
        degree = (bounds[1:] - bounds[:-1]).astype(np.float64)[:, None]
        return cls(edge, sender[order], graph.relation[order], bounds[:-1], degree, sorted_[bounds[:-1]])

    def add_mean(self, out: Matrix, layer: dict[str, Matrix], state: Matrix) -> None:
        """Add to each device the mean of the messages that it receives; `state` is what each device sends."""
        message = state[self.sender]
        if (relation := layer.get(f"relation_{self.edge}")) is not None:
            message += relation[self.relation]
        out[self.receiver] += np.add.reduceat(message, self.start, axis=0) / self.degree


def run_bounds(sorted_: Array) -> Array:
    """Where each run of equal values begins, and the end; for at least one value."""
    return np.array([0, *(np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1).tolist(), len(sorted_)])


def _shapes(card: Card) -> dict[str, tuple[int, ...]]:
    options, n_types, n_relations = card.options, len(card.types), len(card.relations)
    known = {"direction": tuple(EDGES), "messages": ("type", "relation")}
    for name, choices in known.items():
        if options[name] not in choices:
            raise DataError(f"the card's option {name} is {options[name]!r}, expected one of {', '.join(choices)}")
    for name in ("hidden", "predictor_hidden"):
        if type(options[name]) is not int:
            raise DataError(f"the card's option {name} is {options[name]!r}, expected a whole number")
    hidden, edges = options["hidden"], EDGES[options["direction"]]
    width = options["predictor_hidden"] or max(n_relations, hidden)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, inputs in ((1, n_types), (2, hidden)):
        shapes |= {f"theta.{part}{layer}": (inputs, hidden) for part in ("self", *edges)}
        shapes[f"theta.bias{layer}"] = (hidden,)
        if options["messages"] == "relation":
            shapes |= {f"theta.relation_{edge}{layer}": (n_relations, hidden) for edge in edges}
    shapes |= {"phi.trigger": (hidden, width), "phi.action": (hidden, width), "phi.hidden_bias": (width,)}
    return shapes | {"phi.relation": (n_relations, width), "phi.relation_bias": (n_relations,)}
