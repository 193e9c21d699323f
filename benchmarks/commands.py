"""The commands of `python -m benchmarks`, a function each."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

from baselines import registry
from benchmarks.results.compare import ALPHA, Panel, compare, holm, lower_is_better, no_metric
from benchmarks.results.curves import curves_table, runs_table
from benchmarks.results.descriptions import FILE as DESCRIPTIONS
from benchmarks.results.descriptions import MethodDescription, ParameterDescription, write_descriptions
from benchmarks.results.formulations import FORMULATIONS, OTHER, federated_method, formulation_of
from benchmarks.results.leaderboard import Board, boards, interval_scope, leaderboard
from benchmarks.results.papers import published_numbers
from benchmarks.results.published import FILE, NAME, publish, restore, shown_results
from benchmarks.results.status import SIGN, sign_of, warning_lines
from benchmarks.results.store import Result, Store, load_failures, load_results, results_folder
from benchmarks.runs.experiment import (
    Source,
    SplitSource,
    assignments,
    make_experiment,
    make_source,
    split_options,
    users_of,
)
from benchmarks.runs.reproduce import outdated, reproduce
from benchmarks.runs.scheduler import run_all
from benchmarks.runs.suite import read_data, read_suite
from benchmarks.trackers.tracking import Tracking
from datasets.common.cli import say
from datasets.common.errors import DataError, counted, install_hint, unknown
from datasets.common.files import atomic_file
from datasets.common.options import read_assignments
from datasets.common.progress import progress
from datasets.registry import get as get_data
from datasets.splits import SPLITS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from benchmarks.results.records import Trial
    from benchmarks.runs.scheduler import Executor
    from benchmarks.tune import Study, StudyResult

log = logging.getLogger(__name__)

COMPARED = {"ranking": ("mrr{list}", "hr@10{list}", "ndcg@10{list}"), "paper": ("auc", "loss", "mr_rt")}


def run_suite(chosen: argparse.Namespace) -> int:
    """Make the missing results of a suite and show its leaderboards."""
    given = assignments(chosen.settings)
    seeds = None if chosen.seeds is None else _seeds(chosen.seeds, first=0)
    experiments = read_suite(chosen.suite, given=given, methods=chosen.methods, seeds=seeds, curves=chosen.curves)
    for method in sorted(given.keys() - {each.method for each in experiments}):
        raise DataError(f"--set {method}: the suite {chosen.suite} does not run {method}")
    store = Store(_folder_to_write(chosen.results))
    tracking = Tracking(chosen.track_to, store.folder)
    how = {name: getattr(chosen, name) for name in ("threads", "quiet", "checkpoints")}
    how |= {"jobs": chosen.jobs or 1, "executor": _cluster(chosen, store.folder), "on_result": tracking.send}
    outcome = run_all(experiments, store=store, **how)
    for board in boards(outcome.finished):
        show_board(board, board.headline)
    say(f"{outcome.made} results made, {len(outcome.finished) - outcome.made} were there, in {store.folder}")
    for line in warning_lines(outcome.finished):
        say(line)
    if marked := sum(bool(sign_of([result])) for result in outcome.finished):
        say(f"{SIGN} {marked} of {len(outcome.finished)} results are of a training that went wrong; see above.")
    for line in tracking.finish([*outcome.finished, *outcome.failed]):
        say(line)
    for run in outcome.elsewhere:
        say(f"running in another process: {run}")
    for result in outcome.failed:
        say(f"failed: {result.key}: {result.failure}")
    if outcome.failed:
        say("The full errors are in the .failed.json files; the same command tries these runs again.")
    return 1 if outcome.failed else 0


def _cluster(chosen: argparse.Namespace, folder: Path) -> AbstractContextManager[Executor] | None:
    """Where runs are executed if not on this machine."""
    if chosen.cluster is None:
        if chosen.cluster_option:
            raise DataError("--cluster-option is for --cluster slurm and --cluster local")
        return None
    if chosen.checkpoints:
        raise DataError(
            "--checkpoints does not go with --cluster: a checkpoint would be lost with its machine. Give the command "
            "without --cluster on each machine, with --results in a folder that all of them see"
        )
    from benchmarks.runs.cluster import open_cluster

    how = {"options": chosen.cluster_option, "jobs": chosen.jobs, "threads": chosen.threads}
    return open_cluster(chosen.cluster, folder=folder, **how)


def track_results(chosen: argparse.Namespace) -> int:
    """Send a folder of results to trackers; those that a tracker has are not sent again."""
    folder = shown_results(chosen.results)
    tracking = Tracking(chosen.to, chosen.results or folder)
    results = [*_filtered(chosen, load_results(folder)), *_filtered(chosen, load_failures(folder))]
    results = results or _results(chosen)  # which says what is missing
    with progress(len(results), "run", quiet=chosen.quiet) as bar:
        for result in results:
            tracking.send(result)
            bar.step()
    for line in tracking.finish(results):
        say(line)
    return 0 if tracking.complete else 1


def publish_results(chosen: argparse.Namespace) -> int:
    """Write a folder of results as one small file, without the data."""
    folder = shown_results(chosen.results)
    file = chosen.out
    _check_writable(file.parent)
    if file.resolve() == (FILE if str(chosen.results) == NAME else Path(chosen.results or "")).resolve():
        raise DataError(f"--out {file} is the published file itself; name another one")
    found = publish(folder, file, is_real=_is_real, users_of=users_of)
    what = f"{counted(found.runs, 'run')}, {found.records:,} studies and the like"
    say(f"{file}: {what}, {file.stat().st_size / 1e6:.2f} MB, from {chosen.results or folder}")
    for name, reason in found.unreadable:
        say(f"left out: {name}: {reason}")
    if found.failed:
        say(f"left out: {counted(found.failed, 'failed run')}")
    return 0


def restore_results(chosen: argparse.Namespace) -> int:
    """Write published results into a folder, where suites find them finished."""
    folder = _folder_to_write(chosen.results)
    found = restore(chosen.file or FILE, folder, users_of=users_of)
    say(f"{found.added} results restored, {found.there} were there, in {folder}; {found.records} studies and the like")
    if found.unmatched:
        say(f"{found.unmatched} left out: published without their data, so nobody can tell which home is which")
    return 0


def reproduce_results(chosen: argparse.Namespace) -> int:
    """Run one seed of each group of results of other code again; exit code 1 if one is not reproduced."""
    folder = _folder_to_write(chosen.results)
    for method in chosen.methods or []:
        registry.get(method)
    groups = outdated(folder, chosen.methods or ())
    if not groups:
        say(f"{folder} has no results of other code")
        return 0
    same = changed = impossible = 0
    for found in reproduce(groups, Store(folder), jobs=chosen.jobs, quiet=chosen.quiet):
        if found.same:
            same += len(found.group.runs)
        elif found.problem:
            impossible += len(found.group.runs)
            say(f"not run again: {found.group}: {found.problem}")
        else:
            changed += len(found.group.runs)
            say(f"changed: {found.group}: {found.difference}")
    say(
        f"{same} results now count as made by the current code, {changed} have other numbers, {impossible} could not "
        f"be run again, in {folder}"
    )
    if changed or impossible:
        say("`python -m benchmarks run SUITE` runs those of a suite again.")
    return 1 if changed or impossible else 0


def _is_real(data: str) -> bool:
    """Whether a data set has files, or is not known here."""
    try:
        return bool(get_data(data).files)
    except DataError:
        return True


def list_methods(chosen: argparse.Namespace) -> int:
    """Every method, one line each, by formulation; those trained in the homes behind those with all data in one place.

    Methods that `benchmarks.results.formulations` does not know come last.
    """
    del chosen
    groups: dict[str, list[str]] = {name: [] for name in (*(each.name for each in FORMULATIONS), OTHER)}
    for name in registry.names():
        formulation = formulation_of(name)
        groups[formulation.name if formulation else OTHER].append(name)
    for group, names in groups.items():
        if not names:
            continue
        say(group)
        for name in sorted(names, key=lambda name: (federated_method(name) is not None, name)):
            federated = " (federated)" if federated_method(name) else ""
            say(f"    {name}{federated}: {_about(name)}")
    return 0


def _about(name: str) -> str:
    """What a method is, or why it cannot be used."""
    extra = registry.missing_extra(name)
    try:
        return f"needs {install_hint(extra)}" if extra else registry.summary(name)
    except (DataError, ImportError) as error:  # a package that none of our extras installs
        return f"cannot be imported: {error}"


def show_method(chosen: argparse.Namespace) -> int:
    """A method: what its module says of it, published numbers, and its parameters, those that are tuned first."""
    cls = registry.get(chosen.method)
    parameters = registry.parameters(chosen.method)
    tuned, available = _tuned(cls), _available(cls, parameters)
    say(f"{chosen.method}: {registry.summary(chosen.method)}")
    if formulation := formulation_of(chosen.method):
        federated = federated_method(chosen.method)
        more = f"; all data in one place: {', '.join(federated.twins)}" if federated else ""
        place = f"federated; leaves a home: {federated.leaves}{more}" if federated else "all data in one place"
        say(f"    {formulation.name}, {place}")
    for line in _module_doc(cls).splitlines():
        say(f"    | {line}".rstrip())
    none = [] if formulation_of(chosen.method) is None else ["none on rules of homes that we know of"]
    for number in published_numbers(chosen.method) or none:
        say(f"    published, on other data: {number}")
    for each in sorted(available, key=lambda each: each.name not in tuned):  # those that are tuned first
        say(f"    {each.name}: {each.type} = {each.default!r}" + (f"  {each.meaning}" if each.meaning else ""))
        if each.name in tuned:
            say(f"        tuned: {tuned[each.name]}")
    if unavailable := sorted({each.name for each in parameters} - {each.name for each in available}):
        say(f"    not available for {chosen.method}: {', '.join(unavailable)}")
    if not parameters:
        say("    no parameters")
    return 0


def _available(cls: type, parameters: Sequence[registry.Parameter]) -> list[registry.Parameter]:
    """The parameters that a method has a use for."""
    refused: dict[str, str] = getattr(cls, "UNAVAILABLE", {})
    return [each for each in parameters if each.name not in refused]


def _tuned(cls: type) -> dict[str, str]:
    """Parameter -> the range in which `tune` searches, in words."""
    space: dict[str, tuple[object, ...]] = getattr(cls, "SPACE", {})
    return {
        name: f"{kind}, " + (" or " if kind == "choice" else " to ").join(map(str, bounds))
        for name, (kind, *bounds) in space.items()
    }


def _module_doc(cls: type) -> str:
    return inspect.getdoc(sys.modules[cls.__module__]) or ""


def describe_methods(chosen: argparse.Namespace) -> int:
    """Write the docstrings and parameters of the methods of this repository to a file, for readers of results."""
    file = chosen.out or DESCRIPTIONS
    found = method_descriptions()
    write_descriptions(found, file)
    say(f"{file}: {len(found)} methods")
    return 0


def method_descriptions() -> dict[str, MethodDescription]:
    """Of every method of this repository; they are imported."""
    return {name: _description(name) for name in sorted(registry.listed())}


def _description(name: str) -> MethodDescription:
    cls = registry.get(name)
    tuned = _tuned(cls)
    parameters = {
        each.name: ParameterDescription(each.type, each.meaning, tuned.get(each.name, ""))
        for each in _available(cls, registry.parameters(name))
    }
    return MethodDescription(registry.summary(name), _module_doc(cls), parameters)


def check(chosen: argparse.Namespace) -> int:
    """Check that a method satisfies the contract of `baselines.contract`."""
    from baselines.contract import check_method

    problems = check_method(registry.build(chosen.method, **_settings(chosen, "check")))
    for problem in problems:
        say(f"{chosen.method}: {problem}")
    found = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    say(f"{chosen.method}: " + (found if problems else "satisfies the contract"))
    return 1 if problems else 0


def show_leaderboards(chosen: argparse.Namespace) -> int:
    """The leaderboards of all results."""
    for board in _boards(chosen):
        metric = chosen.metric or board.headline
        if chosen.json:
            table = leaderboard(board, metric).replace([math.inf, -math.inf], math.nan).astype(object)
            rows = table.where(table.notna(), None).to_dict("records")  # JSON has no NaN
            listed = {"title": board.title, "warnings": board.warnings(), "rows": rows}
            say(json.dumps(listed, default=str, allow_nan=False))
        else:
            show_board(board, metric)
    failures = _filtered(chosen, load_failures(shown_results(chosen.results)))
    if failures:
        who = ", ".join(sorted({result.key.method for result in failures}))
        line = f"not shown: {len(failures)} failed run{'s' if len(failures) > 1 else ''}: {who}"
        (log.warning if chosen.json else say)(line)
    return 0


def show_comparison(chosen: argparse.Namespace) -> int:
    """A against B on every data set that has both, p values adjusted for several comparisons."""
    panels, rows, unclear = [], [], []
    found_boards = _boards(chosen)
    rivals = {name for board in found_boards for label, run in board.runs for name in (label, run.key.method)}
    for name in (chosen.a, chosen.b):
        if name not in rivals and name not in registry.names():
            raise unknown("method", name, rivals)
    for board in found_boards:
        try:
            a, b = board.label(chosen.a), board.label(chosen.b)
        except DataError as error:
            unclear.append(error)
            continue
        if a is None or b is None:
            continue
        if a == b:
            raise DataError(f"{chosen.a} and {chosen.b} are the same runs; name two methods, or two rows of the list")
        runs = [run for run in board.runs if run[0] in (a, b)]
        for metric in [chosen.metric] if chosen.metric else map(board.metric, COMPARED[board.protocol]):
            panels.append((Panel.of(runs, metric), a, b))
            rows.append((board, metric))
    if unclear and not panels:
        raise unclear[0]
    if not panels:
        raise DataError(
            f"no data set has results of both {chosen.a} and {chosen.b}; `python -m benchmarks run` makes them"
        )
    found = [compare(panel, a, b) for panel, a, b in panels]
    adjusted = holm([each.p for each in found])
    for (board, metric), each, p in zip(rows, found, adjusted, strict=True):
        better = each.a if (each.difference > 0) != lower_is_better(metric) else each.b
        where = " on this seed" if len(each.seeds) == 1 else ""
        verdict = f"{better} is better{where}" if p < ALPHA else "no significant difference"
        say(f"{board.title}: {metric}")
        notes = {label: board.status(label) for label in (each.a, each.b)}
        values = zip(notes.items(), (each.value_a, each.value_b), strict=True)
        shown = ", ".join(f"{label} {value:.4f}{SIGN if status else ''}" for (label, status), value in values)
        say(f"    {shown}: {verdict}")
        scope = interval_scope([len(each.seeds)])
        say(f"    difference {each.difference:+.4f}, 95 % {scope}: {each.low:+.4f} to {each.high:+.4f}")
        of = f"{each.homes:,} homes, " + (f"{len(each.seeds)} seeds" if len(each.seeds) > 1 else "single run")
        say(f"    p {each.p:.2g} (Holm over {len(found)}: {p:.2g}); {of}")
        for note in (f"{SIGN} {label}: {status}" for label, status in notes.items() if status):
            say(f"    {note}")
    for reason in unclear:
        say(f"not compared: {reason}")
    return 0


def show_curves(chosen: argparse.Namespace) -> int:
    """The history by round of every run, as CSV; with --out a second file says what each run is."""
    if chosen.out and chosen.out.suffix != ".csv":
        raise DataError(f"--out {chosen.out}: curves are written as CSV; give a name that ends in .csv")
    results = _results(chosen)
    table = curves_table(results)
    if table.empty:
        raise DataError("no run here has a history; `python -m benchmarks run smoke --curves 10` makes some")
    if not chosen.out:
        say(table.to_csv(index=False).rstrip("\n"))
        return 0
    for path, content in ((chosen.out, table), (chosen.out.with_suffix(".runs.csv"), runs_table(results))):
        with atomic_file(path) as temporary:
            content.to_csv(temporary, index=False)
        say(f"{len(content):,} rows in {path}")
    return 0


def evaluate_lists(chosen: argparse.Namespace) -> int:
    """Evaluate the rank lists of another tool; with --results as a row of the leaderboard."""
    from benchmarks.runs.external import evaluate_rank_lists, external_experiment

    source = _source(chosen.data, chosen.track)
    name = chosen.name or chosen.file.stem
    experiment = external_experiment(name, source, split=_split(chosen.split), seed=chosen.seed)
    with TemporaryDirectory() as temporary:
        store = Store(_folder_to_write(chosen.results) if chosen.results else Path(temporary))
        (board,) = boards([evaluate_rank_lists(chosen.file, experiment, store)])
        show_board(board, chosen.metric or board.headline)
    if chosen.results:
        say(f"stored in {store.folder}; `python -m benchmarks leaderboard` shows it beside the other methods")
    return 0


def export_tables(chosen: argparse.Namespace) -> int:
    """Write a split as tables that other tools read."""
    from benchmarks.runs.external import export_split, external_experiment

    source = _source(chosen.data, chosen.track)
    experiment = external_experiment("", source, split=_split(chosen.split), seed=chosen.seed)
    homes = export_split(experiment, chosen.out, data=chosen.data)
    say(f"{homes:,} homes to rank rules for; {chosen.out / 'README.md'} says how to evaluate the lists")
    return 0


def write_challenge_submission(chosen: argparse.Namespace) -> int:
    """Fit a method on the training homes of the Wyze challenge and write its recommendations for the test homes."""
    from benchmarks.runs.challenge import DATA, submit

    name, _, options = chosen.data.partition(":")
    if name != DATA:
        raise DataError(f"--data {chosen.data}: a submission is made from the files of {DATA}; write {DATA}:KEY=VALUE")
    parsed = read_assignments(get_data(name).load, options.split(",") if options else [], where=name)
    source = make_source(name, options=parsed, track="instances", path=chosen.path)
    experiment = make_experiment(
        chosen.method, source, parameters=_settings(chosen, "submit"), options={}, seed=chosen.seed
    )
    made = submit(experiment, chosen.path, chosen.out, parts=chosen.parts, valid=not chosen.no_valid_filter)
    say(f"{chosen.method} fitted on {made.train:,} homes")
    say(f"{chosen.out}: {made.lines:,} recommendations for {made.listed:,} of {made.test:,} test homes")
    if made.listed < made.test:
        none_left = "there is no further rule" if chosen.no_valid_filter else "no training home has a further rule"
        why = f"{none_left} between their devices, or {chosen.method} scores none (mostly homes without known rules)"
        say(f"{made.test - made.listed:,} test homes have no recommendation: {why}")
    return 0


def score_challenge_submission(chosen: argparse.Namespace) -> int:
    """Score a submission by a file of hidden rules."""
    from benchmarks.runs.challenge import score_submission
    from datasets.submission import LONGEST

    found = score_submission(chosen.file, chosen.hidden)
    say(f"MRR@{LONGEST} {found.mrr:.4f} of {found.hidden:,} hidden rules of {found.users:,} users")
    say(", ".join(f"HR@{n} {value:.4f}" for n, value in found.hits.items()))
    if found.silent:
        say(f"{found.silent:,} of these users are not in {chosen.file}, which counts as not found")
    if found.uncounted:
        say(f"{found.uncounted:,} users of {chosen.file} have no hidden rule in {chosen.hidden} and do not count")
    return 0


def tune_methods(chosen: argparse.Namespace) -> int:
    """Choose parameters of one method or several on validation data and say how to set them."""
    from benchmarks.tune import FIRST_SEED, Study, tune, tune_all

    given = assignments(chosen.settings)
    methods = _tunable(chosen.methods)
    for method in sorted(given.keys() - set(methods)):
        raise DataError(f"--set {method}: `tune {','.join(chosen.methods)}` does not tune {method}")
    data = tuple(_tuning_data(chosen))
    seeds = tuple(_seeds(chosen.seeds or 1, first=FIRST_SEED))
    confirm = tuple(_seeds(chosen.confirm, first=max(seeds) + 1))
    studies = [Study(each, given.get(each, {}), data, seeds, confirm, chosen.sampler_seed) for each in methods]
    store = Store(_folder_to_write(chosen.results))
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
        how = _split(chosen.split or "holdout")
        track = chosen.track or "types"
        return [SplitSource(_source(text, track), *how) for text in chosen.data or ["ifttt-synthetic"]]
    for option in ("data", "track", "split"):
        if getattr(chosen, option):
            raise DataError(f"--{option} is what the suite {chosen.suite} says; leave out one of the two")
    return read_data(chosen.suite)


def _show_study(tuned: StudyResult, study: Study, modules: list[str], suite: str) -> None:
    """The best trial, whether it was confirmed, and the command that runs a suite with it."""
    from benchmarks.tune import METRIC, run_command

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


def _source(text: str, track: str) -> Source:
    """The homes that NAME[:KEY=VALUE,...] stands for."""
    name, _, options = text.partition(":")
    parsed = read_assignments(get_data(name).load, options.split(",") if options else [], where=name)
    return make_source(name, options=parsed, track=track)


def _split(text: str) -> tuple[str, dict[str, object]]:
    """The name and all options of the split that NAME[:KEY=VALUE,...] stands for."""
    name, _, options = text.partition(":")
    if name not in SPLITS:
        raise unknown("split", name, SPLITS)
    parsed = read_assignments(SPLITS[name], options.split(",") if options else [], where=name)
    return name, split_options(name, parsed)


def _results(chosen: argparse.Namespace) -> list[Result]:
    """The finished runs that the command line selects; an error where there are none."""
    folder = shown_results(chosen.results)
    results = load_results(folder)
    for kind, wanted in _wanted(chosen).items():
        there = {getattr(result.key, kind) for result in results}
        if wanted not in there:
            raise unknown(f"{kind} in {folder}", wanted, there)
    results = _filtered(chosen, results)
    if not results:
        failures = load_failures(folder)
        more = f", but {len(failures)} failed runs" if failures else ""
        where = folder if folder == results_folder(None) else chosen.results
        raise DataError(f"{where} has no results{more}; `python -m benchmarks run smoke` makes some")
    return results


def _folder_to_write(given: Path | None) -> Path:
    """The folder of results of a command that adds to them; checked before hours of work are lost on it."""
    if given is not None and (str(given) == NAME or given.suffix == FILE.suffix):
        raise DataError(f"--results {given}: published results are only shown; name a folder to write to")
    folder = results_folder(given)
    _check_writable(folder)
    return folder


def _check_writable(folder: Path) -> None:
    """Try a file in it, or in the folder that it would be made in."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise DataError(f"{folder}: cannot be written to ({error.strerror}); name another folder") from None


def _boards(chosen: argparse.Namespace) -> list[Board]:
    """The leaderboards that the command line selects."""
    listed = boards(_results(chosen))
    if chosen.metric:
        having = [board for board in listed if board.has(chosen.metric)]
        if not having:
            raise no_metric(chosen.metric, [board.runs[0][1] for board in listed])
        listed = having
    return listed


def _filtered(chosen: argparse.Namespace, results: list[Result]) -> list[Result]:
    """Those of the data set, protocol and track that the command line selects."""
    wanted = _wanted(chosen)
    return [r for r in results if all(getattr(r.key, kind) == value for kind, value in wanted.items())]


def _wanted(chosen: argparse.Namespace) -> dict[str, str]:
    """Field of the key -> the value that the command line selects."""
    return {kind: value for kind in ("data", "protocol", "track") if (value := getattr(chosen, kind, None))}


def _settings(chosen: argparse.Namespace, command: str) -> dict[str, object]:
    """The parameters that the command line sets for the one method of a command."""
    given = assignments(chosen.settings)
    for method in sorted(given.keys() - {chosen.method}):
        raise DataError(f"--set {method}: `{command} {chosen.method}` does not run {method}")
    return given.get(chosen.method, {})


def _seeds(given: int | list[int], *, first: int) -> list[int]:
    """The seeds that the command line names, or so many from the first on."""
    return list(range(first, first + given)) if isinstance(given, int) else given


def show_board(board: Board, metric: str) -> None:
    """A leaderboard as text."""
    table = leaderboard(board, metric)
    most, least = table["seeds"].max(), table["seeds"].min()
    seeds = "single run" if most == 1 else f"mean of {most if most == least else f'{least} to {most}'} seeds"
    spread = [
        f"{value:.4f}{SIGN if status else ''} [{low:.4f}, {high:.4f}]"
        for value, low, high, status in table[[metric, "low", "high", "status"]].to_numpy()
    ]
    shown = table.drop(columns=["low", "high", "hidden", "status"]).assign(**{metric: spread})
    shown["sd over seeds"] = [f"{sd:.4f}" if sd == sd else "unknown" for sd in table["sd over seeds"]]  # of one seed
    counts = table[["unanswered", "hidden"]].to_numpy()
    shown["unanswered"] = [f"{n:.0f}" + ("" if math.isnan(of) else f" of {of:.0f}") for n, of in counts]
    shown["seeds"] = ["single run" if count == 1 else str(count) for count in table["seeds"]]
    if "calibrated" in shown:
        shown["calibrated"] = ["yes" if value else "own" for value in table["calibrated"]]
    formats = {"fit s": "{:.2f}".format, "fit MB": "{:.0f}".format, "non-rules unanswered": "{:.1%}".format}
    say(f"\n{board.title}: {seeds}, [95 % {interval_scope(table['seeds'])}]")
    for warning in board.warnings():
        say(f"warning: {warning}")
    say(shown.to_string(index=False, float_format="{:.4f}".format, formatters=formats))
    for note in board.status_notes():
        say(note)
    if any(run.key.curves for _, run in board.runs):
        say("By round, on train, validation and test: `python -m benchmarks curves`")
