"""Results: `leaderboard`, `compare`, `curves` and `track`."""

from __future__ import annotations

import argparse
import json
import logging
import math

from baselines import registry
from benchmarks.commands.board import show_board
from benchmarks.results.compare import ALPHA, Comparison, Panel, compare, holm, lower_is_better, no_metric
from benchmarks.results.curves import curves_table, runs_table
from benchmarks.results.leaderboard import Board, adjusted_p, boards, interval_scope, leaderboard, ranked
from benchmarks.results.published import shown_results
from benchmarks.results.status import SIGN
from benchmarks.results.store import Result, load_failures, load_results, results_folder
from benchmarks.trackers.tracking import Tracking
from datasets.common.cli import say
from datasets.common.errors import DataError, counted, unknown
from datasets.common.files import atomic_file
from datasets.common.progress import progress

log = logging.getLogger(__name__)

COMPARED = {"ranking": ("mrr{list}", "hr@10{list}", "ndcg@10{list}"), "paper": ("auc", "loss", "mr_rt")}


def show_leaderboards(chosen: argparse.Namespace) -> int:
    """The leaderboards of all results."""
    for board, metric in _boards(chosen):
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
    rivals = {name for board, _ in found_boards for label, run in board.runs for name in (label, run.key.method)}
    for name in (chosen.a, chosen.b):
        if name not in rivals and name not in registry.names():
            raise unknown("method", name, rivals)
    for board, shown in found_boards:
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
        for metric in [shown] if chosen.metric else map(board.metric, COMPARED[board.protocol]):
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
        say(f"    p {each.p:.2g} (Holm over the {len(found)} shown here: {p:.2g}); {of}")
        if metric == board.headline:
            say(f"    {_among_all(board, metric, each)}")
        for note in (f"{SIGN} {label}: {status}" for label, status in notes.items() if status):
            say(f"    {note}")
    for reason in unclear:
        say(f"not compared: {reason}")
    return 0


def _among_all(board: Board, metric: str, found: Comparison) -> str:
    """The same comparison as one of all pairs of the list, which is what the leaderboard's groups are made of."""
    adjusted = adjusted_p(ranked(board, metric)[1])
    p = adjusted.get((found.a, found.b), adjusted.get((found.b, found.a), 1.0))
    verdict = "told apart" if p < ALPHA else "not told apart"
    return f"on the leaderboard, as one of {counted(len(adjusted), 'pair')} of the list: {verdict} (Holm: {p:.2g})"


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


def _boards(chosen: argparse.Namespace) -> list[tuple[Board, str]]:
    """The leaderboards that the command line selects, each with the metric to sort it by."""
    listed = boards(_results(chosen))
    if not chosen.metric:
        return [(board, board.headline) for board in listed]
    found = [(board, board.find_metric(chosen.metric)) for board in listed]
    having = [(board, metric) for board, metric in found if metric]
    if not having:
        raise no_metric(chosen.metric, [board.runs[0][1] for board in listed])
    protocols = {board.protocol for board, _ in having}  # a metric is mostly of one protocol
    for board in (board for board, metric in found if not metric and board.protocol in protocols):
        log.warning("left out, without %s per home: %s", chosen.metric, board.title)
    return having


def _results(chosen: argparse.Namespace) -> list[Result]:
    """The finished runs that the command line selects; an error where there are none."""
    folder = shown_results(chosen.results)
    where = folder if folder == results_folder(None) else chosen.results
    there = load_results(folder)
    for kind, wanted in _wanted(chosen).items():
        known = {getattr(result.key, kind) for result in there}
        if wanted not in known:
            raise unknown(f"{kind} in {where}", wanted, known)
    results = _filtered(chosen, there)
    if not results and there:
        raise DataError(f"{where} has no results of {', '.join(_selected(chosen))} together; `leaderboard` lists them")
    if not results:
        failures = load_failures(folder)
        more = f", but {len(failures)} failed runs" if failures else ""
        raise DataError(f"{where} has no results{more}; `python -m benchmarks run smoke` makes some")
    return results


def _filtered(chosen: argparse.Namespace, results: list[Result]) -> list[Result]:
    """Those of the data set with these options, of the protocol and of the track that the command line selects."""
    wanted, options = _wanted(chosen), _data_options(chosen)
    return [
        result
        for result in results
        if all(getattr(result.key, kind) == value for kind, value in wanted.items())
        and all(str(result.key.data_options.get(name)) == value for name, value in options.items())
    ]


def _wanted(chosen: argparse.Namespace) -> dict[str, str]:
    """Field of the key -> the value that the command line selects."""
    wanted = {kind: value for kind in ("data", "protocol", "track") if (value := getattr(chosen, kind, None))}
    return wanted | ({"data": wanted["data"].partition(":")[0]} if "data" in wanted else {})


def _data_options(chosen: argparse.Namespace) -> dict[str, str]:
    """Those in `--data wyze-synthetic:homes=10000`."""
    texts = (getattr(chosen, "data", None) or "").partition(":")[2]
    options = dict(text.partition("=")[::2] for text in texts.split(",") if text)
    for name, value in options.items():
        if not value:
            raise DataError(f"--data {chosen.data}: {name} has no value; write NAME:KEY=VALUE")
    return options


def _selected(chosen: argparse.Namespace) -> list[str]:
    """What the command line selects, as it was written."""
    return [value for kind in ("data", "protocol", "track") if (value := getattr(chosen, kind, None))]
