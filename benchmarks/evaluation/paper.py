"""Protocol `paper`: the measures of the paper's tables (section 4.2, Evaluation Metrics).

- loss: binary cross-entropy over a home's hidden rules and sampled non-rules, then the mean over homes;
- auc: per home, then the mean over homes; auc_pooled: over the examples of all homes at once;
- auc_feasible: the same against non-rules of another kind, valid triples that the home's devices could carry out. The
  paper's non-rules are mostly triples that no home has, so that auc measures little more than "was this triple seen";
- mr: mean rank of the hidden relation among all relations of its device pair, mr_rt with the pair's known rules
  removed. Ranks count from 1; the authors' public code counts from 0, which is mr_paper = mr - 1.

A missing score is the lowest for auc and mr. For the loss its probability is the share of rules among the validation
examples without a score, for every method; without a calibration it is 1/2. `unanswered` counts the hidden rules
without a score, `unanswered_non_rules` and `unanswered_feasible` the non-rules. A home without any possible non-rule
has a loss but no auc (`homes_without_auc`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from baselines.calibration import Calibration
from baselines.method import Fitted
from baselines.scoring import ScoredExamples, Values, score_examples
from benchmarks.evaluation.metrics import Evaluation, auc, cross_entropy, mean, mean_by
from datasets.homes import Array, Mask
from datasets.splits import Split

NON_RULES, FEASIBLE = 1, 2  # kinds of examples; 0 are the hidden rules


def evaluate_paper(
    fitted: Fitted, split: Split, *, part: str, chunk: int, seed: int, calibration: Calibration | None
) -> Evaluation:
    """`calibration` is for the loss only: a negative slope must not reverse the ranks of the other metrics."""
    sampled = score_examples(fitted, split, part=part, seed=seed, chunk=chunk, kinds=("paper", "feasible"))
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


def _against(sampled: ScoredExamples, kind: int) -> tuple[Values, Mask, Array]:
    """Score, whether it is a rule, and home of the hidden rules and of one kind of non-rules."""
    chosen = sampled.positive | (sampled.kind == kind)
    return sampled.score[chosen], sampled.positive[chosen], sampled.rules.home[chosen]
