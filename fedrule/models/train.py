"""Training a graph method on homes, from their rules to a model that can be saved: what `python -m fedrule train` does.

Of the rules of each home a share is kept for the test and, of what is left, the same share again to watch. The model
learns from the rest, stops when the watched loss has not become better for some rounds, and goes back to the best one;
then it is tested once. docs/models.md says more.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch

from baselines.method import Fitted, OnRound, ignore
from datasets.common.errors import DataError
from datasets.homes import Homes
from datasets.splits import Split, split
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.methods.graph_method import GraphMethod
from fedrule.model.score import GraphModel
from fedrule.models.card import Scale, Taught
from fedrule.models.extend import added_up, grown, same_shape, same_words
from fedrule.models.file import SavedModel
from fedrule.models.restore import graph_method, saved_model
from fedrule.training.loop import WarmStart

log = logging.getLogger(__name__)

FITTING = 2  # the stream of the seed that benchmarks fit with: the splits draw from 0 and 1
PATIENCE = 10  # rounds without a better watched loss
RATES = ("server_rate", "learning_rate")  # the first that a method has is how long its steps are
SLOWER = 0.1  # of the first lesson's rate in later ones, so that a few new homes do not undo what many have taught
KEPT = {
    "ranking": ("mrr", "hr@1", "hr@5", "hr@10", "ndcg@10", "hidden", "homes"),
    "paper": ("loss", "auc", "mr", "mr_rt", "hidden"),
}


def train(
    homes: Homes,
    method: str | None = None,  # graphrule, or that of `go_on_from`
    *,
    options: Mapping[str, object] | None = None,  # of the method
    seed: int = 0,
    test: float = 0.2,  # share of each home's rules kept for the test, and of the rest to watch
    patience: int | None = None,  # rounds without a better watched loss before it stops; 0: never; None: see docs
    merge_types: bool = False,  # one device per entity type and home
    on_round: OnRound = ignore,
    go_on_from: SavedModel | Path | str | None = None,  # a model to teach these homes, which it has not seen
) -> SavedModel:
    """A model of these homes with its card; with one thread the same numbers come out bit for bit."""
    if not 0 < test < 1:
        raise DataError(f"test {test}: the share of rules to keep back is between 0 and 1, e.g. 0.2")
    if not isinstance(homes, Homes):
        raise DataError(f"homes={homes!r}: expected Homes")
    earlier = SavedModel.load(go_on_from) if isinstance(go_on_from, Path | str) else go_on_from
    name = _name(method, earlier)
    given, homes = homes, homes.merged_types() if merge_types else homes
    if not homes.n_rules:
        raise DataError(f"{homes.name}: not one rule to learn from; give homes that have automated something")
    if earlier is not None:
        _refuse_known_homes(earlier, given)
        homes = same_words(earlier.card, homes)
        _tell_what_is_new(earlier, homes)
    parts = split(homes, "holdout", seed=seed, fraction=test, validation=True)
    _warn_of_small_homes(name, parts)
    built = _built(name, options or {}, test, patience, earlier)
    start, counts = _start(built, parts, earlier, seed)
    rounds = _Rounds(on_round)
    fitted = _fit_of(built)(parts.train, rng=np.random.default_rng([seed, FITTING]), on_round=rounds, warm_start=start)
    scale, metrics = _measured(fitted, built, parts, seed)
    kept = rounds.kept(fitted, start) if built.patience else rounds.done
    lesson = _taught(given, homes, seed, kept)
    return saved_model(
        fitted,
        built,
        counts,
        scale=scale,
        lessons=(*(earlier.card.lessons if earlier is not None else ()), lesson),
        metrics=metrics,
        versions=_versions(),
    )


class _Fit(Protocol):
    """How a method is taught here: `warm_start` has the validation rules, and the parameters to continue from."""

    def __call__(
        self, train: Homes, *, rng: np.random.Generator, on_round: OnRound, warm_start: WarmStart
    ) -> GraphModel: ...


@dataclass(slots=True)
class _Rounds:
    """Listens to training: how many rounds there were, and which did best on the watched rules."""

    told: OnRound
    done: int = 0
    best: int = 0
    lowest: float = math.inf

    def kept(self, fitted: GraphModel, warm_start: WarmStart) -> int:
        """The round whose parameters these are; 0 for those that it went on from."""
        begun = warm_start.parameters or {}
        as_it_was = begun and all(torch.equal(fitted.parameters[name], value.double()) for name, value in begun.items())
        return 0 if as_it_was else self.best or self.done

    def __call__(self, done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
        if not values.get("diverged"):
            self.done = done
        if values.get("validation_loss", math.inf) < self.lowest:
            self.best, self.lowest = done, values["validation_loss"]
        self.told(done, of, fitted, values)


def _name(method: str | None, earlier: SavedModel | None) -> str:
    if earlier is None:
        return method or "graphrule"
    if method not in (None, earlier.card.method):
        raise DataError(f"the model to go on from is of {earlier.card.method} and cannot become one of {method}")
    return earlier.card.method


def _built(
    name: str, options: Mapping[str, object], test: float, patience: int | None, earlier: SavedModel | None
) -> GraphMethod:
    """The method with its options, among them what is watched and when it stops."""
    if "validation" in options or "patience" in options:
        raise DataError("options validation and patience: say it by `test`, e.g. 0.2, and by `patience` itself")
    full = dict(options) if earlier is None else same_shape(earlier, options)
    built = graph_method(name, full | {"validation": 0.0, "patience": 0})
    _fit_of(built)  # or it is refused before anything is done
    rate = next((rate for rate in RATES if hasattr(built, rate)), None)
    if earlier is not None and len(earlier.card.lessons) == 1 and rate is not None and rate not in options:
        full[rate] = earlier.card.options[rate] * SLOWER
    if patience is None:
        # A rate that falls to zero does its best work at the end: it is never stopped, and the best round is kept.
        patience = built.rounds if getattr(built, "decay", False) else PATIENCE
    return graph_method(name, full | {"validation": test if patience else 0.0, "patience": patience})


def _fit_of(method: GraphMethod) -> _Fit:
    """Its `fit`, which has to take `warm_start`; a method of somebody else may have another one, or none."""
    fit = getattr(method, "fit", None)
    if fit is None or "warm_start" not in inspect.signature(fit).parameters:
        raise DataError(
            f"{method.NAME}: {type(method).__name__} needs a `fit` that takes `warm_start` "
            "(fedrule/training/loop.py) and returns a GraphModel, as that of GraphRule does"
        )
    return cast(_Fit, fit)


def _start(built: GraphMethod, parts: Split, earlier: SavedModel | None, seed: int) -> tuple[WarmStart, Statistics]:
    """What training begins with, and the counts that the model is saved with."""
    if earlier is None:
        counts = Statistics.of(parts.train, ValidRules.of(parts.train), whole=built.evidence > 0)
        return WarmStart(counts=counts, validation=parts.validation), counts
    counts = added_up(earlier, parts.train)
    scorer = built.scorer(counts.valid, counts)
    parameters = grown(earlier, scorer, torch.Generator().manual_seed(seed))
    return WarmStart(parameters, counts, parts.validation), counts


def _measured(
    fitted: GraphModel, built: GraphMethod, parts: Split, seed: int
) -> tuple[Scale, dict[str, dict[str, float]]]:
    """How scores become log-odds, from the watched rules, and the metrics on those kept for the test."""
    from benchmarks.evaluation.evaluate import evaluate
    from benchmarks.evaluation.paper import Calibration, calibrate

    calibration = Calibration()
    if len(parts.validation):
        # Without patience nobody stops the paper's loss before its scores are far too sure.
        log_odds = built.log_odds and built.patience > 0
        calibration = calibrate(fitted, parts, seed=seed, log_odds=log_odds)
        if calibration.slope < 0:  # few watched rules, or nothing learned: no list may become likelier on its way down
            calibration = replace(calibration, slope=0.0, offset=0.0)
    metrics: dict[str, dict[str, float]] = {}
    if len(parts.test):
        for protocol, names in KEPT.items():
            summary = evaluate(fitted, parts, protocol, seed=seed, calibration=calibration).summary
            metrics[protocol] = {name: summary[name] for name in names if math.isfinite(summary[name])}
    return Scale(calibration.slope, calibration.offset), metrics


def _taught(given: Homes, homes: Homes, seed: int, rounds: int) -> Taught:
    """What the card says of this training; `given` are the homes before anything was merged."""
    return Taught(
        data=given.name,
        fingerprint=given.fingerprint,
        homes=homes.n_homes,
        rules=homes.n_rules,
        seed=seed,
        rounds=rounds,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _refuse_known_homes(earlier: SavedModel, homes: Homes) -> None:
    """The rules kept for the test would be among those that it was told before."""
    for lesson in earlier.card.lessons:
        if lesson.fingerprint == homes.fingerprint:
            raise DataError(
                f"{homes.name}: the model has learned from these very homes on {lesson.made}; going on is for homes "
                "that it has not seen. Train anew, with more rounds if that is what is wanted"
            )


def _warn_of_small_homes(name: str, parts: Split) -> None:
    """Homes of one rule keep it: there may be nothing to test on, or to watch."""
    few = f"{name}: homes of {parts.train.name} have too few rules to keep any back"
    if not len(parts.test):
        log.warning("%s for a test; the model has no metrics", few)
    if not len(parts.validation):
        log.warning("%s to watch; it trains all rounds, and probabilities are as the scores say", few)


def _tell_what_is_new(earlier: SavedModel, homes: Homes) -> None:
    types, relations = homes.types[len(earlier.card.types) :], homes.relations[len(earlier.card.relations) :]
    if types or relations:
        new = [*types, *map(str, relations)]
        more = f" and {len(new) - 5} more" if len(new) > 5 else ""
        counted = f"{len(types)} types and {len(relations)} relations"
        log.info("%s new to the model are learned: %s%s", counted, ", ".join(new[:5]), more)


def _versions() -> dict[str, str]:
    from benchmarks.runs.environment import versions

    return {"fedrule": version("fedrule"), **versions()}
