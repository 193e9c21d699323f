"""Choose hyperparameters on validation data, with the same number of trials for every method.

A method says in its class attribute SPACE what may be varied:

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "factors": ("int", 8, 256),  "alpha": ("log", 0.1, 100.0),  "dropout": ("float", 0.0, 0.8),
        "solver": ("choice", "als", "bpr"),
    }

The first trial is the method's defaults, the others are Optuna's, seeded: nine at random, those behind them by the
tree-structured Parzen estimator. Every trial is stored as it ends; the same study called again repeats the choices and
takes the stored values, so a resumed study gives what an uninterrupted one would have. A trial in which training
diverged, or in which many clients' updates were refused, keeps its value but is never chosen.

The best of many trials is lucky as well as good. So it is measured once more beside the defaults, on splits that no
trial has seen, and is confirmed only if it is better there too.

Tuning has splits of its own, of seeds from FIRST_SEED on, which no leaderboard has; what they hide are the validation
rules. So a trial is measured exactly as a result is. (A validation part beside a test part would not do: the home's
test rules would be candidates too, and mistakes wherever they are ranked first. On `ifttt-fedrule` that turned an MRR
of 0.73 into 0.28, and changed the order of methods.) The splits cut the same homes, though: validation rules of one
seed are partly test rules of another, so that a tuned method knows a little about the homes that it is reported on.
Where that matters, tune on other homes: another data set, or `wyze-synthetic` with another seed.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import os
import shlex
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

from baselines.registry import get
from benchmarks.evaluation import evaluate
from benchmarks.results.records import STUDIES, STUDY_FORMAT, Confirmation, Trial, as_json, read_record, write_record
from benchmarks.results.records import Study as StudyRecord
from benchmarks.results.store import Store, headline_suffix
from benchmarks.runs.experiment import Experiment, Source, SplitSource, code_hash, make_experiment
from benchmarks.runs.run import counts_of, fit
from datasets.common.cli import import_all
from datasets.common.environment import commit, set_threads, versions
from datasets.common.errors import DataError, error_line, install_hint, unknown
from datasets.common.files import Json
from datasets.common.options import read
from datasets.common.progress import progress
from datasets.common.training_warnings import FAILED
from datasets.splits import Split, split

if TYPE_CHECKING:
    from optuna.trial import Trial as OptunaTrial

log = logging.getLogger(__name__)

METRIC = "mrr"  # of protocol ranking, on the list that the headline of each data set is of
FIRST_SEED = 100  # of the splits that are tuned on; results are reported on 0, 1, 2, ...
KINDS = ("int", "float", "log", "choice")

Space: TypeAlias = Mapping[str, tuple[object, ...]]
Parameters: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """A finished study."""

    method: str
    trials: list[Trial]
    confirmation: Confirmation | None  # None where the defaults are best, or where nothing was to be confirmed
    path: Path

    @property
    def best(self) -> Trial:
        """The first of the best trials, without those whose training went wrong."""
        answered = [trial for trial in self.trials if trial.trusted]
        if not answered:
            last = self.trials[-1]
            why = "; ".join(last.warnings) or last.error
            raise DataError(f"{self.method}: every trial failed, the last with: {why}")
        return max(answered, key=lambda trial: trial.value or 0.0)


@dataclass(frozen=True, slots=True)
class Study:
    """What is tuned on what; all of it decides the file of the trials."""

    method: str
    fixed: dict[str, object]  # parameters that are set and not varied
    data: tuple[SplitSource, ...]
    seeds: tuple[int, ...]  # of the splits and fits
    confirm_seeds: tuple[int, ...] = ()  # of the splits on which the best trial is measured again; none: it is not
    seed: int = 0  # of the choices

    def __post_init__(self) -> None:
        if again := set(self.seeds) & set(self.confirm_seeds):
            raise DataError(f"split seed {min(again)} is one that the trials are chosen on; confirm on others")
        if reported := [seed for seed in (*self.seeds, *self.confirm_seeds) if seed < FIRST_SEED]:
            raise DataError(
                f"tuning on split seed {reported[0]} would look at what results hide; take seeds from {FIRST_SEED} on"
            )

    def space(self) -> Space:
        """The parameters that vary: the method's SPACE without the fixed ones."""
        space: Space = getattr(get(self.method), "SPACE", {})
        left = {name: entry for name, entry in space.items() if name not in self.fixed}
        if not left:
            raise DataError(f"{self.method} has nothing to tune: its SPACE has no parameter that is not fixed")
        for name, (kind, *_) in left.items():
            if kind not in KINDS:
                raise unknown(f"kind of range in SPACE of {self.method}, {name}:", str(kind), KINDS)
        return left

    def experiment(self, data: SplitSource, parameters: Mapping[str, object], seed: int) -> Experiment:
        """One fit of the study."""
        given = {**self.fixed, **parameters}
        how = {"split": data.split, "options": data.split_options, "seed": seed, "protocols": ("ranking",)}
        return make_experiment(self.method, data.source, parameters=given, **how)  # type: ignore[arg-type]

    def record(self) -> StudyRecord:
        """Without trials; it must be equal for the trials of two studies to be the same."""
        homes = [
            {
                "data": each.source.data,
                "options": each.source.options,
                "track": each.source.track,
                "split": each.split,
                "split_options": each.split_options,
                "fingerprint": each.source.fingerprint(),
                "metric": metric(each.source),
            }
            for each in self.data
        ]
        own = {name: value for name, value in asdict(self).items() if name != "data"}
        defaults = self.experiment(self.data[0], {}, self.seeds[0]).parameters
        about = {**own, "space": self.space(), "defaults": defaults, "data": homes, "metric": METRIC}
        record: StudyRecord = read(StudyRecord, as_json(about, "study"), where="study")
        return record


def metric(source: Source) -> str:
    """What a trial is measured by on this data: the headline of its leaderboard."""
    return METRIC + headline_suffix(counts_of(source.load()))


def tune(study: Study, trials: int, *, store: Store, quiet: bool = False) -> StudyResult:
    """Run, or resume, a study of this many trials."""
    if importlib.util.find_spec("optuna") is None:
        raise DataError(f"tuning needs {install_hint('tune')}")
    if trials < 1:
        raise DataError(f"--trials must be at least 1, got {trials}")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    record = study.record()
    path = store.folder / STUDIES / record.file
    stored = _stored(path, record)
    kept = {_text(trial.parameters): trial for trial in _usable(study, stored.trials)}
    record = replace(record, confirmation=stored.confirmation)
    space, parts = study.space(), _parts(study, study.seeds)
    chooser = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=study.seed))
    done: list[Trial] = []

    def measured(parameters: Parameters) -> Trial:
        trial = kept.get(_text(parameters)) or _try(study, parameters, parts)
        kept[_text(parameters)] = trial
        done.append(trial)
        write_record(path, replace(record, trials=tuple(kept.values())), STUDY_FORMAT)
        if trial.value is None:
            log.warning("failed: %s %s: %s", study.method, parameters, error_line(trial.error))
        for warning in trial.warnings:
            log.warning("not to be chosen: %s %s: %s", study.method, parameters, warning)
        best = max((each.value or 0.0 for each in done if each.trusted), default=0.0)
        bar.note(f"{study.method}: {METRIC} {best:.4f}")
        bar.step()
        return trial

    with progress(trials, "trial", quiet=quiet) as bar:
        first, known = measured({}), _defaults(study, space)
        if first.trusted and first.value is not None and known is not None:
            chooser.enqueue_trial(known)  # so that Optuna learns from it as well
            trial = chooser.ask()
            for name, entry in space.items():
                _choose(trial, name, entry)
            chooser.tell(trial, first.value)
        for _ in range(trials - 1):
            trial = chooser.ask()
            tried = measured({name: _choose(trial, name, entry) for name, entry in space.items()})
            if tried.trusted:
                chooser.tell(trial, tried.value)
            else:
                chooser.tell(trial, state=optuna.trial.TrialState.FAIL)
        bar.note(f"{study.method}: confirming")
        found = StudyResult(study.method, done, None, path)
        confirmation = _confirm(study, found, stored.confirmation)
    write_record(path, replace(record, trials=tuple(kept.values()), confirmation=confirmation), STUDY_FORMAT)
    return replace(found, confirmation=confirmation)


def _confirm(study: Study, found: StudyResult, stored: Confirmation | None) -> Confirmation | None:
    """The best trial and the defaults on splits that no trial has seen."""
    if not study.confirm_seeds or not any(trial.trusted for trial in found.trials) or not found.best.parameters:
        return None
    if (
        stored is not None
        and stored.best.parameters == found.best.parameters
        and len(_usable(study, stored.trials)) == 2
    ):
        return stored
    parts = _parts(study, study.confirm_seeds)
    return Confirmation(_try(study, {}, parts), _try(study, found.best.parameters, parts))


def tune_all(
    studies: Sequence[Study],
    trials: int,
    *,
    store: Store,
    jobs: int = 1,
    modules: Sequence[str] = (),
    quiet: bool = False,
) -> Iterator[StudyResult | DataError]:
    """Run, or resume, several studies, each in a process of its own; as each ends, its result or why it has none.

    `modules` are imported there first, for methods and data sets that are not ours.
    """
    with (
        ProcessPoolExecutor(
            jobs, mp_context=get_context("spawn"), max_tasks_per_child=1, initializer=_end_with_parent
        ) as pool,
        progress(len(studies), "method", quiet=quiet) as bar,
    ):
        waiting = {pool.submit(_tune_alone, study, trials, store, modules): study.method for study in studies}
        for future in as_completed(waiting):
            bar.note(waiting[future])
            bar.step()
            error = future.exception()
            yield future.result() if error is None else DataError(f"{waiting[future]}: {error_line(str(error))}")


def _end_with_parent() -> None:
    """End this process when the one that started it is killed; by itself it would finish its study first."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _tune_alone(study: Study, trials: int, store: Store, modules: Sequence[str]) -> StudyResult:
    set_threads(1)
    import_all(modules)
    return tune(study, trials, store=store, quiet=True)


def _parts(study: Study, seeds: Sequence[int]) -> dict[tuple[int, int], Split]:
    """The splits by the data's position in the study and the seed."""
    return {
        (at, seed): split(data.source.load(), data.split, seed=seed, **data.split_options)
        for at, data in enumerate(study.data)
        for seed in seeds
    }


def run_command(
    method: str, parameters: Mapping[str, object], *, suite: str = "default", modules: Sequence[str] = ()
) -> str:
    """The shell command that runs a method with these parameters."""
    words = ["python", "-m", "benchmarks", "run", suite, "--methods", method]
    words += [word for module in modules for word in ("--import", module)]
    words += [word for name, value in parameters.items() for word in ("--set", f"{method}.{name}={_spelled(value)}")]
    return shlex.join(words)


def _spelled(value: object) -> str:
    """A value as --set takes it."""
    if isinstance(value, list | tuple):
        return ",".join(map(_spelled, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _try(study: Study, parameters: Parameters, parts: Mapping[tuple[int, int], Split]) -> Trial:
    """Fit on train and evaluate on what the splits of tuning hide; no reported split is touched."""
    begin = time.perf_counter()
    values: list[float] = []
    warnings: list[str] = []
    error = ""
    try:
        for (at, seed), part in parts.items():
            data = study.data[at]
            fitted, recorder = fit(study.experiment(data, parameters, seed), part.train)
            where = f"{data.source.data}, {data.source.track}, seed {seed}"
            warnings += [f"{where}: {each.text}" for each in recorder.warnings if each.kind in FAILED]
            found = evaluate(fitted, part, "ranking", seed=seed)
            values.append(found.summary[metric(data.source)])
    except Exception:  # settings that a method cannot work with are a finding too
        error = traceback.format_exc()
    value = None if error else _average(values, len(study.data))
    seconds, code = time.perf_counter() - begin, code_hash(get(study.method))
    return Trial(parameters, value, values, seconds, error, commit(), versions(), warnings, code)


def _average(values: Sequence[float], n_sources: int) -> float:
    """Of the values by data set and seed: the mean over seeds, and of these the geometric mean over data sets.

    So a gain of a tenth counts the same on a data set with an MRR of 0.08 as on one with 0.7.
    """
    n_seeds = len(values) // n_sources
    means = [math.fsum(values[at : at + n_seeds]) / n_seeds for at in range(0, len(values), n_seeds)]
    return float(math.prod(means) ** (1 / n_sources))


def _choose(trial: OptunaTrial, name: str, entry: Sequence[object]) -> Json:
    kind, *bounds = entry
    if kind == "choice":
        # Optuna compares choices by value; as JSON, lists and None are choices like any other.
        return json.loads(trial.suggest_categorical(name, [json.dumps(as_json(b, name)) for b in bounds]))  # type: ignore[no-any-return]
    low, high = bounds
    if kind == "int":
        return trial.suggest_int(name, int(str(low)), int(str(high)))
    return trial.suggest_float(name, float(str(low)), float(str(high)), log=kind == "log")


def _defaults(study: Study, space: Space) -> dict[str, object] | None:
    """The method's own values for what varies, as Optuna is given them; None where one is outside of its range."""
    defaults = study.experiment(study.data[0], {}, study.seeds[0]).parameters
    found: dict[str, object] = {}
    for name, (kind, *bounds) in space.items():
        value = defaults[name]
        if kind == "choice":
            inside, found[name] = value in bounds, json.dumps(as_json(value, name))
        else:
            low, high = (float(str(bound)) for bound in bounds)
            inside, found[name] = isinstance(value, int | float) and low <= value <= high, value
        if not inside:
            return None
    return found


def _stored(path: Path, record: StudyRecord) -> StudyRecord:
    """The study as an earlier call left it."""
    if not path.exists():
        return record
    try:
        stored = read_record(path, StudyRecord, STUDY_FORMAT)
    except ValueError as error:
        raise DataError(f"{path} cannot be read ({error}); move it away to start this study again") from None
    if replace(stored, trials=(), confirmation=None) != record:
        raise DataError(f"{path} belongs to another study; move it away")
    return stored


def _usable(study: Study, trials: Sequence[Trial]) -> list[Trial]:
    """Without those that failed or are of other code, which are tried again."""
    code = code_hash(get(study.method))
    return [trial for trial in trials if trial.value is not None and trial.code == code]


def _text(parameters: Parameters) -> str:
    return json.dumps(parameters, sort_keys=True)
