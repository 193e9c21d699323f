"""One database, opened for reading only: SQLite from a file, or PostgreSQL through psycopg 3."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, Executable, NullPool, create_engine, make_url
from sqlalchemy.engine.interfaces import DBAPIModule
from sqlalchemy.exc import ArgumentError, SQLAlchemyError, StatementError

from datasets.common.errors import DataError

# --- The address of a database, taken apart without a word of it in an error: the password is in there somewhere.

VARIABLE = re.compile(r"\$\{([^}]*)\}")
FILES = (".db", ".sqlite", ".sqlite3")
EXAMPLES = "homes.db, sqlite:///homes.db or postgresql://USER:PASSWORD@HOST/DATABASE"
POSTGRESQL = "postgresql+psycopg"
ELSEWHERE = ("mariadb", "mssql", "mysql", "oracle")  # may be named in an error: these words are nobody's password
PORTS = 65_535
SHAPE = re.compile(r"([^/?]*)([^?]*)(.*)", re.DOTALL)  # server, path, options
HOST = re.compile(r"[\w.:,-]*")  # names, addresses of IPv4 and IPv6, several of them
MARKS = "=&;"  # in the name of a database: options that do not stand behind a ?
DRIVE = 2  # the colon of C:\homes.db is within so many characters


def read_address(address: str, *, folder: Path, key: str) -> URL:
    """The URL behind `address`, which may be the path of an SQLite file; `key` is what messages call it."""
    text = _filled_in(address, key).strip()
    if "://" in text:
        url = _taken_apart(text, key)
    elif text.endswith(FILES) and ":" not in text[DRIVE:]:  # ann:PASSWORD@host/homes.db is no path
        url = URL.create("sqlite", database=text)
    else:
        raise DataError(f"{key}: it is no address of a database; write e.g. {EXAMPLES}")
    if url.drivername in ("postgresql", "postgres", POSTGRESQL):
        return url.set(drivername=POSTGRESQL)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or url.database == ":memory:":
            raise DataError(f"{key}: a database in memory is empty; name a file")
        return url.set(database=str(folder / url.database), query={})
    kind = next((kind for kind in ELSEWHERE if url.drivername.partition("+")[0] == kind), "this kind")
    raise DataError(f"{key}: {kind} of database is not known here; sqlite, postgresql and {POSTGRESQL} are")


def _filled_in(address: str, key: str) -> str:
    """The address with ${NAME} replaced by that environment variable."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise DataError(f"{key}: the environment variable {found[1]} is not set; export it")
        return os.environ[found[1]]

    return VARIABLE.sub(value, address)


def _taken_apart(text: str, key: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or (url.get_backend_name() != "sqlite" and _is_misread(url, text)):
        remedy = "special characters of a name or password are written %XX, e.g. %40 for @ and %2F for /"
        raise DataError(f"{key}: the address cannot be taken apart; {remedy}. Examples: {EXAMPLES}")
    if any("\0" in word for word in _words(url)):
        raise DataError(f"{key}: there is a NUL character (%00) in it, which no database takes; delete it")
    return url


def _is_misread(url: URL, text: str) -> bool:
    """Whether a part of the password may have been taken for the host, the port or the database, which are shown."""
    server, path, options = SHAPE.fullmatch(text.partition("://")[2]).groups("")  # type: ignore[union-attr]
    return (
        server.count("@") > 1
        or "@" in path + options  # of p@ss or p/s@s only what is behind the @ would be the host
        or not HOST.fullmatch(url.host or "")
        or not 0 <= (url.port or 0) <= PORTS
        or any(mark in path for mark in MARKS)
    )


def _words(url: URL) -> list[str]:
    """Every part of an address, with what %XX stands for."""
    options = [word for key, values in url.normalized_query.items() for word in (key, *values)]
    return [*(str(part or "") for part in (url.username, url.password, url.host, url.database)), *options]


# --- What a database's error becomes: one sentence that names the place and holds no password.

SECRET = ("pass", "secret", "key")  # parts of the names of options that hold one, e.g. sslpassword
SHORTEST = 4  # a password of fewer characters cannot be cut out of a sentence without giving it away


class DatabaseError(DataError):
    """A database that cannot be reached or read; `passing` where another try may succeed."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


@contextmanager
def in_our_words(url: URL, place: str, driver: DBAPIModule) -> Iterator[None]:
    """Turn whatever SQLAlchemy or a driver raises into a `DatabaseError` about `place`.

    The original is not chained: drivers quote what they were given to connect with, and a traceback would show it.
    """
    try:
        yield
    except DataError:
        raise
    # Drivers refuse some of what they are told by Python's own errors, e.g. a part of a host's name that is too long.
    except (SQLAlchemyError, driver.Error, ValueError, TypeError, OverflowError) as error:
        cause = error.orig if isinstance(error, StatementError) and error.orig is not None else error
        # The first line of what the driver says; not the statement and its parameters, which SQLAlchemy appends.
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        words = without_secrets(" ".join(lines[0].split()), url)
        passing = isinstance(cause, driver.OperationalError | driver.InterfaceError)
        raise DatabaseError(f"{place}: {words}", passing=passing) from None


def secrets(url: URL) -> list[str]:
    """Every password of a URL as it may be written: as it is, and quoted; the longest first."""
    given = [(key, value) for key, values in url.normalized_query.items() for value in values]
    plain = {str(url.password or ""), *(value for key, value in given if any(word in key for word in SECRET))} - {""}
    # Settings for the server, `-c name=value`, whose error repeats the value.
    settings = {word for key, value in given if key == "options" for word in re.split(r"[\s=]+", value)}
    plain |= {word for word in settings if len(word) >= SHORTEST}
    written = {form for word in plain for form in (word, quote(word, safe=""), quote_plus(word), repr(word)[1:-1])}
    return sorted(written, key=len, reverse=True)


def without_secrets(text: str, url: URL) -> str:
    """The text with the passwords of this URL starred out, and the user's name where it is quoted."""
    hidden = secrets(url)
    if any(len(word) < SHORTEST for word in hidden):
        return "the driver's message is withheld, since it may hold the short password"
    for word in hidden:
        text = text.replace(word, "***")
    return text.replace(f'"{url.username}"', '"***"') if url.username else text


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
