"""`python -m benchmarks`: run suites, look at methods and results, compare, check and tune."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from datasets.common.cli import add_import, import_all
from datasets.common.threads import set_threads


def main(arguments: list[str] | None = None) -> int:
    """Run one command; bad input is one message and exit code 1, never a traceback."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    set_threads(getattr(chosen, "threads", 1))
    # Only now, so that the libraries that count find their number of threads when they are loaded.
    from benchmarks import commands
    from benchmarks.commands import NoReader
    from datasets.common.errors import DataError

    try:
        import_all([*chosen.modules, *chosen.more_modules])
        return int(getattr(commands, chosen.command)(chosen))
    except NoReader:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it ends
        return 0
    except KeyboardInterrupt:
        lost = "kept up to its last checkpoint" if getattr(chosen, "checkpoints", 0) else "lost"
        sys.stderr.write(f"Stopped. What was under way is {lost}, what was finished is kept; run it again to go on.\n")
        return 130
    except (DataError, OSError, ModuleNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="One evaluation for every method: run, compare, check, tune."
    )
    add_import(parser, "modules")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: str, about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about)
        added.set_defaults(command=function)
        add_import(added, "more_modules")
        return added

    run = command("run", "run_suite", "run what a suite asks for and is not finished")
    run.add_argument(
        "suite",
        metavar="SUITE",
        help="smoke, default, paper, graph, gnn, ablations, federated, federated-options, or a TOML file",
    )
    run.add_argument("--methods", type=_names, metavar="A,B", help="these instead of the suite's")
    run.add_argument("--jobs", type=_count, default=1, metavar="N", help="runs at once, each in a process (default 1)")
    run.add_argument(
        "--threads", type=_count, default=1, metavar="N", help="of each run; more than 1 need not repeat exactly"
    )
    run.add_argument(
        "--curves",
        type=_rounds,
        metavar="N",
        help="every N rounds loss, AUC and mean rank on train, validation and test, for at most 2,000 homes of each; "
        "validation is then kept from the fit (default 0, never)",
    )
    run.add_argument(
        "--checkpoints",
        type=_rounds,
        default=0,
        metavar="N",
        help="every N rounds keep what a run that is killed needs to go on when the same command is given again, in "
        "DIR/checkpoints; federated methods only, others start again (default 0, never)",
    )
    _add_seeds(run, "5 is 0,1,2,3,4")
    _add_settings(run)
    _add_results(run)
    _add_quiet(run)

    command("list", "list_methods", "every method, one line each")

    show = command("show", "show_method", "the parameters of a method with type, default and meaning")
    show.add_argument("method", metavar="METHOD")

    compare = command("compare", "show_comparison", "is A really better than B?")
    compare.add_argument("a", metavar="A")
    compare.add_argument("b", metavar="B")
    _add_filters(compare)

    board = command("leaderboard", "show_leaderboards", "the methods on each data set, best first, with tie groups")
    board.add_argument("--json", action="store_true", help="a line of JSON for each list")
    _add_filters(board)

    curves = command("curves", "show_curves", "the history by round of all runs, as CSV")
    curves.add_argument("--out", type=Path, metavar="FILE.csv", help="where to (default the standard output)")
    _add_places(curves)

    check = command("check", "check", "does a method keep the contract?")
    check.add_argument("method", metavar="METHOD")
    _add_settings(check)

    tune = command("tune", "tune_method", "choose parameters on validation data")
    tune.add_argument("method", metavar="METHOD")
    tune.add_argument("--trials", type=_count, default=30, metavar="N", help="the same for every method (default 30)")
    tune.add_argument(
        "--data",
        action="append",
        metavar="NAME[:KEY=VALUE,...]",
        help="e.g. wyze-synthetic:homes=2000; several are averaged (default ifttt-synthetic)",
    )
    tune.add_argument("--track", default="types", help="types or instances (default types)")
    tune.add_argument("--split", default="holdout", help="holdout, leave_one_out or new_homes (default holdout)")
    tune.add_argument("--sampler-seed", type=int, default=0, metavar="SEED", help="of the choices (default 0)")
    _add_seeds(tune, "2 is 100,101, which no suite of ours reports (default 1)")
    _add_settings(tune)
    _add_results(tune)
    _add_quiet(tune)
    return parser


def _add_seeds(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--seeds", type=_seeds, metavar="N|A,B", help=f"how many, or which: {meaning}")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="METHOD.PARAMETER=VALUE",
        help="e.g. mf.factors=64; see `show METHOD`",
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="where results are kept (default $FEDRULE_RESULTS or results)"
    )


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metric", metavar="NAME", help="e.g. hr@10; as in the result files")
    parser.add_argument("--protocol", metavar="NAME", help="ranking or paper only")
    _add_places(parser)


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="NAME", help="this data set only")
    parser.add_argument("--track", metavar="NAME", help="types or instances only")
    _add_results(parser)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def _rounds(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _seeds(text: str) -> int | list[int]:
    """How many, or which: commands differ in where they begin to count."""
    seeds = _names(text)
    if not seeds or not all(seed.isdecimal() for seed in seeds) or text.strip() == "0":
        raise argparse.ArgumentTypeError(f"{text!r}: give how many (5) or which, with commas (3,4 or 3,)")
    return list(map(int, seeds)) if "," in text else int(text)


if __name__ == "__main__":
    sys.exit(main())
