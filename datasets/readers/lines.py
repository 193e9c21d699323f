"""The lines of a text file with their numbers, and a tally of the bad ones by kind."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets.common.errors import DataError
from datasets.readers.bad_rows import Problems


class Faults:
    """The bad lines of one file, gathered by kind so that each kind is one sentence."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self._problems = problems
        self._kinds: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def note(self, line: int, what: str, remedy: str, example: str = "") -> None:
        """This line has this fault; `example` is the value that has it."""
        self._kinds.setdefault((what, remedy), []).append((line, example))

    def report(self) -> None:
        """Hand everything noted to the collector, once the file is read."""
        for (what, remedy), places in self._kinds.items():
            examples = [shortened(example) for _, example in places]
            self._problems.add(self.file, [line for line, _ in places], what, remedy, examples if any(examples) else ())
        self._kinds = {}


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end; `ended` is false for a last line that has none, which may have been cut off."""

    number: int  # 1-based, as an editor counts
    text: str
    ended: bool


def lines_of(path: Path, faults: Faults) -> Iterator[Line]:
    """The lines that hold something, in order.

    Handled: a byte order mark, CRLF, blank lines (they hold nothing and are passed over). A line that is not UTF-8 is
    noted and left out; an empty file is refused.
    """
    data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise DataError(f"{path.name} is empty; download or export it again")
    lines = data.split(b"\n")
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            text = raw.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            faults.note(number, "the line is not UTF-8", "save the file as UTF-8", repr(raw[error.start : error.end]))
            continue
        yield Line(number, text, ended=number < len(lines))


def shortened(text: str, width: int = 60) -> str:
    """As much of a bad value as a message can carry."""
    return text if len(text) <= width else f"{text[: width - 3]}..."
