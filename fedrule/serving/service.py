"""The work behind the routes: request bodies in, response bodies out.

A small home takes a fraction of a millisecond, less than handing it to a thread, and is answered at once. Large homes,
batches and slow models run in threads, so that other requests do not wait for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from fastapi import Request
from pydantic_core import to_json

from datasets.common.errors import DataError
from datasets.common.files import Json
from fedrule.inference.request import BadHome, HomeRequest, parse_json
from fedrule.serving.errors import RETRY, ApiError, ClientGone
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import Metrics
from fedrule.serving.model_store import LoadedModel, ModelStore
from fedrule.serving.requests import BatchEnvelope, BodyReader, ListOptions, home_limits, parse_home, parse_options

THREADS = 2
SMALL = 2_048  # bytes: 60 devices, or 15 with as many rules; two milliseconds
QUICK = 0.002  # seconds for a small home: not worth a thread

log = logging.getLogger(__name__)


class Job:
    """One request in a thread, with a deadline to start and, from then on, a deadline to finish."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._deadline = clock() + seconds
        self.shutting_down = False
        self.client_gone = False

    def run(self, work: Callable[[Job], bytes]) -> bytes:
        """Do the work, unless it has waited too long: those behind it would then wait in vain too."""
        if self.client_gone:
            raise ClientGone
        if self.shutting_down:
            raise shutting_down()
        if self._clock() > self._deadline:
            message = f"not started within {self._seconds:g} seconds; try again"
            raise ApiError(503, "too_busy", message, headers=RETRY)
        self._deadline = self._clock() + self._seconds
        return work(self)

    def interrupted(self) -> ApiError | None:
        """Why the rest should not be done, if so; batches check it before each home."""
        if self.client_gone or self.shutting_down:
            return shutting_down()
        if self._clock() > self._deadline:
            message = f"the homes before it took the {self._seconds:g} seconds of a request; send fewer per request"
            return ApiError(503, "deadline", message)
        return None


def shutting_down() -> ApiError:
    return ApiError(503, "shutting_down", "the service is shutting down; try again", headers=RETRY)


class Reloader:
    """Reloads the models, one reload at a time; requests that arrive while one is queued share it."""

    def __init__(self, store: ModelStore, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reload")
        self._lock = asyncio.Lock()
        self._queued: asyncio.Task[bytes] | None = None

    @property
    def busy(self) -> bool:
        return self._lock.locked()

    async def reload(self) -> bytes:
        """POST /v1/model/reload: read what the files contain now, or later."""
        if self._queued is None:
            self._queued = asyncio.get_running_loop().create_task(self._next())
        return await asyncio.shield(self._queued)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _next(self) -> bytes:
        async with self._lock:
            self._queued = None  # later requests may mean newer files
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.reload)
            except Exception as error:
                self._metrics.reloads.labels("failed").inc()
                raise self._error(error) from None
        self._metrics.reloads.labels("ok").inc()
        models = [model.summary for model in self._store.models]
        log.info("Models reloaded: %s", ", ".join(f"{model['name']} {model['digest'][:12]}" for model in models))
        return to_json({"models": models})

    def _error(self, error: Exception) -> ApiError:
        if isinstance(error, ApiError):  # the models have not been read: the service is shutting down
            return error
        if not isinstance(error, DataError):  # a bug, and still no reason to stop serving
            log.error("Reload failed; the current models stay in use", exc_info=error)
            return ApiError(422, "bad_model", "the models cannot be loaded; see the log of the service")
        log.warning("Reload failed; the current models stay in use: %s", error)
        message = str(error)
        for path in self._store.paths.values():  # clients must not see where files are on this machine
            message = message.replace(str(path), path.name)
        return ApiError(422, "bad_model", message)


class Workers:
    """The threads that recommend; batches have a thread of their own, so that single homes never wait for one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._homes = ThreadPoolExecutor(THREADS, thread_name_prefix="home")
        self._batches = ThreadPoolExecutor(1, thread_name_prefix="batch")
        self._jobs: set[Job] = set()  # running and queued
        self._stopped = False
        self._abandoned = asyncio.Event()

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def check_capacity(self) -> None:
        """Raise an error while the limit of running and queued requests is reached."""
        if len(self._jobs) >= self._limits.in_flight:
            raise ApiError(503, "too_busy", f"{len(self._jobs)} requests in flight; try again", headers=RETRY)

    async def run(self, work: Callable[[Job], bytes], request: Request, *, batch: bool = False) -> bytes:
        """The result of `work`, done in a thread; it is not started if the client disconnects before."""
        self.check_capacity()
        job = Job(self._limits.work_seconds)
        job.shutting_down = self._stopped
        self._jobs.add(job)
        running = (self._batches if batch else self._homes).submit(job.run, work)
        running.add_done_callback(lambda _: self._jobs.discard(job))
        result = asyncio.wrap_future(running)
        gone = asyncio.ensure_future(_disconnected(request))
        abandoned = asyncio.ensure_future(self._abandoned.wait())
        try:
            await _first(result, gone, abandoned)
            if result.done():
                return result.result()
            job.client_gone = True
            if abandoned.done():
                raise shutting_down()
            if not running.cancel():  # already running: it holds a thread, and memory, until it checks the flag
                await _first(result, abandoned)
            raise ClientGone
        finally:
            gone.cancel()
            abandoned.cancel()
            if not result.cancel() and not result.cancelled():
                result.exception()  # mark it as retrieved

    def stop(self) -> None:
        """Make batches end after their current home."""
        self._stopped = True
        for job in list(self._jobs):
            job.shutting_down = True

    def abandon(self) -> None:
        """Send an error to all clients that still wait, whatever the threads do."""
        self._abandoned.set()

    def close(self) -> None:
        """Take no more work, without waiting for the current one."""
        self.stop()
        for pool in (self._homes, self._batches):
            pool.shutdown(wait=False, cancel_futures=True)


async def _first(*futures: asyncio.Future[bytes] | asyncio.Future[None] | asyncio.Future[Literal[True]]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Service:
    """Models, limits, metrics and threads of one process."""

    def __init__(self, store: ModelStore, limits: Limits, metrics: Metrics) -> None:
        self.store, self.limits, self.metrics = store, limits, metrics
        self.bodies, self.workers, self.reloader = BodyReader(limits), Workers(limits), Reloader(store, metrics)

    @property
    def busy(self) -> bool:
        """Whether a thread is working."""
        return self.workers.busy or self.reloader.busy

    async def recommend(self, body: bytes, request: Request) -> bytes:
        """POST /v1/recommend."""
        if len(body) > SMALL:
            return await self.workers.run(lambda _: self._one(*self._parse(body)), request)
        self.workers.check_capacity()
        home, options, model = self._parse(body)
        if model.cost.per_home < QUICK:
            return self._one(home, options, model)
        return await self.workers.run(lambda _: self._one(home, options, model), request)

    async def batch(self, body: bytes, request: Request) -> bytes:
        """POST /v1/recommend/batch."""
        return await self.workers.run(lambda job: self.many(body, job), request, batch=True)

    def close(self) -> None:
        """Release the threads."""
        self.workers.close()
        self.reloader.close()

    def _parse(self, body: bytes) -> tuple[HomeRequest, ListOptions, LoadedModel]:
        home, options = parse_home(parse_json(body), self.limits)
        return home, options, self.store.model(options.model)

    def _one(self, home: HomeRequest, options: ListOptions, model: LoadedModel) -> bytes:
        k = options.length(self.limits)
        self._check_cost(model, [home], where="devices")
        return to_json({"model": model.summary, **self._recommend(model, home, k, options)})

    def many(self, body: bytes, job: Job) -> bytes:
        """The response to a batch; homes that the job has no time for get an error."""
        batch = parse_options(BatchEnvelope, parse_json(body))
        k = batch.length(self.limits)
        model = self.store.model(batch.model)
        devices = sum(_count_devices(home) for home in batch.homes)
        limits = {"homes": self.limits.homes, "devices": self.limits.batch_devices}
        for (name, most), count in zip(limits.items(), (len(batch.homes), devices), strict=True):
            if count > most:
                message = f"at most {most:,} {name} per batch, got {count:,}"
                raise ApiError(422, f"too_many_{name}", message, where="homes")
        homes = [self._home(content) for content in batch.homes]
        self._check_cost(model, [home for home in homes if isinstance(home, HomeRequest)], where="homes")
        results: list[dict[str, Json]] = []
        for content, home in zip(batch.homes, homes, strict=True):
            result = job.interrupted() or home
            try:
                if isinstance(result, ApiError):
                    raise result
                results.append({"user": result.user, **self._recommend(model, result, k, batch)})
            except (ApiError, BadHome) as error:
                error = error if isinstance(error, ApiError) else ApiError.from_home(error)
                results.append({"user": _user(content), "error": dict(error.as_json())})
        return to_json({"model": model.summary, "results": results})

    def _home(self, content: object) -> HomeRequest | ApiError:
        try:
            return HomeRequest.from_json(content, limits=home_limits(self.limits))
        except BadHome as bad:
            return ApiError.from_home(bad)

    def _recommend(self, model: LoadedModel, home: HomeRequest, k: int, options: ListOptions) -> dict[str, Json]:
        answer = model.recommender.recommend(home, k=k, unknown=options.unknown, max_similar=options.max_similar)
        self.metrics.homes.inc()
        self.metrics.recommendations.inc(len(answer.rules))
        return answer.as_json()

    def _check_cost(self, model: LoadedModel, homes: Sequence[HomeRequest], *, where: str) -> None:
        """Refuse more work than fits into the time limit."""
        cost, seconds = model.cost, self.limits.work_seconds
        affordable = cost.affordable(seconds)
        if sum(len(home.devices) for home in homes) ** 2 * cost.valid.n_relations <= affordable:
            return  # whatever their types: no need to count
        candidates = sum(cost.candidates(device.type for device in home.devices) for home in homes)
        if candidates > affordable:
            message = (
                f"{candidates:,} candidate rules between these devices; this model can search {affordable:,} "
                f"in {seconds} seconds; send fewer devices or homes per request"
            )
            raise ApiError(422, "too_much_work", message, where=where)


def _user(home: object) -> int | str | None:
    """The user of a home, even if the rest of it is invalid."""
    try:
        return HomeRequest.from_json({"devices": [], "user": home.get("user")}).user if isinstance(home, dict) else None
    except BadHome:
        return None


def _count_devices(home: object) -> int:
    devices = home.get("devices") if isinstance(home, dict) else None
    return len(devices) if isinstance(devices, list) else 0
