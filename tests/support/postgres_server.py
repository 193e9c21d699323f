"""One temporary PostgreSQL server for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.speed.postgres_server import HANGS, MISSING, Server, programs, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Tests that stop it start it again."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra pipeline")
    if programs() is None:
        pytest.skip(MISSING)
    with pytest.MonkeyPatch.context() as patch, running() as server:
        patch.setattr("fedrule.pipeline.database.CONNECT_SECONDS", HANGS)  # the machine may be busy
        yield server
