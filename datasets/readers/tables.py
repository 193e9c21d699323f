"""Your own data: tables of devices, of rules and perhaps of words, as files or DataFrames, columns mapped by name.

Also which data set reads a file or folder, detected from its content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from datasets.common.errors import DataError, unknown
from datasets.common.options import read
from datasets.homes import Homes, Ids, Provenance
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import ABSENT, Source, TextTable, id_column, read_table, whole_numbers, write_delimited
from datasets.readers.filters import filter_homes
from datasets.readers.ifttt import layout_of
from datasets.readers.join import join
from datasets.readers.wyze import FILES, refuse_empty_homes, word_columns
from datasets.registry import dataset

DEVICES = ("user", "device", "type")
NAMES = ("name", "room")  # of devices
RULES = ("user", "trigger_device", "trigger_state", "action", "action_device", "trigger_type", "action_type", "group")
WORDS = ("user", "device", "word")
ROLES = {"devices": DEVICES + NAMES, "rules": RULES, "words": WORDS}
PER_TABLE = tuple(f"{table}.{role}" for table, roles in ROLES.items() for role in roles)
OPTIONAL = ("trigger_type", "action_type", "group")  # of rules
SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")


@dataset(
    "tables", files=("devices.csv", "rules.csv"), origin="your own databases; .tsv, .csv.gz and .parquet are read too"
)
def tables(
    folder: Path,
    *,
    columns: Mapping[str, str] | None = None,
    min_pair_count: int = 1,
    min_rules: int = 0,
    min_devices: int = 0,
    add_devices: bool = False,
    words: bool = True,
    on_error: str = "raise",
) -> Homes:
    """Your own devices and rules: two tables in one folder, columns mapped by name; words.csv may be the third.

    words: which devices share a word, from words.csv or else the columns name and room of devices
    columns: what a column is called, e.g. columns.user=household_id, or columns.rules.user=owner in one table only
    min_pair_count: leave out trigger-action pairs that occur less often
    min_rules, min_devices: leave out homes with fewer
    add_devices: give homes the devices that only rules name, with the type in trigger_type or action_type
    on_error: raise, or skip to leave bad lines out and list them
    """
    homes = from_tables(
        _one_of(folder, "devices"),
        _one_of(folder, "rules"),
        words=_one_of(folder, "words") if words and _tables_of(folder, "words") else None,
        names=words,
        columns=columns,
        add_devices=add_devices,
        on_error=on_error,
    )
    return filter_homes(homes, min_pair_count=min_pair_count, min_rules=min_rules, min_devices=min_devices)


def from_tables(
    devices: Source,
    rules: Source,
    *,
    words: Source | None = None,
    names: bool = True,
    columns: Mapping[str, str] | None = None,
    add_devices: bool = False,
    on_error: str = "raise",
    name: str = "tables",
) -> Homes:
    """Homes from two or three tables: paths of CSV, TSV or Parquet files, DataFrames, or pyarrow Tables.

    Devices need the columns user, device and type; rules need user, trigger_device and action_device (device ids),
    trigger_state and action. Rules may have trigger_type and action_type, which are checked against the devices, and
    group, a whole number that rules of one automation share. Words, which say what names of devices have in common,
    such as a room, need user, device and word, a text or number that counts within the home. Without them words are
    taken from the columns name and room that devices may have, unless `names` is false; names are not kept. `columns`
    says which of these are called differently, e.g. {"user": "household_id"}, or {"rules.user": "owner"} for one of the
    tables only. Ids may be any text; where all are whole numbers they are kept as such.
    """
    called = read(Mapping[str, str], {} if columns is None else columns, where="columns")
    for role in called:
        known = {role for roles in ROLES.values() for role in roles}
        if role not in known.union(PER_TABLE):
            raise unknown("column role", role, known.union(PER_TABLE) if "." in role else known)
    bad_rows = BadRows(on_error)
    sources = {"devices": devices, "rules": rules} | ({} if words is None else {"words": words})
    roles = dict(ROLES) if names and words is None else ROLES | {"devices": DEVICES}
    given = {table: _read(table, source, roles[table], called, bad_rows) for table, source in sources.items()}
    device_table, rule_table = given["devices"], given["rules"]
    group, usable = whole_numbers(rule_table, "group", bad_rows) if "group" in rule_table else (None, None)
    return join(
        name,
        device_table,
        rule_table,
        bad_rows=bad_rows,
        provenance=Provenance(source=f"{device_table.file} and {rule_table.file}"),
        add_devices=add_devices,
        usable=usable,
        group=group,
        words=given.get("words"),
    )


def _read(table: str, source: Source, roles: Sequence[str], called: Mapping[str, str], bad_rows: BadRows) -> TextTable:
    """A table by the roles of its columns; a name for this table overrides one for all."""
    columns = {role: called.get(f"{table}.{role}", called.get(role, role)) for role in roles}
    # A column that is named must be there.
    optional = [role for role in OPTIONAL + NAMES if not {role, f"{table}.{role}"} & called.keys()]
    return read_table(source, columns, bad_rows=bad_rows, optional=optional, label=table)


def _one_of(folder: Path, stem: str) -> Path:
    """The table of this name in the folder, whatever its format."""
    found = _tables_of(folder, stem)
    if len(found) != 1:
        others = sorted(path.name for path in folder.iterdir() if path.name.startswith(f"{stem}.") and path.is_file())
        have = " and ".join([path.name for path in found] or others) or "none"
        if others and not found:
            have += "; convert it"
        raise DataError(f"{folder}: expected one file {stem}.csv (or .tsv, .txt, .gz of these, .parquet), found {have}")
    return found[0]


def _tables_of(folder: Path, stem: str) -> list[Path]:
    return [folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).is_file()]


def write_tables(homes: Homes, folder: Path | str) -> None:
    """Write devices.csv, rules.csv (with the column group where the source has groups) and, if any, words.csv."""
    folder = Path(folder)
    refuse_empty_homes(homes, "the `tables` layout")
    for what, texts in (
        ("user", homes.users),
        ("device", homes.device_ids),
        ("type", np.array(homes.types)),
        ("trigger state", np.array([r.trigger for r in homes.relations])),
        ("action", np.array([r.action for r in homes.relations])),
    ):
        _refuse_unreadable(homes.name, what, texts)
    folder.mkdir(parents=True, exist_ok=True)
    devices = {
        "user": id_column(homes.users[homes.device_home]),
        "device": id_column(homes.device_ids),
        "type": pa.array(homes.types, pa.string()).take(pa.array(homes.device_type)),
    }
    write_delimited(folder / "devices.csv", devices)
    rules, which = homes.rules, pa.array(homes.rules.relation)
    columns = {
        "user": id_column(homes.users[rules.home]),
        "trigger_device": id_column(homes.device_ids[rules.trigger]),
        "trigger_state": pa.array([r.trigger for r in homes.relations], pa.string()).take(which),
        "action": pa.array([r.action for r in homes.relations], pa.string()).take(which),
        "action_device": id_column(homes.device_ids[rules.action]),
    }
    if rules.group is not None:
        columns["group"] = pa.array(rules.group)
    write_delimited(folder / "rules.csv", columns)
    if homes.words is not None and len(homes.words):
        write_delimited(folder / "words.csv", word_columns(homes))
    else:  # words of earlier files do not belong to these devices
        for file in _tables_of(folder, "words"):
            file.unlink()


def _refuse_unreadable(name: str, what: str, texts: Ids) -> None:
    """A reader takes these for a gap, or without their outer spaces for another text."""
    if texts.dtype.kind == "i":
        return
    odd = [text for text in texts.tolist() if text in ABSENT or text != text.strip()]
    if odd:
        raise DataError(f"{name}: the {what} {odd[0]!r} would not survive in CSV; save it as one .parquet file instead")


LAYOUTS = """\
a folder with devices.csv and rules.csv and perhaps words.csv (`tables`), train_device.csv and train_rule.csv (`wyze`),
rules and trainset (`ifttt-full`), or a .parquet file that Homes.save wrote (`saved`)"""
TABLE_FILES = {stem + suffix for stem in ROLES for suffix in SUFFIXES}
WYZE_FILES = {name for files in FILES.values() for name in files}


def detect_format(path: Path) -> str:
    """The name under which `datasets.load` reads this path."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected {LAYOUTS}")
    if path.is_file():
        return _detect_file_format(path)
    names = {entry.name.removesuffix(".gz") for entry in path.iterdir()}
    if {"train_device.csv", "train_rule.csv", "rule_group.csv"} <= names:
        return "home-assistant"
    if names & WYZE_FILES:  # if only the test part exists, the reader says how to load it
        return "wyze"
    if names & TABLE_FILES or any(name.startswith(("devices.", "rules.")) for name in names):
        return "tables"  # also devices.xlsx and the like: the reader says which formats it reads
    if names:
        return "ifttt-full"  # its reader detects several formats and lists them if none fits
    raise DataError(f"{path}: the folder is empty; expected {LAYOUTS}")


def _detect_file_format(path: Path) -> str:
    is_table = path.name.removesuffix(".gz") in TABLE_FILES | WYZE_FILES
    if is_table and (path.suffix == ".parquet" or layout_of(path) is None):
        raise DataError(f"{path}: it is one table of several; give the folder that holds them, {path.parent}")
    return "saved" if path.suffix == ".parquet" else "ifttt-full"
