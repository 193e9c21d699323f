"""One home with one hidden rule, and what each method recommends to it (the paper's qualitative comparison)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest

from benchmarks.results.records import EXAMPLES, LONGEST, Entry, Example, HomeRule, MethodLists
from reports.inputs import Inputs
from reports.output_types import BUILD, About, Cell, Missing, Table
from reports.selection import IFTTT, WYZE
from reports.text.formats import count_cell

HIDDEN, IMPOSSIBLE = "hidden", "impossible"  # marks of cells


def recommendations(inputs: Inputs) -> Table:
    """The first 20 of each method; the hidden rule is marked, and so are rules that need other devices."""
    examples = _examples(inputs)
    methods = _methods(examples)
    lists = [[_cell(entry) for entry in each.seen.top] for _, each in methods]
    nothing = Cell("")
    rows = [(count_cell(rank), *row) for rank, row in enumerate(zip_longest(*lists, fillvalue=nothing), start=1)]
    columns = ("rank", *(title for title, _ in methods))
    return Table(columns, tuple(rows), _about(examples, methods))


def example_rules(inputs: Inputs) -> Table:
    """The devices and rules of the home of `recommendations`; the hidden rule is marked and last."""
    examples = _examples(inputs)
    example = examples[0]
    rows = [_rule(rule) for rule in example.known] + [_rule(example.hidden, HIDDEN)]
    owned = ", ".join(f"{device.type} ({device.id})" for device in example.devices)
    caption = (
        f"A home of {example.data} with {len(example.devices)} devices: {owned}. The methods know "
        f"{len(example.known)} of its rules; the last one, which {example.homes_with_hidden:,} other homes have, "
        "is hidden."
    )
    columns = ("trigger device", "trigger", "action", "action device")
    return Table(columns, tuple(rows), About(caption, _sources(examples), BUILD))


def _examples(inputs: Inputs) -> list[Example]:
    """Examples of one home and hidden rule: on the paper's data first, then with the most methods."""
    found: dict[str, list[Example]] = {}
    for example in inputs.examples:
        found.setdefault(_identity(example), []).append(example)
    preferred = (*WYZE.data, *IFTTT.data)
    if not found:
        raise Missing("no example was made", BUILD)

    def order(each: list[Example]) -> tuple[int, int, str]:
        data = each[0].data
        rank = preferred.index(data) if data in preferred else len(preferred)
        return rank, -len(_methods(each)), _identity(each[0])

    return min(found.values(), key=order)


def _identity(example: Example) -> str:
    return json.dumps([example.data, example.options, example.fingerprint, example.seed, str(example.hidden)])


def _methods(examples: Sequence[Example]) -> list[tuple[str, MethodLists]]:
    """Each method once, with the settings that differ where there are several of one name."""
    found: dict[str, MethodLists] = {}
    for each in (recommended for example in examples for recommended in example.methods):
        found.setdefault(json.dumps([each.method, each.parameters], sort_keys=True), each)
    methods = list(found.values())
    return [(_titled(each, methods), each) for each in methods]


def _titled(recommended: MethodLists, among: Sequence[MethodLists]) -> str:
    same = [each.parameters for each in among if each.method == recommended.method]
    differing = [
        f"{name}={value}"
        for name, value in recommended.parameters.items()
        if any(parameters.get(name) != value for parameters in same)
    ]
    return f"{recommended.method} ({', '.join(differing)})" if differing else recommended.method


def _cell(entry: Entry) -> Cell:
    mark = HIDDEN if entry.hidden else "" if entry.owned else IMPOSSIBLE
    text = f"{entry.trigger_type}: {entry.trigger_state} → {entry.action}: {entry.action_type}"
    return Cell(f"{text} ({entry.probability:.2f})", mark=mark, strong=entry.hidden)


def _rule(rule: HomeRule, mark: str = "") -> tuple[Cell, ...]:
    texts = (rule.trigger.type, rule.trigger_state, rule.action, rule.action_device.type)
    first, *rest = (Cell(text, strong=bool(mark)) for text in texts)
    return (Cell(first.text, mark=mark, strong=bool(mark)), *rest)


def _about(examples: Sequence[Example], methods: Sequence[tuple[str, MethodLists]]) -> About:
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
    notes = [
        "In brackets: the probability. Lists have the valid filter, like the leaderboard: rules that some training "
        "home has between devices of these types, without the rules of this home.",
        "User-item methods choose from all items, whether or not the home has the devices; the others rank pairs of "
        "its own devices, so their lists are shorter and ranks are not comparable. One home is only an example.",
    ]
    calibrated = [title for title, each in methods if each.calibrated]
    if calibrated:
        notes.append(
            f"Probabilities calibrated on validation rules, since scores are not log-odds: {', '.join(calibrated)}. "
            "They are relative to rules that the home could have, log-odds to the non-rules of training: compare "
            "probabilities within a column only."
        )
    short = [f"{title} ({len(each.seen.top)})" for title, each in methods if len(each.seen.top) < LONGEST]
    if short:
        notes.append(f"Fewer than {LONGEST} candidates have a score: {', '.join(short)}.")
    return About(caption, _sources(examples), BUILD, tuple(notes))


def _sources(examples: Sequence[Example]) -> tuple[str, ...]:
    return tuple(sorted(f"{EXAMPLES}/{each.file}" for each in examples))
