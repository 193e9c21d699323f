"""Runs as jobs of a batch system (Slurm) by submitit; `local` starts the same jobs as processes here, to try it out.

submitit hands a job and its results over as files, in a hidden folder among the results, which all machines must see.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.history import OnProgress
from benchmarks.runs.remote import Reply, job_of, retry, run_single_job, store_reply
from datasets.common.errors import DataError
from datasets.common.files import atomic_file

if TYPE_CHECKING:
    from submitit import AutoExecutor, Job

JOBS = {"slurm": 16, "local": 1}  # queued or running at the same time, by default
TIME_LIMIT = 24 * 60  # minutes of a job; submitit's own default is 5
POLL_INTERVAL = 0.5  # seconds; submitit asks Slurm itself less often


class BatchSystem:
    """A batch system: each run is a job of its own."""

    def __init__(self, system: str, options: dict[str, Any], *, jobs: int | None, threads: int, folder: Path) -> None:
        self.system = system
        self.jobs = jobs or JOBS[system]
        self.stopped = False
        self._parameters = {"name": "fedrule", "timeout_min": TIME_LIMIT, "cpus_per_task": threads, **options}
        self._results = folder.absolute()  # jobs may start in another folder
        self._warned: set[str] = set()
        self._jobs: set[Job[Reply]] = set()
        self._lock = Lock()  # submitit is called by one thread at a time

    def __enter__(self) -> Self:
        from submitit import AutoExecutor

        self._results.mkdir(parents=True, exist_ok=True)
        self._folder = TemporaryDirectory(dir=self._results, prefix=".cluster-", ignore_cleanup_errors=True)
        try:
            self._executor: AutoExecutor = AutoExecutor(folder=self._folder.name, cluster=self.system)
            self._executor.update_parameters(**self._parameters)
        except (RuntimeError, NameError, AssertionError, ValueError, TypeError) as error:
            self._folder.cleanup()
            raise DataError(f"--cluster {self.system}: {' '.join(str(error).split())}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def capacity(self) -> int:
        """How many jobs it is given at the same time."""
        return self.jobs

    def run(
        self,
        experiment: Experiment,
        homes: Path,
        *,
        store: Store,
        threads: int,
        on_progress: OnProgress,
        checkpoints: int,
    ) -> list[Result]:
        """Execute a run as a job; its results, stored here. A stopped one has none."""
        del on_progress, checkpoints  # rounds are not reported; a checkpoint would stay on a machine that may be gone
        job = job_of(experiment, homes, threads=threads)
        self._share(homes)
        reply = retry(experiment, lambda: self._reply(job))
        if self.stopped:
            return []
        machine, warned = "the job's machine", self._warned
        return store_reply(reply, experiment, homes, store, machine=machine, threads=threads, warned=warned)

    def stop(self) -> None:
        """Cancel every job."""
        self.stopped = True
        with self._lock:
            for job in self._jobs:
                with suppress(Exception):  # it may have ended
                    job.cancel()

    def _share(self, homes: Path) -> None:
        """Put the homes where jobs find them, once."""
        shared = Path(self._folder.name) / homes.name
        with self._lock:
            if not shared.exists():
                with atomic_file(shared) as temporary:
                    shutil.copyfile(homes, temporary)

    def _reply(self, job: str) -> Reply:
        """That of a new job; empty where it was stopped."""
        from submitit.core.utils import FailedSubmissionError, UncompletedJobError

        try:
            with self._lock:
                submitted: Job[Reply] = self._executor.submit(run_single_job, job, self._folder.name)
                self._jobs.add(submitted)
        except FailedSubmissionError as error:
            raise DataError(f"--cluster {self.system}: {' '.join(str(error).split())}") from None
        try:
            while not self.stopped:
                with self._lock:
                    if submitted.done():
                        reply: Reply = submitted.result()
                        return reply
                time.sleep(POLL_INTERVAL)
        except UncompletedJobError as error:
            if not self.stopped:
                return {"error": f"job {submitted.job_id}: {error}"}
        finally:
            with self._lock:
                self._jobs.discard(submitted)
        with suppress(Exception):
            submitted.cancel()  # it was submitted while the others were cancelled
        return {}
