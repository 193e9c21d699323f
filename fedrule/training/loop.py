"""Training in rounds: Adam on what practice asks, watched on rules kept back, stopped before it runs away.

A round is one look at every home: one step where all homes are in one batch, as in the paper, several where they come
in smaller ones.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from datasets.common.errors import DataError
from datasets.splits import Hidden
from fedrule.evidence.statistics import Statistics
from fedrule.model.encoders import Parameters
from fedrule.model.score import Asked, Scorer
from fedrule.training.examples import Practice
from fedrule.training.losses import Objective

log = logging.getLogger(__name__)

RUN_AWAY = 1e4  # times the first loss: no learning rate that works comes near

Draw: TypeAlias = Callable[[Parameters], Practice]  # what to ask next, given the parameters as they are
Told: TypeAlias = Callable[[int, Parameters, dict[str, float]], None]  # the round, its parameters and measurements


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast."""

    rounds: int
    learning_rate: float  # of Adam
    weight_decay: float = 0.0  # of Adam
    homes_at_once: int = 0  # homes of one step; 0: all
    draws: int = 1  # different draws that the rounds take turns with, each prepared once and kept; 0: anew every round
    patience: int = 0  # rounds without a better loss on the rules kept back before it stops; 0: never
    decay: bool = False  # the learning rate falls to zero along half a cosine over all steps

    def rate(self, over: float) -> float:
        """The learning rate when this share of training is over."""
        return self.learning_rate * (0.5 + 0.5 * math.cos(math.pi * over)) if self.decay else self.learning_rate


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """The candidates of one step as tensors, and which of them are rules."""

    asked: Asked
    positive: Tensor  # [n]
    home: Tensor  # [n]
    n_homes: int
    weight: int  # homes with candidates

    @classmethod
    def of(cls, scorer: Scorer, practice: Practice, *, leave_out: bool = True) -> Lesson:
        candidates, context = practice.candidates, practice.context
        asked = scorer.ask(context, candidates, leave_out=practice.full if leave_out else None)
        weight = len(np.unique(candidates.home))
        return cls(asked, torch.tensor(practice.positive), torch.tensor(candidates.home), context.n_homes, weight)


@dataclass(slots=True, eq=False)
class Teacher:
    """What makes a loss of parameters: the scorer, the objective, and dropout where it draws any."""

    scorer: Scorer
    objective: Objective
    chance: torch.Generator | None = None

    def loss(self, parameters: Parameters, lesson: Lesson) -> Tensor:
        logits = self.scorer.logits_of(parameters, lesson.asked, self.chance)
        return self.objective(logits, lesson.positive, lesson.home, lesson.n_homes)


@dataclass(slots=True, eq=False)
class Watch:
    """The loss on rules kept back, and the parameters that did best on them."""

    teacher: Teacher
    lesson: Lesson
    lowest: float = math.inf
    lowest_round: int = 0
    best: Parameters = field(default_factory=dict)

    @torch.no_grad()
    def look(self, done: int, parameters: Parameters) -> float:
        loss = float(self.teacher.loss(parameters, self.lesson))
        if loss < self.lowest:
            self.lowest, self.lowest_round, self.best = loss, done, copied(parameters)
        return loss


def learn(
    scorer: Scorer,
    objective: Objective,
    schedule: Schedule,
    draw: Draw,
    *,
    name: str,  # of the method, for what has to be said
    rng: np.random.Generator,
    watched: Practice | None = None,  # rules kept back
    told: Told | None = None,
    begin: Parameters | None = None,  # to go on from, and to come back to if no round does better; None: drawn
) -> Parameters:
    """The parameters after the last round, or with patience those of the round with the best watched loss.

    A learning rate that is too high makes the loss infinite, or large beyond meaning. Then training stops with a
    warning, and the last parameters whose loss was in bounds are the result. Where these are the ones it began with,
    nothing has been learned, and that is an error.
    """
    chance = torch.Generator().manual_seed(int(rng.integers(2**63)))
    teacher = Teacher(scorer, objective, chance)
    parameters = {key: value.requires_grad_() for key, value in (begin or scorer.initial(chance)).items()}
    optimizer = torch.optim.Adam(
        parameters.values(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
    )
    watch = None
    if watched is not None:
        watch = Watch(Teacher(scorer, objective), Lesson.of(scorer, watched, leave_out=False))
        if begin is not None:
            watch.look(0, parameters)
    kept: list[list[Lesson]] = []  # by draw
    good, good_round, good_loss, bound = copied(parameters), 0, math.inf, math.inf
    for done in range(1, schedule.rounds + 1):
        turn = (done - 1) % (schedule.draws or schedule.rounds)
        if turn < len(kept):
            lessons = kept[turn]
        else:
            lessons = _lessons(scorer, draw(copied(parameters)), schedule.homes_at_once, rng)
            if schedule.draws:
                kept.append(lessons)
        before = copied(parameters)
        shuffled = [lessons[i] for i in rng.permutation(len(lessons))]
        rates = [schedule.rate((done - 1 + step / len(lessons)) / schedule.rounds) for step in range(len(lessons))]
        losses = _steps(teacher, optimizer, parameters, shuffled, rates)
        loss = sum(each * lesson.weight for each, lesson in zip(losses, shuffled, strict=True))
        loss /= max(sum(lesson.weight for lesson in shuffled), 1)
        if done == 1 and losses:  # of the first step: the mean of a round of many may have run away already
            bound = RUN_AWAY * max(losses[0], 1.0)
        in_bounds = math.isfinite(loss) and max(losses, default=0.0) <= bound
        if in_bounds:  # the losses are those of the parameters before each step
            good, good_round, good_loss = before, done - 1, loss
        if not (in_bounds and all(bool(value.isfinite().all()) for value in parameters.values())):
            ran_away(name, {"learning_rate": schedule.learning_rate}, schedule.rounds, done, loss, good_round)
            if told is not None:
                told(done, good, {"loss": good_loss, "diverged": 1.0})
            break
        values = {"loss": loss}
        if watch is not None:
            values["watched_loss"] = watch.look(done, parameters)
        if told is not None:
            told(done, copied(parameters), values)
        if watch is not None and schedule.patience and done - watch.lowest_round >= schedule.patience:
            log.info("%s: stopped after round %d; round %d did best", name, done, watch.lowest_round)
            break
    else:
        good = copied(parameters)
    return watch.best if watch is not None and schedule.patience and watch.best else good


def copied(parameters: Parameters) -> Parameters:
    """The same numbers in tensors of their own, without gradients."""
    return {name: value.detach().clone() for name, value in parameters.items()}


def _lessons(scorer: Scorer, practice: Practice, homes_at_once: int, rng: np.random.Generator) -> list[Lesson]:
    """One for each step of a round; homes of which nothing is asked are in none, unless there is only one."""
    asked = np.unique(practice.candidates.home)
    if not len(asked):
        return []
    if not homes_at_once or homes_at_once >= len(asked):
        return [Lesson.of(scorer, practice)]
    shuffled = rng.permutation(asked)
    parts = (shuffled[first : first + homes_at_once] for first in range(0, len(shuffled), homes_at_once))
    return [Lesson.of(scorer, practice.part(np.sort(part))) for part in parts]


def _steps(
    teacher: Teacher,
    optimizer: torch.optim.Optimizer,
    parameters: Parameters,
    lessons: list[Lesson],
    rates: list[float],  # the learning rate of each
) -> list[float]:
    """A step for each lesson; the losses before each of them."""
    losses = []
    for lesson, rate in zip(lessons, rates, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        loss = teacher.loss(parameters, lesson)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def ran_away(name: str, rates: dict[str, float], rounds: int, done: int, loss: float, good_round: int) -> None:
    """Say that training of method `name` ran away in round `done`; an error where nothing good is left to keep."""
    what = f"{name}: training ran away in round {done} of {rounds} (loss {loss:.4g})"
    remedy = f"{' or '.join(f'{rate} {value:g}' for rate, value in rates.items())} is too high"
    if len(rates) == 1:  # of several it is not known which
        remedy += "".join(f", try {min(value / 10, 0.01):g}" for value in rates.values())
    if good_round == 0:
        raise DataError(f"{what} and had learned nothing before; {remedy}")
    log.warning("%s; the model after round %d is kept. %s", what, good_round, remedy)


# --- What a training begins with where it is not the first one: parameters, counts over earlier homes, rules to watch.


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """An argument of `fit`; what is left out is drawn, counted or kept back as the method's options say."""

    parameters: Parameters | None = None  # to go on from
    counts: Statistics | None = None  # over earlier homes and these; its valid rules are the model's
    validation: Hidden | None = None  # rules to watch, of homes whose other rules are trained on
