"""Many runs: finished ones are skipped, the others run one after the other or several at the same time.

Each run has a subprocess and stores its own results, so an interruption loses only what is running, and a second
process on the same folder takes what the first has not started.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.evaluation.evaluate import PROTOCOLS
from benchmarks.results.store import Result, Store, results_folder
from benchmarks.runs.experiment import Experiment, make_experiment, make_source, refuse_bad_interval
from benchmarks.runs.resume import RunCheckpoints
from benchmarks.runs.run import run_once
from benchmarks.runs.worker import Workers, write_homes
from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress
from datasets.common.threads import set_threads

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """The results of many runs, counted by protocol: a run by two protocols is two."""

    finished: list[Result] = field(default_factory=list)  # before or now
    made: int = 0  # of the finished, those of now
    failed: list[Result] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # running in another process


@dataclass(frozen=True, slots=True)
class _Task:
    experiment: Experiment  # with the protocols that are missing
    homes: Path


@dataclass(frozen=True, slots=True)
class _Done:
    found: list[Result]  # finished by another process meanwhile
    made: list[Result]


def run_all(
    experiments: Sequence[Experiment],
    *,
    store: Store,
    jobs: int = 1,
    threads: int = 1,
    quiet: bool = False,
    checkpoints: int = 0,
) -> Outcome:
    """Run what is not finished; Ctrl-C ends the running ones and comes through as KeyboardInterrupt.

    With `checkpoints` every so many rounds, killed runs are resumed; see `benchmarks.runs.resume`.
    """
    refuse_bad_interval("checkpoints", checkpoints)
    if not experiments:
        raise DataError("nothing to run: all data sets were skipped; give the files of one, or data without optional")
    outcome = Outcome()
    with TemporaryDirectory() as folder:
        seen: set[str] = set()
        tasks = [task for each in experiments if (task := _missing(each, store, Path(folder), outcome, seen))]
        workers = Workers()
        with progress(len(tasks), "run", quiet=quiet) as bar, ThreadPoolExecutor(max(jobs, 1)) as pool:
            futures = [pool.submit(_run, task, workers, store, threads, checkpoints, bar) for task in tasks]
            try:
                _collect(futures, bar, outcome)
            except BaseException:
                for future in futures:
                    future.cancel()
                workers.stop()
                raise
    return outcome


def _missing(experiment: Experiment, store: Store, folder: Path, outcome: Outcome, seen: set[str]) -> _Task | None:
    """The part of an experiment that is not finished, with its homes in a file; None if nothing is missing.

    `seen` are the hashes of earlier experiments: the same run counts once.
    """
    missing, code = [], experiment.code
    for protocol, key in experiment.keys(experiment.source.fingerprint()).items():
        if key.hash in seen:
            continue
        seen.add(key.hash)
        found = store.finished(key, code)
        if found is None:
            missing.append(protocol)
        else:
            outcome.finished.append(found)
    return _Task(experiment.only(missing), write_homes(experiment.source, folder)) if missing else None


def _run(task: _Task, workers: Workers, store: Store, threads: int, checkpoints: int, bar: Progress) -> _Done | str:
    """The results of a task, or the name of the run where another process is running it."""
    experiment = task.experiment
    fingerprint = experiment.source.fingerprint()
    keys, code = experiment.keys(fingerprint), experiment.code
    with store.claim(next(iter(keys.values()))) as ours:
        if not ours:
            return str(experiment)
        # Another process may have finished some of it since.
        found = {protocol: result for protocol, key in keys.items() if (result := store.find(key, code))}
        missing = experiment.only([protocol for protocol in keys if protocol not in found])
        if not missing.protocols:
            return _Done(list(found.values()), [])
        RunCheckpoints.of(missing, fingerprint, store, checkpoints).log_resumed(str(experiment))
        bar.note(str(experiment))
        made = workers.run(
            missing,
            task.homes,
            store=store,
            threads=threads,
            on_progress=lambda done, of: bar.note(f"{experiment}: round {done} of {of}"),
            checkpoints=checkpoints,
        )
        return _Done(list(found.values()), made)


def _collect(futures: Sequence[Future[_Done | str]], bar: Progress, outcome: Outcome) -> None:
    for future in as_completed(futures):
        done = future.result()
        bar.step()
        if isinstance(done, str):
            outcome.elsewhere.append(done)
            continue
        outcome.finished += done.found
        for result in done.made:
            if result.status == "done":
                outcome.finished.append(result)
                outcome.made += 1
            else:
                outcome.failed.append(result)
                log.warning("failed: %s: %s", result.key, result.error.splitlines()[-1])


def run(
    method: str,
    data: str,
    *,
    parameters: Mapping[str, object] | None = None,
    data_options: Mapping[str, object] | None = None,
    path: Path | str | None = None,
    track: str = "types",
    split: str = "holdout",
    split_options: Mapping[str, object] | None = None,
    protocols: Sequence[str] = PROTOCOLS,
    seed: int = 0,
    curves: int = 0,
    store: Path | str | None = None,
    threads: int = 1,
    checkpoints: int = 0,
    isolate: bool = True,
) -> list[Result]:
    """The result of each protocol of one run: read where it is finished, made and stored where it is not.

    A run that fails is a result with status "failed"; the next call tries it again. It has a subprocess of its own;
    `isolate=False` runs it in this process. `curves` is the interval in rounds at which the model is measured, see
    `benchmarks.runs.history`; `checkpoints` that of checkpoints to resume from, see `benchmarks.runs.resume`.
    """
    refuse_bad_interval("checkpoints", checkpoints)
    source = make_source(data, options=data_options or {}, track=track, path=path)
    experiment = make_experiment(
        method,
        source,
        parameters=parameters or {},
        split=split,
        options=split_options or {},
        seed=seed,
        protocols=protocols,
        curves=curves,
    )
    results = Store(results_folder(store))
    keys = experiment.keys(source.fingerprint())
    found = {p: result for p, key in keys.items() if (result := results.finished(key, experiment.code))}
    missing = experiment.only([protocol for protocol in keys if protocol not in found])
    made: list[Result] = []
    if missing.protocols:
        RunCheckpoints.of(missing, source.fingerprint(), results, checkpoints).log_resumed(str(experiment))
        if isolate:
            with TemporaryDirectory() as folder:
                homes = write_homes(source, Path(folder))
                made = Workers().run(missing, homes, store=results, threads=threads, checkpoints=checkpoints)
        else:
            set_threads(threads)
            made = run_once(missing, source.load(), store=results, threads=threads, checkpoints=checkpoints)
    found |= {result.key.protocol: result for result in made}
    return [found[protocol] for protocol in protocols]
