"""Two tables, who owns which device and which rules exist, joined into homes; every bad line is reported.

A device listed twice with one type is read once and counted; with two types it is refused. A rule that names a device
of another home is refused (where users share device ids this cannot be checked, which is noted), and so is one that
contradicts the device table about a type. A device that occurs only in rules is added to the home with `add_devices` if
the rule names its type, and refused otherwise. A third table may say which words the names of devices have, or the
device table the names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from datasets.common.errors import DataError
from datasets.homes import WORDS, Array, Homes, Ids, Mask, Provenance, Relation, Rules, Words
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import TextTable, categories, ids_of_one_kind, refuse_missing, whole_numbers
from datasets.words import words_of_homes

log = logging.getLogger(__name__)

SHARED_IDS = "Users share device ids, so rules were not checked for naming another user's device."
DECIMAL = r"^-?[0-9]+\.0+$"
ENDS = {"trigger_device": "trigger_type", "action_device": "action_type"}  # a rule's device and, if named, its type
SPARSE = 4  # whole numbers that leave at most so many gaps to each value are counted instead of hashed


def encode(values: Ids | pd.Categorical) -> tuple[Ids, Array]:
    """The sorted distinct values and, for each value, its position among them; no value may be missing."""
    if isinstance(values, pd.Categorical):
        used, code = encode(np.asarray(values.codes, dtype=np.int64))
        words, rank = encode(np.asarray(values.categories, dtype=object)[used])
        return words, rank[code]
    if values.dtype.kind == "i" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < SPARSE * len(values):
            return _counted(values, low, high)
    number, distinct = pd.factorize(values)  # hashing, then sorting only what is distinct: far cheaper than sorting all
    order = np.argsort(distinct, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return np.asarray(distinct)[order], rank[number]


def _counted(values: Ids, low: int, high: int) -> tuple[Ids, Array]:
    """The same for whole numbers in a small range: a table over it, no hashing and no sorting."""
    there = np.zeros(high - low + 1, dtype=bool)
    there[values - low] = True
    position = np.cumsum(there) - 1
    return np.flatnonzero(there) + low, position[values - low]


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """Who owns which device; one row per device, no (user, id) twice."""

    user: Ids
    id: Ids
    type: Ids | pd.Categorical


@dataclass(frozen=True, slots=True)
class RuleColumns:
    """Who has which rule; devices by their id within the home."""

    user: Ids
    trigger: Ids
    trigger_state: Ids | pd.Categorical
    action: Ids | pd.Categorical
    action_device: Ids
    group: Array | None = None


@dataclass(frozen=True, slots=True)
class WordColumns:
    """Which words the names of devices have; devices by their id within the home, entries perhaps twice."""

    user: Ids
    device: Ids
    word: Array  # numbers that count within the home


def assemble(
    name: str, devices: DeviceColumns, rules: RuleColumns, provenance: Provenance, words: WordColumns | None = None
) -> Homes:
    """Homes from columns whose rows are known to be good. The order of rows does not matter, but for rules in a home.

    Users and devices are sorted by id, types and relations by name. A rule that a home has twice is kept once and
    counted in the provenance as "duplicate rules".
    """
    more = [] if words is None else [(words.user, words.device)]
    users, number = encode(np.concatenate([devices.user, rules.user, *(user for user, _ in more)]))
    device_user, rule_user, word_user = np.split(number, np.cumsum([len(devices.user), len(rules.user)]))
    ids, number = encode(np.concatenate([devices.id, rules.trigger, rules.action_device, *(id_ for _, id_ in more)]))
    parts = np.cumsum([len(devices.id), len(rules.trigger), len(rules.action_device)])
    device_id, trigger_id, action_id, word_id = np.split(number, parts)
    types, device_type = encode(devices.type)

    key = device_user * max(len(ids), 1) + device_id
    order = np.argsort(key, kind="stable")
    key = key[order]
    if np.any(np.diff(key) == 0):
        raise DataError(f"{name}: a home owns one device twice")
    trigger = _find(key, rule_user * max(len(ids), 1) + trigger_id, name)
    action = _find(key, rule_user * max(len(ids), 1) + action_id, name)
    named = _find(key, word_user * max(len(ids), 1) + word_id, name)

    states, state = encode(rules.trigger_state)
    actions, act = encode(rules.action)
    pairs, relation = np.unique(state * max(len(actions), 1) + act, return_inverse=True)
    relations = tuple(Relation(str(states[p // len(actions)]), str(actions[p % len(actions)])) for p in pairs.tolist())
    sorted_rules = Rules(rule_user, trigger, action, relation, rules.group).by_home()
    _, first = np.unique(sorted_rules.keys(len(key), len(relations)), return_index=True)
    duplicates = len(sorted_rules) - len(first)
    counts = provenance.counts | ({"duplicate rules": duplicates} if duplicates else {})
    return Homes(
        name=name,
        types=tuple(str(t) for t in types),
        relations=relations,
        users=users,
        device_home=device_user[order],
        device_type=device_type[order],
        device_ids=devices.id[order],
        rules=sorted_rules.take(np.sort(first)),
        provenance=replace(provenance, counts=counts),
        words=None if words is None else Words.of(named, words.word),
    )


def _find(sorted_keys: Array, wanted: Array, name: str) -> Array:
    position = np.minimum(np.searchsorted(sorted_keys, wanted), max(len(sorted_keys) - 1, 0))
    if len(wanted) and (not len(sorted_keys) or np.any(sorted_keys[position] != wanted)):
        raise DataError(f"{name}: a rule or word names a device that its home does not own")
    return position.astype(np.int64)


def join(
    name: str,
    devices: TextTable,
    rules: TextTable,
    *,
    bad_rows: BadRows,
    provenance: Provenance,
    integer_ids: bool = False,
    add_devices: bool = False,
    usable: Mask | None = None,
    group: Array | None = None,
    words: TextTable | None = None,
) -> Homes:
    """Homes from two or three tables; `usable` says which rules passed the caller's own checks. Reports `bad_rows`.

    Roles of columns: devices have user, device, type, and may have name and room; rules have user, trigger_device,
    trigger_state, action, action_device, and may have trigger_type and action_type; words have user, device, word.
    """
    tables = _Tables(devices, rules, words, integer_ids, bad_rows)
    if usable is not None:
        tables.rule_ok &= usable
    repeated = tables.keep_each_device_once()
    missing = {end: tables.look_up(end, add_devices) for end in ENDS}
    added = tables.add_devices(missing)
    named = tables.words_of_devices()
    skipped = bad_rows.report()
    if skipped and not tables.rule_ok.any():
        log.warning("%s: without the bad lines no rule is left", name)
    counts = {
        "device rows": devices.rows,
        "rule rows": rules.rows,
        "device rows repeated": repeated,
        "device rows skipped": devices.rows - len(tables.known) - repeated,
        "rule rows skipped": rules.rows - int(tables.rule_ok.sum()),
        "devices that only rules name": len(added.id),
        "word rows": 0 if words is None else words.rows,
    }
    notes = provenance.notes + (() if tables.unique_ids else (SHARED_IDS,))
    known, kept = tables.known, tables.rule_ok
    return assemble(
        name,
        DeviceColumns(
            np.concatenate([tables.device_user[known], added.user]),
            np.concatenate([tables.device[known], added.id]),
            tables.named(np.concatenate([tables.device_type[known], added.type])),
        ),
        RuleColumns(
            tables.rule_user[kept],
            tables.end["trigger_device"][kept],
            categories(rules["trigger_state"])[kept],
            categories(rules["action"])[kept],
            tables.end["action_device"][kept],
            None if group is None else group[kept],
        ),
        replace(
            provenance, counts=provenance.counts | {k: n for k, n in counts.items() if n}, skipped=skipped, notes=notes
        ),
        named,
    )


class _Tables:
    """All tables with their ids and types as numbers of common vocabularies; `*_ok` shrink as faults are found."""

    def __init__(
        self, devices: TextTable, rules: TextTable, words: TextTable | None, integer_ids: bool, bad_rows: BadRows
    ) -> None:
        self.devices, self.rules, self.words, self.bad_rows = devices, rules, words, bad_rows
        self.integer_ids = integer_ids
        self._parse_ids()
        self.device_ok &= refuse_missing(devices, "type", bad_rows)
        for role in ("trigger_state", "action"):
            self.rule_ok &= refuse_missing(rules, role, bad_rows)
        self._number_types()

    def _parse_ids(self) -> None:
        third = [] if self.words is None else [self.words]
        users = [(table, "user") for table in (self.devices, self.rules, *third)]
        ids = [(self.devices, "device"), *((self.rules, end) for end in ENDS), *((table, "device") for table in third)]
        values: list[Ids]
        if self.integer_ids:
            parsed = [whole_numbers(table, role, self.bad_rows) for table, role in users + ids]
            values, ok = [numbers for numbers, _ in parsed], [good for _, good in parsed]
        else:
            kinds = ([table[role] for table, role in roles] for roles in (users, ids))
            values = [column for columns in kinds for column in ids_of_one_kind(columns)]
            ok = [refuse_missing(table, role, self.bad_rows) for table, role in users + ids]
        n = len(users)
        of_user, of_id, user_ok, id_ok = values[:n], values[n:], ok[:n], ok[n:]
        self.device_user, self.rule_user, self.device = *of_user[:2], of_id[0]
        self.end = dict(zip(ENDS, of_id[1:3], strict=True))
        self.device_ok, self.rule_ok = user_ok[0] & id_ok[0], user_ok[1] & id_ok[1] & id_ok[2]
        if third:
            self.word_user, self.word_device, self.word_ok = of_user[2], of_id[3], user_ok[2] & id_ok[3]
        _, user = encode(np.concatenate(of_user))
        distinct, id_ = encode(np.concatenate(of_id))
        self.n_ids = max(len(distinct), 1)
        # One number per (user, device), the same in all tables.
        n_devices, n_rules = len(self.devices), len(self.rules)
        owner, of_rule, of_word = np.split(user, [n_devices, n_devices + n_rules])
        owned, trigger, action, worded = np.split(id_, np.cumsum([n_devices, n_rules, n_rules]))
        self.device_key = owner * self.n_ids + owned
        self.word_key = of_word * self.n_ids + worded
        self.end_key = {
            "trigger_device": of_rule * self.n_ids + trigger,
            "action_device": of_rule * self.n_ids + action,
        }

    def _number_types(self) -> None:
        given = {end: categories(self.rules[role]) for end, role in ENDS.items() if role in self.rules}
        columns = [categories(self.devices["type"]), *given.values()]
        self.types = sorted({word for column in columns for word in column.categories} - {""})
        number = {word: i for i, word in enumerate(self.types)} | {"": -1}  # -1: not given
        codes = [np.array([number[w] for w in c.categories], dtype=np.int64)[c.codes] for c in columns]
        self.device_type = codes[0]
        self.end_type = dict.fromkeys(ENDS, np.full(len(self.rules), -1)) | dict(zip(given, codes[1:], strict=True))

    def named(self, type_: Array) -> pd.Categorical:
        """Types by their words."""
        return pd.Categorical.from_codes(type_, categories=pd.Index(self.types, dtype=object))

    def keep_each_device_once(self) -> int:
        """Find the first row of every device; gives the number of rows that merely repeat one."""
        rows = np.flatnonzero(self.device_ok)
        rows, first, leader = _runs_of_equals(rows, self.device_key[rows])
        contradicts = _mask(rows[self.device_type[rows] != self.device_type[leader]], len(self.devices))
        self.devices.refuse(
            contradicts,
            "the device is listed before with another type",
            "keep one of the lines",
            bad_rows=self.bad_rows,
            show="device",
        )
        self.known = rows[first]  # rows of the device table, sorted by key
        self.owners = np.bincount(self.device_key[self.known] % self.n_ids, minlength=self.n_ids)
        self.unique_ids = bool(self.owners.max() <= 1)  # ids numbered anew in each home say nothing about an owner
        return len(rows) - len(self.known) - int(contradicts.sum())

    def look_up(self, end: str, add_devices: bool) -> Mask:
        """Check the devices at this end of the rules; gives the rules whose device is to be added to the home."""
        key, named = self.end_key[end], self.end_type[end]
        known = self.device_key[self.known]
        place = np.searchsorted(known, key)
        place[place == len(known)] = 0
        found = known[place] == key if len(known) else np.zeros(len(key), dtype=bool)
        wrong_type = found & (named >= 0)
        wrong_type[found] &= self.device_type[self.known[place[found]]] != named[found]
        column, file = self.rules.names[end], self.devices.file
        self._refuse(end, wrong_type, f"{column} has another type in {file}", "correct one of the files")
        foreign: Mask = ~found & self.unique_ids & (self.owners[key % self.n_ids] > 0)
        remedy = "a rule joins devices of one home: correct the id"
        self._refuse(end, foreign, f"{column} belongs to another user in {file}", remedy)
        missing = ~found & ~foreign
        unusable = missing & (named < 0) if add_devices else missing
        remedy = "add the device there" + ("" if add_devices else ", or load with the option add_devices=true")
        if unusable.any() and (decimal := self._with_decimals()):
            remedy = f"ids are written as decimals in {decimal}: write them as whole numbers"
        self._refuse(end, unusable, f"{column} is not among its user's devices in {file}", remedy)
        return missing & ~unusable

    def add_devices(self, missing: dict[str, Mask]) -> DeviceColumns:
        """The devices that only good rules name, each once; a later rule that gives one another type is refused."""
        at = {end: np.flatnonzero(mask & self.rule_ok) for end, mask in missing.items()}
        rows = np.concatenate(list(at.values()))
        key = np.concatenate([self.end_key[end][chosen] for end, chosen in at.items()])
        type_ = np.concatenate([self.end_type[end][chosen] for end, chosen in at.items()])
        id_ = np.concatenate([self.end[end][chosen] for end, chosen in at.items()])
        by_row = np.argsort(rows, kind="stable")
        order, _, leader = _runs_of_equals(by_row, key[by_row])
        contradicts = _mask(rows[order[type_[order] != type_[leader]]], len(self.rules))
        what = "an earlier rule gives a device of this one another type"
        self.rule_ok &= self.rules.refuse(contradicts, what, "correct one of the types", bad_rows=self.bad_rows)
        # A refused rule gives no device to its home, and not its other one either.
        left = order[self.rule_ok[rows[order]]]
        left, first, _ = _runs_of_equals(left, key[left])
        chosen = left[first]
        self.added_key = key[chosen]
        return DeviceColumns(self.rule_user[rows[chosen]], id_[chosen], type_[chosen])

    def words_of_devices(self) -> WordColumns | None:
        """The words of devices that their home has; others are refused. To be called after `add_devices`."""
        if self.words is None:
            return self._words_of_names() if {"name", "room"} & self.devices.columns.keys() else None
        own = np.concatenate([self.device_key[self.known], self.added_key])
        what = f"the device is not among its user's devices in {self.devices.file}"
        foreign = ~np.isin(self.word_key, own) & self.word_ok
        remedy = "add the device there, or delete the line"
        self.word_ok &= self.words.refuse(foreign, what, remedy, bad_rows=self.bad_rows, show="device")
        word = self._word_numbers(self.words)
        ok = self.word_ok
        return WordColumns(self.word_user[ok], self.word_device[ok], word[ok])

    def _words_of_names(self) -> WordColumns:
        """The words of listed devices from their names and rooms."""
        home = self.device_key[self.known] // self.n_ids  # sorted, as the keys are
        names, rooms = (self._texts(role) for role in ("name", "room"))
        types = [self.types[number] for number in self.device_type[self.known].tolist()]
        words = words_of_homes(home, names, rooms=rooms, types=types)
        rows = self.known[words.device]
        return WordColumns(self.device_user[rows], self.device[rows], words.word)

    def _texts(self, role: str) -> list[str]:
        """A column of the listed devices; empty where it is missing."""
        if role not in self.devices:
            return [""] * len(self.known)
        texts: list[str] = pc.fill_null(self.devices[role].take(pa.array(self.known)), "").to_pylist()
        return texts

    def _word_numbers(self, words: TextTable) -> Array:
        """[n_words]: the number of each word, or where words are texts, its place among those of the home."""
        if not self.integer_ids and not _all_numbers(words["word"]):
            self.word_ok &= refuse_missing(words, "word", self.bad_rows)
            number = np.zeros(len(words), dtype=np.int64)
            texts, code = encode(categories(words["word"])[self.word_ok])
            home = self.word_key[self.word_ok] // self.n_ids
            key, place = np.unique(home * len(texts) + code, return_inverse=True)
            number[self.word_ok] = place - np.searchsorted(key, home * len(texts))
            return number
        word, ok = whole_numbers(words, "word", self.bad_rows, called="words", shown=False)  # a word may be a name
        outside = ok & ((word < 0) | (word >= WORDS))
        what, remedy = f"the number of a word must be in 0..{WORDS - 1}", "number the words of each home from 0 on"
        self.word_ok &= ok & words.refuse(outside, what, remedy, bad_rows=self.bad_rows, show="word")
        return word

    def _with_decimals(self) -> str:
        """The file that writes 7.0 for what the other calls 7, if either does."""
        tables = (self.devices, ["user", "device"]), (self.rules, ["user", *ENDS])
        decimal = [
            any(pc.any(pc.match_substring_regex(table[role], DECIMAL)).as_py() for role in roles)
            for table, roles in tables
        ]
        return tables[decimal.index(True)][0].file if sum(decimal) == 1 else ""

    def _refuse(self, end: str, bad: Mask, what: str, remedy: str) -> None:
        self.rule_ok &= self.rules.refuse(bad & self.rule_ok, what, remedy, bad_rows=self.bad_rows, show=end)


def _all_numbers(column: pa.Array) -> bool:
    return ids_of_one_kind([column])[0].dtype.kind == "i"


def _runs_of_equals(rows: Array, key: Array) -> tuple[Array, Mask, Array]:
    """The rows sorted by key, which of them begins a run of equal keys, and for each the row that begins its run."""
    order = np.argsort(key, kind="stable")
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(key[order]) != 0
    rows = rows[order]
    return rows, first, rows[first][np.cumsum(first) - 1]


def _mask(rows: Array, length: int) -> Mask:
    mask = np.zeros(length, dtype=bool)
    mask[rows] = True
    return mask
