"""The list of a home as one HTML file: what to add, why, the YAML to copy, and the home's graph.

The file is complete in itself and works from disk; it asks nothing of any network. What comes from the home (names,
rooms, YAML) is escaped text in the markup and never part of the script, and the page's own policy lets only that one
script and that one style run, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from datasets.common.files import atomic_file
from fedrule.homeassistant.home import InstalledHome, rooms
from fedrule.homeassistant.installation import printable
from fedrule.homeassistant.page.graph import NARROW, WIDE, Graph, draw, layout, rooms_of
from fedrule.homeassistant.suggestions import Suggestion, Suggestions, Wording
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import WrittenAutomation, to_yaml
from fedrule.inference.sentences import MARK

FOUND = "What homes with devices like yours have automated and yours has not yet, best first."
NOT_FOUND = "What homes with devices like yours have automated, and yours has not, would stand here."
MOST_PROBLEMS = 60  # lines of what could not be read; more help nobody


def write_page(suggestions: Suggestions, path: Path) -> None:
    """Write the page of a list; a file that is there is replaced as a whole."""
    with atomic_file(path) as temporary:
        temporary.write_text(page(suggestions), "utf-8", newline="\n")


def page(suggestions: Suggestions) -> str:
    """The page as text; the same for the same list."""
    home = suggestions.home
    graph = Graph.of(home, suggestions.lines)
    cards = _Cards(suggestions, graph)
    style, script = (_beside(name) for name in ("page.css", "page.js"))
    return Template(_beside("page.html")).substitute(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        title=_title(suggestions),
        lead=FOUND if suggestions.lines else NOT_FOUND,
        facts=_facts(home),
        source=_source(home),
        without_list="" if suggestions.lines else " hidden",
        without_similar="" if any(line.similar for line in suggestions.lines) else " hidden",
        rooms="".join(f'<option value="{n}">{_text(room)}</option>' for n, room in enumerate(cards.rooms)),
        list=cards.html() if suggestions.lines else _nothing(suggestions),
        graph=_graph(graph, suggestions),
        left_out=_left_out(suggestions),
        not_read=_not_read(home),
    )


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _hash(content: str) -> str:
    """As a policy names the content of a style or script element, which begins and ends with a line break here."""
    digest = hashlib.sha256(f"\n{content}".encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _text(value: str) -> str:
    """Text of the home for markup or a quoted attribute."""
    return escape(printable(value))


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def _title(suggestions: Suggestions) -> str:
    found = len(suggestions.lines)
    return f"{_count(found, 'automation')} for your home" if found else "No automation to suggest"


def _facts(home: InstalledHome) -> str:
    facts = [
        (f"{len(home.devices):,}", "device" if len(home.devices) == 1 else "devices"),
        (f"{len(rooms(home)):,}", "room" if len(rooms(home)) == 1 else "rooms"),
        (f"{len(home.outcomes):,}", "automation" if len(home.outcomes) == 1 else "automations"),
        (f"{len(home.rules):,}", "rule" if len(home.rules) == 1 else "rules"),
    ]
    return "".join(f"<div><dt>{noun}</dt><dd>{number}</dd></div>" for number, noun in facts)


def _source(home: InstalledHome) -> str:
    """Where it was read, without what an address may carry besides the place: a user, a password, a query."""
    installation = home.installation
    version = f"Home Assistant {installation.version}" if installation.version else "Home Assistant"
    place = installation.source
    if "://" in place:
        try:
            address = urlsplit(place)
            port = f":{address.port}" if address.port else ""
            host = address.hostname or ""
            place = f"{address.scheme}://{f'[{host}]' if ':' in host else host}{port}"
        except ValueError:  # not an address after all; it may hold anything
            place = "a server"
    return f"{_text(version)}, read from <code><bdi>{_text(place)}</bdi></code>"


class _Cards:
    """The list, each line a card."""

    def __init__(self, suggestions: Suggestions, graph: Graph) -> None:
        self.lines = suggestions.lines
        self.devices = {device.id: device for device in suggestions.home.devices}
        self.names = Wording(suggestions.home).names
        self.edges = graph.numbers()
        self.rooms = sorted({room for line in self.lines for each in _with_similar(line) for room in self._rooms(each)})

    def html(self) -> str:
        cards = "\n".join(self._card(number, line) for number, line in enumerate(self.lines, 1))
        return f'<ol class="suggestions">\n{cards}\n</ol>'

    def _rooms(self, line: Suggestion) -> tuple[str, ...]:
        """Of the trigger and of the action, each once."""
        used = (self.devices.get(id_) for id_ in (line.rule.trigger, line.rule.action_device))
        return tuple(dict.fromkeys(device.room for device in used if device and device.room))

    def _names(self, line: Suggestion) -> Iterable[str]:
        for id_ in (line.rule.trigger, line.rule.action_device):
            device = self.devices.get(id_)
            yield f"{device.name} {id_}" if device else id_

    def _card(self, number: int, line: Suggestion) -> str:
        together = _with_similar(line)
        ids = " ".join(_text(each.written.id) for each in together)
        in_rooms = {room for each in together for room in self._rooms(each)}
        names = dict.fromkeys(name for each in together for name in self._names(each))
        edges = sorted({self.edges[each.rule] for each in together if each.rule in self.edges})
        own = self.edges.get(line.rule)
        locate = '<button type="button" class="locate needs-js">See graph</button>' if edges else ""
        return f"""<li class="card suggestion" id="suggestion-{number}" tabindex="-1" data-ids="{ids}" \
data-rooms="{" ".join(str(n) for n, room in enumerate(self.rooms) if room in in_rooms)}" \
data-names="{_text(" ".join(names))}" data-edges="{" ".join(map(str, edges))}" data-edge="{"" if own is None else own}">
<div class="what"><h3 id="text-{number}">{_emphasised(line.text)}</h3>{self._room_marks(line)}</div>
{_why(line)}{_notes(line.written)}
<div class="row buttons"><button type="button" class="strong copy needs-js" aria-describedby="text-{number}" \
data-yaml="yaml-{number}">Copy YAML</button>{locate}<button type="button" class="hide needs-js" \
aria-describedby="text-{number}">Not for me</button></div>
{self._yaml(line, str(number))}{self._similar(number, line)}</li>"""

    def _room_marks(self, line: Suggestion) -> str:
        marks = ' <span aria-hidden="true">&rarr;</span> '.join(
            f'<span class="mark"><bdi>{_text(room)}</bdi></span>' for room in self._rooms(line)
        )
        return f'<p class="rooms"><span class="unseen">Rooms: </span>{marks}</p>' if marks else ""

    def _yaml(self, line: Suggestion, number: str) -> str:
        """Folded; `number` is that of the line, whose sentence describes the buttons."""
        about = f'aria-describedby="text-{number}"'
        button = f'<button type="button" class="copy" data-yaml="yaml-{number}" {about}'
        return f"""<details class="yaml"><summary {about}>YAML</summary>
<div class="row needs-js">{button}>Copy</button>{button} data-for="editor">Copy for the editor</button></div>
<pre tabindex="0" {about}><code id="yaml-{number}">{_text(to_yaml([line.written]))}</code></pre></details>"""

    def _similar(self, number: int, line: Suggestion) -> str:
        if not line.similar:
            return ""
        items = "\n".join(
            f'<li data-edge="{self.edges.get(each.rule, "")}"><p class="text" id="text-{number}-{n}">'
            f"{_emphasised(each.text)}</p>"
            f"{self._room_marks(each)}{_notes(each.written)}{self._yaml(each, f'{number}-{n}')}</li>"
            for n, each in enumerate(line.similar, 1)
        )
        summary = f"The same {self._others(line)}"
        return f'<details class="similar"><summary>{summary}</summary>\n<ul>\n{items}\n</ul></details>'

    def _others(self, line: Suggestion) -> str:
        """What the folded ones are about: a device of each, or a room of each, or how many they are."""
        own = {line.rule.trigger, line.rule.action_device}
        ends = [(each.rule.trigger, each.rule.action_device) for each in line.similar]
        devices = [[id_ for id_ in pair if id_ not in own] for pair in ends]
        if all(len(ids) == 1 for ids in devices):
            return f"for {_listed([self.names.get(id_, id_) for (id_,) in devices])}"
        in_rooms = [[known.room for id_ in pair if (known := self.devices.get(id_))] for pair in ends]
        first = [found[0] for found in in_rooms if len(found) == 2 and found[0] == found[1] and found[0]]
        if len(set(first)) == len(ends):
            return f"in {_listed(first)}"
        return f"for {_count(len(ends), 'other pair')} of devices"


def _listed(names: list[str]) -> str:
    """The first three, and how many more there are."""
    shown = [f"<bdi>{_text(name)}</bdi>" for name in names[:3]]
    if len(names) > 3:
        shown.append(f"{len(names) - 3:,} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _with_similar(line: Suggestion) -> tuple[Suggestion, ...]:
    return (line, *line.similar)


def _emphasised(text: str) -> str:
    """A sentence whose names stand between marks."""
    parts = text.split(MARK)
    if len(parts) % 2 == 0:  # a mark without its partner: no name to emphasise
        return _text(text)
    return "".join(f"<b><bdi>{_text(part)}</bdi></b>" if n % 2 else _text(part) for n, part in enumerate(parts))


def _why(line: Suggestion) -> str:
    bar = ""
    if line.homes_with_both > 0:
        share = min(100.0, 100 * line.homes_with_rule / line.homes_with_both)
        bar = (
            '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="whole" width="100" height="6"/><rect class="part" width="{share:.1f}" height="6"/></svg>'
        )
    return f'<p class="why">{bar}<span>{_text(line.why)}</span></p>' if line.why or bar else ""


def _notes(written: WrittenAutomation) -> str:
    notes = [("warning", "Look at this first.", text) for text in written.warnings]
    notes += [("guess", "Check the value.", text) for text in written.guesses]
    if not notes:
        return ""
    items = "".join(f'<li class="{kind}"><b>{lead}</b> {_text(text)}</li>' for kind, lead, text in notes)
    return f'\n<ul class="notes">{items}</ul>'


def _nothing(suggestions: Suggestions) -> str:
    home = suggestions.home
    if not home.devices:
        advice = [
            "No device was read. Is it the folder with <code>configuration.yaml</code>, or the address of the server "
            "that you use?",
            "What could not be read is listed below.",
        ]
    else:
        advice = [
            "Did you narrow the list? Try it without <code>--area</code> and <code>--without</code>, and with "
            "<code>--values guess</code>.",
            "Give devices a name and an area in Home Assistant: rooms say which lamp belongs to which sensor.",
            "Home Assistant must know what a sensor is (its device class: motion, door, temperature).",
            "Try a model that was trained on more homes.",
        ]
    items = "".join(f"<li>{each}</li>" for each in advice)
    said = "<b>There is nothing to suggest for this home.</b> What may help:"
    return f'<div class="card nothing"><p>{said}</p><ul>{items}</ul></div>'


def _graph(graph: Graph, suggestions: Suggestions) -> str:
    if not graph.lines:
        return '<p class="hint">No rule and no suggestion to draw.</p>'
    placed = layout(graph)
    new = sum(line.suggested for line in graph.lines)
    name = (
        f"{_count(len(graph.devices), 'device')} in rooms; {_count(len(graph.lines) - new, 'line')} for rules that are "
        f"there and {new:,} dashed for suggested ones. The table below says the same."
    )
    pictures = "\n".join(draw(graph, placed, size, name=name) for size in (WIDE, NARROW))
    beyond = []
    if graph.left_out:
        beyond.append(
            f"A large home: only {_count(len(graph.devices), 'device')}, of suggestions and of most rules, are drawn; "
            f"{_count(graph.left_out, 'device')} with rules and {_count(graph.left_out_pairs, 'line')} are not."
        )
    if graph.unconnected:
        have = "has" if graph.unconnected == 1 else "have"
        beyond.append(f"{_count(graph.unconnected, 'device')} {have} no rule and no suggestion, and are not drawn.")
    legend = '<span class="old">rules you have</span> ' * (
        new < len(graph.lines)
    ) + '<span class="new">suggested</span>' * bool(new)
    return f"""<p class="legend">{legend}</p>
<div class="picture" id="picture">
{pictures}
</div>
<p class="caption needs-js" id="caption" aria-live="polite">Touch a device or a line to see its rules.</p>
{f'<p class="hint">{" ".join(beyond)}</p>' if beyond else ""}
{_table(graph, suggestions)}"""


def _table(graph: Graph, suggestions: Suggestions) -> str:
    """The lines in words, for who cannot see or touch the picture."""
    wording = Wording(suggestions.home)
    suggested = {each.rule: each.text for line in suggestions.lines for each in _with_similar(line)}

    def in_words(rule: AutomationRule) -> str:
        return _emphasised(suggested.get(rule) or wording.rule(rule))

    rows = "\n".join(
        f'<tr data-edge="{number}"><td>{"<br>".join(map(in_words, line.rules))}</td>'
        f"<td>{_text(', '.join(rooms_of(graph, line)))}</td><td>{'suggested' if line.suggested else 'yours'}</td></tr>"
        for number, line in enumerate(graph.lines)
    )
    return f"""<details class="words"><summary>The graph as a table</summary>
<div class="table" tabindex="0" role="region" aria-label="The graph as a table"><table>
<thead><tr><th scope="col">Rule</th><th scope="col">Rooms</th><th scope="col">Whose</th></tr></thead>
<tbody id="edges">
{rows}
</tbody></table></div></details>"""


def _left_out(suggestions: Suggestions) -> str:
    reasons = sorted(suggestions.left_out.items(), key=lambda item: (-item[1], item[0]))
    items = "".join(f'<li><span class="number">{count:,}</span> {_text(why)}</li>' for why, count in reasons if count)
    if not items:
        return "<p>Nothing: no candidate that was better than the last line was left out.</p>"
    said = "Candidates that were better than the last line, and why they are not in the list:"
    return f'<p>{said}</p><ul class="counts">{items}</ul>'


def _not_read(home: InstalledHome) -> str:
    first, *rest = home.coverage().splitlines()
    items = "".join(f"<li>{_text(line.strip())}</li>" for line in rest[:MOST_PROBLEMS])
    if len(rest) > MOST_PROBLEMS:
        items += f"<li>and {len(rest) - MOST_PROBLEMS:,} more</li>"
    if not items:
        return f"<p>{_text(first)}. Everything was read.</p>"
    summary = f"{_count(len(rest), 'note')} on what gave no rule or could not be read"
    opened = " open" if len(rest) <= 6 else ""
    return f"<p>{_text(first)}.</p><details{opened}><summary>{summary}</summary><ul>{items}</ul></details>"
