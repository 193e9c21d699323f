"""Households as flat arrays: what each owns and what each has automated.

A home k is the paper's graph G_k = (V_k, X_k, E_k): its devices are the nodes, their entity types the features, and
each rule (v_i, v_j, r) an edge from the trigger device to the action device with relation r, a trigger-action pair.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError

if TYPE_CHECKING:
    from datasets.describe import Description

Array: TypeAlias = npt.NDArray[np.int64]
Ids: TypeAlias = npt.NDArray[Any]  # int64, or numpy's StringDType where the source's ids are text
Mask: TypeAlias = npt.NDArray[np.bool_]


class Relation(NamedTuple):
    """A trigger-action pair, e.g. ("Open", "Power On")."""

    trigger: str
    action: str

    def __str__(self) -> str:
        return f"{self.trigger} -> {self.action}"


class Device(NamedTuple):
    """One device of one home."""

    id: int | str
    type: str


class Rule(NamedTuple):
    """One rule of one home."""

    trigger: Device
    relation: Relation
    action: Device

    def __str__(self) -> str:
        return f"<{self.trigger.type} {self.trigger.id}, {self.relation}, {self.action.type} {self.action.id}>"


class Home(NamedTuple):
    """One home: what it owns and what it has automated."""

    user: int | str
    devices: tuple[Device, ...]
    rules: tuple[Rule, ...]

    def __str__(self) -> str:
        owned = ", ".join(f"{device.type} {device.id}" for device in self.devices)
        return "\n  ".join([f"home of {self.user}: {owned or 'no devices'}", *map(str, self.rules)])


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Rules as columns, sorted by home; devices by their position in `Homes`."""

    home: Array  # [n_rules]
    trigger: Array  # [n_rules]  the device whose state starts the rule
    action: Array  # [n_rules]  the device that acts
    relation: Array  # [n_rules]
    group: Array | None = None  # [n_rules]  rules of one automation share a number; None where the source has none

    def __post_init__(self) -> None:
        for column in ("home", "trigger", "action", "relation"):
            object.__setattr__(self, column, frozen(getattr(self, column)))
        if self.group is not None:
            object.__setattr__(self, "group", frozen(self.group))
        lengths = {len(column) for column in (self.home, self.trigger, self.action, self.relation)}
        if len(lengths) > 1 or (self.group is not None and len(self.group) != len(self.home)):
            raise DataError("the columns of rules differ in length")

    def __len__(self) -> int:
        return len(self.home)

    def __repr__(self) -> str:
        return f"<{len(self):,} rules>"

    def take(self, which: Array | Mask) -> Rules:
        """The rules at these positions (or where the mask is true), in that order."""
        columns = [column[which] for column in (self.home, self.trigger, self.action, self.relation)]
        columns += [] if self.group is None else [self.group[which]]
        for column in columns:
            column.flags.writeable = False  # nobody else has it, so that it need not be copied
        return Rules(*columns)

    def moved(self, home: Array, shift: Array) -> Rules:
        """The same rules in homes of other numbers, whose devices have moved by shift[home]."""
        by = shift[home]
        return Rules(home, self.trigger + by, self.action + by, self.relation, self.group)

    def joined(self, others: Rules) -> Rules:
        """These and others of the same homes, sorted by home; without groups."""
        mine, theirs = ((each.home, each.trigger, each.action, each.relation) for each in (self, others))
        return Rules(*map(np.concatenate, zip(mine, theirs, strict=True))).by_home()

    def by_home(self) -> Rules:
        """The same rules sorted by home, keeping the order within each."""
        in_order = bool(np.all(self.home[1:] >= self.home[:-1]))
        return self if in_order else self.take(np.argsort(self.home, kind="stable"))

    def keys(self, n_devices: int, n_relations: int) -> Array:
        """One number per rule, equal for equal (trigger, action, relation); devices are never shared by homes."""
        if n_devices**2 * n_relations >= 2**63:  # numpy would wrap around and call different rules equal
            raise DataError(
                f"{n_devices:,} devices and {n_relations:,} relations are too many to number all rules in 64 bits; "
                "divide the homes into parts"
            )
        return (self.trigger * n_devices + self.action) * max(n_relations, 1) + self.relation


WORDS = 2**31  # a word's number is below, so that numbers of (device, word) fit into 64 bits


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Words of the names that owners gave their devices, mostly rooms; sorted by device and word, no entry twice.

    Only that devices share a word is known, never the word: its number counts within the home.
    """

    device: Array  # [n_entries]  position in `Homes`
    word: Array  # [n_entries]  from 0 on; the same number in two homes means nothing

    def __post_init__(self) -> None:
        for column in ("device", "word"):
            object.__setattr__(self, column, frozen(getattr(self, column)))
        if len(self.device) != len(self.word):
            raise DataError("the columns of words differ in length")
        if len(self.word) and not 0 <= self.word.min() <= self.word.max() < WORDS:
            raise DataError(f"the number of a word must be in 0..{WORDS - 1}")
        same, word = np.diff(self.device) == 0, np.diff(self.word)
        if np.any(np.diff(self.device) < 0) or np.any(word[same] < 0):
            raise DataError("words are not sorted by device and number; Words.of sorts them")
        if np.any(word[same] == 0):
            raise DataError("a device has one word twice; Words.of keeps it once")

    @classmethod
    def of(cls, device: Array, word: Array) -> Words:
        """Entries in any order, some perhaps twice."""
        if len(device) != len(word):
            raise DataError("the columns of words differ in length")
        order = np.lexsort((word, device))
        device, word = np.asarray(device)[order], np.asarray(word)[order]
        first = (np.diff(device, prepend=-1) != 0) | (np.diff(word, prepend=-1) != 0)
        return cls(device[first], word[first])

    def __len__(self) -> int:
        return len(self.device)

    def __repr__(self) -> str:
        return f"<{len(self):,} words of devices>"

    def start(self, n_devices: int) -> Array:
        """[n_devices + 1]: device d has the entries start[d] to start[d + 1]."""
        return starts(self.device, n_devices)

    def take(self, devices: Array, n_devices: int) -> Words:
        """The words of these of `n_devices` devices, which are numbered anew in this order."""
        start = self.start(n_devices)
        count = start[devices + 1] - start[devices]
        return Words(np.repeat(np.arange(len(devices)), count), self.word[runs(start, devices)])


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where homes came from, what was counted on the way in, and what was left out."""

    source: str = ""
    counts: dict[str, int] = field(default_factory=dict)  # e.g. {"rule rows": 8729, "duplicate rules": 2}
    skipped: tuple[str, ...] = ()  # one sentence per kind of bad line, with every line number
    notes: tuple[str, ...] = ()  # e.g. how a preset differs from the paper
    codes: dict[str, dict[str, int]] = field(default_factory=dict)  # the source's numbers for states and actions
    published: str = ""  # the entry of datasets.describe.PUBLISHED to compare the description with

    def __post_init__(self) -> None:
        # Copies: whoever fills its own dict afterwards changes nothing here.
        object.__setattr__(self, "counts", dict(self.counts))
        object.__setattr__(self, "codes", {kind: dict(numbers) for kind, numbers in self.codes.items()})

    def derived(self, left_out: Mapping[str, int] | None = None) -> Provenance:
        """The same for a part of the homes: what was published about all of them does not hold for it."""
        return replace(self, counts=self.counts | dict(left_out or {}), published="")


@dataclass(frozen=True, slots=True, eq=False)
class Homes:
    """Households as flat arrays; every home owns a contiguous run of devices and of rules."""

    name: str
    types: tuple[str, ...]  # entity types, e.g. "ContactSensor"
    relations: tuple[Relation, ...]  # trigger-action pairs
    users: Ids  # [n_homes]    the id in the source
    device_home: Array  # [n_devices]  sorted
    device_type: Array  # [n_devices]
    device_ids: Ids  # [n_devices]  the id in the source
    rules: Rules  # sorted by home; no rule twice
    provenance: Provenance = field(default_factory=Provenance)
    words: Words | None = None  # which devices share a word of their names; None where the source has none

    def __post_init__(self) -> None:
        object.__setattr__(self, "relations", tuple(Relation(*r) for r in self.relations))
        object.__setattr__(self, "types", tuple(self.types))
        for column in ("device_home", "device_type"):
            object.__setattr__(self, column, frozen(getattr(self, column)))
        for column in ("users", "device_ids"):
            object.__setattr__(self, column, frozen_ids(getattr(self, column)))
        for fault in _faults(self):
            raise DataError(f"{self.name}: {fault}")

    @property
    def n_homes(self) -> int:
        return len(self.users)

    @property
    def n_devices(self) -> int:
        return len(self.device_home)

    @property
    def n_rules(self) -> int:
        return len(self.rules)

    @property
    def device_start(self) -> Array:
        """[n_homes + 1]: home h owns devices device_start[h] to device_start[h + 1]."""
        return starts(self.device_home, self.n_homes)

    @property
    def rule_start(self) -> Array:
        """[n_homes + 1]: home h has rules rule_start[h] to rule_start[h + 1]."""
        return starts(self.rules.home, self.n_homes)

    @property
    def word_start(self) -> Array:
        """[n_devices + 1]: device d has the entries word_start[d] to word_start[d + 1] of `words`; 0 without words."""
        return np.zeros(self.n_devices + 1, dtype=np.int64) if self.words is None else self.words.start(self.n_devices)

    def share_word(self, one: Array, other: Array) -> Mask:
        """[n_pairs]: whether two devices of one home share a word; a device with itself if it has one at all."""
        shared: Mask = np.zeros(len(one), dtype=np.bool_)
        if self.words is None or not len(self.words):
            return shared
        start, words = self.word_start, self.words
        entries = runs(start, one)
        pair = np.repeat(np.arange(len(one)), start[one + 1] - start[one])
        known = words.device * WORDS + words.word  # sorted, as the entries are
        wanted = other[pair] * WORDS + words.word[entries]
        found = known[np.minimum(np.searchsorted(known, wanted), len(known) - 1)] == wanted
        shared[pair[found]] = True
        return shared

    @property
    def used_devices(self) -> Mask:
        """[n_devices]: whether a rule uses the device."""
        used = np.zeros(self.n_devices, dtype=np.bool_)
        used[self.rules.trigger] = used[self.rules.action] = True
        return used

    def typed(self, rules: Rules | None = None) -> tuple[Array, Array, Array]:
        """Trigger type, relation and action type of each rule: what a user-item model calls its item."""
        rules = self.rules if rules is None else rules
        return self.device_type[rules.trigger], rules.relation, self.device_type[rules.action]

    def home(self, index: int) -> Home:
        """One home, for people and tests: code that computes uses the arrays. Negative positions count from the end."""
        if not -self.n_homes <= index < self.n_homes:
            raise IndexError(f"home {index} of {self.n_homes}")
        index %= self.n_homes
        first, last = np.searchsorted(self.device_home, [index, index + 1])
        devices = tuple(
            Device(id_, self.types[type_])
            for id_, type_ in zip(self.device_ids[first:last].tolist(), self.device_type[first:last], strict=True)
        )
        rules = self.rules.take(np.arange(*np.searchsorted(self.rules.home, [index, index + 1])))
        listed = tuple(
            Rule(devices[t - first], self.relations[r], devices[a - first])
            for t, r, a in zip(rules.trigger, rules.relation, rules.action, strict=True)
        )
        return Home(self.users[index : index + 1].tolist()[0], devices, listed)

    def __iter__(self) -> Iterator[Home]:
        return (self.home(i) for i in range(self.n_homes))

    def __len__(self) -> int:
        return self.n_homes

    def __repr__(self) -> str:
        vocabulary = f"{len(self.types):,} types, {len(self.relations):,} relations"
        return (
            f"<{self.name}: {self.n_homes:,} homes, {self.n_devices:,} devices, {self.n_rules:,} rules, {vocabulary}>"
        )

    def with_rules(self, which: Array | Mask) -> Homes:
        """The same homes and devices with only these of their rules."""
        return replace(self, rules=self.rules.take(which).by_home(), provenance=self.provenance.derived())

    def subset(self, homes: Array | Mask) -> Homes:
        """These homes in this order, with their devices and rules; the vocabularies stay as they are."""
        if np.ndim(homes) != 1:
            raise DataError(f"subset: {homes!r} is not a list of homes; write [{homes!r}] for one home")
        is_mask = np.asarray(homes).dtype == bool
        if is_mask and len(homes) != self.n_homes:
            raise DataError(f"subset: a mask of {len(homes)} for {self.n_homes} homes")
        chosen = np.flatnonzero(homes) if is_mask else frozen(homes)
        if len(np.unique(chosen)) != len(chosen):
            raise DataError("subset: a home is listed twice")
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < self.n_homes:
            raise DataError(f"subset: home {chosen.min()} or {chosen.max()} is not one of 0..{self.n_homes - 1}")
        device_start, rule_start, number = self.device_start, self.rule_start, np.arange(len(chosen))
        devices = runs(device_start, chosen)
        n_devices, n_rules = (start[chosen + 1] - start[chosen] for start in (device_start, rule_start))
        shift = np.cumsum(n_devices) - n_devices - device_start[chosen]
        return replace(
            self,
            users=self.users[chosen],
            device_home=np.repeat(number, n_devices),
            device_type=self.device_type[devices],
            device_ids=self.device_ids[devices],
            rules=self.rules.take(runs(rule_start, chosen)).moved(np.repeat(number, n_rules), shift),
            provenance=self.provenance.derived(),
            words=self.words_of(devices),
        )

    def words_of(self, devices: Array) -> Words | None:
        """The words of these devices, numbered anew in this order, for homes that are made of them."""
        return None if self.words is None else self.words.take(devices, self.n_devices)

    def without_words(self) -> Homes:
        """The same homes from a source that has no words."""
        return self if self.words is None else replace(self, words=None)

    def merged_types(self) -> Homes:
        """One device per entity type and home, duplicate rules and all words dropped: the `types` track."""
        from datasets.vocabulary import merge_types

        return merge_types(self)

    def with_vocabulary(self, types: Sequence[str], relations: Sequence[tuple[str, str]]) -> Homes:
        """The same homes numbered by these vocabularies, which must hold every type and relation that is used."""
        from datasets.vocabulary import with_vocabulary

        return with_vocabulary(self, types, relations)

    @property
    def fingerprint(self) -> str:
        """16 hex digits, the same on every machine, of all but the name and the provenance."""
        digest = hashlib.sha256(_json([self.types, self.relations]))
        rules = self.rules
        columns = [self.users, self.device_home, self.device_type, self.device_ids]
        columns += [rules.home, rules.trigger, rules.action, rules.relation]
        columns += [] if rules.group is None else [rules.group]
        columns += [] if self.words is None else [self.words.device, self.words.word]
        for column in columns:
            content = column.astype("<i8").tobytes() if column.dtype.kind == "i" else _json(column.tolist())
            digest.update(f"{column.dtype.kind}{len(column)}:{len(content)};".encode())
            digest.update(content)
        return digest.hexdigest()[:16]

    def describe(self) -> Description:
        """Counts and distributions, to print or to compare with published ones."""
        from datasets.describe import describe

        return describe(self)

    def save(self, path: Path | str) -> None:
        """Write everything to one Parquet file, one row per home."""
        from datasets.storage import save

        save(self, Path(path))


@dataclass(frozen=True, slots=True, eq=False)
class HomeSubset:
    """Some homes on their own, and where their devices are among all homes."""

    homes: Homes
    chosen: Array  # [n_chosen]  positions of the homes among all
    shift: Array  # [n_chosen]  position of a device among those of `homes` minus that among all

    @classmethod
    def of(cls, everything: Homes, chosen: Array) -> HomeSubset:
        """The chosen homes in this order; `chosen` has no home twice, so as many as there are, sorted, are all."""
        all_chosen = len(chosen) == everything.n_homes and bool((np.diff(chosen) > 0).all())
        homes = everything if all_chosen else everything.subset(chosen)
        return cls(homes, chosen, homes.device_start[:-1] - everything.device_start[chosen])


def starts(sorted_home: Array, n_homes: int) -> Array:
    """[n_homes + 1]: where each home's run begins in a column sorted by home."""
    return np.searchsorted(sorted_home, np.arange(n_homes + 1)).astype(np.int64)


def distinct(values: Array) -> Array:
    """Numbers from 0 on, sorted and each once."""
    # np.unique hashes since numpy 2.3: a million numbers take 25 times as long as sorting.
    ordered = np.sort(values)
    first: Mask = np.diff(ordered, prepend=-1) != 0
    return ordered[first]


def frozen(values: npt.ArrayLike) -> Array:
    """Whole numbers as a read-only int64 array; a copy if anybody else could write to it."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iub":
        raise DataError(f"expected a column of whole numbers, got {array.dtype}")
    if array.dtype == np.int64 and not _writable(array):
        return array
    copy = array.astype(np.int64)
    copy.flags.writeable = False
    return copy


def frozen_ids(values: npt.ArrayLike) -> Ids:
    """Ids read-only, as int64 where they are whole numbers that fit and as variable-width text otherwise."""
    ids = np.asarray(values)
    fits = ids.dtype.kind in "ib" or (ids.dtype.kind == "u" and ids.max(initial=0) < 2**63)
    if fits or (ids.size == 0 and ids.dtype.kind == "f"):
        return frozen(ids)
    if ids.dtype == np.dtypes.StringDType() and not _writable(ids):
        return ids
    copy = ids.astype(np.dtypes.StringDType())
    copy.flags.writeable = False
    return copy


def _writable(array: Ids) -> bool:
    """Whether the array, or one that it is a view of, can be written to."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    return False


def runs(start: Array, chosen: Array) -> Array:
    """The positions start[c] to start[c + 1] of every chosen c, one after the other."""
    length = start[chosen + 1] - start[chosen]
    offset = np.repeat(start[chosen] - (np.cumsum(length) - length), length)
    return offset + np.arange(length.sum())


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


_NONE: Array = np.zeros(0, dtype=np.int64)


def _faults(homes: Homes) -> Iterator[str]:
    """What is wrong with homes; nothing if they are consistent, so that no later step has to check again."""
    rules, n_devices = homes.rules, homes.n_devices
    if len(set(homes.types)) != len(homes.types):
        yield "an entity type is listed twice"
    if len(set(homes.relations)) != len(homes.relations):
        yield "a relation is listed twice"
    if _repeats(np.zeros(homes.n_homes, dtype=np.int64), homes.users):
        yield "a user has two homes"
    if not len(homes.device_home) == len(homes.device_type) == len(homes.device_ids):
        yield "the columns of devices differ in length"
    for values, bound, fault in (
        (homes.device_home, homes.n_homes, "a device names a home that is not there"),
        (homes.device_type, len(homes.types), "a device names a type that is not there"),
        (rules.relation, len(homes.relations), "a rule names a relation that is not there"),
        (rules.home, homes.n_homes, "a rule names a home that is not there"),
        (rules.trigger, n_devices, "a rule names a device that is not there"),
        (rules.action, n_devices, "a rule names a device that is not there"),
        (_NONE if homes.words is None else homes.words.device, n_devices, "a word names a device that is not there"),
    ):
        if len(values) and not 0 <= values.min() <= values.max() < bound:
            yield fault
    if np.any(np.diff(homes.device_home) < 0):
        yield "devices are not sorted by home"
    if _repeats(homes.device_home, homes.device_ids):
        yield "a home has two devices of one id"
    if np.any(np.diff(rules.home) < 0):
        yield "rules are not sorted by home"
    if np.any(homes.device_home[rules.trigger] != rules.home) or np.any(homes.device_home[rules.action] != rules.home):
        yield "a rule names a device of another home"
    if np.any(np.diff(np.sort(rules.keys(n_devices, len(homes.relations)))) == 0):
        yield "a home has one rule twice"


def _repeats(home: Array, ids: Ids) -> bool:
    """Whether an id occurs twice in a home, given sorted homes."""
    if not np.any((home[1:] == home[:-1]) & (ids[1:] <= ids[:-1])):  # in order, as most sources have them
        return False
    import pandas as pd  # slow to import, and rarely needed

    number, distinct = pd.factorize(np.asarray(ids, dtype=np.int64 if ids.dtype.kind == "i" else object))
    return bool(np.any(np.diff(np.sort(home * len(distinct) + number)) == 0))
