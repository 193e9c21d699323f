"""Which of the three layouts lies at a path, told by what the files hold and not by what they are called."""

from __future__ import annotations

import codecs
from itertools import islice
from pathlib import Path

from datasets.common.errors import DataError
from datasets.readers import crawls, recrules
from datasets.readers.lines import shortened
from datasets.readers.recipes import Recipes
from datasets.readers.bad_rows import Problems

LAYOUTS = {
    "RecRules": recrules.looks_like_rules,
    "Ur et al. 2016": crawls.looks_like_ur,
    "Mi et al. 2017": crawls.looks_like_mi,
}
LOOKED_AT = 20  # lines; a few bad ones at the top must not hide the layout
EXPECTED = (
    "expected the RecRules files (rules, trainset, testset, validationset), the TSV of Ur et al. 2016 (11 fields) or "
    "the JSON lines of Mi et al. 2017"
)


def read(path: Path, *, part: str, problems: Problems) -> Recipes:
    """The recipes at a path: a file of one of the layouts, or a folder that holds exactly one."""
    file, layout = _find(path)
    if layout == "RecRules":
        return recrules.read(file, part, problems)
    if part != "all":
        raise DataError(f"part={part!r}: only RecRules comes in parts, and {file.name} is laid out as {layout}")
    return crawls.read_ur(file, problems) if layout == "Ur et al. 2016" else crawls.read_mi(file, problems)


def layout_of(file: Path) -> str | None:
    """The first layout that one of the first lines has; None if it is none of them."""
    with file.open("rb") as stream:
        lines = [line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n") for line in islice(stream, LOOKED_AT)]
    texts = [line.decode("utf-8", errors="replace") for line in lines]
    return next((name for text in texts for name, looks_alike in LAYOUTS.items() if looks_alike(text)), None)


def _find(path: Path) -> tuple[Path, str]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    else:
        files = [path]
    found = [(file, layout) for file in files if (layout := layout_of(file)) is not None]
    if len(found) > 1:
        listed = ", ".join(f"{file.name} ({layout})" for file, layout in found)
        raise DataError(f"{path} holds more than one data set: {listed}; give the file itself as path=")
    if not found:
        seen = "; ".join(f"{file.name} {_begins(file)}" for file in files[:5])
        raise DataError(f"{path} holds no IFTTT data that is known; {EXPECTED}; found {seen or 'no file'}")
    return found[0]


def _begins(file: Path) -> str:
    with file.open("rb") as stream:
        start = stream.readline(200)
    return f"begins with {shortened(start.decode('utf-8', errors='replace').strip())!r}" if start else "is empty"
