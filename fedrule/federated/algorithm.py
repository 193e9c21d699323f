"""What a client does in a round: local steps, their rates, and what corrects them (paper, Algorithm 2).

With x the client's model and x_0 the one that it was sent,

    g~ = g - lambda (own_k - shared_k) + mu (x - x_0),        x <- x - eta g~   (or a step of Adam along g~)

where own_k is what client k remembers and shared_k is what the server tells it beside the model. After tau steps it
sends Delta_k = x_0 - x, and remembers own_k <- own_k - shared_k + p_k, with p_k = Delta_k / (eta tau). The server
averages p_k, and

- `gate` (Algorithm 2, FedGATE): shared_k is that average for the last round in which k took part, so that own_k -
  shared_k is the paper's control parameter delta_k;
- `scaffold` (Karimireddy et al. 2020, option II): shared is the server's control variate c, which moves towards that
  average by the share of clients that took part; own_k is then c_k, the client's last mean gradient.

A client that takes part for the first time remembers zeros: `gate` does not correct it, `scaffold` does by c.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Mask
from fedrule.federated.vectors import Layout, Vector

Correction: TypeAlias = Literal["none", "gate", "scaffold"]
ClientOptimizer: TypeAlias = Literal["sgd", "adam", "kept-adam"]
Control: TypeAlias = Literal["updates", "gradients"]

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8  # of Adam, as Kingma and Ba 2015 have them


@dataclass(frozen=True, slots=True)
class Plan:
    """The same for all clients."""

    steps: int = 3  # tau
    theta_rate: float = 0.1  # eta of the GNN
    phi_rate: float = 0.1  # eta of the predictor and of all terms
    optimizer: ClientOptimizer = "sgd"  # adam forgets its moments after a round, kept-adam does not
    correction: Correction = "none"
    theta_lambda: float = 1.0  # share of the correction that is applied, GNN
    phi_lambda: float = 1.0  # and predictor
    # p_k: from the update, Delta_k / (eta tau), as Algorithm 2 has it, or the mean of g~. Plain steps make them one.
    control: Control = "updates"
    proximal: float = 0.0  # mu: pull towards the model that was sent (Li et al. 2020)

    def __post_init__(self) -> None:
        for name, choice, known in (
            ("optimizer of clients", self.optimizer, get_args(ClientOptimizer)),
            ("correction", self.correction, get_args(Correction)),
            ("control", self.control, get_args(Control)),
        ):
            if choice not in known:
                raise unknown(name, choice, known)
        if self.steps < 1:
            raise DataError(f"local steps {self.steps}: a client takes at least 1")
        for name, rate in (("GNN", self.theta_rate), ("predictor", self.phi_rate)):
            if not 0 < rate < math.inf:
                raise DataError(f"learning rate {rate} of the {name} is not above 0 and finite, e.g. 0.1")
        for name, value in (
            ("gnn_lambda", self.theta_lambda),
            ("predictor_lambda", self.phi_lambda),
            ("proximal", self.proximal),
        ):
            if not 0 <= value < math.inf:
                raise DataError(f"{name} {value} is negative or no number")

    @property
    def corrects(self) -> bool:
        """Whether clients remember anything for a correction; with both lambda 0 it is FedAvg, and they need not."""
        return self.correction != "none" and (self.theta_lambda > 0 or self.phi_lambda > 0)

    @property
    def adam(self) -> bool:
        return self.optimizer != "sgd"

    @property
    def sends_progress(self) -> bool:
        """Whether p_k cannot be told from Delta_k and is sent beside it."""
        return self.corrects and self.control == "gradients" and self.adam

    @property
    def row_sparse(self) -> bool:
        """Whether a client remembers nothing of relations that it was not asked about.

        own_k = mean gradient + (1 - lambda) delta_k, and plain steps without a gradient move such a row by the
        correction alone, by as much for all clients that were told the same. Moments of Adam differ between clients.
        """
        if self.optimizer == "kept-adam":
            return False
        return not self.corrects or (not self.adam and self.phi_lambda == 1 and self.proximal == 0)


# --- The server's step: the clients' mean update is taken as a gradient (FedOpt, Reddi et al. 2021).
#
# Unlike theirs, `adam` and `yogi` correct the bias of their first steps, as Adam does elsewhere.

ServerRule: TypeAlias = Literal["plain", "momentum", "adam", "yogi"]
Precise: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """What a server optimizer remembers; empty where it needs nothing."""

    first: Precise
    second: Precise
    steps: int = 0


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update moves the global model; `plain` with rate 1 is FedAvg and Algorithm 2."""

    rule: ServerRule = "plain"
    first_decay: float = 0.9  # of the mean update; momentum, adam, yogi
    second_decay: float = 0.99  # of its square; adam, yogi
    epsilon: float = 1e-8  # added to the root of the square, in units of an update; adam, yogi

    def __post_init__(self) -> None:
        if self.rule not in get_args(ServerRule):
            raise unknown("server optimizer", self.rule, get_args(ServerRule))
        for name in ("first_decay", "second_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise DataError(f"server {name} {getattr(self, name)} is no share from 0 to below 1")
        if not self.epsilon > 0:
            raise DataError(f"server epsilon {self.epsilon} is not above 0")

    def initial(self, size: int) -> Moved:
        first = 0 if self.rule == "plain" else size
        return Moved(np.zeros(first), np.zeros(size if self.rule in ("adam", "yogi") else 0))

    @np.errstate(over="ignore")  # a model that runs away is not kept
    def step(self, model: Vector, update: Precise, moved: Moved, rate: float) -> tuple[Vector, Moved]:
        """The model after a step of this rate along the mean update."""
        steps = moved.steps + 1
        if self.rule == "plain":
            return (model - rate * update).astype(np.float32), Moved(moved.first, moved.second, steps)
        if self.rule == "momentum":
            first = self.first_decay * moved.first + update
            return (model - rate * first).astype(np.float32), Moved(first, moved.second, steps)
        first = self.first_decay * moved.first + (1 - self.first_decay) * update
        square = update**2
        if self.rule == "adam":
            second = self.second_decay * moved.second + (1 - self.second_decay) * square
        else:
            second = moved.second - (1 - self.second_decay) * square * np.sign(moved.second - square)
        level = first / (1 - self.first_decay**steps)
        size = np.sqrt(second / (1 - self.second_decay**steps)) + self.epsilon
        return (model - rate * level / size).astype(np.float32), Moved(first, second, steps)


# --- The local training of many clients at once, a row for each, by the equations of `plan`.
#
# Everything but the slopes is done number by number, so that the rows beside it change nothing for a client.

# The models [n, size] and the number of the step, from 0; the losses [n] and their slopes [n, size].
Slopes: TypeAlias = Callable[[Vector, int], tuple[Precise, Vector]]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What Adam remembers."""

    first: Vector  # [n, size]
    second: Vector
    steps: Array  # [n]

    def after(self, slope: Vector) -> tuple[Moments, Vector]:
        """The moments after a step along this slope, and the direction of the step."""
        steps = self.steps + 1
        first = FIRST_DECAY * self.first + (1 - FIRST_DECAY) * slope
        second = SECOND_DECAY * self.second + (1 - SECOND_DECAY) * slope**2
        level, square = ((1 - decay**steps).astype(np.float32)[:, None] for decay in (FIRST_DECAY, SECOND_DECAY))
        size = np.sqrt(second / square) + EPSILON
        return Moments(first, second, steps), (first / level / size).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What clients send, and what they remember if it is counted."""

    update: Vector  # [n, size]  Delta_k
    progress: Vector  # [n, size]  p_k
    loss: Precise  # [n]  of the model that they were sent
    own: Vector | None  # [n, size]  own_k, where something is corrected
    moments: Moments | None  # of kept-adam

    @property
    def finite(self) -> Mask:
        """[n]: whether all that a client sends and remembers is a number."""
        vectors = [self.update, self.progress, *([] if self.own is None else [self.own])]
        vectors += [] if self.moments is None else [self.moments.first, self.moments.second]
        each = [np.isfinite(self.loss), *(np.isfinite(vector).all(axis=1) for vector in vectors)]
        finite: Mask = np.logical_and.reduce(each)
        return finite


@np.errstate(over="ignore", invalid="ignore")  # whoever does not end finite is left out
def train_side_by_side(
    plan: Plan,
    layout: Layout,
    model: Vector,
    slopes: Slopes,
    *,
    n: int,
    off: Vector | None = None,  # [n, size]  delta_k = own_k - shared_k, where something is corrected
    moments: Moments | None = None,  # of kept-adam, where there are any
) -> Trained:
    """What becomes of n clients that are sent this model; nothing that is handed in is changed."""
    rate = layout.by_part(plan.theta_rate, plan.phi_rate).astype(np.float32)
    x = np.tile(model, (n, 1))
    along, begin = np.zeros_like(x), np.full(n, np.nan)
    correction = None
    if off is not None:
        correction = layout.by_part(plan.theta_lambda, plan.phi_lambda).astype(np.float32) * off
    if moments is None and plan.adam:
        moments = Moments(np.zeros_like(x), np.zeros_like(x), np.zeros(n, dtype=np.int64))
    for step in range(plan.steps):
        loss, slope = slopes(x, step)
        begin = loss if step == 0 else begin
        if correction is not None:
            slope = slope - correction
        if plan.proximal:
            slope = slope + np.float32(plan.proximal) * (x - model)
        along += slope
        if moments is not None:
            moments, slope = moments.after(slope)
        x -= rate * slope
    update = model - x
    progress = along / np.float32(plan.steps)
    if plan.adam and plan.control == "updates":
        progress = update / (rate * np.float32(plan.steps))
    own = None if off is None else off + progress
    return Trained(update, progress, begin, own, moments if plan.optimizer == "kept-adam" else None)


# --- The local training of one client on plain vectors: `side_by_side` for a client that stands alone.

# The model and the number of the step, from 0; the loss and its gradient.
Gradient: TypeAlias = Callable[[Vector, int], tuple[float, Vector]]


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a client keeps from one round to the next."""

    own: Vector | None = None  # own_k; None where nothing is corrected, or before the first round
    moments: Moments | None = None  # of kept-adam, likewise; a row of one

    @property
    def finite(self) -> bool:
        vectors = [] if self.own is None else [self.own]
        if self.moments is not None:
            vectors += [self.moments.first, self.moments.second]
        return all(bool(np.isfinite(vector).all()) for vector in vectors)


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What a client sends to the server."""

    update: Vector  # Delta_k
    progress: Vector  # p_k; sent only where the server cannot tell it from the update
    loss: float  # of the model that it was sent

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.loss) and np.isfinite(self.update).all() and np.isfinite(self.progress).all())


def train_locally(
    plan: Plan, layout: Layout, model: Vector, gradient: Gradient, memory: Memory, shared: Vector | None
) -> tuple[Sent, Memory]:
    """What the client sends, and what it remembers if its update was counted; nothing that it was given is changed."""

    def alone(x: Vector, step: int) -> tuple[Precise, Vector]:
        loss, found = gradient(x[0], step)
        return np.array([loss]), found[None]

    off = None
    if plan.corrects:  # delta_k
        own = np.zeros_like(model) if memory.own is None else memory.own
        off = (own - (0 if shared is None else shared))[None]
    trained = train_side_by_side(plan, layout, model, alone, n=1, off=off, moments=memory.moments)
    sent = Sent(trained.update[0], trained.progress[0], float(trained.loss[0]))
    return sent, Memory(None if trained.own is None else trained.own[0], trained.moments)
