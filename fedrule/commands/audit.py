"""`python -m fedrule audit`: attacks on our own system, and what they can tell of a home."""

from __future__ import annotations

import argparse
import logging
import math
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from datasets.common.cli import comma_separated, count, say
from datasets.common.environment import commit, set_threads, versions
from datasets.common.progress import progress
from fedrule.commands import HOMES_HELP, HOMES_METAVAR, load_homes

if typing.TYPE_CHECKING:
    from benchmarks.results.audits import Audit
    from fedrule.audit.findings import Finding

DATA = "wyze-synthetic"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--data", default=DATA, metavar=HOMES_METAVAR, help=f"{HOMES_HELP} (default: %(default)s)")
    about = "methods to attack, separated by commas: fedgnn, fedrule, fedrank (default: all three)"
    add("--method", type=comma_separated, default=[], metavar="NAMES", help=about)
    about = "parts, separated by commas: updates, members, counts, which are of fedrank only (default: all three)"
    add("--part", type=comma_separated, default=[], metavar="NAMES", help=about)
    add("--homes", type=count, metavar="N", help="homes of the federation whose updates are attacked")
    add("--account-homes", type=count, metavar="N", help="homes of the federation that the noise of DP is for")
    add("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    add("--out", type=Path, metavar="FILE", help="the result file (default: in audit/ of the results folder)")
    add("--full", action="store_true", help="more homes, cohorts, epsilons and shadow models: the published table")
    add("--threads", type=int, default=1, help="1 gives the same bits every time (default: %(default)s)")
    add("--quiet", action="store_true", help="no progress")


def run(chosen: argparse.Namespace) -> int:
    """Attack, print a table, and write the result file."""
    set_threads(chosen.threads)
    from benchmarks.results.audits import AUDITS, Audit, AuditRow, write_audit
    from benchmarks.results.store import results_folder
    from fedrule.audit.run import FULL, METHODS, PARTS, QUICK, audit, steps
    from fedrule.models.file import refuse_unwritable

    if chosen.out is not None:
        refuse_unwritable(chosen.out)
    plan = FULL if chosen.full else QUICK
    if chosen.homes is not None:
        plan = replace(plan, homes=chosen.homes)
    if chosen.account_homes is not None:
        plan = replace(plan, account_homes=chosen.account_homes)
    methods, parts = tuple(dict.fromkeys(chosen.method)) or METHODS, tuple(dict.fromkeys(chosen.part)) or PARTS
    homes = load_homes(chosen.data)
    with errors_only(), progress(len(steps(methods, parts)), "part", quiet=chosen.quiet) as bar:
        begun = 0

        def on_step(text: str) -> None:
            nonlocal begun
            bar.step(min(begun, 1))
            begun += 1
            bar.note(text)

        found = audit(homes, plan, methods, parts, seed=chosen.seed, on_step=on_step)
        rows = tuple(AuditRow(**known(finding)) for finding in found)
        bar.step()
    record = Audit(
        data=chosen.data,
        fingerprint=homes.fingerprint,
        homes=homes.n_homes,
        seed=chosen.seed,
        methods=methods,
        parts=parts,
        plan=asdict(plan),
        rows=rows,
        commit=commit(),
        versions=versions(),
    )
    path = chosen.out or results_folder() / AUDITS / record.file
    write_audit(path, record)
    for line in table(record):
        say(line)
    sys.stdout.write(f"Saved to {path}. {counted(record)}\n")
    return 0


def known(finding: Finding) -> dict[str, typing.Any]:
    """The fields of a finding, of the values those that are known."""
    fields = asdict(finding)
    return fields | {"values": {name: value for name, value in finding.values.items() if math.isfinite(value)}}


def counted(found: Audit) -> str:
    return f"{len(found.rows)} attacks on {found.homes:,} homes of {found.data}, seed {found.seed}."


def table(found: Audit) -> typing.Iterator[str]:
    """What leaves a home, who sees it, what can be told from it; sections by method."""
    for method in found.methods:
        rows = [row for row in found.rows if row.method == method]
        previous = ""
        yield f"{method}"
        for row in rows:
            if row.what != previous:
                previous = row.what
                yield f"  {row.what}"
            where = f", of {row.homes:,} homes" if row.leaves == "counts" else ""
            yield f"    {row.attack}{where}; defence: {row.defended_by}; the attacker also knows: {row.knows}"
            yield f"        {row.told}"
        yield ""


@contextmanager
def errors_only() -> Iterator[None]:
    """Without warnings of training: that private models of few homes learn nothing is a finding here."""
    log = logging.getLogger("fedrule")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
