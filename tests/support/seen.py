"""What readers see of tables and drawings."""

from __future__ import annotations

from matplotlib.colors import to_hex

from reports.drawing.layout import draw


def texts(table):
    """The rows as people read them."""
    return [[cell.text for cell in row] for row in table.rows]


def column(table, name):
    """The cells of a column."""
    return [row[table.columns.index(name)] for row in table.rows]


def panels(drawing):
    """The axes of a drawing, by title."""
    return {axes.get_title("left"): axes for axes in draw(drawing.layout).axes}


def dots(axes):
    """Where the single markers are, with their look."""
    return {
        (round(float(line.get_xdata()[0]), 6), round(float(line.get_ydata()[0]), 6)): (
            line.get_marker(),
            to_hex(line.get_color()),
        )
        for line in axes.lines
        if len(line.get_xdata()) == 1
    }


def inscriptions(axes):
    """What is written in a panel."""
    return [text.get_text() for text in axes.texts if text.get_text()]
