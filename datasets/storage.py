"""Homes in one Parquet file, one row per home, readable by any Parquet reader and never executed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datasets.common.errors import DataError
from datasets.common.files import atomic_file
from datasets.homes import Array, Homes, Ids, Provenance, Relation, Rules, Words, starts
from datasets.readers.csv import id_column
from datasets.registry import dataset

FORMAT, WITH_WORDS = 1, 2  # earlier versions read the first, and say that they do not read the second
KEY = b"fedrule.homes"


def save(homes: Homes, path: Path) -> None:
    """Write homes to a Parquet file, atomically."""
    local = homes.device_start[homes.rules.home]  # rules name devices by their place in their own home
    rules = {
        "trigger": pa.array(homes.rules.trigger - local, pa.int32()),
        "trigger_state": _named(homes.rules.relation, [r.trigger for r in homes.relations]),
        "action": _named(homes.rules.relation, [r.action for r in homes.relations]),
        "action_device": pa.array(homes.rules.action - local, pa.int32()),
    }
    if homes.rules.group is not None:
        rules["group"] = pa.array(homes.rules.group)
    devices = {"id": id_column(homes.device_ids), "type": _named(homes.device_type, list(homes.types))}
    if homes.words is not None:
        numbers = pa.array(homes.words.word, pa.int32())
        devices["words"] = pa.ListArray.from_arrays(pa.array(homes.word_start, pa.int32()), numbers)
    columns = {
        "user": id_column(homes.users),
        "devices": _nested(homes.device_start, devices),
        "rules": _nested(starts(homes.rules.home, homes.n_homes), rules),
    }
    card = {
        "format": FORMAT if homes.words is None else WITH_WORDS,
        "name": homes.name,
        "types": homes.types,
        "relations": homes.relations,
        "fingerprint": homes.fingerprint,
        "provenance": asdict(homes.provenance),
    }
    table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(card).encode()})
    if path.is_dir():
        raise DataError(f"{path}: it is a folder; name a file")
    with atomic_file(path) as temporary:
        try:
            pq.write_table(table, temporary, compression="zstd")
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({str(error).replace(temporary.name, path.name)})") from error


def load_file(path: Path | str) -> Homes:
    """Homes as they were saved; a wrong, cut off or altered file is an error, never half a data set."""
    path = Path(path)
    if not path.is_file():
        what = "it is a folder, not a file" if path.is_dir() else "no such file"
        raise DataError(f"{path}: {what}; `python -m datasets generate NAME --out FILE` writes one")
    try:
        table = pq.read_table(path)
        card = json.loads((table.schema.metadata or {}).get(KEY, b"null"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); save it again") from error
    if not isinstance(card, dict):
        raise DataError(f"{path}: a Parquet file, but not one that Homes.save wrote; see the `tables` data set")
    if card.get("format") not in (FORMAT, WITH_WORDS):
        readable = f"this version reads {FORMAT} and {WITH_WORDS}"
        raise DataError(f"{path}: format {card.get('format')}, {readable}; save it again")
    try:
        homes = _homes(table.combine_chunks(), card)
    except (pa.ArrowException, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{path}: its contents do not fit together ({error}); it was altered") from error
    if homes.fingerprint != card.get("fingerprint"):
        raise DataError(f"{path}: its contents do not match its fingerprint {card.get('fingerprint')}; it was altered")
    return homes


def _homes(table: pa.Table, card: dict[str, Any]) -> Homes:
    device_start, devices = _flat(table["devices"])
    rule_start, rules = _flat(table["rules"])
    home = np.repeat(np.arange(table.num_rows), np.diff(rule_start))
    types = tuple(card["types"])
    relations = tuple(Relation(*r) for r in card["relations"])
    # A relation is stored as its two names; a table of all pairs of names maps them back to a position.
    triggers = sorted({r.trigger for r in relations})
    actions = sorted({r.action for r in relations})
    code = {(r.trigger, r.action): i for i, r in enumerate(relations)}
    lookup = np.array([[code.get((t, a), -1) for a in actions] for t in triggers], dtype=np.int64).reshape(
        len(triggers), len(actions)
    )
    relation = lookup[_position(rules["trigger_state"], triggers), _position(rules["action"], actions)]
    return Homes(
        name=card["name"],
        types=types,
        relations=relations,
        users=_from_ids(table["user"].combine_chunks()),
        device_home=np.repeat(np.arange(table.num_rows), np.diff(device_start)),
        device_type=_position(devices["type"], list(types)),
        device_ids=_from_ids(devices["id"]),
        rules=Rules(
            home,
            rules["trigger"].to_numpy() + device_start[home],
            rules["action_device"].to_numpy() + device_start[home],
            relation,
            rules["group"].to_numpy() if "group" in rules else None,
        ),
        provenance=Provenance(
            **card["provenance"]
            | {"skipped": tuple(card["provenance"]["skipped"]), "notes": tuple(card["provenance"]["notes"])}
        ),
        words=_words(devices["words"]) if card["format"] == WITH_WORDS else None,
    )


def _words(lists: pa.ListArray) -> Words:
    count = pc.list_value_length(lists).to_numpy()
    return Words(np.repeat(np.arange(len(lists)), count), lists.flatten().to_numpy())


def _named(position: Array, names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(position, pa.int32()), pa.array(names, pa.string()))


def _position(column: pa.Array, names: list[str]) -> Array:
    found = pc.index_in(column.cast(pa.string()), pa.array(names, pa.string())).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _from_ids(column: pa.Array) -> Ids:
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy())
    return np.array(column.to_pylist(), dtype=np.dtypes.StringDType())


def _nested(start: Array, columns: dict[str, pa.Array]) -> pa.ListArray:
    struct = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
    return pa.ListArray.from_arrays(pa.array(start, pa.int32()), struct)


def _flat(column: pa.ChunkedArray) -> tuple[Array, dict[str, pa.Array]]:
    lists = column.combine_chunks()
    struct = lists.flatten()
    start = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())]).astype(np.int64)
    return start, {field.name: struct.field(i) for i, field in enumerate(struct.type)}


@dataset(
    "saved", files=("FILE.parquet",), origin="`python -m datasets generate NAME --out FILE.parquet`", keeps_name=True
)
def saved(path: Path) -> Homes:
    """A file written by Homes.save or `python -m datasets generate`."""
    return load_file(path)
