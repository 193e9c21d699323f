"""The part of homes that a model knows: devices of its types and rules of its relations, in its numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Rules
from fedrule.models.card import Card


class KnownPart(NamedTuple):
    """Homes in a model's vocabulary, and the device of the given homes that each of theirs is."""

    homes: Homes
    device_start: Array  # [n_homes + 1]  of `homes`, worked out once
    rule_start: Array  # [n_homes + 1]
    device: Array  # [n_devices of `homes`]
    ignored_devices: int
    ignored_rules: int

    def run(self, first: int, last: int) -> Homes:
        """The homes from one number to before another; where they stand next to each other, this is quick."""
        homes, rules = self.homes, self.homes.rules
        devices = slice(self.device_start[first], self.device_start[last])
        some = slice(self.rule_start[first], self.rule_start[last])
        return replace(
            homes,
            users=homes.users[first:last],
            device_home=homes.device_home[devices] - first,
            device_type=homes.device_type[devices],
            device_ids=homes.device_ids[devices],
            rules=Rules(
                rules.home[some] - first,
                rules.trigger[some] - devices.start,
                rules.action[some] - devices.start,
                rules.relation[some],
            ),
        )


def known_part(homes: Homes, card: Card) -> KnownPart:
    """All homes stay; devices and rules that the model never saw are left out and counted."""
    kind = numbers_of(homes.types, card.types)[homes.device_type]
    relation = numbers_of(homes.relations, card.relations)[homes.rules.relation]
    kept = kind >= 0
    place = np.cumsum(kept) - 1
    rules = homes.rules
    usable = (relation >= 0) & kept[rules.trigger] & kept[rules.action]
    part = replace(
        homes,
        types=card.types,
        relations=card.relations,
        device_home=homes.device_home[kept],
        device_type=kind[kept],
        device_ids=homes.device_ids[kept],
        rules=Rules(rules.home[usable], place[rules.trigger[usable]], place[rules.action[usable]], relation[usable]),
        provenance=homes.provenance.derived(),
    )
    lost = int(np.count_nonzero(~kept)), int(np.count_nonzero(~usable))
    return KnownPart(part, part.device_start, part.rule_start, np.flatnonzero(kept), *lost)


def refuse_unknown(homes: Homes, card: Card) -> None:
    """An error for words of homes that are in use and that the model never saw."""
    used: dict[str, tuple[Sequence[Hashable], set[Any]]] = {
        "type": ([homes.types[number] for number in np.unique(homes.device_type)], set(card.types)),
        "relation": ([homes.relations[number] for number in np.unique(homes.rules.relation)], set(card.relations)),
    }
    for kind, (words, known) in used.items():
        if strange := [str(word) for word in words if word not in known]:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise DataError(
                f"{homes.name}: the model never saw the {kind} {', '.join(strange[:3])}{more}; let what is unknown be "
                "ignored (unknown='ignore', on the command line --ignore-unknown), or train on homes that have it"
            )


def numbers_of(words: Sequence[Hashable], known: Sequence[Hashable]) -> Array:
    """The place of each word among the known ones, -1 without one."""
    place = {word: number for number, word in enumerate(known)}
    return np.array([place.get(word, -1) for word in words], dtype=np.int64)
