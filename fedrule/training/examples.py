"""What one step of training is asked about: rules of homes and non-rules beside them, given the rules that are known.

The paper (section 3.2) lets all rules of a home send messages and asks for all of them, beside as many sampled
non-rules. A model trained so may learn to repeat what it is told; `hidden` takes part of a home's automations out of
message passing and asks for those only.

With `datasets.common.random.KeyedRandom` a client draws for itself what it would get among all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datasets import negatives
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError, unknown
from datasets.common.random import RandomSource, random_source
from datasets.homes import Array, Homes, Mask, Rules, runs, starts
from datasets.negatives import Feasible
from datasets.valid import ValidRules

NonRules = Literal["paper", "feasible", "hard"]
# The model as it stands: a score [n_candidates] of candidates of these homes, given the rules that the homes have.
Score: TypeAlias = Callable[[Homes, Rules], npt.NDArray[np.floating[Any]]]

LOOKED_AT = 10  # feasible candidates that "hard" scores for each that it keeps
COLUMNS = ("home", "trigger", "action", "relation")
HIDING, NON_RULES, TIES = range(3)  # purposes of source


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Candidates to score, given what the homes are known to have, and which of them are rules."""

    context: Homes  # the homes with the rules that send messages
    candidates: Rules  # rules asked for and non-rules, sorted by home; none comes twice
    positive: Mask  # [n_candidates]  which of them are rules
    full: Homes  # the same homes with all their training rules, for `leave_out`

    @classmethod
    def of(cls, context: Homes, asked: Rules, non_rules: Rules, full: Homes) -> Examples:
        """Rules that are asked for and non-rules put together, home by home, the rules of a home first."""
        columns = [np.concatenate([getattr(asked, name), getattr(non_rules, name)]) for name in COLUMNS]
        order = np.argsort(columns[0], kind="stable")
        return cls(context, Rules(*columns).take(order), order < len(asked), full)

    def subset(self, homes: Array) -> Examples:
        """The same for these homes only, numbered anew in this order: a minibatch."""
        full = self.full.subset(homes)
        context = full if self.context is self.full else self.context.subset(homes)
        start = starts(self.candidates.home, self.full.n_homes)
        some = runs(start, homes)
        home = np.repeat(np.arange(len(homes)), start[homes + 1] - start[homes])
        moved = (full.device_start[:-1] - self.full.device_start[homes])[home]
        taken = self.candidates.take(some)
        candidates = Rules(home, taken.trigger + moved, taken.action + moved, taken.relation)
        return Examples(context, candidates, self.positive[some], full)


@dataclass(frozen=True, slots=True, eq=False)
class ExampleSampler:
    """Draws a examples each time it is asked to; what depends on the training homes alone is prepared once."""

    train: Homes
    hidden: float
    non_rules: NonRules
    per_rule: int
    candidates: int
    self_pairs: bool  # whether a non-rule may let a device act on itself
    automation: Array  # [n_rules]  rules of one automation share a number, from 0 on in the order of homes
    automation_home: Array  # [n_automations]  sorted
    feasible: Feasible | None  # for all kinds but the paper's

    @classmethod
    def of(
        cls,
        train: Homes,
        valid: ValidRules,
        *,
        hidden: float = 0.0,  # probability that an automation is a target and sends no messages; 0: all are, and all send
        non_rules: NonRules = "paper",  # as in datasets.negatives; "hard": of feasible ones those that score highest
        per_rule: int = 1,  # non-rules beside each rule that is asked for
        candidates: int = 0,  # non-rules of each home that is asked, in place of `per_rule`; 0: count by rule
        self_pairs: bool | None = None,  # whether a device may act on itself in its population; None: as `train` shows
    ) -> ExampleSampler:
        """Of these training homes, and the triples that are valid."""
        if not 0 <= hidden < 1:
            raise DataError(f"examples: hidden {hidden} must be in [0, 1)")
        if per_rule < 0 or candidates < 0:
            raise DataError(f"examples: {per_rule} non-rules per rule and {candidates} per home must not be negative")
        if non_rules not in get_args(NonRules):
            raise unknown("kind of non-rules", non_rules, get_args(NonRules))
        selves = has_self_rules(train.rules) if self_pairs is None else self_pairs
        feasible = None
        if non_rules != "paper":
            feasible = Feasible.of(train, valid, taken=[train.rules], self_pairs=selves)
        return cls(train, hidden, non_rules, per_rule, candidates, selves, *_automations(train.rules), feasible)

    def draw(self, rng: np.random.Generator | RandomSource, *, score: Score | None = None) -> Examples:
        """Hide, ask and draw non-rules, for all homes at once; `score` is needed by "hard", and only by it.

        No non-rule is a rule of `train`; a home with too few left gets those. Homes of which nothing is asked have no
        candidates. The same `KeyedRandom` draws the same again; for several draws of a round pass streams of it.
        """
        source = random_source(rng)
        context, asked = self.train, self.train.rules
        if self.hidden:
            # One number for each automation and, as results that are kept were drawn with one for each rule, unused
            # ones behind them; these belong to the last home, whose own come before.
            unused = np.full(len(asked) - len(self.automation_home), self.train.n_homes - 1)
            home = np.concatenate([self.automation_home, unused])
            hides = (source.stream(HIDING).random(home) < self.hidden)[self.automation]
            context, asked = self.train.with_rules(~hides), asked.take(hides)
        wanted = how_many(asked, self.train.n_homes, per_rule=self.per_rule, candidates=self.candidates)
        others = source.stream(NON_RULES)
        if self.feasible is None:
            drawn = negatives.paper(self.train, asked, rng=others, wanted=wanted, self_pairs=self.self_pairs)
        elif self.non_rules == "hard":
            looked_at = self.feasible.draw(LOOKED_AT * wanted, others)
            drawn = _hardest(context, looked_at, wanted, score, source.stream(TIES))
        else:
            drawn = self.feasible.draw(wanted, others)
        return Examples.of(context, asked, drawn, self.train)


def how_many(asked: Rules, n_homes: int, *, per_rule: int, candidates: int) -> Array:
    """[n_homes]: non-rules beside the rules asked for: `candidates` of a home that is asked, or, with 0, by rule."""
    rules = np.bincount(asked.home, minlength=n_homes)
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
    if score is None:
        raise DataError('examples: non-rules "hard" need the score of the model as it stands; hand in score=')
    order = np.lexsort((source.random(candidates.home), -score(context, candidates), candidates.home))
    place = np.arange(len(candidates)) - starts(candidates.home, len(wanted))[candidates.home]
    return candidates.take(np.sort(order[place < wanted[candidates.home]]))
