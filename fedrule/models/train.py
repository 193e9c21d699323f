"""Training a graph method on homes, from their rules to a model that can be saved: what `python -m fedrule train` does.

A share of each home's rules is held out for the test and, of the rest, the same share for validation. The model trains
on what is left, stops early when the validation loss no longer improves, and keeps the best round; then it is tested
once. docs/models.md says more.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import torch

from baselines.calibration import Calibration, calibrate
from baselines.method import Fitted, OnRound, ignore
from datasets.common.environment import versions
from datasets.common.errors import DataError
from datasets.common.random import Stream, generator
from datasets.common.training_warnings import training_warnings
from datasets.homes import Homes
from datasets.readers.filters import keep_common_rules
from datasets.splits import Split, split
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.federated.checkpoint import Checkpoint
from fedrule.methods.federated import Federated
from fedrule.methods.graph_method import GraphMethod
from fedrule.models.card import Scale, TrainingRun
from fedrule.models.file import SavedModel
from fedrule.models.restore import (
    align_vocabulary,
    extended_parameters,
    graph_method,
    merged_counts,
    saved_model,
    training_options,
)
from fedrule.network.score import GraphModel
from fedrule.training.loop import WarmStart

log = logging.getLogger(__name__)

PATIENCE = 10  # rounds without a better validation loss
RATES = ("server_rate", "learning_rate")  # the first one that a method has sets its step size
CONTINUED_RATE = 0.1  # times the first training's rate, so that a few new homes do not undo what was learned from many
METRICS = {
    "ranking": ("mrr", "hr@1", "hr@5", "hr@10", "mrr, closed", "ndcg@10", "hidden", "homes"),
    "paper": ("loss", "auc", "mr", "mr_rt", "hidden"),
}


class Evaluation(Protocol):
    """The result of an evaluation."""

    @property
    def summary(self) -> Mapping[str, float]: ...


class Evaluate(Protocol):
    """Measures a model on the test part of a split, such as `benchmarks.evaluation.evaluate`."""

    def __call__(
        self, fitted: Fitted, split: Split, protocol: str, *, seed: int, calibration: Calibration | None
    ) -> Evaluation: ...


def train(
    homes: Homes,
    method: str | None = None,  # default: graphrule, or that of `continue_from`
    *,
    options: Mapping[str, object] | None = None,  # of the method
    seed: int = 0,
    test: float = 0.2,  # share of each home's rules held out for the test, and of the rest for validation
    patience: int | None = None,  # rounds without a better validation loss before it stops; 0: never; None: see docs
    merge_types: bool = False,  # one device per entity type and home
    min_homes: int = 1,  # leave out rules that fewer homes have between devices of the same types
    on_round: OnRound = ignore,
    continue_from: SavedModel | Path | str | None = None,  # a saved model to continue training on new homes
    checkpoint: Checkpoint | None = None,  # of a federated method: resume from it if it exists
    evaluate: Evaluate | None = None,  # without it the card has no test metrics
) -> SavedModel:
    """A model of these homes with its card; with one thread the same numbers come out bit for bit."""
    if not 0 < test < 1:
        raise DataError(f"test must be in (0, 1), e.g. 0.2, got {test}")
    if not isinstance(homes, Homes):
        raise DataError(f"homes={homes!r}: expected Homes")
    earlier = SavedModel.load(continue_from) if isinstance(continue_from, Path | str) else continue_from
    if earlier is not None and method not in (None, earlier.card.method):
        raise DataError(f"cannot continue training a {earlier.card.method} model as {method}")
    name = earlier.card.method if earlier is not None else method or "graphrule"
    given, homes = homes, keep_common_rules(homes.merged_types() if merge_types else homes, min_homes)
    if not homes.n_rules:
        raise DataError(f"{homes.name}: no rules to learn from; give homes that have some")
    if earlier is not None:
        _refuse_known_homes(earlier, given)
        homes = align_vocabulary(earlier.card, homes)
        _log_new_words(earlier, homes)
    parts = split(homes, "holdout", seed=seed, fraction=test, validation=True)
    _warn_of_small_homes(name, parts)
    built = _build(name, options or {}, test, patience, earlier)
    fit = _fit_of(built, checkpoint)
    private = isinstance(built, Federated) and built.privacy.noisy
    if private and earlier is not None:
        raise DataError(
            f"{name}: a private run begins anew, since its account does not know what {earlier.card.method} has seen"
        )
    if private and checkpoint is not None:
        raise DataError(
            f"{name}: rounds of a private run that are done again would disclose more; train without checkpoint"
        )
    # Who knows the seed of a private run can subtract its noise: nobody does.
    fit_seed = secrets.randbits(62) if private else seed
    start, counts = _private_start(built, parts, fit_seed) if private else _start(built, parts, earlier, seed)
    rounds = _Rounds(on_round)
    resume = {}
    if checkpoint is not None:
        configuration = {"continue_from": None if earlier is None else earlier.digest}
        resume = {"checkpoint": checkpoint.extended(configuration, {"rounds": rounds})}
    fitted = fit(parts.train, rng=generator(Stream.FITTING, fit_seed), on_round=rounds, warm_start=start, **resume)
    calibration = Calibration() if private else _calibration(fitted, built, parts, seed)
    training = TrainingRun(
        data=given.name,
        fingerprint=None if private else given.fingerprint,
        homes=homes.n_homes,
        rules=None if private else homes.n_rules,
        seed=None if private else seed,
        rounds=rounds.kept(fitted, start) if built.patience else rounds.done,
        trained_at=datetime.now(UTC).isoformat(timespec="seconds"),
        warnings=rounds.warnings(built.rounds),
    )
    return saved_model(
        fitted,
        built,
        counts,
        scale=Scale(calibration.slope, calibration.offset),
        trainings=(*(earlier.card.trainings if earlier is not None else ()), training),
        metrics={} if evaluate is None or private else _metrics(evaluate, fitted, parts, seed, calibration),
        versions={"fedrule": version("fedrule"), **versions()},
    )


class _Fit(Protocol):
    """A method's `fit`: `warm_start` has the validation rules, and the model to continue from."""

    def __call__(
        self, train: Homes, *, rng: np.random.Generator, on_round: OnRound, warm_start: WarmStart, **resume: Checkpoint
    ) -> GraphModel: ...


@dataclass(slots=True)
class _Rounds:
    """Callback that keeps what the method reports by round, also in checkpoints."""

    on_round: OnRound
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def done(self) -> int:
        """The last round that did not diverge."""
        return max((int(row["round"]) for row in self.history if not row.get("diverged")), default=0)

    @property
    def best(self) -> int:
        """The first round with the lowest validation loss; 0 where there is none."""
        losses = [(row.get("validation_loss", math.inf), row["round"]) for row in self.history]
        return int(min((each for each in losses if math.isfinite(each[0])), default=(0.0, 0.0))[1])

    def warnings(self, rounds: int) -> tuple[str, ...]:
        """What went wrong in so many rounds; early stopping is what training is to do here."""
        found = training_warnings(self.history, rounds)
        return tuple(each.text for each in found if each.marked and each.kind != "early stopping")

    def kept(self, fitted: GraphModel, start: WarmStart) -> int:
        """The round whose parameters these are; 0 if they are still those of the earlier model."""
        begun = start.parameters or {}
        unchanged = begun and all(torch.equal(fitted.parameters[name], value.double()) for name, value in begun.items())
        return 0 if unchanged else self.best or self.done

    def __call__(self, done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
        self.history.append({"round": float(done)} | dict(values))
        self.on_round(done, of, fitted, values)

    def arrays(self) -> dict[str, npt.NDArray[np.uint8]]:
        return {"history": np.frombuffer(json.dumps(self.history).encode(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.uint8]]) -> None:
        self.history = json.loads(arrays["history"].tobytes())


def _build(
    name: str, options: Mapping[str, object], test: float, patience: int | None, earlier: SavedModel | None
) -> GraphMethod:
    """The method with its options, including the validation share and early stopping."""
    if "validation" in options or "patience" in options:
        raise DataError("validation and patience are not options of the method here; use `test` and `patience`")
    full = dict(options) if earlier is None else training_options(earlier, options)
    built = graph_method(name, full | {"validation": 0.0, "patience": 0})
    rate = next((rate for rate in RATES if hasattr(built, rate)), None)
    if earlier is not None and len(earlier.card.trainings) == 1 and rate is not None and rate not in options:
        full[rate] = getattr(built, rate) * CONTINUED_RATE
    if isinstance(built, Federated) and built.privacy.noisy:
        if patience:
            raise DataError(
                f"{name}: stopping early by rules of homes is outside of the account of privacy; set patience 0"
            )
        return graph_method(name, full | {"validation": 0.0, "patience": 0})
    if patience is None:
        # A rate that decays to zero does its best work at the end: never stop it early, but keep the best round.
        patience = built.rounds if getattr(built, "decay", False) else PATIENCE
    return graph_method(name, full | {"validation": test if patience else 0.0, "patience": patience})


def _fit_of(method: GraphMethod, checkpoint: Checkpoint | None) -> _Fit:
    """Its `fit`, which must take `warm_start`; a third party's method may lack it."""
    fit = getattr(method, "fit", None)
    parameters = inspect.signature(fit).parameters if fit is not None else {}
    if "warm_start" not in parameters:
        raise DataError(
            f"{method.NAME}: {type(method).__name__} needs a `fit` that takes `warm_start` (fedrule/training/loop.py) "
            "and returns a GraphModel, as that of GraphRule does"
        )
    if checkpoint is not None and "checkpoint" not in parameters:
        raise DataError(f"{method.NAME} cannot resume from checkpoints; only federated methods can")
    return cast(_Fit, fit)


def _start(built: GraphMethod, parts: Split, earlier: SavedModel | None, seed: int) -> tuple[WarmStart, Statistics]:
    """What training starts from, and the counts to save with the model."""
    if earlier is None:
        counts = Statistics.of(parts.train, ValidRules.of(parts.train), all_patterns=built.evidence > 0)
        return WarmStart(counts=counts, validation=parts.validation), counts
    counts = merged_counts(earlier, parts.train)
    scorer = built.scorer(counts.valid, counts)
    parameters = extended_parameters(earlier, scorer, torch.Generator().manual_seed(seed))
    return WarmStart(parameters, counts, parts.validation), counts


def _private_start(built: GraphMethod, parts: Split, seed: int) -> tuple[WarmStart, Statistics]:
    """The same with differential privacy: counts have noise, and nothing is validated on rules of homes.

    Where the method counts nothing, all rules of the vocabularies are valid, and their counts are 0.
    """
    valid, counts = built.count(parts.train, generator(Stream.FITTING, seed))
    names = parts.train.types, parts.train.relations
    counts = counts or replace(Statistics.of_nobody(*names, valid, all_patterns=built.evidence > 0), noisy=True)
    return WarmStart(counts=counts), counts


def _calibration(fitted: GraphModel, built: GraphMethod, parts: Split, seed: int) -> Calibration:
    """How scores become log-odds, from the validation rules."""
    if not len(parts.validation):
        return Calibration()
    # Without early stopping the paper's loss makes scores far too confident.
    log_odds = built.log_odds and built.patience > 0
    calibration = calibrate(fitted, parts, seed=seed, log_odds=log_odds)
    if calibration.slope < 0:  # few validation rules, or nothing learned: probabilities must not rise down the list
        return replace(calibration, slope=0.0, offset=0.0)
    return calibration


def _metrics(
    evaluate: Evaluate, fitted: GraphModel, parts: Split, seed: int, calibration: Calibration
) -> dict[str, dict[str, float]]:
    """By protocol, on the test rules; empty if there are none."""
    metrics: dict[str, dict[str, float]] = {}
    for protocol, names in METRICS.items() if len(parts.test) else ():
        summary = evaluate(fitted, parts, protocol, seed=seed, calibration=calibration).summary
        metrics[protocol] = {name: summary[name] for name in names if math.isfinite(summary[name])}
    return metrics


def _refuse_known_homes(earlier: SavedModel, homes: Homes) -> None:
    """Their test rules may be among those that the model was trained on."""
    for training in earlier.card.trainings:
        if training.fingerprint == homes.fingerprint:
            raise DataError(
                f"{homes.name}: the model was trained on these homes on {training.trained_at}; continue with homes "
                "that it has not seen, or train from scratch with more rounds"
            )


def _warn_of_small_homes(name: str, parts: Split) -> None:
    """Homes of one rule keep it, so there may be nothing to hold out."""
    few = f"{name}: homes of {parts.train.name} have too few rules to hold any out"
    if not len(parts.test):
        log.warning("%s for the test; the model has no test metrics", few)
    if not len(parts.validation):
        log.warning("%s for validation; all rounds are trained and scores are not calibrated", few)


def _log_new_words(earlier: SavedModel, homes: Homes) -> None:
    types, relations = homes.types[len(earlier.card.types) :], homes.relations[len(earlier.card.relations) :]
    if types or relations:
        new = [*types, *map(str, relations)]
        more = f" and {len(new) - 5} more" if len(new) > 5 else ""
        log.info("new to the model: %d types, %d relations: %s%s", len(types), len(relations), ", ".join(new[:5]), more)
