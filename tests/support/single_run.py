"""One run with its options spelled out as arguments, and what two runs are compared by."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.evaluation import PROTOCOLS
from benchmarks.results.store import Result, Store, results_folder
from benchmarks.runs.experiment import make_experiment, make_source, refuse_bad_interval
from benchmarks.runs.run import RunCheckpoints, run_once
from benchmarks.runs.scheduler import write_homes
from benchmarks.runs.workers import Workers
from datasets.common.environment import set_threads

WORKERS = Workers()  # of all tests: a template process for each of them would import the same again
atexit.register(WORKERS.__exit__)


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
    `benchmarks.runs.history`; `checkpoints` that of checkpoints to resume from, see `benchmarks.runs.run`.
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
                made = WORKERS.run(missing, homes, store=results, threads=threads, checkpoints=checkpoints)
        else:
            set_threads(threads)
            made = run_once(missing, source.load(), store=results, threads=threads, checkpoints=checkpoints)
    found |= {result.key.protocol: result for result in made}
    return [found[protocol] for protocol in protocols]


def comparable(results: Sequence[Result]) -> list[tuple[object, ...]]:
    """All of some results that does not depend on the clock and the machine."""
    return [
        (
            result.key,
            result.status,
            {name: repr(value) for name, value in result.summary.items()},
            [{name: repr(value) for name, value in row.items() if name != "seconds"} for row in result.history],
            result.counts,
            result.digests,
        )
        for result in results
    ]
