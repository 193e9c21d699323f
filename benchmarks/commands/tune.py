"""Parameters: `tune`."""

from __future__ import annotations

import argparse

from baselines import registry
from benchmarks.commands.options import folder_to_write, seeds_of, source_of, split_of
from benchmarks.results.records import Trial
from benchmarks.results.status import SIGN
from benchmarks.results.store import Store
from benchmarks.runs.experiment import SplitSource, assignments
from benchmarks.runs.suite import read_data
from benchmarks.tune import FIRST_SEED, METRIC, Study, StudyResult, run_command, tune, tune_all
from datasets.common.cli import say
from datasets.common.errors import DataError


def tune_methods(chosen: argparse.Namespace) -> int:
    """Choose parameters of one method or several on validation data and say how to set them."""
    given = assignments(chosen.settings)
    methods = _tunable(chosen.methods)
    for method in sorted(given.keys() - set(methods)):
        raise DataError(f"--set {method}: `tune {','.join(chosen.methods)}` does not tune {method}")
    data = tuple(_tuning_data(chosen))
    seeds = tuple(seeds_of(chosen.seeds or 1, first=FIRST_SEED))
    confirm = tuple(seeds_of(chosen.confirm, first=max(seeds) + 1))
    studies = [Study(each, given.get(each, {}), data, seeds, confirm, chosen.sampler_seed) for each in methods]
    store = Store(folder_to_write(chosen.results))
    modules = [*chosen.modules, *chosen.more_modules]
    suite = chosen.suite if chosen.suite not in (None, "tuning") else "default"
    if len(studies) == 1:
        _show_study(tune(studies[0], chosen.trials, store=store, quiet=chosen.quiet), studies[0], modules, suite)
        return 0
    by_method, failed = {each.method: each for each in studies}, 0
    for found in tune_all(studies, chosen.trials, store=store, jobs=chosen.jobs, modules=modules, quiet=chosen.quiet):
        try:
            if isinstance(found, DataError):
                raise found
            _show_study(found, by_method[found.method], modules, suite)
        except DataError as error:  # of this method; the others go on
            failed += 1
            say(f"failed: {error}")
    return 1 if failed else 0


def _tunable(methods: list[str]) -> list[str]:
    """The methods of `tune`; for "all" those that can run here and have a parameter to tune."""
    if methods != ["all"]:
        return methods
    found = [name for name in registry.names() if not registry.missing_extra(name)]
    return [name for name in found if getattr(registry.get(name), "SPACE", {})]


def _tuning_data(chosen: argparse.Namespace) -> list[SplitSource]:
    """What the trials of `tune` are measured on: the data of a suite, or as the options say."""
    if chosen.suite is None:
        how = split_of(chosen.split or "holdout")
        track = chosen.track or "types"
        return [SplitSource(source_of(text, track), *how) for text in chosen.data or ["ifttt-synthetic"]]
    for option in ("data", "track", "split"):
        if getattr(chosen, option):
            raise DataError(f"--{option} is what the suite {chosen.suite} says; leave out one of the two")
    return read_data(chosen.suite)


def _show_study(tuned: StudyResult, study: Study, modules: list[str], suite: str) -> None:
    """The best trial, whether it was confirmed, and the command that runs a suite with it."""
    best, first = tuned.best, tuned.trials[0]
    say(f"{tuned.method}: validation {METRIC} {best.value:.4f}, defaults {_trial_value(first)}")
    say(f"{len(tuned.trials)} trials in {tuned.path}")
    if wrong := [trial for trial in tuned.trials if trial.warnings]:
        settings = ", ".join(f"{name}={value}" for name, value in wrong[0].parameters.items()) or "the defaults"
        which = f"the first with {settings}: {'; '.join(wrong[0].warnings)}"
        say(f"{SIGN} trials that went wrong in training and were not chosen: {len(wrong)}, {which}")
    if not best.parameters:
        say("no trial was better than the defaults")
    if tuned.confirmation:
        seeds = ", ".join(map(str, study.confirm_seeds))
        again, usual = map(_trial_value, (tuned.confirmation.best, tuned.confirmation.defaults))
        verdict = "better there too" if tuned.confirmation.confirmed else "not better there: keep the defaults"
        say(f"on splits that no trial has seen (seeds {seeds}): {again}, defaults {usual}; {verdict}")
    kept = tuned.confirmation is None or tuned.confirmation.confirmed
    found = study.fixed | (best.parameters if kept else {})
    if found:
        say(run_command(tuned.method, found, suite=suite, modules=modules))


def _trial_value(trial: Trial) -> str:
    return "failed" if trial.value is None else f"{trial.value:.4f}{SIGN if trial.warnings else ''}"
