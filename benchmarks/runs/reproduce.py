"""Does the current code reproduce stored results? One seed of each method and data set is run again for all its seeds.

    python -m benchmarks restore --results results      # published results in a folder
    python -m benchmarks reproduce --results results --jobs 2

Editing a file makes all results that depend on it results of other code, even if the edit changes no number. Here the
lowest seed of each group of such runs, which differ by their seed only, is run again. If every number of its summary is
the same, to all digits that are stored, the group counts as made by the current code: its files say so, and keep the
commit, the versions and the times of when they were made. Otherwise they stay as they are, and `run` runs them again.
Seeds that were made by different code are groups of their own. That the other seeds of a group would be reproduced as
well is an inference: a change that shows on another seed only is missed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from baselines.registry import get, names
from benchmarks.results.published import DIGITS, EARLIER_DIGITS, rounded
from benchmarks.results.store import Key, Result, Store, load_results
from benchmarks.runs.experiment import Experiment, code_hash, make_experiment, make_source
from benchmarks.runs.scheduler import run_all
from datasets.common.errors import DataError, counted


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs of one other code that differ by their seed only, in the order of seeds."""

    runs: tuple[Result, ...]

    @property
    def first(self) -> Result:
        return self.runs[0]

    def __str__(self) -> str:
        key, others = self.first.key, len(self.runs) - 1
        return f"{key}" + (f" (and {counted(others, 'other seed')})" if others else "")


class Difference(NamedTuple):
    """A number that was not reproduced."""

    metric: str
    stored: float
    found: float

    def __str__(self) -> str:
        return f"{self.metric} was {self.stored:.6g} and is {self.found:.6g}"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of a group: the first difference, why it could not be run again, or neither."""

    group: Group
    difference: Difference | None = None
    problem: str = ""

    @property
    def same(self) -> bool:
        return self.difference is None and not self.problem


def outdated(folder: Path, methods: Sequence[str] = ()) -> list[Group]:
    """The finished runs of a folder by other code than the current one; of these methods only, if any are named."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in load_results(folder):
        method = result.key.method
        if method not in (methods or names()) or result.code == code_hash(get(method)):
            continue
        groups.setdefault((_without_seed(result.key), result.code), []).append(result)
    return [Group(tuple(sorted(runs, key=lambda run: run.key.seed))) for runs in groups.values()]


def reproduce(groups: Sequence[Group], store: Store, *, jobs: int = 1, quiet: bool = False) -> list[Reproduction]:
    """Run the first of each group again; where its numbers are the same, the group counts as made by this code.

    It counts from then on, so that an interruption loses only what is running.
    """
    fits: dict[str, Experiment] = {}  # by the hash of the key without the protocol: one fit for all protocols
    found: dict[Group, Reproduction] = {}
    for group in groups:
        try:
            experiment = experiment_of(group.first)
        except DataError as error:
            found[group] = Reproduction(group, problem=str(error))
            continue
        fit = replace(group.first.key, protocol="").hash
        others = fits[fit].protocols if fit in fits else ()
        fits[fit] = experiment.only([*others, *experiment.protocols])
    group_of = {group.first.key.hash: group for group in groups}

    def compare(result: Result) -> None:
        group = group_of[result.key.hash]
        if result.status == "failed":
            found[group] = Reproduction(group, problem=result.failure)
            return
        difference = next(differences(group.first.summary, result.summary), None)
        if difference is None:
            for run in group.runs:
                store.accept(run, result.code, commit=result.commit)
        found[group] = Reproduction(group, difference)

    if fits:
        with TemporaryDirectory() as folder:
            run_all(list(fits.values()), store=Store(Path(folder)), jobs=jobs, quiet=quiet, on_result=compare)
    return [found[group] for group in groups]


def experiment_of(result: Result) -> Experiment:
    """The experiment of a stored run; an error where it can no longer be run, or not here."""
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
    """The stored numbers that differ from the found ones, even rounded as published results are."""
    for metric, value in stored.items():
        now = found.get(metric, math.nan)
        if value not in (now, *(rounded(now, digits) for digits in (DIGITS, *EARLIER_DIGITS))) and not (
            math.isnan(value) and math.isnan(now)
        ):
            yield Difference(metric, value, now)


def _without_seed(key: Key) -> str:
    split = {name: value for name, value in key.split.items() if name != "seed"}
    return replace(key, seed=0, split=split).hash
