"""Many runs: the finished ones skipped, the others one after the other or several at once.

Each run has a process of its own and keeps its own results, so an interruption loses only what is under way, and a
second process on the same folder takes what the first has not begun.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.runs.experiment import Experiment
from benchmarks.runs.isolated import Children, hand_over
from benchmarks.results.results import Result, Store
from benchmarks.runs.resume import Checkpoints, refuse_wrong
from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What became of many runs. Results are counted by protocol, so a run by two protocols is two."""

    finished: list[Result] = field(default_factory=list)  # before or now
    made: int = 0  # of the finished, those of now
    failed: list[Result] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # under way in another process


@dataclass(frozen=True, slots=True)
class _Task:
    asked: Experiment  # with the protocols that are missing
    homes: Path


@dataclass(frozen=True, slots=True)
class _Ended:
    found: list[Result]  # finished by another process meanwhile
    made: list[Result]


def execute(
    experiments: Sequence[Experiment],
    *,
    store: Store,
    jobs: int = 1,
    threads: int = 1,
    quiet: bool = False,
    checkpoints: int = 0,
) -> Outcome:
    """Run what is not finished; Ctrl-C ends the runs under way and comes through as KeyboardInterrupt.

    With `checkpoints` every so many rounds, runs go on from the last one; see `benchmarks.runs.resume`.
    """
    refuse_wrong(checkpoints)
    if not experiments:
        raise DataError("nothing to run: every data set was left out; give the files of one, or data without optional")
    outcome = Outcome()
    with TemporaryDirectory() as folder:
        seen: set[str] = set()
        tasks = [task for asked in experiments if (task := _missing(asked, store, Path(folder), outcome, seen))]
        children = Children()
        with progress(len(tasks), "run", quiet=quiet) as bar, ThreadPoolExecutor(max(jobs, 1)) as pool:
            futures = [pool.submit(_run, task, children, store, threads, checkpoints, bar) for task in tasks]
            try:
                _gather(futures, bar, outcome)
            except BaseException:
                for future in futures:
                    future.cancel()
                children.stop()
                raise
    return outcome


def _missing(asked: Experiment, store: Store, folder: Path, outcome: Outcome, seen: set[str]) -> _Task | None:
    """The part of an experiment that is not finished, with its homes handed over; None if nothing is missing.

    `seen` are the hashes of what was asked for before, which counts once.
    """
    missing, code = [], asked.code
    for protocol, key in asked.keys(asked.source.fingerprint()).items():
        if key.hash in seen:
            continue
        seen.add(key.hash)
        found = store.finished(key, code)
        if found is None:
            missing.append(protocol)
        else:
            outcome.finished.append(found)
    return _Task(asked.only(missing), hand_over(asked.source, folder)) if missing else None


def _run(task: _Task, children: Children, store: Store, threads: int, checkpoints: int, bar: Progress) -> _Ended | str:
    """The results of a task, or the name of the run where another process is at it."""
    keys, code = task.asked.keys(task.asked.source.fingerprint()), task.asked.code
    with store.claim(next(iter(keys.values()))) as ours:
        if not ours:
            return str(task.asked)
        # Another process may have finished some of it since.
        found = {protocol: result for protocol, key in keys.items() if (result := store.find(key, code))}
        missing = task.asked.only([protocol for protocol in keys if protocol not in found])
        if not missing.protocols:
            return _Ended(list(found.values()), [])
        Checkpoints.of(missing, task.asked.source.fingerprint(), store, checkpoints).announce(str(task.asked))
        bar.note(str(task.asked))
        made = children.run(
            missing,
            task.homes,
            store=store,
            threads=threads,
            told=lambda done, of: bar.note(f"{task.asked}: round {done} of {of}"),
            checkpoints=checkpoints,
        )
        return _Ended(list(found.values()), made)


def _gather(futures: list[Future[_Ended | str]], bar: Progress, outcome: Outcome) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            got = future.result()
            bar.step()
            if isinstance(got, str):
                outcome.elsewhere.append(got)
                continue
            outcome.finished += got.found
            for result in got.made:
                (outcome.finished if result.status == "done" else outcome.failed).append(result)
                outcome.made += result.status == "done"
            for result in got.made:
                if result.status == "failed":
                    log.warning("failed: %s: %s", result.key, result.error.splitlines()[-1])
