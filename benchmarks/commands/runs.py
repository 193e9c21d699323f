"""Runs: `run` and `reproduce`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from baselines import registry
from benchmarks.commands.board import show_board
from benchmarks.commands.options import folder_to_write, seeds_of
from benchmarks.results.leaderboard import boards
from benchmarks.results.status import SIGN, sign_of, warning_lines
from benchmarks.results.store import Store
from benchmarks.runs.experiment import assignments
from benchmarks.runs.reproduce import outdated, reproduce
from benchmarks.runs.scheduler import run_all
from benchmarks.runs.suite import read_suite
from benchmarks.trackers.tracking import Tracking
from datasets.common.cli import say
from datasets.common.errors import DataError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from benchmarks.runs.scheduler import Executor


def run_suite(chosen: argparse.Namespace) -> int:
    """Make the missing results of a suite and show its leaderboards."""
    given = assignments(chosen.settings)
    seeds = None if chosen.seeds is None else seeds_of(chosen.seeds, first=0)
    experiments = read_suite(chosen.suite, given=given, methods=chosen.methods, seeds=seeds, curves=chosen.curves)
    for method in sorted(given.keys() - {each.method for each in experiments}):
        raise DataError(f"--set {method}: the suite {chosen.suite} does not run {method}")
    store = Store(folder_to_write(chosen.results))
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
    if chosen.cluster is None and not chosen.cluster_option:
        return None
    if chosen.cluster is not None and chosen.checkpoints:
        raise DataError(
            "--checkpoints does not go with --cluster: a checkpoint would be lost with its machine. Give the command "
            "without --cluster on each machine, with --results in a folder that all of them see"
        )
    from benchmarks.cluster.cluster import open_cluster
    from benchmarks.cluster.executor import ClusterExecutor

    how = {"options": chosen.cluster_option, "jobs": chosen.jobs, "threads": chosen.threads}
    repeat = "repeat the command: what is stored stays"
    return ClusterExecutor(open_cluster(chosen.cluster, folder=folder, repeat=repeat, **how))


def reproduce_results(chosen: argparse.Namespace) -> int:
    """Run one seed of each group of results of other code again; exit code 1 if one is not reproduced."""
    folder = folder_to_write(chosen.results)
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
