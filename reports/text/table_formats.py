"""A table as CSV, Markdown, LaTeX and HTML: the same cells, told to each reader in its own way."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable

from reports.text.cells import WORDS, Interval, numeric, worded
from reports.text.latex import as_latex
from reports.output_types import Cell, Table

MARKDOWN = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "} | {sign: f"\\{sign}" for sign in "\\|*_`~$"}


def as_csv(table: Table) -> str:
    """Numbers as they are, unrounded; an interval is two columns more, and marks are in words."""
    wide = [any(isinstance(row[c], Interval) for row in table.rows) for c in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lines: list[list[tuple[float | str, ...]]] = [[_names(name) for name in table.columns]]
    lines += [[_values(cell) for cell in row] for row in table.rows]
    for fields in lines:
        writer.writerow(
            [field for each, three in zip(fields, wide, strict=True) for field in each[: 3 if three else 1]]
        )
    return text.getvalue()


def as_markdown(table: Table) -> str:
    """The best in bold, ties of it underlined."""
    lines = ["| " + " | ".join(map(_markdown_text, table.columns)) + " |"]
    lines.append("| " + " | ".join("---:" if right else "---" for right in numeric(table)) + " |")
    lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def as_html(table: Table) -> str:
    """A `<table>` without a page around it; what a cell is sorted by stands in `data-value`."""
    kind = ' class="sortable"' if table.sortable else ""
    right = numeric(table)
    head = "".join(
        f'<th scope="col"{_aligned(is_right)}>{html.escape(name)}</th>'
        for name, is_right in zip(table.columns, right, strict=True)
    )
    body = "\n".join("<tr>" + "".join(map(_html, row, right)) + "</tr>" for row in table.rows)
    return f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    ".csv": as_csv,
    ".md": as_markdown,
    ".tex": as_latex,
    ".html": as_html,
}


def _names(column: str) -> tuple[str, ...]:
    return column, f"{column} low", f"{column} high"


def _values(cell: Cell) -> tuple[float | str, ...]:
    """What programs read: the value, and the ends of its interval where it has one."""
    value = worded(cell) if cell.value is None else cell.value
    low, high = (cell.low, cell.high) if isinstance(cell, Interval) else ("", "")
    return value, "" if low != low else low, "" if high != high else high


def _markdown_text(text: str) -> str:
    return "".join(MARKDOWN.get(letter, letter) for letter in text)


def _markdown(cell: Cell) -> str:
    text = _markdown_text(worded(cell))
    text = f"<u>{text}</u>" if cell.underlined and text else text
    return f"**{text}**" if cell.strong and text else text


def _html(cell: Cell, right: bool) -> str:
    text = html.escape(cell.text)
    text = f"<u>{text}</u>" if cell.underlined else text
    text = f"<strong>{text}</strong>" if cell.strong else text
    if cell.mark in WORDS:  # not by colour alone
        text += f' <span class="word">{WORDS[cell.mark]}</span>'
    value = "" if cell.value is None else f' data-value="{html.escape(str(cell.value))}"'
    return f"<td{_aligned(right, cell.mark)}{value}>{text}</td>"


def _aligned(right: bool, mark: str = "") -> str:
    classes = " ".join(name for name in ("number" if right else "", mark) if name)
    return f' class="{html.escape(classes)}"' if classes else ""
