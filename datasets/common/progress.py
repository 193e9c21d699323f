"""Progress with the remaining time: a bar on a terminal, elsewhere a line of the log now and then."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

log = logging.getLogger(__name__)

REDRAW = 0.1  # seconds between two redraws, so that showing short rounds does not slow them down
LINE_INTERVAL = 60.0  # seconds between two lines where there is no terminal


class Progress:
    """Shows nothing, unless it has a bar or lines to write."""

    def __init__(self, bar: tqdm[NoReturn] | None = None, lines: ProgressLines | None = None) -> None:
        self._bar, self._lines = bar, lines
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
        if self._lines is not None:
            self._lines.step(many)

    def expect(self, total: int) -> None:
        """Set the number of units, where it is known only later."""
        if self._bar is not None:
            self._bar.total = total
        if self._lines is not None:
            self._lines.total = total


class ProgressLines:
    """A line such as "120 of 2,571 runs, 8:20, about 2:50:12 left" every LINE_INTERVAL seconds in which a unit ends."""

    def __init__(self, total: int | None, unit: str) -> None:
        self.total, self._unit, self._done = total, unit.strip(), 0
        self._start = self._written = time.monotonic()

    def step(self, many: int) -> None:
        """Count so many more units as done, and write the line where it is due."""
        self._done += many
        now = time.monotonic()
        if now - self._written < LINE_INTERVAL:
            return
        self._written, taken = now, now - self._start
        done = f"{self._done:,}" if self.total is None else f"{self._done:,} of {self.total:,}"
        left = "" if self.total is None else f", about {_clock(taken / self._done * (self.total - self._done))} left"
        log.info("%s %ss, %s%s", done, self._unit.removesuffix("s"), _clock(taken), left)


def _clock(seconds: float) -> str:
    return tqdm.format_interval(max(seconds, 0.0))


@contextmanager
def progress(total: int | None, unit: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A bar over `total` units of work (None: unknown), above which log messages are written; or lines of the log."""
    if quiet or not sys.stderr.isatty():
        yield Progress(lines=None if quiet else ProgressLines(total, unit))
        return
    with (
        tqdm(total=total, unit=unit, unit_scale=(total or 0) > 10_000, dynamic_ncols=True) as bar,
        logging_redirect_tqdm([logging.getLogger()]),
    ):
        vars(bar)["_time"] = time.monotonic  # by the wall clock, a bar stands still for as long as that is set back
        bar.start_t = bar.last_print_t = time.monotonic()
        yield Progress(bar)
