"""What `python -m benchmarks tune` has tried: a study of one method is one file, tuning/<method>-<hash>.json."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from datasets.common.files import Json

FOLDER = "tuning"  # of the results
NOT_A_STUDY = "not a study of `python -m benchmarks tune`"


@dataclass(frozen=True, slots=True)
class Trial:
    """One choice of parameters and its score on validation data."""

    parameters: dict[str, Json]  # none for the defaults
    value: float | None  # the mean over data sets and seeds; None if it failed
    values: list[float]  # of each data set and seed
    seconds: float
    error: str = ""
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Study:
    """Trials of one method's settings on validation rules."""

    method: str
    data: tuple[str, ...]  # that the settings were tried on
    split: str
    seeds: tuple[int, ...]
    metric: str
    fixed: dict[str, Json]  # parameters that were set and not varied
    varied: tuple[str, ...]  # names of parameters
    defaults: dict[str, Json]  # all parameters
    trials: tuple[Trial, ...]  # those without parameters are of the defaults
    file: str  # below the folder of studies

    @property
    def answered(self) -> list[Trial]:
        """The trials that did not fail, best first; the earlier of equal ones before the later."""
        there = [trial for trial in self.trials if trial.value is not None and math.isfinite(trial.value)]
        return sorted(there, key=lambda trial: -(trial.value or 0.0))

    @property
    def of_defaults(self) -> Trial | None:
        """The trial of the method's defaults; None where it failed or is not there."""
        return next((trial for trial in self.answered if not trial.parameters), None)


def load_studies(results: Path) -> tuple[list[Study], list[tuple[str, str]]]:
    """The studies among results by method and file; name and reason of each file that cannot be used."""
    found: list[Study] = []
    problems: list[tuple[str, str]] = []
    for path in sorted((results / FOLDER).glob("*.json")):
        try:
            found.append(_study(path))
        except KeyError as error:
            problems.append((f"{FOLDER}/{path.name}", f"{NOT_A_STUDY}: it has no {error}"))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            problems.append((f"{FOLDER}/{path.name}", f"{NOT_A_STUDY}: {error}"))
    return sorted(found, key=lambda study: (study.method, study.data, study.file)), problems


def _study(path: Path) -> Study:
    content = json.loads(path.read_text("utf-8"))
    key, trials = content["key"], tuple(Trial(**trial) for trial in content["trials"])
    for trial in trials:
        if not isinstance(trial.parameters, dict) or not isinstance(trial.value, float | int | None):
            raise ValueError(f"a trial with the value {trial.value!r} and the parameters {trial.parameters!r:.60}")
    return Study(
        method=str(key["method"]),
        data=tuple(str(source["data"]) for source in key["data"]),
        split=str(key["split"]),
        seeds=tuple(int(seed) for seed in key["seeds"]),
        metric=str(key["metric"]),
        fixed=dict(key["fixed"]),
        varied=tuple(map(str, key["space"])),
        defaults=dict(key["defaults"]),
        trials=trials,
        file=path.name,
    )
