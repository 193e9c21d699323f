"""A job on another machine: a handler does it, where the machine has the same code as the one that asks.

All that travels is JSON, bytes and text, so that a machine with another version can answer too.
"""

from __future__ import annotations

import importlib
import json
import socket
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from benchmarks.cluster.cluster import Reply
from benchmarks.cluster.session_folder import SessionFolder, delete_abandoned
from datasets.common.environment import commit
from datasets.common.errors import DataError
from datasets.common.files import atomic_file

if TYPE_CHECKING:
    from benchmarks.runs.history import OnProgress

REPORT_INTERVAL = 1.0  # seconds between two reports of progress
PREFIX = "fedrule-"  # of a session's folder

Content: TypeAlias = Mapping[str, Any]  # of a job, as JSON has it


class JobHandler(Protocol):
    """What does the jobs of one kind on a machine, perhaps several at the same time, for one client."""

    def refusal(self, content: Content) -> str:
        """Why this machine must not do a job; empty where it may."""

    def run(self, name: str, content: Content, file: Path, data: bytes, on_progress: OnProgress) -> Reply:
        """Do a job of this name: the `files` to send back, or an `error` or `refusal`.

        What it writes goes below the folder of `file`, which is deleted even if this process is killed.
        """

    def cancel(self, name: str) -> None:
        """End the process of this job; it is not to be done here any more."""

    def stop(self) -> None:
        """End all jobs."""

    def close(self) -> None:
        """Free what it holds."""


def refusal_of_other_code(name: str, code: str, code_here: Callable[[], str]) -> str:
    """Why this machine must not do something; empty where its code is the one that is expected."""
    here = commit() or "no git checkout"
    try:
        found = code_here()
    except (ImportError, DataError) as error:
        return f"has no {name} as it is here ({error}; {here})"
    return "" if found == code else f"has other code of {name} ({found}, {here}; it is {code} here)"


@dataclass
class Session:
    """What a machine holds for one client: a folder of files, and handlers by name."""

    folder: Path
    temporary: SessionFolder | None = None  # where the folder is only for this session
    handlers: dict[str, JobHandler] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def handler(self, name: str) -> JobHandler:
        """A handler, made when it is needed first."""
        with self.lock:
            if name not in self.handlers:
                module, _, kind = name.partition(":")
                self.handlers[name] = getattr(importlib.import_module(module), kind)()
            return self.handlers[name]

    def do(
        self,
        text: str,
        data: bytes,
        name: str,
        *,
        on_start: Callable[[], None] = lambda: None,
        on_progress: OnProgress,
    ) -> Reply:
        """Do a job here; never raises."""
        try:
            job = json.loads(text)
            try:
                handler = self.handler(job["handler"])
            except (ImportError, AttributeError) as error:
                return {"refusal": f"lacks this version of fedrule ({error})"}
            if refusal := handler.refusal(job["content"]):
                return {"refusal": refusal}
            file = self.folder / job["file"]
            if not file.exists():
                return {"lacks": file.name}
            on_start()
            return handler.run(name, job["content"], file, data, on_progress)
        except Exception:  # such as a full disk: the job is tried on another machine
            return {"error": f"{traceback.format_exc().rstrip()} (on {socket.gethostname()})"}

    def cancel(self, name: str) -> None:
        """End a job; it has a handler already, as no job runs before its file has come."""
        with self.lock:
            for handler in self.handlers.values():
                handler.cancel(name)

    def close(self) -> None:
        """End its jobs and delete its files."""
        with self.lock:
            for handler in self.handlers.values():
                handler.stop()
                handler.close()
        if self.temporary is not None:
            self.temporary.delete()


def do_single_job(text: str, data: bytes, folder: Path) -> Reply:
    """The job of a batch system."""
    session = Session(folder)
    try:
        return session.do(text, data, "", on_progress=lambda *_: None)  # nobody asks how far it is
    finally:
        session.close()


_SESSIONS: dict[str, Session] = {}  # of this worker of Dask, by client
_LOCK = Lock()


def cancel_job(client: str, name: str) -> None:
    """End a job of a client if it is here; it does not start here any more."""
    with _LOCK:
        session = _SESSIONS.get(client)
    if session is not None:
        session.cancel(name)


def close_session(client: str) -> None:
    """End the jobs of a client and delete what is held for it."""
    with _LOCK:
        session = _SESSIONS.pop(client, None)
    if session is not None:
        session.close()


def close_lost_sessions(connected: Collection[str]) -> None:
    """Close the sessions of clients that are gone without a word: killed, or cut off."""
    for client in list(_SESSIONS):
        if client not in connected:
            close_session(client)


def do_on_worker(client: str, text: str, data: bytes, name: str) -> Reply:
    """A task of Dask: a job, which reports its start and its progress as events under this name."""
    from distributed import get_worker

    worker, reported = get_worker(), 0.0

    def start() -> None:
        worker.log_event(topic_of(client), {"job": name, "started": worker.address})

    def report(done: int, of: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_INTERVAL:
            reported = time.monotonic()
            worker.log_event(topic_of(client), {"job": name, "done": done, "of": of})

    reply = session_of(client, worker.local_directory).do(text, data, name, on_start=start, on_progress=report)
    return {**reply, "worker": worker.address, "process": worker.id}


def topic_of(client: str) -> str:
    """Where the progress of a client's jobs is reported."""
    return f"fedrule-{client}"


def session_of(client: str, folder: str) -> Session:
    """What this process holds for a client; in a new folder below this one, that of the worker, if it is new."""
    with _LOCK:
        if client not in _SESSIONS:
            delete_abandoned(Path(folder).parent, f"*/{PREFIX}*")  # of workers of this machine
            temporary = SessionFolder(Path(folder), PREFIX)
            _SESSIONS[client] = Session(temporary.path, temporary)
        return _SESSIONS[client]


def put_file(client: str, name: str, content: bytes, folder: str) -> None:
    """Keep a file for a client."""
    with atomic_file(session_of(client, folder).folder / name) as temporary:
        temporary.write_bytes(content)
