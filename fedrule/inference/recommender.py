"""What an app asks: which automation should this home set up next?

recommender = Recommender.load("model.safetensors")
for rule in recommender.recommend(AskedHome.read("home.json"), k=10).rules:
    ...  # rule.text, rule.probability, rule.why.text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from datasets.candidates import Pairs
from datasets.errors import DataError
from datasets.homes import Homes
from datasets.view import Home
from fedrule.inference.asked_home import AskedHome
from fedrule.inference.card import Card
from fedrule.inference.graph import Found, Matrix, Scores, nothing
from fedrule.inference.known_part import known_part, refuse_unknown
from fedrule.inference.model_file import SavedModel
from fedrule.inference.numbered_home import NumberedHome, Numbers, Unknown, refuse_other_ways
from fedrule.inference.ranked import Ranked
from fedrule.inference.recommendation import Recommendation, Recommendations, Support
from fedrule.inference.searches import search_of
from fedrule.inference.wording import sentence

PAIRS_AT_ONCE = 1 << 15  # device pairs of the homes that are searched together; each has tens of valid relations


class Recommender:
    """A model ready to answer; nothing in it changes, so that many threads may ask it at once."""

    def __init__(self, saved: SavedModel) -> None:
        self.card: Card = saved.card
        self.digest = saved.digest
        self.valid = saved.valid
        self._search = search_of(saved)
        self._numbers = Numbers.of(saved.card.types, saved.card.relations)
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

    def recommend(self, home: AskedHome | Home, k: int = 10, *, unknown: Unknown = "refuse") -> Recommendations:
        """The `k` best rules that the home lacks and can carry out; fewer where there are fewer.

        `unknown` says whether devices and rules with words that the model never saw are refused or left out.
        """
        _refuse_no_list(k)
        asked = AskedHome.of_home(home) if isinstance(home, Home) else home
        numbered = self._numbers.numbered(asked, unknown)
        found = self._search.one(numbered.graph, k) if numbered.devices else nothing()
        return Recommendations(tuple(self._spelled(numbered, found)), numbered.ignored)

    def recommend_many(
        self,
        homes: Homes,
        k: int = 10,
        *,
        unknown: Unknown = "refuse",
        jobs: int = 1,
        on_homes: Callable[[int], object] | None = None,  # told how many more homes are done
    ) -> Ranked:
        """The lists of all homes; the same as asking one after the other, and many times faster."""
        _refuse_no_list(k)
        refuse_other_ways(unknown)
        if jobs < 1:
            raise DataError(f"jobs {jobs}: use 1 or more")
        if unknown == "refuse":
            refuse_unknown(homes, self.card)
        part = known_part(homes, self.card)
        start = part.homes.device_start

        def search(run: tuple[int, int]) -> Found:
            first, last = run
            found = self._search.many(part.homes.subset(np.arange(first, last)), k)
            trigger, action = (part.device[start[first] + device] for device in (found.trigger, found.action))
            return found._replace(home=found.home + first, trigger=trigger, action=action)

        pieces, runs = [nothing()], list(Pairs.of(part.homes, self_pairs=True).runs(PAIRS_AT_ONCE))
        with ThreadPoolExecutor(jobs) as pool:
            for (first, last), found in zip(runs, pool.map(search, runs), strict=True):
                pieces.append(found)
                if on_homes is not None:
                    on_homes(last - first)
        home, trigger, action, relation, score = (np.concatenate(column) for column in zip(*pieces, strict=True))
        rank = np.arange(len(home)) - np.searchsorted(home, home) + 1
        lost = part.ignored_devices, part.ignored_rules
        return Ranked(
            homes, self.card.relations, home, rank, trigger, action, relation, self._probability(score), *lost
        )

    def _probability(self, score: Scores) -> Matrix:
        with np.errstate(over="ignore"):
            odds = self.card.scale.slope * score.astype(np.float64) + self.card.scale.offset
            return np.asarray(1 / (1 + np.exp(-odds)))

    def _spelled(self, home: NumberedHome, found: Found) -> Iterator[Recommendation]:
        """Numbers in words."""
        graph, types = home.graph, self.card.types
        trigger_type, action_type = graph.device_type[found.trigger], graph.device_type[found.action]
        pair = trigger_type * len(types) + action_type
        have = self._have[self.valid.number_of_cells(pair * self.valid.n_relations + found.relation)]
        both = self._both[pair]
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
                sentence(device.called, state, act, acts.called),
                Support(rule, could, types[kind], types[other]),
            )


def _refuse_no_list(k: int) -> None:
    if type(k) is not int or k < 1:  # True is no number
        raise DataError(f"k {k!r}: ask for 1, 2, 3, ... recommendations")
