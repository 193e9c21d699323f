"""Other tools and the Wyze challenge: `evaluate`, `export-split`, `submit` and `score-submission`."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.commands.board import show_board
from benchmarks.commands.options import folder_to_write, settings_of, source_of, split_of
from benchmarks.results.leaderboard import boards
from benchmarks.results.store import Store
from benchmarks.runs.challenge import DATA, score_submission, submit
from benchmarks.runs.experiment import make_experiment, make_source
from benchmarks.runs.external import evaluate_rank_lists, export_split, external_experiment
from datasets.common.cli import say
from datasets.common.errors import DataError
from datasets.common.options import read_assignments
from datasets.registry import get as get_data
from datasets.submission import LONGEST_LIST


def evaluate_lists(chosen: argparse.Namespace) -> int:
    """Evaluate the rank lists of another tool; with --results as a row of the leaderboard."""
    if not chosen.file.is_file():
        raise DataError(f"{chosen.file}: there is no such file; docs/benchmark.md says what rank lists look like")
    source = source_of(chosen.data, chosen.track)
    name = chosen.name or chosen.file.stem
    experiment = external_experiment(name, source, split=split_of(chosen.split), seed=chosen.seed)
    with TemporaryDirectory() as temporary:
        store = Store(folder_to_write(chosen.results) if chosen.results else Path(temporary))
        (board,) = boards([evaluate_rank_lists(chosen.file, experiment, store)])
        show_board(board, chosen.metric or board.headline)
    if chosen.results:
        say(f"stored in {store.folder}; `python -m benchmarks leaderboard` shows it beside the other methods")
    return 0


def export_tables(chosen: argparse.Namespace) -> int:
    """Write a split as tables that other tools read."""
    source = source_of(chosen.data, chosen.track)
    experiment = external_experiment("", source, split=split_of(chosen.split), seed=chosen.seed)
    homes = export_split(experiment, chosen.out, data=chosen.data)
    say(f"{homes:,} homes to rank rules for; {chosen.out / 'README.md'} says how to evaluate the lists")
    return 0


def write_challenge_submission(chosen: argparse.Namespace) -> int:
    """Fit a method on the training homes of the Wyze challenge and write its recommendations for the test homes."""
    name, _, options = chosen.data.partition(":")
    if name != DATA:
        raise DataError(f"--data {chosen.data}: a submission is made from the files of {DATA}; write {DATA}:KEY=VALUE")
    parsed = read_assignments(get_data(name).load, options.split(",") if options else [], where=name)
    source = make_source(name, options=parsed, track="instances", path=chosen.path)
    experiment = make_experiment(
        chosen.method, source, parameters=settings_of(chosen, "submit"), options={}, seed=chosen.seed
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
    found = score_submission(chosen.file, chosen.hidden)
    say(f"MRR@{LONGEST_LIST} {found.mrr:.4f} of {found.hidden:,} hidden rules of {found.users:,} users")
    say(", ".join(f"HR@{n} {value:.4f}" for n, value in found.hits.items()))
    if found.silent:
        say(f"{found.silent:,} of these users are not in {chosen.file}, which counts as not found")
    if found.uncounted:
        say(f"{found.uncounted:,} users of {chosen.file} have no hidden rule in {chosen.hidden} and do not count")
    return 0
