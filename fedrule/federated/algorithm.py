"""Algorithm 2 of the paper (FedRule) beside FedAvg, FedProx, SCAFFOLD and FedGATE: `client_round` and `server_round`.

In a round client k starts from the global model, x = x_0, and takes tau local steps on its loss L_k:

    g = grad L_k(x)
    g~ = g, corrected by the algorithm (the classes below)
    x <- x - eta g~,    or a step of Adam along g~

and sends Delta_k = x_0 - x. The server averages, Delta = mean of Delta_k, and moves the model, x_0 <- x_0 - Delta, or
takes a step of its own optimizer along Delta. What corrects a gradient is made of the mean gradients of a round,

    p_k = Delta_k / (eta tau)  of client k,        p = Delta / (eta tau)  of all of them.

The model x is theta, the GNN, followed by phi, the predictor; eta and lambda have a value for each. The correction
delta_k = own_k - shared_k has two parts, both zero at first: own_k is kept by the client, shared_k by the server, which
sends it with the model.

A new algorithm is a class here with an entry in ALGORITHMS, and a method in fedrule/methods/federated.py. Vectors of n
clients are rows [n, size]. All but the gradients is elementwise: no client depends on the others that it is trained
with. The compiled kernel (`trainers.kernel_client_round`) does the same as `client_round`, faster; tests compare them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from datasets.common.errors import DataError, unknown
from datasets.homes import Mask
from fedrule.federated.optimizers import Moments, Precise, ServerOptimizer
from fedrule.federated.vectors import FlatParameters, Vector

if TYPE_CHECKING:
    from fedrule.federated.states import ServerState

ClientOptimizer: TypeAlias = Literal["sgd", "adam", "kept-adam"]
Control: TypeAlias = Literal["updates", "gradients"]


class FedAvg:
    """McMahan et al. 2017: g~ = g."""

    one_shared: ClassVar[bool] = False  # whether the server sends all clients the same shared_k
    row_sparse: ClassVar[bool] = False  # whether own_k is zero for relations without a gradient, with SGD and lambda 1

    def correct(self, h: Hyperparameters, g: Vector, x: Vector, x_0: Vector, correction: Vector) -> Vector:  # noqa: ARG002
        return g


class FedProx(FedAvg):
    """Li et al. 2020: g~ = g + mu (x - x_0), a pull towards the global model."""

    def correct(self, h: Hyperparameters, g: Vector, x: Vector, x_0: Vector, correction: Vector) -> Vector:
        return super().correct(h, g, x, x_0, correction) + np.float32(h.proximal) * (x - x_0)


class FedGate(FedAvg):
    """Haddadpour et al. 2021: g~ = g - delta_k, then delta_k <- delta_k + p_k - p.

    Hence own_k <- delta_k + p_k, and shared_k is p of the last round in which client k took part.
    """

    row_sparse = True

    def correct(self, h: Hyperparameters, g: Vector, x: Vector, x_0: Vector, correction: Vector) -> Vector:  # noqa: ARG002
        return g - correction

    def correction(self, delta: Vector, lam: Vector) -> Vector:  # noqa: ARG002
        """What every step of a round subtracts from the gradient."""
        return delta

    def next_own(self, delta: Vector, p_k: Vector) -> Vector:
        return delta + p_k

    def next_shared(self, shared: Vector, p: Precise, present: float) -> Precise:  # noqa: ARG002
        """`present` is |S| / N: |S| of all N clients took part."""
        return p


class FedRule(FedGate):
    """Algorithm 2: g~ = g - lambda delta_k, with a control parameter, a rate and a lambda for theta and for phi."""

    def correction(self, delta: Vector, lam: Vector) -> Vector:
        return lam * delta


class Scaffold(FedGate):
    """Karimireddy et al. 2020, option II: g~ = g - c_k + c, then c_k <- c_k - c + p_k and c <- c + |S| / N (p - c).

    Here c_k is own_k and c is shared_k of all clients, so that delta_k = c_k - c.
    """

    one_shared = True

    def next_shared(self, shared: Vector, p: Precise, present: float) -> Precise:
        return shared + present * (p - shared)


ALGORITHMS: dict[str, FedAvg] = {
    "fedavg": FedAvg(),
    "fedprox": FedProx(),
    "scaffold": Scaffold(),
    "fedgate": FedGate(),
    "fedrule": FedRule(),
}


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Of local training, the same for all clients; `fedrule.methods.federated` checks their values."""

    steps: int = 3  # tau
    theta_rate: float = 0.1  # eta of the GNN
    phi_rate: float = 0.1  # eta of the predictor and of all other terms of the score
    optimizer: ClientOptimizer = "sgd"  # adam resets its moments every round, kept-adam keeps them
    algorithm: str = "fedavg"
    theta_lambda: float = 1.0  # of FedRule
    phi_lambda: float = 1.0
    control: Control = "updates"  # p_k from the update, as in Algorithm 2, or the mean of g~: with SGD they are equal
    proximal: float = 0.0  # mu of FedProx

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm", self.algorithm, [*ALGORITHMS])
        used = {FedRule: (self.theta_lambda, self.phi_lambda) != (1, 1), FedProx: self.proximal != 0}
        for kind, is_used in used.items():
            if is_used and not isinstance(ALGORITHMS[self.algorithm], kind):
                raise DataError(f"{self.algorithm}: lambda and proximal are hyperparameters of fedrule and fedprox")

    @property
    def equations(self) -> FedAvg:
        """Those of the algorithm; FedRule with both lambda 0 is FedAvg."""
        return ALGORITHMS[self.algorithm if self.theta_lambda or self.phi_lambda else "fedavg"]

    @property
    def corrects(self) -> bool:
        """Whether there are own_k and shared_k."""
        return isinstance(self.equations, FedGate)

    @property
    def adam(self) -> bool:
        return self.optimizer != "sgd"

    @property
    def sends_mean_gradient(self) -> bool:
        """Whether clients send p_k beside Delta_k, from which it does not follow."""
        return self.corrects and self.control == "gradients" and self.adam

    @property
    def row_sparse(self) -> bool:
        """Whether clients keep nothing for relations that are not in their batch.

        With SGD and lambda 1 own_k is the mean of g, and a row without a gradient moves by shared_k alone.
        """
        if not self.corrects:
            return self.optimizer != "kept-adam"
        return self.equations.row_sparse and not self.adam and self.phi_lambda == 1 and self.proximal == 0


@dataclass(frozen=True, slots=True, eq=False)
class ClientState:
    """What clients keep between rounds, a row each; None before the first round, and where nothing is kept."""

    own: Vector | None = None  # [n, size]  own_k
    moments: Moments | None = None  # of kept-adam


@dataclass(frozen=True, slots=True, eq=False)
class ClientUpdate:
    """What clients send, a row each."""

    update: Vector  # [n, size]  Delta_k
    mean_gradient: Vector  # [n, size]  p_k
    loss: Precise  # [n]  of the global model

    def finite(self, state: ClientState) -> Mask:
        """[n]: whether the update and the next state of a client are finite."""
        moments = [] if state.moments is None else [state.moments.first, state.moments.second]
        vectors = [self.update, self.mean_gradient, *([] if state.own is None else [state.own]), *moments]
        finite: Mask = np.logical_and.reduce([np.isfinite(self.loss), *(np.isfinite(v).all(axis=1) for v in vectors)])
        return finite


# Losses [n] and gradients [n, size] of the clients at their models [n, size], in step 0, 1, ..., tau - 1.
Gradients: TypeAlias = Callable[[Vector, int], tuple[Precise, Vector]]


@np.errstate(over="ignore", invalid="ignore")  # updates that are not finite are left out of the sums
def client_round(
    h: Hyperparameters,
    layout: FlatParameters,
    x_0: Vector,
    gradients: Gradients,
    state: ClientState,
    *,
    shared: Vector | None = None,  # [n, size]  shared_k; None: zeros
    n: int = 1,
) -> tuple[ClientUpdate, ClientState]:
    """What n clients send, and their next states if the server counts it; no argument is changed."""
    equations, x, moments = h.equations, np.tile(x_0, (n, 1)), state.moments
    eta = layout.by_part(h.theta_rate, h.phi_rate).astype(np.float32)
    delta = correction = np.zeros((n, 0), dtype=np.float32)
    if isinstance(equations, FedGate):
        own = np.zeros_like(x) if state.own is None else state.own
        delta = own if shared is None else own - shared
        correction = equations.correction(delta, layout.by_part(h.theta_lambda, h.phi_lambda).astype(np.float32))
    if moments is None and h.adam:
        moments = Moments(np.zeros_like(x), np.zeros_like(x), np.zeros(n, dtype=np.int64))
    total, first_loss = np.zeros_like(x), np.full(n, np.nan)
    for step in range(h.steps):
        loss, g = gradients(x, step)
        g = equations.correct(h, g, x, x_0, correction)
        first_loss = loss if step == 0 else first_loss
        total += g
        if moments is not None:
            moments, g = moments.step(g)
        x -= eta * g
    update, p_k = x_0 - x, total / np.float32(h.steps)
    if h.adam and h.control == "updates":
        p_k = update / (eta * np.float32(h.steps))
    next_own = equations.next_own(delta, p_k) if isinstance(equations, FedGate) else None
    next_state = ClientState(next_own, moments if h.optimizer == "kept-adam" else None)
    return ClientUpdate(update, p_k, first_loss), next_state


def server_round(
    h: Hyperparameters,
    layout: FlatParameters,
    optimizer: ServerOptimizer,
    state: ServerState,
    update: Precise,  # [size]  Delta, the weighted mean of Delta_k over the clients that took part
    mean_gradient: Precise | None,  # [size]  p likewise, where clients send p_k
    *,
    present: float,  # |S| / N
    rate: float = 1.0,  # of the optimizer
) -> ServerState:
    """The server's state after a round."""
    model, moved = optimizer.step(state.model, update, state.optimizer, rate)
    after = replace(state, round=state.round + 1, model=model, optimizer=moved)
    if not isinstance(equations := h.equations, FedGate):
        return after
    p = update / (layout.by_part(h.theta_rate, h.phi_rate) * h.steps) if mean_gradient is None else mean_gradient
    shared, rounds = equations.next_shared(state.shared, p[None], present).astype(np.float32), state.shared_round
    if not equations.one_shared:
        shared, rounds = np.concatenate([state.shared, shared]), np.append(rounds, state.round)
    return replace(after, shared=shared, shared_round=rounds)
