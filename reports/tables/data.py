"""What the data sets hold: their numbers beside the published ones, their entity types, their trigger-action pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from benchmarks.results.dataset_summary import FOLDER, DatasetSummary
from reports.inputs import Inputs
from reports.output_types import BUILD, About, Cell, Missing, Table
from reports.text.formats import NONE, count_cell, format_number

LONGEST = 40  # rows of one data set
PARTS = ("mean", "median", "%", "share")  # in the name of a statistic that is no count


def statistics(inputs: Inputs) -> Table:
    """A row for each statistic, a column for each data set and, where somebody has published it, one for that."""
    shown = _portraits(inputs)
    names = list(dict.fromkeys(each.name for _, portrait in shown for each in portrait.statistics))
    columns, by_row = ["statistic"], {name: [Cell(name)] for name in names}
    for title, portrait in shown:
        known = {each.name: each for each in portrait.statistics}
        has_published = any(each.published is not None for each in portrait.statistics)
        columns += [title, f"{title}, published"] if has_published else [title]
        for name, row in by_row.items():
            row.append(_amount(known[name].ours if name in known else None, name))
            if has_published:
                row.append(_amount(known[name].published if name in known else None, name))
    about = About(_sizes(shown), _sources(shown), BUILD, tuple(_origins(shown)))
    return Table(tuple(columns), tuple(map(tuple, by_row.values())), about)


def entities(inputs: Inputs) -> Table:
    """Entity types of each data set: how many devices and homes have them, and the rules that begin and end there."""
    shown = _portraits(inputs)
    rows, notes, said = [], [], []
    for title, portrait in shown:
        for each in portrait.types[:LONGEST]:
            counts = (each.devices, each.homes, each.as_trigger, each.as_action)
            rows.append((Cell(title), Cell(each.name), *map(count_cell, counts)))
        if portrait.types:
            devices = sum(each.devices for each in portrait.types)
            first = portrait.types[0]
            said.append(
                f"{title} has {len(portrait.types)}, most often {first.name} ({first.devices:,} of {devices:,})"
            )
        rest = sum(each.devices for each in portrait.types[LONGEST:])
        notes += _cut(title, portrait, len(portrait.types), f"entity types with most devices; the others have {rest:,}")
    caption = f"Entity types by number of devices: {'; '.join(said)}."
    columns = ("data", "entity type", "devices", "homes", "rules as trigger", "rules as action")
    return Table(columns, tuple(rows), About(caption, _sources(shown), BUILD, tuple(notes)), sortable=True)


def pairs(inputs: Inputs) -> Table:
    """Trigger-action pairs of each data set, those of most rules first."""
    shown = _portraits(inputs)
    rows, notes, said = [], [], []
    for title, portrait in shown:
        rules = sum(each.rules for each in portrait.relations)
        for each in portrait.relations[:LONGEST]:
            share = each.rules / rules if rules else 0.0
            counts = count_cell(each.rules), Cell(f"{100 * share:.1f} %", share), count_cell(each.homes)
            rows.append((Cell(title), Cell(each.trigger_state), Cell(each.action), *counts))
        top = sum(each.rules for each in portrait.relations[:10])
        if rules:
            said.append(
                f"{title} has {len(portrait.relations)}, of which the first ten make {100 * top / rules:.0f} % of rules"
            )
        rest = rules - sum(each.rules for each in portrait.relations[:LONGEST])
        notes += _cut(title, portrait, len(portrait.relations), f"pairs with most rules; the others have {rest:,}")
    caption = f"Trigger-action pairs by number of rules: {'; '.join(said)}."
    columns = ("data", "trigger", "action", "rules", "share of rules", "homes")
    return Table(columns, tuple(rows), About(caption, _sources(shown), BUILD, tuple(notes)), sortable=True)


def _portraits(inputs: Inputs) -> list[tuple[str, DatasetSummary]]:
    """Each with a title: the data, and those of its options that tell it from other portraits of this data."""
    if not inputs.portraits:
        raise Missing("no data set has been described", BUILD)
    return [(_title(each, inputs.portraits), each) for each in inputs.portraits]


def _title(portrait: DatasetSummary, among: Sequence[DatasetSummary]) -> str:
    others = [each.options for each in among if each.data == portrait.data]
    differing = [
        f"{name}={'all' if value is None else value}"
        for name, value in portrait.options.items()
        if len({json.dumps(options.get(name)) for options in others}) > 1
    ]
    return f"{portrait.data} ({', '.join(differing)})" if differing else portrait.data


def _amount(value: float | None, name: str) -> Cell:
    if value is None or value != value:
        return Cell(NONE, "")
    part = any(word in name.replace(",", " ").split() for word in PARTS)
    digits = 3 if "share" in name else 2 if part else 0
    return Cell(format_number(value, digits) if digits else f"{value:,.0f}", value)


def _sizes(shown: Iterable[tuple[str, DatasetSummary]]) -> str:
    """Homes, devices, rules and pairs of each."""
    said = []
    for title, portrait in shown:
        known = {each.name: each.ours for each in portrait.statistics}
        parts = [f"{known[name]:,.0f} {name}" for name in ("homes", "devices", "rules", "relations") if name in known]
        said.append(f"{title}: {', '.join(parts)}")
    return f"{'; '.join(said)}."


def _origins(shown: Iterable[tuple[str, DatasetSummary]]) -> list[str]:
    """Where published numbers come from, how made-up data meets them, and what a data set says of itself."""
    notes = []
    for title, portrait in shown:
        if portrait.source:
            notes.append(f"{title}: published numbers from {portrait.source.rstrip('.')}.")
        judged = [each for each in portrait.fidelity if each.verdict]
        if judged:
            off = [f"{each.name} ({each.ours:g}, not {each.published:g})" for each in judged if each.verdict != "met"]
            met = f"{title}: {len(judged) - len(off)} of {len(judged)} published numbers are met"
            notes.append(f"{met}; off: {', '.join(off)}." if off else f"{met}.")
        notes += [f"{title}: {note.rstrip('.')}." for note in portrait.notes]
    return notes


def _cut(title: str, portrait: DatasetSummary, many: int, what: str) -> list[str]:
    """A note where not all rows are shown, in any format: a file of all numbers is there already."""
    if many <= LONGEST:
        return []
    return [f"{title}: the {LONGEST} of {many} {what}. All of them are in {FOLDER}/{portrait.file} of the results."]


def _sources(shown: Iterable[tuple[str, DatasetSummary]]) -> tuple[str, ...]:
    return tuple(sorted({f"{FOLDER}/{portrait.file}" for _, portrait in shown}))
