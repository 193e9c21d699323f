"""One progress bar with the remaining time; silent unless stderr is a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

REDRAW = 0.1  # seconds between two redraws, so that showing short rounds does not slow them down


class Progress:
    """A progress bar; without one, nothing is shown."""

    def __init__(self, bar: tqdm[NoReturn] | None = None) -> None:
        self._bar = bar
        self._drawn = 0.0

    def note(self, text: str) -> None:
        """Show what is under way, e.g. "gcmc on ifttt-synthetic, round 40 of 200"."""
        now = time.monotonic()
        due = now - self._drawn > REDRAW
        self._drawn = now if due else self._drawn
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=due)

    def step(self, many: int = 1) -> None:
        """Count so many more units as done."""
        if self._bar is not None:
            self._bar.update(many)

    def expect(self, total: int) -> None:
        """Set the number of units, where it is known only later."""
        if self._bar is not None:
            self._bar.total = total


@contextmanager
def progress(total: int | None, unit: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A bar over `total` units of work (None: unknown) on a terminal; log messages are written above it."""
    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    with (
        tqdm(total=total, unit=unit, unit_scale=(total or 0) > 10_000, dynamic_ncols=True) as bar,
        logging_redirect_tqdm([logging.getLogger()]),
    ):
        vars(bar)["_time"] = time.monotonic  # by the wall clock, a bar stands still for as long as that is set back
        bar.start_t = bar.last_print_t = time.monotonic()
        yield Progress(bar)
