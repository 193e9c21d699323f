"""What a database's error becomes: one sentence that names the place and holds no password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, quote_plus

from sqlalchemy import URL
from sqlalchemy.engine.interfaces import DBAPIModule
from sqlalchemy.exc import SQLAlchemyError, StatementError

from datasets.common.errors import DataError

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
