"""The federated methods: one engine with different corrections (paper, section 3.3 and Algorithm 2)."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from baselines.method import OnRound, ignore
from baselines.registry import register
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError
from datasets.homes import Homes
from fedrule.federated.algorithm import EPSILON, ClientOptimizer, Control, Correction, Plan, ServerOptimizer, ServerRule
from fedrule.federated.checkpoint import ValidationBeside
from fedrule.federated.client import Task
from fedrule.federated.cohort import Cohorts, Sampling
from fedrule.federated.protocols import Trainer
from fedrule.federated.rounds import Engine, Report, Run, Saves, Weighting
from fedrule.federated.rounds import train as train_rounds
from fedrule.federated.trainers.evidence import Batched, is_evidence
from fedrule.federated.trainers.kernel import Fast, is_fast
from fedrule.federated.trainers.torch import OneByOne
from fedrule.federated.vectors import Layout, Vector
from fedrule.methods.graph_method import GraphMethod, Prepared, check_range
from fedrule.model.score import GraphModel
from fedrule.training.loop import EarlyStopping, WarmStart

# --- What all federated methods have in common: their options, and fitting by rounds of the engine.

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Federated(GraphMethod):
    """A graph method that is trained in the homes: what leaves a home is an update of the model."""

    CORRECTION: ClassVar[Correction] = "none"

    local_steps: int = 3  # of a client in each round it takes part in
    learning_rate: float = 0.1  # of clients, for the GNN
    predictor_rate: float = 0.0  # and for the predictor and all terms; 0: the same
    client_optimizer: ClientOptimizer = "sgd"  # adam starts anew every round, kept-adam remembers its moments
    server_optimizer: ServerRule = "adam"  # what the mean update is to the server: the step (plain), or its gradient
    server_rate: float = 0.03  # of the server's optimizer; plain with 1 is FedAvg and the paper
    server_epsilon: float = EPSILON  # adam, yogi: added to the root of the mean square of updates
    decay: bool = False  # the server's rate falls to zero along half a cosine over all rounds
    participation: float = 1.0  # share of homes in a round
    cohort: int = 0  # homes of a round, or all where there are fewer; 0: by participation
    sampling: Sampling = "uniform"  # so many homes, all equally likely; poisson: each by itself with this probability
    weighting: Weighting = "clients"  # updates count alike; rules, or roots: as the number of rules, or its square root
    drop_out: float = 0.0  # a fault to try: share of a cohort that vanishes in mid-round
    late: float = 0.0  # a fault to try: share that sends too late
    broken: float = 0.0  # a fault to try: share that sends what is no number

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "at least 0", "predictor_rate")
        check_range(self, "above 0", "learning_rate", "server_rate")
        try:
            plan = self.engine().plan
        except DataError as error:
            raise DataError(f"{self.NAME}: {error}") from None
        if self.server_optimizer in ("plain", "momentum") and self.server_epsilon != EPSILON:
            raise DataError(
                f"{self.NAME}: server_epsilon is of adam and yogi, and the server's is {self.server_optimizer}"
            )
        if plan.control == "gradients" and not plan.sends_progress:
            raise DataError(f"{self.NAME}: control 'gradients' differs with Adam in the homes and a lambda only")

    def plan(self) -> Plan:
        """What clients do."""
        return Plan(
            steps=self.local_steps,
            theta_rate=self.learning_rate,
            phi_rate=self.predictor_rate or self.learning_rate,
            optimizer=self.client_optimizer,
            correction=self.CORRECTION,
        )

    def engine(self) -> Engine:
        """The algorithm."""
        return Engine(
            self.plan(),
            ServerOptimizer(self.server_optimizer, epsilon=self.server_epsilon),
            Cohorts(self.participation, self.sampling, self.drop_out, self.late, self.broken, self.cohort),
            self.weighting,
            name=self.NAME,
        )

    def fit(
        self,
        train: Homes,
        *,
        rng: np.random.Generator,
        on_round: OnRound = ignore,
        saves: Saves | None = None,
        warm_start: WarmStart | None = None,
    ) -> GraphModel:
        """All randomness comes from `rng`, by way of one seed; `saves` keeps states and goes on from the last one."""
        prepared = self.prepare(train, rng, warm_start=warm_start)
        if not prepared.train.n_rules:
            return prepared.untrained()
        seed = int(rng.integers(2**62))
        initial = prepared.initial or prepared.scorer.initial(torch.Generator().manual_seed(seed))
        task = self.task(prepared, Layout.of(initial), seed)
        trainer = trainer_of(prepared.train, task)
        engine, layout, before = self.engine(), task.layout, self.sent_before(prepared)
        stopping = EarlyStopping.of(
            prepared.scorer,
            self.objective_function,
            prepared.validation,
            patience=self.patience,
            initial=prepared.initial,
        )

        def told(done: int, model: Vector, report: Report) -> bool:
            values = {name: float(value) for name, value in report._asdict().items()} | (before if done == 1 else {})
            parameters = layout.parameters(model)
            values |= stopping.update(done, parameters)
            if on_round is not ignore:
                on_round(done, self.rounds, prepared.model(parameters), values)
            return stopping.should_stop(done)

        if saves is not None:
            run_of = {"method": self.NAME, "parameters": asdict(self), "homes": train.fingerprint, "seed": seed}
            saves = saves.of(run_of, {} if stopping.batch is None else {"validation": ValidationBeside(stopping)})
        run = Run(self.NAME, self.rounds, seed, self.server_rate, self.decay, client_rate=self.learning_rate)
        state = engine.begin(trainer, layout.flat(initial))
        model = layout.parameters(train_rounds(engine, trainer, run, state, told, saves))
        return prepared.model(stopping.select(model))

    def sent_before(self, prepared: Prepared) -> dict[str, float]:  # noqa: ARG002  of `prepared` some methods send part
        """What a home sends before the first round, by the names that its history has for it; most send nothing."""
        return {}

    def task(self, prepared: Prepared, layout: Layout, seed: int) -> Task:
        """What every home is told once."""
        return Task(
            scorer=prepared.scorer,
            objective=self.objective_function,
            plan=self.plan(),
            layout=layout,
            sampling_options=self.sampling_options,
            hidden=self.hidden_rules,
            self_pairs=has_self_rules(prepared.train.rules),
            seed=seed,
            draws=self.draws,
        )


def trainer_of(homes: Homes, task: Task) -> Trainer:
    """A compiled kernel where one knows the model, one client after the other where none does."""
    if is_evidence(task):
        return Batched(homes, task)
    if is_fast(task):
        return Fast(homes, task)
    log.info(
        "%d homes are trained one by one, a few hundred a second: the kernels know the paper's GraphSAGE and loss "
        "without dropout or terms, and evidence alone",
        homes.n_homes,
    )
    return OneByOne(homes, task)


SPACE: dict[str, tuple[object, ...]] = {
    "local_steps": ("choice", 1, 3, 10),
    "learning_rate": ("log", 0.01, 1.0),
    "server_rate": ("log", 0.01, 0.1),
    "rounds": ("int", 50, 200),
}


@register("fedgnn")
@dataclass(frozen=True)
class FedGnn(Federated):
    """FedAvg with the paper's graph neural network: local steps, averaged."""

    NAME: ClassVar[str] = "fedgnn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE


@register("fedprox")
@dataclass(frozen=True)
class FedProx(Federated):
    """FedAvg whose clients are pulled back to the model they were sent (Li et al. 2020)."""

    NAME: ClassVar[str] = "fedprox"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"proximal": ("log", 0.001, 1.0)}

    proximal: float = 0.1  # mu, strength of the pull

    def __post_init__(self) -> None:
        check_range(self, "above 0", "proximal")
        super().__post_init__()

    def plan(self) -> Plan:
        return replace(super().plan(), proximal=self.proximal)


@register("fedrule")
@dataclass(frozen=True)
class FedRule(Federated):
    """Algorithm 2: each client corrects its steps by two control parameters, of the GNN and of the predictor."""

    NAME: ClassVar[str] = "fedrule"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"gnn_lambda": ("float", 0.0, 1.0)}
    CORRECTION: ClassVar[Correction] = "gate"

    gnn_lambda: float = 1.0  # how much of the correction is applied, GNN
    predictor_lambda: float = 1.0  # and predictor; other than 1 every client remembers a whole vector
    control: Control = "updates"  # control parameters from updates (the paper), or from gradients: differ with Adam

    def plan(self) -> Plan:
        return replace(
            super().plan(),
            theta_lambda=self.gnn_lambda,
            phi_lambda=self.predictor_lambda,
            control=self.control,
        )


@register("fedgate")
@dataclass(frozen=True)
class FedGate(Federated):
    """Algorithm 2 with one rate and one control parameter, fully applied (Haddadpour et al. 2021)."""

    NAME: ClassVar[str] = "fedgate"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE
    CORRECTION: ClassVar[Correction] = "gate"

    def __post_init__(self) -> None:
        if self.predictor_rate not in (0, self.learning_rate):
            raise DataError(f"fedgate: predictor_rate {self.predictor_rate} differs from learning_rate; use fedrule")
        super().__post_init__()


@register("scaffold")
@dataclass(frozen=True)
class Scaffold(Federated):
    """Clients correct their steps by the difference of their own and everybody's gradient (Karimireddy et al. 2020)."""

    NAME: ClassVar[str] = "scaffold"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE
    CORRECTION: ClassVar[Correction] = "scaffold"

    control: Control = "updates"  # control variates from updates (their option II), or from gradients: differ with Adam

    def plan(self) -> Plan:
        return replace(super().plan(), control=self.control)
