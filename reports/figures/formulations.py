"""One home in both formulations (the paper's figure 1): marks in the user-item matrix, and edges of its own graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from benchmarks.results.matrix_excerpt import ExampleHome
from benchmarks.results.portraits import FOLDER, Portrait
from benchmarks.results.records import Owned, TypedRule
from reports.figures.home_graph import BADGE, IDLE, LANE, THIS, WANTED, Edge, badge, draw_graph, in_inches
from reports.drawing.looks import FAINT, INK
from reports.output_types import BUILD, About, Drawing, Missing
from reports.material import Material
from reports.selection import WYZE
from reports.drawing.sheet import Block, Panel, Sheet
from reports.drawing.text_width import fitted

OTHER, RULED = "#b5b5b5", "#e6e6e6"  # colours of other homes, and between rows
MOST_EDGES = 9  # of rules that the home has
ROW, COLUMN, HEADS = 0.31, 0.22, 0.34  # inches


def example_home(material: Material) -> Drawing:
    """The user-item matrix around one home, and the graph of this home."""
    portrait = _preferred(material.portraits)
    if portrait is None or portrait.example is None:
        raise Missing("no portrait of a data set with rules is there to take a home from", BUILD)
    home = portrait.example
    edges = _edges(home)
    tall = max(HEADS + ROW * (len(home.items) + 1), LANE * len(edges) + IDLE)
    panels = (
        Panel(partial(_matrix, home=home), "User-item matrix: a rule is an item"),
        Panel(partial(draw_graph, names=_named(home.devices), edges=edges), "Graph: a rule is an edge"),
    )
    note = (
        "Left: a row is a rule, a column a home; filled: the home has it; ?: it may be recommended; x: it needs a "
        "device that the home lacks. Right: numbers are those of the rows; dashed: a recommendation."
    )
    sheet = Sheet((Block("", panels),), note=note, columns=2, height=tall, left=0.15)
    about = About(_caption(portrait, home, edges), (f"{FOLDER}/{portrait.file}",), BUILD, _notes(home, edges))
    return Drawing(sheet, about)


def _preferred(portraits: Sequence[Portrait]) -> Portrait | None:
    """Of smart homes, of most homes; else the first that has an example. Made-up homes first: these may be shown."""
    able = [each for each in portraits if each.example is not None]
    alike = [each for each in able if each.data in WYZE.data]
    order = WYZE.data.index
    best = min(alike, key=lambda p: (-order(p.data), -sum(p.devices_per_home.values()), p.file), default=None)
    return best or next(iter(able), None)


def _edges(home: ExampleHome) -> list[Edge]:
    """Rules with a row in the matrix first, then the first of those that may be recommended."""
    numbers = {item: str(n) for n, (item, has) in enumerate(_own(home), start=1) if has}
    place = {device: n for n, device in enumerate(home.devices)}
    rules = [
        Edge(
            place[rule.trigger],
            place[rule.action_device],
            (rule.trigger_state, rule.action),
            numbers.get(TypedRule(rule.trigger.type, rule.trigger_state, rule.action, rule.action_device.type), ""),
        )
        for rule in home.rules
    ]
    rules = sorted(rules, key=lambda edge: int(edge.mark or len(home.items) + 1))[:MOST_EDGES]
    first = {device.type: n for n, device in reversed(list(enumerate(home.devices)))}
    lacking = [item for item, has in _own(home) if not has and _feasible(item, home)]
    return rules + [
        Edge(first[item.trigger_type], first[item.action_type], (item.trigger_state, item.action), "?")
        for item in lacking[:1]
    ]


def _own(home: ExampleHome) -> list[tuple[TypedRule, bool]]:
    return list(zip(home.items, home.rows[0].has, strict=True))


def _feasible(item: TypedRule, home: ExampleHome) -> bool:
    return {item.trigger_type, item.action_type} <= {device.type for device in home.devices}


def _named(devices: Sequence[Owned]) -> list[str]:
    """By type; numbered where there are several."""
    types = [device.type for device in devices]
    return [f"{t} {types[: n + 1].count(t)}" if types.count(t) > 1 else t for n, t in enumerate(types)]


def _caption(portrait: Portrait, home: ExampleHome, edges: Sequence[Edge]) -> str:
    names, marks = _named(home.devices), sum(home.rows[0].has)
    known, new = [edge for edge in edges if not edge.wanted], [edge for edge in edges if edge.wanted]
    caption = (
        f"One home of {portrait.data}, {_counted(home.devices, 'device')} and {_counted(home.rules, 'rule')}. In the "
        f"user-item matrix its rules are marks in its column ({marks} shown here, beside "
        f"{_counted(home.rows[1:], 'other home')}); in its graph they are edges."
    )
    if known and known[0].mark:
        caption += f" Row {known[0].mark} is the edge {_said(known[0], names)}."
    if new:
        caption += f" To recommend is to fill in a question mark, or to add an edge, such as {_said(new[0], names)}."
    types = [device.type for device in home.devices]
    if twins := sorted({each for each in types if types.count(each) > 1}):
        caption += f" Only the graph can tell the devices of type {', '.join(twins)} apart."
    return caption


def _counted(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}" if len(things) == 1 else f"{len(things)} {name}s"


def _said(edge: Edge, names: Sequence[str]) -> str:
    state, action = edge.words
    return f"“{state} → {action}” from {names[edge.trigger]} to {names[edge.action]}"


def _notes(home: ExampleHome, edges: Sequence[Edge]) -> tuple[str, ...]:
    shown = [edge for edge in edges if not edge.wanted]
    notes = []
    if left_out := len(home.rules) - len(shown):
        notes.append(f"{left_out} of the home's {len(home.rules)} rules are not drawn in its graph.")
    if unmarked := sum(not edge.mark for edge in shown):
        notes.append(f"Edges without a number ({unmarked}) have no row in this excerpt of the matrix.")
    return tuple(notes)


def _matrix(axes: Axes, *, home: ExampleHome) -> None:
    """Items as rows, since their names are long; the example home is the first column."""
    wide, tall = in_inches(axes)
    left, top = wide - COLUMN * len(home.rows), tall - HEADS
    bottom = top - ROW * len(home.items)
    axes.add_patch(Rectangle((left, bottom - ROW), COLUMN, tall - bottom + ROW, color=THIS, alpha=0.12, linewidth=0))
    for column, row in enumerate(home.rows):
        x = left + (column + 0.5) * COLUMN
        name, weight = ("this", "bold") if column == 0 else (chr(ord("A") + (column - 1) % 26), "normal")
        axes.text(x, top + 0.04, name, ha="center", fontsize=7.5, weight=weight, color=INK)
        axes.text(x, bottom - ROW / 2, f"{row.rules}", ha="center", va="center", fontsize=6.5, color=INK)
    axes.text(wide, top + 0.2, "homes", ha="right", fontsize=7.5, color=INK)
    axes.text(2.5 * BADGE, bottom - ROW / 2, "rules in all", va="center", fontsize=7.5, color=INK, style="italic")
    for number, (item, owned) in enumerate(_own(home)):
        middle = top - (number + 0.5) * ROW
        axes.plot([0, wide], [middle - ROW / 2] * 2, color=RULED, linewidth=0.6)
        feasible = _feasible(item, home)
        if owned:
            badge(axes, BADGE + 0.01, middle, str(number + 1), THIS)
        lines = f"{item.trigger_type}: {item.trigger_state}", f"→ {item.action}: {item.action_type}"
        for line, up in zip(lines, (0.068, -0.068), strict=True):
            text, size = fitted(line, left - 2.5 * BADGE - 0.04)
            colour = INK if owned or feasible else FAINT
            axes.text(2.5 * BADGE, middle + up, text, va="center", fontsize=size, color=colour)
        for column, row in enumerate(home.rows):
            x = left + column * COLUMN
            if row.has[number]:
                side, colour = COLUMN - 0.07, THIS if column == 0 else OTHER
                axes.add_patch(Rectangle((x + 0.035, middle - side / 2), side, side, color=colour, linewidth=0))
            elif column == 0:
                sign, colour = ("?", WANTED) if feasible else ("x", FAINT)
                place = x + COLUMN / 2, middle
                axes.text(*place, sign, ha="center", va="center", fontsize=9, weight="bold", color=colour)
