"""What a run does: fit on the training rules, find the hidden ones, keep what came out.

A method's settings are fixed by now (`benchmarks.tune` chooses them on validation data), so it is fitted on all rules
that are not hidden for test, and test is looked at once for each protocol. With curves, validation is kept apart: see
`benchmarks.runs.history`.
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
from benchmarks.runs.history import Curves, History, Rounds, Told, nobody
from benchmarks.runs.resume import Checkpoints, is_resumable
from datasets import Homes
from datasets.common.environment import commit, peak_megabytes, versions
from datasets.common.random import Stream, generator
from datasets.splits import Split, split


def run_once(
    asked: Experiment, homes: Homes, *, store: Store, threads: int, told: Told = nobody, checkpoints: int = 0
) -> list[Result]:
    """Fit, evaluate by each protocol and keep the results, here and now; an error is kept as well.

    With `checkpoints` every so many rounds what is needed to go on is kept, see `benchmarks.runs.resume`.
    """
    made: list[Result] = []
    keys, code = asked.keys(homes.fingerprint), asked.code
    kept = Checkpoints.of(asked, homes.fingerprint, store, checkpoints)
    try:
        parts = carve(asked, homes)
        curves = None
        if asked.curves:
            curves = Curves.of(parts, every=asked.curves, seed=asked.seed, log_odds=has_log_odds(asked))
        memory = {"before": peak_megabytes()}
        rounds = Rounds(told, curves)
        trained = Trained(asked, homes, parts, *fit(asked, parts.train, rounds, kept))
        seconds = {"fit": rounds.fitting}
        if asked.curves:
            seconds["curves"] = rounds.measuring
        memory["fit"] = peak_megabytes()
        for protocol in asked.protocols:
            begin = time.perf_counter()
            calibration = trained.calibration(protocol, kept)
            calibrated = time.perf_counter()
            evaluation = trained.evaluate(protocol, calibration)
            taken = seconds | {"calibrate": calibrated - begin, "evaluate": time.perf_counter() - calibrated}
            held = memory | {"peak": peak_megabytes()}
            result = trained.result(
                evaluation, calibration, seconds=taken, memory=held, threads=threads, key=keys[protocol], code=code
            )
            made.append(store.save(result, evaluation.homes, evaluation.rules))
        kept.remove()
    except Exception:  # whatever a method of somebody else's raises is part of the record
        error = traceback.format_exc()
        missing = asked.protocols[len(made) :]
        made += [store.fail(failed(asked, keys[protocol], error, threads=threads, code=code)) for protocol in missing]
    return made


def carve(asked: Experiment, homes: Homes) -> Split:
    """The parts of an experiment: rules to fit on and hidden ones, validation kept apart only for curves."""
    return split(homes, asked.split, seed=asked.seed, validation=asked.curves > 0, **asked.split_options)


@dataclass(frozen=True, slots=True)
class Trained:
    """A fitted model on its way to a result: probabilities, then the look at test, then the record."""

    asked: Experiment
    homes: Homes
    parts: Split
    fitted: Fitted
    history: History

    def calibration(self, protocol: str, kept: Checkpoints | None = None) -> Calibration | None:
        """What turns scores into probabilities, where a protocol asks for them."""
        return _calibration(self.asked, self.homes, self.fitted, self.parts, kept) if protocol == "paper" else None

    def evaluate(self, protocol: str, calibration: Calibration | None) -> Evaluation:
        """The hidden rules of test, found or not."""
        return evaluate(self.fitted, self.parts, protocol, part="test", seed=self.asked.seed, calibration=calibration)

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
        """The record of what an evaluation found."""
        homes, parts = self.homes, self.parts
        counts = {"homes": homes.n_homes, "devices": homes.n_devices, "rules": homes.n_rules}
        if self.asked.curves:
            counts["validation rules"] = len(parts.validation)
        return replace(
            _empty(self.asked, key, threads=threads, code=code),
            summary=dict(evaluation.summary),
            calibrated=calibration is not None and calibration.rescales,
            history=self.history,
            seconds=dict(seconds),
            memory=dict(memory),
            counts=counts | {"train rules": parts.train.n_rules, "hidden rules": len(parts.test)},
        )


def failed(asked: Experiment, key: Key, error: str, *, threads: int, code: str) -> Result:
    """The record of a run that did not finish."""
    return replace(_empty(asked, key, threads=threads, code=code), status="failed", error=error)


def _empty(asked: Experiment, key: Key, *, threads: int, code: str) -> Result:
    """A result without numbers; `code` is that at the start of the run."""
    return Result(
        key,
        overrides=asked.overrides,
        suite=asked.suite,
        versions=versions(),
        commit=commit(),
        code=code,
        threads=threads,
        written=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def fit(
    asked: Experiment, train: Homes, rounds: Rounds | None = None, kept: Checkpoints | None = None, of: str = ""
) -> tuple[Fitted, History]:
    """The fitted model, and its history by round; methods that can go on from the checkpoint that is kept of this."""
    rounds = rounds or Rounds()
    method, rng = build(asked.method, **asked.parameters), generator(Stream.FITTING, asked.seed)
    if kept is not None and kept.every and is_resumable(method):
        fitted = method.fit(train, rng=rng, on_round=rounds, checkpoint=kept.checkpoint(rounds, of))
    else:
        fitted = method.fit(train, rng=rng, on_round=rounds)
    rounds.end(fitted)
    return fitted, rounds.history


def has_log_odds(asked: Experiment) -> bool:
    """Whether a method's scores are log-odds; a property of the method where that depends on its parameters."""
    return bool(getattr(build(asked.method, **asked.parameters), "log_odds", False))


def _calibration(
    asked: Experiment, homes: Homes, fitted: Fitted, parts: Split, kept: Checkpoints | None
) -> Calibration | None:
    """Probabilities for what is not log-odds, from validation data that the model of this fit has not seen.

    What has no score gets its probability from there for every method, or losses would not be comparable. Where the
    scores are log-odds and the test leaves nothing unanswered, there is nothing to learn and no second fit.
    """
    log_odds = has_log_odds(asked)
    if log_odds and not _unanswered(evaluate(fitted, parts, "paper", part="test", seed=asked.seed)):
        return None
    if asked.curves:  # validation has been kept apart from this very fit
        return calibrate(fitted, parts, seed=asked.seed, log_odds=log_odds)
    carved = split(homes, asked.split, seed=asked.seed, validation=True, **asked.split_options)
    again, _ = fit(asked, carved.train, None, kept, "calibration")
    return calibrate(again, carved, seed=asked.seed, log_odds=log_odds)


def _unanswered(evaluation: Evaluation) -> float:
    return evaluation.summary["unanswered"] + evaluation.summary["unanswered_non_rules"]
