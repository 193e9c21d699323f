"""The address of a database, taken apart without a word of it in an error: the password is in there somewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from datasets.common.errors import DataError

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
