"""The work behind the routes: bytes in, bytes out, at most so many at a time, and models read again without a pause.

A small home takes a fraction of a millisecond, less than to hand it to a thread: it is answered at once. Large requests
and slow models go to threads, so that the others are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic_core import to_json

from datasets.errors import DataError
from fedrule.inference.asked_home import BadHome
from fedrule.inference.numbered_home import Unknown
from fedrule.inference.recommendation import Recommendations
from fedrule.serving.answers import listed
from fedrule.serving.asked import Envelope, Home, Recommend, Whose, asked_home, checked, length
from fedrule.serving.bodies import Bodies
from fedrule.serving.json_text import parsed
from fedrule.serving.limits import Limits
from fedrule.serving.measured import Measured
from fedrule.serving.refusals import Refused
from fedrule.serving.shelf import Served, Shelf

SMALL = 2_048  # bytes: 60 devices, or 15 with as many rules; two milliseconds
THREADS = 2

log = logging.getLogger(__name__)


class Service:
    """Models, limits and counters of one process."""

    def __init__(self, shelf: Shelf, limits: Limits, measured: Measured) -> None:
        self.shelf, self.limits, self.measured = shelf, limits, measured
        self.bodies = Bodies(limits)
        self._working = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="recommend")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="reload")
        self._one_reload = asyncio.Lock()

    async def recommend(self, body: bytes) -> bytes:
        """POST /v1/recommend."""
        small = len(body) <= SMALL and all(model.quick for model in self.shelf.models)
        return await self._worked(self._recommend, body, at_once=small)

    async def batch(self, body: bytes) -> bytes:
        """POST /v1/recommend/batch."""
        return await self._worked(self._batch, body, at_once=False)

    async def reload(self) -> bytes:
        """POST /v1/model/reload, and SIGHUP; one at a time."""
        async with self._one_reload:
            try:
                await asyncio.get_running_loop().run_in_executor(self._reading, self.shelf.reload)
            except Exception as error:
                self.measured.reloaded(well=False)
                if not isinstance(error, DataError):  # an error of ours, and still no reason to stop answering
                    log.exception("The models stay as they are")
                    raise Refused(422, "bad_model", "the models cannot be used; the log has more") from None
                log.warning("The models stay as they are: %s", error)
                told = str(error)
                for path in self.shelf.paths.values():  # where it lies on this machine is nobody's business
                    told = told.replace(str(path), path.name)
                raise Refused(422, "bad_model", told) from None
        self.measured.reloaded(well=True)
        models = [model.told for model in self.shelf.models]
        log.info("Models read again: %s", ", ".join(f"{model['name']} {model['digest'][:12]}" for model in models))
        return to_json({"models": models})

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)
        self._reading.shutdown(cancel_futures=True)

    async def _worked(self, work: Callable[[bytes], bytes], body: bytes, *, at_once: bool) -> bytes:
        if self._working >= self.limits.in_flight:
            told = f"{self._working} requests are being answered; try again"
            raise Refused(503, "too_busy", told, headers={"Retry-After": "1"})
        self._working += 1
        try:
            if at_once:
                return work(body)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, body)
        finally:
            self._working -= 1

    def _recommend(self, body: bytes) -> bytes:
        asked = checked(Recommend, parsed(body))
        k = length(asked, self.limits)
        model = self.shelf.model(asked.model)
        try:
            answer = self._answer(model, asked, k, asked.unknown)
        except BadHome as bad:
            raise Refused.home(bad) from None
        return to_json({"model": model.told, **listed(answer)})

    def _batch(self, body: bytes) -> bytes:
        asked = checked(Envelope, parsed(body))
        k = length(asked, self.limits)
        model = self.shelf.model(asked.model)
        if len(asked.homes) > self.limits.homes:
            told = f"{len(asked.homes):,} homes, and {self.limits.homes:,} are answered at most"
            raise Refused(422, "too_many_homes", told, where="homes")
        devices = sum(_count(home) for home in asked.homes)
        if devices > self.limits.batch_devices:
            told = f"{devices:,} devices in all homes, and {self.limits.batch_devices:,} are answered at most"
            raise Refused(422, "too_many_devices", told, where="homes")
        return to_json(
            {"model": model.told, "results": [self._result(model, home, k, asked.unknown) for home in asked.homes]}
        )

    def _result(self, model: Served, content: object, k: int, unknown: Unknown) -> dict[str, Any]:
        """Of one home of a batch."""
        try:
            home = checked(Home, content)
        except Refused as refused:
            return {"user": _user(content), "error": refused.told()}
        try:
            return {"user": home.user, **listed(self._answer(model, home, k, unknown))}
        except BadHome as bad:
            return {"user": home.user, "error": Refused.home(bad).told()}

    def _answer(self, model: Served, home: Home, k: int, unknown: Unknown) -> Recommendations:
        answer = model.recommender.recommend(asked_home(home, self.limits), k=k, unknown=unknown)
        self.measured.homes.inc()
        self.measured.recommendations.inc(len(answer.rules))
        return answer


def _user(home: object) -> int | str | None:
    """Whose home it is, also if the rest of it is wrong."""
    try:
        return checked(Whose, {"user": home.get("user")}).user if isinstance(home, dict) else None
    except Refused:
        return None


def _count(home: object) -> int:
    devices = home.get("devices") if isinstance(home, dict) else None
    return len(devices) if isinstance(devices, list) else 0
