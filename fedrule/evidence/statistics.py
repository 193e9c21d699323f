"""What evidence counts over all homes, as a sum of what each home adds: no home has to disclose its rules.

First homes add up who has which typed rule, a vector of zeros and ones from each: what is not zero in the sum are the
valid rules, which are sent to all. Then they add up the rest, again zeros and ones from each: which types a home owns
together, which patterns its rules have, which of its rules stay in one room, which pairs of typed rules it has, and
which relations its devices have together. Such vectors can be summed by secure aggregation (Bonawitz et al. 2017, CCS),
by which the server learns the sum and no addend. A home knows what it has added and leaves itself out of the sums
(`leave_out` of `Evidence.features`) by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from baselines.cooccurrence import Matrix
from baselines.ease import Cooccurrence
from baselines.items import Items, homes_with_both
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Relation, Rules
from datasets.valid import ValidRules
from fedrule.evidence.counts import (
    PATTERNS,
    ROOMS,
    TOGETHER,
    ColumnReader,
    CompanionCounts,
    HomeFrequencies,
    PatternCounts,
    RoomCounts,
    homes_with,
)
from fedrule.evidence.evidence import Evidence
from fedrule.evidence.scores import MOST_RULES, too_many_rules

BYTES = 4  # of a count that is sent


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The sums over some homes; `+` makes those of both."""

    valid: ValidRules  # the same for all
    patterns: PatternCounts  # numbers of all combinations that valid rules have
    numbers: tuple[Array, ...]  # [n_valid]  for each pattern the number of the combination that a valid rule has
    n_homes: int
    both: Matrix  # [n_types ** 2]  homes that own both types
    have: tuple[Array, ...]  # for each pattern the homes with a combination, by its number
    self_rules: Array  # [n_valid]  homes with a valid rule by which a device acts on itself; evidence does not need it
    rooms: RoomCounts  # how far homes keep rules in one room; zeros where devices have no words
    companions: CompanionCounts  # which relations go together on the same devices
    together: csr_array | None  # [n_items, n_items]  homes with both typed rules; None where not counted
    reader: ColumnReader  # of the vocabularies: which state and act a relation has
    noisy: bool = False  # with differential privacy: homes do not leave themselves out

    @classmethod
    def of(cls, homes: Homes, valid: ValidRules, *, all_patterns: bool = True) -> Statistics:
        """What these homes, one or many, add; their rules are among the valid ones.

        Without `all_patterns` only the first pattern, homes by typed rule, and not which rules go together.
        """
        reader = ColumnReader.of(homes.types, homes.relations)
        names = PATTERNS if all_patterns else PATTERNS[:1]
        trigger_type, action_type, relation = valid.typed()
        rules = reader.typed(trigger_type, relation, action_type)
        patterns = PatternCounts.of(rules, names)
        of_valid, number = patterns.find(rules), patterns.find(reader.columns(homes, homes.rules))
        rules_home, n_homes = homes.rules.home, homes.n_homes
        have = tuple(homes_with(number[p], len(patterns.count(p)), rules_home, n_homes) for p in names)
        alone = homes.rules.trigger == homes.rules.action
        trigger_type, relation, action_type = (column[alone] for column in homes.typed())
        self_rules = homes_with(
            valid.number(trigger_type, action_type, relation), len(valid), rules_home[alone], n_homes
        )
        rooms, companions = RoomCounts.of(homes, valid), CompanionCounts.of(homes, valid)
        matrix = Items(valid).matrix(homes) if all_patterns else None
        together = None if matrix is None else matrix.T @ matrix
        numbers = tuple(of_valid[p] for p in names)
        both = homes_with_both(homes)
        return cls(valid, patterns, numbers, n_homes, both, have, self_rules, rooms, companions, together, reader)

    @classmethod
    def of_nobody(
        cls, types: tuple[str, ...], relations: tuple[Relation, ...], valid: ValidRules, *, all_patterns: bool = True
    ) -> Statistics:
        """All zeros, for these vocabularies."""
        no, nothing = np.zeros(0, dtype=np.int64), Rules(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
        return cls.of(Homes("nobody", types, relations, no, no, no, no, nothing), valid, all_patterns=all_patterns)

    @property
    def with_rule(self) -> Array:
        """[n_valid]: homes that have each valid rule."""
        return self.have[0][1:]  # the first pattern numbers its combinations as cells of the tensor are, from 1 on

    def counted_together(self) -> csr_array:
        """`together`, which evidence needs."""
        if self.together is None:
            raise DataError("evidence needs to know which rules go together; count with all_patterns=True")
        return self.together

    def __add__(self, other: Statistics) -> Statistics:
        return replace(
            self,
            n_homes=self.n_homes + other.n_homes,
            both=self.both + other.both,
            have=tuple(a + b for a, b in zip(self.have, other.have, strict=True)),
            self_rules=self.self_rules + other.self_rules,
            rooms=self.rooms + other.rooms,
            companions=self.companions + other.companions,
            together=None if self.together is None or other.together is None else self.together + other.together,
        )

    def arrays(self, *, all_patterns: bool = True) -> dict[str, Array]:
        """All sums by name, but which rules are valid: what homes send and models keep."""
        arrays = {
            "homes": np.array([self.n_homes]),
            "have": self.with_rule,
            "self_rules": self.self_rules,
            "both": self.both,
        }
        if all_patterns:
            together = csr_array(self.counted_together())
            together.sort_indices()
            arrays |= {f"patterns.{at}": have for at, have in enumerate(self.have) if at}
            arrays |= {f"together.{part}": getattr(together, part) for part in TOGETHER}
            arrays |= {f"companions.{name}": getattr(self.companions, name) for name in ("cell", "homes")}
            arrays |= {f"rooms.{name}": getattr(self.rooms, name) for name in ROOMS}
        return {name: np.asarray(array).astype(np.int64) for name, array in arrays.items()}

    def with_arrays(self, arrays: Mapping[str, Array]) -> Statistics:
        """The sums that `arrays` of other homes gave, for the vocabularies and valid rules of these."""
        rooms, companions, together, have = self.rooms, self.companions, None, self.have[:1]
        sizes = {"have": len(self.valid), "self_rules": len(self.valid), "both": len(self.both), "homes": 1}
        if self.together is not None:
            have = self.have
            sizes |= {f"patterns.{at}": len(counts) for at, counts in enumerate(have) if at}
            sizes |= {f"rooms.{name}": len(getattr(rooms, name)) for name in ROOMS}
            sizes |= {"together.indptr": len(self.valid) + 1}
        for name, size in sizes.items():
            if name not in arrays or arrays[name].shape != (size,):
                found = arrays[name].shape if name in arrays else "none"
                raise DataError(f"counts over homes: {name} has {found} numbers, not {size}; they are of other rules")
        if self.together is not None:
            have = (have[0], *(arrays[f"patterns.{at}"] for at in range(1, len(have))))
            rooms = RoomCounts(self.valid, *(arrays[f"rooms.{name}"] for name in ROOMS))
            companions = CompanionCounts(self.valid, arrays["companions.cell"], arrays["companions.homes"])
            parts = [arrays[f"together.{part}"] for part in TOGETHER]
            shape = (len(self.valid), len(self.valid))
            together = csr_array((parts[0].astype(np.float64), *parts[1:]), shape=shape)
        return replace(
            self,
            n_homes=int(arrays["homes"][0]),
            both=arrays["both"].astype(np.float64),
            have=(np.append(0, arrays["have"]), *have[1:]),
            self_rules=arrays["self_rules"],
            rooms=rooms,
            companions=companions,
            together=together,
        )

    def integers(self) -> Array:
        """All sums as one vector, zeros included: what a secure sum adds, so that the places of a home stay hidden."""
        parts = [np.array([self.n_homes]), self.with_rule, self.self_rules, self.both]
        if self.together is not None:
            companions = np.zeros(self.companions.n_cells)
            companions[self.companions.cell] = self.companions.homes
            above = self.together.toarray()[np.triu_indices(len(self.valid))]
            parts += [*self.have[1:], *self.rooms.columns, companions, above]
        return np.concatenate([np.asarray(part).reshape(-1).astype(np.int64) for part in parts])

    def with_integers(self, integers: Array) -> Statistics:
        """The sums in a vector of `integers`, for the vocabularies and valid rules of these."""
        n_valid, everything = len(self.valid), self.together is not None
        sizes = [1, n_valid, n_valid, len(self.both)]
        if everything:
            sizes += [*map(len, self.have[1:]), *map(len, self.rooms.columns), self.companions.n_cells]
            sizes.append(n_valid * (n_valid + 1) // 2)
        if integers.shape != (sum(sizes),):
            raise DataError(f"counts over homes: {integers.shape} numbers, not {sum(sizes)}; they are of other rules")
        (homes, have, self_rules, both, *more) = np.split(integers, np.cumsum(sizes)[:-1])
        arrays = {"homes": homes, "have": have, "self_rules": self_rules, "both": both}
        if everything:
            n_patterns = len(self.have) - 1
            arrays |= {f"patterns.{at + 1}": more[at] for at in range(n_patterns)}
            arrays |= {f"rooms.{name}": more[n_patterns + at] for at, name in enumerate(ROOMS)}
            cell = np.flatnonzero(more[-2])
            together = np.zeros((n_valid, n_valid), dtype=np.int64)
            together[np.triu_indices(n_valid)] = more[-1]
            sparse = csr_array(together + np.triu(together, 1).T)
            arrays |= {"companions.cell": cell, "companions.homes": more[-2][cell]}
            arrays |= {f"together.{part}": getattr(sparse, part).astype(np.int64) for part in TOGETHER}
        return self.with_arrays(arrays)

    def evidence(self) -> Evidence:
        """What `Evidence.of` makes of the homes that these sums are over; it inverts a matrix of all valid rules."""
        if len(self.valid) > MOST_RULES:
            raise DataError(too_many_rules(len(self.valid)))
        both = self.both.reshape(self.valid.n_types, self.valid.n_types)
        frequencies = HomeFrequencies(self.n_homes, self.patterns, self.have, both)
        together = Cooccurrence.counted(Items(self.valid), self.counted_together().toarray(), self.both, self.n_homes)
        return Evidence(frequencies, together, self.rooms, self.companions, self.noisy)


def sent_bytes(evidence: Evidence) -> int:
    """Bytes that each home sends for both sums, zeros included: with secure aggregation their places stay hidden.

    A count for each cell of the valid-rule tensor; for each combination of a pattern but the first, which are the valid
    rules again; for each pair of types, and of valid rules; and whether rules stay in one room, two for each pair of
    types and for each valid rule; and for each pair of relations what they have in common.
    """
    valid, frequencies = evidence.valid, evidence.frequencies
    types, items = valid.n_types, len(valid)
    cells = types**2 * valid.n_relations
    combinations = sum(len(have) - 1 for have in frequencies.have[1:])
    rooms, companions = 2 * (types**2 + items), evidence.companions.n_cells
    pairs = types * (types + 1) // 2 + items * (items - 1) // 2
    return BYTES * (cells + combinations + pairs + rooms + companions)
