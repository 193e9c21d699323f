"""The data sets: statistics next to published ones, entity types, trigger-action pairs; and one home as an example.

The example has one hidden rule, and what each method recommends (the paper's qualitative comparison).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from benchmarks.results.records import (
    EXAMPLES,
    LONGEST_EXAMPLE,
    SUMMARIES,
    DatasetSummary,
    Entry,
    Example,
    HomeRule,
    MethodLists,
)
from benchmarks.results.status import SIGN
from reports.inputs import IFTTT, WYZE, Inputs
from reports.outputs import BUILD, About, Cell, Missing, Table
from reports.text.formats import NONE, count_cell, format_number

MAX_ROWS = 40  # of one data set
HIDDEN, IMPOSSIBLE = "hidden", "impossible"  # marks of cells
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
            devices, first = sum(each.devices for each in summary.types), summary.types[0]
            said.append(f"{title} has {len(summary.types)}, most often {first.name} ({first.devices:,} of {devices:,})")
        rest = sum(each.devices for each in summary.types[MAX_ROWS:])
        cut = f"entity types with the most devices; the others have {rest:,}"
        notes += _cut_note(title, summary, len(summary.types), cut)
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
        many, top = len(summary.relations), sum(each.rules for each in summary.relations[:10])
        if rules:
            said.append(f"{title} has {many}, the ten most common have {100 * top / rules:.0f} % of rules")
        rest = sum(each.rules for each in summary.relations[MAX_ROWS:])
        notes += _cut_note(title, summary, many, f"pairs with the most rules; the others have {rest:,}")
    caption = f"Trigger-action pairs by number of rules: {'; '.join(said)}."
    columns = ("data", "trigger", "action", "rules", "share of rules", "homes")
    return Table(columns, tuple(rows), About(caption, _sources(shown), BUILD, tuple(notes)), sortable=True)


def _titled(inputs: Inputs) -> list[tuple[str, DatasetSummary]]:
    """Each with a title: the data set, and the options that differ from its other summaries."""
    if not inputs.summaries:
        raise Missing("no data set has been summarized", BUILD)
    titled = []
    for each in inputs.summaries:
        differing = _differing(each.options, [other.options for other in inputs.summaries if other.data == each.data])
        settings = ", ".join(f"{name}={'all' if value is None else value}" for name, value in differing.items())
        titled.append((f"{each.data} ({settings})" if settings else each.data, each))
    return titled


def _differing(values: Mapping[str, object], among: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The values that are not the same in all of the others."""
    return {name: value for name, value in values.items() if any(other.get(name) != value for other in among)}


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
        if judged := [each for each in summary.fidelity if each.verdict]:
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


def recommendations(inputs: Inputs) -> Table:
    """The first 20 of each method; the hidden rule is marked, and so are rules that need other devices."""
    examples = _examples(inputs)
    methods = _methods(examples)
    lists = [map(_cell, each.seen.top) for _, each in methods]
    rows = [(count_cell(rank), *row) for rank, row in enumerate(zip_longest(*lists, fillvalue=Cell("")), start=1)]
    columns = ("rank", *(title for title, _ in methods))
    return Table(columns, tuple(rows), _example_about(examples, methods))


def example_rules(inputs: Inputs) -> Table:
    """The devices and rules of the home of `recommendations`; the hidden rule is marked and last."""
    example, *_ = examples = _examples(inputs)
    rows = [_rule(rule) for rule in example.known] + [_rule(example.hidden, HIDDEN)]
    owned = ", ".join(f"{device.type} ({device.id})" for device in example.devices)
    caption = (
        f"A home of {example.data} with {len(example.devices)} devices: {owned}. The methods know "
        f"{len(example.known)} of its rules; the last one, which {example.homes_with_hidden:,} other homes have, "
        "is hidden."
    )
    columns = ("trigger device", "trigger", "action", "action device")
    return Table(columns, tuple(rows), About(caption, _example_files(examples), BUILD))


def _examples(inputs: Inputs) -> list[Example]:
    """Examples of one home and hidden rule: on the paper's data first, then with the most methods."""
    found: dict[str, list[Example]] = {}
    for example in inputs.examples:
        about = [example.data, example.options, example.fingerprint, example.seed, str(example.hidden)]
        found.setdefault(json.dumps(about), []).append(example)
    if not found:
        raise Missing("no example was made", BUILD)

    def order(identity: str) -> tuple[int, int, str]:
        data = found[identity][0].data
        return [*WYZE.data, *IFTTT.data, data].index(data), -len(_methods(found[identity])), identity

    return found[min(found, key=order)]


def _methods(examples: Sequence[Example]) -> list[tuple[str, MethodLists]]:
    """Each method once, with the settings that differ where there are several of one name."""
    found: dict[str, MethodLists] = {}
    for each in (recommended for example in examples for recommended in example.methods):
        found.setdefault(json.dumps([each.method, each.parameters], sort_keys=True), each)
    titled = []
    for each in found.values():
        same = [other.parameters for other in found.values() if other.method == each.method]
        settings = ", ".join(f"{name}={value}" for name, value in _differing(each.parameters, same).items())
        sign = f" {SIGN}" if each.warnings else ""
        titled.append((f"{each.method} ({settings}){sign}" if settings else each.method + sign, each))
    return titled


def _cell(entry: Entry) -> Cell:
    mark = HIDDEN if entry.hidden else "" if entry.owned else IMPOSSIBLE
    text = f"{entry.trigger_type}: {entry.trigger_state} → {entry.action}: {entry.action_type}"
    return Cell(f"{text} ({entry.probability:.2f})", mark=mark, strong=entry.hidden)


def _rule(rule: HomeRule, mark: str = "") -> tuple[Cell, ...]:
    rest = (rule.trigger_state, rule.action, rule.action_device.type)
    first = Cell(rule.trigger.type, mark=mark, strong=bool(mark))
    return (first, *(Cell(text, strong=bool(mark)) for text in rest))


def _example_about(examples: Sequence[Example], methods: Sequence[tuple[str, MethodLists]]) -> About:
    rule = examples[0].hidden
    words = f"{rule.trigger.type}: {rule.trigger_state} → {rule.action}: {rule.action_device.type}"
    lists = {title: each.seen for title, each in methods}
    ranks = ", ".join(
        f"{title} {'has no score for it' if seen.rank is None else f'{seen.rank:g} of {seen.candidates:,}'}"
        for title, seen in lists.items()
    )
    lacking = {title: sum(not entry.owned for entry in seen.top) for title, seen in lists.items()}
    cannot = ", ".join(f"{title} {count} of {len(lists[title].top)}" for title, count in lacking.items())
    caption = f"Rank of the hidden rule ({words}): {ranks}. Recommended although the home lacks the devices: {cannot}."
    notes = [f"{title}: {'; '.join(each.warnings)}." for title, each in methods if each.warnings]
    notes += [
        "In brackets: the probability. Lists have the valid filter, like the leaderboard: rules that some training "
        "home has between devices of these types, without the rules of this home.",
        "User-item methods choose from all items, whether or not the home has the devices; the others rank pairs of "
        "its own devices, so their lists are shorter and ranks are not comparable. One home is only an example.",
    ]
    if calibrated := [title for title, each in methods if each.calibrated]:
        notes.append(
            f"Probabilities calibrated on validation rules, since scores are not log-odds: {', '.join(calibrated)}. "
            "They are relative to rules that the home could have, log-odds to the non-rules of training: compare "
            "probabilities within a column only."
        )
    if short := [f"{title} ({len(each.seen.top)})" for title, each in methods if len(each.seen.top) < LONGEST_EXAMPLE]:
        notes.append(f"Fewer than {LONGEST_EXAMPLE} candidates have a score: {', '.join(short)}.")
    return About(caption, _example_files(examples), BUILD, tuple(notes))


def _example_files(examples: Sequence[Example]) -> tuple[str, ...]:
    return tuple(sorted(f"{EXAMPLES}/{each.file}" for each in examples))
