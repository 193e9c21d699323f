"""What all federated methods have in common: their options, and fitting by rounds of the engine."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import torch

from baselines.method import OnRound, ignore
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError
from datasets.homes import Homes
from fedrule.federated.at_home import Task
from fedrule.federated.trainers.batched import Batched, is_evidence
from fedrule.federated.beside import WatchBeside
from fedrule.federated.cohort import Cohorts, Sampling
from fedrule.federated.engine import Engine, Report, Weighting
from fedrule.federated.trainers.fast import Fast, is_fast
from fedrule.federated.layout import Layout, Vector
from fedrule.federated.trainers.one_by_one import OneByOne
from fedrule.federated.plan import EPSILON, ClientOptimizer, Correction, Plan
from fedrule.federated.server import ServerOptimizer, ServerRule
from fedrule.federated.training import Run, Saves
from fedrule.federated.training import train as train_rounds
from fedrule.federated.work import Trainer
from fedrule.methods.graph_method import GraphMethod, Prepared
from fedrule.model.graph_model import GraphModel
from fedrule.methods.graph_options import refuse_wrong_numbers
from fedrule.training.start import Start
from fedrule.training.training import Lesson, Teacher, Watch

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
    sampling: Sampling = "uniform"  # so many homes, all equally likely; poisson: each by itself with this chance
    weighting: Weighting = "clients"  # updates count alike; rules, or roots: as the number of rules, or its square root
    drop_out: float = 0.0  # a fault to try: share of a cohort that vanishes in mid-round
    late: float = 0.0  # a fault to try: share that sends too late
    broken: float = 0.0  # a fault to try: share that sends what is no number

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_wrong_numbers(self, not_negative=("predictor_rate",), positive=("learning_rate", "server_rate"))
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
        start: Start | None = None,
    ) -> GraphModel:
        """All randomness comes from `rng`, by way of one seed; `saves` keeps states and goes on from the last one."""
        prepared = self.prepare(train, rng, start=start)
        if not prepared.train.n_rules:
            return prepared.untrained()
        seed = int(rng.integers(2**62))
        begin = prepared.begin
        initial = begin or prepared.scorer.initial(torch.Generator().manual_seed(seed))
        task = self.task(prepared, Layout.of(initial), seed)
        trainer = trainer_of(prepared.train, task)
        engine, layout, before = self.engine(), task.layout, self.sent_before(prepared)
        watch = None
        if prepared.watched is not None:
            lesson = Lesson.of(prepared.scorer, prepared.watched, leave_out=False)
            watch = Watch(Teacher(prepared.scorer, self.objective_function), lesson)
            if begin is not None:  # to come back to if no round does better
                watch.look(0, begin)

        def told(done: int, model: Vector, report: Report) -> bool:
            values = {name: float(value) for name, value in report._asdict().items()} | (before if done == 1 else {})
            parameters = layout.parameters(model)
            if watch is not None:
                values["watched_loss"] = watch.look(done, parameters)
            if on_round is not ignore:
                on_round(done, self.rounds, prepared.model(parameters), values)
            return watch is not None and 0 < self.patience <= done - watch.lowest_round

        if saves is not None:
            run_of = {"method": self.NAME, "parameters": asdict(self), "homes": train.fingerprint, "seed": seed}
            saves = saves.of(run_of, {} if watch is None else {"watch": WatchBeside(watch)})
        run = Run(self.NAME, self.rounds, seed, self.server_rate, self.decay, client_rate=self.learning_rate)
        state = engine.begin(trainer, layout.flat(initial))
        model = layout.parameters(train_rounds(engine, trainer, run, state, told, saves))
        return prepared.model(watch.best if watch is not None and self.patience and watch.best else model)

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
            asks=self.asks,
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
