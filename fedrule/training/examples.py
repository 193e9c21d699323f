"""Training examples: rules of homes and sampled non-rules, given the rules that send messages.

In the paper (section 3.2) all rules of a home send messages and all of them are targets, beside as many sampled
non-rules. A model trained so may learn to repeat its input; `hidden` takes part of a home's automations out of message
passing, and only those are targets; so does `hide="one"` with exactly one automation of each home.

With `datasets.common.random.KeyedRandom` a client draws for itself what it would get among all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from datasets import negatives
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError, unknown
from datasets.common.random import RandomSource, random_source
from datasets.homes import Array, Homes, HomeSubset, Mask, Rules, runs, starts
from datasets.negatives import Feasible
from datasets.valid import ValidRules

NonRules = Literal["paper", "feasible", "hard", "half-hard"]
Hide = Literal["share", "one"]
# The current model: a score [n_candidates] of candidates of these homes, given the rules that the homes have.
Score: TypeAlias = Callable[[Homes, Rules], npt.NDArray[np.floating[Any]]]

SCORED_PER_KEPT = 10  # feasible candidates that "hard" scores for each that it keeps
HALF_SCORED_PER_KEPT = 4  # and "half-hard" for each that it keeps as hard: scores are most of the time of training
Weights: TypeAlias = npt.NDArray[np.float64]

COLUMNS = ("home", "trigger", "action", "relation")
HIDING, NON_RULES, TIES, EASY = range(4)  # purposes of random streams


class SamplingOptions(TypedDict):
    """Which non-rules are drawn, and how many; see `ExampleSampler.of`."""

    non_rules: NonRules
    per_rule: int
    candidates: int


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Candidates to score, given the rules that the homes are known to have, and which of them are rules."""

    context: Homes  # the homes with the rules that send messages
    candidates: Rules  # targets and non-rules, sorted by home; none comes twice
    positive: Mask  # [n_candidates]  which of them are rules
    full: Homes  # the same homes with all their training rules, for `leave_out`
    stands_for: Weights  # [n_homes]  how many non-rules each drawn one stands for, at least 1

    @classmethod
    def of(
        cls, context: Homes, targets: Rules, non_rules: Rules, full: Homes, *, available: Array | None = None
    ) -> Examples:
        """Target rules and non-rules joined, home by home, the rules of a home first.

        `available` [n_homes] is how many non-rules there are, where those given are a uniform sample of them.
        """
        columns = [np.concatenate([getattr(targets, name), getattr(non_rules, name)]) for name in COLUMNS]
        order = np.argsort(columns[0], kind="stable")
        stands_for = np.ones(full.n_homes)
        if available is not None:
            drawn = np.bincount(non_rules.home, minlength=full.n_homes)
            stands_for = available / np.maximum(drawn, 1)
        return cls(context, Rules(*columns).take(order), order < len(targets), full, np.maximum(stands_for, 1.0))

    def subset(self, homes: Array) -> Examples:
        """The same for these homes only, numbered anew in this order: a minibatch."""
        full = HomeSubset.of(self.full, homes)
        context = full.homes if self.context is self.full else self.context.subset(homes)
        start = starts(self.candidates.home, self.full.n_homes)
        some = runs(start, homes)
        home = np.repeat(np.arange(len(homes)), start[homes + 1] - start[homes])
        candidates = self.candidates.take(some).moved(home, full.shift)
        return Examples(context, candidates, self.positive[some], full.homes, self.stands_for[homes])


@dataclass(frozen=True, slots=True, eq=False)
class ExampleSampler:
    """Draws examples from training homes; what depends on the homes alone is prepared once."""

    train: Homes
    hidden: float
    non_rules: NonRules
    per_rule: int
    candidates: int
    self_pairs: bool  # whether a non-rule may let a device act on itself
    automation: Array  # [n_rules]  rules of one automation share a number, from 0 on in the order of homes
    automation_home: Array  # [n_automations]  sorted
    feasible: Feasible | None  # for all kinds but the paper's
    hide: Hide

    @classmethod
    def of(
        cls,
        train: Homes,
        valid: ValidRules,
        *,
        hidden: float = 0.0,  # chance that an automation is only a target; 0: all rules are targets and send messages
        non_rules: NonRules = "paper",  # as in datasets.negatives; "hard", "half-hard": feasible ones of high score
        per_rule: int = 1,  # non-rules for each target
        candidates: int = 0,  # non-rules for each home with a target, instead of `per_rule`; 0: count by rule
        self_pairs: bool | None = None,  # whether a device may act on itself in its population; None: as in `train`
        hide: Hide = "share",  # each automation with the chance `hidden`, or exactly one of each home
    ) -> ExampleSampler:
        """For these training homes; `valid` are the triples that feasible non-rules may have."""
        if not 0 <= hidden < 1:
            raise DataError(f"examples: hidden must be in [0, 1), got {hidden}")
        if per_rule < 0 or candidates < 0:
            raise DataError(f"examples: non-rules must not be negative, got {per_rule} per rule, {candidates} per home")
        if non_rules not in get_args(NonRules):
            raise unknown("kind of non-rules", non_rules, get_args(NonRules))
        if hide not in get_args(Hide):
            raise unknown("way to hide automations", hide, get_args(Hide))
        if hide == "one" and hidden:
            raise DataError(f"examples: one automation of each home is hidden, so hidden must be 0, got {hidden}")
        selves = has_self_rules(train.rules) if self_pairs is None else self_pairs
        feasible = None
        if non_rules != "paper":
            feasible = Feasible.of(train, valid, taken=[train.rules], self_pairs=selves)
        return cls(train, hidden, non_rules, per_rule, candidates, selves, *_automations(train.rules), feasible, hide)

    def draw(self, rng: np.random.Generator | RandomSource, *, score: Score | None = None) -> Examples:
        """Hide rules and draw non-rules, for all homes at once; only "hard" and "half-hard" need `score`.

        No non-rule is a rule of `train`; a home with too few left gets those. Homes without a target have no
        candidates. The same `KeyedRandom` draws the same again; for several draws of a round pass streams of it.
        """
        source = random_source(rng)
        context, targets = self.train, self.train.rules
        if self.hide == "one":
            hides = self._one_of_each_home(source.stream(HIDING))
            context, targets = self.train.with_rules(~hides), targets.take(hides)
        elif self.hidden:
            # One number for each automation and, as results that are kept were drawn with one for each rule, unused
            # ones behind them; these belong to the last home, whose own come before.
            unused = np.full(len(targets) - len(self.automation_home), self.train.n_homes - 1)
            home = np.concatenate([self.automation_home, unused])
            hides = (source.stream(HIDING).random(home) < self.hidden)[self.automation]
            context, targets = self.train.with_rules(~hides), targets.take(hides)
        wanted = n_non_rules(targets, self.train.n_homes, per_rule=self.per_rule, candidates=self.candidates)
        others = source.stream(NON_RULES)
        if self.feasible is None:
            drawn = negatives.paper(self.train, targets, rng=others, wanted=wanted, self_pairs=self.self_pairs)
        elif self.non_rules == "hard":
            scored = self.feasible.draw(SCORED_PER_KEPT * wanted, others)
            drawn = _hardest(context, scored, wanted, score, source.stream(TIES))
        elif self.non_rules == "half-hard":
            hard = wanted // 2
            scored = self.feasible.draw(HALF_SCORED_PER_KEPT * hard + wanted - hard, others)
            drawn = _half_hardest(context, scored, wanted, score, source)
        else:
            drawn = self.feasible.draw(wanted, others)
            return Examples.of(context, targets, drawn, self.train, available=self.feasible.available)
        return Examples.of(context, targets, drawn, self.train)

    def _one_of_each_home(self, source: RandomSource) -> Mask:
        """[n_rules]: those of one automation of each home that has any, each equally likely."""
        home, first, count = np.unique(self.automation_home, return_index=True, return_counts=True)
        chosen = np.zeros(len(self.automation_home), dtype=np.bool_)
        chosen[first + source.below(home, count)] = True
        return chosen[self.automation]


def n_non_rules(targets: Rules, n_homes: int, *, per_rule: int, candidates: int) -> Array:
    """[n_homes]: non-rules to draw: `candidates` for each home with a target, or, if 0, `per_rule` for each target."""
    rules = np.bincount(targets.home, minlength=n_homes)
    return np.minimum(rules, 1) * candidates if candidates else rules * per_rule


def _automations(rules: Rules) -> tuple[Array, Array]:
    """The automation of each rule, numbered from 0 on by home and group, and the home of each automation."""
    if rules.group is None:
        return np.arange(len(rules)), rules.home
    # A group's number counts within its home only.
    automations, of_rule = np.unique(np.stack([rules.home, rules.group]), axis=1, return_inverse=True)
    return of_rule.reshape(-1), automations[0]


def _hardest(context: Homes, candidates: Rules, wanted: Array, score: Score | None, source: RandomSource) -> Rules:
    """Per home h the `wanted[h]` candidates of the highest score, or all; ties in random order."""
    return candidates.take(_are_hardest(context, candidates, wanted, score, source))


def _half_hardest(context: Homes, candidates: Rules, wanted: Array, score: Score | None, source: RandomSource) -> Rules:
    """Half of `wanted[h]`, rounded down, are the hardest candidates of home h, and as many as are left any others."""
    chosen = _are_hardest(context, candidates, wanted // 2, score, source.stream(TIES))
    # In random order, the hardest first: then come as many of the others.
    order = np.lexsort((source.stream(EASY).random(candidates.home), ~chosen, candidates.home))
    return candidates.take(_first(order, candidates.home, wanted))


def _are_hardest(context: Homes, candidates: Rules, wanted: Array, score: Score | None, source: RandomSource) -> Mask:
    """[n_candidates]: whether it is one of the `wanted[h]` of its home that have the highest score."""
    if score is None:
        raise DataError("examples: hard non-rules need the score of the current model; pass score=")
    order = np.lexsort((source.random(candidates.home), -score(context, candidates), candidates.home))
    return _first(order, candidates.home, wanted)


def _first(order: Array, home: Array, wanted: Array) -> Mask:
    """[n_candidates]: whether it is one of the first `wanted[h]` of its home in an order by homes."""
    rank = np.arange(len(home)) - starts(home, len(wanted))[home]
    chosen = np.zeros(len(home), dtype=np.bool_)
    chosen[order[rank < wanted[home]]] = True
    return chosen
