"""A temporary folder of one process, which a later one deletes if that process was killed.

Jobs have homes in it, and homes are private: they must not stay behind. The owner of the folder holds a lock in it,
which the system releases however the owner ends. The name of the lock has that of the machine, as locks of another
machine in a shared file system are not always seen.
"""

from __future__ import annotations

import shutil
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self

LOCK = "session-lock-"  # and the name of the machine
SHARED = ".cluster-"  # prefix of a folder beside the output of a command


class SessionFolder:
    """A new folder in `place`; where files cannot be locked, nothing but `delete` or a normal exit deletes it."""

    def __init__(self, place: Path, prefix: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._temporary = TemporaryDirectory(dir=place.absolute(), prefix=prefix, ignore_cleanup_errors=True)
        self.path = Path(self._temporary.name)
        self._lock = _lock(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def delete(self) -> None:
        """Delete the folder with all that is in it."""
        self._temporary.cleanup()
        if self._lock is not None:
            self._lock.close()


def shared_folder(place: Path) -> SessionFolder:
    """A folder beside the output of a command, which machines with the same file system see."""
    delete_abandoned(place, f"{SHARED}*")
    return SessionFolder(place, SHARED)


def delete_abandoned(place: Path, pattern: str) -> None:
    """Delete the session folders of killed processes of this machine whose path below `place` matches."""
    try:
        import fcntl  # not on Windows
    except ImportError:
        return
    for lock in place.glob(f"{pattern}/{LOCK}{socket.gethostname()}"):
        with suppress(OSError), lock.open("r+") as file:  # another process holds it, or is as fast
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _lock(folder: Path) -> IO[str] | None:
    """A lock in a folder, there under its name only when it is held; None where there are no locks."""
    new = folder / ".lock"
    file = new.open("w")
    try:
        import fcntl  # not on Windows

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        file.close()
        return None
    new.rename(folder / f"{LOCK}{socket.gethostname()}")
    return file
