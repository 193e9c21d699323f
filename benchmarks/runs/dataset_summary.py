"""Make dataset summaries: what a data set holds in numbers, and one home of it in both formulations (figure 1).

The example home, as a graph and as a row of the user-item matrix, has 4 to 6 devices, each of another type, and 3 to 5
rules; where there is none, it is the nearest in size. All of its rules are used by other homes if possible, then it has
as few idle devices as possible, and then its rarest rule is the most common. The matrix excerpt shows it beside homes
that share rules with it and have others, over its own items and those that these homes have most often.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from baselines.items import Items
from benchmarks.results.records import (
    SUMMARIES,
    SUMMARY_FORMAT,
    DatasetSummary,
    EntityType,
    ExampleHome,
    MatrixRow,
    RelationUse,
    Statistic,
    as_json,
    read_record,
    summary_file,
    write_record,
)
from benchmarks.runs.examples import distance, owned_devices, rules_in_words, typed_rule
from benchmarks.runs.experiment import Source
from datasets import Homes
from datasets.describe import fidelity
from datasets.homes import Array, distinct
from datasets.registry import get as get_data

DEVICES, RULES = (4, 6), (3, 5)
OTHERS = 6  # homes beside the example
ITEMS = 12  # columns of the excerpt
OWN_ITEMS = 6  # of these, at most so many that the example home has
LOOKED_AT = 500  # homes considered for these; enough to find different ones


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
        owned_devices(home),
        rules_in_words(home),
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
    self_rules = np.bincount(types.rules.home[types.rules.trigger == types.rules.action], minlength=n_homes)
    repeated = devices - np.diff(types.device_start)
    size = np.where(rules > 0, distance(instances, devices=DEVICES, rules=RULES), np.iinfo(np.int64).max)
    # lexsort's last key counts first; a rule of a device with itself is a loop, which a drawing shows badly.
    order = np.lexsort((np.arange(n_homes), -rarest, idle, self_rules > 0, rarest < 2, size + repeated * (rules > 0)))
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


def summarize(source: Source) -> DatasetSummary:
    """Summary of all homes of a source, whichever its track."""
    instances, types = (replace(source, track=track).load() for track in ("instances", "types"))
    described = instances.describe()
    published = described.published.statistics
    return DatasetSummary(
        data=source.data,
        options={name: as_json(value, name) for name, value in source.options.items()},
        fingerprints=_fingerprints(source),
        statistics=tuple(Statistic(name, float(v), published.get(name)) for name, v in described.statistics.items()),
        source=described.published.source if published else "",
        notes=described.provenance.notes,
        fidelity=_fidelity(instances) if published and not get_data(source.data).files else (),
        rules_per_home=_histogram(np.diff(instances.rule_start)),
        devices_per_home=_histogram(np.diff(instances.device_start)),
        types=_types(instances),
        relations=_relations(instances),
        example=example_home(instances, types),
    )


def save_summary(summary: DatasetSummary, results: Path) -> Path:
    """Store a summary among results; its file."""
    return write_record(results / SUMMARIES / summary.file, summary, SUMMARY_FORMAT)


def is_current(source: Source, results: Path) -> bool:
    """Whether results have a summary of exactly this data."""
    path = results / SUMMARIES / summary_file(source.data, source.options)
    try:
        return read_record(path, DatasetSummary, SUMMARY_FORMAT).fingerprints == _fingerprints(source)
    except ValueError:
        return False


def _fingerprints(source: Source) -> dict[str, str]:
    return {track: replace(source, track=track).fingerprint() for track in ("types", "instances")}


def _fidelity(homes: Homes) -> tuple[Statistic, ...]:
    table = fidelity(homes)
    columns = table["ours"], table["published"], table["verdict"]
    return tuple(
        Statistic(str(name), float(ours), None if np.isnan(published) else float(published), str(verdict))
        for name, ours, published, verdict in zip(table.index, *columns, strict=True)
    )


def _histogram(values: Array) -> dict[int, int]:
    value, many = np.unique(values, return_counts=True)
    return dict(zip(value.tolist(), many.tolist(), strict=True))


def _types(homes: Homes) -> tuple[EntityType, ...]:
    n = len(homes.types)
    trigger, _, action = homes.typed()
    devices = np.bincount(homes.device_type, minlength=n)
    having = _homes_with(homes.device_type, homes.device_home, n, homes.n_homes)
    used = [np.bincount(side, minlength=n) for side in (trigger, action)]
    rows = np.stack([devices, having, *used], axis=1).tolist()
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
