"""Runs on a cluster: the scheduler is the same as for processes of this machine.

It claims a run and hands it to the executor, which stores what comes back. On its machine, a run is executed in a
process of its own; threads and PYTHONHASHSEED are set for that process, whatever the machine has, and the versions of
packages are in its result. Each run is refused where the code of its method and of the evaluation differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from benchmarks.cluster.cluster import Cluster, Job, Reply
from benchmarks.cluster.remote import refusal_of_other_code
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.history import OnProgress
from benchmarks.runs.run import failed
from benchmarks.runs.workers import Workers, experiment_as_json, experiment_from_json

RESULT_FILES = (".json", ".parquet")


class ClusterExecutor:
    """Executes runs on a cluster; connected while it is entered."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.cluster.__exit__(*error)

    def capacity(self) -> int:
        """How many runs the cluster executes at the same time."""
        return self.cluster.capacity()

    def stop(self) -> None:
        """End every run."""
        self.cluster.stop()

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
        """Execute a run on some machine; its results, stored here. A stopped one has none."""
        del checkpoints  # would stay on a machine that may be gone
        keys, code = experiment.keys(homes.stem).values(), experiment.code
        content = experiment_as_json(experiment) | {"threads": threads, "code": code}
        job = Job(str(experiment), "benchmarks.cluster.executor:RunHandler", content, homes)
        reply = self.cluster.do(job, on_progress)
        if not reply:
            return []
        if "error" in reply:
            return [store.fail(failed(experiment, key, reply["error"], threads=threads, code=code)) for key in keys]
        with TemporaryDirectory() as folder:
            for name, sent in reply["files"].items():
                (Path(folder) / Path(name).name).write_bytes(sent)
            there = Store(Path(folder))
            results = [store.adopt(there.outcome(key, code)) for key in keys]
        for result in results:
            self.cluster.warn_of_versions(result.versions, reply["machine"])
        return results


class RunHandler:
    """Executes runs on a machine of a cluster, each in a process."""

    def __init__(self) -> None:
        self._workers = Workers()

    def refusal(self, content: Mapping[str, Any]) -> str:
        """Why this machine must not execute a run; empty where it may."""
        name = content["experiment"]["method"]
        return refusal_of_other_code(name, content["code"], lambda: experiment_from_json(content).code)

    def run(self, name: str, content: Mapping[str, Any], file: Path, data: bytes, on_progress: OnProgress) -> Reply:
        """Execute a run on the homes of a file; the files of its results."""
        del data
        with TemporaryDirectory() as folder:
            experiment, store = experiment_from_json(content), Store(Path(folder))
            how = {"store": store, "threads": content["threads"], "on_progress": on_progress}
            self._workers.run(experiment, file, name=name, **how)
            return {"files": {p.name: p.read_bytes() for p in store.folder.iterdir() if p.suffix in RESULT_FILES}}

    def cancel(self, name: str) -> None:
        """End this run."""
        self._workers.cancel(name)

    def stop(self) -> None:
        """End all runs."""
        self._workers.stop()

    def close(self) -> None:
        """End the processes that wait for more runs."""
        self._workers.__exit__()
