"""An existing Dask cluster.

A worker needs no file of ours but the installed code. The file of a job is sent to it when it says that it lacks it, so
once for each file and worker. A job whose worker leaves is given to another one by Dask. It counts as failed when three
workers died with it, or one more than `distributed.scheduler.allowed-failures` of Dask's configuration. A worker that
Dask retires, as adaptive clusters do, has not died.

Dask trusts whoever reaches its ports, and so does every worker: use a private network.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from benchmarks.cluster.cluster import ATTEMPTS, Cluster, Job, Reply
from benchmarks.cluster.remote import topic_of
from datasets.common.errors import DataError, counted

if TYPE_CHECKING:
    from distributed import Client, Future, Worker

    from benchmarks.runs.history import OnProgress

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0  # seconds
POLL_INTERVAL = 2.0  # seconds between two looks at whether there is any worker
WORKER_TIMEOUT = 300.0  # seconds without any worker after which the command ends


@dataclass
class Call:
    """A job that a worker was asked to do."""

    on_progress: OnProgress
    worker: str = ""  # that has started it last
    died: list[str] = field(default_factory=list)  # the workers that left unexpectedly while they did it


class DaskCluster(Cluster):
    """The workers of a Dask scheduler, each with as many jobs at the same time as it has threads."""

    def __init__(self, address: str, *, jobs: int | None = None, repeat: str = "repeat the command") -> None:
        super().__init__(repeat=repeat)
        self.address = address
        self.jobs = jobs  # at most; None: as many as there are threads
        self._calls: dict[str, Call] = {}  # by name
        self._futures: set[Future] = set()
        self._sent: set[tuple[str, str]] = set()  # process of a worker, name of a file
        self._sending = Lock()
        self._seen = 0.0  # when there was a worker last

    def __enter__(self) -> Self:
        from distributed import Client

        for name in ("distributed", "distributed.client"):  # the second one has a level of its own
            logging.getLogger(name).setLevel(logging.CRITICAL)  # our messages say what matters
        try:
            self._client: Client = Client(self.address, timeout=CONNECT_TIMEOUT, set_as_default=False, name="fedrule")
        except (OSError, ValueError, TimeoutError) as error:
            raise DataError(
                f"--cluster {self.address}: no Dask scheduler answers there ({str(error) or 'no answer'}); start one "
                "with `dask scheduler`, and workers with `dask worker ADDRESS`"
            ) from None
        self._client.subscribe_topic(topic_of(self._client.id), self._on_event)
        self._client.subscribe_topic("all", self._on_cluster_event)
        connected = self._client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
        self._client.run(_remote("close_lost_sessions"), connected, on_error="ignore")
        self._seen = time.monotonic()
        threads = self._threads()
        log.info("%s: %s", self.address, f"{counted(threads, 'job')} at a time" if threads else "waiting for workers")
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

    def stop(self) -> None:
        """Cancel what is queued and end what is running."""
        self.stopped = True
        with suppress(Exception):  # the cluster may be gone
            self._client.cancel(list(self._futures), force=True)
            self._client.run(_remote("close_session"), self._client.id, on_error="ignore")

    def _ask(self, job: Job, on_progress: OnProgress) -> Reply:
        name = f"{job.name} {uuid.uuid4().hex[:8]}"
        call = self._calls[name] = Call(on_progress)
        try:
            reply = self._call(job, name, call)
        except CancelledError:
            if self.stopped:
                return {}
            raise self._lost() from None
        finally:
            del self._calls[name]
        return reply | {"machine": f"the worker {reply.get('worker', 'that took it')}"}

    def _call(self, job: Job, name: str, call: Call) -> Reply:
        """The reply of a worker, which is sent the file if it lacks it."""
        from distributed import KilledWorker

        where: dict[str, Any] = {}
        while True:
            key = f"{name} {uuid.uuid4().hex[:8]}"
            given = self._client.id, job.text, job.data, name
            future = self._client.submit(_remote("do_on_worker"), *given, key=key, pure=False, **where)
            self._futures.add(future)
            try:
                if self.stopped:
                    raise CancelledError
                reply = self._result(future, name, call)
            except KilledWorker as error:
                return _workers_died(error.allowed_failures + 1, error.last_worker.address)
            finally:
                self._futures.discard(future)
            if "lacks" not in reply:
                return reply
            if len(call.died) >= ATTEMPTS:  # it has come to a worker that never had the file
                return _workers_died(len(call.died), call.died[-1])
            self._send(job.file, reply)
            where = {"workers": [reply["worker"]], "allow_other_workers": True}

    def _result(self, future: Future, name: str, call: Call) -> Reply:
        while True:
            try:
                reply: Reply = future.result(timeout=POLL_INTERVAL)
            except TimeoutError:
                if len(call.died) >= ATTEMPTS:
                    self._cancel(future, name)
                    return _workers_died(len(call.died), call.died[-1])
                if self._threads():
                    continue
                if time.monotonic() - self._seen > WORKER_TIMEOUT:
                    raise DataError(
                        f"{self.address} has had no worker for {WORKER_TIMEOUT:.0f} seconds; start some with "
                        f"`dask worker {self.address}`, and {self.repeat}"
                    ) from None
            else:
                return reply

    def _cancel(self, future: Future, name: str) -> None:
        """Take a job from the queue, or end its process: Dask waits for what has started."""
        future.cancel(force=True)
        with suppress(OSError, TimeoutError):  # workers may die meanwhile
            self._client.run(_remote("cancel_job"), self._client.id, name, on_error="ignore")

    def _send(self, file: Path, reply: Reply) -> None:
        """Send a file to the worker of a reply, once."""
        with self._sending:
            if (reply["process"], file.name) in self._sent:
                return
            put, given = _remote("put_file"), (self._client.id, file.name, file.read_bytes())

            def send(dask_worker: Worker) -> None:
                put(*given, dask_worker.local_directory)

            with suppress(OSError, ValueError, KeyError):  # it died meanwhile: another one takes the job
                self._client.run(send, workers=[reply["worker"]])
                self._sent.add((reply["process"], file.name))

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
        # Looked up once: this is a thread of Dask, and the job may end at any time.
        if (call := self._calls.get(message["job"])) is None:
            return
        if "started" in message:
            call.worker = message["started"]
        else:
            call.on_progress(message["done"], message["of"])

    def _on_cluster_event(self, event: tuple[float, object]) -> None:
        """Note the jobs that a worker leaves behind without being retired.

        Dask's own count includes jobs that only waited for that worker. Events come in the order of the scheduler: the
        start of a job before the death of its worker.
        """
        _, message = event
        if not isinstance(message, dict) or message.get("action") != "remove-worker":  # anybody may log there
            return
        for call in self._calls.copy().values():
            if call.worker == message["worker"]:
                call.worker = ""
                if not message.get("expected", True):  # a Dask that does not say it still has its own count
                    call.died.append(message["worker"])

    def _lost(self) -> DataError:
        return DataError(f"{self.address}: the connection to the Dask scheduler is lost; {self.repeat}")


def _workers_died(many: int, last: str) -> Reply:
    return {"error": f"{many} workers died while running it, the last one was {last}", "final": True}


def _remote(function: str) -> Callable[..., Any]:
    """A function of `benchmarks.cluster.remote`, pickled by value: the scheduler of Dask need not have our code.

    A worker that has no such function, or one that takes other arguments, refuses.
    """

    def call(*given: object) -> Any:
        try:
            found = getattr(importlib.import_module("benchmarks.cluster.remote"), function)
            inspect.signature(found).bind(*given)
        except (ImportError, AttributeError, TypeError) as error:
            return {"refusal": f"lacks this version of fedrule ({error})"}
        return found(*given)

    return call
