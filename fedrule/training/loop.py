"""The training loop of centralized graph methods: Adam in rounds, with early stopping and a guard against divergence.

A round visits every home once: in one step where all homes are in one batch, as in the paper, or in several.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, starts
from datasets.splits import Hidden
from fedrule.evidence.statistics import Statistics
from fedrule.lazy import torch
from fedrule.network.encoders import Dropout, Parameters
from fedrule.network.score import Query, Scorer
from fedrule.training.examples import Examples
from fedrule.training.losses import Objective

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

DIVERGENCE_FACTOR = 1e4  # a loss this many times the first one has diverged: no learning rate that works comes near

Draw: TypeAlias = "Callable[[Parameters], Examples]"  # new examples, given the current parameters
AfterRound: TypeAlias = "Callable[[int, Parameters, dict[str, float]], None]"  # round, parameters, measurements
Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """Where training starts if it is not the first one; what is None is drawn, counted or split off as usual."""

    parameters: Parameters | None = None  # to continue from
    counts: Statistics | None = None  # over earlier homes and these; its valid rules are the model's
    validation: Hidden | None = None  # validation rules of homes whose other rules are trained on


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast."""

    rounds: int
    learning_rate: float  # of Adam
    weight_decay: float = 0.0  # of Adam
    batch_size: int = 0  # homes in one step; 0: all
    draws: int = 1  # draws of examples that rounds take turns with, each prepared once; 0: a new one every round
    patience: int = 0  # rounds without a better validation loss before training stops; 0: never
    decay: bool = False  # the learning rate falls to zero along half a cosine over all steps

    def rate(self, progress: float) -> float:
        """The learning rate when this share of training is over."""
        return self.learning_rate * (0.5 + 0.5 * math.cos(math.pi * progress)) if self.decay else self.learning_rate


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBatch:
    """The examples of one step as tensors."""

    query: Query
    positive: Tensor  # [n]  which candidates are rules
    home: Tensor  # [n]
    stands_for: Tensor  # [n_homes]  how many non-rules each drawn one stands for
    weight: int  # homes with candidates

    @classmethod
    def of(cls, scorer: Scorer, examples: Examples, *, leave_out: bool = True) -> TrainingBatch:
        candidates, context = examples.candidates, examples.context
        query = scorer.query(context, candidates, leave_out=examples.full if leave_out else None)
        weight = len(np.unique(candidates.home))
        positive, home = torch.tensor(examples.positive), torch.tensor(candidates.home)
        return cls(query, positive, home, torch.tensor(examples.stands_for), weight)

    def subset(self, homes: Tensor, start: Tensor) -> TrainingBatch:
        """The same for some homes, whose candidates are from start[h] to start[h + 1]; where no network is used."""
        begin, many = start[homes], start[homes + 1] - start[homes]
        home = torch.repeat_interleave(torch.arange(len(homes)), many)
        first = torch.cumsum(many, 0) - many
        rows = begin[home] + torch.arange(len(home)) - first[home]
        query = self.query
        trigger, action, relation = (c.index_select(0, rows) for c in (query.trigger, query.action, query.relation))
        observed = tuple({key: value.index_select(0, rows) for key, value in seen.items()} for seen in query.observed)
        part = Query(query.homes, trigger, action, relation, observed)
        return TrainingBatch(part, self.positive[rows], home, self.stands_for[homes], len(homes))


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """The batches of one draw: homes without candidates are in none, unless there is only one batch.

    Where all that the score needs is known of each candidate, other homes are together in every round; elsewhere what
    it needs of a batch is costly, and batches stay as they are.
    """

    whole: TrainingBatch | None  # all homes, to be divided anew in every round
    fixed: list[TrainingBatch]
    homes: Array  # with candidates
    start: Tensor  # [n_homes + 1]  of `whole`
    batch_size: int

    @classmethod
    def of(cls, scorer: Scorer, examples: Examples, batch_size: int, rng: np.random.Generator) -> Batches:
        home = examples.candidates.home
        homes, start = np.unique(home), torch.from_numpy(starts(home, examples.full.n_homes))
        if not len(homes):
            return cls(None, [], homes, start, batch_size)
        if not batch_size or batch_size >= len(homes):
            return cls(None, [TrainingBatch.of(scorer, examples)], homes, start, batch_size)
        if scorer.by_candidate:
            return cls(TrainingBatch.of(scorer, examples), [], homes, start, batch_size)
        fixed = [TrainingBatch.of(scorer, examples.subset(np.sort(part))) for part in _parts(homes, batch_size, rng)]
        return cls(None, fixed, homes, start, batch_size)

    def shuffled(self, rng: np.random.Generator) -> list[TrainingBatch]:
        """One for each step of a round."""
        if self.whole is None:
            return [self.fixed[i] for i in rng.permutation(len(self.fixed))]
        parts = _parts(self.homes, self.batch_size, rng)
        return [self.whole.subset(torch.from_numpy(part), self.start) for part in parts]


def _parts(homes: Array, size: int, rng: np.random.Generator) -> list[Array]:
    """Homes in random order, so many at a time."""
    shuffled = rng.permutation(homes)
    return [shuffled[first : first + size] for first in range(0, len(shuffled), size)]


@dataclass(slots=True, eq=False)
class BatchLoss:
    """The loss of a batch as a function of the parameters."""

    scorer: Scorer
    objective: Objective
    dropout: Dropout | None = None

    def __call__(self, parameters: Parameters, batch: TrainingBatch) -> Tensor:
        logits = self.scorer.logits_of(parameters, batch.query, self.dropout)
        return self.objective(logits, batch.positive, batch.home, batch.stands_for)


@dataclass(slots=True, eq=False)
class EarlyStopping:
    """The validation loss by round, and the parameters of the best round."""

    batch_loss: BatchLoss
    batch: TrainingBatch | None  # None: no validation
    patience: int = 0  # rounds without a better loss; 0: never stop, and keep the last round
    lowest: float = math.inf
    lowest_round: int = 0
    best: Parameters = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        scorer: Scorer,
        objective: Objective,
        validation: Examples | None,
        *,
        patience: int,
        initial: Parameters | None,  # to return to if no round is better
    ) -> EarlyStopping:
        batch = None if validation is None else TrainingBatch.of(scorer, validation, leave_out=False)
        stopping = cls(BatchLoss(scorer, objective), batch, patience)
        if initial is not None:
            stopping.update(0, initial)
        return stopping

    def update(self, done: int, parameters: Parameters) -> dict[str, float]:
        """What to report of round `done`: its validation loss, and if it is the last; nothing without validation."""
        if self.batch is None:
            return {}
        with torch.no_grad():
            loss = float(self.batch_loss(parameters, self.batch))
        if loss < self.lowest:
            self.lowest, self.lowest_round, self.best = loss, done, copied(parameters)
        return {"validation_loss": loss} | ({"early_stop": 1.0} if self.should_stop(done) else {})

    def should_stop(self, done: int) -> bool:
        """Whether the best round is `patience` rounds ago."""
        return self.batch is not None and 0 < self.patience <= done - self.lowest_round

    def select(self, last: Parameters) -> Parameters:
        """The parameters to keep: with patience those of the best round."""
        return self.best if self.patience and self.best else last


@dataclass(slots=True, eq=False)
class DivergenceGuard(Generic[Model]):
    """Detects a loss that explodes, and keeps the last good model.

    A learning rate that is too high makes the loss infinite, or large beyond meaning. Then training should stop, with
    the last model whose loss was in bounds. If that is the initial one, nothing has been learned: an error.
    """

    name: str  # of the method, for messages
    rounds: int
    rates: dict[str, float]  # learning rates by the name of their option, for messages
    model: Model
    round: int = 0  # of the model
    bound: float = math.inf  # highest loss in bounds; set by the first one

    def diverged(self, done: int, before: Model, losses: Sequence[float], *, finite: bool) -> bool:
        """Whether training diverged in round `done`.

        `losses` are those of its steps, each before the update, so that the first is of the model `before` the round;
        `finite` says whether all numbers of the model after it are.
        """
        if self.bound == math.inf and losses:
            self.bound = DIVERGENCE_FACTOR * max(losses[0], 1.0)
        in_bounds = all(math.isfinite(loss) and loss <= self.bound for loss in losses)
        if in_bounds:
            self.model, self.round = before, done - 1
        if in_bounds and finite:
            return False
        loss = losses[-1] if losses else math.nan
        message = f"{self.name}: training diverged in round {done} of {self.rounds} (loss {loss:.4g})"
        remedy = f"{' or '.join(f'{rate} {value:g}' for rate, value in self.rates.items())} is too high"
        if len(self.rates) == 1:  # of several it is not known which
            remedy += "".join(f", try {min(value / 10, 0.01):g}" for value in self.rates.values())
        if self.round == 0:
            raise DataError(f"{message} and had learned nothing before; {remedy}")
        log.warning("%s; the model after round %d is kept. %s", message, self.round, remedy)
        return True


@dataclass(slots=True, eq=False)
class Adam:
    """The same as `torch.optim.Adam(fused=True)`, bit for bit.

    That one imports torch's compiler in its first step, which takes two seconds, longer than some methods train.
    """

    parameters: list[Tensor]
    first: list[Tensor]  # moments of the gradient
    second: list[Tensor]
    steps: list[Tensor]  # of each parameter, those in which it had a gradient
    weight_decay: float

    @classmethod
    def of(cls, parameters: Parameters, *, weight_decay: float = 0.0) -> Adam:
        values = list(parameters.values())
        first, second = ([torch.zeros_like(value, requires_grad=False) for value in values] for _ in range(2))
        return cls(values, first, second, [torch.zeros(()) for _ in values], weight_decay)

    def step(self, rate: float) -> None:
        """A step with this learning rate for all parameters that have a gradient; then they have none."""
        columns = zip(self.parameters, self.first, self.second, self.steps, strict=True)
        used = [column for column in columns if column[0].grad is not None]
        if not used:
            return
        parameters, first, second, steps = (list(column) for column in zip(*used, strict=True))
        gradients = [value.grad for value in parameters if value.grad is not None]
        torch._foreach_add_(steps, 1)
        with torch.no_grad():
            torch._fused_adam_(
                parameters,
                gradients,
                first,
                second,
                [],
                steps,
                amsgrad=False,
                lr=rate,
                beta1=0.9,
                beta2=0.999,
                weight_decay=self.weight_decay,
                eps=1e-8,
                maximize=False,
                grad_scale=None,
                found_inf=None,
            )
        for value in parameters:
            value.grad = None


@dataclass(frozen=True, slots=True, eq=False)
class PlainAdam:
    """`Adam` by the public class, equal up to rounding: for versions of torch without the private function."""

    optimizer: torch.optim.Adam

    @classmethod
    def of(cls, parameters: Parameters, *, weight_decay: float = 0.0) -> PlainAdam:
        return cls(torch.optim.Adam(parameters.values(), weight_decay=weight_decay))

    def step(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()


def adam_of(parameters: Parameters, *, weight_decay: float = 0.0) -> Adam | PlainAdam:
    """The one that this version of torch has the functions for."""
    made: type[Adam | PlainAdam] = Adam if hasattr(torch, "_fused_adam_") else PlainAdam
    return made.of(parameters, weight_decay=weight_decay)


def optimize(
    scorer: Scorer,
    objective: Objective,
    schedule: Schedule,
    draw: Draw,
    *,
    name: str,  # of the method, for messages
    rng: np.random.Generator,
    validation: Examples | None = None,
    on_round: AfterRound | None = None,
    initial: Parameters | None = None,  # to continue from; None: drawn
) -> Parameters:
    """The parameters after the last round, with patience of the best one, on divergence the last good ones."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    batch_loss = BatchLoss(scorer, objective, Dropout(int(rng.integers(2**63))))
    parameters = {key: value.requires_grad_() for key, value in (initial or scorer.initial(generator)).items()}
    optimizer = adam_of(parameters, weight_decay=schedule.weight_decay)
    stopping = EarlyStopping.of(scorer, objective, validation, patience=schedule.patience, initial=initial)
    guard = DivergenceGuard(name, schedule.rounds, {"learning_rate": schedule.learning_rate}, copied(parameters))
    good_loss = math.inf
    draws: list[Batches] = []
    for done in range(1, schedule.rounds + 1):
        turn = (done - 1) % (schedule.draws or schedule.rounds)
        if turn < len(draws):
            drawn = draws[turn]
        else:
            drawn = Batches.of(scorer, draw(copied(parameters)), schedule.batch_size, rng)
            if schedule.draws:
                draws.append(drawn)
        before = copied(parameters)
        shuffled = drawn.shuffled(rng)
        rates = [schedule.rate((done - 1 + step / len(shuffled)) / schedule.rounds) for step in range(len(shuffled))]
        losses = _steps(batch_loss, optimizer, parameters, shuffled, rates)
        loss = sum(each * batch.weight for each, batch in zip(losses, shuffled, strict=True))
        loss /= max(sum(batch.weight for batch in shuffled), 1)
        finite = all(bool(value.isfinite().all()) for value in parameters.values())
        diverged = guard.diverged(done, before, losses, finite=finite)
        if guard.round == done - 1:
            good_loss = loss
        if diverged:
            if on_round is not None:
                on_round(done, guard.model, {"loss": good_loss, "diverged": 1.0})
            return stopping.select(guard.model)
        values = {"loss": loss, **stopping.update(done, parameters)}
        if on_round is not None:
            on_round(done, copied(parameters), values)
        if stopping.should_stop(done):
            log.info("%s: stopped after round %d; round %d was best", name, done, stopping.lowest_round)
            break
    return stopping.select(copied(parameters))


def copied(parameters: Parameters) -> Parameters:
    """The same numbers in tensors of their own, without gradients."""
    return {name: value.detach().clone() for name, value in parameters.items()}


def _steps(
    batch_loss: BatchLoss,
    optimizer: Adam | PlainAdam,
    parameters: Parameters,
    batches: list[TrainingBatch],
    rates: list[float],  # the learning rate of each
) -> list[float]:
    """A step for each batch; the losses before each of them."""
    losses = []
    for batch, rate in zip(batches, rates, strict=True):
        loss = batch_loss(parameters, batch)
        torch.autograd.backward(loss)
        optimizer.step(rate)
        losses.append(loss.item())
    return losses
