"""What an app asks: which automation should this home set up next?

recommender = Recommender.load("model.safetensors")
for rule in recommender.recommend(HomeRequest.read("home.json"), k=10).rules:
    ...  # rule.text, rule.probability, rule.why.text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets.candidates import Pairs
from datasets.common.errors import DataError
from datasets.homes import Array, Home, Homes, Mask
from fedrule.inference.encode import (
    EncodedHome,
    Graph,
    HomeEncoder,
    Matrix,
    Scores,
    Search,
    TopK,
    Unknown,
    known_homes,
    no_candidates,
    numbers_of,
    refuse_other_ways,
    refuse_unknown,
)
from fedrule.inference.output import Ranked, Recommendation, Recommendations, Support
from fedrule.inference.request import HomeRequest
from fedrule.inference.search import search_of
from fedrule.inference.sentences import sentence
from fedrule.models.card import Card
from fedrule.models.file import SavedModel

# --- Lists that do not say the same thing over and over: few rules of one kind, the best ones.
#
# Rules are of one kind where the relation and both types agree. A house with five door sensors and six lamps could fill a
# list with one door switching on one lamp, in thirty ways.

FURTHER = 4  # times as many candidates are asked for, and again, until enough of them differ


@dataclass(frozen=True, slots=True, eq=False)
class Diversified:
    """A search with at most `max_similar` rules of one kind in the list of a home."""

    search: Search
    n_types: int
    n_relations: int
    max_similar: int

    def one(self, graph: Graph, k: int) -> TopK:
        asked = FURTHER * k
        while True:
            found = self.search.one(graph, asked)
            kept = np.flatnonzero(self._kept(found, graph.device_type))
            if len(kept) >= k or len(found.home) < asked:
                return found.take(kept[:k])
            asked *= FURTHER

    def many(self, homes: Homes, k: int) -> TopK:
        asked, pending, pieces = FURTHER * k, np.arange(homes.n_homes), [no_candidates()]
        while len(pending):
            some = homes.subset(pending)
            found = self.search.many(some, asked)
            kept = self._kept(found, some.device_type)
            many = np.bincount(found.home[kept], minlength=len(pending))
            done = (many >= k) | (np.bincount(found.home, minlength=len(pending)) < asked)
            kept &= done[found.home]
            kept &= _rank(found.home, kept) < k
            pieces.append(_within(found.take(kept), some, homes, pending))
            asked, pending = FURTHER * asked, pending[~done]
        whole = TopK.concatenate(pieces)
        return whole.take(np.argsort(whole.home, kind="stable"))

    def _kept(self, found: TopK, device_type: Array) -> Mask:
        """The first few of each kind in each home."""
        pair = device_type[found.trigger] * self.n_types + device_type[found.action]
        kind = (found.home * self.n_types**2 + pair) * self.n_relations + found.relation
        order = np.argsort(kind, kind="stable")
        kept = np.empty(len(kind), dtype=bool)
        kept[order] = np.arange(len(kind)) - np.searchsorted(kind[order], kind[order]) < self.max_similar
        return kept


def _rank(home: Array, kept: Mask) -> Array:
    """How many of its home are kept before each."""
    before: Array = np.cumsum(kept) - kept
    return before - before[np.searchsorted(home, home)]


def _within(found: TopK, some: Homes, homes: Homes, chosen: Array) -> TopK:
    """Homes and devices by their numbers among all homes."""
    shift = (homes.device_start[chosen] - some.device_start[:-1])[found.home]
    return found._replace(home=chosen[found.home], trigger=found.trigger + shift, action=found.action + shift)


PAIRS_AT_ONCE = 1 << 15  # device pairs of the homes that are searched together; each has tens of valid relations


class Recommender:
    """A model ready to answer; nothing in it changes, so that many threads may ask it at once."""

    def __init__(self, saved: SavedModel) -> None:
        self.card: Card = saved.card
        self.digest = saved.digest
        self.valid = saved.valid
        self._search = search_of(saved)
        self._numbers = HomeEncoder.of(saved.card.types, saved.card.relations)
        self._have, self._both = (saved.arrays[f"counts.{name}"] for name in ("have", "both"))

    @classmethod
    def load(cls, path: Path | str) -> Recommender:
        """From a file that `fedrule.train` has saved; a wrong, cut off or altered one is a `DataError`."""
        try:
            return cls(SavedModel.load(path))
        except DataError as error:
            raise error if str(error).startswith(str(path)) else DataError(f"{path}: {error}") from None

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
    ) -> Recommendations:
        """The `k` best rules that the home lacks and can carry out; fewer where there are fewer.

        `unknown` says whether devices and rules with words that the model never saw are refused or left out, `max_similar`
        how many rules of one relation between devices of the same types there may be; 0: any number.
        """
        search = self._varied(k, max_similar)
        numbered = self._numbers.numbered(_asked(home), unknown)
        found = search.one(numbered.graph, k) if numbered.devices else no_candidates()
        return Recommendations(tuple(self._spelled(numbered, found)), numbered.ignored)

    def recommend_many(
        self,
        homes: Homes,
        k: int = 10,
        *,
        unknown: Unknown = "refuse",
        max_similar: int = 0,
        jobs: int = 1,
        on_homes: Callable[[int], object] | None = None,  # told how many more homes are done
    ) -> Ranked:
        """The lists of all homes; the same as asking one after the other, and many times faster."""
        many = self._varied(k, max_similar).many
        refuse_other_ways(unknown)
        if jobs < 1:
            raise DataError(f"jobs {jobs}: use 1 or more")
        if unknown == "refuse":
            refuse_unknown(homes, self.card)
        part = known_homes(homes, self.card)

        def search(run: tuple[int, int]) -> TopK:
            first, last = run
            found = many(part.run(first, last), k)
            trigger, action = (
                part.device[part.device_start[first] + device] for device in (found.trigger, found.action)
            )
            return found._replace(home=found.home + first, trigger=trigger, action=action)

        pieces, runs = [no_candidates()], list(Pairs.of(part.homes, self_pairs=True).runs(PAIRS_AT_ONCE))
        with ThreadPoolExecutor(jobs) as pool:
            for (first, last), found in zip(runs, pool.map(search, runs), strict=True):
                pieces.append(found)
                if on_homes is not None:
                    on_homes(last - first)
        home, trigger, action, relation, score = TopK.concatenate(pieces)
        kind = numbers_of(homes.types, self.card.types)[homes.device_type]
        return Ranked(
            homes,
            self.card.relations,
            home,
            rank=np.arange(len(home)) - np.searchsorted(home, home) + 1,
            trigger=trigger,
            action=action,
            relation=relation,
            probability=self._probability(score),
            support=self._support(kind[trigger], kind[action], relation),
            ignored_devices=part.ignored_devices,
            ignored_rules=part.ignored_rules,
        )

    def _varied(self, k: int, max_similar: int) -> Search:
        """The search for a list of this length and variety."""
        if type(k) is not int or k < 1:  # True is no number
            raise DataError(f"k {k!r}: ask for 1, 2, 3, ... recommendations")
        if type(max_similar) is not int or max_similar < 0:
            raise DataError(f"max_similar {max_similar!r}: allow 1, 2, 3, ... rules of one kind, or 0 for any number")
        if not max_similar:
            return self._search
        return Diversified(self._search, self.valid.n_types, self.valid.n_relations, max_similar)

    def _support(self, trigger_type: Array, action_type: Array, relation: Array) -> tuple[Array, Array]:
        """Homes with each typed rule, and homes that own devices of both types."""
        pair = trigger_type * self.valid.n_types + action_type
        number = self.valid.number_of_cells(pair * self.valid.n_relations + relation)
        return self._have[number], self._both[pair]

    def _probability(self, score: Scores) -> Matrix:
        with np.errstate(over="ignore"):
            odds = self.card.scale.slope * score.astype(np.float64) + self.card.scale.offset
            return np.asarray(1 / (1 + np.exp(-odds)))

    def _spelled(self, home: EncodedHome, found: TopK) -> Iterator[Recommendation]:
        """HomeEncoder in words."""
        graph, types = home.graph, self.card.types
        trigger_type, action_type = graph.device_type[found.trigger], graph.device_type[found.action]
        have, both = self._support(trigger_type, action_type, found.relation)
        numbers = (found.trigger, found.action, found.relation, trigger_type, action_type, have, both)
        rows = zip(*(column.tolist() for column in numbers), self._probability(found.score).tolist(), strict=True)
        for rank, (trigger, action, relation, kind, other, rule, could, probability) in enumerate(rows, start=1):
            device, acts, (state, act) = home.devices[trigger], home.devices[action], self.card.relations[relation]
            yield Recommendation(
                rank,
                device.id,
                state,
                act,
                acts.id,
                probability,
                sentence(device.display_name, state, act, acts.display_name),
                Support(rule, could, types[kind], types[other]),
            )


def _asked(home: HomeRequest | Home | Mapping[str, object]) -> HomeRequest:
    if isinstance(home, HomeRequest):
        return home
    return HomeRequest.from_home(home) if isinstance(home, Home) else HomeRequest.from_json(home)
