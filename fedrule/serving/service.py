"""The work behind the routes: bytes in, bytes out.

A small home takes a fraction of a millisecond, less than to hand it to a thread: it is answered at once. Large homes,
batches and slow models go to threads, so that the others are answered meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request
from pydantic_core import to_json

from datasets.common.files import Json
from fedrule.inference.asked_home import BadHome
from fedrule.inference.json_text import BadJson, parsed
from fedrule.serving.requests import Choice, Envelope, HomeBody, Recommend, Whose, asked_home, checked, length
from fedrule.serving.bodies import Bodies
from fedrule.serving.errand import Errand
from fedrule.serving.limits import Limits
from fedrule.serving.metrics import Measured
from fedrule.serving.errors import Refused
from fedrule.serving.reloads import Reloads
from fedrule.serving.shelf import Served, Shelf
from fedrule.serving.workers import Workers

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
