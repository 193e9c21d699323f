"""What the words of entity types, states and actions say: which labels share a word, and which are opposites.

A stand-in for an ontology, which these data do not have. "OutdoorPlug" and "Plug" share a word; "Power On" is the
opposite of "Power Off", and "Motion" of "No Motion".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from datasets.homes import Array

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")  # parts of CamelCase and of snake_case too
NEGATIONS = frozenset({"no", "not"})
# A word on the left is the opposite of any word on the right; forms of one word stand together.
OPPOSITES: tuple[tuple[str, str], ...] = (
    ("on", "off"),
    ("open opens opened opening", "close closes closed closing"),
    ("lock locks locked locking", "unlock unlocks unlocked unlocking"),
    ("arm arms armed arming", "disarm disarms disarmed disarming"),
    ("start starts started", "stop stops stopped end ends ended finish cancel"),
    ("enable enables enabled", "disable disables disabled"),
    ("play plays playing", "pause pauses paused stop"),
    ("mute mutes muted", "unmute unmutes unmuted"),
    ("connect connects connected", "disconnect disconnects disconnected"),
    ("join joins joined", "unjoin leave leaves left"),
    ("enter enters entered arrive arrives arrived", "exit exits exited leave leaves left"),
    ("home present", "away absent"),
    ("detected", "cleared clear"),
    ("wet", "dry"),
    ("above", "below"),
    ("high", "low"),
    ("up", "down"),
    ("raise increase increment", "lower decrease decrement"),
    ("add adds added", "remove removes removed delete deletes deleted"),
    ("show", "hide"),
    ("sunrise", "sunset"),
    ("day", "night"),
    ("heat", "cool"),
    ("next", "previous"),
    ("true", "false"),
)


def words(label: str) -> tuple[str, ...]:
    """In lower case, in order."""
    return tuple(word.lower() for word in WORD.findall(label))


def shared_words(labels: Sequence[str]) -> tuple[Array, Array]:
    """Positions of labels and the numbers of their words, each once, sorted by label; only words of several labels.

    A word of a single label would only repeat what the label says.
    """
    of_label = [frozenset(words(label)) for label in labels]
    labels_with: dict[str, int] = {}
    for each in of_label:
        for word in each:
            labels_with[word] = labels_with.get(word, 0) + 1
    several = sorted(word for word, many in labels_with.items() if many > 1)
    number = {word: n for n, word in enumerate(several)}
    found = [(at, number[word]) for at, each in enumerate(of_label) for word in sorted(each) if word in number]
    positions, numbers = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return positions, numbers


@cache
def opposite_labels(labels: tuple[str, ...]) -> tuple[Array, Array]:
    """Ordered pairs of labels that are opposites, sorted.

    One has a word whose opposite the other has, and of their other words one has all that the other has: "arm_home"
    and "disarm", but not "Fan On" and "Power Off". Or they differ in a negation only.
    """
    of_label = [frozenset(words(label)) for label in labels]
    found = [
        (one, other)
        for one, some in enumerate(of_label)
        for other, others in enumerate(of_label)
        if one != other and are_opposite(some, others)
    ]
    first, second = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return first, second


def are_opposite(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two labels of these words are opposites; see `opposite_labels`."""
    if bool(some & NEGATIONS) != bool(others & NEGATIONS):
        return some - NEGATIONS == others - NEGATIONS
    for word in some:
        opposites = OPPOSITE_OF.get(word, frozenset())
        for opposite in opposites & others:
            toggles = opposites & some or OPPOSITE_OF[opposite] & others  # "play_pause" has no opposite
            one, other = some - {word}, others - {opposite}
            if not toggles and (one <= other or other <= one):
                return True
    return False


def _opposite_of() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for sides in OPPOSITES:
        for side, opposite in (sides, sides[::-1]):
            for word in side.split():
                found[word] = found.get(word, frozenset()) | frozenset(opposite.split())
    return found


OPPOSITE_OF = _opposite_of()
