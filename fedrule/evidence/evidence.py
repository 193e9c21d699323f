"""What evidence knows of all training homes, and the features of training candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from baselines.ease import Cooccurrence
from datasets.homes import Array, Homes, Rules, starts
from datasets.valid import ValidRules
from fedrule.arrays import read_only
from fedrule.evidence import counts
from fedrule.evidence.counts import (
    ColumnReader,
    CompanionCounts,
    HomeFrequencies,
    PatternCounts,
    RoomCounts,
    companion_cells,
)
from fedrule.evidence.feature_blocks import candidate_features
from fedrule.evidence.features import (
    EASE,
    FREQUENCIES,
    NAMES,
    ROOMS,
    Features,
    companion_tables,
    ease_scale,
    given_features,
    graphs,
    vocabulary,
)
from fedrule.evidence.home_graph import Table


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What was counted over all training homes."""

    frequencies: HomeFrequencies
    together: Cooccurrence
    rooms: RoomCounts
    companions: CompanionCounts
    noisy: bool = False  # with differential privacy: no home can be told from the counts, so none is left out

    @classmethod
    def of(cls, train: Homes) -> Evidence:
        together = Cooccurrence.of(train)
        rooms = RoomCounts.of(train, together.items.valid)
        companions = CompanionCounts.of(train, together.items.valid)
        return cls(HomeFrequencies.of(train), together, rooms, companions)

    @property
    def valid(self) -> ValidRules:
        """The typed rules that the training homes have."""
        return self.together.items.valid

    def features(self, homes: Homes, candidates: Rules, *, leave_out: Homes | None = None) -> Features:
        """[n_candidates, n_features] of candidates sorted by home, given the rules that the homes have.

        `leave_out` is given for homes of the training data: the same homes with all their training rules, whose
        contribution to the counts is left out.
        """
        leave_out = None if self.noisy else leave_out
        features = np.empty((len(candidates), len(NAMES)), dtype=np.float32)
        reader = ColumnReader.of(homes.types, homes.relations)
        columns = (candidates.home, candidates.trigger, candidates.action, candidates.relation)
        graph = graphs(homes, words=self.rooms.any)
        companions = companion_tables(self.companions, *self._own_companions(leave_out))
        words = vocabulary(self.valid, reader)
        candidate_features(features, graph, words, companions, *map(read_only, columns))
        item, typed, cell = _typed_rules(self.valid, homes, candidates)
        score = self.together.scores(homes, candidates.home, item, leave_out=leave_out)
        features[:, EASE] = np.append(self.ease_scale, 0.0)[item] * score
        own = None if leave_out is None else reader.columns(leave_out, leave_out.rules)
        found = None if own is None else PatternCounts.of(own, (("home", *p) for p in counts.PATTERNS))
        frequencies = self.frequencies.table(reader, cell, less=0 if own is None else 1)
        has = {} if found is None else found.find(reader.columns(homes, candidates))
        for pattern, frequency, column in zip(counts.OF_NAMES, frequencies, features.T[FREQUENCIES], strict=True):
            which = has[("home", *pattern)] > 0 if has else 0
            column[:] = frequency.reshape(-1)[typed + which * frequency.shape[1]]
        features[:, ROOMS] = self.rooms.log_shares(homes, candidates, item, leave_out=leave_out)
        return features

    @property
    def ease_scale(self) -> npt.NDArray[np.float64]:
        """[n_valid]: what the scores of EASE are multiplied by."""
        return ease_scale(self.together.able)

    def given(self, reader: ColumnReader) -> Table:
        return given_features(self.valid, reader, self.frequencies, self.rooms)

    def _own_companions(self, leave_out: Homes | None) -> tuple[Array, Array]:
        """Where each home's own cells begin, and the cells; nothing where no home is left out."""
        if leave_out is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        home, cell = companion_cells(leave_out, self.valid)
        return starts(home, leave_out.n_homes), cell


def _typed_rules(valid: ValidRules, homes: Homes, candidates: Rules) -> tuple[Array, Array, Array]:
    """The item of each candidate, -1 without one; its number among all typed rules of candidates; and their cells."""
    trigger_type, relation, action_type = homes.typed(candidates)
    item = valid.number(trigger_type, action_type, relation)
    unseen = np.flatnonzero(item < 0)
    if not len(unseen):
        return item, item, valid.cell
    cell = (trigger_type[unseen] * valid.n_types + action_type[unseen]) * valid.n_relations + relation[unseen]
    more, number = np.unique(cell, return_inverse=True)
    typed = item.copy()
    typed[unseen] = len(valid) + number
    return item, typed, np.concatenate([valid.cell, more])
