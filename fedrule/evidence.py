"""Plain graph features of a candidate: what its home and all homes already do that is like it.

Logarithms of counts, of three kinds: rules of the home that agree with the candidate in a pattern, homes with a rule of
the pattern against homes that could have one, and how well the candidate goes with the home's other rules (EASE). In
training, all that is counted over homes leaves the candidate's own home out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from baselines.cooccurrence import Cooccurrence
from baselines.owners import homes_with_both
from datasets.homes import Array, Homes, Rules
from fedrule.patterns import OF_ALL_HOMES, OF_HOME, TURNED, columns, turned
from fedrule.tally import Column, Columns, Tally, combined

Features = npt.NDArray[np.float32]

HAVE, COULD = 0.3, 3.0  # added to both counts of a share: what nobody has is rare and not impossible
SHARE_OF_OWNERS = (
    0.25  # as in `ease`: its score is divided by this power of the share of homes that could have the rule
)
EASE_SCALE = 5.0  # brings the scores, mostly below 0.3, to the size of the other features

NAMES = (
    *(f"rules of the home, same {', '.join(pattern)}" for pattern in OF_HOME),
    *(f"turned round, same {', '.join(pattern)}" for pattern in TURNED),
    *(f"share of homes, same {', '.join(pattern)}" for pattern, _ in OF_ALL_HOMES),
    "homes with the typed rule",
    "homes that own both types",
    "devices",
    "devices of the trigger's type",
    "devices of the action's type",
    "acts on itself",
    "goes with the home's rules",
)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What was counted over all training homes."""

    n_homes: int
    tallies: tuple[Tally, ...]  # homes by pattern, in the order of OF_ALL_HOMES
    both: npt.NDArray[np.float64]  # [n_types, n_types]  homes that own devices of both types
    together: Cooccurrence

    @classmethod
    def of(cls, train: Homes) -> Evidence:
        rows = columns(train, train.rules, place_size=1)
        n_types = len(train.types)
        tallies = tuple(Tally.of(_once_a_home(rows, pattern), pattern) for pattern, _ in OF_ALL_HOMES)
        both = homes_with_both(train).reshape(n_types, n_types)
        return cls(train.n_homes, tallies, both, Cooccurrence.of(train))

    def features(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Features:
        """[n_candidates, n_features] of candidates sorted by home, given the rules that the homes have.

        `leave_out` is given for homes of the training data: the same homes with all their training rules, so that
        nothing that they added to the counts shows.
        """
        place_size = int(np.diff(homes.device_start).max(initial=1))
        known = columns(homes, homes.rules, place_size=place_size)
        asked = columns(homes, candidates, place_size=place_size)
        back = columns(homes, turned(candidates), place_size=place_size)
        table = np.empty((len(candidates), len(NAMES)), dtype=np.float32)
        patterns = (*((pattern, asked) for pattern in OF_HOME), *((pattern, back) for pattern in TURNED))
        for at, (pattern, rows) in enumerate(patterns):
            table[:, at] = np.log1p(Tally.of(known, pattern).find(rows))
        self._shares(table[:, len(patterns) :], asked, leave_out)
        trigger_type, action_type = asked["trigger_type"].values, asked["action_type"].values
        devices = np.zeros((homes.n_homes, len(homes.types)), dtype=np.int64)
        np.add.at(devices, (homes.device_home, homes.device_type), 1)
        item = self.together.items.valid.number(trigger_type, action_type, candidates.relation)
        score = self.together.scores(homes, candidates.home, item, leave_out=leave_out)
        table[:, -5] = np.log(np.diff(homes.device_start)[candidates.home])
        table[:, -4] = np.log(devices[candidates.home, trigger_type])
        table[:, -3] = np.log(devices[candidates.home, action_type])
        table[:, -2] = candidates.trigger == candidates.action
        table[:, -1] = EASE_SCALE * score / np.append(self.together.able, 1.0)[item] ** SHARE_OF_OWNERS
        return table

    def _shares(self, table: Features, asked: Columns, leave_out: Homes | None) -> None:
        """Fill in the shares of homes, and the two counts of the first of them."""
        trigger_type, action_type = asked["trigger_type"].values, asked["action_type"].values
        owners = np.diag(self.both)
        less = 0 if leave_out is None else 1  # the home itself, which owns both types of whatever it is asked about
        could: dict[str, npt.NDArray[np.float64]] = {
            "both": self.both[trigger_type, action_type] - less,
            "trigger": owners[trigger_type] - less,
            "action": owners[action_type] - less,
            "all": np.full(len(trigger_type), float(self.n_homes - less)),
        }
        own = None if leave_out is None else columns(leave_out, leave_out.rules, place_size=1)
        for at, ((pattern, whom), tally) in enumerate(zip(OF_ALL_HOMES, self.tallies, strict=True)):
            have: Array = tally.find(asked)
            if own is not None:
                have = have - (Tally.of(own, ("home", *pattern)).find(asked) > 0)
            table[:, at] = np.log((have + HAVE) / (could[whom] + COULD))
            if at == 0:
                table[:, len(OF_ALL_HOMES)] = np.log1p(have)
        table[:, len(OF_ALL_HOMES) + 1] = np.log1p(could["both"])


def _once_a_home(rows: Columns, pattern: tuple[str, ...]) -> Columns:
    """The columns of a pattern, with a row for each home that has it, however many of its rules do."""
    _, key = combined(rows, ("home", *pattern))
    first = np.unique(key, return_index=True)[1]
    return {name: Column(rows[name].values[first], rows[name].size) for name in pattern}
