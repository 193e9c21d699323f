"""Models read again, one time after the other; who asks while a turn is still to come shares it."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from pydantic_core import to_json

from datasets.common.errors import DataError
from fedrule.serving.metrics import Measured
from fedrule.serving.errors import Refused
from fedrule.serving.shelf import Shelf

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
