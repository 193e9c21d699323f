"""What evidence counts over all homes, as a sum of what each home adds: no home has to show what it has.

First homes add up who has which typed rule, a vector of zeros and ones from each: what is not zero in the sum are the
valid rules, and everybody is told. Then they add up the rest, again zeros and ones from each: which types it owns
together, which patterns its rules have, which pairs of typed rules it has. Sums of such vectors can be had by secure
aggregation (Bonawitz et al. 2017, CCS), by which the server learns the sum and no addend. A home knows what it has
added and leaves itself out of what it is told (`leave_out` of `fedrule.evidence`) by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from baselines.cooccurrence import Cooccurrence, Matrix
from baselines.items import Items
from baselines.owners import homes_with_both
from datasets.homes import Array, Homes
from datasets.valid import ValidRules
from fedrule.evidence import Evidence
from fedrule.patterns import Reading
from fedrule.shares import PATTERNS, Shares
from fedrule.tally import Tallies

BYTES = 4  # of a count that is sent


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The sums over some homes; `+` makes those of both."""

    valid: ValidRules  # the same for all
    patterns: Tallies  # numbers of all combinations that valid rules have
    n_homes: int
    both: Matrix  # [n_types ** 2]  homes that own both types
    have: tuple[Array, ...]  # for each pattern the homes with a combination, by its number
    together: csr_array  # [n_items, n_items]  homes with both typed rules

    @classmethod
    def of(cls, homes: Homes, valid: ValidRules) -> Statistics:
        """What these homes, one or many, add; their rules are among the valid ones."""
        reading = Reading.of(homes)
        pair, relation = np.divmod(valid.cell, max(valid.n_relations, 1))
        trigger_type, action_type = np.divmod(pair, max(valid.n_types, 1))
        patterns = Tallies.of(reading.typed(trigger_type, relation, action_type), PATTERNS)
        number = patterns.find(reading.columns(homes.rules))
        have = tuple(_homes_with(number[p], len(patterns.count(p)), homes) for p in PATTERNS)
        matrix = Items(valid).matrix(homes)
        return cls(valid, patterns, homes.n_homes, homes_with_both(homes), have, matrix.T @ matrix)

    def __add__(self, other: Statistics) -> Statistics:
        return replace(
            self,
            n_homes=self.n_homes + other.n_homes,
            both=self.both + other.both,
            have=tuple(a + b for a, b in zip(self.have, other.have, strict=True)),
            together=self.together + other.together,
        )

    def evidence(self) -> Evidence:
        """What `Evidence.of` makes of the homes that these sums are over."""
        both = self.both.reshape(self.valid.n_types, self.valid.n_types)
        shares = Shares(self.n_homes, self.patterns, self.have, both)
        together = Cooccurrence.counted(Items(self.valid), self.together.toarray(), self.both, self.n_homes)
        return Evidence(shares, together)


def sent_bytes(evidence: Evidence) -> int:
    """By each home in both sums, zeros and all: with secure aggregation nobody may show where they are.

    A count for each cell of the valid-rule tensor; for each combination of a pattern but the first, whose are the valid
    rules again; for each pair of types, and of valid rules.
    """
    valid, shares = evidence.valid, evidence.shares
    types, items = valid.n_types, len(valid)
    cells = types**2 * valid.n_relations
    combinations = sum(len(have) - 1 for have in shares.have[1:])
    return BYTES * (cells + combinations + types * (types + 1) // 2 + items * (items - 1) // 2)


def _homes_with(number: Array, n_numbers: int, homes: Homes) -> Array:
    """[n_numbers]: how many homes have a rule of each number."""
    each = np.unique(number * max(homes.n_homes, 1) + homes.rules.home)
    return np.bincount(each // max(homes.n_homes, 1), minlength=n_numbers)
