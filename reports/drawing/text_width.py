"""How wide texts are when they are drawn, and texts made to fit: in several lines, or in smaller type."""

from __future__ import annotations

import textwrap
from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

TYPE = 8.0  # points
SMALLER = (8.0, 7.5, 7.0, 6.5)
SLACK = 4  # letters, since some are wider than others


def inches(text: str, size: float = TYPE, weight: str = "normal") -> float:
    """How wide it is; by the corners of its outlines, since their exact extent takes long to find."""
    return _relative(text, weight) * size / 72


def wrapped(text: str, room: float, size: float = TYPE, weight: str = "normal") -> list[str]:
    """The text in lines of at most so many inches; no line for no text."""
    if not text:
        return []
    letters = int(len(text) * room / max(inches(text, size, weight), 1e-9))
    return [text] if letters > len(text) else textwrap.wrap(text, max(letters - SLACK, 8))


def fitted(text: str, room: float) -> tuple[str, float]:
    """The text and the largest size at which it fits; cut off where even small type is too wide."""
    for size in SMALLER:
        if inches(text, size) <= room:
            return text, size
    while text and inches(f"{text}…", SMALLER[-1]) > room:
        text = text[:-1].rstrip()
    return f"{text}…", SMALLER[-1]


@cache
def _relative(text: str, weight: str) -> float:
    """Points per point of type."""
    return float(TextPath((0, 0), text, size=1, prop=FontProperties(weight=weight)).vertices[:, 0].max(initial=0.0))
