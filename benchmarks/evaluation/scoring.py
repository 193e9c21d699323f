"""How the harness asks a fitted model: about the homes that matter, a bounded number of pairs at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from baselines.method import Fitted, Scores
from datasets.candidates import has_self_rules
from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Homes, Rules
from datasets.splits import Hidden, Split

CHUNK = 1 << 20  # candidates at a time: 4 MB of scores, which caches hold; only a home larger than that asks for more
PARTS = ("test", "validation")


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The rules that training was told, asked for again: they are known, and send messages, while asked for."""

    homes: Homes
    rules: Rules  # those of `homes`, sorted by home

    def __len__(self) -> int:
        return len(self.rules)


def asked_part(split: Split, part: str) -> Hidden | Trained:
    """What a part asks for: the hidden rules of `test` or `validation`, or with `train` the training rules."""
    if part != "train":
        return hidden_part(split, part)
    if not split.train.n_rules:
        raise DataError(f"{split.train.name}: {split.name} leaves no rule to train on; give homes with more rules")
    return Trained(split.train, split.train.rules)


def hidden_part(split: Split, part: str) -> Hidden:
    """The hidden rules of a part; an error where there are none."""
    if part not in PARTS:
        raise unknown("part of a split", part, PARTS)
    hidden = split.test if part == "test" else split.validation
    if not len(hidden):
        carved = part == "test" or bool(split.parameters["validation"])
        remedy = "give homes with more rules" if carved else "split with validation=True"
        raise DataError(f"{hidden.homes.name}: {split.name} hides no rule in its {part} part; {remedy}")
    return hidden


def narrow(asked: Hidden | Trained, *more: Rules) -> tuple[Homes, tuple[Rules, ...]]:
    """Only the homes that are asked about, so that no other is ever scored; the rules asked for, and more of theirs."""
    which = np.flatnonzero(np.bincount(asked.rules.home))
    homes = asked.homes.subset(which)
    shift = homes.device_start[:-1] - asked.homes.device_start[which]

    def moved(rules: Rules) -> Rules:
        home = np.searchsorted(which, rules.home)
        return Rules(home, rules.trigger + shift[home], rules.action + shift[home], rules.relation, rules.group)

    return homes, tuple(moved(rules) for rules in (asked.rules, *more))


def allows_self_pairs(split: Split) -> bool:
    """Whether any rule of the split, seen or hidden, lets a device act on itself: then any device may."""
    return has_self_rules(split.train_and_validation.rules, split.test.homes.rules, split.test.rules)


def pairs_at_once(homes: Homes, chunk: int) -> int:
    """How many device pairs make a chunk of candidates; one at least."""
    if chunk < 1:
        raise DataError(f"a chunk of {chunk} candidates; give at least 1")
    return max(chunk // max(len(homes.relations), 1), 1)


def score(fitted: Fitted, homes: Homes, trigger: Array, action: Array) -> Scores:
    """[n_pairs, n_relations] for pairs in the order of homes, as an array of our own.

    The model is shown the homes from the first pair's to the last pair's and no others: what it works out for all
    homes that it is shown stays as small as the chunk.
    """
    first, last = homes.device_home[trigger[[0, -1]]]
    shown = homes.subset(np.arange(first, last + 1))
    shift = np.searchsorted(homes.device_home, first)
    scores = np.asarray(fitted.score_pairs(shown, trigger - shift, action - shift))
    if scores.shape != (len(trigger), len(homes.relations)):
        wanted = f"[{len(trigger)} pairs, {len(homes.relations)} relations]"
        raise DataError(f"{type(fitted).__name__}.score_pairs gave scores of shape {scores.shape} instead of {wanted}")
    with np.errstate(over="ignore"):  # too large for a float32 is infinite, which is said below
        own = np.array(scores, dtype=np.float32)
    if np.isinf(own).any():
        raise DataError(f"{type(fitted).__name__}.score_pairs gave an infinite score; scores are finite or NaN")
    return own


# --- What an evaluation gives back: one summary, one row per hidden rule and one row per home.


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Numbers of one fitted model on one part of one split.

    `homes` has a column `n_hidden` and, for the main metrics, a column with the mean over the home's hidden rules
    under the name that the summary gives it, so that homes can be drawn again (bootstrap) or paired between methods:
    the summary's number is the mean of the column, NaN left out, weighted by `n_hidden`. `loss`,
    `auc` and `auc_feasible` are plain means over homes.
    """

    protocol: str
    summary: dict[str, float]
    rules: pd.DataFrame  # a row per hidden rule
    homes: pd.DataFrame  # a row per home with hidden rules
