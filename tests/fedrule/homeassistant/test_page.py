"""The page of a list: what is in the file, and what a person can do with it in a real browser, from disk."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrule.homeassistant import Entity, Installation, InstalledHome, Problem, read_folder, read_home
from fedrule.homeassistant.installation import Area, Automation
from fedrule.homeassistant.page.graph import CHIP, NARROW, Graph, Layout, draw, layout, shortened
from fedrule.homeassistant.page.page import page, write_page
from fedrule.homeassistant.suggestions import Suggestion, Suggestions
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import WrittenAutomation, to_yaml
from fedrule.inference.sentences import sentence

ROOMS = {"hall": "Hall", "kitchen": "Kitchen", "bed": "Bedroom", "bath": "Bathroom"}
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "</code></pre><img src=x onerror='window.hacked = 1'>",
    '" onmouseover="window.hacked = 1" x=\'',
    "<!-- ${not} $a template & \\u0000",
    "مصباح غرفة النوم",
    "lamp \u202e gnitirw \N{FAMILY}\N{ZERO WIDTH JOINER}\N{GIRL}",
    "a\x00b\x1b[31m\ud800c",
)
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])


def entities_of_a_home() -> Iterator[Entity]:
    """Of each room a motion sensor, a door, two lamps and a shutter; and three devices without a room."""
    for id_, name in ROOMS.items():
        yield Entity(f"binary_sensor.{id_}_motion", f"{name} motion", "motion", area=id_)
        yield Entity(f"binary_sensor.{id_}_door", f"{name} door", "door", area=id_)
        yield Entity(f"light.{id_}_ceiling", f"{name} ceiling", area=id_)
        yield Entity(f"light.{id_}_lamp", f"{name} lamp", area=id_)
        yield Entity(f"cover.{id_}", f"{name} shutter", area=id_)
    yield from (Entity("person.ana", "Ana"), Entity("sun.sun", "Sun"), Entity("weather.here", "Forecast"))


def automation(trigger: str, to: str, service: str, device: str, *, id_: str) -> Automation:
    config = {
        "trigger": {"platform": "state", "entity_id": trigger, "to": to},
        "action": {"service": service, "entity_id": device},
    }
    return Automation(config, "automations.yaml", id=id_)


AUTOMATIONS = (
    automation("binary_sensor.hall_motion", "on", "light.turn_on", "light.hall_lamp", id_="1"),
    automation("person.ana", "not_home", "light.turn_off", "light.kitchen_ceiling", id_="2"),
    automation("binary_sensor.bed_door", "on", "light.turn_on", "light.bed_lamp", id_="3"),
)


def home_of(
    entities: Sequence[Entity], automations: Sequence[Automation] = AUTOMATIONS, *, source: str = "/config"
) -> InstalledHome:
    known = {entity.entity_id: entity for entity in sorted(entities, key=lambda each: each.entity_id)}
    areas = {id_: Area(id_, name) for id_, name in ROOMS.items()}
    problems = (Problem("packages/old.yaml line 3", "not valid YAML"),)
    return read_home(Installation(source, "2025.4.1", known, areas, automations=tuple(automations), problems=problems))


def suggestion(home: InstalledHome, rule: tuple[str, str, str, str], *similar: Suggestion, **notes: str) -> Suggestion:
    """A line of the list; `guess` and `warning` are its notes."""
    trigger, state, action, device = rule
    names = {each.id: each.name for each in home.devices}
    text = sentence(names[trigger], state, action, names[device])
    config = {
        "id": f"fedrule_{trigger}_{state}_{action}_{device}".replace(".", "_").replace(":", "_"),
        "alias": text.replace("*", ""),
        "triggers": [{"trigger": "state", "entity_id": trigger, "to": state.partition(":")[2]}],
        "conditions": [],
        "actions": [{"action": f"light.{action}", "target": {"entity_id": device}}],
        "mode": "single",
    }
    guesses, warnings = (tuple(filter(None, (notes.get(key),))) for key in ("guess", "warning"))
    written = WrittenAutomation(config, guesses, warnings)
    return Suggestion(AutomationRule(*rule), text, "63 of the 131 homes have this rule", 63, 131, written, similar)


def small_list(entities: Sequence[Entity] = tuple(entities_of_a_home()), source: str = "/config") -> Suggestions:
    """Four lines: one that folds another, one with a guess and one with a warning."""
    home = home_of(entities, source=source)
    off = ("state:off", "turn_off")
    folded = suggestion(home, ("binary_sensor.bath_motion", *off, "light.bath_lamp"))
    lines = (
        suggestion(home, ("binary_sensor.hall_motion", *off, "light.hall_lamp"), folded),
        suggestion(home, ("binary_sensor.kitchen_motion", "state:on", "turn_on", "light.kitchen_ceiling")),
        suggestion(home, ("sun.sun", "sun:sunset", "turn_on", "light.bed_lamp"), guess="At sunset is a guess."),
        suggestion(home, ("person.ana", "state:home", "open", "cover.bed"), warning="It moves a shutter."),
    )
    return Suggestions(home, lines, {"your home has it": 14, "it contradicts another": 3, "none": 0})


def with_names(names: Sequence[str]) -> Suggestions:
    """The small list in a home whose devices have these names, by turns."""
    entities = list(entities_of_a_home())
    called = [dataclasses.replace(each, name=names[n % len(names)]) for n, each in enumerate(entities)]
    return small_list(called)


class Markup(HTMLParser):
    """Reads a page strictly: tags are balanced, attributes and ids occur once."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.inside: list[tuple[dict[str, str], list[str]]] = []  # open elements and their text
        self.by_id: dict[str, str] = {}  # text
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
            self.inside.append((attributes, []))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag
        attributes, texts = self.inside.pop()
        if "id" in attributes:
            self.by_id[attributes["id"]] = "".join(texts)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        for _, texts in self.inside:
            texts.append(data)

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]


def checked(content: str) -> Markup:
    """The markup of a page that is complete in itself."""
    read = Markup(content)
    ids = Counter(read.values("id"))
    assert [id_ for id_, count in ids.items() if count > 1] == []
    for attribute in ("aria-controls", "aria-labelledby", "aria-describedby", "for", "data-yaml"):
        assert set(read.values(attribute)) <= set(ids), attribute
    assert all(target.startswith("#") and target[1:] in ids for target in read.values("href"))
    assert not read.values("src")
    assert not read.values("style")  # the page's policy would not let it
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert not re.search(r"@import|url\(|https?://(?!homeassistant\.local)", content)
    assert [tag for tag, _ in read.elements if tag in ("script", "style")] == ["style", "script"]
    return read


def test_the_page_is_valid_and_complete_in_itself():
    read = checked(page(small_list()))
    tags = Counter(tag for tag, _ in read.elements)
    assert (tags["h1"], tags["main"], tags["h3"]) == (1, 1, 4)


def test_the_policy_allows_only_this_style_and_this_script():
    content = page(small_list())
    policy = next(a["content"] for _, a in Markup(content).elements if a.get("http-equiv"))
    for kind in ("style", "script"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", content, re.DOTALL)
        assert inside
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_and_nothing_else(name):
    plain, hostile = (checked(page(with_names([each]))) for each in ("a name", name))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]


def test_names_are_readable_as_they_are():
    read = checked(page(with_names(HOSTILE[:5])))
    assert {name for name in HOSTILE[:5] if name in read.texts} >= {HOSTILE[0], HOSTILE[4]}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5))
def test_whatever_the_names_are_the_page_is_valid_and_has_their_yaml(names):
    listed = with_names(names)
    read = checked(page(listed))
    for number, line in enumerate(listed.lines, 1):
        assert yaml.safe_load(read.by_id[f"yaml-{number}"]) == [dict(line.written.config)]


def test_the_yaml_on_the_page_is_the_given_yaml():
    listed = small_list()
    read = Markup(page(listed))
    for number, line in enumerate(listed.lines, 1):
        assert read.by_id[f"yaml-{number}"] == to_yaml([line.written])
        for n, other in enumerate(line.similar, 1):
            assert read.by_id[f"yaml-{number}-{n}"] == to_yaml([other.written])


def test_the_same_list_gives_the_same_page_whatever_the_order_of_entities():
    entities = list(entities_of_a_home())
    random.Random(1).shuffle(entities)
    assert page(small_list(entities)) == page(small_list())


def test_guesses_and_warnings_are_on_their_cards_and_not_folded():
    content = page(small_list())
    cards = re.findall(r'<li class="card suggestion".*?</h3>(.*?)<details', content, re.DOTALL)
    assert ["At sunset is a guess." in card for card in cards] == [False, False, True, False]
    assert ["It moves a shutter." in card for card in cards] == [False, False, False, True]


@pytest.mark.parametrize(
    ("similar", "summary"),
    [
        ([("hall_motion", "bed_lamp")], "The same for Bedroom lamp"),
        ([(f"{room}_motion", f"{room}_lamp") for room in ("bath", "bed", "kitchen")], "Bathroom, Bedroom and Kitchen"),
        ([("bed_motion", "kitchen_lamp")], "The same for 1 other pair of devices"),
    ],
)
def test_the_fold_says_which_devices_or_rooms_it_is_about(similar, summary):
    home = home_of(list(entities_of_a_home()))
    first, *others = (
        suggestion(home, (f"binary_sensor.{trigger}", "state:off", "turn_off", f"light.{device}"))
        for trigger, device in [("hall_motion", "hall_lamp"), *similar]
    )
    listed = Suggestions(home, (dataclasses.replace(first, similar=tuple(others)),), {})
    assert summary in "".join(checked(page(listed)).texts)


def test_the_head_has_the_facts_of_the_home_and_no_secret_of_its_address():
    source = "http://ana:hunter2@homeassistant.local:8123/lovelace?token=abc#def"
    content = page(small_list(source=source))
    said = " ".join("".join(Markup(content).texts).split())
    assert "http://homeassistant.local:8123 " in said
    assert not [secret for secret in ("hunter2", "ana:", "token=", "abc#", "lovelace") if secret in content]
    # 4 rooms of 5 devices and 3 without a room
    assert "devices23rooms4automations3rules3" in said
    assert "changed nothing on your server" in said


def test_what_was_left_out_and_not_read_is_counted():
    said = " ".join("".join(Markup(page(small_list())).texts).split())
    assert "14 your home has it3 it contradicts another" in said
    assert "not read: packages/old.yaml line 3: not valid YAML" in said
    assert "0 none" not in said


@pytest.mark.parametrize(
    ("entities", "advice"), [((), "No device was read"), (tuple(entities_of_a_home()), "without --area")]
)
def test_an_empty_list_says_what_to_do(entities, advice):
    read = checked(page(Suggestions(home_of(entities, ()), (), {})))
    assert advice in "".join(read.texts)


def test_the_demo_home_has_a_page(tmp_path):
    home = read_home(read_folder(Path(__file__).with_name("demo_home")))
    write_page(Suggestions(home, (), {}), tmp_path / "page.html")
    checked((tmp_path / "page.html").read_text("utf-8"))


def large_list(devices: int = 1000) -> Suggestions:
    """A home of so many devices in 40 rooms, a rule for every fourth, 30 lines of which each folds two."""
    areas = {f"a{n}": Area(f"a{n}", f"Room number {n}") for n in range(40)}
    half = devices // 2
    entities = {}
    for n in range(half):
        for each in (
            Entity(f"binary_sensor.m{n}", f"Motion sensor number {n}", "motion", area=f"a{n % 40}"),
            Entity(f"light.l{n}", f"Ceiling light number {n}", area=f"a{n % 40}"),
        ):
            entities[each.entity_id] = each
    rules = [
        automation(f"binary_sensor.m{n}", "on", "light.turn_on", f"light.l{n}", id_=str(n)) for n in range(0, half, 2)
    ]
    home = read_home(Installation("/config", "", dict(sorted(entities.items())), areas, automations=tuple(rules)))
    made = [
        suggestion(home, (f"binary_sensor.m{n}", "state:off", "turn_off", f"light.l{n}"), guess="A guess.")
        for n in range(90)
    ]
    folded = (dataclasses.replace(made[n], similar=tuple(made[n + 1 : n + 3])) for n in range(0, 90, 3))
    return Suggestions(home, tuple(folded), {"your home has it": 250})


def test_a_home_of_1000_devices_stays_small_and_says_what_is_not_drawn():
    listed = large_list()
    content = page(listed)
    assert len(content.encode()) < 300_000
    read = checked(content)
    nodes = [a for tag, a in read.elements if "data-node" in a]
    assert len(nodes) == 2 * 70  # a picture for desktops and one for phones
    # Devices with a rule or a suggestion: pairs 0 to 89, and the even ones from 90 to 498, which are 205; of each two.
    said = "".join(read.texts)
    assert f"{2 * (90 + 205) - 70} devices with rules" in said
    assert f"{1000 - 2 * (90 + 205)} devices have no rule and no suggestion" in said


def test_the_graph_has_each_rule_and_each_suggestion_once():
    listed = small_list()
    graph = Graph.of(listed.home, listed.lines)
    drawn = [rule for line in graph.lines for rule in line.rules]
    suggested = {each.rule for line in listed.lines for each in (line, *line.similar)}
    assert sorted(drawn) == sorted({*listed.home.rules, *suggested})
    assert {rule for line in graph.lines if line.suggested for rule in line.rules} == suggested
    in_rules = {id_ for rule in drawn for id_ in (rule.trigger, rule.action_device)}
    assert [device.id for device in graph.devices] == sorted(in_rules)
    assert graph.unconnected == len(listed.home.devices) - len(in_rules)


def overlaps(placed: Layout) -> list[tuple[str, str]]:
    """Devices of one column that cover each other, by comparing all pairs."""
    items = list(placed.middle.items())
    return [
        (a, b)
        for n, (a, y) in enumerate(items)
        for b, z in items[n + 1 :]
        if placed.right[a] == placed.right[b] and abs(y - z) < CHIP
    ]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_devices_never_overlap_and_lines_stay_between_the_columns(data):
    ids = [entity.entity_id for entity in entities_of_a_home()]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), min_size=1, max_size=30))
    home = home_of(list(entities_of_a_home()), ())
    lines = [suggestion(home, (a, "state:on", "turn_on", b)) for a, b in dict.fromkeys(pairs)]
    graph = Graph.of(home, lines)
    placed = layout(graph)
    assert set(placed.middle) == {device.id for device in graph.devices}
    assert overlaps(placed) == []
    for room in placed.rooms:
        assert len({placed.right[id_] for id_ in room.devices}) == 1
    assert all(y - CHIP / 2 > 0 and y + CHIP / 2 < placed.height for y in placed.middle.values())
    _, width, column, _ = NARROW
    svg = draw(graph, placed, NARROW, name="n")
    for path in re.findall(r'class="hit" d="([^"]+)"', svg):
        # A cubic curve stays inside the hull of its four points; 5 is the inset of a device in its column.
        xs = [float(x) for x in re.findall(r"-?[\d.]+", path)[::2]]
        assert all(column - 5 <= x <= width - column + 5 for x in xs)


def test_rooms_that_rules_join_face_each_other():
    entities = [each for each in entities_of_a_home() if "hall" in each.entity_id or "kitchen" in each.entity_id]
    rules = [
        automation("binary_sensor.hall_door", "on", "light.turn_on", f"light.kitchen_{n}", id_=n)
        for n in ("lamp", "ceiling")
    ]
    placed = layout(Graph.of(home_of(entities, rules), ()))
    assert not placed.right["binary_sensor.hall_door"]  # triggers on the left
    assert placed.right["light.kitchen_lamp"]


def test_a_long_name_is_cut_where_it_can_be_read():
    assert shortened("Lamp", 100, 12.5) == "Lamp"
    cut = shortened("Office window with a name that nobody reads", 100, 12.5)
    assert cut.endswith("…")
    assert 8 < len(cut) < 20
    family = "\N{MAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
    assert "\N{ZERO WIDTH JOINER}…" not in shortened(family * 20, 60, 12.5)


def test_a_page_that_is_there_is_replaced(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    write_page(small_list(), path)
    assert path.read_text("utf-8") == page(small_list())
    assert list(tmp_path.iterdir()) == [path]


# In a real browser. Its support skips whole modules where selenium is missing; only these tests need it.
try:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait

    from tests.support.browser import PATIENCE, chromium, needs_chromium, sized
except ImportError:
    needs_chromium = pytest.mark.skip(reason="the extra browser is not installed")

WIDE, PHONE = 1280, 375
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});"
CLIPBOARD_REFUSES = """Object.defineProperty(navigator, 'clipboard', {configurable: true,
    value: {writeText: () => Promise.reject(new Error('not allowed'))}});"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        downloads = tmp_path_factory.mktemp("downloads")
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads), "eventsEnabled": True}
        )
        driver.downloads = downloads
        yield driver


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(small_list(), path)
    return path.as_uri()


def opened(browser, address, width=WIDE, *, forget=True):
    """The page freshly loaded, with nothing remembered."""
    sized(browser, width, mobile=width == PHONE)
    browser.get(address)
    if forget:
        browser.execute_script("localStorage.clear()")
        browser.get(address)
    return browser


def one(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def shown(page):
    """The numbers of the cards that can be seen."""
    cards = page.find_elements(By.CSS_SELECTOR, ".suggestion")
    return [int(card.get_attribute("id").rpartition("-")[2]) for card in cards if card.is_displayed()]


def pasted(page):
    """What is in the clipboard: by pasting it as a person does."""
    page.execute_script(
        "const field = document.createElement('textarea'); field.id = 'pasted'; document.body.append(field);"
        "field.focus({preventScroll: true});"
    )
    ActionChains(page).key_down(Keys.CONTROL).send_keys("v").key_up(Keys.CONTROL).perform()
    return page.execute_script(
        "const field = document.getElementById('pasted'); const text = field.value; field.remove(); return text"
    )


def click(page, selector):
    found = one(page, selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", found)
    found.click()


def copied(page, selector):
    """What the page says once this button has copied; the words fade in, and the driver reads none before."""
    page.execute_script("document.getElementById('said').textContent = ''")
    click(page, selector)
    return WebDriverWait(page, PATIENCE).until(lambda page: one(page, "#said").text)


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_it_opens_without_a_complaint_and_without_scrolling_sideways(browser, tmp_path, width, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for number, listed in enumerate((small_list(), with_names(HOSTILE), with_names(["x" * 300]), large_list(200))):
        path = tmp_path / f"{number}.html"
        write_page(listed, path)
        page = opened(browser, path.as_uri(), width)
        page.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.get_log("browser") == []
        wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window == width
        assert page.execute_script("return window.hacked") is None
        entries = page.execute_script("return performance.getEntriesByType('resource').map(each => each.name)")
        assert entries == []


@needs_chromium
def test_on_a_phone_everything_that_is_touched_is_large_enough(browser, address):
    page = opened(browser, address, PHONE)
    click(page, "#suggestion-1 .hide")  # so that the box with its id is there
    page.execute_script("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    small = page.execute_script(
        "return [...document.querySelectorAll('button, summary, select, input:not([type=checkbox]), label.check')]"
        ".filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 40)"
        ".map(each => each.outerHTML)"
    )
    assert small == []


@needs_chromium
@pytest.mark.parametrize("clipboard", ["", NO_CLIPBOARD, CLIPBOARD_REFUSES], ids=["there", "missing", "refuses"])
def test_copy_from_disk_puts_the_yaml_in_the_clipboard(browser, address, clipboard):
    page = opened(browser, address)
    page.execute_script(clipboard)
    listed = small_list()
    for number, line in enumerate(listed.lines[:2], 1):
        assert copied(page, f"#suggestion-{number} .buttons .copy") == "YAML copied."
        assert pasted(page) == to_yaml([line.written])
    click(page, "#suggestion-1 .similar > summary")
    click(page, "#suggestion-1 .similar .yaml > summary")
    assert copied(page, "#suggestion-1 .similar .yaml .copy") == "YAML copied."
    assert pasted(page) == to_yaml([listed.lines[0].similar[0].written])


@needs_chromium
def test_where_copying_is_forbidden_the_yaml_is_selected(browser, address):
    page = opened(browser, address)
    page.execute_script(NO_CLIPBOARD + "document.execCommand = () => false;")
    assert "press Ctrl+C" in copied(page, "#suggestion-2 .buttons .copy")
    selected = page.execute_script("return getSelection().toString()")
    assert selected.strip() == to_yaml([small_list().lines[1].written]).strip()


@needs_chromium
def test_the_editor_gets_one_automation_and_not_a_list(browser, address):
    listed = small_list()
    assert to_yaml([listed.lines[2].written]).startswith("# ")
    page = opened(browser, address)
    click(page, "#suggestion-3 .yaml > summary")
    assert copied(page, "#suggestion-3 [data-for=editor]") == "YAML for the editor copied."
    assert yaml.safe_load(pasted(page)) == dict(listed.lines[2].written.config)


@needs_chromium
def test_copy_all_and_download_have_what_is_shown(browser, address):
    page = opened(browser, address)
    listed = small_list()
    click(page, "#suggestion-2 .hide")
    kept = [dict(listed.lines[n].written.config) for n in (0, 2, 3)]
    copied(page, "#copy-all")
    assert yaml.safe_load(pasted(page)) == kept
    click(page, "#with-similar")
    click(page, "#download")
    file = browser.downloads / "recommended.yaml"
    for _ in range(200):
        if file.exists():
            break
        page.execute_async_script("setTimeout(arguments[0], 50)")
    folded = dict(listed.lines[0].similar[0].written.config)
    assert yaml.safe_load(file.read_text("utf-8")) == [kept[0], folded, *kept[1:]]


@needs_chromium
def test_not_for_me_hides_a_line_remembers_it_and_gives_its_ids(browser, address):
    page = opened(browser, address)
    line = small_list().lines[0]
    click(page, "#suggestion-1 .hide")
    assert shown(page) == [2, 3, 4]
    ids = f"{line.written.id}\n{line.similar[0].written.id}\n"
    assert one(page, "#without-ids").get_property("value") == ids
    page = opened(browser, address, forget=False)
    assert shown(page) == [2, 3, 4]
    click(page, "#show-hidden")
    assert shown(page) == [1, 2, 3, 4]
    click(page, "#suggestion-1 .hide")  # it says "Bring back" now
    assert not one(page, "#without").is_displayed()
    page = opened(browser, address, forget=False)
    assert shown(page) == [1, 2, 3, 4]


@needs_chromium
def test_without_a_memory_hiding_still_works(browser, address):
    script = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied'); }});"
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        page = opened(browser, address, forget=False)
        click(page, "#suggestion-3 .hide")
        assert shown(page) == [1, 2, 4]
        assert page.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@needs_chromium
def test_the_list_is_found_by_device_and_by_room(browser, address):
    page = opened(browser, address)
    one(page, "#search").send_keys("MOTION hall")
    assert shown(page) == [1]
    one(page, "#search").clear()
    one(page, "#search").send_keys("nothing like it")
    assert shown(page) == []
    click(page, "#reset")
    assert shown(page) == [1, 2, 3, 4]
    Select(one(page, "#room")).select_by_visible_text("Bedroom")
    assert shown(page) == [3, 4]
    Select(one(page, "#room")).select_by_visible_text("Bathroom")
    assert shown(page) == [1]  # by what it folds
    assert one(page, "#count").text == "1 of 4 shown."


@needs_chromium
def test_a_card_lights_its_line_and_a_line_its_card(browser, address):
    page = opened(browser, address)
    lit = "return [...document.querySelectorAll('.wide .edge.lit')].map(each => each.dataset.edge)"
    ActionChains(page).move_to_element(one(page, "#suggestion-2 h3")).perform()
    assert page.execute_script(lit) == one(page, "#suggestion-2").get_attribute("data-edges").split()
    edge = one(page, "#suggestion-4").get_attribute("data-edge")
    page.execute_script("document.querySelector('#picture').scrollIntoView({block: 'center', behavior: 'instant'})")
    page.execute_script(
        f"document.querySelector('.wide .edge[data-edge=\"{edge}\"]').dispatchEvent(new Event('click'))"
    )
    assert "lit" in one(page, "#suggestion-4").get_attribute("class")
    assert one(page, "#caption").text.startswith("When Ana comes home, open Bedroom shutter")


@needs_chromium
def test_on_a_phone_a_card_leads_to_its_line_and_back(browser, address):
    page = opened(browser, address, PHONE)
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    in_sight = (
        "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
        "return box.bottom > 0 && box.top < innerHeight && box.height > 0"
    )
    click(page, "#suggestion-2 .locate")
    edge = one(page, "#suggestion-2").get_attribute("data-edge")
    assert page.execute_script(in_sight, f'.narrow .edge.lit[data-edge="{edge}"]')
    click(page, "#back")
    assert page.execute_script(in_sight, "#suggestion-2")


@needs_chromium
def test_the_list_can_be_used_by_keyboard_alone(browser, address):
    page = opened(browser, address)
    one(page, "body").send_keys(Keys.TAB)
    assert page.switch_to.active_element.text == "Skip to the list"
    for _ in range(60):
        ActionChains(page).send_keys(Keys.TAB).perform()
        if "hide" in page.switch_to.active_element.get_attribute("class"):
            break
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert shown(page) == [2, 3, 4]
    # The next line's button has the focus, so that a person goes on from there.
    assert page.execute_script("return document.activeElement.closest('.suggestion').id") == "suggestion-2"
