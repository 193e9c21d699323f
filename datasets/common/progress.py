"""One progress bar with the time that remains; silent where nobody watches."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

REDRAW = 0.1  # seconds between two drawings: short rounds are not slowed down by being shown


class Progress(Protocol):
    """What work that takes long tells."""

    def note(self, text: str) -> None:
        """What is going on now, e.g. "gcmc on ifttt-synthetic, round 40 of 200"."""

    def step(self, many: int = 1) -> None:
        """So many more pieces of the work are done."""

    def expect(self, total: int) -> None:
        """How many pieces there are, where it turns out on the way."""


class Silent:
    """Nobody watches."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def step(self, many: int = 1) -> None:
        """Say nothing."""

    def expect(self, total: int) -> None:
        """Say nothing."""


class _Bar:
    def __init__(self, bar: tqdm[NoReturn]) -> None:
        self._bar = bar
        self._drawn = 0.0

    def note(self, text: str) -> None:
        now = time.monotonic()
        due = now - self._drawn > REDRAW
        self._bar.set_postfix_str(text, refresh=due)
        self._drawn = now if due else self._drawn

    def step(self, many: int = 1) -> None:
        self._bar.update(many)

    def expect(self, total: int) -> None:
        self._bar.total = total


@contextmanager
def progress(total: int | None, unit: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A bar over `total` pieces of work, on the terminal only; messages of the log are written above it.

    Where nobody knows how many there are it counts them.
    """
    if quiet or not sys.stderr.isatty():
        yield Silent()
        return
    with (
        tqdm(total=total, unit=unit, unit_scale=(total or 0) > 10_000, dynamic_ncols=True) as bar,
        logging_redirect_tqdm([logging.getLogger()]),
    ):
        yield _Bar(bar)
