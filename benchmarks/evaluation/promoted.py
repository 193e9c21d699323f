"""How high a rule that attackers promote stands in the lists of other homes: `fedrule.federated.robustness.attacks`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from baselines.method import Fitted
from baselines.scoring import CHUNK
from benchmarks.evaluation.ranking import rank_hidden
from datasets.candidates import has_self_rules
from datasets.homes import Homes
from datasets.splits import Hidden
from datasets.valid import ValidRules

if TYPE_CHECKING:
    from fedrule.federated.robustness.attacks import Attackers


def promoted_rank(fitted: Fitted, train: Homes, attackers: Attackers) -> float:
    """The mean rank, from 1, of the promoted rule in the lists of `Attackers.measured_homes`.

    A list has all valid rules that the home does not have, as in protocol `ranking`. Where the rule fits several pairs
    of devices the best one counts; half of those with the same score are above it. Without a score it is at the end.
    NaN where there is no such home, or no promoted rule.
    """
    from fedrule.federated.robustness.attacks import instances

    some = train.subset(attackers.measured_homes(train))
    if attackers.promoted is None or not some.n_homes:
        return math.nan
    rules = instances(some, attackers.promoted, np.ones(some.n_homes, dtype=np.bool_))
    self_pairs = has_self_rules(train.rules)
    ranks = rank_hidden(fitted, Hidden(some, rules), valid=ValidRules.of(train), self_pairs=self_pairs, chunk=CHUNK)
    places, last = ranks.places[""], ranks.lengths[""][rules.home]
    rank = np.where(places.tied > 0, places.above + (places.tied + 1) / 2, last)  # tied with itself, if it has a score
    best = np.full(some.n_homes, np.inf)
    np.minimum.at(best, rules.home, rank)
    return float(best.mean())
