"""What `python -m benchmarks` does, a function for each command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from baselines import registry
from benchmarks.compare import Panel, compare, holm
from benchmarks.execute import execute
from benchmarks.experiment import source
from benchmarks.leaderboard import LOWER_IS_BETTER, Board, boards, leaderboard
from benchmarks.results import Result, Store, load_failures, load_results, results_folder
from benchmarks.settings import assignments, split_options
from benchmarks.suite import read_suite
from datasets.errors import DataError, unknown
from datasets.options import parse_options
from datasets.registry import get as get_data

HEADLINE = {"ranking": "mrr", "paper": "auc"}
COMPARED = {"ranking": ("mrr", "hr@10", "ndcg@10"), "paper": ("auc", "loss", "mr_rt")}


def run_suite(chosen: argparse.Namespace) -> int:
    """Run what a suite asks for and is not finished, and show the lists."""
    given = assignments(chosen.settings)
    experiments = read_suite(chosen.suite, given=given, methods=chosen.methods, seeds=chosen.seeds)
    for method in given:
        if method not in {asked.method for asked in experiments}:
            raise DataError(f"--set {method}: the suite {chosen.suite} does not run {method}")
    store = Store(results_folder(chosen.results))
    outcome = execute(experiments, store=store, jobs=chosen.jobs, threads=chosen.threads, quiet=chosen.quiet)
    for board in boards(outcome.finished):
        show_board(board, HEADLINE[board.protocol])
    say(f"{outcome.made} results made, {len(outcome.finished) - outcome.made} were there, in {store.folder}")
    for run in outcome.elsewhere:
        say(f"under way in another process: {run}")
    return show_failures(outcome.failed)


def list_methods(chosen: argparse.Namespace) -> int:
    """Every method, one line each."""
    del chosen
    for name in registry.names():
        extra = registry.missing_extra(name)
        try:
            about = f'needs extra {extra}: pip install "fedrule[{extra}]"' if extra else registry.summary(name)
        except ImportError as error:  # of something that no extra of ours brings
            about = f"cannot be imported: {error}"
        say(f"{name}: {about}")
    return 0


def show_method(chosen: argparse.Namespace) -> int:
    """What a method is and every parameter with type, default, meaning and the range it is tuned in."""
    cls = registry.get(chosen.method)
    parameters = registry.parameters(chosen.method)
    space = getattr(cls, "SPACE", {})
    say(f"{chosen.method}: {registry.summary(chosen.method)}")
    for each in parameters:
        say(f"    {each.name}: {each.type} = {each.default!r}" + (f"  {each.meaning}" if each.meaning else ""))
        if each.name in space:
            kind, *bounds = space[each.name]
            say(f"        tuned: {kind}, " + (" or " if kind == "choice" else " to ").join(map(str, bounds)))
    if not parameters:
        say("    no parameters")
    return 0


def check(chosen: argparse.Namespace) -> int:
    """The contract of methods, in words."""
    from baselines.contract import check_method

    parameters = assignments(chosen.settings).get(chosen.method, {})
    problems = check_method(registry.build(chosen.method, **parameters))
    for problem in problems:
        say(f"{chosen.method}: {problem}")
    say(f"{chosen.method}: " + (f"{len(problems)} things to mend" if problems else "keeps the contract"))
    return 1 if problems else 0


def show_leaderboards(chosen: argparse.Namespace) -> int:
    """The lists of all results that are there."""
    for board in _boards(chosen):
        metric = chosen.metric or HEADLINE[board.protocol]
        if chosen.json:
            say(json.dumps({"title": board.title, "rows": leaderboard(board, metric).to_dict("records")}, default=str))
        else:
            show_board(board, metric)
    return 0


def show_comparison(chosen: argparse.Namespace) -> int:
    """A against B on every data set that has both, adjusted for being several comparisons."""
    found, rows = [], []
    for board in _boards(chosen):
        labels = [_label(board, name) for name in (chosen.a, chosen.b)]
        if None in labels:
            continue
        runs = [run for run in board.runs if run[0] in labels]
        for metric in [chosen.metric] if chosen.metric else COMPARED[board.protocol]:
            panel = Panel.of(runs, metric)
            found.append(compare(panel, *[label for label in labels if label]))
            rows.append((board.title, metric))
    if not found:
        raise DataError(
            f"no data set has results of both {chosen.a} and {chosen.b}; `python -m benchmarks run` makes them"
        )
    adjusted = holm([each.p_bootstrap for each in found])
    for (title, metric), each, p in zip(rows, found, adjusted, strict=True):
        if p < 0.05:
            better = each.a if (each.difference > 0) != (metric in LOWER_IS_BETTER) else each.b
            verdict = f"{better} is better"
        else:
            verdict = "not told apart"
        say(f"{title}: {metric}")
        say(f"    {each.a} {each.value_a:.4f}, {each.b} {each.value_b:.4f}: {verdict}")
        say(f"    difference {each.difference:+.4f}, 95 % of resampled homes {each.low:+.4f} to {each.high:+.4f}")
        of = f"{each.homes:,} homes, " + (f"{len(each.seeds)} seeds" if len(each.seeds) > 1 else "single run")
        say(f"    p {each.p_bootstrap:.4f} (Holm over {len(found)}: {p:.4f}), Wilcoxon {each.p_wilcoxon:.4g}; {of}")
    return 0


def tune_method(chosen: argparse.Namespace) -> int:
    """Choose parameters on validation data and say how to set them."""
    from benchmarks.tune import METRIC, Study, tune

    sources = []
    for text in chosen.data or ["ifttt-synthetic"]:
        name, _, options = text.partition(":")
        parsed = parse_options(get_data(name).load, options.split(",") if options else [], of=name)
        sources.append(source(name, options=parsed, track=chosen.track))
    fixed = assignments(chosen.settings).get(chosen.method, {})
    how = split_options(chosen.split, {})
    seeds = tuple(chosen.seeds or (0,))
    study = Study(chosen.method, fixed, tuple(sources), chosen.split, how, seeds, chosen.sampler_seed)
    tuned = tune(study, chosen.trials, store=Store(results_folder(chosen.results)), quiet=chosen.quiet)
    best, first = tuned.best, tuned.trials[0]
    say(f"{chosen.method}: validation {METRIC} {best.value:.4f}, defaults {first.value or float('nan'):.4f}")
    say(f"{len(tuned.trials)} trials in {tuned.path}")
    if not best.parameters:
        say("no trial was better than the defaults")
    say(" ".join(f"--set {chosen.method}.{name}={value}" for name, value in (fixed | best.parameters).items()))
    return 0


def show_board(board: Board, metric: str) -> None:
    """One list as text."""
    table = leaderboard(board, metric)
    most, least = table["seeds"].max(), table["seeds"].min()
    several = f"{most}" if most == least else f"{least} to {most}"
    seeds = "single run" if most == 1 else f"mean of {several} seeds"
    spread = [f"{value:.4f} [{low:.4f}, {high:.4f}]" for value, low, high in table[[metric, "low", "high"]].to_numpy()]
    shown = table.drop(columns=["low", "high"]).assign(**{metric: spread})
    shown["seeds"] = ["single run" if count == 1 else str(count) for count in table["seeds"]]
    if "calibrated" in shown:
        shown["calibrated"] = ["yes" if value else "" for value in table["calibrated"]]
    formats = {"unanswered": "{:.0f}".format, "fit s": "{:.2f}".format, "fit MB": "{:.0f}".format}
    say(f"\n{board.title}: {seeds}, [95 % over homes]")
    say(shown.to_string(index=False, float_format="{:.4f}".format, formatters=formats))


def show_failures(failed: Sequence[Result]) -> int:
    """Name the runs that failed; the exit code."""
    for result in failed:
        say(f"failed: {result.key}: {result.error.splitlines()[-1]}")
    if failed:
        say("The whole errors are in the .failed.json files; the same command tries these runs again.")
    return 1 if failed else 0


def say(text: str) -> None:
    """To the standard output."""
    sys.stdout.write(text + "\n")


def _boards(chosen: argparse.Namespace) -> list[Board]:
    """The lists that the command line asks for."""
    folder = results_folder(chosen.results)
    results = load_results(folder)
    for kind, wanted in (("data", chosen.data), ("protocol", chosen.protocol), ("track", chosen.track)):
        if wanted:
            there = {getattr(result.key, kind) for result in results}
            if wanted not in there:
                raise unknown(f"{kind} in {folder}", wanted, there)
            results = [result for result in results if getattr(result.key, kind) == wanted]
    if not results:
        failures = load_failures(folder)
        more = f", but {len(failures)} failed runs" if failures else ""
        raise DataError(f"{folder} has no results{more}; `python -m benchmarks run smoke` makes some")
    return boards(results)


def _label(board: Board, name: str) -> str | None:
    """The label that a name on the command line means on a board; None where it has no such run."""
    labels = board.methods()
    if name in labels:
        return name
    same = sorted({label for label, result in board.runs if result.key.method == name})
    if len(same) > 1:
        raise DataError(f"{board.title}: {name} was run with several settings; name one of: {'; '.join(same)}")
    return same[0] if same else None
