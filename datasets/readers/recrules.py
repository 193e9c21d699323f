"""The RecRules layout: a list of rules and three files of who uses which (Corno et al. 2019).

`rules`: rule id TAB trigger_<service>_<trigger>;action_<service>_<action>. `trainset`, `testset` and `validationset`:
user TAB rule id TAB rating. The ratings are checked to be numbers and otherwise left alone: a rule is used or not. The
file `all` that comes with them repeats the same rows and is not read.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd

from datasets.common.errors import DataError, unknown
from datasets.readers.lines import Faults, Line, lines_of
from datasets.readers.recipes import COLUMNS, RULE, Recipes
from datasets.readers.services import service_and_event
from datasets.readers.bad_rows import Problems

PARTS = ("trainset", "testset", "validationset")
LAYOUT = "rule id TAB trigger_<service>_<trigger>;action_<service>_<action>"

TypedRule = tuple[str, str, str, str]  # as in recipes.RULE


def looks_like_rules(text: str) -> bool:
    """Whether a line is one of the list of rules."""
    return re.match(r"[^\t]+\ttrigger_[^\t;]+;action_", text) is not None


def read(rules_file: Path, part: str, problems: Problems) -> Recipes:
    """The rows of one part, or of all three, whose files stand beside the list of rules."""
    if part not in ("all", *PARTS):
        raise unknown("part", part, ("all", *PARTS))
    parts = PARTS if part == "all" else (part,)
    missing = [name for name in parts if not (rules_file.parent / name).is_file()]
    if missing:
        raise DataError(
            f"{', '.join(missing)} not found beside {rules_file.name}; put the RecRules files in one folder"
        )
    rules = _read_rules(rules_file, problems)
    rows = [row for name in parts for row in _read_part(rules_file.parent / name, rules, rules_file.name, problems)]
    frame = pd.DataFrame(rows, columns=["part", *COLUMNS])
    counts = {"rules listed": len(rules)}
    for name in parts:
        own = frame[frame["part"] == name]
        counts[f"rows in {name}"] = len(own)
        counts[f"users in {name}"] = own["user"].nunique()
        counts[f"distinct rules in {name}"] = len(own.drop_duplicates(RULE))
    return Recipes(f"RecRules, {' + '.join(parts)}", frame, counts)


def _read_rules(path: Path, problems: Problems) -> dict[str, TypedRule]:
    faults = Faults(path.name, problems)
    rules: dict[str, TypedRule] = {}
    for line in lines_of(path, faults):
        rule = _parse_rule(line, faults)
        if rule is None:
            continue
        key, typed = rule
        if rules.setdefault(key, typed) != typed:
            faults.note(line.number, "the rule id stands for another rule above", "give each rule its own id", key)
    faults.report()
    return rules


def _parse_rule(line: Line, faults: Faults) -> tuple[str, TypedRule] | None:
    fields = line.text.split("\t")
    halves = fields[1].split(";") if len(fields) == 2 else []
    if len(halves) != 2 or not halves[0].startswith("trigger_") or not halves[1].startswith("action_") or not fields[0]:
        faults.note(line.number, "the line is no rule", f"expected {LAYOUT}", line.text)
        return None
    if not line.ended:
        # The action's name ends the line: half of it would pass for a name.
        what = "the last line has no line end and may be cut off"
        faults.note(line.number, what, "end the line if it is whole, or download the file again", line.text)
        return None
    typed: list[str] = []
    for half, prefix in zip(halves, ("trigger_", "action_"), strict=True):
        try:
            typed += service_and_event(half.removeprefix(prefix).strip())
        except DataError:
            remedy = "correct it, or add the service to datasets/readers/services.py"
            faults.note(line.number, f"the {prefix[:-1]} names no known service", remedy, half)
            return None
    return fields[0], (typed[0], typed[1], typed[2], typed[3])


def _read_part(
    path: Path, rules: dict[str, TypedRule], rules_name: str, problems: Problems
) -> list[tuple[str, int, str, str, str, str]]:
    faults = Faults(path.name, problems)
    rows = []
    for line in lines_of(path, faults):
        fields = line.text.split("\t")
        if len(fields) != 3:
            remedy = "expected user TAB rule id TAB rating"
            faults.note(line.number, f"the line has {len(fields)} of 3 fields", remedy, line.text)
        elif not _is_user(fields[0]):
            faults.note(
                line.number, "the user is no whole number below 2^63", "correct it or remove the line", fields[0]
            )
        elif not _is_number(fields[2]):
            faults.note(line.number, "the rating is no number", "correct it or remove the line", fields[2])
        elif fields[1] not in rules:
            remedy = f"add the rule to `{rules_name}` or remove the line"
            faults.note(line.number, f"the rule id is not among the good lines of `{rules_name}`", remedy, fields[1])
        else:
            rows.append((path.name, int(fields[0]), *rules[fields[1]]))
    faults.report()
    return rows


def _is_user(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,19}", text) is not None and int(text) < 2**63


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
