"""One home as a column of the user-item matrix and as a graph: both show the same rules, and every word can be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import PathPatch, Rectangle

from benchmarks.results.records import ExampleHome, HomeRule, MatrixRow, OwnedDevice, TypedRule
from benchmarks.runs.dataset_summary import save_summary, summarize
from benchmarks.runs.experiment import make_source
from reports.drawing.layout import draw, render
from reports.figures.data import MAX_EDGES, NODE, NODE_TALL, example_home
from reports.inputs import Inputs
from reports.outputs import Missing

CAMERA, TWIN, DOOR = OwnedDevice(1, "Camera"), OwnedDevice(2, "Camera"), OwnedDevice(3, "ContactSensor")
LIGHT, MOTION, IDLE = OwnedDevice(4, "Light"), OwnedDevice(5, "MotionSensor"), OwnedDevice(6, "Thermostat")
# A device with itself, two devices both ways, two rules between the same devices, a long name, a device without rules.
RULES = (
    HomeRule(CAMERA, "Motion Detected", "Siren On", CAMERA),
    HomeRule(CAMERA, "Motion Detected", "Notifications", TWIN),
    HomeRule(TWIN, "Motion Detected", "Notifications", CAMERA),
    HomeRule(DOOR, "Open", "Power On", LIGHT),
    HomeRule(DOOR, "Closed", "Power Off", LIGHT),
    HomeRule(MOTION, "Motion Cleared For A Long Time", "Power On For A While And Then Off", LIGHT),
)
NEW = TypedRule("MotionSensor", "Motion Detected", "Power On", "Light")
IMPOSSIBLE = TypedRule("Lock", "Locked", "Away", "Thermostat")  # the home has no lock


def typed(rule):
    return TypedRule(rule.trigger.type, rule.trigger_state, rule.action, rule.action_device.type)


def home_with(rules=RULES, devices=(CAMERA, TWIN, DOOR, LIGHT, MOTION, IDLE)):
    """Its own items first, then one that it could have and one that it could not; one home beside it."""
    own = tuple(dict.fromkeys(map(typed, rules)))
    mine = (True,) * len(own) + (False, False)
    rows = MatrixRow("me", mine, len(rules)), MatrixRow("other", (False,) * len(own) + (True, True), 2)
    return ExampleHome("me", devices, rules, (*own, NEW, IMPOSSIBLE), rows)


@pytest.fixture(scope="module")
def small():
    """A portrait of made-up smart homes."""
    return summarize(make_source("wyze-synthetic", options={"homes": 60}, track="types", path=None))


@pytest.fixture(scope="module")
def drawing(small):
    return example_home(Inputs(summaries=(replace(small, example=home_with()),)))


@pytest.fixture(scope="module")
def shown(drawing):
    return panels(drawing)


def panels(drawing, *, phone=False):
    """Matrix and graph, measurable."""
    figure = draw(drawing.layout, phone=phone)
    FigureCanvasAgg(figure)
    return figure.axes


def edges(graph, names):
    """From which device to which each line goes, by where it begins and ends."""
    positions = {text.get_text(): text.get_position() for text in graph.texts if text.get_text() in names}

    def device(point):
        # An arrow's head is between the end of its line and the device.
        near = [
            n
            for n, (x, y) in positions.items()
            if abs(point[1] - y) <= NODE_TALL / 2 and abs(point[0] - x) <= NODE / 2 + 0.1
        ]
        (found,) = near
        return found

    paths = [patch.get_path().vertices for patch in graph.patches if isinstance(patch, PathPatch)]
    return Counter((device(path[0]), device(path[-1])) for path in paths)


def test_every_rule_is_an_edge_from_its_trigger_to_its_action_and_so_is_one_recommendation(shown):
    _, graph = shown
    names = ("Camera 1", "Camera 2", "ContactSensor", "Light", "MotionSensor", "Thermostat")
    assert edges(graph, names) == {
        ("Camera 1", "Camera 1"): 1,
        ("Camera 1", "Camera 2"): 1,
        ("Camera 2", "Camera 1"): 1,
        ("ContactSensor", "Light"): 2,
        ("MotionSensor", "Light"): 2,  # the rule, and the recommendation
    }


def test_a_rule_has_the_number_of_its_row_and_twins_share_it(drawing, shown):
    matrix, graph = shown
    numbers = [text.get_text() for text in graph.texts if text.get_text().isdigit() or text.get_text() == "?"]
    # Both cameras notify the other one: the same item, so the same row.
    assert sorted(numbers) == ["1", "2", "2", "3", "4", "5", "?"]
    assert {"1", "2", "3", "4", "5"} <= {text.get_text() for text in matrix.texts}
    assert "Only the graph distinguishes the devices of type Camera." in drawing.about.caption


def test_the_matrix_marks_what_homes_have_and_asks_only_for_what_the_home_can_have(shown):
    matrix, _ = shown
    # 5 items of the home and 2 of the other one are filled; one more rectangle is behind the home's column.
    assert sum(isinstance(patch, Rectangle) for patch in matrix.patches) == 5 + 2 + 1
    texts = Counter(text.get_text() for text in matrix.texts)
    assert texts["?"] == 1
    assert texts["x"] == 1


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("which", ["twins", "made-up", "many"])
def test_no_text_touches_another_or_leaves_the_sheet(small, which, phone):
    many = tuple(HomeRule(DOOR, f"State {n} Of A Sensor", f"Action {n}", LIGHT) for n in range(15))
    homes = {"twins": home_with(), "made-up": small.example, "many": home_with(many)}
    drawing = example_home(Inputs(summaries=(replace(small, example=homes[which]),)))
    axes = panels(drawing, phone=phone)
    figure = axes[0].figure
    texts = [text for each in axes for text in each.texts] + list(figure.texts)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for name, box in boxes:
        assert figure.bbox.x0 <= box.x0, name
        assert box.x1 <= figure.bbox.x1, name
        assert figure.bbox.y0 <= box.y0, name
        assert box.y1 <= figure.bbox.y1, name
    # Boxes hold room for letters like g and Å: a pixel or two of it may be shared.
    touching = [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 2
    ]
    assert touching == []


def test_what_is_not_drawn_of_a_large_home_is_said(small):
    many = tuple(HomeRule(DOOR, f"State {n}", "Power On", LIGHT) for n in range(MAX_EDGES + 3))
    drawing = example_home(Inputs(summaries=(replace(small, example=home_with(many)),)))
    assert "3 of the home's 12 rules are not drawn in its graph." in drawing.about.notes


def test_smart_homes_go_before_recipes_and_more_homes_before_fewer(small):
    recipes = replace(small, data="ifttt-synthetic")
    larger = replace(small, options={"homes": 90}, devices_per_home={4: 90})
    drawing = example_home(Inputs(summaries=(recipes, small, larger)))
    assert drawing.about.sources == (f"data/{larger.file}",)
    assert example_home(Inputs(summaries=(recipes,))).about.sources == (f"data/{recipes.file}",)


def test_without_a_home_to_show_it_is_missing_with_a_command(small):
    for portraits in ((), (replace(small, example=None),)):
        with pytest.raises(Missing) as missing:
            example_home(Inputs(summaries=portraits))
        assert missing.value.command == "python -m reports.build"


def test_the_same_portrait_gives_the_same_bytes_also_when_it_was_read_from_disk(small, tmp_path):
    save_summary(small, tmp_path)
    drawings = [example_home(inputs) for inputs in (Inputs(summaries=(small,)), Inputs.read(tmp_path))]
    first, second = (render(draw(drawing.layout), ".svg") for drawing in drawings)
    assert first == second
    assert drawings[0].about == drawings[1].about
