"""`python -m fedrule audit`: attacks on our own system, and what they can tell of a home."""

from __future__ import annotations

import argparse
import logging
import math
import time
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from datasets.common.cli import comma_separated, count, say
from datasets.common.environment import commit, set_threads, versions
from datasets.common.errors import DataError
from datasets.common.files import atomic_file
from datasets.common.progress import progress
from fedrule.commands import HOMES_HELP, HOMES_METAVAR, load_homes

if typing.TYPE_CHECKING:
    from benchmarks.results.audits import Audit
    from datasets.homes import Homes
    from fedrule.audit.findings import Finding
    from fedrule.audit.run import AuditSize

DATA = "wyze-synthetic"
# Minutes of one core on DATA for each part and method, quick and full. Measured on a busy machine, but for members and
# counts of fedrank in full, which are estimates from the quick ones.
MINUTES = {
    ("updates", "fedgnn"): (0.6, 1.1),
    ("members", "fedgnn"): (0.2, 1.1),
    ("updates", "fedrule"): (0.3, 0.7),
    ("members", "fedrule"): (0.1, 0.3),
    ("updates", "fedrank"): (0.5, 0.3),
    ("members", "fedrank"): (0.2, 6.0),
    ("counts", "fedrank"): (0.1, 0.1),
}


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
    about = "the result file, beside which the table is, as .txt (default: in audit/ of the results folder)"
    add("--out", type=Path, metavar="FILE", help=about)
    about = "more homes, cohorts, epsilons and shadow models: the tables of docs/privacy.md"
    add("--full", action="store_true", help=about)
    add("--threads", type=int, default=1, help="1 gives the same bits every time (default: %(default)s)")
    add("--quiet", action="store_true", help="no progress")


def run(chosen: argparse.Namespace) -> int:
    """Attack, write the result file and the table, and print a summary."""
    set_threads(chosen.threads)
    from benchmarks.results.audits import AUDITS, Audit, AuditRow, write_audit
    from benchmarks.results.store import results_folder
    from fedrule.audit.run import FULL, METHODS, PARTS, QUICK, audit, check_names, steps
    from fedrule.models.file import refuse_unwritable

    if chosen.out is not None:
        refuse_unwritable(chosen.out)
        if chosen.out.suffix == ".txt":
            raise DataError(f"--out {chosen.out}: the table gets this name; name the result file .json")
    size = FULL if chosen.full else QUICK
    if chosen.homes is not None:
        size = replace(size, homes=chosen.homes)
    if chosen.account_homes is not None:
        size = replace(size, account_homes=chosen.account_homes)
    methods, parts = tuple(dict.fromkeys(chosen.method)) or METHODS, tuple(dict.fromkeys(chosen.part)) or PARTS
    check_names(methods, parts)
    planned = steps(methods, parts)
    if not planned:
        raise DataError(f"no counts of {', '.join(methods)} leave homes; choose another --part, or --method fedrank")
    homes = load_homes(chosen.data)
    if not chosen.quiet:
        say(announcement(planned, size, homes=homes, full=chosen.full))
    begun, rows = time.monotonic(), []
    with errors_only(), progress(len(planned), "part", quiet=chosen.quiet) as bar:
        done, part = 0, ""

        def on_step(text: str) -> None:
            nonlocal done, part
            bar.step(min(done, 1))
            done, part = done + 1, text
            bar.note(part)

        for finding in audit(homes, size, methods, parts, seed=chosen.seed, on_step=on_step):
            rows.append(AuditRow(**known(finding)))
            bar.note(f"{part}, {len(rows)} attacks so far")
        bar.step()
    record = Audit(
        data=chosen.data,
        fingerprint=homes.fingerprint,
        homes=homes.n_homes,
        seed=chosen.seed,
        methods=methods,
        parts=parts,
        size=asdict(size),
        rows=tuple(rows),
        commit=commit(),
        versions=versions(),
    )
    path = chosen.out or results_folder() / AUDITS / record.file
    write_audit(path, record)
    listed = path.with_suffix(".txt")
    with atomic_file(listed) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in table(record)), "utf-8")
    for line in summary(record):
        say(line)
    say(f"{len(rows)} attacks in {duration(time.monotonic() - begun)}. All of them: {listed}; for programs: {path}")
    return 0


def announcement(planned: Sequence[tuple[str, str]], size: AuditSize, *, homes: Homes, full: bool) -> str:
    """What will be run on how many homes, and about how long it takes."""
    kinds = {
        "updates": f"rules from updates of {size.homes:,} homes",
        "members": f"members of models of {size.shadow_homes // 2:,} homes",
        "counts": f"counts of up to {min(max(size.count_homes), homes.n_homes):,} homes",
    }
    parts = {part: [name for each, name in planned if each == part] for part in kinds}
    what = "; ".join(f"{kinds[part]} ({', '.join(names)})" for part, names in parts.items() if names)
    quick_minutes, full_minutes = (sum(each) for each in zip(*(MINUTES[step] for step in planned), strict=True))
    takes = f"About {rounded(full_minutes if full else quick_minutes)} of one core"
    longer = "" if full else f", and {rounded(full_minutes)} with --full"
    return f"Attacks on {homes.name}: {what}. {takes}{longer}."


def rounded(minutes: float) -> str:
    """2 minutes."""
    many = max(round(minutes), 1)
    return f"{many} minute{'s' if many > 1 else ''}"


def duration(seconds: float) -> str:
    """45 s, or 3 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def known(finding: Finding) -> dict[str, typing.Any]:
    """The fields of a finding, of the values those that are known."""
    fields = asdict(finding)
    return fields | {"values": {name: value for name, value in finding.values.items() if math.isfinite(value)}}


def summary(found: Audit) -> Iterator[str]:
    """The worst of each thing that leaves a home, for a reader who will not read the table."""
    from benchmarks.results.audits import summary_lines

    yield f"What leaves a home, who sees it, and the most that can be told from it ({found.data}, seed {found.seed}):"
    yield from summary_lines(found.rows)


def table(found: Audit) -> Iterator[str]:
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
            yield f"        {row.disclosure}"
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
