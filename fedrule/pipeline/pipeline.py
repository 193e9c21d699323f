"""Device ownership and rules, in one database or two, as `Homes`: all of them, those of some users, or part by part."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from datasets.common.errors import DataError
from datasets.common.options import read
from datasets.homes import Array, Homes, Ids, Provenance, Relation, Rules
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import read_table, whole_numbers
from datasets.readers.join import join
from fedrule.pipeline.database import Database
from fedrule.pipeline.rows import UNREADABLE, KeyedTable
from fedrule.pipeline.settings import TableAt, read_settings
from fedrule.pipeline.stream import WHOLE, Patience, Reader, Sorted, in_parts, joined, sound
from fedrule.pipeline.tables import Source, find

# --- One order for the same homes, whatever the database and the part of it that was read.


def canonical(homes: Homes, *, whole_users: bool, whole_devices: bool) -> Homes:
    """Homes by user, devices by id, rules by their devices and relation.

    Ids are numbers where the columns are declared so and text otherwise: were it decided by their values, the ids of
    one user alone could be of another kind than in a read of all.
    """
    if not whole_users and homes.users.dtype.kind == "i":
        order = np.argsort(_as_text(homes.users), kind="stable")
        homes = homes.subset(order)
        homes = replace(homes, users=_as_text(homes.users))
    if not whole_devices and homes.device_ids.dtype.kind == "i":
        homes = _with_devices(homes, _as_text(homes.device_ids))
    order = np.argsort(homes.rules.keys(homes.n_devices, len(homes.relations)), kind="stable")
    return replace(homes, rules=homes.rules.take(order))


def _with_devices(homes: Homes, ids: Ids) -> Homes:
    """The same devices under these ids, sorted by them within each home."""
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


# --- The types and relations that occur in a database, so that homes read part by part are numbered alike.


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
    text = read_table(table, {name: name for name in table.schema.names}, bad_rows=BadRows(), label="vocabulary")
    rows = zip(*(text[name].to_pylist() for name in text.columns), strict=True)
    return [row for row in rows if None not in row and not any(word.startswith(UNREADABLE) for word in row)]


log = logging.getLogger(__name__)

SETTINGS = {"name": str, "add_devices": bool, "on_error": str, "retries": int, "pause": float, "rows": int}


class Pipeline:
    """Two tables, read as streams and joined by user; see `settings` for what it is told and docs/pipeline.md."""

    def __init__(
        self,
        devices: TableAt,
        rules: TableAt,
        *,
        name: str = "pipeline",
        add_devices: bool = False,
        on_error: str = "raise",
        retries: int = 2,
        pause: float = 0.5,
        rows: int = 10_000,
        folder: Path | str = ".",
    ) -> None:
        """Nothing is connected to yet.

        add_devices: give homes the devices that only rules name, with the type in trigger_type or action_type
        on_error: raise, or skip to leave bad rows out and list them
        retries, pause: how often a read that was broken off is tried again, and seconds before the first time
        rows: to have in hand at a time
        folder: where relative paths of SQLite files begin
        """
        for key, value in {"retries": retries, "rows": rows, "pause": pause}.items():
            read(SETTINGS[key], value, where=key)
            least = 1 if key == "rows" else 0
            if value < least:
                raise DataError(f"{key}={value}: it is {least} or more")
        BadRows(on_error)  # knows which words there are
        self.name, self.add_devices, self.on_error = name, add_devices, on_error
        self.progress: Callable[[int], None] = lambda _: None  # told how many rows have come
        self._patience, self._rows = Patience(retries, pause), rows
        self._at = {"devices": devices, "rules": rules}
        urls = {"devices": devices.url, "rules": rules.url or devices.url}
        if not urls["devices"]:
            raise DataError("devices: url is missing; write the address of the database, e.g. homes.db")
        self.databases = {kind: Database(url, folder=Path(folder), key=f"url of {kind}") for kind, url in urls.items()}

    @classmethod
    def from_file(cls, path: Path | str) -> Pipeline:
        """The pipeline that a TOML file describes; paths in it begin at its folder."""
        path = Path(path)
        if path.suffix != ".toml":
            raise DataError(f"{path}: a pipeline is described by a .toml file, see docs/pipeline.md")
        devices, rules, others = read_settings(path, SETTINGS)
        try:
            return cls(devices, rules, folder=path.parent, **({"name": path.stem} | others))  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None

    def __repr__(self) -> str:
        places = (f"{kind} in {database.place}" for kind, database in self.databases.items())
        return f"<Pipeline {self.name!r}: {', '.join(places)}>"

    @cached_property
    def devices(self) -> Source:
        """The table of devices; looked up when it is first asked for."""
        return find("devices", self._at["devices"], self.databases["devices"])

    @cached_property
    def rules(self) -> Source:
        """The table of rules."""
        return find("rules", self._at["rules"], self.databases["rules"])

    def load(self, users: Iterable[object] | None = None, *, since: object = None) -> Homes:
        """Homes of all users, of these users, or of those with a row changed since then.

        Users that are in neither table are left out. Types and relations are those that occur in what was read; for
        the whole database's see `vocabulary`.
        """
        if users is not None and since is not None:
            raise DataError("load: give users or since, not both")
        wanted = None if users is None else self._ids(users)
        if since is not None:
            wanted = self._changed(since)
        bad_rows = self._problems()
        # Rules first: a device that is added meanwhile is seen, and a new rule without its device is not.
        rules = joined(list(self._read(self.rules, bad_rows, wanted)), self.rules)
        devices = joined(list(self._read(self.devices, bad_rows, wanted)), self.devices)
        if wanted is None and not devices.rows:
            raise DataError(f"{self.devices.place}: it has columns but no rows")
        homes = self._homes(devices, rules, bad_rows)
        if users is not None and wanted is not None and homes.n_homes < len(wanted):
            log.warning("%d of %d users have no device and no good rule", len(wanted) - homes.n_homes, len(wanted))
        return homes

    def batches(self, size: int = 10_000) -> Iterator[Homes]:
        """Homes of `size` users at a time, by their ids, all numbered by `vocabulary`; a few parts are in memory."""
        read(int, size, where="size")
        if size < 1:
            raise DataError(f"size={size}: it is 1 or more")
        words = self.vocabulary()
        bad_rows = self._problems()
        # Faults are told with the homes that are being read when they are found.
        streams = [
            Sorted(self._read(source, bad_rows, None), source, whole_users=self._whole_users)
            for source in (self.devices, self.rules)
        ]
        for devices, rules in in_parts(*streams, size=size):
            yield words.number(self._homes(devices, rules, bad_rows))
            bad_rows.found.clear()
        bad_rows.report()  # what was read behind the last home

    def vocabulary(self) -> Vocabulary:
        """All types and relations of the database."""
        return vocabulary(self._reader, self.devices, self.rules, add_devices=self.add_devices)

    def count(self, source: Source) -> int:
        """The number of rows of a table."""
        return self._reader.count(source)

    def n_users(self) -> int:
        """How many homes `batches` gives if no row is bad; where rules add devices, users of either table count."""
        if not self.add_devices:
            return self._reader.count_users(self.devices)
        found = [self._reader.distinct(source, "user")["user"] for source in (self.devices, self.rules)]
        return len(pa.chunked_array([chunk for column in found for chunk in column.chunks]).drop_null().unique())

    @property
    def _whole_users(self) -> bool:
        return self.devices.is_whole("user") and self.rules.is_whole("user")

    @property
    def _reader(self) -> Reader:
        return Reader(self._whole_users, self._rows, self._patience, self.progress)

    def _problems(self) -> BadRows:
        bad_rows = BadRows(self.on_error)
        bad_rows.reading(self.devices.label)
        return bad_rows

    def _read(self, source: Source, bad_rows: BadRows, users: list[int] | list[str] | None) -> Iterator[KeyedTable]:
        before = 0
        reader = self._reader
        for part in reader.everything(source) if users is None else reader.of_users(source, users):
            yield sound(part, source, bad_rows, before=before)
            before += part.num_rows

    def _homes(self, devices: KeyedTable, rules: KeyedTable, bad_rows: BadRows) -> Homes:
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
        whole = [
            self.devices.is_whole("device"),
            *(self.rules.is_whole(end) for end in ("trigger_device", "action_device")),
        ]
        return canonical(homes, whole_users=self._whole_users, whole_devices=all(whole))

    def _changed(self, since: object) -> list[int] | list[str]:
        found = [self._reader.changed(source, since) for source in (self.devices, self.rules)]
        users = pa.concat_arrays(found).drop_null().unique().to_pylist()
        # What SQLite keeps in a column of numbers without being one is a bad row, and nobody's.
        return self._ids(user for user in users if not self._whole_users or re.fullmatch(WHOLE, user))

    def _ids(self, users: Iterable[object]) -> list[int] | list[str]:
        """User ids as the database holds them, each once."""
        if isinstance(users, str | bytes):
            raise DataError(f"users={users!r}: it is one text; write [{users!r}] for one user")
        given = dict.fromkeys(str(user) for user in users)
        if not self._whole_users:
            # A text that no database can hold is nobody's id.
            return [user for user in given if "\0" not in user and user.encode(errors="ignore").decode() == user]
        for user in given:
            if not re.fullmatch(WHOLE, user):
                raise DataError(f"users: {user!r} is not a whole number, as users are in {self.devices.place}")
        return [number for number in map(int, given) if -(2**63) <= number < 2**63]
