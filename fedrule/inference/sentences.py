"""A rule as a sentence, device names between asterisks: "When *Front door* opens, turn on *Hall light*".

Common triggers and actions of smart homes and of app recipes have phrases, families of them patterns (phrases.toml);
any other is quoted, so that a sentence is right whatever the data contain: When *Tank* reports "flush", let *Gate* do
"yaw". A trigger's phrase follows "When", unless it begins with a capital letter; {} is the device. Words are compared
in lower case with spaces for - and _, so that "Turned On", "turned_on" and "turned-on" are equal. In a pattern, [a x]
is "x" with its article if it needs one, and [x] is "x" unchanged.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

DEVICE = "{}"  # the place of a device in a phrase
MARK = "*"  # around the name of a device
ESCAPED = "\N{ASTERISK OPERATOR}"  # replaces a mark in a name; looks the same


class _Phrases(NamedTuple):
    """The phrases of triggers or of actions."""

    by_word: dict[str, str]
    patterns: list[tuple[str, str]]  # and their phrases


class _Wording(NamedTuple):
    """The content of phrases.toml."""

    triggers: _Phrases
    triggers_by_type: dict[str, dict[str, str]]  # entity type, word: phrase
    actions: _Phrases
    uncounted: frozenset[str]
    spelled: dict[str, str]


@cache
def _wording() -> _Wording:
    content = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))
    triggers, actions = (
        _Phrases({word: phrase for phrase, words in kind["phrases"].items() for word in words}, kind["patterns"])
        for kind in (content["triggers"], content["actions"])
    )
    by_type = content["triggers"]["by_type"]
    return _Wording(triggers, by_type, actions, frozenset(content["uncounted"].split()), content["spelled"])


def sentence(trigger: str, state: str, action: str, device: str, *, trigger_type: str = "") -> str:
    """What a rule does; devices by their display names. With its type, a contact sensor opens and does not turn on."""
    before, between, after = template(state, action, trigger_type)
    return f"{before}{_named(trigger)}{between}{_named(device)}{after}"


def without_marks(text: str) -> str:
    """A sentence for where names need no mark."""
    return text.replace(MARK, "")


@lru_cache(maxsize=1 << 15)
def template(state: str, action: str, trigger_type: str = "") -> tuple[str, str, str]:
    """The text before, between and after the two names in every sentence of a relation, marks included."""
    default = f'{DEVICE} reports "{_quoted(state.removeprefix("device:"))}"'
    of_type = _wording().triggers_by_type.get(trigger_type, {}).get(state)
    opening, _, clause = (of_type or _phrase(state, _wording().triggers) or default).partition(DEVICE)
    default = f'let {DEVICE} do "{_quoted(action)}"'
    order, _, rest = (_phrase(action, _wording().actions) or default).partition(DEVICE)
    when = opening if opening[:1].isupper() else f"When {opening}"
    return f"{when}{MARK}", f"{MARK}{clause}, {order}{MARK}", f"{MARK}{rest}"


def _phrase(word: str, phrases: _Phrases) -> str | None:
    """The phrase for a trigger or an action; None if there is none."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word)  # MotionDetected
    key = re.sub(r"[\s_-]+", " ", spaced).strip().lower()
    domain, _, value = key.rpartition(":")
    for each in (key, value):
        if each in phrases.by_word:
            return phrases.by_word[each]
    text = value if domain == "device" else key
    if not re.fullmatch(r"(?:(?:state|event):)?[\w '.]+", text):  # cannot be part of a phrase unquoted
        return None
    for pattern, phrase in phrases.patterns:
        if found := re.fullmatch(pattern, text):
            return _filled(phrase, found)
    return None


def _filled(phrase: str, found: re.Match[str]) -> str:
    """Fill in a pattern's groups: [x y] is group x, or else y; [a x] adds the article."""

    def part(place: re.Match[str]) -> str:
        names = place[1].split()
        article = names[0] == "a"
        groups = found.groupdict()
        text = next(text for name in [*names[article:], "y"] if (text := groups.get(name)))
        return _spelled(f"{_article(text)}{text}" if article else text)

    return re.sub(r"\[([\w ]+)\]", part, phrase)


def _article(text: str) -> str:
    """For a countable noun; empty for mass nouns, plurals and words with a determiner."""
    first, uncounted = text.split()[0], _wording().uncounted
    if first in uncounted or text.split()[-1] in uncounted or (first.endswith("s") and not first.endswith("ss")):
        return ""
    return "an " if first[0] in "aeio" else "a "


def _spelled(text: str) -> str:
    return " ".join(_wording().spelled.get(word, word) for word in text.split(" "))


def _quoted(word: str) -> str:
    """On one line, without characters that would end the quotation or mark a device."""
    text = " ".join("".join(c if c.isprintable() else " " for c in word).replace("_", " ").split())
    return text.replace('"', "'").replace(MARK, ESCAPED).replace(DEVICE, "{ }") or "?"


def _named(name: str) -> str:
    if name and MARK not in name and name.isprintable() and not name.isspace():
        return name
    text = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return text.replace(MARK, ESCAPED) or "?"
