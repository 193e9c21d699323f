"""`python -m fedrule recommend`: what one home, or each home of a data set, should set up next."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from datasets.common.cli import add_import, import_all
from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress
from datasets.homes import Homes
from fedrule.commands import homes as asked_homes
from fedrule.inference import AskedHome, BadHome, Ranked, Recommendation, Recommendations, Recommender
from fedrule.inference.encode import Unknown

USERS_AT_ONCE = 20_000  # of a database: some 100 MB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file")
    parser.add_argument("home", nargs="?", metavar="HOME.json", help="a home; - reads the standard input")
    parser.add_argument("-k", type=int, default=10, help="how many recommendations (default: %(default)s)")
    parser.add_argument(
        "--alike", type=int, default=0, metavar="N", help="at most N rules of one relation and types; 0: any number"
    )
    parser.add_argument("--ignore-unknown", action="store_true", help="leave out what the model never saw")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--all", dest="data", metavar=asked_homes.METAVAR, help=f"all homes of {asked_homes.ABOUT}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --all: a .parquet, .csv or .jsonl file to write")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="with --all: threads (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_import(parser)


def run(chosen: argparse.Namespace) -> int:
    """One home to the standard output, or all homes to a file."""
    if (chosen.home is None) == (chosen.data is None):
        raise DataError("give either HOME.json, or --all DATA with --out FILE")
    if (chosen.data is None) != (chosen.out is None):
        raise DataError("--all DATA and --out FILE belong together")
    if chosen.data is not None and chosen.json:
        raise DataError("--json is of one home; with --all name a file --out FILE.jsonl")
    import_all(chosen.modules)
    recommender = Recommender.load(chosen.model)
    if chosen.data is not None:
        return _all(recommender, chosen)
    home = AskedHome.read(chosen.home)
    try:
        answer = recommender.recommend(home, chosen.k, unknown=_unknown(chosen), alike=chosen.alike)
    except BadHome as error:
        remedy = " (--ignore-unknown)" if error.code.startswith("unknown_") else ""
        raise BadHome(error.code, f"{chosen.home} {error.where}", error.message + remedy) from None
    told = json.dumps(answer.as_json(), indent=1, ensure_ascii=False) + "\n" if chosen.json else _text(answer)
    sys.stdout.write(told)
    return 0


def _all(recommender: Recommender, chosen: argparse.Namespace) -> int:
    from fedrule.inference.output import refuse_other_endings, write_all  # brings pandas, which one home need not

    refuse_other_endings(chosen.out)
    lost = {"homes": 0, "devices": 0, "rules": 0}

    def ranked(shown: Progress) -> Iterator[Ranked]:
        for homes in _parts(chosen.data, shown):
            part = recommender.recommend_many(
                homes,
                chosen.k,
                unknown=_unknown(chosen),
                alike=chosen.alike,
                jobs=chosen.jobs,
                on_homes=shown.step,
            )
            lost["homes"] += homes.n_homes - len(np.unique(part.home))
            lost["devices"] += part.ignored_devices
            lost["rules"] += part.ignored_rules
            yield part

    with progress(None, " homes", quiet=chosen.quiet) as shown:
        homes, rows = write_all(ranked(shown), chosen.out)
    sys.stdout.write(f"{rows:,} recommendations for {homes:,} homes are in {chosen.out}\n")
    if lost["homes"]:
        sys.stdout.write(f"{lost['homes']:,} homes have no list: nothing that they lack is known\n")
    if lost["devices"] or lost["rules"]:
        sys.stdout.write(f"left out, unknown to the model: {lost['devices']:,} devices, {lost['rules']:,} rules\n")
    return 0


def _unknown(chosen: argparse.Namespace) -> Unknown:
    return "ignore" if chosen.ignore_unknown else "refuse"


def _parts(data: str, shown: Progress) -> Iterator[Homes]:
    """A database part by part, so that it need not fit into memory; anything else as a whole."""
    if Path(data).suffix == ".toml":
        from fedrule.pipeline import Pipeline

        pipeline = Pipeline.from_file(data)
        shown.expect(pipeline.n_users())
        yield from pipeline.batches(USERS_AT_ONCE)
    else:
        homes = asked_homes.homes_of(data)
        shown.expect(homes.n_homes)
        yield homes


def _text(answer: Recommendations) -> str:
    lines = [line for rule in answer.rules for line in _lines(rule)] or ["Nothing that this home lacks is known."]
    lines += [f"left out: {sentence}" for sentence in answer.ignored]
    return "\n".join(lines) + "\n"


def _lines(rule: Recommendation) -> tuple[str, str]:
    return f"{rule.rank:>3}. {rule.text}", f"     probability {rule.probability:.2f}; {rule.why.text}"
