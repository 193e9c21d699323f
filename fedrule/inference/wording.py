"""A rule as a sentence for people, device names between asterisks: "When *Front door* opens, turn on *Hall light*".

The common words of smart homes and of app recipes have phrases (fedrule/inference/phrases.py); any other word is
quoted as it is, so that a sentence is right whatever the data say: When *Tank* reports "flush", let *Gate* do "yaw".
"""

from __future__ import annotations

import re
from functools import lru_cache

from fedrule.inference.phrases import ACTION_PATTERNS, ACTIONS, SPELLED, TRIGGER_PATTERNS, TRIGGERS, UNCOUNTED

DEVICE = "{}"  # its place in a phrase
MARK = "*"  # around the name of a device
BARE = frozenset(UNCOUNTED.split())
INSTEAD = "\N{ASTERISK OPERATOR}"  # of a mark that is in a name; looks the same


def sentence(trigger: str, state: str, action: str, device: str) -> str:
    """What a rule does; the devices by the names that people have for them."""
    before, between, after = template(state, action)
    return f"{before}{_named(trigger)}{between}{_named(device)}{after}"


@lru_cache(maxsize=1 << 15)
def template(state: str, action: str) -> tuple[str, str, str]:
    """What stands before, between and after the two names in every sentence of a relation, the marks included."""
    unsaid = f'{DEVICE} reports "{_quoted(state.removeprefix("device:"))}"'
    opening, _, clause = (_said(state, TRIGGERS, TRIGGER_PATTERNS) or unsaid).partition(DEVICE)
    unsaid = f'let {DEVICE} do "{_quoted(action)}"'
    order, _, rest = (_said(action, ACTIONS, ACTION_PATTERNS) or unsaid).partition(DEVICE)
    when = opening if opening[:1].isupper() else f"When {opening}"
    return f"{when}{MARK}", f"{MARK}{clause}, {order}{MARK}", f"{MARK}{rest}"


def _said(word: str, phrases: dict[str, str], patterns: tuple[tuple[str, str], ...]) -> str | None:
    """The phrase for a word of the data; nothing for a word that no phrase is known for."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word)  # MotionDetected
    key = re.sub(r"[\s_-]+", " ", spaced).strip().lower()
    domain, _, value = key.rpartition(":")
    for each in (key, value):
        if each in phrases:
            return phrases[each]
    text = value if domain == "device" else key
    if not re.fullmatch(r"(?:(?:state|event):)?[\w '.]+", text):  # what cannot go into a phrase as it is
        return None
    for pattern, phrase in patterns:
        if found := re.fullmatch(pattern, text):
            return _filled(phrase, found)
    return None


def _filled(phrase: str, found: re.Match[str]) -> str:
    """[x y] is what was found as x, or else as y; [a x] has the article that it needs."""

    def part(place: re.Match[str]) -> str:
        names = place[1].split()
        article = names[0] == "a"
        groups = found.groupdict()
        text = next(text for name in [*names[article:], "y"] if (text := groups.get(name)))
        return _spelled(f"{_article(text)}{text}" if article else text)

    return re.sub(r"\[([\w ]+)\]", part, phrase)


def _article(text: str) -> str:
    """For a thing that can be counted; "" before mass nouns, plurals and what has a determiner."""
    first = text.split()[0]
    if first in BARE or text.split()[-1] in BARE or (first.endswith("s") and not first.endswith("ss")):
        return ""
    return "an " if first[0] in "aeio" else "a "


def _spelled(text: str) -> str:
    return " ".join(SPELLED.get(word, word) for word in text.split(" "))


def _quoted(word: str) -> str:
    """As the data have it, but on one line and without what would end the quotation or mark a device."""
    text = " ".join("".join(c if c.isprintable() else " " for c in word).replace("_", " ").split())
    return text.replace('"', "'").replace(MARK, INSTEAD).replace(DEVICE, "{ }") or "?"


def _named(name: str) -> str:
    if name and MARK not in name and name.isprintable() and not name.isspace():
        return name
    text = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return text.replace(MARK, INSTEAD) or "?"
