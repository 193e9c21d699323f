"""One run: fit on the training rules, find the hidden ones, keep what came out.

A method's settings are fixed by now (`benchmarks.tune` chooses them on validation data), so it is fitted on all rules
that are not hidden for test, and test is looked at once for each protocol.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np

from baselines.method import Fitted
from baselines.registry import build, get
from benchmarks.calibrate import Calibration, calibrate
from benchmarks.circumstances import commit, peak_megabytes, versions
from benchmarks.evaluate import PROTOCOLS, evaluate
from benchmarks.experiment import Experiment, experiment, source
from benchmarks.results import Key, Result, Store, results_folder
from benchmarks.threads import set_threads
from datasets import Homes
from datasets.splits import split

FITTING = 2  # the stream of the seed that methods draw from; 0 and 1 are the split's

History: TypeAlias = list[dict[str, float]]
Told: TypeAlias = Callable[[int, int], None]  # told the rounds done and the rounds in all


def nobody(done: int, of: int) -> None:
    """Nobody wants to know the rounds."""


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
    store: Path | str | None = None,
    threads: int = 1,
    isolate: bool = True,
) -> list[Result]:
    """The result of each protocol: read where the run is finished, made and kept where it is not.

    A run that fails is a result with status "failed" and is tried again by the next call. It happens in a process of
    its own, so that its memory is its own and no crash is shared; `isolate=False` runs it here.
    """
    from benchmarks.isolated import Children, hand_over

    homes_of = source(data, options=data_options or {}, track=track, path=path)
    asked = experiment(
        method,
        homes_of,
        parameters=parameters or {},
        split=split,
        options=split_options or {},
        seed=seed,
        protocols=protocols,
    )
    kept = Store(results_folder(store))
    keys = asked.keys(homes_of.fingerprint())
    finished = {protocol: found for protocol, key in keys.items() if (found := kept.find(key))}
    missing = asked.only([protocol for protocol in keys if protocol not in finished])
    if missing.protocols and isolate:
        with TemporaryDirectory() as folder:
            file = hand_over(homes_of, Path(folder))
            made = Children().run(missing, file, store=kept, threads=threads)
    elif missing.protocols:
        set_threads(threads)
        made = perform(missing, homes_of.load(), store=kept, threads=threads)
    else:
        made = []
    finished |= {result.key.protocol: result for result in made}
    return [finished[protocol] for protocol in protocols]


def perform(asked: Experiment, homes: Homes, *, store: Store, threads: int, told: Told = nobody) -> list[Result]:
    """Fit, evaluate by each protocol and keep the results, here and now; an error is kept as well."""
    made: list[Result] = []
    keys = asked.keys(homes.fingerprint)
    counts = {"homes": homes.n_homes, "devices": homes.n_devices, "rules": homes.n_rules}
    try:
        parts = split(homes, asked.split, seed=asked.seed, **asked.split_options)
        memory = {"before": peak_megabytes()}
        begin = time.perf_counter()
        fitted, history = fit(asked, parts.train, told)
        seconds = {"fit": time.perf_counter() - begin}
        memory["fit"] = peak_megabytes()
        for protocol in asked.protocols:
            begin = time.perf_counter()
            calibration = _calibration(asked, homes) if protocol == "paper" else None
            calibrated = time.perf_counter()
            evaluation = evaluate(fitted, parts, protocol, part="test", seed=asked.seed, calibration=calibration)
            taken = seconds | {"calibrate": calibrated - begin, "evaluate": time.perf_counter() - calibrated}
            result = Result(
                keys[protocol],
                summary=dict(evaluation.summary),
                calibrated=calibration is not None,
                history=history,
                seconds=taken,
                memory=memory | {"peak": peak_megabytes()},
                counts=counts | {"train rules": parts.train.n_rules, "hidden rules": len(parts.test)},
                versions=versions(),
                commit=commit(),
                threads=threads,
                written=_now(),
            )
            made.append(store.save(result, evaluation.homes, evaluation.rules))
    except Exception:  # whatever a method of somebody else's raises is part of the record
        error = traceback.format_exc()
        missing = asked.protocols[len(made) :]
        made += [store.fail(failed(keys[protocol], error, threads)) for protocol in missing]
    return made


def failed(key: Key, error: str, threads: int) -> Result:
    """The record of a run that did not finish."""
    return Result(
        key, status="failed", error=error, versions=versions(), commit=commit(), threads=threads, written=_now()
    )


def fit(asked: Experiment, train: Homes, told: Told = nobody) -> tuple[Fitted, History]:
    """The fitted model, and by round what the method measured and the seconds since it began."""
    history: History = []
    begin = time.perf_counter()

    def on_round(done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:  # noqa: ARG001
        measured = {name: float(value) for name, value in values.items()}
        history.append({"round": float(done), **measured, "seconds": time.perf_counter() - begin})
        told(done, of)

    method = build(asked.method, **asked.parameters)
    rng = np.random.default_rng([asked.seed, FITTING])
    return method.fit(train, rng=rng, on_round=on_round), history


def _calibration(asked: Experiment, homes: Homes) -> Calibration | None:
    """Probabilities for scores that are not log-odds, from validation data that the model of this fit has not seen."""
    if getattr(get(asked.method), "log_odds", False):
        return None
    parts = split(homes, asked.split, seed=asked.seed, validation=True, **asked.split_options)
    return calibrate(fit(asked, parts.train)[0], parts, seed=asked.seed)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
