"""GraphRule as a loop over homes, one small graph after the other: the reference that `GraphBatch` is timed against.

This is what the authors' public code does: each home's graph passes through two GraphSAGE layers, the predictor scores
all relations of the candidates' pairs, the losses of all homes are added up, and one step of Adam follows. Written with
torch-geometric's layers, so that it also checks our own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Linear
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot
from torch_geometric.nn import SAGEConv

from datasets.homes import Homes
from fedrule.model.encoders import Parameters
from fedrule.training.examples import Examples


class HomeGraph(NamedTuple):
    """One home: its devices, the rules that send messages, and the candidates to score."""

    features: Tensor  # [n_devices, n_types]
    messages: Tensor  # [2, n_rules]  from trigger to action
    trigger: Tensor  # [n_candidates]  devices by their position in the home
    action: Tensor  # [n_candidates]
    relation: Tensor  # [n_candidates]
    positive: Tensor  # [n_candidates]  1 for a rule


class HomeByHome:
    """The network of the paper's text with the parameters of ours, for one home at a time."""

    def __init__(self, parameters: Parameters) -> None:
        own = {name: value.detach().clone() for name, value in parameters.items()}
        self.layers = [
            _sage(own[f"theta.in{layer}"], own[f"theta.self{layer}"], own[f"theta.bias{layer}"]) for layer in (1, 2)
        ]
        self.hidden = _linear(torch.cat([own["phi.trigger"], own["phi.action"]]), own["phi.hidden_bias"])
        self.relations = _linear(own["phi.relation"].T, own["phi.relation_bias"])

    def parameters(self) -> list[Tensor]:
        return [value for part in (*self.layers, self.hidden, self.relations) for value in part.parameters()]

    def logits(self, home: HomeGraph) -> Tensor:
        """[n_candidates, n_relations]."""
        first, second = self.layers
        z = second(first(home.features, home.messages).relu(), home.messages)
        pairs = torch.cat([z[home.trigger], z[home.action]], dim=1)
        logits: Tensor = self.relations(self.hidden(pairs).relu())
        return logits

    def loss(self, homes: list[HomeGraph]) -> Tensor:
        """Mean over homes of the home's mean binary cross entropy."""
        total = torch.zeros(())
        for home in homes:
            logits = self.logits(home)[torch.arange(len(home.relation)), home.relation]
            total = total + binary_cross_entropy_with_logits(logits, home.positive)
        return total / len(homes)


def home_graphs(examples: Examples, most: int) -> list[HomeGraph]:
    """The first homes with candidates, each as a graph of its own."""
    homes, candidates = examples.context, examples.candidates
    found = []
    for home in np.unique(candidates.home)[:most].tolist():
        here = candidates.home == home
        columns = candidates.trigger[here], candidates.action[here], candidates.relation[here]
        trigger, action, relation = (torch.tensor(column) for column in columns)
        first = int(homes.device_start[home])
        positive = torch.tensor(examples.positive[here], dtype=torch.float32)
        found.append(HomeGraph(*_graph(homes, home), trigger - first, action - first, relation, positive))
    return found


def whole_homes(homes: Homes, most: int, *, self_pairs: bool) -> list[HomeGraph]:
    """The first homes, with all pairs of their devices as candidates."""
    found = []
    for home in range(min(most, homes.n_homes)):
        features, messages = _graph(homes, home)
        trigger, action = torch.cartesian_prod(torch.arange(len(features)), torch.arange(len(features))).T
        kept = torch.ones_like(trigger, dtype=torch.bool) if self_pairs else trigger != action
        nothing = torch.zeros(0)
        found.append(HomeGraph(features, messages, trigger[kept], action[kept], nothing, nothing))
    return found


def _graph(homes: Homes, home: int) -> tuple[Tensor, Tensor]:
    """Features and messages of one home."""
    first, end = homes.device_start[home : home + 2].tolist()
    first_rule, end_rule = homes.rule_start[home : home + 2].tolist()
    ends = np.stack([column[first_rule:end_rule] for column in (homes.rules.trigger, homes.rules.action)]) - first
    features = one_hot(torch.tensor(homes.device_type[first:end]), len(homes.types))
    return features.float(), torch.tensor(ends)


def _sage(neighbours: Tensor, own: Tensor, bias: Tensor) -> SAGEConv:
    layer = SAGEConv(*own.shape, aggr="mean")
    with torch.no_grad():
        layer.lin_l.weight.copy_(neighbours.T)
        layer.lin_l.bias.copy_(bias)
        layer.lin_r.weight.copy_(own.T)
    return layer


def _linear(weight: Tensor, bias: Tensor) -> Linear:
    layer = Linear(*weight.shape)
    with torch.no_grad():
        layer.weight.copy_(weight.T)
        layer.bias.copy_(bias)
    return layer
