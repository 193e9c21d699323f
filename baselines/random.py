"""Rules in random order: what a list without any knowledge is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from baselines.method import Fitted, OnRound, Scores, ignore
from baselines.registry import register
from datasets.homes import Array, Homes, Ids

Bits = npt.NDArray[np.uint64]


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
            pair = _mix(pair ^ part)
        relation = _mix(np.arange(len(homes.relations), dtype=np.uint64))
        cell = _mix(pair[:, None] ^ relation)
        return (cell >> np.uint64(40)).astype(np.float32) / np.float32(2**24)  # the 24 bits that float32 distinguishes


def _bits(ids: Ids) -> Bits:
    """64 bits of each id, the same in every process; text by pandas' hash, which is keyed and fixed."""
    if ids.dtype.kind == "i":
        return _mix(ids.astype(np.uint64))
    return np.asarray(pd.util.hash_array(ids.astype(object)), dtype=np.uint64)


def _mix(bits: Bits) -> Bits:
    """A one-to-one scrambling of 64 bits: the output step of SplitMix64 (Steele, Lea and Flood 2014, OOPSLA)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
