"""Words of the names that people give their devices: which devices of a home share one, mostly a room.

A word is a token of the name ("Kitchen lamp 2": kitchen, lamp, 2), or two in a row, or the room that is given. Left
out are words that say what a device is (device_words.toml, and the tokens of its home's entity types), words of a
single device, which join nothing, and words of more than half of the home's devices, which tell none apart. Words are
numbers within their home: no text leaves this module, and none is kept in it.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import compress, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Mask, Words, starts

TOKEN = re.compile("[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")  # "HallTV2" is hall, tv, 2
POSSESSIVE = re.compile("['\u2019]s\\b", re.IGNORECASE)
ACCENT = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; marks of other scripts are part of the letter
ENDING, STEM = 4, 3  # least letters of the device word at the end of a compound, and of what is before it
LONGEST_ENDING, TOKENS = 20, 16  # letters of an ending and tokens that are read: bound the work for a hostile name


class Vocabulary(NamedTuple):
    """Words that do not say where a device is."""

    device: frozenset[str]  # what a device is, does or measures, and who made it
    endings: frozenset[str]  # those that end compounds, as in "Flurlicht"
    last_letters: frozenset[str]  # of the endings: most tokens end otherwise and are not searched
    places: frozenset[str]  # that end like one and are none
    empty: frozenset[str]  # "the", "of"


@cache
def vocabulary() -> Vocabulary:
    """The lists of device_words.toml."""
    lists = tomllib.loads(Path(__file__).with_name("device_words.toml").read_text("utf-8"))
    device, places, empty = (
        frozenset(_normalized(word) for words in lists[kind].values() for word in words.split())
        for kind in ("device", "place", "empty")
    )
    endings = frozenset(word for word in device if len(word) >= ENDING or not word.isascii())
    return Vocabulary(device, endings, frozenset(ending[-2:] for ending in endings), places, empty)


def words_of_names(
    names: Sequence[str], *, rooms: Sequence[str] | None = None, types: Sequence[str] = ()
) -> list[tuple[int, ...]]:
    """The words of each device of one home, from its name and, if given, its room; "" where it has none.

    Numbers are those of first appearance. `types` are the entity types of the home, in any order.
    """
    if rooms is not None and len(rooms) != len(names):
        raise DataError(f"{len(names):,} names of devices but {len(rooms):,} rooms")
    of_types = frozenset(token for name in set(types) for token in tokens(name))
    found = [
        dict.fromkeys([*_phrases(name, of_types), *_room(room)])  # each once, in order
        for name, room in zip(names, [""] * len(names) if rooms is None else rooms, strict=True)
    ]
    count = Counter(phrase for phrases in found for phrase in phrases)
    kept = tells_apart(np.array(list(count.values()), dtype=np.int64), len(names))
    number = {phrase: at for at, phrase in enumerate(compress(count, kept.tolist()))}
    return [tuple(sorted(number[phrase] for phrase in phrases if phrase in number)) for phrases in found]


def tells_apart(devices: Array, n_devices: Array | int) -> Mask:
    """[n_words]: whether a word of so many of a home's devices is kept: of several, and of at most half of them."""
    return (devices >= 2) & (2 * devices <= n_devices)


def words_of_homes(
    device_home: Array, names: Sequence[str], *, rooms: Sequence[str] | None = None, types: Sequence[str] | None = None
) -> Words:
    """The same for the devices of many homes, sorted by home; `rooms` and `types` are one for each device, if given."""
    for what, given in (("names", names), ("rooms", rooms), ("types", types)):
        if given is not None and len(given) != len(device_home):
            raise DataError(f"{len(device_home):,} devices but {len(given):,} {what}")
    device: list[int] = []
    word: list[int] = []
    n_homes = int(device_home[-1]) + 1 if len(device_home) else 0
    for first, last in pairwise(starts(device_home, n_homes).tolist()):
        here = slice(first, last)
        known = words_of_names(
            names[here], rooms=None if rooms is None else rooms[here], types=() if types is None else types[here]
        )
        for place, numbers in enumerate(known, first):
            device += [place] * len(numbers)
            word += numbers
    return Words(np.array(device, dtype=np.int64), np.array(word, dtype=np.int64))


def tokens(name: str) -> list[str]:
    """A name cut at spaces, punctuation, underscores, digits and camel case; without case and accents."""
    if name.isascii():
        whole = POSSESSIVE.sub("", name) if "'" in name else name
        return [token.lower() for token in TOKEN.findall(whole)]
    name = POSSESSIVE.sub("", unicodedata.normalize("NFKC", name))
    kinds = "".join(map(_kind, name))  # cut by the same pattern as ASCII
    return [_normalized(name[match.start() : match.end()]) for match in TOKEN.finditer(kinds)]


def _kind(character: str) -> str:
    """A for an upper-case letter, a for another one or a part of it, 0 for a digit, and a space."""
    category = unicodedata.category(character)
    if category in ("Lu", "Lt"):
        return "A"
    return {"L": "a", "M": "a", "N": "0"}.get(category[0], " ")


def _normalized(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", ACCENT.sub("", folded))


def _phrases(name: str, of_types: frozenset[str]) -> Iterator[str]:
    """The words of a name: tokens, and two in a row, neither of which says what the device is."""
    known = vocabulary()
    before, named = "", False  # the token before and whether it is a word by itself
    for full in tokens(name)[:TOKENS]:
        if full in known.empty:
            continue
        token = "" if full in of_types else _without_device(full, known)
        alone = bool(token) and not _is_number(token)
        if alone:
            yield token
        if before and token and (named or alone):
            yield f"{before} {token}"
        before, named = token, alone


def _room(room: str) -> list[str]:
    """A room is one word, the same as that of a name with these tokens."""
    said = " ".join(tokens(room)) or _normalized(room.strip())
    return [said] if said else []


def _without_device(token: str, known: Vocabulary) -> str:
    """A token without a device word at its end; "" if nothing else is in it."""
    if token in known.device:
        return ""
    if (token[-2:] in known.last_letters or not token.isascii()) and token not in known.places:
        least = STEM if token.isascii() else 1
        for cut in range(max(least, len(token) - LONGEST_ENDING), len(token)):  # the longest ending first
            if token[cut:] in known.endings:
                return "" if token[:cut] in known.device else token[:cut]
    return token


def _is_number(token: str) -> bool:
    """A number or a single Latin letter: nothing by itself, but "bedroom 2" is something."""
    return token.isdecimal() or (len(token) == 1 and token.isascii())
