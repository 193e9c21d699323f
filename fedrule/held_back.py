"""Rules of the training homes that are kept back, to see whether training still gets better on what it is not told."""

from __future__ import annotations

import numpy as np

from datasets import negatives
from datasets.homes import Homes
from datasets.negatives import Feasible
from datasets.splits import split
from datasets.valid import ValidRules
from fedrule.practice import NonRules, Practice, how_many


def hold_back(
    train: Homes, share: float, *, non_rules: NonRules, per_rule: int, candidates: int, rng: np.random.Generator
) -> tuple[Homes, Practice | None]:
    """The homes to train on, and the rules kept back beside non-rules; None where homes are too small to keep any.

    Whole automations are kept back. Non-rules are those of training, drawn once, so that rounds can be compared; for
    hard ones they are the feasible ones, since what is hard changes with the model.
    """
    parts = split(train, "holdout", seed=int(rng.integers(2**31)), fraction=share)
    known, asked = parts.train, parts.test.rules
    if not len(asked):
        return train, None
    wanted = how_many(asked, train.n_homes, per_rule=per_rule, candidates=candidates)
    if non_rules == "paper":
        drawn = negatives.paper(known, asked, rng=rng, wanted=wanted)
    else:
        drawn = Feasible.of(known, ValidRules.of(known), taken=[train.rules]).draw(wanted, rng)
    return known, Practice.of(known, asked, drawn, train)
