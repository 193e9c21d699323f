"""Algorithm 2 as a plain torch loop over clients: the reference for the speed of federated rounds.

Plain tensor operations only, since modules and optimizers would make the loop slower. The algorithm as it is used is
fedrule/federated/algorithm.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.references.home_by_home import HomeGraph
from fedrule.model.encoders import Parameters


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
            gradients = torch.autograd.grad(loss(own, home), list(own.values()))
            with torch.no_grad():
                for i, (value, g) in enumerate(zip(own.values(), gradients, strict=True)):
                    value -= self.rate * (g - self.delta[k][i] if self.correct else g)
        return [before - after.detach() for before, after in zip(self.model.values(), own.values(), strict=True)]


def loss(own: Parameters, home: HomeGraph) -> Tensor:
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
