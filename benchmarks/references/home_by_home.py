"""Training as a loop over homes, one small graph after the other: references of `GraphBatch` and of federated rounds.

`HomeByHome` is what the authors' public code does: each home's graph passes through two GraphSAGE layers, the predictor
scores all relations of the candidates' pairs, the losses of all homes are added up, and one step of Adam follows.
Written with torch-geometric's layers, so that it also checks our own. `ClientByClient` is Algorithm 2 in plain tensor
operations, since modules and optimizers would make the loop slower; the algorithm as it is used is
fedrule/federated/algorithm.py.
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
from fedrule.network.encoders import Parameters
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


class ClientByClient:
    """A round for a list of homes; `correct` keeps the control parameters of each."""

    def __init__(self, model: Parameters, homes: list[HomeGraph], *, steps: int, rate: float, correct: bool) -> None:
        self.model = {name: value.detach().clone() for name, value in model.items()}
        self.homes, self.steps, self.rate, self.correct = homes, steps, rate, correct
        zeros = [torch.zeros_like(value) for value in self.model.values()]
        self.delta = [zeros for _ in homes] if correct else []

    def round(self) -> None:
        """Algorithm 2 with lambda 1, or FedAvg."""
        updates = [self._local(k, home) for k, home in enumerate(self.homes)]
        mean = [torch.stack(parts).mean(dim=0) for parts in zip(*updates, strict=True)]
        for value, change in zip(self.model.values(), mean, strict=True):
            value -= change
        scale = 1 / (self.rate * self.steps)
        for k, update in enumerate(updates if self.correct else []):
            pairs = zip(self.delta[k], update, mean, strict=True)
            self.delta[k] = [delta + scale * (own - of_all) for delta, own, of_all in pairs]

    def _local(self, k: int, home: HomeGraph) -> list[Tensor]:
        """Delta_k."""
        own = {name: value.clone().requires_grad_() for name, value in self.model.items()}
        for _ in range(self.steps):
            gradients = torch.autograd.grad(client_loss(own, home), list(own.values()))
            with torch.no_grad():
                for i, (value, g) in enumerate(zip(own.values(), gradients, strict=True)):
                    value -= self.rate * (g - self.delta[k][i] if self.correct else g)
        return [before - after.detach() for before, after in zip(self.model.values(), own.values(), strict=True)]


def client_loss(own: Parameters, home: HomeGraph) -> Tensor:
    """L_k: mean binary cross entropy of the home's candidates."""
    sender, receiver = home.messages
    messages = torch.bincount(receiver, minlength=len(home.features)).clamp(min=1)[:, None]

    def layer(state: Tensor, number: int) -> Tensor:
        heard = torch.zeros_like(state).index_add(0, receiver, state[sender]) / messages
        return state @ own[f"theta.self{number}"] + heard @ own[f"theta.in{number}"] + own[f"theta.bias{number}"]

    z = layer(layer(home.features, 1).relu(), 2)
    hidden = z[home.trigger] @ own["phi.trigger"] + z[home.action] @ own["phi.action"] + own["phi.hidden_bias"]
    scores = hidden.relu() @ own["phi.relation"].T + own["phi.relation_bias"]
    return binary_cross_entropy_with_logits(scores.gather(1, home.relation[:, None])[:, 0], home.positive)
