"""The search of a model that scores by evidence alone, such as `graphrank` and `fedrank`: compiled, without torch.

It needs NumPy and numba, but neither torch nor SciPy nor pandas. The loops are compiled once after an installation,
when the first model is loaded, and kept on disk.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Timer

import numpy as np

from baselines.cooccurrence import regularized_inverse, share_able
from baselines.method import LARGEST_SCORE
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask
from fedrule.arrays import read_only
from fedrule.evidence import best_candidates
from fedrule.evidence.best_candidates import BestCandidates
from fedrule.evidence.counts import PATTERNS, ColumnReader, HomeFrequencies, PatternCounts
from fedrule.evidence.features import ease_scale, given_features, graphs, vocabulary
from fedrule.evidence.home_graph import Graphs
from fedrule.evidence.scores import MOST_RULES, EvidenceScores, network_shapes, too_many_rules
from fedrule.inference.encode import NOTHING, Graph
from fedrule.inference.search import TopK
from fedrule.models.counts import companion_counts, pairs_of_rules, pattern_counts, room_counts
from fedrule.models.file import SavedModel, check_weights

log = logging.getLogger(__name__)

QUIET = 6.0  # seconds; loading what is compiled takes less, also on a busy machine


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceSearch:
    """Finds the best valid rules that homes lack."""

    scores: EvidenceScores
    self_rules: Mask  # [n_valid]  rules that a device may have with itself

    @classmethod
    def of(cls, saved: SavedModel) -> EvidenceSearch:
        """Of a model that `is_evidence_alone`; its arrays are checked, and the matrix of EASE is inverted."""
        card, valid = saved.card, saved.valid
        hidden, words = card.options["evidence"], card.options["words"]
        if type(hidden) is not int or type(words) is not bool:
            raise DataError(
                f"the card's options have evidence {hidden!r} and words {words!r}, not a number and a truth"
            )
        check_weights(saved.weights, {f"evidence.{n}": s for n, s in network_shapes(hidden, words=words).items()}, card)
        if len(valid) > MOST_RULES:
            raise DataError(too_many_rules(len(valid)))
        reader = ColumnReader.of(card.types, card.relations)
        trigger_type, action_type, relation = valid.typed()
        patterns = PatternCounts.of(reader.typed(trigger_type, relation, action_type), PATTERNS)
        n_homes, both = int(saved.arrays["counts.homes"][0]), saved.arrays["counts.both"].astype(np.float64)
        table = both.reshape(valid.n_types, valid.n_types)
        frequencies = HomeFrequencies(n_homes, patterns, pattern_counts(saved, patterns), table)
        rooms = room_counts(saved)
        many, item, start = pairs_of_rules(saved)
        together = np.zeros((len(valid), len(valid)))
        together[np.repeat(np.arange(len(valid)), np.diff(start)), item] = many
        scores = EvidenceScores.of(
            valid,
            vocabulary(valid, reader),
            given_features(valid, reader, frequencies, rooms),
            companion_counts(saved),
            regularized_inverse(together),
            ease_scale(share_able(both, valid.cell, valid.n_relations, n_homes)),
            {name.removeprefix("evidence."): value for name, value in saved.weights.items()},
            knows_words=rooms.any,
        )
        search = cls(scores, read_only(saved.self_rules))
        search.load_loops()
        return search

    def load_loops(self) -> None:
        """Load the compiled loops, so that the first request takes no longer than others.

        Where they were never used they are compiled first, and whoever waits is told.
        """
        told = Timer(QUIET, log.info, ["compiling the search, once after an installation: about half a minute"])
        told.daemon = True
        told.start()
        try:
            self.one(Graph(NOTHING, np.zeros(2, dtype=np.int64), NOTHING, NOTHING, NOTHING), 1)
        finally:
            told.cancel()

    def one(self, graph: Graph, k: int) -> TopK:
        word_device, word = (graph.word_device, graph.word) if self.scores.knows_words else (NOTHING, NOTHING)
        word_start = np.searchsorted(word_device, np.arange(len(graph.device_type) + 1))
        devices, rule_start = (graph.device_start, graph.device_type), np.array([0, len(graph.trigger)])
        rules = rule_start, graph.trigger, graph.action, graph.relation
        return self._best(Graphs(*map(read_only, (*devices, *rules, word_start, word))), k)

    def many(self, homes: Homes, k: int) -> TopK:
        return self._best(graphs(homes, words=self.scores.knows_words), k)

    def _best(self, homes: Graphs, k: int) -> TopK:
        scores, devices = self.scores, np.diff(homes.device_start)
        n, candidates = len(devices), self._candidates(homes)
        k = max(min(k, int(candidates.max(initial=0))), 1)
        trigger, action, relation = np.empty((3, n, k), dtype=np.int64)
        best = BestCandidates(
            np.zeros(n, dtype=np.int64), trigger, action, relation, np.empty((n, k), dtype=np.float32)
        )
        space = np.empty(candidates.max(initial=0), dtype=np.float32)
        place = np.empty(int(devices.max(initial=0)) ** 2, dtype=np.int64)
        known = scores.vocabulary, scores.companions, scores.inverse, scores.ease_scale, scores.weights
        best_candidates.best_of_homes(best, space, place, homes, *known, self.self_rules)
        kept = np.arange(k) < best.many[:, None]
        score = np.clip(best.score[kept], -LARGEST_SCORE, LARGEST_SCORE)  # a score is never infinite
        columns = (best.trigger[kept], best.action[kept], best.relation[kept])
        return TopK(np.repeat(np.arange(n), best.many), *columns, score)

    def _candidates(self, homes: Graphs) -> Array:
        """[n_homes]: valid rules between the devices of each home, including those that it has."""
        n_types, n_homes = self.scores.valid.n_types, len(homes.device_start) - 1
        home = np.repeat(np.arange(n_homes), np.diff(homes.device_start))
        owned = np.bincount(home * n_types + homes.type, minlength=n_homes * n_types).reshape(n_homes, n_types)
        valid = np.diff(self.scores.valid.start).reshape(n_types, n_types)
        return np.asarray(((owned @ valid) * owned).sum(axis=1))
