"""Other machines that do jobs: an existing Dask cluster, or a batch system by submitit.

A job is text, the name of what does it on the other machine (a `JobHandler` of `benchmarks.cluster.remote`), and a
file that is sent to each machine once. A machine that lacks the same code refuses it, which ends the command. A job
whose machine dies, or cannot do it, is given to another one, ATTEMPTS times in all.
"""

from __future__ import annotations

import importlib.util
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from datasets.common.environment import DISTRIBUTIONS
from datasets.common.errors import DataError, install_hint
from datasets.common.files import Json

if TYPE_CHECKING:
    from benchmarks.runs.history import OnProgress

log = logging.getLogger(__name__)

BATCH_SYSTEMS = ("slurm", "local")
ATTEMPTS = 3  # machines that may die with a job before it counts as failed

Reply: TypeAlias = dict[str, Any]  # `files` by name, or why there are none: `refusal`, `error` or `lacks`


@dataclass(frozen=True, slots=True)
class Job:
    """What another machine is to do."""

    name: str  # in messages
    handler: str  # MODULE:CLASS of what does it there
    content: Mapping[str, Json]  # that it needs to know
    file: Path  # that it needs; its name is of its content, so that it is sent to each machine once
    data: bytes = b""  # that it needs, of this job only

    @property
    def text(self) -> str:
        """All of it but the data, for the other machine."""
        return json.dumps({"handler": self.handler, "file": self.file.name, "content": self.content})


class Cluster(ABC):
    """Machines that do jobs; connected while it is entered. Its methods are called from several threads."""

    def __init__(self, *, repeat: str) -> None:
        self.stopped = False
        self.repeat = repeat  # what to do when something is put right
        self._warned: set[str] = set()

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    @abstractmethod
    def capacity(self) -> int:
        """How many jobs it does at the same time, 1 or more; may change."""

    @abstractmethod
    def stop(self) -> None:
        """Cancel every job."""

    @abstractmethod
    def _ask(self, job: Job, on_progress: OnProgress) -> Reply:
        """The reply of one machine, with its name as `machine`; a final error is not to be tried again."""

    def do(self, job: Job, on_progress: OnProgress) -> Reply:
        """Wait for a job; the `files` that a machine has sent, or the last `error`. Empty if the cluster was stopped.

        Files that came before it had stopped are kept. A machine that refuses the job is a `DataError`.
        """
        reply: Reply = {}
        for attempt in range(1, ATTEMPTS + 1):
            reply = {} if self.stopped else self._ask(job, on_progress)
            if "files" in reply:
                break
            if self.stopped:
                return {}
            if "refusal" in reply:
                raise DataError(
                    f"{reply['machine']} {reply['refusal']}: install the same version there (check out the same "
                    f"commit, and copy your modules of --import), start its workers again, and {self.repeat}"
                )
            if "error" not in reply or reply.get("final"):
                break
            log.warning("%s failed (attempt %s of %s): %s", job.name, attempt, ATTEMPTS, reply["error"].strip())
        return reply

    def warn_of_versions(self, there: Mapping[str, str], machine: str) -> None:
        """Warn of versions of a machine that differ from those here, of each once."""
        for line in other_versions(there):
            if line not in self._warned:
                self._warned.add(line)
                log.warning("%s has %s: numbers may differ in their last digits", machine, line)


def other_versions(there: Mapping[str, str]) -> list[str]:
    """The packages that have another version here; they may change the last digits of numbers."""
    found = []
    for package, other in there.items():
        try:
            here = python_version() if package == "python" else version(DISTRIBUTIONS.get(package, package))
        except PackageNotFoundError:  # "platform" is none
            continue
        if here != other:
            found.append(f"{package} {other} ({here} here)")
    return found


def open_cluster(
    name: str | None,
    *,
    options: Sequence[str] = (),
    jobs: int | None = None,
    threads: int = 1,
    folder: Path,
    repeat: str = "repeat the command",
) -> Cluster:
    """The cluster for `--cluster NAME`, with at most `jobs` jobs at a time; nothing is connected until it is entered.

    `folder` is one that all machines of a batch system see.
    """
    if name is None:
        raise DataError("--cluster-option is for --cluster slurm and --cluster local")
    if jobs is not None and jobs < 1:
        raise DataError(f"jobs must be at least 1, got {jobs}")
    given = _read_options(options)
    if name in BATCH_SYSTEMS:
        _refuse_without("submitit", name)
        from benchmarks.cluster.batch_system import BatchSystem

        return BatchSystem(name, given, jobs=jobs, threads=threads, folder=folder, repeat=repeat)
    if not name.startswith(("tcp://", "tls://")):
        raise DataError(f"--cluster {name}: write tcp://HOST:PORT of a Dask scheduler, or {' or '.join(BATCH_SYSTEMS)}")
    if given:
        raise DataError(
            f"--cluster-option {next(iter(given))}: it is for slurm and local; a Dask cluster has its own settings"
        )
    _refuse_without("distributed", name)
    from benchmarks.cluster.dask_cluster import DaskCluster

    return DaskCluster(name, jobs=jobs, repeat=repeat)


def _refuse_without(package: str, name: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise DataError(f"--cluster {name} needs {package}; install {install_hint('cluster')}")


def _read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options such as "timeout_min=60" and "slurm_partition=cpu"; values are JSON, or else text."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise DataError(f"--cluster-option {text}: write KEY=VALUE, e.g. slurm_partition=cpu or timeout_min=600")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
