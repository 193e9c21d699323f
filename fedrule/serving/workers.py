"""The threads that recommend: at most so much at a time, for clients that still wait, and not beyond the end.

Batches have a thread of their own, so that single homes never wait for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from fastapi import Request

from fedrule.serving.errand import Errand, ending
from fedrule.serving.limits import Limits
from fedrule.serving.errors import ClientGone, Refused

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
