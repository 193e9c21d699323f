"""EASE from sums to which each home adds zeros and ones: the same model as `ease`, without moving a rule.

What EASE (Steck 2019; baselines/ease.py) learns from is X^T X, how many homes have both of two typed rules, and here
also how many own both of two types. Both are sums over homes, as in fedrule/evidence/statistics.py:

- first homes add up who has which typed rule, over all cells of the valid-rule tensor: what is not zero are the items;
- then how many they are, which pairs of items each has (with itself too), and which pairs of types each owns.

The counts are integers, so that the model equals that of `ease` with the same options bit for bit. There is one round
and no gradient. The server inverts the matrix; a home scores its rules by itself.

With `secure_threshold` the sums are secure ones (fedrule/federated/secure_sum.py). A home masks its numbers once for
each other home in its sum, so homes are summed in groups of about `cohort`, and the server adds the sums of the groups:
it learns these, and not the numbers of a home. A group of which too few stay is given up and its homes are not counted.
In a sum of few homes, a count of 1 is still one home's (docs/privacy.md).

With `epsilon` the sums have noise, added by the server and drawn as in `ease`: the model is that of private `ease` with
the same seed. Both options together are refused, because the sums of groups would be known without noise.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from baselines.cooccurrence import Matrix
from baselines.ease import Cooccurrence, Ease
from baselines.items import Items, homes_with_both
from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError, install_hint
from datasets.homes import Array, Homes
from datasets.private_counts import column_sums, symmetric, typed_rules
from datasets.valid import ValidRules
from fedrule.evidence.statistics import BYTES
from fedrule.federated.cohort import Cohorts

log = logging.getLogger(__name__)

LEAST_HOMES = 3  # of a secure sum: of two each knows the other's
COHORT = 16  # default of `cohort`


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The second sum: over some homes, one or many."""

    n_homes: int
    together: Matrix  # [n_items, n_items]  homes with both rules
    both: Matrix  # [n_types ** 2]  homes that own both types

    @classmethod
    def of(cls, homes: Homes, items: Items) -> Counts:
        """What these homes add."""
        have = items.matrix(homes)
        return cls(homes.n_homes, (have.T @ have).toarray(), homes_with_both(homes))

    def integers(self) -> Array:
        """As one vector, with each pair once: what a secure sum adds; of one home zeros and ones."""
        both = self.both.reshape(math.isqrt(len(self.both)), -1)
        parts = [matrix[np.triu_indices(len(matrix))] for matrix in (self.together, both)]
        return np.concatenate([[self.n_homes], *parts]).astype(np.int64)

    @classmethod
    def from_integers(cls, integers: Array, n_items: int, n_types: int) -> Counts:
        """The sums in a vector of `integers`."""
        pairs = integers[1:].astype(np.float64)
        end = n_items * (n_items + 1) // 2
        return cls(int(integers[0]), symmetric(pairs[:end], n_items), symmetric(pairs[end:], n_types).ravel())


@dataclass(frozen=True, slots=True, eq=False)
class SecureTotal:
    """A sum over homes in groups, and its costs."""

    total: Array
    groups: list[Array]  # homes whose numbers are in it, group by group
    sent_bytes: int  # by all homes together


def secure_total(
    groups: list[Array], vector: Callable[[int], Array], size: int, *, threshold: float, dropped: Array, name: str
) -> SecureTotal:
    """The sum of secure sums of groups of homes; those that drop out do so before they send their masked vector.

    A group of which too few stay is left out.
    """
    from fedrule.federated.secure.messages import BelowThreshold, Step, threshold_of  # with cryptography, an extra
    from fedrule.federated.secure_sum import secure_sum

    total, counted, sent = np.zeros(size, dtype=np.int64), [], 0
    for number, members in enumerate(groups):
        try:
            found = secure_sum(
                {home: vector(home) for home in members.tolist()},
                threshold=max(threshold_of(len(members), threshold), LEAST_HOMES),
                bound=1,
                dropped=dict.fromkeys(np.intersect1d(members, dropped).tolist(), Step.MASK),
                name=f"{name}, group {number + 1}",
            )
        except BelowThreshold as error:
            log.warning("fedease: %d homes are not counted: %s", len(members), error)
            continue
        total += found.total
        counted.append(np.array(found.counted, dtype=np.int64))
        sent += sum(cost.sent for steps in found.costs.values() for cost in steps.values())
    return SecureTotal(total, counted, sent)


def sent_numbers(items: Items) -> int:
    """How many counts a home sends in both sums, zeros included, so that their places say nothing."""
    n_items, n_types = len(items), items.valid.n_types
    return math.prod(items.valid.shape) + 1 + n_items * (n_items + 1) // 2 + n_types * (n_types + 1) // 2


@register("fedease")
@dataclass(frozen=True)
class FedEase(Ease):
    """EASE from counts that homes add up, equal to `ease`; by secure sums if wanted."""

    NAME: ClassVar[str] = "fedease"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = Ease.SPACE

    secure_threshold: float = 0.0  # secure sums that go on while more than this share of a group stays; 0: plain sums
    cohort: int = COHORT  # homes in a group of secure sums
    drop_out: float = 0.0  # simulated fault: fraction of homes that drop out and are not counted

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "in [0, 1]", "drop_out")
        if self.secure_threshold and not 0.5 < self.secure_threshold <= 1:
            raise DataError(
                f"{self.NAME}: secure_threshold must be above 0.5, or else two halves of a group could be unmasked "
                f"apart, and at most 1, got {self.secure_threshold}; 0: plain sums"
            )
        if self.cohort < LEAST_HOMES:
            raise DataError(
                f"{self.NAME}: cohort must be at least {LEAST_HOMES}, since of two homes each knows the other's "
                f"numbers, got {self.cohort}"
            )
        if not self.secure_threshold and self.cohort != COHORT:
            raise DataError(f"{self.NAME}: cohort has no effect with plain sums; set secure_threshold, e.g. 0.67")
        if self.secure_threshold and self.epsilon:
            raise DataError(
                f"{self.NAME}: the sums of groups would be known without noise; set secure_threshold or epsilon, or "
                "use fedrank, whose homes add parts of the noise to a secure sum"
            )
        if self.secure_threshold and importlib.util.find_spec("cryptography") is None:
            raise DataError(f"{self.NAME}: secure_threshold needs {install_hint('secure')}")

    def count(self, train: Homes, rng: np.random.Generator) -> tuple[Cooccurrence, dict[str, float]]:
        """From the sums over homes that did not drop out; the history says how many these are and what each sent."""
        dropped, values = np.zeros(0, dtype=np.int64), dict[str, float]()
        if self.drop_out:  # nothing is drawn without, so that noise is that of `ease`
            seed = int(rng.integers(2**62))
            dropped = Cohorts(drop_out=self.drop_out).of(np.arange(train.n_homes), seed=seed, number=0).absent
        if self.secure_threshold:
            items, counts, sent = self._secure_sums(train, dropped)
            together, n_counted = self._inverted(items, counts), counts.n_homes
        else:
            present = train.subset(np.setdiff1d(np.arange(train.n_homes), dropped)) if len(dropped) else train
            if self.epsilon:
                together, values = super().count(present, rng)
            else:
                items = Items(valid_rules(column_sums(typed_rules(present)), present))
                together = self._inverted(items, Counts.of(present, items))
            n_counted, sent = present.n_homes, float(BYTES * sent_numbers(together.items))
        log.info("%s: each home sends %.1f kB of counts", self.NAME, sent / 1e3)
        faults = {"clients": float(n_counted), "dropped": float(train.n_homes - n_counted)}
        return together, values | faults | {"sent_bytes": sent}

    def _inverted(self, items: Items, counts: Counts) -> Cooccurrence:
        return Cooccurrence.counted(
            items,
            counts.together,
            counts.both,
            counts.n_homes,
            regularization=self.regularization,
            dropout=self.dropout,
        )

    def _secure_sums(self, train: Homes, dropped: Array) -> tuple[Items, Counts, float]:
        """Items, counts and bytes of a home from two secure sums; who drops out of the first is not in the second."""
        if train.n_homes < LEAST_HOMES:
            raise DataError(f"{self.NAME}: {train.n_homes} homes are too few for a secure sum, at least {LEAST_HOMES}")
        groups = np.array_split(np.arange(train.n_homes), max(train.n_homes // self.cohort, 1))
        rules = typed_rules(train)
        first = secure_total(
            groups,
            lambda home: rules[[home]].toarray()[0].astype(np.int64),
            rules.shape[1],
            threshold=self.secure_threshold,
            dropped=dropped,
            name="fedease, first sum",
        )
        items = Items(valid_rules(first.total, train))
        second = secure_total(
            first.groups,
            lambda home: Counts.of(train.subset(np.array([home])), items).integers(),
            sent_numbers(items) - rules.shape[1],
            threshold=self.secure_threshold,
            dropped=np.zeros(0, dtype=np.int64),
            name="fedease, second sum",
        )
        counts = Counts.from_integers(second.total, len(items), len(train.types))
        # By the homes that are counted, `clients` of the history: times these it is what all homes sent.
        return items, counts, (first.sent_bytes + second.sent_bytes) / max(counts.n_homes, 1)


def valid_rules(total: npt.NDArray[np.number], homes: Homes) -> ValidRules:
    """What is not zero in the first sum."""
    return ValidRules.of_cells(len(homes.types), len(homes.relations), np.flatnonzero(total).astype(np.int64))
