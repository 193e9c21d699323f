"""Federated training as the papers write it down, client after client: what the engine has to equal.

In the papers' own variables: a whole delta_k for each client (Algorithm 2), c and a whole c_k (Karimireddy et al. 2020,
option II), in float64, with torch's own gradients and optimizers. Who takes part, and what each is asked, is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.network.batch import GraphBatch
from fedrule.network.encoders import Parameters
from fedrule.network.network import Network
from fedrule.training.examples import Examples
from tests.support.added_algorithm import PULLED

Loss = Callable[[Parameters], Tensor]
GATES = ("fedgate", "fedrule", PULLED)  # algorithms with delta_k


def loss_of(network: Network, examples: Examples) -> Loss:
    """L_k: the mean cross entropy of one home's candidates."""
    homes, asked = GraphBatch.of(examples.context), examples.candidates
    trigger, action, relation = (torch.tensor(column) for column in (asked.trigger, asked.action, asked.relation))
    positive = torch.tensor(examples.positive).double()

    def loss(model: Parameters) -> Tensor:
        every = network.logits(model, network.embed(model, homes), trigger, action)  # [n, n_relations]
        return binary_cross_entropy_with_logits(every[torch.arange(len(relation)), relation], positive)

    return loss


class Client:
    """Client k: its copy of the model, the optimizer of its steps, and delta_k or c_k."""

    def __init__(self, h: Hyperparameters, model: Parameters, epsilon: float) -> None:
        self.h, self.epsilon = h, epsilon
        self.x = {name: value.clone().requires_grad_() for name, value in model.items()}
        self.control = zeros(model)
        self.optimizer = self._new_optimizer()

    def _new_optimizer(self) -> torch.optim.Optimizer:
        groups = [{"params": [value], "lr": _of(self.h, "rate", name)} for name, value in self.x.items()]
        return torch.optim.Adam(groups, eps=self.epsilon) if self.h.adam else torch.optim.SGD(groups)

    def train(self, model: Parameters, loss: Loss, delta: Parameters) -> tuple[float, Parameters, Parameters]:
        """The loss it began with, Delta_k, and p_k: Delta_k / (eta tau), or the mean of the corrected gradients."""
        h, along, begin = self.h, zeros(model), []
        if h.optimizer != "kept-adam":
            self.optimizer = self._new_optimizer()
        with torch.no_grad():
            for name, value in model.items():
                self.x[name].copy_(value)
        for _ in range(h.steps):
            self.optimizer.zero_grad()
            found = loss(self.x)
            found.backward()
            begin.append(found.item())
            for name, x in self.x.items():
                g = torch.zeros_like(x) if x.grad is None else x.grad
                lam = _of(h, "lambda", name)
                x.grad = g - lam * delta[name] + h.proximal * (x.detach() - model[name])
                along[name] += x.grad / h.steps
            self.optimizer.step()
        Delta = {name: value - self.x[name].detach() for name, value in model.items()}
        if h.control == "gradients":
            return begin[0], Delta, along
        return begin[0], Delta, {n: v / (_of(h, "rate", n) * h.steps) for n, v in Delta.items()}


@dataclass
class Server:
    """The global model, the optimizer that moves it, and c."""

    h: Hyperparameters
    rule: ServerOptimizer  # its settings
    model: Parameters
    n_clients: int
    epsilon: float = 1e-8  # of the clients' Adam
    clients: dict[int, Client] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.x = {name: value.double().clone() for name, value in self.model.items()}
        self.c = zeros(self.x)
        decays = (self.rule.first_decay, self.rule.second_decay)
        self.optimizer: torch.optim.Optimizer = {
            "plain": lambda x: torch.optim.SGD(x, lr=1),
            "momentum": lambda x: torch.optim.SGD(x, lr=1, momentum=decays[0]),
            "adam": lambda x: torch.optim.Adam(x, lr=1, betas=decays, eps=self.rule.epsilon),
            "yogi": lambda x: Yogi(x, decays, self.rule.epsilon),
        }[self.rule.kind](list(self.x.values()))

    def round(self, asked: Mapping[int, Loss], weight: Mapping[int, float], *, rate: float = 1.0) -> float:
        """One round with the clients that are asked; their mean loss before it."""
        if not asked:
            return float("nan")
        model = {name: value.clone() for name, value in self.x.items()}
        sent: dict[int, tuple[float, Parameters, Parameters]] = {}
        for k, loss in asked.items():
            client = self.clients.setdefault(k, Client(self.h, model, self.epsilon))
            delta = zeros(model)
            if self.h.algorithm in GATES:
                delta = client.control
            if self.h.algorithm == "scaffold":
                delta = {name: client.control[name] - self.c[name] for name in model}
            sent[k] = client.train(model, loss, delta)

        def mean(part: int) -> Parameters:
            total = sum(weight[k] for k in sent)
            return {name: sum(weight[k] * sent[k][part][name] for k in sent) / total for name in model}  # type: ignore[index,misc]

        for name, value in mean(1).items():
            self.x[name].grad = value  # the server takes the mean update for a gradient
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        p = mean(2)
        for k, (_, _, p_k) in sent.items():
            control = self.clients[k].control
            other = p if self.h.algorithm in GATES else self.c  # scaffold: c_k <- c_k - c + p_k
            self.clients[k].control = {name: control[name] + p_k[name] - other[name] for name in model}
        # c <- c + |S| / N * mean of what the c_k changed by, and each of them changed by p_k - c
        self.c = {name: c + len(sent) / self.n_clients * (p[name] - c) for name, c in self.c.items()}
        return sum(weight[k] * sent[k][0] for k in sent) / sum(weight[k] for k in sent)


class Yogi(torch.optim.Optimizer):
    """Zaheer et al. 2018, with the bias corrected as in Adam; torch has none."""

    def __init__(self, x: list[Tensor], decays: tuple[float, float], epsilon: float) -> None:
        super().__init__(x, {"lr": 1.0})
        self.decays, self.epsilon, self.steps = decays, epsilon, 0

    def step(self) -> None:  # type: ignore[override]
        self.steps += 1
        first, second = self.decays
        for group in self.param_groups:
            for x in group["params"]:
                state = self.state[x]
                state["m"] = first * state.get("m", 0) + (1 - first) * x.grad
                v, square = state.get("v", torch.zeros_like(x)), x.grad**2
                state["v"] = torch.where(v > square, v - (1 - second) * square, v + (1 - second) * square)
                size = (state["v"] / (1 - second**self.steps)).sqrt() + self.epsilon
                x -= group["lr"] * state["m"] / (1 - first**self.steps) / size


def zeros(model: Parameters) -> Parameters:
    return {name: torch.zeros_like(value) for name, value in model.items()}


def _of(h: Hyperparameters, what: str, name: str) -> float:
    """The rate or the lambda of the part that a parameter belongs to."""
    value: float = getattr(h, f"{'theta' if name.startswith('theta.') else 'phi'}_{what}")
    return value
