"""The options of federated training that do not depend on what is trained: rounds, cohorts, server, privacy, faults.

A federated method is a dataclass that extends `FederatedOptions`. Its `fit` makes a trainer of its clients and runs
`fedrule.federated.loop.train` with `engine()` and `schedule()`; faults, checkpoints, secure sums and noise are then
those of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, get_args

from baselines.method import check_range
from datasets.common.errors import DataError, unknown
from datasets.homes import Homes
from fedrule.federated.algorithm import ClientOptimizer, Control, Hyperparameters
from fedrule.federated.checkpoint import Checkpoint, CheckpointExtra
from fedrule.federated.cohort import Cohorts, Sampling
from fedrule.federated.loop import ServerSchedule
from fedrule.federated.optimizers import EPSILON, ServerOptimizer, ServerOptimizers
from fedrule.federated.private import Privacy
from fedrule.federated.robustness.aggregation import ASSUMED_ATTACKERS, TRIM, Aggregation, Aggregations
from fedrule.federated.rounds import Engine, Weighting
from fedrule.network.options import check_available, complete, derived


def default_server_rate(method: FederatedOptions) -> float:
    """That of its optimizer; the name of an unknown one is refused later."""
    return method.SERVER_RATES.get(method.server_optimizer, 1.0)


def default_sampling(method: FederatedOptions) -> Sampling:
    """The account of private runs is for homes that take part independently of each other."""
    private = bool(method.epsilon or method.noise_multiplier)
    return "poisson" if private and (method.participation < 1 or method.cohort) else "uniform"


@dataclass(frozen=True)
class FederatedOptions:
    """Training in the homes: what leaves a home is an update of the model."""

    NAME: ClassVar[str]
    ALGORITHM: ClassVar[str] = "fedavg"  # of fedrule.federated.algorithm
    UNAVAILABLE: ClassVar[dict[str, str]] = {}  # options that the method has no use for, and why

    # A rate that suits one server optimizer does not suit another. Momentum adds up 1 / (1 - 0.9) = 10 updates.
    SERVER_RATES: ClassVar[dict[str, float]] = {"plain": 1.0, "momentum": 0.1, "adam": 0.03, "yogi": 0.03}

    rounds: int = derived(100)  # of training
    local_steps: int = derived(3)  # of a client in each round
    learning_rate: float = derived(0.1)  # of clients
    client_optimizer: ClientOptimizer = derived("sgd")  # adam resets its moments every round, kept-adam keeps them
    server_optimizer: ServerOptimizers = derived("adam")  # takes the mean update as a gradient; plain: as a step
    server_rate: float = derived(default_server_rate)  # follows from server_optimizer; FedAvg is plain with 1
    server_epsilon: float = EPSILON  # of adam and yogi: added to the root of the second moment
    decay: bool = False  # the server rate falls to zero along half a cosine over all rounds
    participation: float = 1.0  # fraction of homes in a round
    cohort: int = 0  # number of homes in a round, at most all; 0: by participation
    epsilon: float = 0.0  # differential privacy of each home over the whole run: docs/privacy.md; 0: none
    noise_multiplier: float = 0.0  # instead of epsilon: noise of a round's sum, in units of `clip`
    delta: float = 0.0  # of differential privacy; 0: 1 / homes^1.1
    clip: float = 0.0  # largest L2 norm of a home's weighted update; 0: any
    sampling: Sampling = derived(default_sampling)  # uniform: a fixed number of homes; poisson: each independently
    weighting: Weighting = "clients"  # of updates: equal, by the number of rules (rules) or by its root (roots)
    secure_threshold: float = 0.0  # secure sums that go on while more than this share of a cohort stays; 0: plain sums
    drop_out: float = 0.0  # simulated fault: fraction of a cohort that drops out during the round
    late: float = 0.0  # simulated fault: fraction whose update comes after the round
    corrupted: float = 0.0  # simulated fault: fraction whose update is NaN
    aggregation: Aggregations = "mean"  # of updates at the server; the others bound what a few attackers can do
    trim: float = TRIM  # of trimmed-mean: share of a cohort that is left out at either end of a coordinate
    assumed_attackers: float = ASSUMED_ATTACKERS  # of krum and multi-krum: share of a cohort
    norm_bound: float = 0.0  # the server scales longer updates down to this L2 norm; 0: none
    norm_relative: bool = False  # norm_bound is a multiple of the cohort's median norm

    def __post_init__(self) -> None:
        complete(self)
        check_available(self.NAME, self, self.UNAVAILABLE)
        check_range(self.NAME, self, "at least 1", "rounds", "local_steps")
        check_range(self.NAME, self, "above 0", "learning_rate", "server_rate")
        try:
            self._check_clients()
            self._check_privacy()
            h = self.engine().hyperparameters
        except DataError as error:
            raise DataError(f"{self.NAME}: {error}") from None
        without_effect = {
            f"server_epsilon has no effect with server_optimizer {self.server_optimizer}; use adam or yogi": (
                self.server_optimizer in ("plain", "momentum") and self.server_epsilon != EPSILON
            ),
            "control 'gradients' has an effect only with client Adam and a lambda above 0": (
                h.control == "gradients" and not h.sends_mean_gradient
            ),
            f"sampling {self.sampling!r} has no effect where all homes take part; set participation or cohort": (
                self.sampling != "uniform" and self.participation == 1 and not self.cohort
            ),
        }
        for message, applies in without_effect.items():
            if applies:
                raise DataError(f"{self.NAME}: {message}")

    def _check_clients(self) -> None:
        for name, known in (("client_optimizer", get_args(ClientOptimizer)), ("control", get_args(Control))):
            if (value := getattr(self, name, known[0])) not in known:
                raise unknown(name, value, known)
        for name in ("learning_rate", "predictor_rate", "proximal", "gnn_lambda", "predictor_lambda"):
            if not 0 <= (value := getattr(self, name, 0)) < math.inf:
                raise DataError(f"{name} must be non-negative and finite, got {value}")

    def _check_privacy(self) -> None:
        """Whatever leaves the homes must be in the account."""
        if self.privacy.noisy and self.sampling != "poisson" and (self.participation < 1 or self.cohort):
            raise DataError(f"sampling {self.sampling!r} is not what the account of privacy is for; use poisson")

    @property
    def privacy(self) -> Privacy:
        """Of each home; by default there is none."""
        return Privacy(self.clip, self.epsilon, self.noise_multiplier, self.delta, 0.0, self.rounds)

    def hyperparameters(self) -> Hyperparameters:
        """Of the clients."""
        return Hyperparameters(
            steps=self.local_steps,
            theta_rate=self.learning_rate,
            phi_rate=self.learning_rate,
            optimizer=self.client_optimizer,
            algorithm=self.ALGORITHM,
        )

    def engine(self) -> Engine:
        return Engine(
            self.hyperparameters(),
            ServerOptimizer(self.server_optimizer, epsilon=self.server_epsilon),
            Cohorts(self.participation, self.sampling, self.drop_out, self.late, self.corrupted, self.cohort),
            self.weighting,
            name=self.NAME,
            privacy=self.privacy,
            secure_threshold=self.secure_threshold,
            aggregation=Aggregation(
                self.aggregation, self.trim, self.assumed_attackers, self.norm_bound, self.norm_relative
            ),
        )

    def schedule(self, seed: int) -> ServerSchedule:
        return ServerSchedule(
            self.NAME,
            self.rounds,
            seed,
            self.server_rate,
            self.decay,
            client_rate=self.learning_rate,
            losses=not self.privacy.noisy,
        )

    def own_checkpoint(
        self,
        checkpoint: Checkpoint | None,
        train: Homes,
        seed: int,
        extras: Mapping[str, CheckpointExtra] | None = None,  # saved beside the server's state
    ) -> Checkpoint | None:
        """The checkpoint of this method on these homes, which resumes no other run; None stays None."""
        if checkpoint is None:
            return None
        about = {"method": self.NAME, "parameters": asdict(self), "homes": train.fingerprint, "seed": seed}
        return checkpoint.extended(about, dict(extras or {}))
