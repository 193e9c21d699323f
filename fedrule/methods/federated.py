"""The federated methods: options and names for the algorithms of `fedrule.federated` (paper, section 3.3)."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError
from datasets.homes import Array, Homes
from datasets.valid import ValidRules
from fedrule.evidence.private_statistics import private_statistics
from fedrule.evidence.statistics import BYTES, Statistics, sent_bytes
from fedrule.federated.algorithm import Control, Hyperparameters
from fedrule.federated.checkpoint import Checkpoint, ValidationExtra
from fedrule.federated.client import LocalTraining
from fedrule.federated.cohort import Purpose
from fedrule.federated.loop import train as train_rounds
from fedrule.federated.options import FederatedOptions
from fedrule.federated.private import Privacy, normals_of
from fedrule.federated.robustness.attacks import AUTOMATIC, SCALE, SCALES, Attackers, AttackOptions, Attacks
from fedrule.federated.rounds import RoundReport
from fedrule.federated.trainers.batched import BatchedTrainer, fits_batches
from fedrule.federated.trainers.evidence import EvidenceTrainer, is_evidence
from fedrule.federated.trainers.kernel import KernelTrainer, fits_kernel
from fedrule.federated.trainers.trainer import TorchTrainer, Trainer
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.lazy import torch
from fedrule.methods.graph_method import GraphMethod, TrainingSetup
from fedrule.network.options import derived
from fedrule.network.score import GraphModel, Scorer
from fedrule.network.terms import CountBias, EvidenceNetwork
from fedrule.training.loop import EarlyStopping, WarmStart

log = logging.getLogger(__name__)

DEFAULT_COUNTS_SHARE = 0.5


def default_counts_share(method: Federated) -> float:
    """That of private runs of methods that count homes before training."""
    return DEFAULT_COUNTS_SHARE if method.epsilon and method.counts_homes else 0.0


@dataclass(frozen=True)
class Federated(FederatedOptions, GraphMethod):
    """A graph method trained in the homes: what leaves a home is an update of the model."""

    learning_rate: float = derived(0.1)  # of clients, for the GNN
    predictor_rate: float = 0.0  # of clients, for the predictor and all other terms; 0: learning_rate
    counts_share: float = derived(lambda self: default_counts_share(self))  # of epsilon, for counts before training
    attack: Attacks = "none"  # simulated: what attackers do
    attackers: float = 0.0  # simulated: share of the homes that attack, the same ones in every round
    attack_scale: float = derived(lambda self: SCALES.get(self.attack, SCALE))  # of what they send; 0: no attack
    promoted: str = derived(lambda self: AUTOMATIC if self.attack == "promote" else "")  # rule to measure the rank of

    def __post_init__(self) -> None:
        GraphMethod.__post_init__(self)
        check_range(self.NAME, self, "at least 0", "predictor_rate")
        FederatedOptions.__post_init__(self)
        h = self.hyperparameters()
        try:
            attack = self._attack()
            if attack.attack not in ("none", "label-flip") and h.sends_mean_gradient:
                raise DataError(f"attack {attack.attack} changes one vector, and with control gradients two are sent")
        except DataError as error:
            raise DataError(f"{self.NAME}: {error}") from None
        if not self.hidden and (self.predictor_rate > 0 or h.theta_lambda != 1):
            raise DataError(
                f"{self.NAME}: predictor_rate and gnn_lambda tell the GNN from the rest, and with hidden 0 there is "
                "none; set learning_rate and predictor_lambda"
            )

    def _check_privacy(self) -> None:
        super()._check_privacy()
        if not self.privacy.noisy:
            return
        if self.validation:
            raise DataError(
                f"validation {self.validation:g}: a validation loss, and where it stops training, come from rules of "
                "homes outside of the account of privacy; set validation 0 and choose rounds on other homes"
            )
        if self.counts_homes and not self.counts_share:
            raise DataError("its counts over homes need a part of the budget; set epsilon and counts_share, e.g. 0.5")

    @property
    def privacy(self) -> Privacy:
        """Of each home; by default there is none."""
        return Privacy(self.clip, self.epsilon, self.noise_multiplier, self.delta, self.counts_share, self.rounds)

    @property
    def answers_unseen(self) -> bool:
        """With privacy, rules of few homes are not valid, and are scored by what they have in common with others."""
        return super().answers_unseen or self.privacy.noisy

    def count(self, train: Homes, rng: np.random.Generator) -> tuple[ValidRules, Statistics | None]:
        """With privacy, counts have noise, and without any all rules of the vocabularies are valid."""
        if not self.privacy.noisy:
            return super().count(train, rng)
        if not self.counts_share:
            every = np.arange(len(train.types) ** 2 * len(train.relations))
            return ValidRules.of_cells(len(train.types), len(train.relations), every), None
        account = self.privacy.account(train.n_homes, self.engine().cohorts.fraction(train.n_homes))
        normals = normals_of(self.noise_seed(rng), Purpose.COUNTS)
        counts = private_statistics(train, multiplier=account.counts, normals=normals, all_patterns=self.evidence > 0)
        log.info(
            "%s: counts with noise, epsilon %.3g at delta %.2g; %d rules of enough homes",
            self.NAME,
            account.after(0),
            account.delta,
            len(counts.valid),
        )
        return counts.valid, counts

    def noise_seed(self, rng: np.random.Generator) -> int:
        """Of the noise in the counts of a simulation."""
        return int(rng.integers(2**62))

    def prepare(self, train: Homes, rng: np.random.Generator, *, warm_start: WarmStart | None = None) -> TrainingSetup:
        if self.privacy.noisy and warm_start is not None:
            exact = warm_start.counts is not None and not warm_start.counts.noisy
            if exact or warm_start.validation is not None:
                raise DataError(
                    f"{self.NAME}: counts and validation rules of earlier homes are outside of the account of privacy; "
                    "train without them"
                )
        prepared = super().prepare(train, rng, warm_start=warm_start)
        return replace(prepared, train=self.trained_on(prepared.train, prepared.scorer.valid))

    def trained_on(self, homes: Homes, valid: ValidRules) -> Homes:
        """The homes with the rules that they learn from; in private runs those of enough homes.

        Non-rules are drawn among these. Beside them, a rule of few homes would teach that what nobody has is what
        everybody wants.
        """
        if not self.privacy.noisy:
            return homes
        trigger_type, relation, action_type = homes.typed()
        return homes.with_rules(valid.contains(trigger_type, action_type, relation))

    def hyperparameters(self) -> Hyperparameters:
        return replace(super().hyperparameters(), phi_rate=self.predictor_rate or self.learning_rate)

    def _attack(self) -> AttackOptions:
        return AttackOptions(self.attack, self.attackers, self.attack_scale, self.promoted)

    def attackers_among(self, train: Homes, rng: np.random.Generator) -> Attackers | None:
        """The attackers of a fit with this generator, of which nothing is drawn; None: nothing to attack or measure."""
        if not self._attack().used or not train.n_rules:
            return None
        # A copy of the generator: with an attack all else is drawn as without it.
        return self._attack().begin(train, int(deepcopy(rng).integers(2**62)))

    def refuse_deployment(self) -> None:
        """An error where the server would have to see single updates; `fedrule.flower.method` refuses attacks."""
        if needed := self.engine().single_updates:
            raise DataError(f"{self.NAME}: {needed} needs single updates, and nodes send sums; use the simulation")

    def fit(
        self,
        train: Homes,
        *,
        rng: np.random.Generator,
        on_round: OnRound = ignore,
        checkpoint: Checkpoint | None = None,
        warm_start: WarmStart | None = None,
        missing: Mapping[int, Array] | None = None,  # clients that dropped out, by rounds done before
    ) -> GraphModel:
        """All randomness comes from `rng`, by way of one seed; `checkpoint` saves states and resumes from the last."""
        attackers = self.attackers_among(train, rng)
        if attackers is not None:
            train = attackers.poisoned(train)
        prepared = self.prepare(train, rng, warm_start=warm_start)
        if not prepared.train.n_rules:
            return prepared.untrained()
        seed = int(rng.integers(2**62))
        initial = prepared.initial or prepared.scorer.initial(torch.Generator().manual_seed(seed))
        task = self.task(prepared, FlatParameters.of(initial), seed)
        task = replace(task, flipped=None if attackers is None else attackers.flipped)
        engine, layout, statistics = self.engine(), task.layout, self.sent_before(prepared)
        engine = replace(engine, missing=missing or {}, attackers=attackers)
        trainer = trainer_of(prepared.train, task)
        stopping = EarlyStopping.of(
            prepared.scorer,
            self.objective_function,
            prepared.validation,
            patience=self.patience,
            initial=prepared.initial,
        )

        def after_round(done: int, model: Vector, report: RoundReport) -> bool:
            values = report.values()
            parameters = layout.parameters(model)
            values |= (statistics if done == 1 else {}) | stopping.update(done, parameters)
            if on_round is not ignore:
                on_round(done, self.rounds, prepared.model(parameters), values)
            return stopping.should_stop(done)

        extras = {} if stopping.batch is None else {"validation": ValidationExtra(stopping)}
        checkpoint = self.own_checkpoint(checkpoint, train, seed, extras)
        state = engine.begin(trainer, layout.flat(initial))
        model = layout.parameters(train_rounds(engine, trainer, self.schedule(seed), state, after_round, checkpoint))
        return prepared.model(stopping.select(model))

    def sent_before(self, prepared: TrainingSetup) -> dict[str, float]:
        """Bytes that a home sends before the first round, by the name of their history column; mostly none.

        Feasible non-rules and all terms beside the network need the typed rules that some home has, a first sum of
        zeros and ones. Counts are more: see `fedrule.evidence.statistics`.
        """
        valid, terms = prepared.scorer.valid, prepared.scorer.terms
        uncounted = self.privacy.noisy and not self.counts_share  # all rules of the vocabularies are valid
        if uncounted or (self.non_rules == "paper" and not terms):
            return {}
        sent = BYTES * math.prod(valid.shape)
        for term in terms:
            if isinstance(term, EvidenceNetwork):
                sent = sent_bytes(term.evidence)
            elif isinstance(term, CountBias) and not self.evidence:
                sent += BYTES * valid.n_types * (valid.n_types + 1) // 2  # homes that own both types
        log.info("%s: each home sends %.1f kB of counts before training", self.NAME, sent / 1e3)
        return {"statistics_bytes": float(sent)}

    def task(self, prepared: TrainingSetup, layout: FlatParameters, seed: int) -> LocalTraining:
        """What the homes of a simulation are sent once."""
        return self.local_training(prepared.scorer, layout, seed, self_pairs=has_self_rules(prepared.train.rules))

    def local_training(
        self,
        scorer: Scorer,
        layout: FlatParameters,
        seed: int,
        *,
        self_pairs: bool,  # whether a device acts on itself in any home
    ) -> LocalTraining:
        return LocalTraining(
            scorer=scorer,
            objective=self.objective_function,
            hyperparameters=self.hyperparameters(),
            layout=layout,
            sampling_options=self.sampling_options,
            hidden=self.hidden_rules,
            # Whether any home has a rule of a device with itself is not in the account of a private run.
            self_pairs=self_pairs or self.privacy.noisy,
            seed=seed,
            draws=self.draws,
        )


def trainer_of(homes: Homes, task: LocalTraining, numbers: Array | None = None) -> Trainer:
    """The fastest trainer that computes the task, for homes that have these numbers in the federation; see there."""
    if is_evidence(task):
        return EvidenceTrainer(homes, task, numbers)
    if fits_kernel(task):
        return KernelTrainer(homes, task, numbers)
    if fits_batches(task):
        return BatchedTrainer(homes, task, numbers)
    log.info(
        "%d homes are trained one by one, a few hundred a second: there are kernels for the paper's GraphSAGE and loss "
        "without dropout or other terms, and for evidence alone, and GraphSAGE and CompGCN without context or evidence "
        "are trained in batches",
        homes.n_homes,
    )
    return TorchTrainer(homes, task, numbers)


SPACE: dict[str, tuple[object, ...]] = {
    "local_steps": ("choice", 1, 3, 10),
    "learning_rate": ("log", 0.01, 1.0),
    "server_rate": ("log", 0.01, 0.1),
    "rounds": ("int", 50, 200),
}


def default_control(method: FedRule | Scaffold) -> Control:
    """Adam's updates have size 1 whatever the gradient is, so that control parameters made of them dominate it.

    With SGD both are the same.
    """
    corrects = getattr(method, "gnn_lambda", 1.0) or getattr(method, "predictor_lambda", 1.0)
    return "gradients" if corrects and method.client_optimizer != "sgd" else "updates"


@register("fedgnn")
@dataclass(frozen=True)
class FedGnn(Federated):
    """FedAvg with the paper's graph neural network (McMahan et al. 2017)."""

    NAME: ClassVar[str] = "fedgnn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE


@register("fedprox")
@dataclass(frozen=True)
class FedProx(Federated):
    """FedAvg with a proximal term that pulls clients towards the global model (Li et al. 2020)."""

    NAME: ClassVar[str] = "fedprox"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"proximal": ("log", 0.001, 1.0)}
    ALGORITHM: ClassVar[str] = "fedprox"

    proximal: float = 0.1  # mu, the strength of the pull

    def __post_init__(self) -> None:
        check_range(self.NAME, self, "above 0", "proximal")
        super().__post_init__()

    def hyperparameters(self) -> Hyperparameters:
        return replace(super().hyperparameters(), proximal=self.proximal)


# Of methods that always have corrections. With both lambdas 0 `fedrule` has none, and all of these.
PRIVACY = dict.fromkeys(
    ("epsilon", "noise_multiplier", "delta", "clip", "counts_share"),
    "is for methods without corrections, by which the server learns more than an update: fedgnn, fedprox, fedrank",
)


@dataclass(frozen=True)
class Corrected(Federated):
    """Methods whose clients carry a correction from round to round.

    They are stable only while the client's rate times the curvature of its loss is below 3.79 with 3 local steps, and
    below about 2 with many (docs/federated.md), and the curvature grows in training. Without a correction an overshoot
    is forgotten after the round.
    """

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = SPACE | {"learning_rate": ("log", 0.001, 0.1)}

    learning_rate: float = derived(0.01)  # of clients, for the GNN; from 0.1 on some runs diverge

    def _check_privacy(self) -> None:
        given = [name for name in PRIVACY if getattr(self, name)]
        if given and self.hyperparameters().corrects:
            raise DataError(f"{given[0]} {getattr(self, given[0])!r} {PRIVACY[given[0]]}")
        super()._check_privacy()


@register("fedrule")
@dataclass(frozen=True)
class FedRule(Corrected):
    """Algorithm 2: each client corrects its gradients by two control parameters, of the GNN and of the predictor."""

    NAME: ClassVar[str] = "fedrule"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = Corrected.SPACE | {"gnn_lambda": ("float", 0.0, 1.0)}
    ALGORITHM: ClassVar[str] = "fedrule"

    gnn_lambda: float = derived(1.0)  # strength of the correction of the GNN
    predictor_lambda: float = derived(1.0)  # and of the predictor; other than 1 every client keeps a whole vector
    control: Control = derived(default_control)  # from updates, or gradients, as unless given with client Adam

    def hyperparameters(self) -> Hyperparameters:
        return replace(
            super().hyperparameters(),
            theta_lambda=self.gnn_lambda,
            phi_lambda=self.predictor_lambda,
            control=self.control,
        )


@register("fedgate")
@dataclass(frozen=True)
class FedGate(Corrected):
    """FedRule with one rate, one control parameter and lambda 1 (Haddadpour et al. 2021)."""

    NAME: ClassVar[str] = "fedgate"
    ALGORITHM: ClassVar[str] = "fedgate"
    UNAVAILABLE: ClassVar[dict[str, str]] = PRIVACY

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.predictor_rate not in (0, self.learning_rate):
            raise DataError(
                f"fedgate: predictor_rate {self.predictor_rate:g} differs from learning_rate {self.learning_rate:g}; "
                "use fedrule"
            )


@register("scaffold")
@dataclass(frozen=True)
class Scaffold(Corrected):
    """Clients correct their gradients by control variates, their own and the server's (Karimireddy et al. 2020)."""

    NAME: ClassVar[str] = "scaffold"
    ALGORITHM: ClassVar[str] = "scaffold"
    UNAVAILABLE: ClassVar[dict[str, str]] = PRIVACY

    control: Control = derived(default_control)  # from updates, or gradients, as unless given with client Adam

    def hyperparameters(self) -> Hyperparameters:
        return replace(super().hyperparameters(), control=self.control)
