"""The data sets: statistics next to published ones, entity types, trigger-action pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from benchmarks.results.records import SUMMARIES, DatasetSummary
from reports.inputs import Inputs
from reports.output_types import BUILD, About, Cell, Missing, Table
from reports.text.formats import NONE, count_cell, format_number

MAX_ROWS = 40  # of one data set
FRACTIONAL = ("mean", "median", "%", "share")  # in the name of a statistic that is not a count


def statistics(inputs: Inputs) -> Table:
    """A row per statistic, a column per data set and, where there are any, one for the published numbers."""
    shown = _titled(inputs)
    names = list(dict.fromkeys(each.name for _, summary in shown for each in summary.statistics))
    columns, by_row = ["statistic"], {name: [Cell(name)] for name in names}
    for title, summary in shown:
        known = {each.name: each for each in summary.statistics}
        has_published = any(each.published is not None for each in summary.statistics)
        columns += [title, f"{title}, published"] if has_published else [title]
        for name, row in by_row.items():
            row.append(_amount(known[name].ours if name in known else None, name))
            if has_published:
                row.append(_amount(known[name].published if name in known else None, name))
    about = About(_sizes(shown), _sources(shown), BUILD, tuple(_origins(shown)))
    return Table(tuple(columns), tuple(map(tuple, by_row.values())), about)


def entities(inputs: Inputs) -> Table:
    """Entity types of each data set, with their devices, homes, and rules as trigger and action."""
    shown = _titled(inputs)
    rows, notes, said = [], [], []
    for title, summary in shown:
        for each in summary.types[:MAX_ROWS]:
            counts = (each.devices, each.homes, each.as_trigger, each.as_action)
            rows.append((Cell(title), Cell(each.name), *map(count_cell, counts)))
        if summary.types:
            devices = sum(each.devices for each in summary.types)
            first = summary.types[0]
            said.append(f"{title} has {len(summary.types)}, most often {first.name} ({first.devices:,} of {devices:,})")
        rest = sum(each.devices for each in summary.types[MAX_ROWS:])
        notes += _cut_note(
            title, summary, len(summary.types), f"entity types with the most devices; the others have {rest:,}"
        )
    caption = f"Entity types by number of devices: {'; '.join(said)}."
    columns = ("data", "entity type", "devices", "homes", "rules as trigger", "rules as action")
    return Table(columns, tuple(rows), About(caption, _sources(shown), BUILD, tuple(notes)), sortable=True)


def pairs(inputs: Inputs) -> Table:
    """Trigger-action pairs of each data set, the most common first."""
    shown = _titled(inputs)
    rows, notes, said = [], [], []
    for title, summary in shown:
        rules = sum(each.rules for each in summary.relations)
        for each in summary.relations[:MAX_ROWS]:
            share = each.rules / rules if rules else 0.0
            counts = count_cell(each.rules), Cell(f"{100 * share:.1f} %", share), count_cell(each.homes)
            rows.append((Cell(title), Cell(each.trigger_state), Cell(each.action), *counts))
        top = sum(each.rules for each in summary.relations[:10])
        if rules:
            said.append(
                f"{title} has {len(summary.relations)}, the ten most common have {100 * top / rules:.0f} % of rules"
            )
        rest = rules - sum(each.rules for each in summary.relations[:MAX_ROWS])
        notes += _cut_note(
            title, summary, len(summary.relations), f"pairs with the most rules; the others have {rest:,}"
        )
    caption = f"Trigger-action pairs by number of rules: {'; '.join(said)}."
    columns = ("data", "trigger", "action", "rules", "share of rules", "homes")
    return Table(columns, tuple(rows), About(caption, _sources(shown), BUILD, tuple(notes)), sortable=True)


def _titled(inputs: Inputs) -> list[tuple[str, DatasetSummary]]:
    """Each with a title: the data set, and the options that differ from its other summaries."""
    if not inputs.summaries:
        raise Missing("no data set has been summarized", BUILD)
    return [(_title(each, inputs.summaries), each) for each in inputs.summaries]


def _title(summary: DatasetSummary, among: Sequence[DatasetSummary]) -> str:
    others = [each.options for each in among if each.data == summary.data]
    differing = [
        f"{name}={'all' if value is None else value}"
        for name, value in summary.options.items()
        if len({json.dumps(options.get(name)) for options in others}) > 1
    ]
    return f"{summary.data} ({', '.join(differing)})" if differing else summary.data


def _amount(value: float | None, name: str) -> Cell:
    if value is None or value != value:
        return Cell(NONE, "")
    fractional = any(word in name.replace(",", " ").split() for word in FRACTIONAL)
    digits = 3 if "share" in name else 2 if fractional else 0
    return Cell(format_number(value, digits) if digits else f"{value:,.0f}", value)


def _sizes(shown: Iterable[tuple[str, DatasetSummary]]) -> str:
    """Homes, devices, rules and pairs of each data set."""
    said = []
    for title, summary in shown:
        known = {each.name: each.ours for each in summary.statistics}
        parts = [f"{known[name]:,.0f} {name}" for name in ("homes", "devices", "rules", "relations") if name in known]
        said.append(f"{title}: {', '.join(parts)}")
    return f"{'; '.join(said)}."


def _origins(shown: Iterable[tuple[str, DatasetSummary]]) -> list[str]:
    """Sources of published numbers, how well synthetic data matches them, and notes of the data sets."""
    notes = []
    for title, summary in shown:
        if summary.source:
            notes.append(f"{title}: published numbers from {summary.source.rstrip('.')}.")
        judged = [each for each in summary.fidelity if each.verdict]
        if judged:
            off = [f"{each.name} ({each.ours:g}, not {each.published:g})" for each in judged if each.verdict != "met"]
            met = f"{title}: {len(judged) - len(off)} of {len(judged)} published numbers are matched"
            notes.append(f"{met}; off: {', '.join(off)}." if off else f"{met}.")
        notes += [f"{title}: {note.rstrip('.')}." for note in summary.notes]
    return notes


def _cut_note(title: str, summary: DatasetSummary, total: int, what: str) -> list[str]:
    """A note where not all rows are shown: all numbers are in a file of the results."""
    if total <= MAX_ROWS:
        return []
    return [f"{title}: the {MAX_ROWS} of {total} {what}. All are in {SUMMARIES}/{summary.file} of the results."]


def _sources(shown: Iterable[tuple[str, DatasetSummary]]) -> tuple[str, ...]:
    return tuple(sorted({f"{SUMMARIES}/{summary.file}" for _, summary in shown}))
