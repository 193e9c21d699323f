"""What `pytest benchmarks/` measured of single parts: seconds, and the ratio to a plain reference in the same run."""

from __future__ import annotations

from benchmarks.results.speeds import SPEED, Speed
from datasets.common.errors import counted
from reports.inputs import Inputs, extra_number, measured_on
from reports.outputs import About, Cell, Missing, Table
from reports.text.formats import bytes_cell, count_cell, number_cell, seconds_cell, short_number

GRAPH = ("test_graph.py", "test_inference.py", "test_service.py")
FEDERATED = ("test_federated.py",)
FITS = ("test_fit.py",)
FOLDER = "benchmarks/speed/"
SCALES = ("", "smoke", "default", "paper")  # small ones first
COLUMNS = ("what", "homes", "seconds", "per second", "reference, per second", "ratio", "peak memory")


def graph(inputs: Inputs) -> Table:
    """Training, scoring and search of the graph methods."""
    return _table(inputs, GRAPH)


def federated(inputs: Inputs) -> Table:
    """Rounds of federated training."""
    return _table(inputs, FEDERATED)


def fits(inputs: Inputs) -> Table:
    """A fit of each method at each number of homes."""
    return _table(inputs, FITS)


def _table(inputs: Inputs, files: tuple[str, ...]) -> Table:
    """A row per benchmark of these files, at the largest scale, on the machine that measured it last."""
    paths = " ".join(f"{FOLDER}{file}" for file in files)
    command = f"pytest {paths} --benchmark-only --scale paper"
    found = [speed for speed in inputs.speeds if speed.fullname.partition("::")[0].endswith(files)]
    if not found:
        raise Missing(f"the speed of {', '.join(files)} was not measured", command)
    largest = max(found, key=lambda speed: (_scale(speed), speed.made))
    shown = [speed for speed in found if (speed.scale, speed.machine) == (largest.scale, largest.machine)]
    ratios = {name: ratio for speed in shown if (ratio := extra_number(speed, "ratio")) > 0 for name in [_name(speed)]}
    caption = f"{counted(len(shown), 'measurement')}."
    if ratios:
        ends = [pick(ratios, key=ratios.__getitem__) for pick in (min, max)]
        spread = " to ".join(dict.fromkeys(f"{short_number(ratios[name])} ({name})" for name in ends))
        caption = f"So many times as fast as a plain reference: {spread}."
    sources = tuple(sorted({f"{SPEED}/{speed.file}" for speed in shown}))
    notes = (
        *measured_on(shown),
        "Seconds: the fastest repetition. Per second: homes, or other units of work. The ratio is to a plain "
        "implementation in the same run, so that it depends little on the machine; memory is that of a fresh process.",
    )
    return Table(COLUMNS, tuple(map(_row, shown)), About(caption, sources, command, notes))


def _scale(speed: Speed) -> int:
    return SCALES.index(speed.scale) if speed.scale in SCALES else 0


def _name(speed: Speed) -> str:
    """federated round, drawn once, fedgnn."""
    name, _, parameters = speed.name.partition("[")
    parts = [name.removeprefix("test_"), *parameters.rstrip("]").split("-")]
    return ", ".join(part.replace("_", " ") for part in parts if part)


def _row(speed: Speed) -> tuple[Cell, ...]:
    rates = (extra_number(speed, name) for name in ("units per second", "units per second of the reference"))
    return (
        Cell(_name(speed)),
        count_cell(extra_number(speed, "homes")),
        seconds_cell(speed.seconds_min),
        *(number_cell(rate, 0) for rate in rates),
        number_cell(extra_number(speed, "ratio"), 1),
        bytes_cell(extra_number(speed, "peak_megabytes") * 1e6),
    )
