"""Negative sampling: rules that do not exist, as examples against those that do (paper section 3.2).

Candidates are never listed one by one: they are numbered home by home, the taken ones (known, positive or forbidden)
are skipped by their position in a sorted array, and distinct numbers are drawn for all homes at once. With keyed
numbers (`datasets.common.random.KeyedRandom`) a home gets the same as if it were alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.candidates import Pairs, has_self_rules
from datasets.common.errors import DataError, unknown
from datasets.common.random import RandomSource, draw_distinct, how_many_free, nth_not_in, random_source
from datasets.homes import Array, Homes, Rules, distinct
from datasets.valid import ValidRules

KINDS = ("paper", "feasible")
# `Feasible` processes so many device pairs at a time, at about 70 bytes each, and keeps 8. A larger home is processed
# alone: 5,000 devices are 25 million pairs, 1.8 GB.
PAIRS_AT_ONCE = 1 << 20
# Purposes of random streams.
APART, EXISTING, FEASIBLE = range(3)


def sample(
    kind: str,
    homes: Homes,
    positives: Rules,
    *,
    rng: np.random.Generator | RandomSource,
    forbidden: Sequence[Rules] = (),
    valid: ValidRules | None = None,
    wanted: Array | None = None,
    self_pairs: bool | None = None,
) -> Rules:
    """Negatives of a kind by its name; `feasible` needs the valid rules of the training data."""
    if kind == "paper":
        return paper(homes, positives, rng=rng, forbidden=forbidden, wanted=wanted, self_pairs=self_pairs)
    if kind == "feasible":
        if valid is None:
            raise DataError("feasible negatives need valid=ValidRules.of(train)")
        return feasible(
            homes, positives, rng=rng, valid=valid, forbidden=forbidden, wanted=wanted, self_pairs=self_pairs
        )
    raise unknown("kind of negatives", kind, KINDS)


def paper(
    homes: Homes,
    positives: Rules,
    *,
    rng: np.random.Generator | RandomSource,
    forbidden: Sequence[Rules] = (),
    wanted: Array | None = None,
    self_pairs: bool | None = None,
) -> Rules:
    """As many per home as it has positives, or `wanted` [n_homes]: half of them apart, half on existing pairs.

    The first half (rounded up) are ordered pairs with neither a known rule nor a positive, with any relation; the
    others are pairs of a positive with a relation that the pair does not have. Where one kind runs out the other fills
    up; where both do, the home gets fewer. None is a rule of `homes`, of `positives` or of `forbidden` (hidden rules
    of the same homes), and none is drawn twice. A device is paired with itself only if the data has such rules, or as
    `self_pairs` says: a single home does not show whether its population has them.
    """
    n_relations, source = len(homes.relations), random_source(rng)
    pairs = _pairs(homes, self_pairs, [homes.rules, positives, *forbidden])
    taken = _together([homes.rules, positives, *forbidden])
    taken_pair = pairs.number(taken)
    adjacent = distinct(pairs.number(_together([homes.rules, positives])))
    existing = distinct(pairs.number(positives))

    # Pairs apart are numbered by how many of them come before; so are the cells (pair, relation) upon them.
    is_apart = ~np.isin(taken_pair, adjacent)
    place = taken_pair[is_apart] - np.searchsorted(adjacent, taken_pair[is_apart])
    apart_taken = distinct(place * n_relations + taken.relation[is_apart])
    apart_start = (pairs.start - np.searchsorted(adjacent, pairs.start)) * n_relations
    on_existing = np.isin(taken_pair, existing)
    place = np.searchsorted(existing, taken_pair[on_existing])
    existing_taken = distinct(place * n_relations + taken.relation[on_existing])
    existing_start = np.searchsorted(existing, pairs.start) * n_relations

    wanted = _as_many(homes, positives, wanted)
    many_apart, many_existing = how_many_free(apart_start, apart_taken), how_many_free(existing_start, existing_taken)
    from_apart = np.minimum((wanted + 1) // 2, many_apart)
    from_existing = np.minimum(wanted - from_apart, many_existing)
    from_apart = np.minimum(wanted - from_existing, many_apart)

    apart_cell = draw_distinct(apart_start, apart_taken, from_apart, source.stream(APART))
    place, apart_relation = np.divmod(apart_cell, max(n_relations, 1))
    apart_pair = nth_not_in(adjacent, place)
    existing_cell = draw_distinct(existing_start, existing_taken, from_existing, source.stream(EXISTING))
    place, existing_relation = np.divmod(existing_cell, max(n_relations, 1))
    drawn = pairs.devices(np.concatenate([apart_pair, existing[place]]))
    return Rules(*drawn, np.concatenate([apart_relation, existing_relation])).by_home()


def feasible(
    homes: Homes,
    positives: Rules,
    *,
    rng: np.random.Generator | RandomSource,
    valid: ValidRules,
    forbidden: Sequence[Rules] = (),
    wanted: Array | None = None,
    self_pairs: bool | None = None,
) -> Rules:
    """As many per home as it has positives, or `wanted` [n_homes]: valid rules that its devices could carry out.

    Drawn uniformly. None is a rule of `homes`, of `positives` or of `forbidden`, and none comes twice; a home that has
    fewer left gets those. `self_pairs` as in `paper`.
    """
    able = Feasible.of(homes, valid, taken=[homes.rules, positives, *forbidden], self_pairs=self_pairs)
    return able.draw(_as_many(homes, positives, wanted), rng)


@dataclass(frozen=True, slots=True, eq=False)
class Feasible:
    """The valid rules that the devices of homes could carry out and that are not taken; prepared once, drawn often."""

    homes: Homes
    valid: ValidRules
    pairs: Pairs
    runs: tuple[_Run, ...]

    @classmethod
    def of(cls, homes: Homes, valid: ValidRules, *, taken: Sequence[Rules], self_pairs: bool | None = None) -> Feasible:
        """Those of these homes, without the taken rules; `self_pairs` as in `paper`."""
        n_types, n_relations = len(homes.types), len(homes.relations)
        if valid.shape != (n_types, n_types, n_relations):
            raise DataError(f"{homes.name}: valid rules of shape {valid.shape} belong to other vocabularies")
        pairs = _pairs(homes, self_pairs, taken)
        rules = _together(taken)
        number = valid.number(homes.device_type[rules.trigger], homes.device_type[rules.action], rules.relation)
        rules, number = rules.take(number >= 0), number[number >= 0]
        pair, runs = pairs.number(rules), []
        for first, end in pairs.runs(PAIRS_AT_ONCE):
            _, trigger, action = pairs.devices(np.arange(pairs.start[first], pairs.start[end]))
            type_pair = homes.device_type[trigger] * n_types + homes.device_type[action]
            pair_start = np.concatenate([[0], np.cumsum(valid.start[type_pair + 1] - valid.start[type_pair])])
            home_start = pair_start[pairs.start[first : end + 1] - pairs.start[first]]
            here = slice(*np.searchsorted(rules.home, [first, end]))
            place = pair[here] - pairs.start[first]
            cell = pair_start[place] + number[here] - valid.start[type_pair[place]]
            runs.append(_Run(first, end, pair_start, home_start, distinct(cell)))
        return cls(homes, valid, pairs, tuple(runs))

    @property
    def available(self) -> Array:
        """[n_homes]: how many there are."""
        return np.concatenate([np.zeros(0, np.int64), *(how_many_free(run.home_start, run.taken) for run in self.runs)])

    def draw(self, wanted: Array, rng: np.random.Generator | RandomSource) -> Rules:
        """Per home h `wanted[h]` of them, or all where there are fewer; none twice, every subset equally likely."""
        parts, source = [], random_source(rng)
        for run in self.runs:
            # A stream for each run, since the first turn of a home is that of its run.
            some = wanted[run.first : run.end]
            cell = draw_distinct(run.home_start, run.taken, some, source.stream(FEASIBLE), first=run.first)
            place = np.searchsorted(run.pair_start, cell, side="right") - 1
            home, trigger, action = self.pairs.devices(self.pairs.start[run.first] + place)
            type_pair = self.homes.device_type[trigger] * self.valid.n_types + self.homes.device_type[action]
            relation = self.valid.relation[self.valid.start[type_pair] + cell - run.pair_start[place]]
            parts.append(_rules(home, trigger, action, relation))
        return _together(parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Cells (device pair, valid relation of its types) of homes first to end, numbered pair by pair from 0."""

    first: int
    end: int
    pair_start: Array  # [n_pairs + 1]
    home_start: Array  # [n_homes + 1]
    taken: Array  # cells that are taken, sorted


def _pairs(homes: Homes, self_pairs: bool | None, taken: Sequence[Rules]) -> Pairs:
    """Pairs of devices; a device with itself as `self_pairs` says, or if it is None, if some rule has such a pair."""
    seen = has_self_rules(*taken)
    if seen and self_pairs is False:
        raise DataError(f"{homes.name}: self_pairs=False, but a rule lets a device act on itself")
    return Pairs.of(homes, self_pairs=seen if self_pairs is None else self_pairs)


def _as_many(homes: Homes, positives: Rules, wanted: Array | None) -> Array:
    """[n_homes]: how many negatives each home is to get."""
    return np.bincount(positives.home, minlength=homes.n_homes) if wanted is None else wanted


def _together(parts: Sequence[Rules]) -> Rules:
    """All rules of all parts, sorted by home, without groups."""
    if not parts:
        return Rules(*[np.zeros(0, dtype=np.int64)] * 4)
    columns = zip(*((part.home, part.trigger, part.action, part.relation) for part in parts), strict=True)
    return _rules(*(np.concatenate(column) for column in columns)).by_home()


def _rules(*columns: Array) -> Rules:
    """Rules of columns that nobody else has, so that they need not be copied."""
    for column in columns:
        column.flags.writeable = False
    return Rules(*columns)
