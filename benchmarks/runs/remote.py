"""What another machine does with a run of a cluster: it makes the run in a process of its own and sends the files back.

A machine must have the same code as the one that the command is given on. Each run is refused where the code of its
method and of the evaluation differs. Threads and PYTHONHASHSEED are set for the process of a run, whatever the machine
has; the versions of packages are in its result.

All that travels is JSON, bytes and text, so that a machine with another version can answer too.
"""

from __future__ import annotations

import json
import socket
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, TypeAlias

from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.history import OnProgress, ignore_progress
from benchmarks.runs.run import failed
from benchmarks.runs.workers import Workers, describe, restore
from datasets.common.environment import DISTRIBUTIONS, commit
from datasets.common.errors import DataError
from datasets.common.files import atomic_file

Reply: TypeAlias = dict[str, Any]  # `files` by name, or why there are none: `refusal`, `error` or `lacks`

ATTEMPTS = 3  # machines that may die with a run before it counts as failed
SENT = (".json", ".parquet")  # files of results
REPORTED = 1.0  # seconds between two reports of rounds

REMEDY = (
    "install the same version there (check out the same commit, and copy your modules of --import), start its workers "
    "again, and repeat the command: what is stored stays"
)


def job_of(experiment: Experiment, homes: Path, *, threads: int) -> str:
    """A run as text for another machine."""
    return json.dumps({**describe(experiment), "homes": homes.name, "threads": threads, "code": experiment.code})


def make(
    job: str,
    folder: Path,
    workers: Workers,
    *,
    on_start: Callable[[], None] = lambda: None,
    on_progress: OnProgress = ignore_progress,
) -> Reply:
    """Make a run here, with the homes in this folder; never an exception."""
    try:
        given = json.loads(job)
        refusal = _refusal(given)
        if refusal:
            return {"refusal": refusal}
        homes = folder / given["homes"]
        if not homes.exists():
            return {"lacks": homes.name}
        on_start()
        with TemporaryDirectory() as temporary:
            store = Store(Path(temporary))
            workers.run(restore(given), homes, store=store, threads=given["threads"], on_progress=on_progress)
            return {"files": {p.name: p.read_bytes() for p in store.folder.iterdir() if p.suffix in SENT}}
    except Exception:  # such as a full disk: the run is tried on another machine
        return {"error": f"on {socket.gethostname()}: {traceback.format_exc()}"}


def _refusal(given: Mapping[str, Any]) -> str:
    """Why this machine must not make a run; empty where it may."""
    name = given["experiment"]["method"]
    here = commit() or "no git checkout"
    try:
        code = restore(given).code
    except (ImportError, DataError) as error:
        return f"has no {name} as it is here ({error}; {here})"
    return "" if code == given["code"] else f"has other code of {name} ({code}, {here}; it is {given['code']} here)"


def make_alone(job: str, folder: str) -> Reply:
    """The job of a batch system: one run in a process that ends with it."""
    with Workers() as workers:
        return make(job, Path(folder), workers)


@dataclass
class Session:
    """What a worker of Dask holds for one client: its homes, and processes that have imported methods."""

    folder: TemporaryDirectory[str]
    workers: Workers = field(default_factory=Workers)

    def close(self) -> None:
        """End its runs and delete its homes."""
        self.workers.stop()
        self.workers.__exit__()
        self.folder.cleanup()


_SESSIONS: dict[str, Session] = {}  # of this process, by client
_LOCK = Lock()


def close_session(client: str) -> None:
    """End the runs of a client and delete what is held for it."""
    with _LOCK:
        session = _SESSIONS.pop(client, None)
    if session is not None:
        session.close()


def close_lost_sessions(connected: Collection[str]) -> None:
    """Close the sessions of clients that are gone without a word: killed, or cut off."""
    for client in list(_SESSIONS):
        if client not in connected:
            close_session(client)


def make_on_worker(client: str, job: str, name: str) -> Reply:
    """A task of Dask: a run, which reports its start and its rounds as events under this name."""
    from distributed import get_worker

    worker, reported = get_worker(), 0.0

    def start() -> None:
        worker.log_event(topic_of(client), {"run": name, "started": worker.address})

    def report(done: int, of: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORTED:
            reported = time.monotonic()
            worker.log_event(topic_of(client), {"run": name, "done": done, "of": of})

    session = session_of(client, worker.local_directory)
    reply = make(job, Path(session.folder.name), session.workers, on_start=start, on_progress=report)
    return {**reply, "worker": worker.address, "process": worker.id}


def topic_of(client: str) -> str:
    """Where the rounds of a client's runs are reported."""
    return f"fedrule-{client}"


def session_of(client: str, folder: str) -> Session:
    """What this process holds for a client; in a new folder below this one, if it is new."""
    with _LOCK:
        if client not in _SESSIONS:
            _SESSIONS[client] = Session(TemporaryDirectory(dir=folder, prefix="fedrule-"))
        return _SESSIONS[client]


def put_homes(client: str, name: str, content: bytes, folder: str) -> None:
    """Keep a file of homes for a client."""
    with atomic_file(Path(session_of(client, folder).folder.name) / name) as temporary:
        temporary.write_bytes(content)


def receive(reply: Reply, experiment: Experiment, fingerprint: str, store: Store) -> list[Result]:
    """Store the results that another machine has sent."""
    with TemporaryDirectory() as folder:
        for name, content in reply["files"].items():
            (Path(folder) / Path(name).name).write_bytes(content)
        sent, code = Store(Path(folder)), experiment.code
        found = [sent.outcome(key, code) for key in experiment.keys(fingerprint).values()]
        return [store.adopt(result) for result in found]


def give_up(error: str, experiment: Experiment, fingerprint: str, store: Store, *, threads: int) -> list[Result]:
    """Store that a run has failed, since no machine has finished it."""
    keys, code = experiment.keys(fingerprint).values(), experiment.code
    return [store.fail(failed(experiment, key, error, threads=threads, code=code)) for key in keys]


def other_versions(result: Result) -> list[str]:
    """The packages of a result that have another version here; they may change the last digits of numbers."""
    found = []
    for package, there in result.versions.items():
        try:
            here = python_version() if package == "python" else version(DISTRIBUTIONS.get(package, package))
        except PackageNotFoundError:  # "platform" is none
            continue
        if here != there:
            found.append(f"{package} {there} ({here} here)")
    return found
