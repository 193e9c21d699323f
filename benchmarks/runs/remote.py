"""Runs on another machine of a cluster: it executes a run in a process of its own and sends the files of its results.

A machine must have the same code as the one that the command is given on. Each run is refused where the code of its
method and of the evaluation differs. Threads and PYTHONHASHSEED are set for the process of a run, whatever the machine
has; the versions of packages are in its result.

All that travels is JSON, bytes and text, so that a machine with another version can answer too.
"""

from __future__ import annotations

import json
import logging
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
from benchmarks.runs.workers import Workers, experiment_as_json, experiment_from_json
from datasets.common.environment import DISTRIBUTIONS, commit
from datasets.common.errors import DataError
from datasets.common.files import atomic_file

log = logging.getLogger(__name__)

Reply: TypeAlias = dict[str, Any]  # `files` by name, or why there are none: `refusal`, `error` or `lacks`

ATTEMPTS = 3  # machines that may die with a run before it counts as failed
RESULT_FILES = (".json", ".parquet")
REPORT_INTERVAL = 1.0  # seconds between two reports of rounds

REMEDY = (
    "install the same version there (check out the same commit, and copy your modules of --import), start its workers "
    "again, and repeat the command: what is stored stays"
)


def job_of(experiment: Experiment, homes: Path, *, threads: int) -> str:
    """A run as text for another machine."""
    more = {"homes": homes.name, "threads": threads, "code": experiment.code}
    return json.dumps(experiment_as_json(experiment) | more)


def run_job(
    job: str,
    folder: Path,
    workers: Workers,
    *,
    on_start: Callable[[], None] = lambda: None,
    on_progress: OnProgress = ignore_progress,
) -> Reply:
    """Execute a run here, on the homes in this folder; never raises."""
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
            experiment, store = experiment_from_json(given), Store(Path(temporary))
            workers.run(experiment, homes, store=store, threads=given["threads"], on_progress=on_progress)
            return {"files": {p.name: p.read_bytes() for p in store.folder.iterdir() if p.suffix in RESULT_FILES}}
    except Exception:  # such as a full disk: the run is tried on another machine
        return {"error": f"on {socket.gethostname()}: {traceback.format_exc()}"}


def _refusal(given: Mapping[str, Any]) -> str:
    """Why this machine must not execute a run; empty where it may."""
    name = given["experiment"]["method"]
    here = commit() or "no git checkout"
    try:
        code = experiment_from_json(given).code
    except (ImportError, DataError) as error:
        return f"has no {name} as it is here ({error}; {here})"
    return "" if code == given["code"] else f"has other code of {name} ({code}, {here}; it is {given['code']} here)"


def run_single_job(job: str, folder: str) -> Reply:
    """The job of a batch system: one run in a process that ends with it."""
    with Workers() as workers:
        return run_job(job, Path(folder), workers)


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


def run_on_worker(client: str, job: str, name: str) -> Reply:
    """A task of Dask: a run, which reports its start and its rounds as events under this name."""
    from distributed import get_worker

    worker, reported = get_worker(), 0.0

    def start() -> None:
        worker.log_event(topic_of(client), {"run": name, "started": worker.address})

    def report(done: int, of: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_INTERVAL:
            reported = time.monotonic()
            worker.log_event(topic_of(client), {"run": name, "done": done, "of": of})

    session = session_of(client, worker.local_directory)
    reply = run_job(job, Path(session.folder.name), session.workers, on_start=start, on_progress=report)
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


def retry(experiment: Experiment, ask: Callable[[], Reply]) -> Reply:
    """Ask for the reply of a machine until one has not died with the run, at most ATTEMPTS times."""
    for attempt in range(1, ATTEMPTS + 1):
        reply = ask()
        if "error" not in reply or reply.get("final"):
            break
        log.warning("%s failed (attempt %s of %s): %s", experiment, attempt, ATTEMPTS, reply["error"].strip())
    return reply


def store_reply(
    reply: Reply, experiment: Experiment, homes: Path, store: Store, *, machine: str, threads: int, warned: set[str]
) -> list[Result]:
    """Store the results that a machine has sent, or that the run has failed; an error where the machine refuses it.

    Warns of versions that differ from those here, of each once: `warned` has those that were named.
    """
    if "refusal" in reply:
        raise DataError(f"{machine} {reply['refusal']}: {REMEDY}")
    keys, code = experiment.keys(homes.stem).values(), experiment.code
    if "error" in reply:
        return [store.fail(failed(experiment, key, reply["error"], threads=threads, code=code)) for key in keys]
    with TemporaryDirectory() as folder:
        for name, content in reply["files"].items():
            (Path(folder) / Path(name).name).write_bytes(content)
        sent = Store(Path(folder))
        results = [store.adopt(sent.outcome(key, code)) for key in keys]
    for line in (line for result in results for line in other_versions(result)):
        if line not in warned:
            warned.add(line)
            log.warning("%s has %s: numbers may differ in their last digits", machine, line)
    return results


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
