"""The two public crawls of shared recipes: the TSV of Ur et al. 2016 and the JSON lines of Mi et al. 2017.

In both, the user is the recipe's author. How often others adopted a recipe (`shares`, `addCount`) is not kept: it says
how many use it, not who.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from datasets.common.errors import DataError
from datasets.readers.lines import Faults, lines_of
from datasets.readers.recipes import COLUMNS, Recipes
from datasets.readers.bad_rows import Problems

UR_FIELDS = (
    "id",
    "description",
    "author",
    "date",
    "shares",
    "triggerchannel",
    "trigger",
    "triggerdescription",
    "actionchannel",
    "action",
    "actiondescription",
)
UR_USED = ("author", "triggerchannel", "trigger", "actionchannel", "action")  # in the order of recipes.COLUMNS
MI_USED = ("creatorName", "triggerChannelTitle", "triggerTitle", "actionChannelTitle", "actionTitle")


def looks_like_ur(text: str) -> bool:
    """Whether a line is the TSV's header or one of its recipes, which begin with a number."""
    fields = text.split("\t")
    return len(fields) == len(UR_FIELDS) and (_is_ur_header(fields) or fields[0].strip('"').isdecimal())


def looks_like_mi(text: str) -> bool:
    """Whether a line is a JSON object with a recipe's fields."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and any(field in entry for field in MI_USED)


def read_ur(path: Path, problems: Problems) -> Recipes:
    """Recipes of the TSV, with or without a header (whose order then counts). Quotes are characters like any other.

    A last line that is cut off within its last field, which is not used, still counts.
    """
    faults = Faults(path.name, problems)
    order: Sequence[str] = UR_FIELDS
    rows: list[tuple[str, ...]] = []
    for line in lines_of(path, faults):
        fields = line.text.split("\t")
        if len(fields) != len(UR_FIELDS):
            remedy = f"expected {', '.join(UR_FIELDS)}, separated by tabs"
            faults.note(line.number, f"the line has {len(fields)} of {len(UR_FIELDS)} fields", remedy, line.text)
        elif not rows and _is_ur_header(fields):
            if fields[0].startswith('"'):
                raise DataError(f"{path.name} line {line.number}: the fields are quoted; write the file without quotes")
            order = [field.strip().lower() for field in fields]
        else:
            named = dict(zip(order, fields, strict=True))
            _add([named[field] for field in UR_USED], UR_USED, line.number, rows, faults)
    faults.report()
    return Recipes("the crawl of Ur et al. 2016", pd.DataFrame(rows, columns=COLUMNS, dtype=object), {})


def read_mi(path: Path, problems: Problems) -> Recipes:
    """Recipes of the JSON lines; fields that are not used may be missing."""
    faults = Faults(path.name, problems)
    rows: list[tuple[str, ...]] = []
    for line in lines_of(path, faults):
        try:
            entry = json.loads(line.text)
        except (ValueError, RecursionError):
            faults.note(line.number, "the line is not JSON", "expected one whole JSON object per line", line.text)
            continue
        if not isinstance(entry, dict):
            faults.note(line.number, "the line is no JSON object", "expected one recipe per line", line.text)
            continue
        _add([entry.get(field) for field in MI_USED], MI_USED, line.number, rows, faults)
    faults.report()
    return Recipes("the crawl of Mi et al. 2017", pd.DataFrame(rows, columns=COLUMNS, dtype=object), {})


def _add(
    values: Sequence[object], fields: Sequence[str], number: int, rows: list[tuple[str, ...]], faults: Faults
) -> None:
    """Append the recipe if every field is a text; blanks around it are no part of a name."""
    row = tuple(value.strip() for value in values if isinstance(value, str) and _is_text(value))
    if len(row) == len(fields):
        rows.append(row)
        return
    first, value = next(
        (f, v) for f, v in zip(fields, values, strict=True) if not isinstance(v, str) or not _is_text(v)
    )
    faults.note(
        number, f"{first} is missing or no text", "fill it in or remove the line", "" if value is None else repr(value)
    )


def _is_text(value: str) -> bool:
    """Whether there is more than blanks, and no half of a character, which JSON can spell ("\\ud800")."""
    try:
        return bool(value.encode().strip())
    except UnicodeEncodeError:
        return False


def _is_ur_header(fields: Sequence[str]) -> bool:
    return sorted(field.strip().strip('"').lower() for field in fields) == sorted(UR_FIELDS)
