"""The layout of the public Wyze Rule Recommendation data: `*_rule.csv` and `*_device.csv`, joined by user and device.

`home-assistant` has the same layout and two more files: `rule_group.csv`, which rules come from one automation, and
`device_word.csv`, which devices share a word of the names that their owner gave them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.common.errors import DataError, unknown
from datasets.homes import Array, Homes, Mask, Provenance
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import TextTable, id_column, read_table, refuse_missing, whole_numbers, write_delimited
from datasets.readers.filters import cut_homes, filter_homes
from datasets.readers.join import join
from datasets.registry import dataset

DEVICE_COLUMNS = {"user": "user_id", "device": "device_id", "type": "device_model"}
RULE_COLUMNS = {
    "user": "user_id",
    "trigger_type": "trigger_device",
    "trigger_device": "trigger_device_id",
    "trigger_state": "trigger_state",
    "trigger_state_id": "trigger_state_id",
    "action": "action",
    "action_id": "action_id",
    "action_type": "action_device",
    "action_device": "action_device_id",
    "rule": "rule",
}
RULE_PARTS = ("trigger_device", "trigger_state_id", "action_id", "action_device")  # joined by "_" they are the rule
GROUP_COLUMNS = {"user": "user_id", "rule": "rule", "group": "group"}
WORD_COLUMNS = {"user": "user_id", "device": "device_id", "word": "word"}
FILES = {  # by part: devices, rules and, where there are any, groups of rules and words of devices
    "train": ("train_device.csv", "train_rule.csv", "rule_group.csv", "device_word.csv"),
    "test": ("test_device.csv", "test_rule.csv", "test_rule_group.csv", "test_device_word.csv"),
    "test_private": (
        "test_device_private.csv",
        "test_rule_private.csv",
        "test_rule_group_private.csv",
        "test_device_word_private.csv",
    ),
}
EDITIONS = {1: "home-assistant", 2: "home-assistant-2"}  # the folders of home-assistant


@dataset(
    "wyze",
    folder="wyze",
    files=("train_rule.csv", "train_device.csv"),
    origin="the public Wyze Rule Recommendation data set, which is gated: ask its owners for access",
)
def wyze(
    folder: Path,
    *,
    part: str = "train",
    min_pair_count: int = 1,
    min_rules: int = 0,
    min_devices: int = 0,
    on_error: str = "raise",
) -> Homes:
    """The public Wyze smart-home rules.

    part: train, test or test_private
    min_pair_count: leave out trigger-action pairs that occur less often
    min_rules, min_devices: leave out homes with fewer
    on_error: raise, or skip to leave bad lines out and list them
    """
    homes = read_wyze(folder, part=part, on_error=on_error)
    if part == "train":
        homes = replace(homes, provenance=replace(homes.provenance, published="wyze-public"))
    return filter_homes(homes, min_pair_count=min_pair_count, min_rules=min_rules, min_devices=min_devices)


@dataset(
    "home-assistant",
    folder=EDITIONS[2],
    files=("train_rule.csv", "train_device.csv", "rule_group.csv", "device_word.csv"),
    origin="public Home Assistant configurations turned into the Wyze layout",
    editions=EDITIONS,
)
def home_assistant(
    folder: Path,
    *,
    edition: int = 2,
    words: bool = True,
    min_pair_count: int = 1,
    min_rules: int = 0,
    min_devices: int = 0,
    cut: int = 0,
    on_error: str = "raise",
) -> Homes:
    """Real automations of 261 homes; rules of one automation form a group, devices share words of their names.

    edition: 2, or 1 for the first one of 210 homes, which has no words; many homes are in both
    words: with the words of device_word.csv, where it is there
    min_pair_count: leave out trigger-action pairs that occur less often
    min_rules, min_devices: leave out homes with fewer
    cut: then cut homes into pieces of about this many rules, to study small ones; 0 does not cut
    on_error: raise, or skip to leave bad lines out and list them
    """
    if edition not in EDITIONS:
        raise DataError(f"edition must be {' or '.join(map(str, EDITIONS))}, got {edition}")
    homes = read_wyze(folder, words=words, on_error=on_error)
    return cut_homes(
        filter_homes(homes, min_pair_count=min_pair_count, min_rules=min_rules, min_devices=min_devices), cut
    )


def read_wyze(folder: Path, *, part: str = "train", words: bool = True, on_error: str = "raise") -> Homes:
    """Everything in the files. Devices that only rules name, such as the shared Cloud, are added to the home.

    Without `words` a file of words is not opened.
    """
    if part not in FILES:
        raise unknown("part", part, FILES)
    device_file, rule_file, group_file, word_file = (_file(folder, name) for name in FILES[part])
    if device_file is None or rule_file is None:
        raise _missing_file(folder, part)
    bad_rows = BadRows(on_error)
    devices = read_table(device_file, DEVICE_COLUMNS, bad_rows=bad_rows)
    rules = read_table(rule_file, RULE_COLUMNS, bad_rows=bad_rows)
    usable = _refuse_inconsistent(rules, bad_rows)
    group = None
    if group_file is not None:
        groups = read_table(group_file, GROUP_COLUMNS, bad_rows=bad_rows)
        group, grouped = _groups(rules, groups, bad_rows)
        usable &= grouped
    codes = {}
    for name, number in (("trigger_state", "trigger_state_id"), ("action", "action_id")):
        codes[name], numbered = _source_numbers(rules, name, number, bad_rows)
        usable &= numbered
    word_table = None
    if words and word_file is not None:
        word_table = read_table(word_file, WORD_COLUMNS, bad_rows=bad_rows)
    return join(
        folder.name,
        devices,
        rules,
        bad_rows=bad_rows,
        provenance=Provenance(source=f"{rules.file} and {devices.file}", codes=codes),
        integer_ids=True,
        add_devices=True,
        usable=usable,
        group=group,
        words=word_table,
    )


def _file(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder, plain or packed with gzip."""
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(found) > 1:
        raise DataError(f"{folder}: it has both {name} and {name}.gz; delete one of them")
    return found[0] if found else None


def _missing_file(folder: Path, part: str) -> DataError:
    name = next(name for name in FILES[part][:2] if _file(folder, name) is None)
    parts = [part for part, files in FILES.items() if all(_file(folder, file) for file in files[:2])]
    hint = f"; the folder has the part {' and '.join(parts)}: load it with part={parts[0]}" if parts else ""
    return DataError(f"{folder}: {name} is missing; a Wyze-layout folder has *_rule.csv and *_device.csv{hint}")


def _refuse_inconsistent(rules: TextTable, bad_rows: BadRows) -> Mask:
    """The column `rule` repeats the four ids: where they differ, the line is cut off or mixed up."""
    spelled = pc.binary_join_element_wise(*(rules[part] for part in RULE_PARTS), "_")
    same = pc.fill_null(pc.equal(spelled, rules["rule"]), False).to_numpy(zero_copy_only=False)
    what = "rule is not trigger_device_id, trigger_state_id, action_id and action_device_id joined by _"
    return rules.refuse(~same, what, "the line may be cut off: restore it", bad_rows=bad_rows, show="rule")


def _groups(rules: TextTable, groups: TextTable, bad_rows: BadRows) -> tuple[Array, Mask]:
    """The group of each rule, looked up by user and rule."""
    number, ok = whole_numbers(groups, "group", bad_rows)
    for role in ("user", "rule"):
        ok &= refuse_missing(groups, role, bad_rows)
    key = pc.binary_join_element_wise(groups["user"], groups["rule"], " ")
    wanted = pc.binary_join_element_wise(rules["user"], rules["rule"], " ")
    # Only among good lines: a bad one says nothing about the group of its rule.
    rows = np.flatnonzero(ok)
    same = key.filter(pa.array(ok)).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, begin, back = np.unique(same, return_index=True, return_inverse=True)
    contradicts: Mask = np.zeros(len(groups), dtype=bool)
    contradicts[rows] = number[rows] != number[rows[begin[back]]]
    what, remedy = "the rule is in two groups", "keep one of the lines"
    ok &= groups.refuse(contradicts, what, remedy, bad_rows=bad_rows, show="rule")
    place = pc.fill_null(pc.index_in(wanted, key.filter(pa.array(ok))), -1).to_numpy(zero_copy_only=False)
    what, remedy = f"the rule is not in {groups.file}", "add it there: without its group a split may leak"
    grouped = rules.refuse(place < 0, what, remedy, bad_rows=bad_rows, show="rule")
    surplus = ~pc.is_in(key, wanted).to_numpy(zero_copy_only=False) & ok
    what, remedy = f"the rule is not in {rules.file}", "delete the line, or restore the rule"
    groups.refuse(surplus, what, remedy, bad_rows=bad_rows, show="rule")
    group = np.full(len(rules), -1, dtype=np.int64)
    group[grouped] = number[ok][place[grouped]]
    return group, grouped


def _source_numbers(rules: TextTable, name: str, number: str, bad_rows: BadRows) -> tuple[dict[str, int], Mask]:
    """The source's number for each state or action, the first where it has several; submissions need it."""
    numbers, ok = whole_numbers(rules, number, bad_rows)
    coded = pc.fill_null(rules[name], "").dictionary_encode()
    _, first = np.unique(coded.indices.to_numpy(), return_index=True)
    return dict(zip(coded.dictionary.to_pylist(), numbers[first].tolist(), strict=True)), ok


ONLY_IN_RULES = ("Cloud",)  # a pseudo-device: the public device file does not list it


def write_wyze(homes: Homes, folder: Path | str, *, part: str = "train") -> None:
    """Write files of devices, rules and, if there are any, groups and words; earlier ones, also packed ones, go."""
    folder = Path(folder)
    refuse_text_ids(homes)
    refuse_empty_homes(homes, "the Wyze layout")
    folder.mkdir(parents=True, exist_ok=True)
    device_file, rule_file, group_file, word_file = FILES[part]
    rules = homes.rules
    columns = {
        "user": pa.array(homes.users[rules.home]),
        **rule_columns(homes, rules.trigger, rules.relation, rules.action),
    }
    columns["rule"] = rule_ids(columns)
    write_delimited(folder / rule_file, {name: columns[role] for role, name in RULE_COLUMNS.items()})
    listed = _listed(homes)
    devices = {
        "user": pa.array(homes.users[homes.device_home[listed]]),
        "device": pa.array(homes.device_ids[listed]),
        "type": _words(homes.types).take(pa.array(homes.device_type[listed])),
    }
    write_delimited(folder / device_file, {name: devices[role] for role, name in DEVICE_COLUMNS.items()})
    if rules.group is not None:
        columns["group"] = pa.array(rules.group)
        write_delimited(folder / group_file, {name: columns[role] for role, name in GROUP_COLUMNS.items()})
    else:  # groups of earlier files do not belong to these rules
        (folder / group_file).unlink(missing_ok=True)
    if homes.words is not None and len(homes.words):
        write_delimited(folder / word_file, {WORD_COLUMNS[role]: ids for role, ids in word_columns(homes).items()})
    else:
        (folder / word_file).unlink(missing_ok=True)
    for name in FILES[part]:
        (folder / f"{name}.gz").unlink(missing_ok=True)


def word_columns(homes: Homes) -> dict[str, pa.Array]:
    """The columns of a file of words, by role; the homes have some."""
    assert homes.words is not None
    device = homes.words.device
    return {
        "user": id_column(homes.users[homes.device_home[device]]),
        "device": id_column(homes.device_ids[device]),
        "word": pa.array(homes.words.word),
    }


def refuse_text_ids(homes: Homes) -> None:
    """The layout joins ids to texts by "_", so they must be numbers."""
    if homes.users.dtype.kind != "i" or homes.device_ids.dtype.kind != "i":
        raise DataError(
            f"{homes.name}: the Wyze layout needs whole numbers as ids; save it as one .parquet file instead"
        )


def refuse_empty_homes(homes: Homes, layout: str) -> None:
    """Homes without devices, or without any rule, would be lost in a file of lines."""
    bare = homes.users[np.diff(homes.device_start) == 0]
    if len(bare):
        more = f" and {len(bare) - 5:,} more" if len(bare) > 5 else ""
        users = ", ".join(str(user) for user in bare[:5].tolist())
        raise DataError(
            f"{homes.name}: {layout} cannot hold homes without devices (users {users}{more}); leave them out, "
            "e.g. with min_devices=1, or save it as one .parquet file instead"
        )
    if not homes.n_rules:
        raise DataError(f"{homes.name}: it has no rule to write; save it as one .parquet file instead")


def _listed(homes: Homes) -> Mask:
    """The devices of the device file: all, except Cloud where it is added again from the rules."""
    cloud = np.isin(homes.device_type, [i for i, name in enumerate(homes.types) if name in ONLY_IN_RULES])
    used = np.zeros(homes.n_devices, dtype=bool)
    used[homes.rules.trigger] = used[homes.rules.action] = True
    taken = np.isin(homes.device_ids[cloud], homes.device_ids[~cloud]).any()
    # All or none: listed for one home only, the shared id would seem to be that home's own. And no file may be empty.
    leave_out = used[cloud].all() and not taken and not cloud.all()
    return ~cloud if leave_out else np.ones(homes.n_devices, dtype=bool)


def rule_columns(homes: Homes, trigger: Array, relation: Array, action: Array) -> dict[str, pa.Array]:
    """The columns of a rule file for these rules, but for user and rule, by role."""
    types = _words(homes.types)
    states, actions = [r.trigger for r in homes.relations], [r.action for r in homes.relations]
    codes = source_codes(homes)
    which = pa.array(relation)
    return {
        "trigger_type": types.take(pa.array(homes.device_type[trigger])),
        "trigger_device": pa.array(homes.device_ids[trigger]),
        "trigger_state": _words(states).take(which),
        "trigger_state_id": pa.array([codes["trigger_state"][s] for s in states], pa.int64()).take(which),
        "action": _words(actions).take(which),
        "action_id": pa.array([codes["action"][a] for a in actions], pa.int64()).take(which),
        "action_type": types.take(pa.array(homes.device_type[action])),
        "action_device": pa.array(homes.device_ids[action]),
    }


def rule_ids(columns: dict[str, pa.Array]) -> pa.Array:
    """A rule as the source writes it: trigger device, state, action and action device by number."""
    return pc.binary_join_element_wise(*(columns[part].cast(pa.string()) for part in RULE_PARTS), "_")


def source_codes(homes: Homes) -> dict[str, dict[str, int]]:
    """The source's numbers for states and actions; homes that have none are numbered in alphabetical order."""
    names = {"trigger_state": {r.trigger for r in homes.relations}, "action": {r.action for r in homes.relations}}
    codes = homes.provenance.codes
    if not codes:
        return {kind: {name: i for i, name in enumerate(sorted(words))} for kind, words in names.items()}
    for kind, words in names.items():
        if unnumbered := sorted(words - codes.get(kind, {}).keys()):
            remedy = "take them over with datasets.align(homes, like=...)"
            raise DataError(f"{homes.name}: the source has no number for the {kind} {unnumbered[0]!r}; {remedy}")
    return codes


def _words(names: tuple[str, ...] | list[str]) -> pa.Array:
    return pa.array(names, pa.string())
