"""Several worker processes on one port: they are started, started again when they die, reloaded together, and ended.

The supervisor loads nothing and computes nothing, so that it can fork at any time. A child of its own, the loader,
reads the model files and writes what it has loaded to shared memory; workers map that. Each worker is a whole service
with the limits of one, on a socket of its own: the system spreads connections over them (SO_REUSEPORT). The supervisor
holds these sockets too, so that connections wait for a worker that is being started again.

Over a socket pair with each child go lines of JSON. From the loader: what it has loaded, or why not. From a worker:
`ready` to serve, `reload`, and `using` a generation of the models. To a worker: `models`, with the descriptor of the
shared memory, and `reloaded`, once all workers use what was loaded, or `ending`, if they never will.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import logging
import mmap
import os
import queue
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from prometheus_client.multiprocess import mark_process_dead

from datasets.common.errors import DataError
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import WorkerMetrics
from fedrule.serving.model_store import LoadedModel, ModelStore
from fedrule.serving.routes import application_of
from fedrule.serving.server import serve
from fedrule.serving.service import Service, shutting_down
from fedrule.serving.shared_models import read_models, shared_file, write_models

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
SHORT_LIFE = 5.0  # seconds: a worker that dies sooner is not started again at once
PAUSE = 1.0  # seconds before it is
OVERTIME = 5.0  # seconds that workers have beyond the grace before they are killed
# Modules that only some models need: with torch, 200 MB, and with numba.
LARGE = ("fedrule.models.restore", "fedrule.inference.evidence_search")
PID = struct.Struct("=q")

Message: TypeAlias = dict[str, Any]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What every worker is started with."""

    paths: Sequence[Path]
    limits: Limits
    token: str | None
    access_log: bool
    grace: int
    metrics: Path  # folder in which the workers count


class Channel:
    """One end of a socket pair: lines of JSON, and descriptors with them."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._received = b""
        self.files: list[int] = []  # descriptors that came with messages

    def send(self, message: Message, files: Sequence[int] = ()) -> None:
        """Send a message; one to a process that has ended is lost."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line = json.dumps(message).encode() + b"\n"
            socket.send_fds(self.socket, [line], list(files)) if files else self.socket.sendall(line)

    def receive(self) -> list[Message] | None:
        """The messages that have arrived; waits for some bytes. None: the other end is closed."""
        try:
            content, files, _, _ = socket.recv_fds(self.socket, 65_536, 16)
        except ConnectionResetError:
            return None
        self.files += files
        if not content:
            return None
        *lines, self._received = (self._received + content).split(b"\n")
        return [json.loads(line) for line in lines]


@dataclass(slots=True, eq=False)
class Child:
    """A process that the supervisor has started."""

    pid: int
    channel: Channel
    begin: float = field(default_factory=time.monotonic)
    generation: int = 0  # of the models that a worker uses
    ready: bool = False  # whether a worker handles requests and SIGHUP
    hung_up: bool = False  # whether it was sent SIGHUP and has not reloaded since


def _warm_models(file: int) -> dict[str, LoadedModel]:
    """The models of shared memory, each after its first answer, for which a process loads compiled loops."""
    models = read_models(file)
    for model in models.values():
        model.recommender.warm_up()
    return models


class SharedStore(ModelStore):
    """The models of a worker; a reload asks the supervisor, which reaches all workers."""

    def __init__(self, options: WorkerOptions, channel: Channel, file: int) -> None:
        super().__init__(options.paths, options.limits, _warm_models(file))
        os.close(file)
        self._channel = channel
        self._replies: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def reload(self) -> None:
        """Have the files read again, and return when all workers use them; if one is bad, raise as it was raised."""
        self._channel.send({"kind": "reload"})
        reply = self._replies.get()
        if reply["kind"] == "ending":
            self._replies.put(reply)  # for whoever asks after this
            raise shutting_down()
        if reply["error"] is not None:
            raise DataError(reply["error"]) if reply["expected"] else RuntimeError(reply["error"])

    def _listen(self) -> None:
        """Runs in a thread: swaps the models whenever the supervisor sends others."""
        while (messages := self._channel.receive()) is not None:
            for message in messages:
                if message["kind"] == "models":
                    self._models = _warm_models(file := self._channel.files.pop(0))
                    os.close(file)
                    self._channel.send({"kind": "using", "generation": message["generation"]})
                else:
                    self._replies.put(message)
        self._replies.put({"kind": "ending"})
        os.kill(os.getpid(), signal.SIGTERM)  # nobody is left who would start, reload and end this worker


class Supervisor:
    """Runs one worker for each listening socket."""

    def __init__(self, options: WorkerOptions, listeners: Sequence[socket.socket]) -> None:
        self._options, self._listeners = options, listeners
        self._begin = time.monotonic()
        self._workers: list[Child | None] = [None] * len(listeners)
        self._not_before = [0.0] * len(listeners)  # when a worker may be started again
        self._pids = mmap.mmap(-1, PID.size * (len(listeners) + 1))  # of this process and the workers, for metrics
        self._loader: Child | None = None
        self._report: Message | None = None  # of the loader
        self._loading: int | None = None  # descriptor of what the loader writes
        self._file, self._generation = -1, 0  # what workers use
        self._reloading: list[Child] = []  # workers that wait for the current reload
        self._queued: list[Child] = []  # and for the next: the files may be newer than what is being read
        self._ending = self._hung_up = False  # set by signals
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._woken = socket.socketpair()

    def load(self) -> list[str]:
        """Load the models before `run`: their names, none if a signal came first, or `DataError` for a bad one."""
        self._handle_signals()
        self._start_loader()
        while self._loader is not None and not self._ending:
            self._wait(None)
            self._reap()
        if (report := self._report) is None:
            return []
        self._report = None
        self._use_loaded(report)
        for module in report["modules"]:  # workers share what is imported before they are forked
            importlib.import_module(module)
        names: list[str] = report["names"]
        return names

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        gc.collect()
        gc.freeze()  # the collector would write to pages that workers share
        while not self._ending:
            now = time.monotonic()
            for slot, worker in enumerate(self._workers):
                if worker is None and now >= self._not_before[slot]:
                    self._start_worker(slot)
            paused = [at - now for at, worker in zip(self._not_before, self._workers, strict=True) if worker is None]
            self._wait(max(min(paused), 0.0) if paused else None)
            self._reap()
            ready = [worker for worker in self._living_workers() if worker.ready]
            if self._hung_up and ready:  # others ignore the signal
                self._hung_up, ready[0].hung_up = False, True
                os.kill(ready[0].pid, signal.SIGHUP)  # it asks for a reload, counts it and logs it
            self._go_on_reloading()
        self._end()

    def _living_workers(self) -> list[Child]:
        return [worker for worker in self._workers if worker is not None]

    def _end(self) -> None:
        """Let all workers finish their requests; kill those that take longer than the grace."""
        for listener in self._listeners:
            listener.close()  # new connections are refused once the workers have closed theirs
        if self._loader is not None:
            os.kill(self._loader.pid, signal.SIGKILL)
        deadline = time.monotonic() + self._options.grace + OVERTIME
        for worker in self._living_workers():
            os.kill(worker.pid, signal.SIGTERM)
        while self._living_workers() and time.monotonic() < deadline:
            self._reloading, self._queued = [*self._reloading, *self._queued], []
            self._reply({"kind": "ending"})
            self._wait(deadline - time.monotonic())
            self._reap()
        for worker in self._living_workers():
            log.warning("Worker %d has not ended in time and is killed", worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    def _handle_signals(self) -> None:
        def on_signal(number: int, _: FrameType | None) -> None:
            self._ending |= number in (signal.SIGTERM, signal.SIGINT)
            self._hung_up |= number == signal.SIGHUP

        for end in (self._wakeup, self._woken):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, on_signal)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def _wait(self, seconds: float | None) -> None:
        """For a message, a signal, or this long."""
        for key, _ in self._selector.select(seconds):
            child: Child | None = key.data
            if child is None:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                continue
            messages = child.channel.receive()
            if messages is None:  # it has ended, or soon will
                self._selector.unregister(child.channel.socket)
                continue
            for message in messages:
                self._on_message(child, message)

    def _on_message(self, child: Child, message: Message) -> None:
        if message["kind"] == "loaded":
            self._report = message
        elif message["kind"] == "reload":
            self._queued.append(child)
        elif message["kind"] == "using":
            child.generation = message["generation"]
        elif message["kind"] == "ready":
            child.ready = True

    def _reap(self) -> None:
        """Notice children that have ended."""
        if self._loader is not None and (status := _ended(self._loader)) is not None:
            self._drain(self._loader)
            if self._report is None:
                error = f"the models cannot be loaded: the process that loads them ended with {status}"
                self._report = {"error": error, "expected": True}
            self._loader = None
        for slot, worker in enumerate(self._workers):
            if worker is None or (status := _ended(worker)) is None:
                continue
            self._drain(worker)
            self._workers[slot] = None
            self._hung_up |= worker.hung_up  # another has to reload
            _forget_gauges(worker.pid, str(self._options.metrics))
            self._write_pids()
            short = time.monotonic() - worker.begin < SHORT_LIFE
            self._not_before[slot] = time.monotonic() + PAUSE * short
            if not self._ending:
                log.warning("Worker %d ended with %s; starting another", worker.pid, status)

    def _drain(self, child: Child) -> None:
        """Read what an ended child has sent last, and forget its channel."""
        while (messages := child.channel.receive()) is not None:
            for message in messages:
                self._on_message(child, message)
        with contextlib.suppress(KeyError):  # its end was noticed before
            self._selector.unregister(child.channel.socket)
        child.channel.socket.close()
        for waiting in (self._queued, self._reloading):
            if child in waiting:
                waiting.remove(child)

    def _go_on_reloading(self) -> None:
        """The next step of a reload, if it is time for it."""
        if self._loader is not None:
            return
        living = self._living_workers()
        if self._report is not None:
            report, self._report = self._report, None
            with contextlib.suppress(DataError):  # the workers get it below, and log it
                self._use_loaded(report)
                for worker in living:
                    worker.channel.send({"kind": "models", "generation": self._generation}, [self._file])
            if report["error"] is not None:
                self._reply({**report, "kind": "reloaded"})
        if self._reloading and all(worker.generation == self._generation for worker in living):
            self._reply({"kind": "reloaded", "error": None})
        if self._queued and not self._reloading:
            self._reloading, self._queued = self._queued, []
            self._start_loader()

    def _reply(self, message: Message) -> None:
        for worker in self._reloading:
            worker.channel.send(message)
            worker.hung_up = False
        self._reloading = []

    def _use_loaded(self, report: Message) -> None:
        """From now on for workers that are started; `DataError` if there is nothing new."""
        file, self._loading = self._loading, None
        assert file is not None
        if report["error"] is not None:
            os.close(file)
            raise DataError(report["error"])
        if self._file >= 0:
            os.close(self._file)
        self._file, self._generation = file, self._generation + 1

    def _start_loader(self) -> None:
        self._loading = file = shared_file()

        def load(channel: Channel) -> None:
            report: Message = {"kind": "loaded", "error": None, "expected": True}
            try:
                store = ModelStore(self._options.paths, self._options.limits)
                write_models({model.name: model for model in store.models}, file)
                report["names"] = [model.name for model in store.models]
                report["modules"] = [name for name in LARGE if name in sys.modules]
            except DataError as error:
                report["error"] = str(error)
            except Exception as error:  # a bug, and still no reason to stop serving
                log.exception("The models cannot be loaded")
                report |= {"error": f"{type(error).__name__}: {error}", "expected": False}
            channel.send(report)

        self._loader = self._fork(load)

    def _start_worker(self, slot: int) -> None:
        options, file, listener = self._options, self._file, self._listeners[slot]

        def work(channel: Channel) -> None:
            for other in self._listeners:
                if other is not listener:
                    other.close()
            if self._loading is not None:  # a reload is under way
                os.close(self._loading)
            metrics = WorkerMetrics(self._begin, options.metrics, self._living)
            service = Service(SharedStore(options, channel, file), options.limits, metrics)
            app = application_of(service, token=options.token)
            ready = functools.partial(channel.send, {"kind": "ready"})
            serve(app, listener, access_log=options.access_log, grace=options.grace, on_ready=ready)

        self._workers[slot] = worker = self._fork(work)
        worker.generation = self._generation
        self._write_pids()

    def _write_pids(self) -> None:
        pids = [os.getpid(), *(0 if worker is None else worker.pid for worker in self._workers)]
        self._pids[:] = b"".join(map(PID.pack, pids))

    def _living(self) -> list[int]:
        return [pid for (pid,) in PID.iter_unpack(self._pids[:]) if pid]

    def _fork(self, work: Callable[[Channel], None]) -> Child:
        """A child that does this work and ends."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid:
            theirs.close()
            child = Child(pid, Channel(ours))
            self._selector.register(ours, selectors.EVENT_READ, child)
            return child
        code = 1
        try:
            ours.close()
            self._forget()
            work(Channel(theirs))
            code = 0
        except BaseException:
            log.exception("Process %d failed", os.getpid())
        finally:
            logging.shutdown()
            os._exit(code)  # what the supervisor does at its exit is not for its children

    def _forget(self) -> None:
        """In a new child: signals, and the channels of others, which would seem open as long as this child runs."""
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the service handles it
        for child in (*self._workers, self._loader):
            if child is not None:
                child.channel.socket.close()
        self._selector.close()
        self._wakeup.close()
        self._woken.close()


def _forget_gauges(pid: int, folder: str) -> None:
    """Of a worker that has ended; its counters stay."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def _ended(child: Child) -> str | None:
    """How a child has ended; None if it has not."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    if not pid:
        return None
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
