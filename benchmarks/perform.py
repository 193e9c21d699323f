"""What a run does: fit on the training rules, find the hidden ones, keep what came out.

A method's settings are fixed by now (`benchmarks.tune` chooses them on validation data), so it is fitted on all rules
that are not hidden for test, and test is looked at once for each protocol.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from baselines.method import Fitted
from baselines.registry import build, get
from benchmarks.calibrate import Calibration, calibrate
from benchmarks.circumstances import commit, peak_megabytes, versions
from benchmarks.evaluate import Evaluation, evaluate
from benchmarks.experiment import Experiment
from benchmarks.results import Key, Result, Store
from benchmarks.streams import Stream, generator
from datasets import Homes
from datasets.splits import Split, split

History: TypeAlias = list[dict[str, float]]
Told: TypeAlias = Callable[[int, int], None]  # told the rounds done and the rounds in all


def nobody(done: int, of: int) -> None:
    """Nobody wants to know the rounds."""


def perform(asked: Experiment, homes: Homes, *, store: Store, threads: int, told: Told = nobody) -> list[Result]:
    """Fit, evaluate by each protocol and keep the results, here and now; an error is kept as well."""
    made: list[Result] = []
    keys, code = asked.keys(homes.fingerprint), asked.code
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
            calibration = _calibration(asked, homes, fitted, parts) if protocol == "paper" else None
            calibrated = time.perf_counter()
            evaluation = evaluate(fitted, parts, protocol, part="test", seed=asked.seed, calibration=calibration)
            taken = seconds | {"calibrate": calibrated - begin, "evaluate": time.perf_counter() - calibrated}
            result = Result(
                keys[protocol],
                summary=dict(evaluation.summary),
                calibrated=calibration is not None and calibration.rescales,
                history=history,
                seconds=taken,
                memory=memory | {"peak": peak_megabytes()},
                counts=counts | {"train rules": parts.train.n_rules, "hidden rules": len(parts.test)},
                versions=versions(),
                commit=commit(),
                code=code,
                threads=threads,
                written=_now(),
            )
            made.append(store.save(result, evaluation.homes, evaluation.rules))
    except Exception:  # whatever a method of somebody else's raises is part of the record
        error = traceback.format_exc()
        missing = asked.protocols[len(made) :]
        made += [store.fail(failed(keys[protocol], error, threads, code)) for protocol in missing]
    return made


def failed(key: Key, error: str, threads: int, code: str) -> Result:
    """The record of a run that did not finish."""
    return Result(
        key,
        status="failed",
        error=error,
        versions=versions(),
        commit=commit(),
        code=code,
        threads=threads,
        written=_now(),
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
    return method.fit(train, rng=generator(Stream.FITTING, asked.seed), on_round=on_round), history


def _calibration(asked: Experiment, homes: Homes, fitted: Fitted, parts: Split) -> Calibration | None:
    """Probabilities for what is not log-odds, from validation data that the model of this fit has not seen.

    What has no score gets its probability from there for every method, or losses would not be comparable. Where the
    scores are log-odds and the test leaves nothing unanswered, there is nothing to learn and no second fit.
    """
    log_odds = bool(getattr(get(asked.method), "log_odds", False))
    if log_odds and not _unanswered(evaluate(fitted, parts, "paper", part="test", seed=asked.seed)):
        return None
    carved = split(homes, asked.split, seed=asked.seed, validation=True, **asked.split_options)
    return calibrate(fit(asked, carved.train)[0], carved, seed=asked.seed, log_odds=log_odds)


def _unanswered(evaluation: Evaluation) -> float:
    return evaluation.summary["unanswered"] + evaluation.summary["unanswered_non_rules"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
