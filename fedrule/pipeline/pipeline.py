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
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from datasets.common.errors import DataError
from datasets.common.options import options_of, read, read_options
from datasets.homes import Homes, Provenance, Relation
from datasets.readers.bad_rows import BadRows
from datasets.readers.csv import INTEGER, whole_numbers
from datasets.readers.join import join
from fedrule.pipeline.database import Database
from fedrule.pipeline.settings import TableConfig, read_settings
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
        homes = replace(homes, device_type=homes.device_type[order], device_ids=ids[order], rules=rules)
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
        rules = self._reader.load(self.rules, bad_rows, wanted)
        devices = self._reader.load(self.devices, bad_rows, wanted)
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
        streams = [UserStream(self._reader, source, bad_rows) for source in (self.devices, self.rules)]
        for devices, rules in batch_by_user(*streams, size=size):
            yield vocabulary.encode(self._homes(devices, rules, bad_rows))
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
    def _integer_users(self) -> bool:
        return self.devices.is_integer("user") and self.rules.is_integer("user")

    @property
    def _reader(self) -> Reader:
        return Reader(self._integer_users, self._rows, self.retry, self.progress)

    def _bad_rows(self) -> BadRows:
        bad_rows = BadRows(self.on_error)
        bad_rows.reading(self.devices.label)
        return bad_rows

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
        in_rules = map(self.rules.is_integer, ("trigger_device", "action_device"))
        integer_devices = self.devices.is_integer("device") and all(in_rules)
        return canonical_order(homes, integer_users=self._integer_users, integer_devices=integer_devices)

    def _changed(self, since: object) -> UserIds:
        users = self._reader.users({source: source.changed(since) for source in (self.devices, self.rules)})
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
