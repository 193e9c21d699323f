"""Rules in random order: what a list without any knowledge is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from baselines.method import Fitted, OnRound, Scores, ignore
from baselines.registry import register
from baselines.scoring import CHECKED_AT_ONCE, pairs_at_once
from datasets.common.random import Bits, output
from datasets.homes import Array, Homes, Ids

FIRST = np.zeros(1, dtype=np.uint64)


@register("random")
@dataclass(frozen=True)
class RandomOrder:
    """Uniform scores, drawn once for every home, device pair and relation."""

    learns: ClassVar[bool] = False

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> Fitted:
        """Only the seed matters; nothing is learned from the homes."""
        del train
        fitted = RandomOrderModel(int(rng.integers(2**63)))
        on_round(1, 1, fitted, {})
        return fitted


class RandomOrderModel:
    """Scores by hashing (seed, user, trigger, action, relation): independent of what else is scored."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Uniform on [0, 1)."""
        user = _bits(homes.users)[homes.device_home[trigger]]
        device = _bits(homes.device_ids)
        pair = np.full(len(trigger), self._seed, dtype=np.uint64)
        for part in (user, device[trigger], device[action]):
            pair = output(pair ^ part, FIRST)
        relation = output(np.arange(len(homes.relations), dtype=np.uint64), FIRST)
        scores = np.empty((len(pair), len(relation)), dtype=np.float32)
        rows = pairs_at_once(homes, CHECKED_AT_ONCE)
        for begin in range(0, len(pair), rows):
            cell = output(pair[begin : begin + rows, None] ^ relation, FIRST)
            scores[begin : begin + rows] = cell >> np.uint64(40)  # the 24 bits that float32 distinguishes
        scores /= np.float32(2**24)
        return scores


def _bits(ids: Ids) -> Bits:
    """64 bits of each id, the same in every process; text by pandas' hash, which is keyed and fixed."""
    if ids.dtype.kind == "i":
        return output(ids.astype(np.uint64), FIRST)
    return np.asarray(pd.util.hash_array(ids.astype(object)), dtype=np.uint64)
