"""One database, opened for reading only: SQLite from a file, or PostgreSQL through psycopg 3."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Executable, NullPool, create_engine

from datasets.common.errors import DataError
from fedrule.pipeline.address import HOST, read_address
from fedrule.pipeline.errors import in_our_words

LOCKED = 1  # seconds to wait for a writer of an SQLite file, each time that it is tried
SECONDS = 10  # to wait for a server that does not answer, unless the URL says connect_timeout=


class Database:
    """Where a table lives. Nothing that it says of itself holds a password."""

    def __init__(self, address: str, *, folder: Path, key: str) -> None:
        """`address` is a URL or the path of an SQLite file, relative to `folder`; `key` is what messages call it."""
        self._url = read_address(address, folder=folder, key=key)
        self.kind = self._url.get_backend_name()  # sqlite or postgresql
        self.is_postgresql = self.kind == "postgresql"

    def __repr__(self) -> str:
        return f"<{self.place}>"

    @property
    def place(self) -> str:
        """The database as messages call it: host and name, or the file."""
        if not self.is_postgresql:
            return f"SQLite {self._url.database}"
        host = self._url.host or ",".join(self._url.normalized_query.get("host", ())) or "localhost"
        host = host if HOST.fullmatch(host.replace("/", "")) else "***"  # of ?host= also the folder of a socket
        port = f":{self._url.port}" if self._url.port else ""
        return f"PostgreSQL {host}{port}/{self._url.database or ''}"

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection that cannot write; errors within come out in our words."""
        engine = self._engine
        with in_our_words(self._url, self.place, engine.dialect.loaded_dbapi), engine.connect() as connection:
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
                # By SQLAlchemy's result alone: it has taken the first row from the cursor before it is asked.
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
        try:
            from psycopg.pq import Conninfo
        except ImportError:
            raise DataError('PostgreSQL needs the extra pipeline: pip install "fedrule[pipeline]"') from None
        known = {option.keyword.decode() for option in Conninfo.get_defaults()}
        if self._url.query.keys() - known:  # not repeated: behind a bare & it is the rest of a password
            options = ", ".join(sorted(known))
            raise DataError(f"{self.place}: an option behind the ? of its url is none of PostgreSQL's: {options}")
        seconds = {} if "connect_timeout" in self._url.query else {"connect_timeout": SECONDS}
        return create_engine(self._url, poolclass=NullPool, connect_args=seconds)

    def _open_file(self) -> sqlite3.Connection:
        """Read-only: SQLite would otherwise make an empty database of a mistyped name."""
        path = str(self._url.database)
        if not Path(path).is_file():
            raise DataError(f"{self.place}: no such file")
        return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=LOCKED, check_same_thread=False)
