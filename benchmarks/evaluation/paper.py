"""Protocol `paper`: the measures of the paper's tables (section 4.2, Evaluation Metrics).

- loss: binary cross-entropy over a home's hidden rules and sampled non-rules, then the mean over homes;
- auc: per home, then the mean over homes; auc_pooled: over the examples of all homes at once;
- auc_feasible: the same against non-rules of another kind, valid triples that the home's devices could carry out. The
  paper's non-rules are mostly triples that nobody has, so that auc measures little more than "was this triple seen";
- mr: mean rank of the hidden relation among all relations of its device pair, mr_rt with the pair's known rules
  removed. Ranks count from 1; the authors' public code counts from 0, which is mr_paper = mr - 1.

A score that a model cannot give is the lowest for auc and mr. For the loss it is the share of rules among what had no
score in the validation data, for every method alike; without a calibration it is probability 1/2. `unanswered` counts
the hidden rules and `unanswered_non_rules`, `unanswered_feasible` the others. A home without any possible non-rule has
a loss but no auc (`homes_without_auc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from baselines.method import Fitted, Scores
from benchmarks.evaluation.metrics import Values, auc, cross_entropy, mean, mean_by
from benchmarks.evaluation.scoring import CHUNK, Evaluation, Trained, asked_part, narrow, pairs_at_once, score
from datasets import negatives
from datasets.candidates import Pairs
from datasets.common.random import Stream, generator
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

# --- Rules asked for beside as many sampled non-rules: the scores of both, and the rank of each rule on its device pair.
#
# Non-rules are drawn by `datasets.negatives`, never a rule of train, validation or test. The draw depends on the split,
# the part and the seed only: all methods, and all rounds of one, are asked about the same ones.

STREAMS = {
    ("test", "paper"): Stream.TEST_NON_RULES,
    ("validation", "paper"): Stream.VALIDATION_NON_RULES,
    ("train", "paper"): Stream.TRAIN_NON_RULES,
    ("test", "feasible"): Stream.TEST_FEASIBLE,
    ("validation", "feasible"): Stream.VALIDATION_FEASIBLE,
    ("train", "feasible"): Stream.TRAIN_FEASIBLE,
}
COLUMNS = ("home", "trigger", "action", "relation")


@dataclass(frozen=True, slots=True)
class Sampled:
    """Rules asked for and non-rules with their scores, in the order of their device pairs."""

    homes: Homes  # those that are asked about
    rules: Rules  # [n_examples]
    kind: Array  # [n_examples]  0 for a rule asked for, 1 for a non-rule of the first kind that was drawn, and so on
    score: Values  # [n_examples]
    rank: Values  # [n_asked]  among all relations of the rule's device pair; NaN scores lie below all others
    rank_rt: Values  # [n_asked]  with the known rules of the pair removed; NaN where the rule itself is known

    @property
    def positive(self) -> Mask:
        """[n_examples]: whether it is a rule asked for."""
        return np.equal(self.kind, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What every model is asked about a part of a split; drawn once, it can be put to many models."""

    homes: Homes  # those that are asked about
    pairs: Pairs  # of `homes`
    rules: Rules  # [n_examples]  in the order of their device pairs
    kind: Array  # [n_examples]  as in `Sampled`
    known: Rules  # of the pairs that are asked about, in the order of their device pairs
    trained: bool  # the rules asked for are among the known ones

    @classmethod
    def of(
        cls, split: Split, *, part: str, seed: int, kinds: Sequence[str] = ("paper",), of_homes: Array | None = None
    ) -> Examples:
        """A part's rules and as many non-rules of each kind, of the same homes; of some of these homes, if given.

        Non-rules are drawn for all homes of the part: those of a home do not depend on which others are asked about.
        """
        asked = asked_part(split, part)
        drawn = [_non_rules(asked, split, part=part, seed=seed, kind=kind) for kind in kinds]
        if of_homes is not None:
            asked = replace(asked, rules=asked.rules.take(np.isin(asked.rules.home, of_homes)))
            drawn = [rules.take(np.isin(rules.home, of_homes)) for rules in drawn]
        homes, examples = narrow(asked, *drawn)
        pairs = Pairs.of(homes, self_pairs=True)
        together = ([getattr(some, column) for some in examples] for column in COLUMNS)
        rules = Rules(*(np.concatenate(columns) for columns in together))
        pair = pairs.number(rules)
        order = np.argsort(pair, kind="stable")
        known_pair = pairs.number(homes.rules)
        known = np.argsort(known_pair)[np.isin(np.sort(known_pair), pair)]
        kind = np.repeat(np.arange(len(examples)), [len(some) for some in examples])
        return cls(
            homes, pairs, rules.take(order), kind[order], homes.rules.take(known), trained=isinstance(asked, Trained)
        )

    def score(self, fitted: Fitted, *, chunk: int) -> Sampled:
        """The answers of a model, a chunk of pairs at a time."""
        positive = self.kind == 0
        pair, known_pair = self.pairs.number(self.rules), self.pairs.number(self.known)
        asked = np.unique(pair)
        scores = np.empty(len(self.rules))
        ranks = np.full((2, len(self.rules)), np.nan)
        limit = pairs_at_once(self.homes, chunk)
        for begin in range(0, len(asked), limit):
            some = asked[begin : begin + limit]
            _, trigger, action = self.pairs.devices(some)
            block = score(fitted, self.homes, trigger, action)
            here = slice(*np.searchsorted(pair, [some[0], some[-1] + 1]))
            row, relation, mine = np.searchsorted(some, pair[here]), self.rules.relation[here], positive[here]
            scores[here] = block[row, relation]
            block[np.isnan(block)] = -np.inf
            ranks[0, here][mine] = _rank_in_row(block, row[mine], relation[mine])
            if self.trained:  # without the pair's known rules the rule itself would not be in the list
                continue
            taken = slice(*np.searchsorted(known_pair, [some[0], some[-1] + 1]))
            removed = np.searchsorted(some, known_pair[taken]), self.known.relation[taken]
            block[removed] = np.nan  # neither above nor level
            ranks[1, here][mine] = _rank_in_row(block, row[mine], relation[mine])
        return Sampled(self.homes, self.rules, self.kind, scores, ranks[0, positive], ranks[1, positive])


def sampled_rules(
    fitted: Fitted, split: Split, *, part: str, seed: int, chunk: int, kinds: Sequence[str] = ("paper",)
) -> Sampled:
    """Score a part's rules and as many non-rules of each kind, of the same homes."""
    return Examples.of(split, part=part, seed=seed, kinds=kinds).score(fitted, chunk=chunk)


def _non_rules(asked: Hidden | Trained, split: Split, *, part: str, seed: int, kind: str) -> Rules:
    rng = generator(STREAMS[part, kind], seed, split.seed)
    valid = ValidRules.of(split.train) if kind == "feasible" else None
    return negatives.sample(kind, asked.homes, asked.rules, rng=rng, forbidden=split.forbidden, valid=valid)


def _rank_in_row(block: Scores, row: Array, relation: Array) -> Values:
    """The rank of each cell in its row, the highest first; ties take their average, NaN is not in the list."""
    own, cells = block[row, relation][:, None], block[row]
    return np.asarray((np.count_nonzero(cells > own, axis=1) + np.count_nonzero(cells >= own, axis=1) + 1) / 2)


# --- Probabilities for methods whose scores are not log-odds: Platt scaling, p = 1 / (1 + exp(-(slope s + offset))).
#
# Platt 1999 with the softened targets that keep slope and offset finite where rules and non-rules separate; found by
# Newton's method with step halving (Lin, Lin and Weng 2007). Fitted on validation data, which the test never sees. Where
# scores are log-odds already, slope 1 and offset 0 are given and only the probability of what has no score is learnt.

STEPS = 100
SMALLEST = 1e-10  # step length below which nothing changes any more


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns scores into log-odds; as it is by default, it leaves them alone."""

    slope: float = 1.0
    offset: float = 0.0
    unanswered: float = 0.0  # log-odds of a rule without a score; 0 is probability 1/2

    @property
    def rescales(self) -> bool:
        """Whether it changes the scores that are there."""
        return (self.slope, self.offset) != (1.0, 0.0)

    @classmethod
    def of(cls, score: Values, positive: Mask, *, log_odds: bool = False) -> Calibration:
        """The best slope and offset for these scores; slope 0 where all scores are equal, or there are none.

        Scores that are log-odds stay as they are.

        What has no score (NaN) gets one probability for all: the share of rules among it, one of each kind added.
        """
        silent = np.isnan(score)
        unanswered = float(
            np.log1p(np.count_nonzero(positive & silent)) - np.log1p(np.count_nonzero(~positive & silent))
        )
        if log_odds:
            return cls(unanswered=unanswered)
        score, positive = score[~silent], positive[~silent]
        if not len(score):
            return cls(0.0, 0.0, unanswered)
        many, few = np.count_nonzero(positive), np.count_nonzero(~positive)
        target = np.where(positive, (many + 1) / (many + 2), 1 / (few + 2))
        center, spread = float(np.mean(score)), float(np.std(score)) or 1.0
        features = np.stack([(score - center) / spread, np.ones(len(score))])  # standardized, for Newton's sake
        weights = _newton(features, target)
        slope = float(weights[0]) / spread
        return cls(slope, float(weights[1]) - slope * center, unanswered)

    def apply(self, score: Values) -> Values:
        """Log-odds of every score, and of the lack of one."""
        return np.where(np.isnan(score), self.unanswered, self.slope * score + self.offset)


def calibrate(
    fitted: Fitted, split: Split, *, seed: int = 0, chunk: int = CHUNK, log_odds: bool = False
) -> Calibration:
    """From the validation part's hidden rules and as many non-rules.

    `fitted` has to come from `split.train`: a model that was refitted with the validation rules would be asked about
    what it was told. Carry the calibration of the first fit over to the refitted model instead.
    """
    examples = sampled_rules(fitted, split, part="validation", seed=seed, chunk=chunk)
    return Calibration.of(examples.score, examples.positive, log_odds=log_odds)


def _newton(features: Values, target: Values) -> Values:
    """The weights [2] that minimize the cross-entropy against targets between 0 and 1."""

    def loss(weights: Values) -> float:
        logit = weights @ features
        return float(np.sum(np.logaddexp(0.0, logit) - target * logit))

    weights = np.zeros(2)
    now = loss(weights)
    for _ in range(STEPS):
        probability = 1 / (1 + np.exp(-(weights @ features)))
        gradient = features @ (probability - target)
        curvature = (features * (probability * (1 - probability))) @ features.T + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while loss(weights - step) > now and np.abs(step).max() > SMALLEST:
            step = step / 2
        weights, now = weights - step, loss(weights - step)
        if np.abs(step).max() <= SMALLEST:
            break
    return weights


NON_RULES, FEASIBLE = 1, 2  # kinds of examples; 0 are the hidden rules


def evaluate_paper(
    fitted: Fitted, split: Split, *, part: str, chunk: int, seed: int, calibration: Calibration | None
) -> Evaluation:
    """`calibration` serves the loss only: a slope of the wrong sign must not turn the other numbers round."""
    sampled = sampled_rules(fitted, split, part=part, seed=seed, chunk=chunk, kinds=("paper", "feasible"))
    homes, rules = sampled.homes, sampled.rules.take(sampled.positive)
    score, positive, home = _against(sampled, NON_RULES)
    log_odds = (calibration or Calibration()).apply(score)
    loss = mean_by(cross_entropy(log_odds, positive), home, homes.n_homes)
    area = auc(score, positive, home, homes.n_homes)
    pooled = auc(score, positive, np.zeros_like(home), 1)
    area_feasible = auc(*_against(sampled, FEASIBLE), homes.n_homes)
    unanswered = np.isnan(score)
    summary = {
        "loss": mean(loss),
        "auc": mean(area),
        "auc_pooled": float(pooled[0]),
        "auc_feasible": mean(area_feasible),
        "mr": mean(sampled.rank),
        "mr_rt": mean(sampled.rank_rt),
        "mr_paper": mean(sampled.rank) - 1,
        "hidden": float(len(rules)),
        "non_rules": float(np.count_nonzero(~positive)),
        "feasible": float(np.count_nonzero(sampled.kind == FEASIBLE)),
        "homes": float(homes.n_homes),
        "homes_without_auc": float(np.count_nonzero(np.isnan(area))),
        "unanswered": float(np.count_nonzero(unanswered & positive)),
        "unanswered_non_rules": float(np.count_nonzero(unanswered & ~positive)),
        "unanswered_feasible": float(np.count_nonzero(np.isnan(sampled.score) & (sampled.kind == FEASIBLE))),
        "calibrated": float(calibration is not None and calibration.rescales),
    }
    home_table = pd.DataFrame(
        {
            "user": homes.users,
            "devices": np.diff(homes.device_start),
            "n_hidden": np.bincount(rules.home),
            "non_rules": np.bincount(home[~positive], minlength=homes.n_homes),
            "unanswered": np.bincount(home[unanswered & positive], minlength=homes.n_homes),
            "loss": loss,
            "auc": area,
            "auc_feasible": area_feasible,
            "mr": mean_by(sampled.rank, rules.home, homes.n_homes),
            "mr_rt": mean_by(sampled.rank_rt, rules.home, homes.n_homes),
        }
    )
    rule_table = pd.DataFrame(
        {
            "user": homes.users[rules.home],
            "trigger": homes.device_ids[rules.trigger],
            "action": homes.device_ids[rules.action],
            "relation": rules.relation,
            "score": sampled.score[sampled.positive],
            "rank": sampled.rank,
            "rank_rt": sampled.rank_rt,
        }
    )
    return Evaluation("paper", summary, rule_table, home_table)


def _against(sampled: Sampled, kind: int) -> tuple[Values, Mask, Array]:
    """Score, whether it is a rule, and home of the hidden rules and of one kind of non-rules."""
    chosen = sampled.positive | (sampled.kind == kind)
    return sampled.score[chosen], sampled.positive[chosen], sampled.rules.home[chosen]
