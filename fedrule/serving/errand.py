"""The work of one request in a thread: until when it may go on, and whether it still should."""

from __future__ import annotations

import time
from collections.abc import Callable

from fedrule.serving.errors import ClientGone, Refused


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
