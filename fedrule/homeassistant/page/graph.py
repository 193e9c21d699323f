"""The home's graph as SVG: devices in their rooms, the rules that are there, and those that are suggested.

Rooms stand in two columns and every line runs in the gutter between them, so that no line crosses a device and the
picture stays readable on a phone. Which column a room is in, and the order of rooms and devices, follow from the rules
alone: rooms that rules join face each other, and lines are kept short (barycentre ordering). The same home gives the
same picture.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain, combinations, pairwise
from typing import NamedTuple

from fedrule.homeassistant.home import HomeDevice, InstalledHome
from fedrule.homeassistant.installation import printable
from fedrule.homeassistant.suggestions import Suggestion
from fedrule.homeassistant.translation.rules import AutomationRule

MOST_DEVICES = 70  # more cannot be read; those of suggestions come first, then those with most rules
SWEEPS = 12  # of the ordering; it settles after a few
CHIP, CHIP_GAP, HEADING, ROOM_GAP, EDGE = 28, 6, 22, 14, 8  # heights and distances in pixels


class Size(NamedTuple):
    """How wide a picture is, in pixels; its style has the same font size."""

    css_class: str
    width: int
    column: int  # the width of each of the two
    font: float  # of devices' names


WIDE, NARROW = Size("wide", 560, 196, 12.5), Size("narrow", 340, 134, 11.5)  # on a desktop, on a phone

Pair = tuple[str, str]  # the ids of a trigger's and an action's device


@dataclass(frozen=True, slots=True)
class Line:
    """All rules between two devices, as one line."""

    trigger: str
    action_device: str
    rules: tuple[AutomationRule, ...]
    suggested: bool  # none of them is in the home yet


@dataclass(frozen=True, slots=True)
class Graph:
    """What is drawn, and how much is not."""

    devices: tuple[HomeDevice, ...]  # sorted by id
    lines: tuple[Line, ...]
    unconnected: int = 0  # devices without any rule or suggestion
    left_out: int = 0  # devices with rules that did not fit
    left_out_pairs: int = 0  # of devices, with rules that are not drawn

    @classmethod
    def of(cls, home: InstalledHome, suggestions: Iterable[Suggestion], *, most: int = MOST_DEVICES) -> Graph:
        """The graph of a home with these suggestions and those that they fold; at most so many devices."""
        suggestions = tuple(suggestions)
        folded = chain.from_iterable(each.similar for each in suggestions)
        new = [each.rule for each in (*suggestions, *folded)]
        known = {device.id: device for device in home.devices}
        rules: dict[Pair, list[AutomationRule]] = defaultdict(list)
        for rule in dict.fromkeys((*sorted(home.rules), *new)):
            rules[rule.trigger, rule.action_device].append(rule)
        suggested = set(new)
        shown = _most_important(rules, [(rule.trigger, rule.action_device) for rule in new], most)
        lines: list[Line] = []
        for (trigger, device), between in rules.items():
            if trigger in shown and device in shown:
                here = [rule for rule in between if rule not in suggested]
                if here:
                    lines.append(Line(trigger, device, tuple(here), suggested=False))
                if fresh := [rule for rule in between if rule in suggested]:
                    lines.append(Line(trigger, device, tuple(fresh), suggested=True))
        connected = {id_ for pair in rules for id_ in pair}
        return cls(
            tuple(known.get(id_, HomeDevice(id_, "", id_)) for id_ in sorted(shown)),
            tuple(lines),
            unconnected=sum(device.id not in connected for device in home.devices),
            left_out=len(connected) - len(shown),
            left_out_pairs=len(rules) - len({(line.trigger, line.action_device) for line in lines}),
        )

    def numbers(self) -> Mapping[AutomationRule, int]:
        """The number of the line that a rule is drawn by."""
        return {rule: number for number, line in enumerate(self.lines) for rule in line.rules}


def _most_important(pairs: Iterable[Pair], first: Iterable[Pair], most: int) -> set[str]:
    """The devices to draw, both ends of a line or none: of suggestions, what they join, most lines first."""
    pairs, first = list(pairs), list(first)
    degree = Counter(id_ for pair in pairs for id_ in set(pair))
    near = {id_ for pair in first for id_ in pair}
    rest = sorted(pairs, key=lambda pair: (near.isdisjoint(pair), -sum(degree[id_] for id_ in pair), pair))
    shown: set[str] = set()
    for pair in chain(first, rest):
        if len(shown.union(pair)) <= most:
            shown.update(pair)
    return shown


@dataclass(slots=True)
class _Room:
    """A soft area with its devices from top to bottom."""

    name: str
    devices: list[str]
    right: bool = False


@dataclass(slots=True)
class Layout:
    """Where everything is; made by `layout`."""

    rooms: list[_Room] = field(default_factory=list)  # from top to bottom, left and right mixed
    right: dict[str, bool] = field(default_factory=dict)  # by device
    middle: dict[str, float] = field(default_factory=dict)  # the y of a device's middle
    top: list[float] = field(default_factory=list)  # the y of each room
    height: float = 0.0


def layout(graph: Graph) -> Layout:
    """Rooms in two columns, ordered so that lines are short."""
    placed = Layout(_rooms(graph))
    pairs = [(line.trigger, line.action_device) for line in graph.lines if line.trigger != line.action_device]
    _choose_sides(placed, pairs)
    neighbours: dict[str, list[str]] = defaultdict(list)
    for one, other in pairs:
        neighbours[one].append(other)
        neighbours[other].append(one)
    _stack(placed)
    best = (_total_length(placed, pairs), [(room, list(room.devices)) for room in placed.rooms])
    for _ in range(SWEEPS):
        for side in (True, False):
            _sort_by_neighbours(placed, neighbours, right=side)
        length = _total_length(placed, pairs)
        if length < best[0] - 1e-6:
            best = (length, [(room, list(room.devices)) for room in placed.rooms])
    placed.rooms = [room for room, _ in best[1]]
    for room, devices in best[1]:
        room.devices = devices
    _stack(placed)
    _swap_within_rooms(placed, neighbours)
    return placed


def _rooms(graph: Graph) -> list[_Room]:
    """Those of the shown devices; one with most of them is cut in two, by what triggers more than it is acted on."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for device in graph.devices:
        by_name[device.room].append(device.id)
    balance: Counter[str] = Counter()
    for line in graph.lines:
        balance[line.trigger] += 1
        balance[line.action_device] -= 1
    rooms: list[_Room] = []
    for name, ids in sorted(by_name.items()):
        triggers = [id_ for id_ in ids if balance[id_] > 0]
        others = [id_ for id_ in ids if balance[id_] <= 0]
        halves = [triggers, others] if 2 * len(ids) > len(graph.devices) or not name else [ids]
        rooms += [_Room(name, part) for part in halves if part]
    return rooms


def _choose_sides(placed: Layout, pairs: Sequence[Pair]) -> None:
    """Flips rooms while that puts more lines across the gutter or makes the columns more equal."""
    of = {id_: number for number, room in enumerate(placed.rooms) for id_ in room.devices}
    between = Counter((min(of[a], of[b]), max(of[a], of[b])) for a, b in pairs if of[a] != of[b])
    weight = [len(room.devices) * (CHIP + CHIP_GAP) + HEADING + ROOM_GAP for room in placed.rooms]
    names = [room.name for room in placed.rooms]
    sides = [False] * len(placed.rooms)
    columns = [0, 0]
    for number in sorted(range(len(sides)), key=lambda n: (-weight[n], n)):  # equal columns to begin with
        sides[number] = columns[1] < columns[0]
        columns[sides[number]] += weight[number]

    def cost(sides: Sequence[bool]) -> float:
        same = sum(count for (a, b), count in between.items() if sides[a] == sides[b])
        left = sum(w for w, s in zip(weight, sides, strict=True) if not s)
        uneven = abs(2 * left - sum(weight)) / (sum(weight) or 1)
        # The halves of a room that was cut in two face each other.
        halves = sum(a == b and s == t for (a, s), (b, t) in pairwise(zip(names, sides, strict=True)))
        return same / (sum(between.values()) or 1) + 1.5 * uneven * uneven + halves

    for _ in range(SWEEPS):
        flips = [{a} for a in range(len(sides))]
        flips += [{a, b} for a in range(len(sides)) for b in range(a) if sides[a] != sides[b]]
        tried = [[side ^ (n in flip) for n, side in enumerate(sides)] for flip in flips]
        best = min(tried, key=cost, default=sides)
        if cost(best) >= cost(sides) - 1e-9:
            break
        sides = best
    rightwards = sum((sides[of[b]] - sides[of[a]]) for a, b in pairs)  # minus those that run to the left
    if rightwards < 0:  # triggers are on the left where that can be
        sides = [not side for side in sides]
    for room, side in zip(placed.rooms, sides, strict=True):
        room.right = side
        placed.right.update(dict.fromkeys(room.devices, side))


def _stack(placed: Layout) -> None:
    """The y of rooms and devices, column by column; the shorter column is centred."""
    heights = {False: float(EDGE), True: float(EDGE)}
    placed.top = []
    for room in placed.rooms:
        y = heights[room.right]
        placed.top.append(y)
        for number, id_ in enumerate(room.devices):
            placed.middle[id_] = y + HEADING + number * (CHIP + CHIP_GAP) + CHIP / 2
        heights[room.right] = y + _room_height(room) + ROOM_GAP
    placed.height = max(heights.values()) - ROOM_GAP + EDGE
    for side, height in heights.items():
        shift = (placed.height - (height - ROOM_GAP + EDGE)) / 2 if height > EDGE else 0.0
        for number, room in enumerate(placed.rooms):
            if room.right == side:
                placed.top[number] += shift
                for id_ in room.devices:
                    placed.middle[id_] += shift


def _room_height(room: _Room) -> float:
    return HEADING + len(room.devices) * (CHIP + CHIP_GAP) + 2


def _sort_by_neighbours(placed: Layout, neighbours: Mapping[str, Sequence[str]], *, right: bool) -> None:
    """Devices and then rooms of a column, by the mean height of what they are joined with."""
    mean = {
        id_: sum(placed.middle[other] for other in near) / len(near) if (near := neighbours.get(id_)) else y
        for id_, y in placed.middle.items()
    }
    for room in placed.rooms:
        if room.right == right:
            room.devices.sort(key=lambda id_: (mean[id_], id_))
    moved = [room for room in placed.rooms if room.right == right]
    moved.sort(key=lambda room: (sum(mean[id_] for id_ in room.devices) / len(room.devices), room.name))
    placed.rooms = [room for room in placed.rooms if room.right != right] + moved
    _stack(placed)


def _swap_within_rooms(placed: Layout, neighbours: Mapping[str, Sequence[str]]) -> None:
    """Swaps devices of a room while that shortens lines: a mean says little where the neighbours move along."""

    def length(id_: str) -> float:
        return sum(abs(placed.middle[id_] - placed.middle[other]) for other in neighbours.get(id_, ()))

    for room in placed.rooms:
        for _ in range(SWEEPS):
            before = list(room.devices)
            for a, b in combinations(range(len(room.devices)), 2):
                one, other = room.devices[a], room.devices[b]
                old = length(one) + length(other)
                placed.middle[one], placed.middle[other] = placed.middle[other], placed.middle[one]
                if length(one) + length(other) < old - 1e-6:
                    room.devices[a], room.devices[b] = other, one
                else:
                    placed.middle[one], placed.middle[other] = placed.middle[other], placed.middle[one]
            if room.devices == before:
                break


def _total_length(placed: Layout, pairs: Sequence[Pair]) -> float:
    return sum(abs(placed.middle[one] - placed.middle[other]) for one, other in pairs)


def draw(graph: Graph, placed: Layout, size: Size, *, name: str) -> str:
    """The picture in a size; `name` is read to who cannot see it."""
    width, column = size.width, size.column
    number = {device.id: n for n, device in enumerate(graph.devices)}
    devices = {device.id: device for device in graph.devices}
    ports = _ports(graph, placed)
    parts: list[str] = []
    for room, top in zip(placed.rooms, placed.top, strict=True):
        x = width - column if room.right else 0
        parts.append(f'<g class="room"><rect x="{x}" y="{top:.0f}" width="{column}" height="{_room_height(room):.0f}"')
        label = escape(shortened(room.name or "No room", column - 18, 11))
        parts.append(f' rx="10"/><text x="{x + 9}" y="{top + 15:.0f}">{label}</text></g>')
    for suggested in (False, True):  # suggestions above the rest
        for which, line in enumerate(graph.lines):
            if line.suggested == suggested:
                ends = ports[which, False], ports[which, True]
                path, tip = _curve(placed, line, ends, width=width, column=column)
                kind = "edge new" if suggested else "edge"
                parts.append(
                    f'<g class="{kind}" data-edge="{which}" data-ends="{number[line.trigger]} '
                    f'{number[line.action_device]}"><path class="hit" d="{path}"/><path d="{path}"/>'
                    f'<path class="tip" d="{tip}"/></g>'
                )
    new = {id_ for line in graph.lines if line.suggested for id_ in (line.trigger, line.action_device)}
    for id_, middle in placed.middle.items():
        x, device = (width - column if placed.right[id_] else 0), devices[id_]
        shown = printable(device.name or id_)
        parts.append(
            f'<g class="node{" meant" if id_ in new else ""}" data-node="{number[id_]}">'
            f"<title>{escape(shown)}{f' ({escape(device.type)})' if device.type else ''}</title>"
            f'<rect x="{x + 5}" y="{middle - CHIP / 2:.0f}" width="{column - 10}" height="{CHIP}" rx="8"/>'
            f'<text x="{x + 13}" y="{middle + 4.5:.1f}">{escape(shortened(shown, column - 25, size.font))}</text></g>'
        )
    return (
        f'<svg class="{size.css_class}" role="img" aria-label="{escape(name)}" '
        f'viewBox="0 0 {width} {placed.height:.0f}" width="{width}" height="{placed.height:.0f}">{"".join(parts)}</svg>'
    )


def _ports(graph: Graph, placed: Layout) -> dict[tuple[int, bool], float]:
    """The y at which each line leaves its trigger and reaches its action: spread over the device's edge.

    By line and whether it is the action's end. Ends are in the order of what is at their other ends, so that the
    lines of one device do not cross each other.
    """
    ends: dict[str, list[tuple[float, int, bool]]] = defaultdict(list)
    for which, line in enumerate(graph.lines):
        ends[line.trigger].append((placed.middle[line.action_device], which, False))
        ends[line.action_device].append((placed.middle[line.trigger], which, True))
    found: dict[tuple[int, bool], float] = {}
    for id_, held in ends.items():
        step = min(7.0, (CHIP - 8) / max(1, len(held) - 1))
        for place, (_, which, is_action) in enumerate(sorted(held)):
            found[which, is_action] = placed.middle[id_] + (place - (len(held) - 1) / 2) * step
    return found


def _curve(placed: Layout, line: Line, ends: tuple[float, float], *, width: int, column: int) -> tuple[str, str]:
    """The path of a line in the gutter, and of its tip at the action."""
    gutter = width - 2 * column
    sides = placed.right[line.trigger], placed.right[line.action_device]
    start_x, end_x = (width - column + 5 if side else column - 5 for side in sides)
    tip = -7 if sides[1] else 7  # the line ends where the tip begins
    stop_x = end_x + tip
    if sides[0] == sides[1]:
        reach = min(gutter * 0.6, 24 + abs(ends[0] - ends[1]) * 0.35) * (-1 if sides[0] else 1)
        bends = start_x + reach, stop_x + reach
    else:
        bends = (start_x + stop_x) / 2, (start_x + stop_x) / 2
    path = (
        f"M{start_x:g} {ends[0]:.1f}C{bends[0]:.1f} {ends[0]:.1f} {bends[1]:.1f} {ends[1]:.1f} {stop_x:g} {ends[1]:.1f}"
    )
    return path, f"M{end_x:g} {ends[1]:.1f}l{tip} -3.5v7z"


def shortened(text: str, room: float, size: float) -> str:
    """As much of a text as fits in so many pixels at a font size, by a careful guess of its letters' widths."""
    text = " ".join(printable(text).split())
    widths = [_em(letter) * size for letter in text]
    if sum(widths) <= room:
        return text
    used, kept = size, 0  # the ellipsis
    for letter_width in widths:
        if used + letter_width > room:
            break
        used, kept = used + letter_width, kept + 1
    while kept and (unicodedata.combining(text[kept]) or text[kept - 1] == "\u200d" or text[kept] in "\u200d\ufe0f"):
        kept -= 1  # never half of a letter or an emoji
    return text[:kept].rstrip() + "…"


def _em(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Mn"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in "iljtfI.,:;'|!() ":
        return 0.33
    return 0.72 if letter.isupper() or letter in "mwMW@%" else 0.58


def rooms_of(graph: Graph, line: Line) -> tuple[str, ...]:
    """The rooms at the ends of a line, each once."""
    room = {device.id: device.room for device in graph.devices}
    return tuple(dict.fromkeys(filter(None, (room[line.trigger], room[line.action_device]))))
