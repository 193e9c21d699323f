"""`recommend --cluster`: the lists of many homes, made by other machines in batches.

The homes of a batch travel with it, since other machines have no database; the model is sent to each machine once.
Batches are those of `Recommender.batches`, so that their lists are those of this machine, bit for bit.

Lists come in the order of homes. Held here are the part of the data that is being read; the homes or lists of
IN_FLIGHT batches for each that the cluster makes at a time; and all earlier lists of their part, as compressed bytes,
since a part is written at once. A database has parts of some 20,000 homes, other data is one part.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Semaphore
from typing import NamedTuple

from baselines.registry import get
from benchmarks.cluster.cluster import BATCH_SYSTEMS, Cluster, Job, open_cluster
from benchmarks.cluster.session_folder import shared_folder
from datasets.common.errors import DataError, error_line
from datasets.common.files import Json
from datasets.common.progress import Progress
from datasets.homes import Homes, Provenance
from fedrule.commands.list_handler import HANDLER, HOMES, LISTS, code_of
from fedrule.inference.arrow_lists import ArrowLists
from fedrule.inference.output import Lists
from fedrule.inference.recommender import Recommender, needs_method
from fedrule.models.file import SavedModel

SEARCHES = 8  # in a batch: a second of work
SEARCHES_OF_JOB = 64  # for a batch system, where a job takes seconds to start
IN_FLIGHT = 2  # one is made, the next one waits for it to end
MOST_THREADS = 4096  # each waits for a batch; they are started when they are needed


class Batch(NamedTuple):
    """Homes whose lists one job makes."""

    name: str  # in messages
    homes: Homes
    ends_part: bool


@contextmanager
def lists_of_cluster(
    parts: Iterable[Homes], saved: SavedModel, recommender: Recommender, chosen: argparse.Namespace, bar: Progress
) -> Iterator[Iterator[Lists]]:
    """The lists of each part, made by this model on the cluster that the options of the command name."""
    recommender.check(chosen.k, chosen.max_similar)
    how = {"options": chosen.cluster_option, "jobs": chosen.jobs, "folder": chosen.out.parent}
    not_connected = open_cluster(chosen.cluster, **how)
    with shared_folder(chosen.out.parent) as folder:
        model = folder.path / f"{recommender.digest}.safetensors"
        saved.save(model)
        modules = [get(recommender.method).__module__] if needs_method(saved) else []
        with not_connected as cluster:
            made = ClusterLists(recommender, model, modules, chosen, cluster, bar)
            with closing(made.of(parts)) as lists:
                yield lists


class ClusterLists:
    """Makes lists on a cluster, several batches at a time."""

    def __init__(
        self,
        recommender: Recommender,
        model: Path,  # named by its content
        modules: list[str],  # that it needs
        chosen: argparse.Namespace,
        cluster: Cluster,
        bar: Progress,
    ) -> None:
        self._recommender, self._model, self._cluster, self._bar = recommender, model, cluster, bar
        self._options = {name: getattr(chosen, name) for name in ("k", "unknown", "max_similar")}
        about: dict[str, Json] = {"method": recommender.method, "modules": [*modules], "code": code_of(modules)}
        self._content: dict[str, Json] = {**self._options, **about}
        self._searches = SEARCHES_OF_JOB if chosen.cluster in BATCH_SYSTEMS else SEARCHES
        self._lock = Lock()  # of the bar and the failure
        self._failure: BaseException | None = None  # the first one
        self._slots, self._capacity = Semaphore(0), 0  # for batches that are being made, and how many there are

    def of(self, parts: Iterable[Homes]) -> Generator[Lists, None, None]:
        """The lists of each part."""
        waiting: deque[tuple[Future[ArrowLists], bool]] = deque()  # and whether a part ends with it
        made: list[ArrowLists] = []  # of the current part

        def first() -> Iterator[Lists]:
            future, ends_part = waiting.popleft()
            made.append(future.result())
            if ends_part:
                yield ArrowLists.concatenate(made)
                made.clear()

        with ThreadPoolExecutor(MOST_THREADS) as pool:
            try:
                for batch in self._batches(parts):
                    while len(waiting) >= IN_FLIGHT * self._grown_capacity():
                        yield from first()
                    waiting.append((pool.submit(self._make, batch.name, batch.homes), batch.ends_part))
                while waiting:
                    yield from first()
            except BaseException as error:
                self._cluster.stop()
                if isinstance(error, CancelledError) and self._failure is not None:
                    raise self._failure from None
                raise

    def _batches(self, parts: Iterable[Homes]) -> Iterator[Batch]:
        """All batches; at least one of each part."""
        number = place = 0  # of batches and homes so far
        for part in parts:
            end = place + part.n_homes
            for homes in self._recommender.batches(part, self._searches, unknown=self._options["unknown"]):
                number, first = number + 1, place + 1
                place += homes.n_homes
                yield Batch(f"batch {number} (homes {first:,} to {place:,})", homes, ends_part=place == end)

    def _grown_capacity(self) -> int:
        """How many batches are made at a time, those of machines that have come since included."""
        capacity = self._cluster.capacity()
        if capacity > self._capacity:
            self._slots.release(capacity - self._capacity)
            self._capacity = capacity
        return capacity

    def _make(self, name: str, homes: Homes) -> ArrowLists:
        """The lists of a batch; a failure cancels all others."""
        seen = 0

        def on_progress(done: int, of: int) -> None:
            nonlocal seen
            del of
            with self._lock:  # Dask reports from a thread of its own, and from the beginning where a machine died
                self._bar.step(max(done - seen, 0))
                seen = max(done, seen)

        try:
            data = _parquet(homes, self._model.parent)
            with self._slots:
                reply = self._cluster.do(Job(name, HANDLER, self._content, self._model, data), on_progress)
            if not reply:
                raise CancelledError
            if "error" in reply:
                raise DataError(f"{name}: {error_line(reply['error'])}")
            self._cluster.warn_of_versions(reply["versions"], reply["machine"])
            on_progress(homes.n_homes, homes.n_homes)
            return ArrowLists.read(reply["files"][LISTS])
        except CancelledError:
            raise
        except BaseException as error:
            with self._lock:
                self._failure = self._failure or error
            self._cluster.stop()
            raise


def _parquet(homes: Homes, folder: Path) -> bytes:
    """A file of homes, without what is said of their source; written in this folder."""
    with TemporaryDirectory(dir=folder) as temporary:
        file = Path(temporary) / HOMES
        replace(homes, provenance=Provenance()).save(file)
        return file.read_bytes()
