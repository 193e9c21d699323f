"""The work behind the routes: bytes in, bytes out.

A small home takes a fraction of a millisecond, less than to hand it to a thread: it is answered at once. Large homes,
batches and slow models go to threads, so that the others are answered meanwhile.
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
from fedrule.inference.request import BadHome, BadJson, parsed
from fedrule.serving.errors import ClientGone, Refused
from fedrule.serving.limits import Bodies, Limits
from fedrule.serving.metrics import Measured
from fedrule.serving.model_store import Served, Shelf
from fedrule.serving.requests import Choice, Envelope, HomeBody, Recommend, Whose, asked_home, checked, length

# --- The work of one request in a thread: until when it may go on, and whether it still should.


class Errand:
    """Long work asks between its homes whether it is `over`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds  # to begin; and from then on, to be done
        self.stopped = False  # the service ends
        self.unwanted = False  # the client has gone

    def run(self, work: Callable[[Errand], bytes]) -> bytes:
        """Do it, unless it has waited for so long that others would wait in vain too."""
        if self.unwanted:
            raise ClientGone
        if self.stopped:
            raise ending()
        if time.monotonic() > self._until:
            told = f"others were answered for {self._seconds:g} seconds; try again"
            raise Refused(503, "too_busy", told, headers={"Retry-After": "1"})
        self._until = time.monotonic() + self._seconds
        return work(self)

    def over(self) -> Refused | None:
        """Why the rest is left undone, if it is."""
        if self.unwanted or self.stopped:
            return ending()
        if time.monotonic() > self._until:
            told = f"the homes before it took the {self._seconds:g} seconds of a request; send it again, with fewer"
            return Refused(503, "deadline", told)
        return None


def ending() -> Refused:
    """For what the service has no time left for."""
    return Refused(503, "ending", "the service is ending; try again", headers={"Retry-After": "1"})


# --- Models read again, one time after the other; who asks while a turn is still to come shares it.

log = logging.getLogger(__name__)


class Reloads:
    """Of one shelf: however many ask, one is under way and one to come."""

    def __init__(self, shelf: Shelf, measured: Measured) -> None:
        self._shelf, self._measured = shelf, measured
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reload")
        self._one = asyncio.Lock()
        self._to_come: asyncio.Task[bytes] | None = None

    @property
    def busy(self) -> bool:
        return self._one.locked()

    async def reload(self) -> bytes:
        """The answer to POST /v1/model/reload; files that have changed before it is asked for are read."""
        if self._to_come is None:
            self._to_come = asyncio.get_running_loop().create_task(self._next())
        return await asyncio.shield(self._to_come)

    def close(self) -> None:
        """Take no more work, and wait for none."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _next(self) -> bytes:
        async with self._one:
            self._to_come = None  # who asks from now on may mean newer files
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._shelf.reload)
            except Exception as error:
                self._measured.reloaded(well=False)
                raise self._refused(error) from None
        self._measured.reloaded(well=True)
        models = [model.told for model in self._shelf.models]
        log.info("Models read again: %s", ", ".join(f"{model['name']} {model['digest'][:12]}" for model in models))
        return to_json({"models": models})

    def _refused(self, error: Exception) -> Refused:
        if not isinstance(error, DataError):  # an error of ours, and still no reason to stop answering
            log.error("The models stay as they are", exc_info=error)
            return Refused(422, "bad_model", "the models cannot be used; the log has more")
        log.warning("The models stay as they are: %s", error)
        told = str(error)
        for path in self._shelf.paths.values():  # where it lies on this machine is nobody's business
            told = told.replace(str(path), path.name)
        return Refused(422, "bad_model", told)


# --- The threads that recommend: at most so much at a time, for clients that still wait, and not beyond the end.
#
# Batches have a thread of their own, so that single homes never wait for one.

THREADS = 2


class Workers:
    """Of one process."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._homes = ThreadPoolExecutor(THREADS, thread_name_prefix="home")
        self._batches = ThreadPoolExecutor(1, thread_name_prefix="batch")
        self._working: set[Errand] = set()  # and those that wait for it
        self._stopped = False
        self._given_up = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether a thread is at work, or will be."""
        return bool(self._working)

    def refuse_too_many(self) -> None:
        """An error while as many requests as agreed are worked on."""
        if len(self._working) >= self._limits.in_flight:
            told = f"{len(self._working)} requests are being answered; try again"
            raise Refused(503, "too_busy", told, headers={"Retry-After": "1"})

    async def run(self, work: Callable[[Errand], bytes], request: Request, *, batch: bool = False) -> bytes:
        """What `work` gives, in a thread; it is not begun if the client goes before that."""
        self.refuse_too_many()
        errand = Errand(self._limits.work_seconds)
        errand.stopped = self._stopped
        self._working.add(errand)
        job = (self._batches if batch else self._homes).submit(errand.run, work)
        job.add_done_callback(lambda _: self._working.discard(errand))
        answer = asyncio.wrap_future(job)
        gone = asyncio.ensure_future(_gone(request))
        given_up = asyncio.ensure_future(self._given_up.wait())
        try:
            await _first(answer, gone, given_up)
            if answer.done():
                return answer.result()
            errand.unwanted = True
            if given_up.done():
                raise ending()
            if not job.cancel():  # it has begun: it holds a thread, and memory, until it looks up
                await _first(answer, given_up)
            raise ClientGone
        finally:
            gone.cancel()
            given_up.cancel()
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # nobody is left to be told

    def stop(self) -> None:
        """Batches end after the home that they are at."""
        self._stopped = True
        for errand in list(self._working):
            errand.stopped = True

    def give_up(self) -> None:
        """Clients are told that they are not answered, whatever the threads do."""
        self._given_up.set()

    def close(self) -> None:
        """Take no more work, and wait for none."""
        self.stop()
        for pool in (self._homes, self._batches):
            pool.shutdown(wait=False, cancel_futures=True)


async def _first(*futures: asyncio.Future[bytes] | asyncio.Future[None] | asyncio.Future[Literal[True]]) -> None:
    """Until one of them is done, well or not."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _gone(request: Request) -> None:
    """Until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


SMALL = 2_048  # bytes: 60 devices, or 15 with as many rules; two milliseconds


class Service:
    """Models, limits and counters of one process."""

    def __init__(self, shelf: Shelf, limits: Limits, measured: Measured) -> None:
        self.shelf, self.limits, self.measured = shelf, limits, measured
        self.bodies, self.workers, self.reloads = Bodies(limits), Workers(limits), Reloads(shelf, measured)

    @property
    def busy(self) -> bool:
        """Whether a thread is at work."""
        return self.workers.busy or self.reloads.busy

    async def recommend(self, body: bytes, request: Request) -> bytes:
        """POST /v1/recommend."""
        if len(body) > SMALL:
            return await self.workers.run(lambda _: self._one(*self._asked(body)), request)
        self.workers.refuse_too_many()
        asked, model = self._asked(body)
        if model.quick:
            return self._one(asked, model)
        return await self.workers.run(lambda _: self._one(asked, model), request)

    async def batch(self, body: bytes, request: Request) -> bytes:
        """POST /v1/recommend/batch."""
        return await self.workers.run(lambda errand: self.many(body, errand), request, batch=True)

    def close(self) -> None:
        """Let go of the threads."""
        self.workers.close()
        self.reloads.close()

    def _asked(self, body: bytes) -> tuple[Recommend, Served]:
        asked = checked(Recommend, _content(body))
        return asked, self.shelf.model(asked.model)

    def _one(self, asked: Recommend, model: Served) -> bytes:
        k = length(asked, self.limits)
        self._refuse_much_work(model, [asked], where="devices")
        try:
            answer = self._answer(model, asked, k, asked)
        except BadHome as bad:
            raise Refused.home(bad) from None
        return to_json({"model": model.told, **answer})

    def many(self, body: bytes, errand: Errand) -> bytes:
        """The answer to a batch; homes that the errand has no time for have an error instead of a list."""
        asked = checked(Envelope, _content(body))
        k = length(asked, self.limits)
        model = self.shelf.model(asked.model)
        if len(asked.homes) > self.limits.homes:
            told = f"{len(asked.homes):,} homes, and {self.limits.homes:,} are answered at most"
            raise Refused(422, "too_many_homes", told, where="homes")
        devices = sum(_count(home) for home in asked.homes)
        if devices > self.limits.batch_devices:
            told = f"{devices:,} devices in all homes, and {self.limits.batch_devices:,} are answered at most"
            raise Refused(422, "too_many_devices", told, where="homes")
        homes = [_home(content) for content in asked.homes]
        self._refuse_much_work(model, [home for home in homes if isinstance(home, HomeBody)], where="homes")
        results: list[dict[str, Json]] = []
        for content, home in zip(asked.homes, homes, strict=True):
            result = errand.over() or home
            if isinstance(result, Refused):
                results.append({"user": _user(content), "error": dict(result.told())})
            else:
                results.append(self._result(model, result, k, asked))
        return to_json({"model": model.told, "results": results})

    def _result(self, model: Served, home: HomeBody, k: int, choice: Choice) -> dict[str, Json]:
        """Of one home of a batch."""
        try:
            return {"user": home.user, **self._answer(model, home, k, choice)}
        except BadHome as bad:
            return {"user": home.user, "error": dict(Refused.home(bad).told())}

    def _answer(self, model: Served, home: HomeBody, k: int, choice: Choice) -> dict[str, Json]:
        asked = asked_home(home, self.limits)
        answer = model.recommender.recommend(asked, k=k, unknown=choice.unknown, alike=choice.alike)
        self.measured.homes.inc()
        self.measured.recommendations.inc(len(answer.rules))
        return answer.as_json()

    def _refuse_much_work(self, model: Served, homes: Sequence[HomeBody], *, where: str) -> None:
        """Before any of it is done; homes with too many devices are refused by themselves."""
        seconds, effort = self.limits.work_seconds, model.effort
        sizes = [len(home.devices) for home in homes if len(home.devices) <= self.limits.devices]
        if effort.surely(sum(sizes), seconds):
            return
        candidates = sum(
            effort.candidates(device.type for device in home.devices)
            for home in homes
            if len(home.devices) <= self.limits.devices
        )
        if candidates > effort.most(seconds):
            told = (
                f"{candidates:,} rules are possible between these devices, and {effort.most(seconds):,} are searched "
                f"at most, which takes this model about {seconds} seconds; send fewer devices or homes at once"
            )
            raise Refused(422, "too_much_work", told, where=where)


def _content(body: bytes) -> Json:
    try:
        return parsed(body)
    except BadJson as bad:
        raise Refused(400, bad.code, bad.message, where=bad.where) from None


def _home(content: object) -> HomeBody | Refused:
    try:
        return checked(HomeBody, content)
    except Refused as refused:
        return refused


def _user(home: object) -> int | str | None:
    """Whose home it is, also if the rest of it is wrong."""
    try:
        return checked(Whose, {"user": home.get("user")}).user if isinstance(home, dict) else None
    except Refused:
        return None


def _count(home: object) -> int:
    devices = home.get("devices") if isinstance(home, dict) else None
    return len(devices) if isinstance(devices, list) else 0
