"""One run in this process: fit on the training rules, evaluate on the hidden ones, store the results.

A method's settings are fixed by now (`benchmarks.tune` chooses them on validation data), so it is fitted on all rules
that are not hidden for test, and test is evaluated once for each protocol. With curves, validation rules are left out:
see `benchmarks.runs.history`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from baselines.calibration import Calibration, calibrate
from baselines.method import Fitted
from baselines.registry import build
from benchmarks.evaluation.evaluate import Evaluation, evaluate
from benchmarks.results.store import Key, Result, Store
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.history import Curves, History, HistoryRecorder, OnProgress, ignore_progress
from benchmarks.runs.resume import RunCheckpoints, is_resumable
from datasets import Homes
from datasets.common.environment import commit, peak_megabytes, versions
from datasets.common.random import Stream, generator
from datasets.splits import Split, split


def run_once(
    experiment: Experiment,
    homes: Homes,
    *,
    store: Store,
    threads: int,
    on_progress: OnProgress = ignore_progress,
    checkpoints: int = 0,
) -> list[Result]:
    """Fit, evaluate by each protocol and store the results; an error is stored as well.

    `checkpoints` is the interval in rounds, see `benchmarks.runs.resume`.
    """
    made: list[Result] = []
    keys, code = experiment.keys(homes.fingerprint), experiment.code
    saved = RunCheckpoints.of(experiment, homes.fingerprint, store, checkpoints)
    try:
        parts = split_homes(experiment, homes)
        curves = None
        if experiment.curves:
            log_odds = has_log_odds(experiment)
            curves = Curves.of(parts, every=experiment.curves, seed=experiment.seed, log_odds=log_odds)
        memory = {"before": peak_megabytes()}
        recorder = HistoryRecorder(on_progress, curves)
        fitted = FittedRun(experiment, homes, parts, *fit(experiment, parts.train, recorder, saved))
        seconds = {"fit": recorder.fitting}
        if experiment.curves:
            seconds["curves"] = recorder.measuring
        memory["fit"] = peak_megabytes()
        for protocol in experiment.protocols:
            begin = time.perf_counter()
            calibration = fitted.calibration(protocol, saved)
            calibrated = time.perf_counter()
            evaluation = fitted.evaluate(protocol, calibration)
            result = fitted.result(
                evaluation,
                calibration,
                key=keys[protocol],
                code=code,
                seconds=seconds | {"calibrate": calibrated - begin, "evaluate": time.perf_counter() - calibrated},
                memory=memory | {"peak": peak_megabytes()},
                threads=threads,
            )
            made.append(store.save(result, evaluation.homes, evaluation.rules))
        saved.remove()
    except Exception:  # whatever a third-party method raises is part of the record
        error = traceback.format_exc()
        missing = [keys[protocol] for protocol in experiment.protocols[len(made) :]]
        made += [store.fail(failed(experiment, key, error, threads=threads, code=code)) for key in missing]
    return made


def split_homes(experiment: Experiment, homes: Homes, *, validation: bool | None = None) -> Split:
    """The split of an experiment; validation rules are hidden as well where it has curves."""
    hidden = experiment.curves > 0 if validation is None else validation
    return split(homes, experiment.split, seed=experiment.seed, validation=hidden, **experiment.split_options)


@dataclass(frozen=True, slots=True)
class FittedRun:
    """A fitted model on its way to a result."""

    experiment: Experiment
    homes: Homes
    parts: Split
    fitted: Fitted
    history: History

    def calibration(self, protocol: str, saved: RunCheckpoints | None = None) -> Calibration | None:
        """The calibration of scores to probabilities, where a protocol needs it, on validation rules unseen by the fit.

        Examples without a score get their probability from there for every method, or losses would not be comparable.
        Where scores are log-odds and none is missing in test, there is nothing to calibrate and no second fit.
        """
        if protocol != "paper":
            return None
        experiment = self.experiment
        log_odds = has_log_odds(experiment)
        if log_odds:
            summary = self.evaluate("paper", None).summary
            if not summary["unanswered"] + summary["unanswered_non_rules"]:
                return None
        if experiment.curves:  # this fit has not seen the validation rules
            return calibrate(self.fitted, self.parts, seed=experiment.seed, log_odds=log_odds)
        parts = split_homes(experiment, self.homes, validation=True)
        fitted, _ = fit(experiment, parts.train, None, saved, "calibration")
        return calibrate(fitted, parts, seed=experiment.seed, log_odds=log_odds)

    def evaluate(self, protocol: str, calibration: Calibration | None) -> Evaluation:
        """How well the hidden rules of test are found."""
        seed = self.experiment.seed
        return evaluate(self.fitted, self.parts, protocol, part="test", seed=seed, calibration=calibration)

    def result(
        self,
        evaluation: Evaluation,
        calibration: Calibration | None,
        *,
        key: Key,
        code: str,
        seconds: Mapping[str, float],
        memory: Mapping[str, float],
        threads: int,
    ) -> Result:
        """The record of an evaluation."""
        homes, parts = self.homes, self.parts
        counts = {"homes": homes.n_homes, "devices": homes.n_devices, "rules": homes.n_rules}
        if self.experiment.curves:
            counts["validation rules"] = len(parts.validation)
        return replace(
            _empty(self.experiment, key, threads=threads, code=code),
            summary=dict(evaluation.summary),
            calibrated=calibration is not None and calibration.rescales,
            history=self.history,
            seconds=dict(seconds),
            memory=dict(memory),
            counts=counts | {"train rules": parts.train.n_rules, "hidden rules": len(parts.test)},
        )


def failed(experiment: Experiment, key: Key, error: str, *, threads: int, code: str) -> Result:
    """The record of a run that did not finish."""
    return replace(_empty(experiment, key, threads=threads, code=code), status="failed", error=error)


def _empty(experiment: Experiment, key: Key, *, threads: int, code: str) -> Result:
    """A result without numbers; `code` is that at the start of the run."""
    return Result(
        key,
        overrides=experiment.overrides,
        suite=experiment.suite,
        versions=versions(),
        commit=commit(),
        code=code,
        threads=threads,
        written=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def fit(
    experiment: Experiment,
    train: Homes,
    recorder: HistoryRecorder | None = None,
    saved: RunCheckpoints | None = None,
    name: str = "",
) -> tuple[Fitted, History]:
    """The fitted model and its history; resumed from the checkpoint of the fit with this name where there is one."""
    recorder = recorder or HistoryRecorder()
    method, rng = build(experiment.method, **experiment.parameters), generator(Stream.FITTING, experiment.seed)
    if saved is not None and saved.every and is_resumable(method):
        fitted = method.fit(train, rng=rng, on_round=recorder, checkpoint=saved.checkpoint(recorder, name))
    else:
        fitted = method.fit(train, rng=rng, on_round=recorder)
    recorder.end(fitted)
    return fitted, recorder.history


def has_log_odds(experiment: Experiment) -> bool:
    """Whether a method's scores are log-odds; a property of the method where that depends on its parameters."""
    return bool(getattr(build(experiment.method, **experiment.parameters), "log_odds", False))
