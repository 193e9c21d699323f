"""The IFTTT data sets: readers of three public layouts, recognized by content and not by name.

- RecRules (Corno et al. 2019): `rules` has rule id TAB trigger_<service>_<trigger>;action_<service>_<action>;
  `trainset`, `testset` and `validationset` have user TAB rule id TAB rating. Ratings are checked to be numbers and not
  used; nor is the file `all`, which repeats the same rows.
- The crawl of Ur et al. 2016 (TSV) and that of Mi et al. 2017 (JSON lines). The user is the recipe's author; how often
  others adopted a recipe (`shares`, `addCount`) is not used, since it does not say who did.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pandas as pd

from datasets.common.errors import DataError, unknown
from datasets.common.files import open_bytes
from datasets.describe import PUBLISHED, number, statistics
from datasets.homes import Homes, Provenance
from datasets.readers.bad_rows import BadRows, shortened
from datasets.readers.filters import cut_homes, filter_homes
from datasets.readers.join import DeviceColumns, RuleColumns, assemble
from datasets.registry import dataset


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end."""

    file: str
    number: int  # 1-based, as an editor counts
    text: str
    ended: bool  # false for a last line without an end, which may be cut off
    bad_rows: BadRows

    def reject(self, what: str, remedy: str, example: str | None = None) -> None:
        """Report this line as bad; the example is the whole line unless given."""
        self.bad_rows.add_line(self.file, self.number, what, remedy, self.text if example is None else example)


def lines_of(path: Path, bad_rows: BadRows) -> Iterator[Line]:
    """The lines that are not blank, in order; a line that is not UTF-8 is a bad row, an empty file an error.

    A byte order mark and CRLF are removed.
    """
    with open_bytes(path) as file:
        data = file.read().removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise DataError(f"{path.name} is empty; download or export it again")
    lines = data.split(b"\n")
    for line_number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            text = raw.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            example = repr(raw[error.start : error.end])
            bad_rows.add_line(path.name, line_number, "the line is not UTF-8", "save the file as UTF-8", example)
            continue
        yield Line(path.name, line_number, text, line_number < len(lines), bad_rows)


RULE = ["trigger_service", "trigger", "action_service", "action"]
COLUMNS = ["user", *RULE]


@dataclass(frozen=True, slots=True)
class Recipes:
    """Good rows of one source, in its order and spelling."""

    source: str
    rows: pd.DataFrame  # COLUMNS, and whatever the layout adds
    counts: dict[str, int]  # what only this layout can count

    def all_counts(self) -> dict[str, int]:
        """What was read, before anything is left out."""
        rows = self.rows
        return {
            "rule rows": len(rows),
            "users": rows["user"].nunique(),
            "services": len(set(rows["trigger_service"]) | set(rows["action_service"])),
            "distinct pairs of user and rule": len(rows.drop_duplicates(COLUMNS)),
            "distinct rules": len(rows.drop_duplicates(RULE)),
            **self.counts,
        }


def to_homes(name: str, recipes: Recipes, *, min_pair_count: int, skipped: tuple[str, ...]) -> Homes:
    """One home per user and one device per service of its rules; the device's id is the service's name.

    Only rules whose trigger-action pair is seen at least `min_pair_count` times stay, a user's repeated rule counted
    once; services and users without a rule left go with the rest.
    """
    rows = recipes.rows
    used = [
        rows[["user", service]].set_axis(["user", "id"], axis=1) for service in ("trigger_service", "action_service")
    ]
    devices = pd.concat(used).drop_duplicates()
    user, *texts = (rows[column].to_numpy() for column in COLUMNS)
    trigger_service, trigger, action_service, action = (text.astype(object) for text in texts)
    service = devices["id"].to_numpy().astype(object)
    homes = assemble(
        name,
        DeviceColumns(user=devices["user"].to_numpy(), id=service, type=service),
        RuleColumns(user, trigger_service, trigger, action, action_service),
        Provenance(source=recipes.source, counts=recipes.all_counts(), skipped=skipped),
    )
    return filter_homes(homes, min_pair_count=min_pair_count, min_rules=1, only_used_devices=True)


_UR_HEADER = (
    "id description author date shares triggerchannel trigger triggerdescription actionchannel action actiondescription"
)
UR_FIELDS = tuple(_UR_HEADER.split())
UR_USED = ("author", "triggerchannel", "trigger", "actionchannel", "action")  # in the order of COLUMNS
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


def read_ur(path: Path, bad_rows: BadRows) -> Recipes:
    """Recipes of the TSV, with or without a header (whose order then counts). Quotes are characters like any other.

    A last line that is cut off within its last field, which is not used, still counts.
    """
    order: Sequence[str] = UR_FIELDS
    rows: list[tuple[str, ...]] = []
    for line in lines_of(path, bad_rows):
        fields = line.text.split("\t")
        if len(fields) != len(UR_FIELDS):
            remedy = f"expected {', '.join(UR_FIELDS)}, separated by tabs"
            line.reject(f"the line has {len(fields)} of {len(UR_FIELDS)} fields", remedy)
        elif not rows and _is_ur_header(fields):
            if fields[0].startswith('"'):
                raise DataError(f"{path.name} line {line.number}: the fields are quoted; write the file without quotes")
            order = [field.strip().lower() for field in fields]
        else:
            named = dict(zip(order, fields, strict=True))
            _add([named[field] for field in UR_USED], UR_USED, line, rows)
    return Recipes("the crawl of Ur et al. 2016", pd.DataFrame(rows, columns=COLUMNS, dtype=object), {})


def read_mi(path: Path, bad_rows: BadRows) -> Recipes:
    """Recipes of the JSON lines; fields that are not used may be missing."""
    rows: list[tuple[str, ...]] = []
    for line in lines_of(path, bad_rows):
        try:
            entry = json.loads(line.text)
        except (ValueError, RecursionError):
            line.reject("the line is not JSON", "expected one JSON object per line")
            continue
        if not isinstance(entry, dict):
            line.reject("the line is not a JSON object", "expected one recipe per line")
            continue
        _add([entry.get(field) for field in MI_USED], MI_USED, line, rows)
    return Recipes("the crawl of Mi et al. 2017", pd.DataFrame(rows, columns=COLUMNS, dtype=object), {})


def _add(values: Sequence[object], fields: Sequence[str], line: Line, rows: list[tuple[str, ...]]) -> None:
    """Append the recipe if every field is a text; blanks around a name are removed."""
    for field, value in zip(fields, values, strict=True):
        if not isinstance(value, str) or not _is_text(value):
            example = "" if value is None else repr(value)
            line.reject(f"{field} is missing or not a text", "fill it in or remove the line", example)
            return
    rows.append(tuple(str(value).strip() for value in values))


def _is_text(value: str) -> bool:
    """Whether a text is neither blank nor has half a character, which JSON can contain ("\\ud800")."""
    try:
        return bool(value.encode().strip())
    except UnicodeEncodeError:
        return False


def _is_ur_header(fields: Sequence[str]) -> bool:
    return sorted(field.strip().strip('"').lower() for field in fields) == sorted(UR_FIELDS)


# The 178 services that the RecRules files use, under the names that IFTTT gave them in 2016, in lower case with `_` for
# blanks and without other characters: "Date & Time" is date_time, "Nike+" is nike, "blink(1)" is blink1.
SERVICES = frozenset(Path(__file__).with_name("ifttt_services.txt").read_text("utf-8").split())


def service_and_event(text: str) -> tuple[str, str]:
    """`email_digest_add_to_daily_digest` as ("email_digest", "add_to_daily_digest"): the longest service name counts.

    What follows a `-` is somebody's label for the thing that is switched (`turn_on-lights`); it is cut.
    """
    words = text.split("_")
    for n_words in range(len(words) - 1, 0, -1):
        service = "_".join(words[:n_words])
        if service in SERVICES:
            event = "_".join(words[n_words:]).partition("-")[0]
            if event:
                return service, event
    raise DataError(f"{text!r} begins with no known service name followed by an event")


PARTS = ("trainset", "testset", "validationset")
LAYOUT = "rule id TAB trigger_<service>_<trigger>;action_<service>_<action>"

TypedRule = tuple[str, str, str, str]  # as in RULE


def looks_like_rules(text: str) -> bool:
    """Whether a line is one of the list of rules."""
    return re.match(r"[^\t]+\ttrigger_[^\t;]+;action_", text) is not None


def read_recrules(rules_file: Path, part: str, bad_rows: BadRows) -> Recipes:
    """The rows of one part, or of all three, whose files are in the folder of the list of rules."""
    if part not in ("all", *PARTS):
        raise unknown("part", part, ("all", *PARTS))
    parts = PARTS if part == "all" else (part,)
    missing = [name for name in parts if not (rules_file.parent / name).is_file()]
    if missing:
        raise DataError(
            f"{', '.join(missing)} not found in the folder of {rules_file.name}; put the RecRules files in one folder"
        )
    rules = _read_rules(rules_file, bad_rows)
    rows = [row for name in parts for row in _read_part(rules_file.parent / name, rules, rules_file.name, bad_rows)]
    frame = pd.DataFrame(rows, columns=["part", *COLUMNS])
    counts = {"rules listed": len(rules)}
    for name in parts:
        own = frame[frame["part"] == name]
        counts[f"rows in {name}"] = len(own)
        counts[f"users in {name}"] = own["user"].nunique()
        counts[f"distinct rules in {name}"] = len(own.drop_duplicates(RULE))
    return Recipes(f"RecRules, {' + '.join(parts)}", frame, counts)


def _read_rules(path: Path, bad_rows: BadRows) -> dict[str, TypedRule]:
    rules: dict[str, TypedRule] = {}
    for line in lines_of(path, bad_rows):
        rule = _parse_rule(line)
        if rule is None:
            continue
        key, typed = rule
        if rules.setdefault(key, typed) != typed:
            line.reject("the rule id is used for another rule above", "give each rule its own id", key)
    return rules


def _parse_rule(line: Line) -> tuple[str, TypedRule] | None:
    fields = line.text.split("\t")
    halves = fields[1].split(";") if len(fields) == 2 else []
    if len(halves) != 2 or not halves[0].startswith("trigger_") or not halves[1].startswith("action_") or not fields[0]:
        line.reject("the line is not a rule", f"expected {LAYOUT}")
        return None
    if not line.ended:
        # The action's name ends the line: half of it would pass for a name.
        what = "the last line has no line end and may be cut off"
        line.reject(what, "end the line if it is complete, or download the file again")
        return None
    typed: list[str] = []
    for half, prefix in zip(halves, ("trigger_", "action_"), strict=True):
        try:
            typed += service_and_event(half.removeprefix(prefix).strip())
        except DataError:
            remedy = "correct it, or add the service to datasets/readers/ifttt_services.txt"
            line.reject(f"the {prefix[:-1]} names no known service", remedy, half)
            return None
    return fields[0], (typed[0], typed[1], typed[2], typed[3])


def _read_part(
    path: Path, rules: dict[str, TypedRule], rules_name: str, bad_rows: BadRows
) -> list[tuple[str, int, str, str, str, str]]:
    rows = []
    for line in lines_of(path, bad_rows):
        fields = line.text.split("\t")
        if len(fields) != 3:
            remedy = "expected user TAB rule id TAB rating"
            line.reject(f"the line has {len(fields)} of 3 fields", remedy)
        elif not _is_user(fields[0]):
            line.reject("the user is not a whole number below 2^63", "correct it or remove the line", fields[0])
        elif not _is_number(fields[2]):
            line.reject("the rating is not a number", "correct it or remove the line", fields[2])
        elif fields[1] not in rules:
            remedy = f"add the rule to `{rules_name}` or remove the line"
            line.reject(f"the rule id is not among the good lines of `{rules_name}`", remedy, fields[1])
        else:
            rows.append((path.name, int(fields[0]), *rules[fields[1]]))
    return rows


def _is_user(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,19}", text) is not None and int(text) < 2**63


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


LAYOUTS = {"RecRules": looks_like_rules, "Ur et al. 2016": looks_like_ur, "Mi et al. 2017": looks_like_mi}
LOOKED_AT = 20  # lines; a few bad ones at the top must not hide the layout
EXPECTED = (
    "expected the RecRules files (rules, trainset, testset, validationset), the TSV of Ur et al. 2016 (11 fields) or "
    "the JSON lines of Mi et al. 2017"
)


def read(path: Path, *, part: str, bad_rows: BadRows) -> Recipes:
    """The recipes at a path: a file of one of the layouts, or a folder that holds exactly one."""
    file, layout = _find(path)
    if layout == "RecRules":
        return read_recrules(file, part, bad_rows)
    if part != "all":
        raise DataError(f"part={part!r}: only RecRules has parts, and {file.name} has the layout of {layout}")
    return read_ur(file, bad_rows) if layout == "Ur et al. 2016" else read_mi(file, bad_rows)


def layout_of(file: Path) -> str | None:
    """The first layout that one of the first lines has; None if it is none of them."""
    with open_bytes(file) as stream:
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
        raise DataError(f"{path} holds no known IFTTT data; {EXPECTED}; found {seen or 'no file'}")
    return found[0]


def _begins(file: Path) -> str:
    with open_bytes(file) as stream:
        start = stream.readline(200)
    return f"begins with {shortened(start.decode('utf-8', errors='replace').strip())!r}" if start else "is empty"


PAPER = "ifttt-paper"  # the entry of datasets.describe
FILES = ("rules", *PARTS)
ORIGIN = (
    "RecRules (Corno et al. 2019); the TSV of Ur et al. 2016 or the recipes.json of Mi et al. 2017 is read as well. "
    "Their authors give them out for research and forbid passing them on"
)


@dataset("ifttt-full", folder="ifttt", files=FILES, origin=ORIGIN)
def ifttt_full(path: Path, *, min_pair_count: int = 1, part: str = "all", on_error: str = "raise") -> Homes:
    """Every recipe of every user; services are the entities.

    min_pair_count: leave out trigger-action pairs that occur less often
    part: all, or one of RecRules' own trainset, testset and validationset
    on_error: raise, or skip to leave bad lines out and list them
    """
    return _load("ifttt-full", path, min_pair_count, part, on_error)


@dataset("ifttt-fedrule", folder="ifttt", files=FILES, origin=ORIGIN)
def ifttt_fedrule(
    path: Path, *, min_pair_count: int = 8, part: str = "all", cut: int = 0, on_error: str = "raise"
) -> Homes:
    """Recipes whose trigger-action pair is seen more than 7 times: the 53 entities of the FedRule paper.

    min_pair_count: leave out trigger-action pairs that occur less often
    part: all, or one of RecRules' own trainset, testset and validationset, before pairs are counted
    cut: cut users into pieces of about this many recipes, to study small ones; 0 does not cut
    on_error: raise, or skip to leave bad lines out and list them
    """
    return cut_homes(_load("ifttt-fedrule", path, min_pair_count, part, on_error), cut)


def _load(name: str, path: Path, min_pair_count: int, part: str, on_error: str) -> Homes:
    bad_rows = BadRows(on_error)
    recipes = read(path, part=part, bad_rows=bad_rows)
    skipped = bad_rows.report()
    if recipes.rows.empty:
        raise DataError(f"{path} holds no recipe that can be used" + "".join(f"; {sentence}" for sentence in skipped))
    homes = to_homes(name, recipes, min_pair_count=min_pair_count, skipped=skipped)
    notes = differences(homes, recipes, min_pair_count)
    published = PAPER if _is_recrules(recipes) else ""  # the paper used these files and no crawl
    return replace(homes, provenance=replace(homes.provenance, notes=notes, published=published))


def differences(homes: Homes, recipes: Recipes, min_pair_count: int) -> tuple[str, ...]:
    """One sentence per count of the paper: ours, theirs and, where it is known, what theirs counts."""
    ours, paper, seen = statistics(homes), PUBLISHED[PAPER].statistics, homes.provenance.counts
    why = _reasons(seen)
    notes = []
    if not _is_recrules(recipes):
        notes.append(f"The paper used RecRules' selection; this is {recipes.source}.")
    if min_pair_count > 1:
        notes.append(
            f"Only trigger-action pairs seen more than {min_pair_count - 1} times stay: {number(homes.n_rules)} rules "
            f"of {number(seen['rule rows'])} rows, {number(homes.n_homes)} users of {number(seen['users'])}."
        )
    for what, said in (
        ("homes", "users"),
        ("rules", "rules"),
        ("distinct rules", "distinct rules"),
        ("entity types", "entities"),
        ("relations", "trigger-action pairs"),
    ):
        same = ours[what] == paper[what]
        versus = "as in the paper" if same else f"against {number(paper[what])} in the paper{why.get(what, '')}"
        notes.append(f"{number(ours[what])} {said} {versus}.")
    return tuple(notes)


def _is_recrules(recipes: Recipes) -> bool:
    return "rules listed" in recipes.counts


def _reasons(seen: dict[str, int]) -> dict[str, str]:
    """What the paper counted, known only for the files that it used."""
    paper = PUBLISHED[PAPER].statistics
    counted = ("users in trainset", "rule rows", "distinct rules in trainset")
    if [seen.get(what) for what in counted] != [paper[what] for what in ("homes", "rules", "distinct rules")]:
        return {}
    unstated = ", which does not say how it chose them; no threshold gives both its 53 entities and its 132 pairs"
    return {
        "homes": f", the number of users in trainset (the three files have {number(seen['users'])})",
        "rules": f", the rows of the three files ({number(seen['distinct pairs of user and rule'])} without repeats)",
        "distinct rules": f", the number in trainset (the three files have {number(seen['distinct rules'])})",
        "entity types": unstated,
        "relations": unstated,
    }
