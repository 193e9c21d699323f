"""Bad rows, collected while reading: one error that lists the first of them, or a list of all that were skipped."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from datasets.common.errors import DataError, unknown

log = logging.getLogger(__name__)

SHOWN = 10  # bad lines listed in an error


@dataclass(slots=True)
class Fault:
    """One kind of fault in one file, and every line that has it."""

    file: str
    lines: list[int]  # 1-based, as an editor counts them; never empty
    what: str
    remedy: str
    examples: list[str]  # the offending values of the first lines
    unit: str = "line"  # "row" for a table that is not a text file

    def first(self, n: int) -> list[tuple[int, str]]:
        """The first n bad lines, each with its sentence: the place, the thing and the remedy."""
        places = heapq.nsmallest(n, range(len(self.lines)), key=self.lines.__getitem__)
        return [(self.lines[place], self._sentence(place)) for place in places]

    def skipped(self, shown: int | None = None) -> str:
        """What was left out, with every line number or only the first few of them."""
        lines = ", ".join(str(line) for line in self.lines[:shown])
        rest = "" if shown is None or len(self.lines) <= shown else ", ..."
        plural = "s" if len(self.lines) != 1 else ""
        return f"{self.file}: {len(self.lines):,} {self.unit}{plural} skipped because {self.what}: {lines}{rest}"

    def _sentence(self, place: int) -> str:
        value = f" ({self.examples[place]})" if place < len(self.examples) and self.examples[place] else ""
        return f"{self.file} {self.unit} {self.lines[place]}: {self.what}{value}; {self.remedy}"


class BadRows:
    """Collects bad rows; `report` raises them all at once or says what was skipped."""

    def __init__(self, on_error: str = "raise") -> None:
        if on_error not in ("raise", "skip"):
            raise unknown("value of on_error", str(on_error), ("raise", "skip"))
        self.on_error = on_error
        self.found: list[Fault] = []
        self.files: list[str] = []  # in the order in which they are read, which is that of an error

    def reading(self, file: str) -> None:
        """Register a file, so that its faults are listed before those of later files."""
        if file not in self.files:
            self.files.append(file)

    def add(
        self,
        file: str,
        lines: Sequence[int],
        what: str,
        remedy: str,
        examples: Sequence[str] = (),
        *,
        unit: str = "line",
    ) -> None:
        """Add the lines of a file that have this fault; none is fine."""
        if len(lines):
            self.reading(file)
            self.found.append(Fault(file, [int(line) for line in lines], what, remedy, list(examples), unit))

    def add_line(self, file: str, line: int, what: str, remedy: str, example: str = "") -> None:
        """Add one line to the fault of this kind; `example` is the value that has it."""
        for fault in self.found:
            if (fault.file, fault.what, fault.remedy) == (file, what, remedy):
                fault.lines.append(line)
                fault.examples.append(shortened(example))
                return
        self.add(file, [line], what, remedy, [shortened(example)])

    def report(self) -> tuple[str, ...]:
        """Raise an error if there are bad rows and on_error is "raise"; otherwise one sentence per kind of fault."""
        if not self.found:
            return ()
        if self.on_error == "raise":
            more = sum(len(fault.lines) for fault in self.found) - SHOWN
            rest = [f"... and {more:,} more; on_error=skip leaves bad lines out and lists them"] if more > 0 else []
            raise DataError("\n".join(self._first() + rest))
        for fault in self.found:
            log.warning("%s", fault.skipped(SHOWN))
        return tuple(fault.skipped() for fault in self.found)

    def _first(self) -> list[str]:
        """The sentences of the first bad lines in the order of files and lines; only these are put into words."""
        placed = [(self.files.index(fault.file), *pair) for fault in self.found for pair in fault.first(SHOWN)]
        return [sentence for _, _, sentence in sorted(placed, key=lambda entry: entry[:2])[:SHOWN]]


def shortened(text: str, width: int = 60) -> str:
    """As much of a bad value as fits in a message."""
    return text if len(text) <= width else f"{text[: width - 3]}..."
