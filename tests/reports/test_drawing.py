"""Files of figures: short, with nothing lost; names of points that cover neither each other nor other points."""

from __future__ import annotations

import io
import re
from functools import partial
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from reports.drawing.layout import Block, Label, Layout, Panel, add_labels, draw, render

HREF = "{http://www.w3.org/1999/xlink}href"


def panel(axes, *, points=()):
    axes.plot([0.123456789, 1.0], [0.0, 1.0], color="#D55E00", marker="o")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="homes")
    add_labels(axes, [Label(f"method-{number}", x, y) for number, (x, y) in enumerate(points)])


def figure(*points, title="A title"):
    return draw(Layout((Block("A heading", (Panel(partial(panel, points=points), title),)),), columns=1))


@pytest.fixture(scope="module")
def svg():
    return render(figure((0.2, 0.2), (0.7, 0.5)), ".svg").decode()


def test_an_svg_file_is_whole_and_its_references_lead_somewhere(svg):
    elements = list(ElementTree.fromstring(svg).iter())
    ids = [element.get("id") for element in elements if element.get("id")]
    references = {element.get(HREF, "")[1:] for element in elements if element.get(HREF)}
    references |= {match for element in elements for match in re.findall(r"url\(#(\w+)\)", str(element.attrib))}
    assert len(ids) == len(set(ids))
    assert references == set(ids)  # and none that nobody refers to


def test_an_svg_file_has_no_metadata_and_coordinates_to_a_hundredth(svg):
    assert "<metadata>" not in svg
    assert "<g>" not in svg
    assert svg.count("<g ") == svg.count("</g>")
    shapes = re.findall(r' (?:d|x|y)="([^"]*)"', svg)
    assert not [shape for shape in shapes if re.search(r"\.\d{3}", shape)]


def test_letters_stay_where_they_were(svg):
    # Words are written letter by letter: each stands to the right of the one before.
    words = re.findall(
        r'<g transform="translate[^>]*>\s*(?:<defs>.*?</defs>\s*)?((?:<use [^>]*/>\s*)+)</g>', svg, re.DOTALL
    )
    moved = [[float(x) for x in re.findall(r' x="([\d.]+)"', word)] for word in words]
    assert any(len(places) > 3 for places in moved)
    assert all(places == sorted(places) for places in moved)


def test_a_png_file_has_a_palette_and_the_colours_of_the_figure():
    with Image.open(io.BytesIO(render(figure(), ".png"))) as image:
        assert image.mode == "P"
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert pixels.max() == 255
    assert np.abs(pixels - [0xD5, 0x5E, 0x00]).sum(axis=2).min() < 12


def test_crowded_names_cover_neither_each_other_nor_another_point():
    spots = [(0.5 + 0.02 * column, 0.5 + 0.03 * row) for column in range(3) for row in range(4)]
    drawn = figure(*spots)
    FigureCanvasAgg(drawn).draw()  # which places the names
    (axes,) = drawn.axes
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the line that leads there
    assert len(boxes) == 12
    for one, other in combinations(boxes, 2):
        wide, high = min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(wide, high) < 2


def test_a_title_that_is_too_long_for_its_panel_begins_further_left():
    drawn = figure(title="a very long title of a panel " * 3)
    FigureCanvasAgg(drawn)
    (axes,) = drawn.axes
    box = axes._left_title.get_window_extent()
    assert 0 <= box.x0 < axes.get_window_extent().x0
