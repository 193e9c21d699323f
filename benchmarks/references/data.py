"""Homes generated, read, joined, split and sampled by plain loops."""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from datasets.homes import Homes, Relation, Rules
from datasets.splits import Hidden, Split
from datasets.synthetic.catalogue import INTENT_USE, INTENTS, PROFILES, Catalogue
from datasets.synthetic.households import SAME_ZONE
from datasets.synthetic.wyze import Preset
from datasets.valid import ValidRules

POSTGRESQL = "postgresql://"
Rule = tuple[int, int, int]  # trigger, action, relation


def generate_home_by_home(preset: Preset, offered: Catalogue, n_homes: int) -> list[set[tuple[int, int, int]]]:
    """Homes of the mean size by the same kind of model, one draw at a time.

    It does less: it draws each rule once, where the generator draws relations a dozen times over to fit their
    popularity; it knows no heavy tails, companions or exact totals. So the ratio is a lower bound.
    """
    rng = random.Random(0)
    profiles = [
        {offered.types.index(t): weight for t, weight in p.owns.items() if t in offered.types} for p in PROFILES
    ]
    rules_between: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, types in enumerate(zip(offered.trigger_type.tolist(), offered.action_type.tolist(), strict=True)):
        rules_between[types].append(i)
    appeal, relation = offered.appeal.tolist(), offered.relation.tolist()
    wish = [{types: sum(row[i] for i in rules) for types, rules in rules_between.items()} for row in appeal]
    made = []
    for _ in range(n_homes):
        owns = rng.choices(profiles, [p.share for p in PROFILES])[0]
        intent = rng.choices(range(len(INTENTS)), INTENT_USE)[0]
        more = rng.choices(list(owns), list(owns.values()), k=round(preset.devices / preset.homes) - 1)
        owned = [offered.types.index("Camera"), *more]  # so that every home can have a rule
        zone = [rng.randrange(2) for _ in owned]
        rules: set[tuple[int, int, int]] = set()
        while len(rules) < round(preset.rules / preset.homes):
            trigger = rng.randrange(len(owned))
            wanted = [
                wish[intent].get((owned[trigger], kind), 0.0) * (SAME_ZONE if zone[trigger] == zone[j] else 1.0)
                for j, kind in enumerate(owned)
            ]
            action = rng.choices(range(len(owned)), wanted)[0]
            options = rules_between[owned[trigger], owned[action]]
            rule = rng.choices(options, [appeal[intent][i] for i in options])[0]
            rules.add((trigger, action, relation[rule]))
        made.append(rules)
    return made


def read_row_by_row(
    devices: pd.DataFrame, rules: pd.DataFrame
) -> dict[int, tuple[dict[int, str], set[tuple[int, ...]]]]:
    """The homes of two tables as dictionaries, one `iterrows` step per row; parsing the CSV is not even counted."""
    homes: dict[int, tuple[dict[int, str], set[tuple[int, ...]]]] = {}
    relations: dict[tuple[str, str], int] = {}
    for _, row in devices.iterrows():
        homes.setdefault(row["user_id"], ({}, set()))[0][row["device_id"]] = row["device_model"]
    for _, row in rules.iterrows():
        owned, known = homes.setdefault(row["user_id"], ({}, set()))
        owned.setdefault(row["trigger_device_id"], row["trigger_device"])
        owned.setdefault(row["action_device_id"], row["action_device"])
        relation = relations.setdefault((row["trigger_state"], row["action"]), len(relations))
        known.add((row["trigger_device_id"], row["action_device_id"], relation))
    return homes


def load_row_by_row(url: str) -> Homes:
    """The homes of a database with dictionaries: all rows of both tables in memory, one loop iteration per row.

    A rule with a device that its user does not own is a KeyError; nothing else is checked.
    """
    devices: dict[int, dict[int, str]] = {}
    for user, device, type_ in fetched(url, "devices"):
        devices.setdefault(user, {})[device] = type_
    rules: dict[int, set[tuple[int, str, str, int]]] = {}
    for user, *rule in fetched(url, "rules"):
        rules.setdefault(user, set()).add(tuple(rule))
    users = sorted(devices)
    types = {word: n for n, word in enumerate(sorted({word for own in devices.values() for word in own.values()}))}
    pairs = sorted({Relation(state, action) for own in rules.values() for _, state, action, _ in own})
    relations: dict[tuple[str, str], int] = {pair: n for n, pair in enumerate(pairs)}
    owned: list[tuple[int, int, int]] = []
    written: list[tuple[int, int, int, int]] = []
    for home, user in enumerate(users):
        place = {device: len(owned) + n for n, device in enumerate(sorted(devices[user]))}
        owned += [(home, types[devices[user][device]], device) for device in place]
        said = rules.get(user, ())
        written += sorted((home, place[one], place[other], relations[on, do]) for one, on, do, other in said)
    device_home, device_type, ids = np.array(owned, dtype=np.int64).reshape(-1, 3).T
    columns = np.array(written, dtype=np.int64).reshape(-1, 4).T
    all_users = np.array(users, dtype=np.int64)
    return Homes("pipeline", tuple(types), tuple(pairs), all_users, device_home, device_type, ids, Rules(*columns))


def connect(url: str) -> AbstractContextManager[Any]:
    """A connection of the driver."""
    if not url.startswith(POSTGRESQL):
        return closing(sqlite3.connect(url))
    import psycopg  # an extra

    return closing(psycopg.connect(url))


def fetched(url: str, table: str) -> Sequence[tuple[Any, ...]]:
    """All rows, by the driver only."""
    with connect(url) as database:
        return list(database.execute(f"select * from {table}"))


def split_loop(homes: Homes, how: str) -> tuple[Homes, Hidden]:
    """Train and test, hiding home by home; one rule of a fifth of the homes for new ones, which leave train."""
    rng = np.random.default_rng(0)
    start = homes.rule_start.tolist()
    hidden, unseen = np.zeros(homes.n_rules, dtype=np.bool_), np.zeros(homes.n_homes, dtype=np.bool_)
    for home, (first, end) in enumerate(pairwise(start)):
        count = int(0.2 * (end - first)) if how == "holdout" else int(end - first >= 2)
        if how == "new_homes":
            unseen[home] = count and rng.random() < 0.2
            count *= int(unseen[home])
        hidden[first + rng.permutation(end - first)[:count]] = True
    if how != "new_homes":
        test = Hidden(homes.with_rules(~hidden), homes.rules.take(hidden))
        return test.homes, test
    hidden = hidden[unseen[homes.rules.home]]
    context = homes.subset(unseen)
    return homes.subset(~unseen), Hidden(context.with_rules(~hidden), context.rules.take(hidden))


def negatives_loop(kind: str, made: Split, valid: ValidRules) -> Rules:
    """Negatives as columns, drawing home by home with plain lists."""
    homes, n_relations = made.train, len(made.train.relations)
    relations = {(t, a): valid.relations_of(t, a).tolist() for t, a in np.ndindex(valid.shape[:2])}
    types, start, rule_start = homes.device_type.tolist(), homes.device_start.tolist(), homes.rule_start.tolist()
    known, hidden = plain(homes.rules), set(plain(made.test.rules))
    drawn: list[tuple[int, Rule]] = []
    for home in range(homes.n_homes):
        rules = known[rule_start[home] : rule_start[home + 1]]
        devices = range(start[home], start[home + 1])
        if kind == "paper":
            found = paper_loop(rules, devices, n_relations, hidden)
        else:
            cells = [(i, j, r) for i in devices for j in devices for r in relations[types[i], types[j]]]
            free = [cell for cell in cells if cell not in rules and cell not in hidden]
            found = random.sample(free, min(len(rules), len(free)))
        drawn += [(home, rule) for rule in found]
    return Rules(*np.array([(home, *rule) for home, rule in drawn]).T)


def paper_loop(rules: list[Rule], devices: range, n_relations: int, hidden: set[Rule]) -> list[Rule]:
    """Drawn until distinct: half of them on pairs apart, the others on pairs of a rule with another relation."""
    existing = list({(trigger, action) for trigger, action, _ in rules})
    apart = [(i, j) for i in devices for j in devices if (i, j) not in existing]
    drawn: list[Rule] = []
    while len(drawn) < len(rules):
        pairs = apart if apart and len(drawn) < (len(rules) + 1) // 2 else existing
        rule = (*random.choice(pairs), random.randrange(n_relations))
        if rule not in rules and rule not in hidden and rule not in drawn:
            drawn.append(rule)
    return drawn


def plain(rules: Rules) -> list[Rule]:
    return list(zip(rules.trigger.tolist(), rules.action.tolist(), rules.relation.tolist(), strict=True))
