"""What the numbers were made with: versions, machines, threads, commits and dates of the runs behind a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from benchmarks.results.results import Result
from benchmarks.results.speeds import SPEED, Speed
from reports.text.cells import whole
from reports.output_types import BUILD, About, Cell, Missing, Table, sources_of
from reports.material import Material

UNKNOWN = "unknown"
FIRST = ("python", "platform", "threads", "commit", "day")  # the others follow by name
SHORT = 12  # digits of a commit


def environment(material: Material) -> Table:
    """A row for each value that a circumstance has had, and how many runs or measurements had it."""
    if not material.runs and not material.speeds:
        raise Missing("no run and no measurement of speed is there", BUILD)
    rows = [*_rows("runs", map(_of_run, material.runs)), *_rows("speeds", map(_of_speed, material.speeds))]
    sources = sources_of(material.runs) + tuple(sorted({f"{SPEED}/{speed.file}" for speed in material.speeds}))
    about = About(_caption(material), sources, BUILD, tuple(_differences(rows)))
    return Table(("of", "circumstance", "value", "how many"), tuple(rows), about)


def _of_run(run: Result) -> dict[str, str]:
    own = {"threads": str(run.threads), "commit": _commit(run.commit), "day": run.written[:10] or UNKNOWN}
    return {**run.versions, **own}


def _of_speed(speed: Speed) -> dict[str, str]:
    scale = {"scale": speed.scale} if speed.scale else {}
    return {"machine": speed.machine or UNKNOWN, "commit": _commit(speed.commit), "day": speed.made[:10], **scale}


def _rows(of: str, each: Iterable[Mapping[str, str]]) -> list[tuple[Cell, ...]]:
    found: dict[str, Counter[str]] = {}
    for circumstances in each:
        for name, value in circumstances.items():
            found.setdefault(name, Counter())[value] += 1
    names = [name for name in FIRST if name in found] + sorted(found.keys() - set(FIRST))
    return [
        (Cell(of), Cell(name), Cell(value), whole(many))
        for name in names
        for value, many in sorted(found[name].items())
    ]


def _caption(material: Material) -> str:
    said = []
    if material.runs:
        days = sorted(run.written[:10] for run in material.runs if run.written)
        when = f" of {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "") if days else ""
        commits = len({run.commit for run in material.runs})
        said.append(f"{len(material.runs):,} runs{when}, by {commits} {'commit' if commits == 1 else 'commits'}.")
    if material.failed:
        said.append(f"{len(material.failed):,} runs failed.")
    if material.speeds:
        machines = sorted({speed.machine or UNKNOWN for speed in material.speeds})
        many = len(material.speeds)
        said.append(f"{many:,} {'speed' if many == 1 else 'speeds'} measured on {' and on '.join(machines)}.")
    return " ".join(said)


def _differences(rows: Iterable[tuple[Cell, ...]]) -> list[str]:
    """What was not the same for all; days differ of themselves."""
    values: dict[tuple[str, str], list[str]] = {}
    for of, name, value, _ in rows:
        values.setdefault((of.text, name.text), []).append(value.text)
    notes = [
        f"The {of} differ in {name}: {', '.join(those)}."
        for (of, name), those in values.items()
        if len(those) > 1 and name not in ("day", "scale")
    ]
    return notes or ["All were made under the same circumstances."]


def _commit(commit: str) -> str:
    """Its first digits, and whether files differed from it."""
    first, _, changes = commit.partition(" ")
    return f"{first[:SHORT]} {changes}".strip() or UNKNOWN
