"""Does a result come out again with the code of now? One run of each method and data set answers for its other seeds.

    python -m benchmarks restore --results results      # published results in a folder
    python -m benchmarks reproduce --results results --jobs 2

Editing a file makes all results that depend on it results of other code, also where the edit changes no number. Here
the lowest seed of each group of such runs, which differ by their seed only, is run again. If every number of its
summary is the same, to all digits that are stored, the group counts as made by the code of now: its files say so, and
keep the commit, the versions and the times of when they were made. Else they stay as they are, and `run` makes them
again. That other seeds would come out again as well is an inference: code that differs for one seed only is not found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from baselines.registry import get, names
from benchmarks.results.published import rounded
from benchmarks.results.store import Key, Result, Store, load_results
from benchmarks.runs.experiment import Experiment, code_hash, make_experiment, make_source
from benchmarks.runs.scheduler import run_all
from datasets.common.errors import DataError, counted


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs of other code that differ by their seed only, in the order of seeds."""

    runs: tuple[Result, ...]

    @property
    def first(self) -> Result:
        return self.runs[0]

    def __str__(self) -> str:
        key, others = self.first.key, len(self.runs) - 1
        return f"{key}" + (f" (and {counted(others, 'other seed')})" if others else "")


class Difference(NamedTuple):
    """A number that did not come out again."""

    metric: str
    stored: float
    found: float

    def __str__(self) -> str:
        return f"{self.metric} was {self.stored:.6g} and is {self.found:.6g}"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What came of a group: the first difference, why it could not be made, or neither."""

    group: Group
    difference: Difference | None = None
    problem: str = ""

    @property
    def same(self) -> bool:
        return self.difference is None and not self.problem


def outdated(folder: Path, methods: Sequence[str] = ()) -> list[Group]:
    """The finished runs of a folder that other code has made, of these methods only if any are named."""
    groups: dict[str, list[Result]] = {}
    for result in load_results(folder):
        method = result.key.method
        if method not in (methods or names()) or result.code == code_hash(get(method)):
            continue
        groups.setdefault(_without_seed(result.key), []).append(result)
    return [Group(tuple(sorted(runs, key=lambda run: run.key.seed))) for runs in groups.values()]


def reproduce(groups: Sequence[Group], store: Store, *, jobs: int = 1, quiet: bool = False) -> Iterator[Reproduced]:
    """Run the first of each group again; where its numbers are the same, the group counts as made by this code."""
    fits: dict[str, Experiment] = {}  # by the hash of the key without the protocol: one fit for all protocols
    problems: dict[Group, str] = {}
    for group in groups:
        try:
            experiment = experiment_of(group.first)
        except DataError as error:
            problems[group] = str(error)
            continue
        fit = replace(group.first.key, protocol="").hash
        others = fits[fit].protocols if fit in fits else ()
        fits[fit] = experiment.only([*others, *experiment.protocols])
    with TemporaryDirectory() as folder:
        again = Store(Path(folder))
        if fits:
            run_all(list(fits.values()), store=again, jobs=jobs, quiet=quiet)
        for group in groups:
            if group in problems:
                yield Reproduced(group, problem=problems[group])
                continue
            found = again.outcome(group.first.key)
            if found.status != "done":
                yield Reproduced(group, problem=found.failure)
                continue
            difference = next(differences(group.first.summary, found.summary), None)
            if difference is None:
                for run in group.runs:
                    store.accept(run, found.code, commit=found.commit)
            yield Reproduced(group, difference)


def experiment_of(result: Result) -> Experiment:
    """The experiment of a stored run; an error where it cannot be made any more, or not here."""
    key = result.key
    source = make_source(key.data, options=key.data_options | result.overrides.data_options, track=key.track)
    if source.fingerprint() != key.fingerprint:
        raise DataError(f"{key}: the data here is not that of the stored run")
    options = {name: value for name, value in key.split.items() if name not in ("split", "seed", "validation")}
    experiment = make_experiment(
        key.method,
        source,
        parameters=key.parameters,
        split=str(key.split["split"]),
        options=options,
        seed=key.seed,
        protocols=(key.protocol,),
        curves=key.curves,
        suite=result.suite,
    )
    if experiment.keys(key.fingerprint)[key.protocol] != key:
        raise DataError(f"{key}: its method or data has other options now")
    return experiment


def differences(stored: Mapping[str, float], found: Mapping[str, float]) -> Iterator[Difference]:
    """The stored numbers that are not the found ones, also not after the rounding of published results."""
    for metric, value in stored.items():
        now = found.get(metric, math.nan)
        if value not in (now, rounded(now)) and not (math.isnan(value) and math.isnan(now)):
            yield Difference(metric, value, now)


def _without_seed(key: Key) -> str:
    split = {name: value for name, value in key.split.items() if name != "seed"}
    return replace(key, seed=0, split=split).hash
