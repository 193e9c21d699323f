"""GraphRule, centralized: the paper's network trained on all homes at once (paper, section 3.2 and Algorithm 1).

The sizes are the paper's, how it is trained was chosen by `benchmarks tune` like that of every method: more steps of
Adam, a lower rate and dropout. Preset "paper" has 100 steps with a rate of 0.1; docs/graph.md says what that changes. A
rate that is too high stops training: see `fedrule.training.loop`.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError
from datasets.homes import Homes, Rules
from fedrule.lazy import torch
from fedrule.methods.graph_method import GraphMethod
from fedrule.network.encoders import Parameters
from fedrule.network.options import derived
from fedrule.network.score import GraphModel, Scorer
from fedrule.training.examples import Examples, ExampleSampler
from fedrule.training.loop import Schedule, WarmStart, optimize

log = logging.getLogger(__name__)


@register("graphrule")
@dataclass(frozen=True)
class GraphRule(GraphMethod):
    """The paper's graph neural network: devices are nodes, rules are edges, what to recommend is a missing edge."""

    NAME: ClassVar[str] = "graphrule"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden": ("choice", 16, 32, 64),
        "dropout": ("float", 0.0, 0.6),
        "learning_rate": ("log", 0.003, 0.2),
        "rounds": ("int", 50, 400),
        "weight_decay": ("float", 0.0, 1e-3),
        "draws": ("choice", 0, 1, 10),
    }

    homes_per_draw: int = 0  # most homes in one draw of examples, others in each: bounds time and memory; 0: all
    dropout: float = derived(lambda self: 0.47 if self.hidden or self.evidence else 0.0)  # of hidden states
    rounds: int = derived(274)  # passes over all homes
    learning_rate: float = derived(0.0049)  # of Adam; the paper has 0.1, with which its sizes do worse: docs/graph.md
    decay: bool = False  # the learning rate falls to zero along half a cosine over all steps
    weight_decay: float = derived(0.00014)  # of Adam: pull of all parameters towards zero
    batch_size: int = 0  # homes in one step; 0: all in one batch
    least_steps: int = 0  # more rounds where so few homes are trained on that they would be fewer steps; 0: never

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 0", "homes_per_draw", "batch_size", "weight_decay", "least_steps")
        check_range(self.NAME, self, "above 0", "learning_rate")
        if self.homes_per_draw and self.draws == 1:
            raise DataError(
                f"{self.NAME}: with draws 1 only {self.homes_per_draw} homes (homes_per_draw) would be used; "
                "set one of them to 0"
            )

    def fit(
        self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore, warm_start: WarmStart | None = None
    ) -> GraphModel:
        """All randomness comes from `rng`; with one thread the same numbers come out bit for bit."""
        prepared = self.prepare(train, rng, warm_start=warm_start)
        train, scorer = prepared.train, prepared.scorer
        if not train.n_rules:
            return prepared.untrained()
        with_rules = np.unique(train.rules.home)
        self_pairs = has_self_rules(train.rules)
        sampler = self.sampler(train, scorer, self_pairs=self_pairs)

        def draw(parameters: Parameters) -> Examples:
            def score(homes: Homes, candidates: Rules) -> npt.NDArray[np.float32]:
                with torch.no_grad():
                    logits = scorer.logits_of(parameters, scorer.query(homes, candidates))
                return logits.numpy()

            if self.non_rules == "half-hard" and 0 < self.homes_per_draw < len(with_rules):
                # Scoring what may be hard takes longer than all else, so that other homes are left out before.
                some = np.sort(rng.choice(with_rules, self.homes_per_draw, replace=False))
                return self.sampler(train.subset(some), scorer, self_pairs=self_pairs).draw(rng, score=score)
            examples = sampler.draw(rng, score=score)
            with_candidates = np.unique(examples.candidates.home)
            if not 0 < self.homes_per_draw < len(with_candidates):
                return examples
            return examples.subset(np.sort(rng.choice(with_candidates, self.homes_per_draw, replace=False)))

        rounds = self._rounds(train)

        def after_round(done: int, parameters: Parameters, values: dict[str, float]) -> None:
            on_round(done, rounds, prepared.model(parameters), values)

        # A patience of all rounds never stops training, however many these become.
        patience = rounds if self.patience >= self.rounds else self.patience
        schedule = Schedule(
            rounds, self.learning_rate, self.weight_decay, self.batch_size, self.draws, patience, self.decay
        )
        parameters = optimize(
            scorer,
            self.objective_function,
            schedule,
            draw,
            name=self.NAME,
            rng=rng,
            validation=prepared.validation,
            on_round=None if on_round is ignore else after_round,
            initial=prepared.initial,
        )
        return prepared.model(parameters)

    def sampler(self, train: Homes, scorer: Scorer, *, self_pairs: bool) -> ExampleSampler:
        """What draws the examples of each round, from all training homes or some."""
        options = self.sampling_options
        return ExampleSampler.of(train, scorer.valid, hidden=self.hidden_rules, self_pairs=self_pairs, **options)

    def _rounds(self, train: Homes) -> int:
        """At least `rounds`: a model needs some number of steps, however few homes there are."""
        homes = len(np.unique(train.rules.home))
        homes = min(homes, self.homes_per_draw) if self.homes_per_draw else homes
        steps = math.ceil(homes / self.batch_size) if self.batch_size else 1  # of a round
        rounds = max(self.rounds, math.ceil(self.least_steps / steps))
        if rounds > self.rounds:
            log.info("%s: %d rounds, to reach %d steps (least_steps)", self.NAME, rounds, self.least_steps)
        return rounds
