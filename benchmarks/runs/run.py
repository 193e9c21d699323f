"""One run by its names: the result of each protocol, read where it is finished and made where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.evaluation.evaluate import PROTOCOLS
from benchmarks.runs.experiment import experiment, source
from benchmarks.runs.isolated import Children, hand_over
from benchmarks.runs.perform import perform
from benchmarks.results.results import Result, Store, results_folder
from benchmarks.runs.resume import Checkpoints, refuse_wrong
from datasets.common.threads import set_threads


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
    """The result of each protocol: read where the run is finished, made and kept where it is not.

    A run that fails is a result with status "failed" and is tried again by the next call. It happens in a process of
    its own, so that its memory is its own and no crash is shared; `isolate=False` runs it here. With `curves` the model
    is measured every so many rounds, see `benchmarks.runs.curves`. With `checkpoints` methods that can keep every so many
    rounds what they need to go on, and a call after one that was killed goes on from there, see `benchmarks.runs.resume`.
    """
    refuse_wrong(checkpoints)
    homes_of = source(data, options=data_options or {}, track=track, path=path)
    asked = experiment(
        method,
        homes_of,
        parameters=parameters or {},
        split=split,
        options=split_options or {},
        seed=seed,
        protocols=protocols,
        curves=curves,
    )
    kept = Store(results_folder(store))
    keys = asked.keys(homes_of.fingerprint())
    finished = {protocol: found for protocol, key in keys.items() if (found := kept.finished(key, asked.code))}
    missing = asked.only([protocol for protocol in keys if protocol not in finished])
    if missing.protocols:
        Checkpoints.of(missing, homes_of.fingerprint(), kept, checkpoints).announce(str(asked))
    if missing.protocols and isolate:
        with TemporaryDirectory() as folder:
            file = hand_over(homes_of, Path(folder))
            made = Children().run(missing, file, store=kept, threads=threads, checkpoints=checkpoints)
    elif missing.protocols:
        set_threads(threads)
        made = perform(missing, homes_of.load(), store=kept, threads=threads, checkpoints=checkpoints)
    else:
        made = []
    finished |= {result.key.protocol: result for result in made}
    return [finished[protocol] for protocol in protocols]
