"""Bad lines, collected while reading: one error that lists the first of them, or a list of all that was skipped."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datasets.errors import DataError

log = logging.getLogger(__name__)

SHOWN = 10  # bad lines spelled out in an error; more would bury the first


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of fault in one file, and every line that has it."""

    file: str
    lines: tuple[int, ...]  # 1-based, as an editor counts them; empty where the whole file is meant
    what: str
    remedy: str
    examples: tuple[str, ...]  # the offending values of the first lines

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Each bad line with its sentence: the place, the thing and the remedy."""
        for i, line in enumerate(self.lines):
            value = f" ({self.examples[i]})" if i < len(self.examples) else ""
            yield line, f"{self.file} line {line}: {self.what}{value}; {self.remedy}"

    def __str__(self) -> str:
        """What was left out, with every line number."""
        lines = ", ".join(str(line) for line in self.lines)
        plural = "s" if len(self.lines) != 1 else ""
        return f"{self.file}: {len(self.lines):,} line{plural} skipped because {self.what}: {lines}"


class Problems:
    """Collects bad lines; `settle` raises them all at once or says what was skipped."""

    def __init__(self, on_error: str = "raise") -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f'on_error={on_error!r}: it is "raise" or "skip"')
        self.on_error = on_error
        self.found: list[Problem] = []

    def add(self, file: str, lines: Sequence[int], what: str, remedy: str, examples: Sequence[str] = ()) -> None:
        """Note that these lines of a file have this fault; no lines, no note."""
        if len(lines):
            self.found.append(Problem(file, tuple(int(line) for line in lines), what, remedy, tuple(examples)))

    def sentences(self) -> list[str]:
        """Every bad line in the order of files and lines."""
        files = list(dict.fromkeys(problem.file for problem in self.found))
        placed = [(files.index(problem.file), *pair) for problem in self.found for pair in problem.sentences()]
        return [sentence for _, _, sentence in sorted(placed, key=lambda entry: entry[:2])]

    def settle(self) -> tuple[str, ...]:
        """Raise if there are bad lines and none may be skipped; otherwise one sentence per kind of what was skipped."""
        if not self.found:
            return ()
        if self.on_error == "raise":
            listed = self.sentences()
            more = len(listed) - SHOWN
            rest = [f'... and {more:,} more; on_error="skip" leaves bad lines out and lists them'] if more > 0 else []
            raise DataError("\n".join(listed[:SHOWN] + rest))
        for problem in self.found:
            log.warning("%s", problem if len(problem.lines) <= SHOWN else _short(problem))
        return tuple(str(problem) for problem in self.found)


def _short(problem: Problem) -> str:
    first = Problem(problem.file, problem.lines[:SHOWN], problem.what, "", ())
    return f"{first}, ... ({len(problem.lines):,} in all)"
