"""`python -m benchmarks`: run suites, list methods, compare results, evaluate other tools, submit, check and tune."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from datasets.common.cli import add_import, comma_separated, count, import_all, run
from datasets.common.environment import set_threads

DATA = "NAME[:KEY=VALUE,...]"
TRACKERS = "mlflow:URI (http://host:5000, sqlite:///mlflow.db or a folder) or tensorboard:DIR"


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    chosen = _parser().parse_args(arguments)
    set_threads(getattr(chosen, "threads", 1))  # before numerical libraries are imported, which read it once
    lost = "is resumed from its last checkpoint" if getattr(chosen, "checkpoints", 0) else "is lost"

    def command() -> int:
        module, function = chosen.command
        commands = importlib.import_module(f"benchmarks.commands.{module}")
        import_all([*chosen.modules, *chosen.more_modules])
        return int(getattr(commands, function)(chosen))

    return run(
        command, interrupted=f"Stopped. Finished runs are stored, a running one {lost}; run it again to continue."
    )


def _count_or_zero(text: str) -> int:
    return count(text, 0)


def _seeds(text: str) -> int | list[int]:
    """Their number, or a list; commands differ in where they begin to count."""
    seeds = comma_separated(text)
    if not seeds or not all(seed.isdecimal() for seed in seeds) or text.strip() == "0":
        raise argparse.ArgumentTypeError(f"expected a number of seeds (5) or a list (3,4 or 3,), got {text!r}")
    return list(map(int, seeds)) if "," in text else int(text)


# Options of several commands.
SHARED: dict[str, dict[str, Any]] = {
    "method": {"metavar": "METHOD"},
    "--set": {
        "dest": "settings",
        "action": "append",
        "default": [],
        "metavar": "METHOD.PARAMETER=VALUE",
        "help": "e.g. mf.factors=64; see `show METHOD`",
    },
    "--results": {
        "type": Path,
        "metavar": "DIR",
        "help": "where results are stored (default $FEDRULE_RESULTS or results)",
    },
    "--quiet": {"action": "store_true", "help": "no progress bar"},
    "--track": {"default": "types", "help": "types or instances (default types)"},
    "--split": {
        "default": "holdout",
        "metavar": "NAME[:KEY=VALUE,...]",
        "help": "holdout (default), leave_one_out or new_homes, e.g. holdout:min_pair_count=5",
    },
    "--seed": {"type": int, "default": 0, "metavar": "N", "help": "of the split (default 0)"},
}
# Which results a command shows.
FILTERS = {"--metric": "e.g. hr@10; as in the result files", "--protocol": "ranking or paper only"}
SELECTION = {"--data": "this data set only, e.g. wyze-synthetic:homes=10000", "--track": "types or instances only"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="One evaluation for every method: run, compare, check, tune."
    )
    add_import(parser, "modules")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, module: str, function: str, about: str) -> argparse.ArgumentParser:
        """A command and its function in `benchmarks.commands`; only that module is imported, when the command runs."""
        added = commands.add_parser(name, help=about)
        added.set_defaults(command=(module, function))
        add_import(added, "more_modules")
        return added

    def share(command: argparse.ArgumentParser, *options: str) -> None:
        for option in options:
            command.add_argument(option, **SHARED[option])

    def select(command: argparse.ArgumentParser, options: dict[str, str]) -> None:
        for option, about in options.items():
            command.add_argument(option, metavar="NAME", help=about)
        about = "a folder of results, published, or a file of `publish` (default $FEDRULE_RESULTS or results)"
        command.add_argument("--results", **SHARED["--results"] | {"help": about})

    run = command("run", "runs", "run_suite", "make the missing results of a suite")
    suites = "smoke, default, rivals, challenge, paper, graph, gnn, ablations, rooms, federated, federated-options, "
    suites += "faults, privacy, robustness, sizes, tuning, or a TOML file"
    run.add_argument("suite", metavar="SUITE", help=suites)
    run.add_argument("--methods", type=comma_separated, metavar="A,B", help="these instead of the suite's")
    about = "runs at the same time, each in its own process (default 1; with --cluster as many as Dask's workers have "
    about += "threads, or 16 jobs of Slurm)"
    run.add_argument("--jobs", type=count, metavar="N", help=about)
    about = "spread the runs over other machines: tcp://HOST:PORT of a Dask scheduler, slurm, or local, which runs the "
    about += "jobs of slurm on this machine, to try them out; all results come back to DIR. Needs the extra cluster, "
    about += "and the same code on all machines"
    run.add_argument("--cluster", metavar="ADDRESS|slurm|local", help=about)
    about = "for slurm and local: a parameter of submitit, e.g. slurm_partition=cpu, timeout_min=600 (default 1440) or "
    about += "mem_gb=4; may be given several times"
    run.add_argument("--cluster-option", action="append", default=[], metavar="KEY=VALUE", help=about)
    about = "threads of each run; with more than 1 numbers may differ from run to run"
    run.add_argument("--threads", type=count, default=1, metavar="N", help=about)
    about = "measure loss, AUC and mean rank on train, validation and test every N rounds, on at most 2,000 homes of "
    about += "each; the fit then leaves validation rules out (default 0, never)"
    run.add_argument("--curves", type=_count_or_zero, metavar="N", help=about)
    about = "write a checkpoint to DIR/checkpoints every N rounds; the same command resumes a killed run from it; "
    about += "federated methods only, others start again (default 0, never)"
    run.add_argument("--checkpoints", type=_count_or_zero, default=0, metavar="N", help=about)
    about = "their number, or a list: 5 is 0,1,2,3,4"
    run.add_argument("--seeds", type=_seeds, metavar="N|A,B", help=about)
    about = f"also write each finished run to an experiment tracker: {TRACKERS}; may be given several times"
    run.add_argument("--track-to", action="append", default=[], metavar="TRACKER", help=about)
    share(run, "--set", "--results", "--quiet")

    command("list", "methods", "list_methods", "every method, one line each, by formulation")
    share(
        command("show", "methods", "show_method", "the parameters of a method with type, default and meaning"), "method"
    )
    about = "write the docstrings and parameters of our methods to a file, for the report"
    describe = command("describe", "methods", "describe_methods", about)
    about = "the file to write (default benchmarks/results/methods.json)"
    describe.add_argument("--out", type=Path, metavar="FILE", help=about)

    compare = command("compare", "results", "show_comparison", "is A significantly better than B?")
    compare.add_argument("a", metavar="A")
    compare.add_argument("b", metavar="B")
    select(compare, FILTERS | SELECTION)

    board = command(
        "leaderboard", "results", "show_leaderboards", "the methods on each data set, best first, in groups of ties"
    )
    board.add_argument("--json", action="store_true", help="a line of JSON for each leaderboard")
    select(board, FILTERS | SELECTION)

    curves = command("curves", "results", "show_curves", "the history by round of all runs, as CSV")
    about = "write a row per run, round, part and metric (default to the standard output); FILE.runs.csv then says "
    about += "what each run is, with all parameters"
    curves.add_argument("--out", type=Path, metavar="FILE.csv", help=about)
    select(curves, SELECTION)

    track = command(
        "track", "results", "track_results", "write stored results to an experiment tracker, each of them once"
    )
    about = f"{TRACKERS}; may be given several times"
    track.add_argument("--to", action="append", required=True, metavar="TRACKER", help=about)
    select(track, {"--protocol": FILTERS["--protocol"]} | SELECTION)
    share(track, "--quiet")

    publish = command(
        "publish", "published", "publish_results", "write a folder of results as one small file, without the data"
    )
    publish.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    share(publish, "--results")

    about = "write published results into a folder: a suite then makes the missing ones only"
    restore = command("restore", "published", "restore_results", about)
    about = "a file of `publish` (default benchmarks/published/results.parquet)"
    restore.add_argument("--file", type=Path, metavar="FILE", help=about)
    share(restore, "--results")

    about = "run one seed of each method and data set again; if its numbers are the same, all its seeds count as "
    about += "made by the current code"
    reproduce = command("reproduce", "runs", "reproduce_results", about)
    reproduce.add_argument("--methods", type=comma_separated, metavar="A,B", help="these only (default all)")
    about = "runs at the same time, each in its own process (default 1)"
    reproduce.add_argument("--jobs", type=count, default=1, metavar="N", help=about)
    share(reproduce, "--results", "--quiet")

    evaluate = command("evaluate", "external", "evaluate_lists", "evaluate the rank lists of another tool")
    about = "CSV or Parquet with user, trigger_device, trigger_state, action, action_device and rank, or a submission "
    about += "to the Wyze challenge (user_id, rule, rank)"
    evaluate.add_argument("file", type=Path, metavar="FILE", help=about)
    evaluate.add_argument("--name", metavar="TOOL", help="its name on the leaderboard (default the name of the file)")
    evaluate.add_argument("--metric", metavar="NAME", help="to show with an interval (default mrr)")
    evaluate.add_argument("--results", type=Path, metavar="DIR", help="store it as a result (default not stored)")

    export = command("export-split", "external", "export_tables", "write a split as tables, for other tools to fit on")
    export.add_argument("out", type=Path, metavar="DIR", help="the folder to write to")
    for external in (evaluate, export):
        external.add_argument("--data", required=True, metavar=DATA, help="e.g. wyze-synthetic:homes=2000")
        share(external, "--track", "--split", "--seed")

    submit = command(
        "submit", "external", "write_challenge_submission", "write a submission to the Wyze challenge from its files"
    )
    submit.add_argument("--out", type=Path, required=True, metavar="FILE.csv", help="the file to write")
    about = "wyze, with options that choose training homes and relations, e.g. wyze:min_rules=2,min_pair_count=20"
    submit.add_argument("--data", default="wyze", metavar=DATA, help=about)
    about = "the folder of its files, if not $FEDRULE_DATA/wyze"
    submit.add_argument("--path", type=Path, metavar="DIR", help=about)
    about = "test homes to recommend to: test (default), test_private, or both"
    submit.add_argument("--parts", type=comma_separated, default=["test"], metavar="A,B", help=about)
    about = "also recommend rules whose types and relation no training home has together"
    submit.add_argument("--no-valid-filter", action="store_true", help=about)
    submit.add_argument("--seed", type=int, default=0, metavar="N", help="of the fit (default 0)")
    share(submit, "method", "--set")

    scored = command(
        "score-submission", "external", "score_challenge_submission", "MRR@50 of a submission, given the hidden rules"
    )
    scored.add_argument("file", type=Path, metavar="SUBMISSION.csv", help="with the columns user_id, rule and rank")
    about = "CSV with the hidden rules, columns user_id and rule; others are not read"
    scored.add_argument("--hidden", type=Path, required=True, metavar="FILE.csv", help=about)

    share(command("check", "methods", "check", "check that a method satisfies the contract"), "method", "--set")

    tune = command("tune", "tune", "tune_methods", "choose parameters on validation data")
    about = "a method, several (A,B), or all that have parameters to tune"
    tune.add_argument("methods", type=comma_separated, metavar="METHOD", help=about)
    about = "trials, the same for every method (default 30)"
    tune.add_argument("--trials", type=count, default=30, metavar="N", help=about)
    about = "the data sets and splits of a suite, e.g. tuning; or name them by --data, --track and --split"
    tune.add_argument("--suite", metavar="SUITE", help=about)
    about = "e.g. wyze-synthetic:homes=2000; several: their geometric mean (default ifttt-synthetic)"
    tune.add_argument("--data", action="append", metavar=DATA, help=about)
    for option in ("--track", "--split"):
        tune.add_argument(option, **SHARED[option] | {"default": None})
    tune.add_argument("--sampler-seed", type=int, default=0, metavar="SEED", help="seed of the choices (default 0)")
    about = "their number, or a list: 2 is 100,101, which no suite of ours reports (default 1)"
    tune.add_argument("--seeds", type=_seeds, metavar="N|A,B", help=about)
    about = "splits of further seeds on which the best trial is measured again, beside the defaults (default 2)"
    tune.add_argument("--confirm", type=_count_or_zero, default=2, metavar="N", help=about)
    about = "methods tuned at the same time, each in its own process (default 1)"
    tune.add_argument("--jobs", type=count, default=1, metavar="N", help=about)
    share(tune, "--set", "--results", "--quiet")
    return parser


if __name__ == "__main__":
    sys.exit(main())
