"""Recommendations from a saved model: for one home, or for many at once.

recommender = Recommender.load("model.safetensors")
for rule in recommender.recommend(HomeRequest.read("home.json"), k=10).rules:
    ...  # rule.text, rule.probability, rule.why.text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from baselines.method import Scores
from datasets.candidates import Pairs
from datasets.common.errors import DataError, install_hint
from datasets.homes import Array, Home, Homes
from fedrule.inference.encode import (
    EncodedHome,
    HomeEncoder,
    KnownHomes,
    Unknown,
    check_unknown,
    known_homes,
    positions,
    refuse_unknown,
)
from fedrule.inference.network import Matrix, NumpyNetwork, is_network_alone
from fedrule.inference.network_search import NetworkSearch
from fedrule.inference.output import RankedLists, Recommendation, Recommendations, Support
from fedrule.inference.request import HomeRequest, Id, RequestDevice, display_names
from fedrule.inference.search import DiverseSearch, ScorerSearch, Search, SomeDevices, TopK
from fedrule.inference.sentences import sentence
from fedrule.models.card import Card
from fedrule.models.file import SavedModel

PAIRS_AT_ONCE = 1 << 15  # device pairs of the homes that are searched together; each has tens of valid relations


def is_evidence_alone(options: Mapping[str, Any]) -> bool:
    """Whether a model with these options scores by the evidence network and nothing else."""
    others = options["hidden"] or options["context"] or options["bias"] != "none"
    return bool(options["evidence"]) and not others and options.get("non_rules", "paper") != "paper"


def search_of(saved: SavedModel) -> Search:
    """The fastest search for a model; torch is imported only if it is needed."""
    card = saved.card
    if is_network_alone(saved):
        return NetworkSearch(NumpyNetwork.of(saved), saved.self_rules)
    if is_evidence_alone(card.options):
        try:
            from fedrule.inference.evidence_search import EvidenceSearch
        except ModuleNotFoundError as error:
            raise DataError(f"a model of {card.method} needs {install_hint('infer')} ({error})") from None
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            raise DataError(
                f"a model of {card.method} has compiled loops, and there is no folder that they can be kept in; "
                "set NUMBA_CACHE_DIR to one that can be written to"
            ) from None
        return EvidenceSearch.of(saved)
    from fedrule.models.restore import restored

    model = restored(saved)
    answered = model.scorer.valid  # a method may not learn all that its homes have
    self_rules = saved.self_rules[saved.valid.number_of_cells(answered.cell)]
    return ScorerSearch(model, answered, self_rules, card.types, card.relations)


def needs_method(saved: SavedModel) -> bool:
    """Whether the search for a model needs the module of its method, and torch."""
    return not (is_network_alone(saved) or is_evidence_alone(saved.card.options))


def _together(known: KnownHomes) -> list[tuple[int, int]]:
    """Ranges (first, end) of homes that are searched together."""
    return list(Pairs.of(known.homes, self_pairs=True).runs(PAIRS_AT_ONCE))


class Recommender:
    """A loaded model; immutable, so that many threads may use it at once."""

    def __init__(self, saved: SavedModel) -> None:
        self.card: Card = saved.card
        self.digest = saved.digest
        self.valid = saved.valid
        self._search = search_of(saved)
        self._encoder = HomeEncoder(saved.card)
        self._have, self._both = (saved.arrays[f"counts.{name}"] for name in ("have", "both"))

    @classmethod
    def load(cls, path: Path | str) -> Recommender:
        """From a file that `fedrule.train` has saved; a wrong, truncated or altered one is a `DataError`."""
        return cls.of(SavedModel.load(path), path)

    @classmethod
    def of(cls, saved: SavedModel, path: Path | str) -> Recommender:
        """Of a model from this file, which errors name."""
        try:
            return cls(saved)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @property
    def method(self) -> str:
        """Its name in the registry."""
        return self.card.method

    def __repr__(self) -> str:
        return f"<Recommender of {self.method}: {len(self.valid):,} valid rules, {self.digest[:12]}>"

    def recommend(
        self,
        home: HomeRequest | Home | Mapping[str, object],  # a mapping as JSON has it
        k: int = 10,
        *,
        unknown: Unknown = "refuse",
        max_similar: int = 0,
        inside: Set[Id] | None = None,
    ) -> Recommendations:
        """The `k` best rules that the home lacks and can carry out; fewer where there are fewer.

        `unknown` says whether devices and rules that the model does not know are refused or ignored. `max_similar` is
        the most rules of one relation between devices of the same types; 0: no limit. `inside` are the ids of devices
        of which a rule must have at least one; None: any.
        """
        search = self._search_for(k, max_similar)
        if not isinstance(home, HomeRequest):
            home = HomeRequest.from_home(home) if isinstance(home, Home) else HomeRequest.from_json(home)
        encoded = self._encoder.encode(home, unknown)
        one = search.one
        if inside is not None:
            wanted = np.array([device.id in inside for device in encoded.devices], dtype=np.bool_)
            one = SomeDevices(search, wanted).one
        found = one(encoded.graph, k) if encoded.devices else TopK.empty()
        return Recommendations(tuple(self._in_words(encoded, found)), encoded.ignored)

    def warm_up(self) -> None:
        """Answer for a home of one device: loads what a process that has the model from another one lacks."""
        self.recommend(HomeRequest([RequestDevice(0, name) for name in self.card.types[:1]]), 1)

    def check(self, k: int, max_similar: int) -> None:
        """Raise unless lists can be made with these options; for work that is to be prepared first."""
        self._search_for(k, max_similar)

    def recommend_many(
        self,
        homes: Homes,
        k: int = 10,
        *,
        unknown: Unknown = "refuse",
        max_similar: int = 0,
        jobs: int = 1,
        on_homes: Callable[[int], object] | None = None,  # called with how many more homes are done
    ) -> RankedLists:
        """The lists of all homes; the same as `recommend` for each of them, and many times faster."""
        many = self._search_for(k, max_similar).many
        if jobs < 1:
            raise DataError(f"jobs must be at least 1, got {jobs}")
        known = self._known(homes, unknown)

        def search(run: tuple[int, int]) -> TopK:
            first, last = run
            found = many(known.slice(first, last), k)
            trigger, action = (
                known.device[known.device_start[first] + device] for device in (found.trigger, found.action)
            )
            return found._replace(home=found.home + first, trigger=trigger, action=action)

        pieces, runs = [TopK.empty()], _together(known)
        with ThreadPoolExecutor(jobs) as pool:
            for (first, last), found in zip(runs, pool.map(search, runs), strict=True):
                pieces.append(found)
                if on_homes is not None:
                    on_homes(last - first)
        home, trigger, action, relation, score = TopK.concatenate(pieces)
        types = positions(homes.types, self.card.types)[homes.device_type]
        return RankedLists(
            homes,
            self.card.relations,
            home,
            rank=np.arange(len(home)) - np.searchsorted(home, home) + 1,
            trigger=trigger,
            action=action,
            relation=relation,
            probability=self._probability(score),
            support=self._support(types[trigger], types[action], relation),
            ignored_devices=known.ignored_devices,
            ignored_rules=known.ignored_rules,
        )

    def batches(self, homes: Homes, searches: int, *, unknown: Unknown = "refuse") -> Iterator[Homes]:
        """The homes in parts of which `recommend_many` gives what it gives for all of them, bit for bit.

        Homes that are searched together stay together, as many `searches` in each part: their scores come from the
        same matrix products, whose last bits may depend on the number of rows. No homes are one part, as they have
        lists too.
        """
        together = _together(self._known(homes, unknown)) or [(0, 0)]
        for at in range(0, len(together), searches):
            part = together[at : at + searches]
            yield homes.subset(np.arange(part[0][0], part[-1][1]))

    def _known(self, homes: Homes, unknown: Unknown) -> KnownHomes:
        check_unknown(unknown)
        if unknown == "refuse":
            refuse_unknown(homes, self.card)
        return known_homes(homes, self.card)

    def _search_for(self, k: int, max_similar: int) -> Search:
        if type(k) is not int or k < 1:  # a bool is not a number
            raise DataError(f"k must be an integer of at least 1, got {k!r}")
        if type(max_similar) is not int or max_similar < 0:
            raise DataError(f"max_similar must be an integer of at least 0 (0: no limit), got {max_similar!r}")
        if not max_similar:
            return self._search
        return DiverseSearch(self._search, self.valid.n_types, self.valid.n_relations, max_similar)

    def _support(self, trigger_type: Array, action_type: Array, relation: Array) -> tuple[Array, Array]:
        """Homes with each typed rule, and homes that own devices of both types."""
        pair = trigger_type * self.valid.n_types + action_type
        number = self.valid.number_of_cells(pair * self.valid.n_relations + relation)
        return self._have[number], self._both[pair]

    def _probability(self, score: Scores) -> Matrix:
        with np.errstate(over="ignore"):
            odds = self.card.scale.slope * score.astype(np.float64) + self.card.scale.offset
            return np.asarray(1 / (1 + np.exp(-odds)))

    def _in_words(self, home: EncodedHome, found: TopK) -> Iterator[Recommendation]:
        graph, types = home.graph, self.card.types
        trigger_type, action_type = graph.device_type[found.trigger], graph.device_type[found.action]
        have, both = self._support(trigger_type, action_type, found.relation)
        numbers = (found.trigger, found.action, found.relation, trigger_type, action_type, have, both)
        rows = zip(*(column.tolist() for column in numbers), self._probability(found.score).tolist(), strict=True)
        names = display_names(home.devices)
        for rank, (trigger, action, relation, kind, other, rule, could, probability) in enumerate(rows, start=1):
            device, acts, (state, act) = home.devices[trigger], home.devices[action], self.card.relations[relation]
            yield Recommendation(
                rank,
                device.id,
                state,
                act,
                acts.id,
                probability,
                sentence(names[trigger], state, act, names[action], trigger_type=types[kind]),
                Support(rule, could, types[kind], types[other]),
            )
