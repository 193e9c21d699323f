"""One database, opened read-only: an SQLite file, or PostgreSQL through psycopg 3.

No message of this module contains a password, whatever is wrong with the address.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, NullPool, Select, create_engine, make_url
from sqlalchemy.engine.interfaces import DBAPICursor, DBAPIModule
from sqlalchemy.exc import ArgumentError, SQLAlchemyError, StatementError

from datasets.common.errors import DataError, install_hint

LOCK_SECONDS = 1  # to wait for a writer of an SQLite file, per attempt
CONNECT_SECONDS = 10  # to wait for a server, unless the URL has connect_timeout=
VARIABLE = re.compile(r"\$\{([^}]*)\}")
FILES = (".db", ".sqlite", ".sqlite3")
EXAMPLES = "homes.db, sqlite:///homes.db or postgresql://USER:PASSWORD@HOST/DATABASE"
POSTGRESQL = "postgresql+psycopg"
UNSUPPORTED = ("mariadb", "mssql", "mysql", "oracle")  # may be named in an error: not part of a password
MAX_PORT = 65_535
URL_PARTS = re.compile(r"([^/?]*)([^?]*)(.*)", re.DOTALL)  # server, path, options
HOST = re.compile(r"[\w.:,-]*")  # host names and IP addresses, separated by commas
SEPARATORS = "=&;"  # in a database name: options without a ? before them
SECRET = ("pass", "secret", "key")  # parts of the names of options with a secret, e.g. sslpassword
SHORTEST = 4  # a shorter password cannot be cut out of a sentence without giving it away
CURSOR = "fedrule"  # on the server
DRIVE = 2  # characters of C: in C:\homes.db


def parse_url(address: str, *, folder: Path, key: str) -> URL:
    """The URL of an address, which may be the path of an SQLite file; `key` is its name in messages."""
    text = _expand_variables(address, key).strip()
    if "://" in text:
        url = _parse(text, key)
    elif text.endswith(FILES) and ":" not in text[DRIVE:]:  # ann:PASSWORD@host/homes.db is not a path
        url = URL.create("sqlite", database=text)
    else:
        raise DataError(f"{key}: not the address of a database; write e.g. {EXAMPLES}")
    if url.drivername in ("postgresql", "postgres", POSTGRESQL):
        return url.set(drivername=POSTGRESQL)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or url.database == ":memory:":
            raise DataError(f"{key}: an in-memory database is empty; give a file")
        return url.set(database=str(folder / url.database), query={})
    kind = next((kind for kind in UNSUPPORTED if url.drivername.partition("+")[0] == kind), "this kind")
    raise DataError(f"{key}: {kind} of database is not supported; use sqlite, postgresql or {POSTGRESQL}")


def _expand_variables(address: str, key: str) -> str:
    """Replace ${NAME} by that environment variable."""
    for name in VARIABLE.findall(address):
        if name not in os.environ:
            raise DataError(f"{key}: the environment variable {name} is not set; export it")
    return VARIABLE.sub(lambda found: os.environ[found[1]], address)


def _parse(text: str, key: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or (url.get_backend_name() != "sqlite" and _is_misread(url, text)):
        remedy = "write special characters of a user name or password as %XX, e.g. %40 for @ and %2F for /"
        raise DataError(f"{key}: cannot parse the address; {remedy}. Examples: {EXAMPLES}")
    options = [word for key, values in url.normalized_query.items() for word in (key, *values)]
    if any("\0" in str(word) for word in (url.username, url.password, url.host, url.database, *options)):
        raise DataError(f"{key}: the address contains a NUL character (%00); delete it")
    return url


def _is_misread(url: URL, text: str) -> bool:
    """Whether a part of the password may be parsed as host, port or database, which messages show."""
    server, path, options = URL_PARTS.fullmatch(text.partition("://")[2]).groups("")  # type: ignore[union-attr]
    return (
        server.count("@") > 1
        or "@" in path + options  # in p@ss or p/s@s only the part after the @ would be the host
        or not HOST.fullmatch(url.host or "")
        or not 0 <= (url.port or 0) <= MAX_PORT
        or any(mark in path for mark in SEPARATORS)
    )


class DatabaseError(DataError):
    """A database that cannot be reached or read; `transient` if a retry may succeed."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


@contextmanager
def translate_errors(url: URL, place: str, driver: DBAPIModule) -> Iterator[None]:
    """Turn the errors of SQLAlchemy and the driver into a `DatabaseError` about `place`.

    The original is not chained: drivers quote the connection string, and a traceback would show it.
    """
    try:
        yield
    except DataError:
        raise
    # Drivers also raise Python's own errors, e.g. for a host name whose label is too long.
    except (SQLAlchemyError, driver.Error, ValueError, TypeError, OverflowError) as error:
        cause = error.orig if isinstance(error, StatementError) and error.orig is not None else error
        # The driver's first line; not the statement and its parameters, which SQLAlchemy appends.
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        words = without_secrets(" ".join(lines[0].split()), url)
        transient = isinstance(cause, driver.OperationalError | driver.InterfaceError)
        raise DatabaseError(f"{place}: {words}", transient=transient) from None


def without_secrets(text: str, url: URL) -> str:
    """The text with the passwords of this URL, plain and quoted, and the quoted user name replaced by stars."""
    given = [(key, value) for key, values in url.normalized_query.items() for value in values]
    plain = {str(url.password or ""), *(value for key, value in given if any(word in key for word in SECRET))} - {""}
    # Server settings, `-c name=value`: the error for a bad one repeats its value.
    settings = {word for key, value in given if key == "options" for word in re.split(r"[\s=]+", value)}
    plain |= {word for word in settings if len(word) >= SHORTEST}
    written = {form for word in plain for form in (word, quote(word, safe=""), quote_plus(word), repr(word)[1:-1])}
    if any(len(word) < SHORTEST for word in written):
        return "the driver's message is withheld, since it may contain the short password"
    for word in sorted(written, key=len, reverse=True):
        text = text.replace(word, "***")
    return text.replace(f'"{url.username}"', '"***"') if url.username else text


class Database:
    """A database that tables are read from. Neither `repr` nor messages contain a password."""

    def __init__(self, address: str, *, folder: Path, key: str) -> None:
        """`address` is a URL or the path of an SQLite file, relative to `folder`; `key` is its name in messages."""
        self._url = parse_url(address, folder=folder, key=key)
        self.kind = self._url.get_backend_name()  # sqlite or postgresql
        self.is_postgresql = self.kind == "postgresql"

    def __repr__(self) -> str:
        return f"<{self.place}>"

    @property
    def place(self) -> str:
        """The database in messages: host and name, or the file."""
        if not self.is_postgresql:
            return f"SQLite {self._url.database}"
        host = self._url.host or ",".join(self._url.normalized_query.get("host", ())) or "localhost"
        host = host if HOST.fullmatch(host.replace("/", "")) else "***"  # ?host= may also be the folder of a socket
        port = f":{self._url.port}" if self._url.port else ""
        return f"PostgreSQL {host}{port}/{self._url.database or ''}"

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A read-only connection; errors inside become `DatabaseError`."""
        engine = self._engine
        with translate_errors(self._url, self.place, engine.dialect.loaded_dbapi), engine.connect() as connection:
            if self.is_postgresql:
                connection.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
            try:
                yield connection
            except engine.dialect.loaded_dbapi.Error:
                connection.invalidate()  # no rollback on a broken connection
                raise

    def rows(self, *statements: Select[Any], size: int) -> Iterator[Sequence[Sequence[object]]]:
        """The rows of statements, one after the other in one transaction, `size` at a time from a server-side cursor.

        They are the driver's own tuples: SQLAlchemy's rows were two thirds of the time of a read. COPY is slower, since
        psycopg gives each of its rows to Python by itself.
        """
        with self.connected() as connection:
            for statement in statements:
                with self._executed(connection, statement) as cursor:
                    while rows := cursor.fetchmany(size):
                        yield rows

    @contextmanager
    def _executed(self, connection: Connection, statement: Select[Any]) -> Iterator[DBAPICursor]:
        """The driver's cursor, on which the statement was executed."""
        driver = connection.connection.driver_connection
        assert driver is not None
        if not self.is_postgresql:
            driver.text_factory = bytes  # SQLite may contain text that is not UTF-8; as bytes, the bad row can be named
            with closing(connection.execute(statement).cursor) as cursor:
                yield cursor
            return
        # Not by SQLAlchemy's `stream_results`, which has already fetched the first rows from the cursor.
        compiled = statement.compile(dialect=connection.dialect)
        with closing(driver.cursor(name=CURSOR)) as cursor:
            cursor.execute(str(compiled), compiled.params)
            yield cursor

    @cached_property
    def _engine(self) -> Engine:
        # No pool: each read opens a connection, so that none is left over from before a restart.
        if not self.is_postgresql:
            return create_engine("sqlite://", poolclass=NullPool, creator=self._open_file)
        try:
            from psycopg.pq import Conninfo
        except ImportError:
            raise DataError(f"PostgreSQL needs {install_hint('pipeline')}") from None
        known = {option.keyword.decode() for option in Conninfo.get_defaults()}
        if self._url.query.keys() - known:  # not shown: after a bare & it is the rest of a password
            message = f"an option after the ? of its url is unknown to PostgreSQL; known: {', '.join(sorted(known))}"
            raise DataError(f"{self.place}: {message}")
        seconds = {} if "connect_timeout" in self._url.query else {"connect_timeout": CONNECT_SECONDS}
        return create_engine(self._url, poolclass=NullPool, connect_args=seconds)

    def _open_file(self) -> sqlite3.Connection:
        """Read-only: otherwise SQLite creates an empty database for a mistyped name."""
        path = str(self._url.database)
        if not Path(path).is_file():
            raise DataError(f"{self.place}: no such file")
        return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=LOCK_SECONDS, check_same_thread=False)
