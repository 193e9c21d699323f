"""The data set `home-assistant-configs`: a folder of many Home Assistant configurations, one home each.

The same code reads one's own home and these, so that data and product speak of the same types, states and actions. Ids
are running numbers, and names stay behind: of them only which devices share a word is kept.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Homes, Provenance, Relation, Rules
from datasets.registry import dataset
from datasets.words import words_of_homes

if TYPE_CHECKING:
    from fedrule.homeassistant.home import InstalledHome


@dataset(
    "home-assistant-configs",
    folder="home-assistant-configs",
    files=("one folder for each configuration",),
    origin="your own Home Assistant configurations, or public ones whose licence allows it",
)
def home_assistant_configs(
    folder: Path,
    *,
    unused: bool = False,
    switched_off: bool = True,
    max_rules: int = 300,
    min_rules: int = 2,
) -> Homes:
    """A folder of Home Assistant configurations: automations with groups, and words of names.

    unused: with devices that no rule uses
    switched_off: with the rules of automations that are switched off
    max_rules: of a home, the first ones; 0 for all
    min_rules: leave out homes with fewer
    """
    read, problems = _homes(folder)
    kept = []
    for place, home in read:
        rules = list(home.grouped_rules(switched_off=switched_off))
        rules = rules[:max_rules] if max_rules else rules
        if len(rules) >= min_rules:
            kept.append((place, home, rules))
    if not kept:
        raise DataError(
            f"{folder}: no configuration has {min_rules} or more rules; {'; '.join(problems[:5]) or 'all are empty'}"
        )
    types: dict[str, int] = {}
    relations: dict[Relation, int] = {}
    device_home: list[int] = []
    device_type: list[int] = []
    names: list[str] = []
    rooms: list[str] = []
    columns: list[tuple[int, int, int, int, int]] = []
    group_number = count()
    for number, (_, home, rules) in enumerate(kept):
        wanted = {id_ for _, rule in rules for id_ in (rule.trigger, rule.action_device)}
        devices = [device for device in home.devices if unused or device.id in wanted]
        position = {device.id: len(names) + at for at, device in enumerate(devices)}
        for device in devices:
            device_home.append(number)
            device_type.append(types.setdefault(device.type, len(types)))
            names.append(device.name)
            rooms.append(device.room)
        groups: dict[int, int] = {}
        for automation, rule in rules:
            if automation not in groups:
                groups[automation] = next(group_number)
            relation = relations.setdefault(Relation(rule.trigger_state, rule.action), len(relations))
            trigger, action = position[rule.trigger], position[rule.action_device]
            columns.append((number, trigger, action, relation, groups[automation]))
    home_of = np.array(device_home, dtype=np.int64)
    type_names = list(types)
    words = words_of_homes(home_of, names, rooms=rooms, types=[type_names[at] for at in device_type])
    automations = sum(len(home.outcomes) for _, home in read)
    counts = {
        "configurations": len(read),
        "automations": automations,
        "automations without a rule": sum(len(home.without_rule()) for _, home in read),
        "homes left out": len(read) - len(kept),
    }
    return Homes(
        "home-assistant-configs",
        tuple(types),
        tuple(relations),
        np.arange(1, len(kept) + 1),
        home_of,
        np.array(device_type, dtype=np.int64),
        np.arange(1, len(names) + 1),
        Rules(*(np.array(column, dtype=np.int64) for column in zip(*columns, strict=True))),
        Provenance(source=str(folder), counts=counts, notes=tuple(problems)),
        words,
    )


def _homes(folder: Path) -> tuple[list[tuple[Path, InstalledHome]], list[str]]:
    """The homes of the folders below, by their names; other folders become a note."""
    # Not at the top: the registry imports this module to list all data sets, also where the extra is not installed.
    from fedrule.homeassistant import read_folder, read_home

    found, problems = [], []
    for place in sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")):
        try:
            found.append((place, read_home(read_folder(place))))
        except DataError as error:
            problems.append(str(error))
    if not found:
        raise DataError(f"{folder}: expected one folder for each Home Assistant configuration, found none")
    return found, problems
