"""A portrait of a data set: what it holds in numbers, and one home of it to look at (the paper's figure 1).

One JSON file for each data set and its options, in the folder `data` of the results. The name is the hash of both; the
fingerprints inside say whether the data is still the same. Same data in, same bytes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from baselines.items import Items
from benchmarks.results.examples import beyond, in_words, owned, typed_rule
from benchmarks.results.store import (
    HomeRule,
    Owned,
    TypedRule,
    as_json,
    name_of,
    read_record,
    read_records,
    write_record,
)
from benchmarks.runs.experiment import Source, source
from datasets import Homes
from datasets.describe import distinct, fidelity
from datasets.homes import Array
from datasets.registry import get as get_data

# --- One home in both formulations (the paper's figure 1): as a graph, and as a row of the user-item matrix.
#
# The home has 4 to 6 devices, each of another type, and 3 to 5 rules; where there is none, the nearest in size. Of those
# that qualify it is one all of whose rules are used by other homes, with as few idle devices as possible, and then the
# one whose rarest rule most homes share. Beside its row of the matrix stand homes that share rules with it and have
# others, over its own items and those that these homes have most often.

DEVICES, RULES = (4, 6), (3, 5)
OTHERS = 6  # homes beside the example
ITEMS = 12  # columns of the excerpt
OWN_ITEMS = 6  # of these, at most so many that the example home has
LOOKED_AT = 500  # homes that may stand beside it; enough to find different ones


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A home in the excerpt."""

    user: int | str
    has: tuple[bool, ...]  # [n_items]
    rules: int  # of the home in all, also those of no column here


@dataclass(frozen=True, slots=True)
class ExampleHome:
    """A home as a graph, and an excerpt of the user-item matrix around its row."""

    user: int | str
    devices: tuple[Owned, ...]
    rules: tuple[HomeRule, ...]
    items: tuple[TypedRule, ...]
    rows: tuple[MatrixRow, ...]  # the example home first


def example_home(instances: Homes, types: Homes) -> ExampleHome | None:
    """The same homes in both tracks -> one of them; None where there is no rule."""
    if not types.n_rules:
        return None
    items = Items.of(types)
    matrix = items.matrix(types)
    number = items.number(types)
    homes_with = np.bincount(number, minlength=len(items))
    chosen = _choose(instances, types, homes_with[number])
    others = _others(matrix, chosen)
    columns = _columns(matrix, chosen, others, homes_with)
    rows = [chosen, *others]
    has = matrix[rows].toarray()[:, columns] > 0
    cell, n_types, n_relations = items.valid.cell[columns], items.valid.n_types, items.valid.n_relations
    pair, relation = np.divmod(cell, n_relations)
    words = zip((pair // n_types).tolist(), relation.tolist(), (pair % n_types).tolist(), strict=True)
    n_rules = np.diff(types.rule_start)[rows].tolist()
    users = types.users[rows].tolist()
    home = instances.home(chosen)
    return ExampleHome(
        home.user,
        owned(home),
        in_words(home),
        tuple(typed_rule(types, *numbers) for numbers in words),
        tuple(MatrixRow(*row) for row in zip(users, map(tuple, has.tolist()), n_rules, strict=True)),
    )


def _choose(instances: Homes, types: Homes, homes_with: Array) -> int:
    """The position of the example; `homes_with` says of each rule of `types` how many homes have it."""
    n_homes = types.n_homes
    rules, devices = np.diff(types.rule_start), np.diff(instances.device_start)
    rarest = np.full(n_homes, np.iinfo(np.int64).max)
    np.minimum.at(rarest, types.rules.home, homes_with)
    used = np.zeros(instances.n_devices, dtype=np.int64)
    used[instances.rules.trigger] = used[instances.rules.action] = 1
    idle = devices - np.bincount(instances.device_home, used, minlength=n_homes).astype(np.int64)
    itself = np.bincount(types.rules.home[types.rules.trigger == types.rules.action], minlength=n_homes)
    twins = devices - np.diff(types.device_start)
    size = np.where(rules > 0, beyond(instances, devices=DEVICES, rules=RULES), np.iinfo(np.int64).max)
    # lexsort's last key counts first; a rule of a device with itself is a loop, which a drawing shows badly.
    order = np.lexsort((np.arange(n_homes), -rarest, idle, itself > 0, rarest < 2, size + twins * (rules > 0)))
    return int(order[0])


def _others(matrix: csr_array, chosen: int) -> list[int]:
    """Homes that share items with the chosen one and have others, each with a set of items of its own."""
    mine = np.zeros(matrix.shape[1])
    mine[matrix[[chosen]].indices] = 1
    shared, size = matrix @ mine, np.diff(matrix.indptr)
    able = np.flatnonzero((shared > 0) & (size > shared))
    extra = (size - shared)[able]
    order = able[np.lexsort((able, extra, -shared[able]))][:LOOKED_AT]
    sets: dict[tuple[int, ...], int] = {}
    for home in order.tolist():
        sets.setdefault(tuple(np.sort(matrix[[home]].indices).tolist()), home)
    return list(sets.values())[:OTHERS]


def _columns(matrix: csr_array, chosen: int, others: list[int], homes_with: Array) -> Array:
    """The items of the excerpt: those of the chosen home that most have, then those that the others have most often."""
    own = matrix[[chosen]].indices
    own = own[np.lexsort((own, -homes_with[own]))][:OWN_ITEMS]
    nearby = np.asarray(matrix[others].sum(axis=0)).ravel().astype(np.int64) if others else np.zeros_like(homes_with)
    lacking = np.setdiff1d(np.flatnonzero(nearby), matrix[[chosen]].indices)
    lacking = lacking[np.lexsort((lacking, -homes_with[lacking], -nearby[lacking]))][: ITEMS - len(own)]
    return np.concatenate([own, lacking]).astype(np.int64)


FOLDER = "data"  # of the results
FORMAT = 1  # goes up when a portrait of the same data would look different


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number of `datasets.describe` beside the published one."""

    name: str
    ours: float
    published: float | None  # None where nobody has published it


@dataclass(frozen=True, slots=True)
class Judged:
    """A number of `datasets.describe`."""

    name: str
    ours: float
    published: float | None
    verdict: str  # "met", "off", or empty where there is nothing to hold it against


@dataclass(frozen=True, slots=True)
class EntityType:
    """An entity type, and what uses it."""

    name: str
    devices: int
    homes: int
    as_trigger: int  # rules
    as_action: int  # rules


@dataclass(frozen=True, slots=True)
class RelationUse:
    """A trigger-action pair, and what uses it."""

    trigger_state: str
    action: str
    rules: int
    homes: int


@dataclass(frozen=True, slots=True)
class Portrait:
    """All that reports show of a data set; counts are of the track `instances`, every device a node."""

    data: str
    options: dict[str, object]  # all of them
    fingerprints: dict[str, str]  # "types" and "instances" -> of the homes in this track
    statistics: tuple[Statistic, ...]
    source: str  # of the published numbers, in words; empty where there are none
    notes: tuple[str, ...]  # what the data set says of itself, e.g. how it differs from the paper's
    fidelity: tuple[Judged, ...]  # of made-up data beside what it imitates; empty where nothing can be judged
    rules_per_home: dict[int, int]  # rules -> homes with so many
    devices_per_home: dict[int, int]
    types: tuple[EntityType, ...]  # most devices first
    relations: tuple[RelationUse, ...]  # most rules first
    example: ExampleHome | None  # None where no home has a rule

    @property
    def file(self) -> str:
        """The name of its file."""
        return file_of(self.data, self.options)


def file_of(data: str, options: dict[str, object]) -> str:
    """The name of the portrait of a data set with these options, all of them."""
    return name_of({"data": data, "options": options})


def portrait(of: Source) -> Portrait:
    """Of all homes of a source, whichever its track."""
    instances, types = (_in_track(of, track).load() for track in ("instances", "types"))
    described = instances.describe()
    published = described.published.statistics
    return Portrait(
        data=of.data,
        options={name: as_json(value, name) for name, value in of.options.items()},
        fingerprints=_fingerprints(of),
        statistics=tuple(Statistic(name, float(v), published.get(name)) for name, v in described.statistics.items()),
        source=described.published.source if published else "",
        notes=described.provenance.notes,
        fidelity=_judged(instances) if published and not get_data(of.data).files else (),
        rules_per_home=_histogram(np.diff(instances.rule_start)),
        devices_per_home=_histogram(np.diff(instances.device_start)),
        types=_types(instances),
        relations=_relations(instances),
        example=example_home(instances, types),
    )


def save(portrait: Portrait, results: Path) -> Path:
    """Keep a portrait among results; the file."""
    path = results / FOLDER / portrait.file
    write_record(path, portrait, FORMAT)
    return path


def load_portraits(results: Path) -> tuple[list[Portrait], list[tuple[str, str]]]:
    """The portraits among results; name and reason of each file that is none, which is left alone."""
    found, problems = read_records(results / FOLDER, Portrait, FORMAT)
    return sorted(found, key=lambda each: (each.data, each.file)), problems


def is_current(of: Source, results: Path) -> bool:
    """Whether there is a portrait of just this data."""
    path = results / FOLDER / file_of(of.data, of.options)
    if not path.exists():
        return False
    try:
        return read_record(path, Portrait, FORMAT).fingerprints == _fingerprints(of)
    except ValueError:
        return False


def _in_track(of: Source, track: str) -> Source:
    return source(of.data, options=of.options, track=track, path=of.path)


def _fingerprints(of: Source) -> dict[str, str]:
    return {track: _in_track(of, track).fingerprint() for track in ("types", "instances")}


def _judged(homes: Homes) -> tuple[Judged, ...]:
    table = fidelity(homes)
    columns = table["ours"], table["published"], table["verdict"]
    return tuple(
        Judged(str(name), float(ours), None if np.isnan(published) else float(published), str(verdict))
        for name, ours, published, verdict in zip(table.index, *columns, strict=True)
    )


def _histogram(values: Array) -> dict[int, int]:
    value, many = np.unique(values, return_counts=True)
    return dict(zip(value.tolist(), many.tolist(), strict=True))


def _types(homes: Homes) -> tuple[EntityType, ...]:
    n = len(homes.types)
    trigger, _, action = homes.typed()
    devices = np.bincount(homes.device_type, minlength=n)
    columns = (
        devices,
        _homes_with(homes.device_type, homes.device_home, n, homes.n_homes),
        np.bincount(trigger, minlength=n),
        np.bincount(action, minlength=n),
    )
    rows = np.stack(columns, axis=1).tolist()
    order = np.argsort(-devices, kind="stable").tolist()
    return tuple(EntityType(homes.types[i], *rows[i]) for i in order)


def _relations(homes: Homes) -> tuple[RelationUse, ...]:
    n, relation = len(homes.relations), homes.rules.relation
    rules = np.bincount(relation, minlength=n)
    rows = np.stack([rules, _homes_with(relation, homes.rules.home, n, homes.n_homes)], axis=1).tolist()
    order = np.argsort(-rules, kind="stable").tolist()
    return tuple(RelationUse(*homes.relations[i], *rows[i]) for i in order)


def _homes_with(what: Array, home: Array, n: int, n_homes: int) -> Array:
    """[n]: how many homes have each of n things at least once."""
    return np.bincount(distinct(what * max(n_homes, 1) + home) // max(n_homes, 1), minlength=n)
