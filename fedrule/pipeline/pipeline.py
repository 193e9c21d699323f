"""`Homes` from tables of devices, rules and perhaps words: all homes, those of some users, or in batches."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from datasets.common.errors import DataError
from datasets.common.options import options_of, read, read_options
from datasets.homes import Homes, Provenance, Relation
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import INTEGER, whole_numbers
from datasets.readers.join import join
from fedrule.pipeline.database import Database
from fedrule.pipeline.names import as_texts, words_of_devices
from fedrule.pipeline.settings import IDS, NAMES, TableConfig, read_settings
from fedrule.pipeline.stream import DatabaseRows, Reader, Retry, UserIds, UserStream, batch_by_user
from fedrule.pipeline.tables import SourceTable, find_table

log = logging.getLogger(__name__)


def canonical_order(homes: Homes, *, integer_users: bool, integer_devices: bool) -> Homes:
    """Homes sorted by user, devices by id, rules by devices and relation, whatever the database and the part read.

    Ids are integers if the columns are declared so, and text otherwise: if it depended on the values, the ids of one
    user alone could be of another type than in a read of all.
    """
    text = np.dtypes.StringDType()
    if not integer_users and homes.users.dtype.kind == "i":
        homes = homes.subset(np.argsort(homes.users.astype(text), kind="stable"))
        homes = replace(homes, users=homes.users.astype(text))
    if not integer_devices and homes.device_ids.dtype.kind == "i":
        ids, rules = homes.device_ids.astype(text), homes.rules
        order = np.argsort(ids, kind="stable")
        order = order[np.argsort(homes.device_home[order], kind="stable")]  # by home, then by id
        place = np.argsort(order)
        rules = replace(rules, trigger=place[rules.trigger], action=place[rules.action])
        words = homes.words_of(order)
        homes = replace(homes, device_type=homes.device_type[order], device_ids=ids[order], rules=rules, words=words)
    order = np.argsort(homes.rules.keys(homes.n_devices, len(homes.relations)), kind="stable")
    return replace(homes, rules=homes.rules.take(order))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The entity types and relations of a database, each sorted; it makes homes of different batches comparable."""

    types: tuple[str, ...]
    relations: tuple[Relation, ...]

    def encode(self, homes: Homes) -> Homes:
        """The same homes with the indices of this vocabulary."""
        if (homes.types, homes.relations) == (self.types, self.relations):
            return homes
        return homes.with_vocabulary(self.types, self.relations)


class Pipeline:
    """Two tables or three, read as streams and joined by user; see docs/pipeline.md."""

    def __init__(
        self,
        devices: TableConfig,
        rules: TableConfig,
        *,
        words: TableConfig | None = None,
        name: str = "pipeline",
        add_devices: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        retries: NonNegativeInt = 2,
        pause: NonNegativeFloat = 0.5,
        rows: PositiveInt = 10_000,
        folder: Path | str = ".",
    ) -> None:
        """Nothing is connected yet.

        words: a table that says which words the names of devices have, mostly rooms
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
        self._config = {"devices": devices, "rules": rules} | ({} if words is None else {"words": words})
        if not devices.url:
            raise DataError("devices: url is missing; give the address of the database, e.g. homes.db")
        if words is not None and (named := [role for role in NAMES if role in devices.columns]):
            raise DataError(f"words of devices: give a table of words or {named[0]} in columns of devices, not both")
        self.databases = {
            kind: Database(table.url or devices.url, folder=Path(folder), key=f"url of {kind}")
            for kind, table in self._config.items()
        }

    @classmethod
    def from_file(cls, path: Path | str) -> Pipeline:
        """The pipeline described by a TOML file; paths in it are relative to its folder."""
        path = Path(path)
        if path.suffix != ".toml":
            raise DataError(f"{path}: give a .toml file that describes a pipeline, see docs/pipeline.md")
        tables, others = read_settings(path, options_of(Pipeline).keys() - {"folder", "words"})
        others = {"name": path.stem} | read_options(Pipeline, others, where=path.name)
        try:
            return cls(**tables, folder=path.parent, **others)  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(f"{path.name}: {error}") from None

    def __repr__(self) -> str:
        places = (f"{kind} in {database.place}" for kind, database in self.databases.items())
        return f"<Pipeline {self.name!r}: {', '.join(places)}>"

    @cached_property
    def sources(self) -> Mapping[str, SourceTable]:
        """The tables of devices, rules and, if there is one, words by their kind, looked up on first use."""
        return {kind: find_table(kind, config, self.databases[kind]) for kind, config in self._config.items()}

    @property
    def devices(self) -> SourceTable:
        """The table of devices."""
        return self.sources["devices"]

    @property
    def rules(self) -> SourceTable:
        """The table of rules."""
        return self.sources["rules"]

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
        rows = {kind: self._reader.load(self.sources[kind], bad_rows, wanted) for kind in self._reading_order}
        if wanted is None and not rows["devices"].rows:
            raise DataError(f"{self.devices.place}: the table has no rows")
        homes = self._homes(rows, bad_rows)
        if users is not None and wanted is not None and homes.n_homes < len(wanted):
            log.warning("%d of %d users have neither devices nor valid rules", len(wanted) - homes.n_homes, len(wanted))
        return homes

    def batches(self, size: int = 10_000) -> Iterator[Homes]:
        """Homes of `size` users at a time, sorted by id, all with the indices of `vocabulary`."""
        read(PositiveInt, size, where="size")
        vocabulary = self.vocabulary()
        bad_rows = self._bad_rows()
        # Bad rows are reported with the batch during which they are read.
        streams = [UserStream(self._reader, self.sources[kind], bad_rows) for kind in self._reading_order]
        for rows in batch_by_user(streams, size=size):
            yield vocabulary.encode(self._homes(dict(zip(self._reading_order, rows, strict=True)), bad_rows))
            bad_rows.found.clear()
        bad_rows.report()  # rows after the last home

    def vocabulary(self) -> Vocabulary:
        """All types and relations of the database; types of rules count if rules add devices."""
        columns = [(self.devices, "type")]
        if self.add_devices:
            columns += [(self.rules, role) for role in ("trigger_type", "action_type") if role in self.rules.names]
        types = {word for source, role in columns for (word,) in self._reader.words(source, role)}
        pairs = self._reader.words(self.rules, "trigger_state", "action")
        return Vocabulary(tuple(sorted(types)), tuple(sorted({Relation(state, action) for state, action in pairs})))

    def count(self, source: SourceTable) -> int:
        """The number of rows of a table."""
        return self._reader.number(source, source.count())

    def n_users(self) -> int:
        """The number of homes that `batches` gives if no row is bad; users of rules count if rules add devices."""
        if not self.add_devices:
            return self._reader.number(self.devices, self.devices.count_users(integer_users=self._integer_users))
        sources = (self.devices, self.rules)
        return len(self._reader.users({source: source.distinct("user") for source in sources}))

    @property
    def _reading_order(self) -> list[str]:
        """Devices last: then a rule or word that is added meanwhile is not read without its device."""
        return [*self.sources][::-1]

    @property
    def _integer_users(self) -> bool:
        return all(source.is_integer("user") for source in self.sources.values())

    @property
    def _reader(self) -> Reader:
        return Reader(self._integer_users, self._rows, self.retry, self.progress)

    def _bad_rows(self) -> BadRows:
        bad_rows = BadRows(self.on_error)
        bad_rows.reading(self.devices.label)
        return bad_rows

    def _homes(self, rows: Mapping[str, DatabaseRows], bad_rows: BadRows) -> Homes:
        devices, rules, words = rows["devices"], rows["rules"], rows.get("words")
        if words is None:
            words = words_of_devices(devices)
        elif not self.sources["words"].is_integer("word"):
            words = as_texts(words)
        group, usable = whole_numbers(rules, "group", bad_rows) if "group" in rules else (None, None)
        homes = join(
            self.name,
            devices,
            rules,
            bad_rows=bad_rows,
            provenance=Provenance(source=" and ".join(source.place for source in self.sources.values())),
            add_devices=self.add_devices,
            usable=usable,
            group=group,
            words=words,
        )
        integer_devices = all(
            source.is_integer(role)
            for source in self.sources.values()
            for role in source.names
            if role in IDS and role != "user"
        )
        return canonical_order(homes, integer_users=self._integer_users, integer_devices=integer_devices)

    def _changed(self, since: object) -> UserIds:
        users = self._reader.users({source: source.changed(since) for source in self.sources.values()})
        # SQLite may hold text in an integer column: a bad row without a user.
        return self._ids(user for user in users if not self._integer_users or re.fullmatch(INTEGER, user))

    def _ids(self, users: Iterable[object]) -> UserIds:
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
