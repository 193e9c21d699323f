"""One database, opened for reading only: SQLite from a file, or PostgreSQL through psycopg 3."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, Executable, NullPool, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from datasets.errors import DataError
from fedrule.pipeline.errors import in_our_words

VARIABLE = re.compile(r"\$\{([^}]*)\}")
FILES = (".db", ".sqlite", ".sqlite3")
EXAMPLES = "homes.db, sqlite:///homes.db or postgresql://USER:PASSWORD@HOST/DATABASE"
POSTGRESQL = "postgresql+psycopg"
LOCKED = 1  # seconds to wait for a writer of an SQLite file, each time that it is tried
SECONDS = 10  # to wait for a server that does not answer, unless the URL says connect_timeout=


class Database:
    """Where a table lives. Nothing that it says of itself holds a password."""

    def __init__(self, address: str, *, folder: Path, key: str) -> None:
        """`address` is a URL or the path of an SQLite file, relative to `folder`; `key` is what messages call it."""
        self.url = _read_only_url(_parsed(_filled_in(address, key), key), folder, key)
        self.kind = self.url.get_backend_name()  # sqlite or postgresql
        self.is_postgresql = self.kind == "postgresql"

    def __repr__(self) -> str:
        return f"<{self.place}>"

    @property
    def place(self) -> str:
        """The database as messages call it: host and name, or the file."""
        if not self.is_postgresql:
            return f"SQLite {self.url.database}"
        host = self.url.host or self.url.query.get("host") or "localhost"
        port = f":{self.url.port}" if self.url.port else ""
        return f"PostgreSQL {host}{port}/{self.url.database or ''}"

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection that cannot write; errors within come out in our words."""
        engine = self._engine
        with in_our_words(self.url, self.place, engine.dialect.loaded_dbapi), engine.connect() as connection:
            if self.is_postgresql:
                connection.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
            try:
                yield connection
            except engine.dialect.loaded_dbapi.Error:
                connection.invalidate()  # nothing can be undone on a connection that was cut
                raise

    def rows(self, statement: Executable, size: int) -> Iterator[Sequence[Sequence[object]]]:
        """The rows of a statement, `size` at a time, from a cursor on the server's side: never all at once."""
        with self.connected() as connection:
            if self.is_postgresql:
                result = connection.execution_options(stream_results=True, yield_per=size).execute(statement)
                with closing(result.cursor):  # SQLAlchemy leaves it open where a server is lost
                    yield from result.partitions()
                return
            # SQLite keeps text that is not UTF-8; as bytes it can be told which row that is.
            connection.connection.driver_connection.text_factory = bytes  # type: ignore[union-attr]
            cursor = connection.execute(statement).cursor
            while rows := cursor.fetchmany(size):  # the driver's own tuples: SQLAlchemy's rows take as long to make
                yield rows

    @cached_property
    def _engine(self) -> Engine:
        # No pool: a connection is opened for each read, so that none is left behind that a restart has cut.
        if not self.is_postgresql:
            return create_engine("sqlite://", poolclass=NullPool, creator=self._open_file)
        seconds = {} if "connect_timeout" in self.url.query else {"connect_timeout": SECONDS}
        try:
            return create_engine(self.url, poolclass=NullPool, connect_args=seconds)
        except ModuleNotFoundError:
            raise DataError('PostgreSQL needs the extra pipeline: pip install "fedrule[pipeline]"') from None

    def _open_file(self) -> sqlite3.Connection:
        """Read-only: SQLite would otherwise make an empty database of a mistyped name."""
        path = str(self.url.database)
        if not Path(path).is_file():
            raise DataError(f"{self.place}: no such file")
        return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=LOCKED, check_same_thread=False)


def _filled_in(address: str, key: str) -> str:
    """The address with ${NAME} replaced by that environment variable."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise DataError(f"{key}: the environment variable {found[1]} is not set; export it")
        return os.environ[found[1]]

    return VARIABLE.sub(value, address)


def _parsed(address: str, key: str) -> URL:
    # What is wrong with an address is told without it: the password is in there somewhere.
    if "://" not in address:
        if address.endswith(FILES):
            return URL.create("sqlite", database=address)
        raise DataError(f"{key}: it is no address of a database; write e.g. {EXAMPLES}")
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    # With a second @ a part of the password would be taken for the host, and shown as such.
    if url is None or (url.get_backend_name() != "sqlite" and address.count("@") > 1):
        remedy = "special characters of a password are written %XX, e.g. %40 for @ and %2F for /"
        raise DataError(f"{key}: the address cannot be taken apart; {remedy}. Examples: {EXAMPLES}")
    return url


def _read_only_url(url: URL, folder: Path, key: str) -> URL:
    if url.drivername in ("postgresql", "postgres", POSTGRESQL):
        return url.set(drivername=POSTGRESQL)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or url.database == ":memory:":
            raise DataError(f"{key}: a database in memory is empty; name a file")
        return url.set(database=str(folder / url.database), query={})
    known = f"sqlite, postgresql and {POSTGRESQL}"
    # Of an address that was misread the kind may be part of the password, so that only plain words are repeated.
    kind = repr(url.drivername) if re.fullmatch(r"[a-z]+(\+[a-z0-9]+)?", url.drivername) else "this kind"
    raise DataError(f"{key}: {kind} of database is not known here; {known} are")
