"""Rules of the training homes that are kept back, to see whether training still gets better on what it is not told."""

from __future__ import annotations

import numpy as np

from datasets import negatives
from datasets.common.errors import DataError
from datasets.homes import Homes
from datasets.negatives import Feasible
from datasets.splits import Hidden, split
from datasets.valid import ValidRules
from fedrule.training.examples import NonRules, Practice, how_many


def hold_back(
    train: Homes, share: float, *, non_rules: NonRules, per_rule: int, candidates: int, rng: np.random.Generator
) -> tuple[Homes, Practice | None]:
    """The homes to train on, and the rules kept back beside non-rules; None where homes are too small to keep any.

    Whole automations are kept back.
    """
    parts = split(train, "holdout", seed=int(rng.integers(2**31)), fraction=share)
    if not len(parts.test):
        return train, None
    asks = {"per_rule": per_rule, "candidates": candidates}
    return parts.train, watched(parts.train, parts.test, non_rules=non_rules, **asks, rng=rng)


def watched(
    train: Homes, kept: Hidden, *, non_rules: NonRules, per_rule: int, candidates: int, rng: np.random.Generator
) -> Practice | None:
    """Rules that are kept back of homes whose other rules are `train`, beside non-rules; None where none are.

    Non-rules are those of training, drawn once, so that rounds can be compared; for hard ones they are the feasible
    ones, since what is hard changes with the model.
    """
    if not len(kept):
        return None
    if kept.homes is not train and kept.homes.fingerprint != train.fingerprint:
        raise DataError(f"{train.name}: the rules to watch are not kept back of these homes; split them once for both")
    wanted = how_many(kept.rules, train.n_homes, per_rule=per_rule, candidates=candidates)
    if non_rules == "paper":
        drawn = negatives.paper(train, kept.rules, rng=rng, wanted=wanted)
    else:
        drawn = Feasible.of(train, ValidRules.of(train), taken=[train.rules, kept.rules]).draw(wanted, rng)
    return Practice.of(train, kept.rules, drawn, train)
