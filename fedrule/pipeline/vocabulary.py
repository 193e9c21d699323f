"""The types and relations that occur in a database, so that homes read part by part are numbered alike."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from datasets.homes import Homes
from datasets.readers.bad_rows import Problems
from datasets.readers.text_table import read_table
from datasets.view import Relation
from fedrule.pipeline.decode import UNREADABLE
from fedrule.pipeline.source import Source
from fedrule.pipeline.stream import Reader


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Entity types and relations, each sorted."""

    types: tuple[str, ...]
    relations: tuple[Relation, ...]

    def number(self, homes: Homes) -> Homes:
        """The same homes numbered by this vocabulary."""
        return homes.with_vocabulary(self.types, self.relations)


def vocabulary(reader: Reader, devices: Source, rules: Source, *, add_devices: bool) -> Vocabulary:
    """Ask both tables for what is distinct in them; types that only rules name count where these add devices."""
    columns = [(devices, "type")]
    if add_devices:
        columns += [(rules, role) for role in ("trigger_type", "action_type") if role in rules.names]
    types = {word for source, role in columns for (word,) in _complete(reader.distinct(source, role))}
    pairs = _complete(reader.distinct(rules, "trigger_state", "action"))
    return Vocabulary(tuple(sorted(types)), tuple(sorted({Relation(state, action) for state, action in pairs})))


def _complete(table: pa.Table) -> list[tuple[str, ...]]:
    """The rows that have every value, trimmed as when homes are read."""
    if not table.num_rows:
        return []
    text = read_table(table, {name: name for name in table.schema.names}, problems=Problems(), label="vocabulary")
    rows = zip(*(text[name].to_pylist() for name in text.columns), strict=True)
    return [row for row in rows if None not in row and not any(word.startswith(UNREADABLE) for word in row)]
