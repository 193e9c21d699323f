"""A real PostgreSQL server of one's own for tests: a new cluster in a temporary folder, on a free local port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PASSWORD = "s3cr3t-of-tests"
STANDARD = Path("/usr/lib/postgresql")  # where Debian keeps the programs of each version
FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}
MISSING = "PostgreSQL is not here: install the package postgresql, or put initdb and postgres on the PATH"
OWN_USER = "postgres"  # as whom the server is run by root, which it refuses to be
SECONDS = 30  # for the server to start or stop on a busy machine


def programs() -> Path | None:
    """The folder with initdb and postgres; of several versions the newest. None for root without the server's user."""
    if os.geteuid() == 0 and (
        shutil.which("runuser") is None or OWN_USER not in {user.pw_name for user in pwd.getpwall()}
    ):
        return None
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = [path.parent for path in STANDARD.glob("*/bin/initdb")]
    return max(versions, key=lambda folder: float(folder.parent.name), default=None)


@dataclass
class Server:
    """A server that is listening on 127.0.0.1, with one user whose password is asked for."""

    folder: Path
    programs: Path
    port: int
    password: str = PASSWORD
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def url(self, *, password: str | None = None, database: str = "postgres", port: int | None = None) -> str:
        """The address, as a user writes it."""
        return f"postgresql://tester:{password or self.password}@127.0.0.1:{port or self.port}/{database}"

    def create(self) -> None:
        """Make the cluster."""
        word = self.folder / "password"
        word.write_text(self.password)
        _give_to_server(self.folder, word)
        command = [self.programs / "initdb", "-D", self.folder / "data", "-U", "tester", f"--pwfile={word}"]
        command += ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        subprocess.run(_as_server(command), check=True, capture_output=True, cwd=self.folder)

    def start(self) -> None:
        """Start, and wait until connections are taken."""
        settings = FAST | {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        command = [self.programs / "postgres", "-D", self.folder / "data"]
        command += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(_as_server(command), stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + SECONDS
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL does not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT rolls back what is going on, SIGQUIT leaves at once, as if the server had been killed."""
        if self.process is not None and self.process.poll() is None:
            pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])  # behind runuser
            os.kill(pid, how)
            self.process.wait(SECONDS)

    def _ready(self) -> bool:
        import psycopg  # where a server is used: tests of files need no driver for it

        try:
            psycopg.connect(self.url(), connect_timeout=SECONDS).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def running() -> Iterator[Server]:
    """A started server with an empty database; nothing of it is left afterwards."""
    found = programs()
    if found is None:
        raise FileNotFoundError(MISSING)
    # Not in pytest's folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="fedrule-pg-", ignore_cleanup_errors=True) as folder:
        _give_to_server(Path(folder))
        server = Server(Path(folder), found, _free_port())
        server.create()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _as_server(command: list[object]) -> list[str]:
    words = [str(word) for word in command]
    return ["runuser", "-u", OWN_USER, "--", *words] if os.geteuid() == 0 else words


def _give_to_server(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            shutil.chown(path, OWN_USER)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a process; those that stop it start it again."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra pipeline")
    if programs() is None:
        pytest.skip(MISSING)
    with running() as server:
        yield server
