"""The layout of the public Wyze Rule Recommendation data: `*_rule.csv` and `*_device.csv`, joined by user and device.

`home-assistant` has the same layout and a third file, `rule_group.csv`, that says which rules one automation gave.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datasets.readers.cut import cut as pieces
from datasets.common.errors import DataError, unknown
from datasets.readers.filters import narrow
from datasets.homes import Array, Homes, Mask, Provenance
from datasets.readers.ids import refuse_missing, whole_numbers
from datasets.readers.join import join
from datasets.readers.bad_rows import Problems
from datasets.registry import dataset
from datasets.readers.text_table import TextTable, read_table

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
FILES = {  # by part: devices, rules and, where there is one, their groups
    "train": ("train_device.csv", "train_rule.csv", "rule_group.csv"),
    "test": ("test_device.csv", "test_rule.csv", "test_rule_group.csv"),
    "test_private": ("test_device_private.csv", "test_rule_private.csv", "test_rule_group_private.csv"),
}


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
    return narrow(homes, min_pair_count=min_pair_count, min_rules=min_rules, min_devices=min_devices)


@dataset(
    "home-assistant",
    folder="home-assistant",
    files=("train_rule.csv", "train_device.csv", "rule_group.csv"),
    origin="public Home Assistant configurations turned into the Wyze layout",
)
def home_assistant(
    folder: Path,
    *,
    min_pair_count: int = 1,
    min_rules: int = 0,
    min_devices: int = 0,
    cut: int = 0,
    on_error: str = "raise",
) -> Homes:
    """Real automations of 210 homes; rules of one automation form a group.

    min_pair_count: leave out trigger-action pairs that occur less often
    min_rules, min_devices: leave out homes with fewer
    cut: then cut homes into pieces of about so many rules, to study small ones; 0 leaves them whole
    on_error: raise, or skip to leave bad lines out and list them
    """
    homes = read_wyze(folder, on_error=on_error)
    return pieces(narrow(homes, min_pair_count=min_pair_count, min_rules=min_rules, min_devices=min_devices), cut)


def read_wyze(folder: Path, *, part: str = "train", on_error: str = "raise") -> Homes:
    """Everything in the files. Devices that only rules name, such as the shared Cloud, are added to the home."""
    if part not in FILES:
        raise unknown("part", part, FILES)
    device_file, rule_file = (_file(folder, name) for name in FILES[part][:2])
    group_file = folder / FILES[part][2]
    problems = Problems(on_error)
    devices = read_table(device_file, DEVICE_COLUMNS, problems=problems)
    rules = read_table(rule_file, RULE_COLUMNS, problems=problems)
    usable = _refuse_inconsistent(rules, problems)
    group = None
    if group_file.is_file():
        groups = read_table(group_file, GROUP_COLUMNS, problems=problems)
        group, grouped = _groups(rules, groups, problems)
        usable &= grouped
    codes = {}
    for name, number in (("trigger_state", "trigger_state_id"), ("action", "action_id")):
        codes[name], numbered = _source_numbers(rules, name, number, problems)
        usable &= numbered
    return join(
        folder.name,
        devices,
        rules,
        problems=problems,
        provenance=Provenance(source=f"{rules.file} and {devices.file}", codes=codes),
        integer_ids=True,
        add_devices=True,
        usable=usable,
        group=group,
    )


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        parts = [part for part, files in FILES.items() if all((folder / file).is_file() for file in files[:2])]
        hint = f"; the folder has the part {' and '.join(parts)}: load it with part={parts[0]}" if parts else ""
        raise DataError(f"{folder}: {name} is missing; a Wyze-layout folder has *_rule.csv and *_device.csv{hint}")
    return folder / name


def _refuse_inconsistent(rules: TextTable, problems: Problems) -> Mask:
    """A rule's own text repeats its four ids: where they differ, the line is cut off or mixed up."""
    spelled = pc.binary_join_element_wise(*(rules[part] for part in RULE_PARTS), "_")
    same = pc.fill_null(pc.equal(spelled, rules["rule"]), False).to_numpy(zero_copy_only=False)
    what = "rule is not trigger_device_id, trigger_state_id, action_id and action_device_id joined by _"
    return rules.refuse(~same, what, "the line may be cut off: restore it", problems=problems, show="rule")


def _groups(rules: TextTable, groups: TextTable, problems: Problems) -> tuple[Array, Mask]:
    """The group of each rule, looked up by user and rule."""
    number, ok = whole_numbers(groups, "group", problems)
    for role in ("user", "rule"):
        ok &= refuse_missing(groups, role, problems)
    key = pc.binary_join_element_wise(groups["user"], groups["rule"], " ")
    wanted = pc.binary_join_element_wise(rules["user"], rules["rule"], " ")
    # Only among good lines: a bad one says nothing about the group of its rule.
    rows = np.flatnonzero(ok)
    same = key.filter(pa.array(ok)).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, begin, back = np.unique(same, return_index=True, return_inverse=True)
    contradicts: Mask = np.zeros(len(groups), dtype=bool)
    contradicts[rows] = number[rows] != number[rows[begin[back]]]
    what, remedy = "the rule is in two groups", "keep one of the lines"
    ok &= groups.refuse(contradicts, what, remedy, problems=problems, show="rule")
    place = pc.fill_null(pc.index_in(wanted, key.filter(pa.array(ok))), -1).to_numpy(zero_copy_only=False)
    what, remedy = f"the rule is not in {groups.file}", "add it there: without its group a split may leak"
    grouped = rules.refuse(place < 0, what, remedy, problems=problems, show="rule")
    surplus = ~pc.is_in(key, wanted).to_numpy(zero_copy_only=False) & ok
    what, remedy = f"the rule is not in {rules.file}", "delete the line, or restore the rule"
    groups.refuse(surplus, what, remedy, problems=problems, show="rule")
    group = np.full(len(rules), -1, dtype=np.int64)
    group[grouped] = number[ok][place[grouped]]
    return group, grouped


def _source_numbers(rules: TextTable, name: str, number: str, problems: Problems) -> tuple[dict[str, int], Mask]:
    """The source's number for each state or action, the first where it has several; submissions need it."""
    numbers, ok = whole_numbers(rules, number, problems)
    coded = pc.fill_null(rules[name], "").dictionary_encode()
    _, first = np.unique(coded.indices.to_numpy(), return_index=True)
    return dict(zip(coded.dictionary.to_pylist(), numbers[first].tolist(), strict=True)), ok
