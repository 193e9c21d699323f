"""One run in this process: fit on the training rules, evaluate on the hidden ones, store the results.

A method's settings are fixed by now (`benchmarks.tune` chooses them on validation data), so it is fitted on all rules
that are not hidden for test, and test is evaluated once for each protocol. With curves, validation rules are left out:
see `benchmarks.runs.history`.

A killed run is resumed from its checkpoints, if the `fit` of its method takes a `checkpoint`
(`fedrule.federated.checkpoint.Checkpoint`):

    <results>/checkpoints/<hash>.npz              of the fit that is measured
    <results>/checkpoints/<hash>.calibration.npz  of the second fit, where probabilities need one

The hash is that of the result's key without the protocol, since all protocols measure one fit. The interval is not
part of the key: a resumed run gives the same numbers as an uninterrupted one, except its seconds. Checkpoints are
deleted when the results are stored. Those of other code are not used.
"""

from __future__ import annotations

import inspect
import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baselines.calibration import Calibration, calibrate
from baselines.method import Fitted
from baselines.registry import build
from benchmarks.evaluation import Evaluation, evaluate
from benchmarks.results.store import Key, Result, Store
from benchmarks.runs.experiment import Experiment, refuse_bad_interval
from benchmarks.runs.history import Curves, HistoryRecorder, OnProgress, ignore_progress
from datasets import Homes
from datasets.common.environment import commit, peak_megabytes, versions
from datasets.common.errors import DataError
from datasets.common.random import Stream, generator
from datasets.common.training_warnings import TrainingWarning
from datasets.splits import Split, split

if TYPE_CHECKING:
    from fedrule.federated.checkpoint import Checkpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunCheckpoints:
    """The checkpoints of one run."""

    folder: Path
    name: str  # what their file names begin with
    code: str  # hash of the code
    every: int  # rounds; 0: never

    @classmethod
    def of(cls, experiment: Experiment, fingerprint: str, store: Store, every: int) -> RunCheckpoints:
        """Of an experiment on homes with this fingerprint."""
        refuse_bad_interval("checkpoints", every)
        key = next(iter(experiment.keys(fingerprint).values()))
        return cls(store.folder / "checkpoints", replace(key, protocol="").hash, experiment.code, every)

    def checkpoint(self, recorder: HistoryRecorder, fit: str = "") -> Checkpoint:
        """For the fit with this history, or for another fit of the run by its name."""
        from fedrule.federated.checkpoint import Checkpoint  # with torch, which only some methods need

        path = self.folder / f"{self.name}{fit and f'.{fit}'}.npz"
        return Checkpoint(path, self.every, {"code": self.code}, {"rounds": recorder})

    def log_resumed(self, run: str) -> None:
        """Log that a run is resumed; a checkpoint of other code is deleted, and the log says that the run restarts."""
        if not self.every or not self._files():
            return
        from fedrule.federated.checkpoint import about

        for path in self._files():
            try:
                found = about(path)
            except DataError:  # the run refuses it, and that is stored as its error
                continue
            if found["run"].get("code") == self.code:
                log.info("%s: resumed after round %d", run, found["round"])
            else:
                log.warning("%s: its checkpoint of round %d is of other code; it starts again", run, found["round"])
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete them when the run is finished."""
        for path in self.folder.glob(f"*{self.name}.*"):  # and temporary files of a killed process
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.name}.*npz"))


def run_once(
    experiment: Experiment,
    homes: Homes,
    *,
    store: Store,
    threads: int,
    on_progress: OnProgress = ignore_progress,
    checkpoints: int = 0,
) -> list[Result]:
    """Fit, evaluate by each protocol and store the results; an error is stored as well. `checkpoints` is in rounds."""
    made: list[Result] = []
    keys, code = experiment.keys(homes.fingerprint), experiment.code
    saved = RunCheckpoints.of(experiment, homes.fingerprint, store, checkpoints)
    try:
        parts = split_homes(experiment, homes)
        curves, log_odds = None, has_log_odds(experiment)  # builds the method, which loads what its options need
        if experiment.curves:
            curves = Curves.of(parts, every=experiment.curves, seed=experiment.seed, log_odds=log_odds)
        memory = {"before": peak_megabytes()}
        recorder = HistoryRecorder(on_progress, curves)
        fitted = FittedRun(experiment, homes, parts, *fit(experiment, parts.train, recorder, saved))
        seconds = {"fit": recorder.fitting}
        if experiment.curves:
            seconds["curves"] = recorder.measuring
        if recorder.history:
            recorder.history[-1] |= promoted_rule(experiment, parts.train, fitted.fitted)
        memory["fit"] = peak_megabytes()
        for protocol in experiment.protocols:
            begin = time.perf_counter()
            calibration, warnings = fitted.calibration(protocol, saved)
            calibrated = time.perf_counter()
            evaluation = fitted.evaluate(protocol, calibration)
            taken = seconds | {"calibrate": calibrated - begin, "evaluate": time.perf_counter() - calibrated}
            memory["peak"] = peak_megabytes()
            about = fitted.result(evaluation, calibration, code=code, seconds=taken, memory=memory, threads=threads)
            result = replace(about, warnings=(*about.warnings, *warnings))
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
    recorder: HistoryRecorder

    def calibration(
        self, protocol: str, saved: RunCheckpoints | None = None
    ) -> tuple[Calibration | None, list[TrainingWarning]]:
        """The calibration of scores to probabilities, where a protocol needs it, on validation rules unseen by the fit.

        And what went wrong in a second fit, which it may need.
        Examples without a score get their probability from there for every method, or losses would not be comparable.
        Where scores are log-odds and none is missing in test, there is nothing to calibrate and no second fit.
        """
        if protocol != "paper":
            return None, []
        experiment = self.experiment
        log_odds = has_log_odds(experiment)
        if log_odds:
            summary = self.evaluate("paper", None).summary
            if not summary["unanswered"] + summary["unanswered_non_rules"]:
                return None, []
        if experiment.curves:  # this fit has not seen the validation rules
            return calibrate(self.fitted, self.parts, seed=experiment.seed, log_odds=log_odds), []
        parts = split_homes(experiment, self.homes, validation=True)
        fitted, recorder = fit(experiment, parts.train, None, saved, "calibration")
        found = [replace(each, text=f"fit for the calibration: {each.text}") for each in recorder.warnings]
        return calibrate(fitted, parts, seed=experiment.seed, log_odds=log_odds), found

    def evaluate(self, protocol: str, calibration: Calibration | None) -> Evaluation:
        """How well the hidden rules of test are found."""
        seed = self.experiment.seed
        return evaluate(self.fitted, self.parts, protocol, part="test", seed=seed, calibration=calibration)

    def result(
        self,
        evaluation: Evaluation,
        calibration: Calibration | None,
        *,
        code: str,
        seconds: Mapping[str, float],
        memory: Mapping[str, float] | None = None,
        threads: int = 1,
    ) -> Result:
        """The record of an evaluation."""
        homes, parts = self.homes, self.parts
        key = self.experiment.keys(homes.fingerprint)[evaluation.protocol]
        counts = counts_of(homes)
        if self.experiment.curves:
            counts["validation rules"] = len(parts.validation)
        return replace(
            _empty(self.experiment, key, threads=threads, code=code),
            summary=dict(evaluation.summary),
            calibrated=calibration is not None and calibration.rescales,
            warnings=tuple(self.recorder.warnings),
            history=self.recorder.history,
            seconds=dict(seconds),
            memory=dict(memory or {}),
            counts=counts
            | {"train rules": parts.train.n_rules, "hidden rules": len(parts.test)}
            | {"relations": len(parts.train.relations), "hidden rules of rare relations": len(parts.test.rare)},
        )


def counts_of(homes: Homes) -> dict[str, int]:
    """What a result says about the size of its data."""
    unused = int(np.count_nonzero(~homes.used_devices))
    return {
        "homes": homes.n_homes,
        "devices": homes.n_devices,
        "devices without rules": unused,
        "rules": homes.n_rules,
    }


def failed(experiment: Experiment, key: Key, error: str, *, threads: int, code: str) -> Result:
    """The record of a run that did not finish."""
    return replace(_empty(experiment, key, threads=threads, code=code), status="failed", error=error)


def _empty(experiment: Experiment, key: Key, *, threads: int, code: str) -> Result:
    """A result without numbers; `code` is that at the start of the run."""
    return Result(
        key,
        warnings=(),
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
) -> tuple[Fitted, HistoryRecorder]:
    """The fitted model and its history with warnings; resumed from the checkpoint of the fit with this name if any."""
    recorder = recorder or HistoryRecorder()
    method, rng = build(experiment.method, **experiment.parameters), generator(Stream.FITTING, experiment.seed)
    more: dict[str, Any] = {}
    if saved is not None and saved.every and "checkpoint" in inspect.signature(method.fit).parameters:
        more["checkpoint"] = saved.checkpoint(recorder, name)
    fitted = method.fit(train, rng=rng, on_round=recorder, **more)
    recorder.end(fitted)
    return fitted, recorder


def promoted_rule(experiment: Experiment, train: Homes, fitted: Fitted) -> dict[str, float]:
    """How high the rule stands that attackers promote, or would; nothing where a method has no attackers to draw."""
    draw = getattr(build(experiment.method, **experiment.parameters), "attackers_among", None)
    attackers = draw(train, generator(Stream.FITTING, experiment.seed)) if draw else None
    if attackers is None or attackers.promoted is None:
        return {}
    from benchmarks.evaluation.promoted import promoted_rank

    return {"promoted_rank": promoted_rank(fitted, train, attackers)}


def has_log_odds(experiment: Experiment) -> bool:
    """Whether a method's scores are log-odds; a property of the method where that depends on its parameters."""
    return bool(getattr(build(experiment.method, **experiment.parameters), "log_odds", False))
