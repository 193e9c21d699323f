"""Runs on other machines: an existing Dask cluster, or a batch system by submitit (`benchmarks.runs.batch_system`).

The scheduler is the same as for processes of this machine: it claims a run and hands it to one of these executors,
which stores what comes back. A worker of Dask needs no file of ours but the installed code. Homes are sent to it when
it says that it lacks them, so once for each data set and worker. A run whose worker dies is given to another one by
Dask. It counts as failed when three died, or one more than `distributed.scheduler.allowed-failures` of Dask's
configuration.

Dask trusts whoever reaches its ports, and so does every worker: use a private network.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.history import OnProgress
from benchmarks.runs.remote import ATTEMPTS, Reply, job_of, retry, store_reply, topic_of
from datasets.common.errors import DataError, counted, install_hint

if TYPE_CHECKING:
    from distributed import Client, Future, Worker

    from benchmarks.runs.scheduler import Executor

log = logging.getLogger(__name__)

BATCH_SYSTEMS = ("slurm", "local")
CONNECT_TIMEOUT = 10.0  # seconds
POLL_INTERVAL = 2.0  # seconds between two looks at whether there is any worker
WORKER_TIMEOUT = 300.0  # seconds without any worker after which the command ends


def open_cluster(
    name: str, *, options: Sequence[str] = (), jobs: int | None = None, threads: int = 1, folder: Path
) -> AbstractContextManager[Executor]:
    """The executor for `--cluster NAME`; `folder` is that of the results. Nothing is connected until it is entered."""
    given = _read_options(options)
    if name in BATCH_SYSTEMS:
        _refuse_without("submitit", name)
        from benchmarks.runs.batch_system import BatchSystem

        return BatchSystem(name, given, jobs=jobs, threads=threads, folder=folder)
    if not name.startswith(("tcp://", "tls://")):
        raise DataError(f"--cluster {name}: write tcp://HOST:PORT of a Dask scheduler, or {' or '.join(BATCH_SYSTEMS)}")
    if given:
        raise DataError(
            f"--cluster-option {next(iter(given))}: it is for slurm and local; a Dask cluster has its own settings"
        )
    _refuse_without("distributed", name)
    return DaskCluster(name, jobs=jobs)


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


class DaskCluster:
    """The workers of a Dask scheduler, each with as many runs at the same time as it has threads."""

    def __init__(self, address: str, *, jobs: int | None = None) -> None:
        self.address = address
        self.jobs = jobs  # at most; None: as many as there are threads
        self.stopped = False
        self._listeners: dict[str, OnProgress] = {}  # of running runs, by name
        self._starts: dict[str, list[str]] = {}  # the workers that have started each of them
        self._futures: set[Future] = set()
        self._sent: set[tuple[str, str]] = set()  # process of a worker, file of homes
        self._sending, self._warned = Lock(), set[str]()
        self._seen = 0.0  # when there was a worker last

    def __enter__(self) -> Self:
        from distributed import Client

        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # our messages say what matters
        try:
            self._client: Client = Client(self.address, timeout=CONNECT_TIMEOUT, set_as_default=False, name="fedrule")
        except (OSError, ValueError, TimeoutError) as error:
            raise DataError(
                f"--cluster {self.address}: no Dask scheduler answers there ({str(error) or 'no answer'}); start one "
                "with `dask scheduler`, and workers with `dask worker ADDRESS`"
            ) from None
        self._client.subscribe_topic(topic_of(self._client.id), self._on_event)
        connected = self._client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
        self._client.run(_remote("close_lost_sessions"), connected, on_error="ignore")
        self._seen = time.monotonic()
        threads = self._threads()
        log.info("%s: %s", self.address, f"{counted(threads, 'run')} at a time" if threads else "waiting for workers")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # the cluster may be gone
            if not self.stopped:
                self._client.run(_remote("close_session"), self._client.id, on_error="ignore")
        with suppress(Exception):
            self._client.close(timeout=CONNECT_TIMEOUT)

    def capacity(self) -> int:
        """The threads of all workers, at most `jobs`."""
        threads = self._threads()
        return max(1, min(threads, self.jobs or threads))

    def run(
        self,
        experiment: Experiment,
        homes: Path,
        *,
        store: Store,
        threads: int,
        on_progress: OnProgress,
        checkpoints: int,
    ) -> list[Result]:
        """Execute a run on some worker; its results, stored here. A stopped one has none."""
        del checkpoints  # would stay on a machine that may be gone
        job, name = job_of(experiment, homes, threads=threads), f"{experiment} {uuid.uuid4().hex[:8]}"
        self._listeners[name], self._starts[name] = on_progress, []
        try:
            reply = retry(experiment, lambda: self._ask(job, name, homes))
        except CancelledError:
            if self.stopped:
                return []
            raise self._lost() from None
        finally:
            del self._listeners[name], self._starts[name]
        machine, warned = f"the worker {reply.get('worker')}", self._warned
        return store_reply(reply, experiment, homes, store, machine=machine, threads=threads, warned=warned)

    def stop(self) -> None:
        """Cancel what is queued and end what is running."""
        self.stopped = True
        with suppress(Exception):  # the cluster may be gone
            self._client.cancel(list(self._futures), force=True)
            self._client.run(_remote("close_session"), self._client.id, on_error="ignore")

    def _ask(self, job: str, name: str, homes: Path) -> Reply:
        """The reply of a worker, which is sent the homes if it lacks them."""
        from distributed import KilledWorker

        where: dict[str, Any] = {}
        while True:
            key = f"{name} {uuid.uuid4().hex[:8]}"
            given = self._client.id, job, name
            future = self._client.submit(_remote("run_on_worker"), *given, key=key, pure=False, **where)
            self._futures.add(future)
            try:
                if self.stopped:
                    raise CancelledError
                reply: Reply = self._result(future)
            except KilledWorker as error:
                return _workers_died(error.allowed_failures + 1, error.last_worker.address)
            except (ImportError, AttributeError) as error:
                return {"refusal": f"lacks this version of fedrule ({error})", "worker": "that took the run"}
            finally:
                self._futures.discard(future)
            if "lacks" not in reply:
                return reply
            # Its events arrive before its reply, and so do those of workers that have died with this run.
            if len(died := self._starts[name]) >= ATTEMPTS:
                return _workers_died(len(died), died[-1])
            self._send(homes, reply)
            where = {"workers": [reply["worker"]], "allow_other_workers": True}

    def _result(self, future: Future) -> Reply:
        while True:
            try:
                reply: Reply = future.result(timeout=POLL_INTERVAL)
            except TimeoutError:
                if self._threads():
                    continue
                if time.monotonic() - self._seen > WORKER_TIMEOUT:
                    raise DataError(
                        f"{self.address} has had no worker for {WORKER_TIMEOUT:.0f} seconds; start some with "
                        f"`dask worker {self.address}`, and repeat the command: what is stored stays"
                    ) from None
            else:
                return reply

    def _send(self, homes: Path, reply: Reply) -> None:
        """Send a file of homes to the worker of a reply, once."""
        with self._sending:
            if (reply["process"], homes.name) in self._sent:
                return
            put, given = _remote("put_homes"), (self._client.id, homes.name, homes.read_bytes())

            def send(dask_worker: Worker) -> None:
                put(*given, dask_worker.local_directory)

            with suppress(OSError, ValueError, KeyError):  # it died meanwhile: another one takes the run
                self._client.run(send, workers=[reply["worker"]])
                self._sent.add((reply["process"], homes.name))

    def _threads(self) -> int:
        """Of all workers."""
        try:
            found: int = sum(self._client.nthreads().values())
        except (OSError, TimeoutError, AttributeError):
            raise self._lost() from None
        if found:
            self._seen = time.monotonic()
        return found

    def _on_event(self, event: tuple[float, dict[str, Any]]) -> None:
        _, message = event
        run = message["run"]
        # Looked up once: this is a thread of Dask, and the run may end at any time.
        if "started" in message and (workers := self._starts.get(run)) is not None:
            workers.append(message["started"])
        elif "done" in message and (listener := self._listeners.get(run)) is not None:
            listener(message["done"], message["of"])

    def _lost(self) -> DataError:
        return DataError(
            f"{self.address}: the connection to the Dask scheduler is lost; what is stored stays, the same command "
            "makes the rest"
        )


def _workers_died(many: int, last: str) -> Reply:
    return {"error": f"{many} workers died while running it, the last one was {last}", "final": True}


def _remote(function: str) -> Callable[..., Any]:
    """A function of `benchmarks.runs.remote`, pickled by value: the scheduler of Dask need not have our code."""
    return lambda *given: getattr(importlib.import_module("benchmarks.runs.remote"), function)(*given)
