"""Jobs of a batch system (Slurm) by submitit; `local` starts the same jobs as processes here, to try it out.

submitit hands a job and its reply over as files, in a hidden folder that all machines must see.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from benchmarks.cluster import cluster
from benchmarks.cluster.cluster import Cluster, Reply
from benchmarks.cluster.remote import do_single_job
from benchmarks.cluster.session_folder import shared_folder
from datasets.common.errors import DataError
from datasets.common.files import atomic_file

if TYPE_CHECKING:
    from submitit import AutoExecutor, Job

    from benchmarks.runs.history import OnProgress

JOBS = {"slurm": 16, "local": 1}  # queued or running at the same time, by default
TIME_LIMIT = 24 * 60  # minutes of a job; submitit's own default is 5
POLL_INTERVAL = 0.5  # seconds; submitit asks Slurm itself less often


class BatchSystem(Cluster):
    """A batch system: each job is one of its jobs."""

    def __init__(
        self, system: str, options: dict[str, Any], *, jobs: int | None, threads: int, folder: Path, repeat: str
    ) -> None:
        super().__init__(repeat=repeat)
        self.system = system
        self.jobs = jobs or JOBS[system]
        self._parameters = {"name": "fedrule", "timeout_min": TIME_LIMIT, "cpus_per_task": threads, **options}
        self._shared = folder.absolute()  # jobs may start in another folder
        self._jobs: set[Job[Reply]] = set()
        self._lock = Lock()  # submitit is called by one thread at a time

    def __enter__(self) -> Self:
        from submitit import AutoExecutor

        self._folder = shared_folder(self._shared)
        try:
            self._executor: AutoExecutor = AutoExecutor(folder=self._folder.path, cluster=self.system)
            self._executor.update_parameters(**self._parameters)
        except (RuntimeError, NameError, AssertionError, ValueError, TypeError) as error:
            self._folder.delete()
            raise DataError(f"--cluster {self.system}: {' '.join(str(error).split())}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.delete()

    def capacity(self) -> int:
        """How many jobs it is given at the same time."""
        return self.jobs

    def stop(self) -> None:
        """Cancel every job."""
        self.stopped = True
        with self._lock:
            for job in self._jobs:
                with suppress(Exception):  # it may have ended
                    job.cancel()

    def _ask(self, job: cluster.Job, on_progress: OnProgress) -> Reply:
        del on_progress  # is not reported
        from submitit.core.utils import FailedSubmissionError, UncompletedJobError

        self._share(job.file)
        try:
            with self._lock:
                submitted: Job[Reply] = self._executor.submit(do_single_job, job.text, job.data, self._folder.path)
                self._jobs.add(submitted)
        except FailedSubmissionError as error:
            raise DataError(f"--cluster {self.system}: {' '.join(str(error).split())}") from None
        try:
            while not self.stopped:
                with self._lock:
                    if submitted.done():
                        reply: Reply = submitted.result()
                        return reply | {"machine": "the job's machine"}
                time.sleep(POLL_INTERVAL)
        except UncompletedJobError as error:
            if not self.stopped:
                why = f"job {submitted.job_id} ended without a reply, in state {submitted.state}"
                return {"error": f"{error}\n{why}"}  # the reason is the last line, after what it printed
        finally:
            with self._lock:
                self._jobs.discard(submitted)
                if submitted.done():
                    _delete_files(submitted)
        with suppress(Exception):
            submitted.cancel()  # it was submitted while the others were cancelled
        return {}

    def _share(self, file: Path) -> None:
        """Put a file where jobs find it, once."""
        shared = self._folder.path / file.name
        with self._lock:
            if not shared.exists():
                with atomic_file(shared) as temporary:
                    shutil.copyfile(file, temporary)


def _delete_files(job: Job[Reply]) -> None:
    """Delete what was handed over for a job that has ended: it may have homes, and there may be thousands of jobs."""
    for path in (job.paths.submitted_pickle, job.paths.result_pickle):
        with suppress(OSError):  # such as one that it never wrote
            path.unlink()
