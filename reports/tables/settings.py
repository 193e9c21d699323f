"""Parameters of the methods, results of tuning, and the environment of the runs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.results.records import STUDIES, Study
from benchmarks.results.speeds import Speed
from benchmarks.results.store import Result
from datasets.common.errors import counted
from reports.inputs import Inputs, speed_files
from reports.outputs import BUILD, RUN, About, Cell, Missing, Table, run_files
from reports.text.formats import NONE, count_cell, failure_notes, number_cell

TUNE = "python -m benchmarks tune all --suite tuning"
STUDY_NOTE = (
    "The best of many trials on the same validation rules looks better than it is, so it was measured again on splits "
    "that no trial has seen: the gain there is the one to believe. The leaderboard is on test rules. In bold: better "
    "there too. Parameters are those that differ from the defaults, which are those of the day of the study; "
    "docs/benchmark.md says which were adopted."
)
UNKNOWN = "unknown"
STUDY = (
    *("method", "data", "metric", "seeds", "trials", "defaults", "best", "gain", "gain on other seeds"),
    "parameters of the best",
)
FIRST = ("python", "platform", "threads", "commit", "day")  # the others follow by name
SHORT = 12  # digits of a commit


def parameters(inputs: Inputs) -> Table:
    """A row per parameter of a method: its default, and in bold the other values it was run with."""
    if not inputs.runs:
        raise Missing("no method was run", RUN)
    methods: dict[str, list[Result]] = {}
    for run in inputs.runs:
        methods.setdefault(run.key.method, []).append(run)
    rows = [row for method, runs in sorted(methods.items()) for row in parameter_rows(inputs, method, runs)]
    varied = sum(bool(row[-1].text) for row in rows)
    bare = sorted(method for method, runs in methods.items() if not any(run.key.parameters for run in runs))
    unusual = sorted(method for method, runs in methods.items() if not any(map(inputs.is_default, runs)))
    caption = (
        f"{counted(len(methods), 'method')} with {len(rows)} parameters, of which {varied} were also run with values "
        "other than the default, in bold."
    )
    notes = ["A dash: never run with the default."]
    notes += [f"Without parameters: {', '.join(bare)}."] if bare else []
    notes += [f"Never run with all of the defaults: {', '.join(unusual)}."] if unusual else []
    about = About(caption, run_files(inputs.runs), RUN, (*notes, *failure_notes(inputs.failed)))
    return Table(("method", "parameter", "default", "also run with"), tuple(rows), about, sortable=True)


def tuning(inputs: Inputs) -> Table:
    """A row per study: the value of the defaults, the best value, and its parameters."""
    studies = inputs.studies
    if not studies:
        raise Missing("no method was tuned", TUNE)
    gains = [(gain, study) for study in studies if not math.isnan(gain := _gain(study))]
    found = "1 study" if len(studies) == 1 else f"{len(studies)} studies"
    caption = f"{found} with {sum(len(study.trials) for study in studies)} trials on validation rules."
    if gains:
        none = sum(gain <= 0 for gain, _ in gains)
        caption += f" The defaults are best in {none} of {len(gains)}."
        confirmed = [(gain, study) for _, study in gains if (gain := _confirmed_gain(study)) > 0]
        if confirmed:
            most, study = max(confirmed, key=lambda each: each[0])
            measured = sum(study.confirmation is not None for _, study in gains)
            caption += f" On splits that no trial has seen, the best trial beats the defaults in {len(confirmed)} of "
            caption += f"{measured} studies, by most for {study.method}: {most:+.4f} {study.metric}."
    notes = [STUDY_NOTE]
    failed = [
        f"{study.method} on {study.data_names}: {many}"
        for study in studies
        if (many := sum(not trial.trusted and not trial.warnings for trial in study.trials))
    ]
    wrong = [
        f"{study.method} on {study.data_names}: {many}"
        for study in studies
        if (many := sum(bool(trial.warnings) for trial in study.trials))
    ]
    notes += [f"Trials that failed: {'; '.join(failed)}."] if failed else []
    notes += [f"Trials that diverged or refused many updates, never chosen: {'; '.join(wrong)}."] if wrong else []
    sources = tuple(sorted(f"{STUDIES}/{study.file}" for study in studies))
    rows = tuple(map(study_row, studies))
    return Table(STUDY, rows, About(caption, sources, TUNE, tuple(notes)), sortable=True)


def parameter_rows(inputs: Inputs, method: str, runs: Sequence[Result]) -> list[tuple[Cell, ...]]:
    """A parameter has its default in a run whose label does not name it."""
    rows: list[tuple[Cell, ...]] = []
    labelled = [(inputs.label(run).removeprefix(method), run.key.parameters) for run in runs]
    for name in dict.fromkeys(name for run in runs for name in run.key.parameters):
        found: dict[bool, dict[str, None]] = {False: {}, True: {}}  # by whether the label names it
        for settings, values in labelled:
            if name in values:
                named = f"({name}=" in settings or f", {name}=" in settings  # "(a=1, b=[2, 3])"
                found[named][_spelled(values[name])] = None
        also = ", ".join(sorted(found[True]))
        rows.append((Cell(method), Cell(name), Cell(", ".join(found[False]) or NONE), Cell(also, strong=bool(also))))
    return rows


def study_row(study: Study) -> tuple[Cell, ...]:
    default, best = study.of_defaults, next(iter(study.answered), None)
    gain, confirmed, values = _gain(study), _confirmed_gain(study), best.parameters if best else {}
    changed = {name: value for name, value in values.items() if study.defaults.get(name) != value}
    return (
        Cell(study.method + _settings(study.fixed)),
        Cell(study.data_names),
        Cell(study.metric),
        Cell(", ".join(map(str, study.seeds))),
        count_cell(len(study.trials)),
        number_cell(_value(default.value if default else None)),
        number_cell(_value(best.value if best else None)),
        number_cell(gain),
        number_cell(confirmed, strong=confirmed > 0),
        Cell((_settings(changed).strip(" ()") or "the defaults") if best else NONE),
    )


def _gain(study: Study) -> float:
    """The best trial minus the defaults; NaN where either is unknown."""
    if study.of_defaults is None:
        return math.nan
    return _value(study.answered[0].value) - _value(study.of_defaults.value)


def _confirmed_gain(study: Study) -> float:
    """The best trial minus the defaults on splits that no trial has seen; NaN where that is not known."""
    if study.confirmation is None or not all(trial.trusted for trial in study.confirmation.trials):
        return math.nan
    return _value(study.confirmation.best.value) - _value(study.confirmation.defaults.value)


def _settings(values: Mapping[str, object]) -> str:
    shown = ", ".join(f"{name}={_spelled(value)}" for name, value in values.items())
    return f" ({shown})" if shown else ""


def _spelled(value: object) -> str:
    """A setting as the command line takes it, numbers to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_spelled, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def _value(value: float | None) -> float:
    return math.nan if value is None else float(value)


def environment(inputs: Inputs) -> Table:
    """A row per value of a property of the environment, and how many runs or measurements had it."""
    if not inputs.runs and not inputs.speeds:
        raise Missing("there are no runs and no measurements of speed", BUILD)
    rows = [*_rows("runs", map(_of_run, inputs.runs)), *_rows("speeds", map(_of_speed, inputs.speeds))]
    sources = run_files(inputs.runs) + speed_files(inputs.speeds)
    about = About(_caption(inputs), sources, BUILD, tuple(_differences(rows)))
    return Table(("of", "property", "value", "count"), tuple(rows), about)


def _of_run(run: Result) -> dict[str, str]:
    day = run.written[:10] or UNKNOWN
    return {**run.versions, "threads": str(run.threads), "commit": short_commit(run.commit), "day": day}


def _of_speed(speed: Speed) -> dict[str, str]:
    scale = {"scale": speed.scale} if speed.scale else {}
    return {"machine": speed.machine or UNKNOWN, "commit": short_commit(speed.commit), "day": speed.made[:10], **scale}


def _rows(of: str, each: Iterable[Mapping[str, str]]) -> list[tuple[Cell, ...]]:
    found: dict[str, Counter[str]] = {}
    for properties in each:
        for name, value in properties.items():
            found.setdefault(name, Counter())[value] += 1
    names = [name for name in FIRST if name in found] + sorted(found.keys() - set(FIRST))
    return [
        (Cell(of), Cell(name), Cell(value), count_cell(many))
        for name in names
        for value, many in sorted(found[name].items())
    ]


def _caption(inputs: Inputs) -> str:
    said = []
    if inputs.runs:
        days = sorted(run.written[:10] for run in inputs.runs if run.written)
        when = f" of {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "") if days else ""
        commits = len({run.commit for run in inputs.runs})
        said.append(f"{len(inputs.runs):,} runs{when}, by {counted(commits, 'commit')}.")
    if inputs.failed:
        said.append(f"{counted(len(inputs.failed), 'run')} failed.")
    if inputs.speeds:
        machines = sorted({speed.machine or UNKNOWN for speed in inputs.speeds})
        said.append(f"{counted(len(inputs.speeds), 'speed')} measured on {' and on '.join(machines)}.")
    return " ".join(said)


def _differences(rows: Iterable[tuple[Cell, ...]]) -> list[str]:
    """Properties with several values; days differ anyway."""
    values: dict[tuple[str, str], list[str]] = {}
    for of, name, value, _ in rows:
        values.setdefault((of.text, name.text), []).append(value.text)
    notes = [
        f"The {of} differ in {name}: {', '.join(those)}."
        for (of, name), those in values.items()
        if len(those) > 1 and name not in ("day", "scale")
    ]
    return notes or ["The environment was the same for all."]


def short_commit(commit: str) -> str:
    """Its first digits, and whether there were changes."""
    first, _, changes = commit.partition(" ")
    return f"{first[:SHORT]} {changes}".strip() or UNKNOWN
