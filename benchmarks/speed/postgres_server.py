"""A temporary PostgreSQL server: a new cluster in a temporary folder, on a free local port."""

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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PASSWORD = "s3cr3t-of-tests"
STANDARD = Path("/usr/lib/postgresql")  # of Debian, with a folder per version
FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}
MISSING = "PostgreSQL is not installed: install the package postgresql, or put initdb and postgres on the PATH"
SERVER_USER = "postgres"  # PostgreSQL refuses to run as root
HANGS = 300  # seconds: no start or stop takes this long, even on a busy machine


def programs() -> Path | None:
    """The folder with initdb and postgres of the newest version; None if they, or root's `SERVER_USER`, are missing."""
    if os.geteuid() == 0 and (
        shutil.which("runuser") is None or SERVER_USER not in {user.pw_name for user in pwd.getpwall()}
    ):
        return None
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = [path.parent for path in STANDARD.glob("*/bin/initdb")]
    return max(versions, key=lambda folder: float(folder.parent.name), default=None)


@dataclass
class Server:
    """A server that listens on 127.0.0.1, with one user and a password."""

    folder: Path
    programs: Path
    port: int
    password: str = PASSWORD
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def url(self, *, password: str | None = None, database: str = "postgres", port: int | None = None) -> str:
        """The address of a database."""
        return f"postgresql://tester:{password or self.password}@127.0.0.1:{port or self.port}/{database}"

    def create(self) -> None:
        """Create the cluster."""
        word = self.folder / "password"
        word.write_text(self.password)
        _chown(self.folder, word)
        command = [self.programs / "initdb", "-D", self.folder / "data", "-U", "tester", f"--pwfile={word}"]
        command += ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        subprocess.run(_as_server(command), check=True, capture_output=True, cwd=self.folder)

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        settings = FAST | {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        command = [self.programs / "postgres", "-D", self.folder / "data"]
        command += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(_as_server(command), stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + HANGS
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT rolls back transactions, SIGQUIT ends at once, as if the server had been killed."""
        if self.process is not None and self.process.poll() is None:
            pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])  # a child of runuser
            os.kill(pid, how)
            self.process.wait(HANGS)

    def _ready(self) -> bool:
        import psycopg  # an extra

        try:
            psycopg.connect(self.url(), connect_timeout=HANGS).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def running() -> Iterator[Server]:
    """A running server with an empty database; all of it is deleted afterwards."""
    found = programs()
    if found is None:
        raise FileNotFoundError(MISSING)
    # Not in pytest's folder, which only its owner can enter.
    with tempfile.TemporaryDirectory(prefix="fedrule-pg-", ignore_cleanup_errors=True) as folder:
        _chown(Path(folder))
        server = Server(Path(folder), found, _free_port())
        server.create()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _as_server(command: list[object]) -> list[str]:
    words = [str(word) for word in command]
    return ["runuser", "-u", SERVER_USER, "--", *words] if os.geteuid() == 0 else words


def _chown(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            shutil.chown(path, SERVER_USER)
