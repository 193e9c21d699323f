"""Of the homes that could have a rule like a candidate, how many have one.

What is like a rule is a pattern of types and relation (fedrule/evidence/patterns.py), so that the answer is the same for all
candidates of one typed rule, whichever home asks. In training a home does not count for its own candidates. All that it
changes is whether one home less has the pattern: both answers are worked out for each typed rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from baselines.owners import homes_with_both
from datasets.homes import Array, Homes
from datasets.valid import typed_cells
from fedrule.evidence.patterns import OF_ALL_HOMES, Reading
from fedrule.evidence.tally import Tallies

HAVE, COULD = 0.3, 3.0  # added to both counts of a share: what nobody has is rare and not impossible
PATTERNS = tuple(pattern for pattern, _ in OF_ALL_HOMES)
NAMES = (
    *(f"share of homes, same {', '.join(pattern)}" for pattern in PATTERNS),
    "homes with the typed rule",
    "homes that own both types",
)
OF_NAMES = (*PATTERNS, PATTERNS[0], PATTERNS[0])  # the pattern that decides whether a home counts for its candidates


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What was counted over all training homes."""

    n_homes: int
    tallies: Tallies  # of the patterns
    have: tuple[Array, ...]  # for each of them the homes with a combination, by its number
    both: npt.NDArray[np.float64]  # [n_types, n_types]  homes that own devices of both types

    @classmethod
    def of(cls, train: Homes) -> Shares:
        """Count; a home counts once for a combination, however many of its rules have it."""
        by_home = [(*pattern, "home") for pattern in PATTERNS]
        tallies = Tallies.of(Reading.of(train).columns(train.rules), by_home)
        have = tuple(tallies.distinct(pattern) for pattern in by_home)
        both = homes_with_both(train).reshape(len(train.types), len(train.types))
        return cls(train.n_homes, tallies.only(PATTERNS), have, both)

    def table(self, reading: Reading, cell: Array, *, less: int) -> npt.NDArray[np.float32]:
        """[n_names, 2, n_cells]: logarithms for typed rules, given as cells of the valid-rule tensor.

        First as counted, then with one home less that has each pattern; with one home `less` that could, in both.
        """
        homes = reading.homes
        trigger_type, action_type, relation = typed_cells(cell, len(homes.types), len(homes.relations))
        number = self.tallies.find(reading.typed(trigger_type, relation, action_type))
        # Below 0 is what no home asks about, for it would be one of those that could.
        both, owners = np.maximum(self.both - less, 0), np.maximum(np.diag(self.both) - less, 0)
        could: dict[str, npt.NDArray[np.float64]] = {
            "both": both[trigger_type, action_type],
            "trigger": owners[trigger_type],
            "action": owners[action_type],
            "all": np.full(len(cell), float(self.n_homes - less)),
        }
        table = np.empty((len(NAMES), 2, len(cell)), dtype=np.float32)
        for at, ((pattern, whom), by_number) in enumerate(zip(OF_ALL_HOMES, self.have, strict=True)):
            have = by_number[number[pattern]]
            have = np.stack([have, np.maximum(have - 1, 0)])
            table[at] = np.log((have + HAVE) / (could[whom] + COULD))
            if at == 0:
                table[-2] = np.log1p(have)
        table[-1] = np.log1p(could["both"])
        return table
