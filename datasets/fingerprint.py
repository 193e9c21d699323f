"""A short name for the exact contents of homes, the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from datasets.homes import Homes, Ids


def fingerprint(homes: Homes) -> str:
    """16 hex digits over vocabularies, ids, devices, rules and groups; the name and the provenance do not count."""
    digest = hashlib.sha256(json.dumps([homes.types, homes.relations], ensure_ascii=False).encode())
    rules = homes.rules
    columns = [homes.users, homes.device_home, homes.device_type, homes.device_ids]
    columns += [rules.home, rules.trigger, rules.action, rules.relation]
    columns += [] if rules.group is None else [rules.group]
    for column in columns:
        content = _bytes(column)
        digest.update(f"{column.dtype.kind}{len(column)}:{len(content)};".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _bytes(column: Ids) -> bytes:
    if column.dtype.kind == "i":
        return column.astype("<i8").tobytes()
    return json.dumps(np.asarray(column, dtype=object).tolist(), ensure_ascii=False).encode()
