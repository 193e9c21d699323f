"""What `pytest benchmarks/` measured of single parts: seconds, the ratio to a plain reference, or what else it noted.

A table is an entry of MEASURED: which benchmarks, and its columns where they are not the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.results.speeds import SPEED, Speed
from datasets.common.errors import counted
from reports.inputs import Inputs, extra_number, finite_or_nan, measured_on
from reports.outputs import About, Cell, Missing, Table
from reports.text.formats import NONE, bytes_cell, count_cell, format_number, number_cell, seconds_cell, short_number

FOLDER = "benchmarks/speed/"
SCALES = ("", "smoke", "default", "paper")  # small ones first
USUAL_NOTE = (
    "Seconds: the fastest repetition. Per second: homes, or other units of work. The ratio is to a plain "
    "implementation of the same in the same run, where there is one, so that it depends little on the machine. Memory "
    "is that of a fresh process."
)
Column: TypeAlias = tuple[str, Callable[[Speed], Cell]]  # title and content


@dataclass(frozen=True, slots=True)
class Measured:
    """Which benchmarks a table shows, and how."""

    subject: str  # in words
    files: tuple[str, ...]
    columns: tuple[Column, ...]
    note: str
    only: str = ""  # what the names of its benchmarks have in common, for -k

    def has(self, speed: Speed) -> bool:
        """Whether this is one of its benchmarks."""
        return speed.fullname.partition("::")[0].endswith(self.files) and self.only in speed.name

    @property
    def command(self) -> str:
        """Makes all of them."""
        paths = " ".join(f"{FOLDER}{file}" for file in self.files)
        return f"pytest {paths}{f' -k {self.only}' if self.only else ''} --benchmark-only --scale paper"


def measured(inputs: Inputs, name: str) -> Table:
    """A row per benchmark of an entry of MEASURED, at the largest scale, on the machine that measured it last."""
    table = MEASURED[name]
    found = [speed for speed in inputs.speeds if table.has(speed)]
    if not found:
        raise Missing(f"{table.subject} was not measured", table.command)
    largest = max(found, key=lambda speed: (_scale(speed), speed.made))
    shown = [speed for speed in found if (speed.scale, speed.machine) == (largest.scale, largest.machine)]
    shown.sort(key=lambda speed: _parts(speed.name))
    sources = tuple(sorted({f"{SPEED}/{speed.file}" for speed in shown}))
    about = About(_caption(table, shown), sources, table.command, (*measured_on(shown), table.note))
    rows = tuple(tuple(cell(speed) for _, cell in table.columns) for speed in shown)
    return Table(tuple(title for title, _ in table.columns), rows, about)


def _caption(table: Measured, shown: Sequence[Speed]) -> str:
    """The lowest and the highest ratio where the table has ratios, else how many measurements there are."""
    ratios = {_name(speed): ratio for speed in shown if (ratio := extra_number(speed, "ratio")) > 0}
    if not ratios or RATIO not in table.columns:
        return f"{table.subject[0].upper()}{table.subject[1:]}: {counted(len(shown), 'measurement')}."
    ends = [pick(ratios, key=ratios.__getitem__) for pick in (min, max)]
    spread = " to ".join(dict.fromkeys(f"{short_number(ratios[name])} ({name})" for name in ends))
    return f"So many times as fast as a plain reference: {spread}."


def _scale(speed: Speed) -> int:
    return SCALES.index(speed.scale) if speed.scale in SCALES else 0


def _parts(name: str) -> list[tuple[float, str]]:
    """The function and its parameters, numbers by their size, for sorting."""
    function, _, parameters = name.partition("[")
    parts = (function, *parameters.rstrip("]").split("-"))
    return [(float(part), "") if part.isdigit() else (math.inf, part) for part in parts]


def _name(speed: Speed) -> str:
    """federated round, drawn once, fedgnn."""
    name, _, parameters = speed.name.partition("[")
    parts = [name.removeprefix("test_"), *parameters.rstrip("]").split("-")]
    return ", ".join(part.replace("_", " ") for part in parts if part)


def _noted(name: str, cell: Callable[[float], Cell], times: float = 1.0) -> Callable[[Speed], Cell]:
    """A number that the benchmark has noted."""
    return lambda speed: cell(times * extra_number(speed, name))


def _parameter(name: str) -> Callable[[Speed], Cell]:
    """A number that the benchmark was called with."""
    return lambda speed: count_cell(finite_or_nan(speed.params.get(name)))


def _digits(digits: int) -> Callable[[float], Cell]:
    return lambda value: number_cell(value, digits)


def _percent(value: float) -> Cell:
    return Cell(NONE, "") if math.isnan(value) else Cell(f"{100 * value:.0f} %", value)


def _share(part: str, whole: str) -> Callable[[Speed], Cell]:
    """One number that the benchmark has noted in per cent of another."""
    return lambda speed: _percent(extra_number(speed, part) / extra_number(speed, whole))


def _each(name: str, cases: Sequence[str]) -> Callable[[Speed], Cell]:
    """One number for each of several cases, in one cell."""
    return lambda speed: Cell(" / ".join(format_number(extra_number(speed, f"{case}, {name}"), 3) for case in cases))


def _reference_rate(speed: Speed) -> Cell:
    """Of the same work; a benchmark without a ratio has a unit of time there, such as counting."""
    is_same = extra_number(speed, "ratio") > 0
    return number_cell(extra_number(speed, "units per second of the reference") if is_same else math.nan, 0)


def _reference_seconds(speed: Speed) -> Cell:
    return seconds_cell(1 / extra_number(speed, "units per second of the reference"))


WHAT: Column = ("what", lambda speed: Cell(_name(speed)))
SECONDS: Column = ("seconds", lambda speed: seconds_cell(speed.seconds_min))
RATIO: Column = ("ratio", _noted("ratio", _digits(1)))
USUAL: tuple[Column, ...] = (
    WHAT,
    ("homes", _noted("homes", count_cell)),
    SECONDS,
    ("per second", _noted("units per second", _digits(0))),
    ("reference, per second", _reference_rate),
    RATIO,
    ("peak memory", _noted("peak_megabytes", bytes_cell, 1e6)),
)
USERS = ("new users", "earlier users")
METRICS = ("MRR", "HR@10", "AUC")
MODELS = ("before", "continued", "from scratch")
HASS = "test_home_assistant.py"
MEASURED = {
    "fits": Measured("the speed of fits", ("test_fit.py",), USUAL, USUAL_NOTE),
    "graph": Measured(
        "the speed of the graph methods", ("test_graph.py", "test_inference.py", "test_service.py"), USUAL, USUAL_NOTE
    ),
    "federated": Measured("the speed of federated rounds", ("test_federated.py",), USUAL, USUAL_NOTE),
    "pipeline": Measured(
        "the speed of reading databases",
        ("test_pipeline.py",),
        (*USUAL, ("reference, peak memory", _noted("peak_megabytes of the reference", bytes_cell, 1e6))),
        f"{USUAL_NOTE} A unit of work is a row of the database, also where a tenth of the users is read; the reference "
        "reads everything.",
    ),
    "continued": Measured(
        "continued training",
        ("test_continue_training.py",),
        (
            ("method", lambda speed: Cell(str(speed.extra_info.get("method", "")))),
            ("homes", _noted("homes", count_cell)),
            ("seeds", _noted("seeds", count_cell)),
            *((f"{users}: {name}", _each(f"{users}: {name}", MODELS)) for users in USERS for name in METRICS),
            ("seconds", _noted("seconds", seconds_cell)),
            ("seconds, from scratch", _noted("seconds from scratch", seconds_cell)),
        ),
        f"A cell: {' / '.join(MODELS)} on all homes. All numbers are means over the seeds, each with other homes.",
    ),
    "secure-sum": Measured(
        "the cost of secure sums",
        ("test_private.py",),
        (
            ("members", _parameter("homes")),
            ("numbers", _parameter("numbers")),
            ("processor time of a home", _noted("seconds per home", seconds_cell)),
            ("bytes sent", _noted("sent per home", bytes_cell)),
            ("of plain", _share("sent per home", "plain_bytes")),
            ("bytes received", _noted("received per home", bytes_cell)),
            ("processor time of the server", _noted("server_seconds", seconds_cell)),
        ),
        "Of a home that stays to the end; one of eight drops out before step MASK. Times include all conversions to "
        "and from bytes. Numbers are up to 2^44 (7 bytes each); in plain, a home would send 8 bytes a number.",
        "test_secure_sum",
    ),
    "private-round": Measured(
        "the cost of a private round",
        ("test_private.py",),
        (
            WHAT,
            ("homes", _noted("homes", count_cell)),
            ("plain", _noted("plain_seconds", seconds_cell)),
            ("private", _noted("private_seconds", seconds_cell)),
            ("more, by the fastest rounds", _noted("overhead", _percent)),
            ("more, by medians", _noted("overhead of medians", _percent)),
        ),
        "Processor time of a round with clipping, noise and account beside one without, by turns.",
        "private_round",
    ),
    "home-assistant-lists": Measured(
        "the quality of lists of homes that gave no data",
        (HASS,),
        (
            ("unused devices beside each used one", _noted("unused devices, times its own", count_cell)),
            ("homes", _noted("homes", count_cell)),
            ("hit rate", _noted("hit rate at 10", _digits(2))),
            ("of the model's own order", _noted("hit rate at 10 of the model's own order", _digits(2))),
            ("of the commonest rules", _noted("hit rate at 10 of the commonest rules", _digits(2))),
            ("lines that are hidden rules", _noted("lines that are hidden rules", _percent)),
            ("lines of the kind of one", _noted("lines of the kind of a hidden rule", _percent)),
        ),
        "Of lists of ten lines; a hit is a list with a hidden rule.",
        "gave_no_data",
    ),
    "home-assistant-time": Measured(
        "the time from the command to the list",
        (HASS,),
        (
            ("entities", _noted("entities", count_cell)),
            SECONDS,
            ("to read the home alone", _reference_seconds),
            ("peak memory", _noted("megabytes", bytes_cell, 1e6)),
        ),
        "The shortest of three runs of a made-up folder with so many entities, and the most memory of the process.",
        "command",
    ),
}
