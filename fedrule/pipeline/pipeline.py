"""`Homes` from tables of devices and rules in one database or two: all homes, those of some users, or in batches."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from datasets.common.errors import DataError
from datasets.common.options import options_of, read, read_options
from datasets.homes import Array, Homes, Ids, Provenance, Relation, Rules
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import read_table, whole_numbers
from datasets.readers.join import join
from fedrule.pipeline.database import Database
from fedrule.pipeline.rows import UNREADABLE, DatabaseRows
from fedrule.pipeline.settings import TableConfig, read_settings
from fedrule.pipeline.stream import INTEGER, Reader, Retry, UserStream, batch_by_user, concatenate, validate_rows
from fedrule.pipeline.tables import SourceTable, find_table

log = logging.getLogger(__name__)

DEVICE_ROLES = ("trigger_device", "action_device")


def canonical_order(homes: Homes, *, integer_users: bool, integer_devices: bool) -> Homes:
    """Homes sorted by user, devices by id, rules by devices and relation, whatever the database and the part read.

    Ids are integers if the columns are declared so, and text otherwise: if it depended on the values, the ids of one
    user alone could be of another type than in a read of all.
    """
    if not integer_users and homes.users.dtype.kind == "i":
        order = np.argsort(_as_text(homes.users), kind="stable")
        homes = homes.subset(order)
        homes = replace(homes, users=_as_text(homes.users))
    if not integer_devices and homes.device_ids.dtype.kind == "i":
        homes = _with_devices(homes, _as_text(homes.device_ids))
    order = np.argsort(homes.rules.keys(homes.n_devices, len(homes.relations)), kind="stable")
    return replace(homes, rules=homes.rules.take(order))


def _with_devices(homes: Homes, ids: Ids) -> Homes:
    """The same devices with these ids, sorted by id within each home."""
    order = np.argsort(ids, kind="stable")
    order = order[np.argsort(homes.device_home[order], kind="stable")]
    place: Array = np.empty_like(order)
    place[order] = np.arange(len(order))
    rules = homes.rules
    return replace(
        homes,
        device_type=homes.device_type[order],
        device_ids=ids[order],
        rules=Rules(rules.home, place[rules.trigger], place[rules.action], rules.relation, rules.group),
    )


def _as_text(ids: Ids) -> Ids:
    return ids.astype(np.dtypes.StringDType())


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The entity types and relations of a database, each sorted; it makes homes of different batches comparable."""

    types: tuple[str, ...]
    relations: tuple[Relation, ...]

    def encode(self, homes: Homes) -> Homes:
        """The same homes with the indices of this vocabulary."""
        return homes.with_vocabulary(self.types, self.relations)


def read_vocabulary(reader: Reader, devices: SourceTable, rules: SourceTable, *, add_devices: bool) -> Vocabulary:
    """The distinct values of both tables; types of rules count if rules add devices."""
    columns = [(devices, "type")]
    if add_devices:
        columns += [(rules, role) for role in ("trigger_type", "action_type") if role in rules.names]
    types = {word for source, role in columns for (word,) in _complete_rows(reader.distinct(source, role))}
    pairs = _complete_rows(reader.distinct(rules, "trigger_state", "action"))
    return Vocabulary(tuple(sorted(types)), tuple(sorted({Relation(state, action) for state, action in pairs})))


def _complete_rows(table: pa.Table) -> list[tuple[str, ...]]:
    """The rows without missing or unreadable values, trimmed as for homes."""
    if not table.num_rows:
        return []
    text = read_table(table, {name: name for name in table.schema.names}, bad_rows=BadRows(), label="vocabulary")
    rows = zip(*(text[name].to_pylist() for name in text.columns), strict=True)
    return [row for row in rows if None not in row and not any(word.startswith(UNREADABLE) for word in row)]


class Pipeline:
    """Two tables, read as streams and joined by user; see docs/pipeline.md."""

    def __init__(
        self,
        devices: TableConfig,
        rules: TableConfig,
        *,
        name: str = "pipeline",
        add_devices: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        retries: NonNegativeInt = 2,
        pause: NonNegativeFloat = 0.5,
        rows: PositiveInt = 10_000,
        folder: Path | str = ".",
    ) -> None:
        """Nothing is connected yet.

        add_devices: add devices that only rules mention, with the type in trigger_type or action_type
        on_error: raise, or skip bad rows and list them
        retries, pause: how often an interrupted read is retried, and seconds before the first retry
        rows: to hold in memory at a time
        folder: base of relative paths of SQLite files
        """
        given = {"name": name, "add_devices": add_devices, "on_error": on_error}
        read_options(Pipeline, {**given, "retries": retries, "pause": pause, "rows": rows}, where="pipeline")
        self.name, self.add_devices, self.on_error = name, add_devices, on_error
        self.progress: Callable[[int], None] = lambda _: None  # gets the number of rows of each part
        self.retry, self._rows = Retry(retries, pause), rows
        self._config = {"devices": devices, "rules": rules}
        urls = {"devices": devices.url, "rules": rules.url or devices.url}
        if not urls["devices"]:
            raise DataError("devices: url is missing; give the address of the database, e.g. homes.db")
        self.databases = {kind: Database(url, folder=Path(folder), key=f"url of {kind}") for kind, url in urls.items()}

    @classmethod
    def from_file(cls, path: Path | str) -> Pipeline:
        """The pipeline described by a TOML file; paths in it are relative to its folder."""
        path = Path(path)
        if path.suffix != ".toml":
            raise DataError(f"{path}: give a .toml file that describes a pipeline, see docs/pipeline.md")
        known = options_of(Pipeline).keys() - {"folder"}
        devices, rules, others = read_settings(path, known)
        others = {"name": path.stem} | read_options(Pipeline, others, where=path.name)
        try:
            return cls(devices, rules, folder=path.parent, **others)  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None

    def __repr__(self) -> str:
        places = (f"{kind} in {database.place}" for kind, database in self.databases.items())
        return f"<Pipeline {self.name!r}: {', '.join(places)}>"

    @cached_property
    def devices(self) -> SourceTable:
        """The table of devices, looked up on first use."""
        return find_table("devices", self._config["devices"], self.databases["devices"])

    @cached_property
    def rules(self) -> SourceTable:
        """The table of rules."""
        return find_table("rules", self._config["rules"], self.databases["rules"])

    def load(self, users: Iterable[object] | None = None, *, since: object = None) -> Homes:
        """Homes of all users, of these users, or of those with a row that changed since then.

        Users in neither table are left out. Types and relations are those of the rows that were read; for those of the
        whole database see `vocabulary`.
        """
        if users is not None and since is not None:
            raise DataError("load: give users or since, not both")
        wanted = None if users is None else self._ids(users)
        if since is not None:
            wanted = self._changed(since)
        bad_rows = self._bad_rows()
        # Rules first: then a rule that is added meanwhile is not read without its device.
        rules = concatenate(list(self._read(self.rules, bad_rows, wanted)), self.rules)
        devices = concatenate(list(self._read(self.devices, bad_rows, wanted)), self.devices)
        if wanted is None and not devices.rows:
            raise DataError(f"{self.devices.place}: the table has no rows")
        homes = self._homes(devices, rules, bad_rows)
        if users is not None and wanted is not None and homes.n_homes < len(wanted):
            log.warning("%d of %d users have neither devices nor valid rules", len(wanted) - homes.n_homes, len(wanted))
        return homes

    def batches(self, size: int = 10_000) -> Iterator[Homes]:
        """Homes of `size` users at a time, sorted by id, all with the indices of `vocabulary`."""
        read(PositiveInt, size, where="size")
        vocabulary = self.vocabulary()
        bad_rows = self._bad_rows()
        # Bad rows are reported with the batch during which they are read.
        streams = [
            UserStream(self._read(source, bad_rows, None), source, integer_users=self._integer_users)
            for source in (self.devices, self.rules)
        ]
        for devices, rules in batch_by_user(*streams, size=size):
            yield vocabulary.encode(self._homes(devices, rules, bad_rows))
            bad_rows.found.clear()
        bad_rows.report()  # rows after the last home

    def vocabulary(self) -> Vocabulary:
        """All types and relations of the database."""
        return read_vocabulary(self._reader, self.devices, self.rules, add_devices=self.add_devices)

    def count(self, source: SourceTable) -> int:
        """The number of rows of a table."""
        return self._reader.count(source)

    def n_users(self) -> int:
        """The number of homes that `batches` gives if no row is bad; users of rules count if rules add devices."""
        if not self.add_devices:
            return self._reader.count_users(self.devices)
        found = [self._reader.distinct(source, "user")["user"] for source in (self.devices, self.rules)]
        return len(pa.chunked_array([chunk for column in found for chunk in column.chunks]).drop_null().unique())

    @property
    def _integer_users(self) -> bool:
        return self.devices.is_integer("user") and self.rules.is_integer("user")

    @property
    def _reader(self) -> Reader:
        return Reader(self._integer_users, self._rows, self.retry, self.progress)

    def _bad_rows(self) -> BadRows:
        bad_rows = BadRows(self.on_error)
        bad_rows.reading(self.devices.label)
        return bad_rows

    def _read(
        self, source: SourceTable, bad_rows: BadRows, users: list[int] | list[str] | None
    ) -> Iterator[DatabaseRows]:
        before = 0
        reader = self._reader
        for part in reader.read_all(source) if users is None else reader.read_users(source, users):
            yield validate_rows(part, source, bad_rows, before=before)
            before += part.num_rows

    def _homes(self, devices: DatabaseRows, rules: DatabaseRows, bad_rows: BadRows) -> Homes:
        group, usable = whole_numbers(rules, "group", bad_rows) if "group" in rules else (None, None)
        homes = join(
            self.name,
            devices,
            rules,
            bad_rows=bad_rows,
            provenance=Provenance(source=f"{self.devices.place} and {self.rules.place}"),
            add_devices=self.add_devices,
            usable=usable,
            group=group,
        )
        integer_devices = self.devices.is_integer("device") and all(map(self.rules.is_integer, DEVICE_ROLES))
        return canonical_order(homes, integer_users=self._integer_users, integer_devices=integer_devices)

    def _changed(self, since: object) -> list[int] | list[str]:
        found = [self._reader.changed(source, since) for source in (self.devices, self.rules)]
        users = pa.concat_arrays(found).drop_null().unique().to_pylist()
        # SQLite may hold text in an integer column: a bad row without a user.
        return self._ids(user for user in users if not self._integer_users or re.fullmatch(INTEGER, user))

    def _ids(self, users: Iterable[object]) -> list[int] | list[str]:
        """The distinct user ids, with the type that they have in the database."""
        if isinstance(users, str | bytes):
            raise DataError(f"users={users!r} is one text; write [{users!r}] for one user")
        given = dict.fromkeys(str(user) for user in users)
        if not self._integer_users:
            # Texts that no database can hold match no user.
            return [user for user in given if "\0" not in user and user.encode(errors="ignore").decode() == user]
        for user in given:
            if not re.fullmatch(INTEGER, user):
                raise DataError(f"users: {user!r} is not an integer, and users of {self.devices.place} are")
        return [number for number in map(int, given) if -(2**63) <= number < 2**63]
