"""`python -m fedrule recommend`: what one home, or each home of a data set, should set up next."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.common.cli import add_import, import_all
from datasets.common.errors import DataError
from fedrule.commands import HOMES_HELP, HOMES_METAVAR, load_homes
from fedrule.inference.output import Recommendations
from fedrule.inference.recommender import Recommender
from fedrule.inference.request import BadHome, HomeRequest
from fedrule.models.file import SavedModel

if TYPE_CHECKING:
    from datasets.common.progress import Progress
    from datasets.homes import Homes
    from fedrule.inference.output import Lists

THREADS = 2
USERS_AT_ONCE = 20_000  # of a database: some 100 MB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a model file")
    add("home", nargs="?", metavar="HOME.json", help="a home; - reads the standard input")
    add("-k", type=int, default=10, help="how many recommendations (default: %(default)s)")
    about = "at most N rules with the same relation and types; 0: no limit"
    add("--max-similar", type=int, default=0, metavar="N", help=about)
    about = "ignore types and relations that the model does not know"
    add("--ignore-unknown", dest="unknown", action="store_const", const="ignore", default="refuse", help=about)
    add("--json", action="store_true", help="print JSON")
    add("--all", dest="data", metavar=HOMES_METAVAR, help=f"all homes of {HOMES_HELP}")
    add("--out", type=Path, metavar="FILE", help="with --all: a .parquet, .csv or .jsonl file to write")
    about = f"with --all: threads (default: {THREADS}); with --cluster: batches of homes at the same time (default: as "
    about += "many as Dask's workers have threads, or 16 jobs of Slurm)"
    add("--jobs", type=int, metavar="N", help=about)
    about = "with --all: spread the homes over other machines: tcp://HOST:PORT of a Dask scheduler, slurm, or local, "
    about += "which runs the jobs of slurm on this machine, to try them out; homes and lists travel, so that only this "
    about += "machine needs the data. Needs the extra cluster, and the same code on all machines"
    add("--cluster", metavar="ADDRESS|slurm|local", help=about)
    about = "for slurm and local: a parameter of submitit, e.g. slurm_partition=cpu, timeout_min=60 (default 1440) or "
    about += "mem_gb=4; may be given several times"
    add("--cluster-option", action="append", default=[], metavar="KEY=VALUE", help=about)
    add("--quiet", action="store_true", help="no progress")
    add_import(parser)


def run(chosen: argparse.Namespace) -> int:
    """Print the list of one home, or write the lists of all homes to a file."""
    if (chosen.home is None) == (chosen.data is None):
        raise DataError("give either HOME.json, or --all DATA with --out FILE")
    if (chosen.data is None) != (chosen.out is None):
        raise DataError("--all DATA and --out FILE belong together")
    if chosen.data is not None and chosen.json:
        raise DataError("--json is for one home; with --all use --out FILE.jsonl")
    if chosen.data is None and (chosen.cluster is not None or chosen.cluster_option):
        raise DataError("--cluster is for many homes: give --all DATA with --out FILE")
    import_all(chosen.modules)
    if chosen.data is not None:
        return _write_all(chosen)
    recommender, home = Recommender.load(chosen.model), HomeRequest.read(chosen.home)
    try:
        answer = recommender.recommend(home, chosen.k, unknown=chosen.unknown, max_similar=chosen.max_similar)
    except BadHome as error:
        remedy = " (--ignore-unknown)" if error.code.startswith("unknown_") else ""
        raise BadHome(error.code, f"{chosen.home} {error.where}", error.message + remedy) from None
    as_json = json.dumps(answer.as_json(), indent=1, ensure_ascii=False) + "\n" if chosen.json else ""
    sys.stdout.write(as_json or _text(answer))
    return 0


def _write_all(chosen: argparse.Namespace) -> int:
    from datasets.common.progress import progress
    from fedrule.inference.output import check_suffix, write_all

    check_suffix(chosen.out)
    empty = devices = rules = 0

    def counted(made: Iterable[Lists]) -> Iterator[Lists]:
        nonlocal empty, devices, rules
        for part in made:
            empty += part.n_homes - part.n_lists
            devices, rules = devices + part.ignored_devices, rules + part.ignored_rules
            yield part

    with progress(None, " homes", quiet=chosen.quiet) as bar, _lists(chosen, bar) as made:
        n_homes, n_rows = write_all(counted(made), chosen.out)
    sys.stdout.write(f"{n_rows:,} recommendations for {n_homes:,} homes written to {chosen.out}\n")
    if empty:
        sys.stdout.write(f"{empty:,} homes have no recommendations\n")
    if devices or rules:
        sys.stdout.write(f"ignored, unknown to the model: {devices:,} devices, {rules:,} rules\n")
    return 0


@contextmanager
def _lists(chosen: argparse.Namespace, bar: Progress) -> Iterator[Iterator[Lists]]:
    """The lists of each part of the data, made here or on a cluster."""
    saved = SavedModel.load(chosen.model)
    recommender = Recommender.of(saved, chosen.model)
    if chosen.cluster is None and not chosen.cluster_option:
        jobs = THREADS if chosen.jobs is None else chosen.jobs
        how = {"unknown": chosen.unknown, "max_similar": chosen.max_similar, "jobs": jobs, "on_homes": bar.step}
        yield (recommender.recommend_many(homes, chosen.k, **how) for homes in _parts(chosen.data, bar))
        return
    from fedrule.commands.cluster_lists import lists_of_cluster

    with lists_of_cluster(_parts(chosen.data, bar), saved, recommender, chosen, bar) as lists:
        yield lists


def _parts(data: str, bar: Progress) -> Iterator[Homes]:
    """A database in batches, so that it need not fit into memory; anything else as a whole."""
    if Path(data).suffix == ".toml":
        from fedrule.pipeline import Pipeline

        pipeline = Pipeline.from_file(data)
        bar.expect(pipeline.n_users())
        yield from pipeline.batches(USERS_AT_ONCE)
    else:
        homes = load_homes(data)
        bar.expect(homes.n_homes)
        yield homes


def _text(answer: Recommendations) -> str:
    lines = [] if answer.rules else ["No recommendations for this home."]
    for rule in answer.rules:
        lines += [f"{rule.rank:>3}. {rule.text}", f"     probability {rule.probability:.2f}; {rule.why.text}"]
    lines += [f"ignored: {sentence}" for sentence in answer.ignored]
    return "\n".join(lines) + "\n"
