"""Numbers, names and failures as text; tables as CSV, Markdown, LaTeX and HTML.

An interval is one cell for people, "0.2826 [0.2643, 0.3016]", and three columns in CSV. LaTeX needs booktabs: long text
wraps, a wide table is shrunk to the text width, and one that is longer than a page becomes a longtable.
"""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from benchmarks.results.store import Result
from datasets.common.errors import counted
from reports.outputs import Cell, Table

SCIENTIFIC = 1e6  # numbers from here on have a power of ten: a loss that diverged may have hundreds of digits
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
MAX_FAILURES = 5  # that are named; the others are counted
NONE = "–"  # noqa: RUF001
LINKED = ("method", "central", "federated")  # columns whose cells are names of methods
WORDS = {"hidden": "hidden rule", "impossible": "not possible here"}  # marks, for readers without colours


def join_names(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def seed_count(counts: Iterable[int]) -> str:
    """How many seeds lines, points or rows are the mean of; empty where there are none."""
    found = sorted(counts)
    if not found:
        return ""
    return f"{found[0]} to {found[-1]} seeds" if found[0] < found[-1] else counted(found[-1], "seed")


def short_number(value: float, significant: int = 2) -> str:
    """With so many significant digits, and all of those before the decimal point: 0.012, 5, 99, 1,234."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value).replace("inf", "infinity")
    if abs(value) >= SCIENTIFIC:
        return f"{value:.{significant - 1}e}"
    if abs(value) >= 10**significant:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.{significant}g}'):,f}"  # which has no exponents: 99.9 is 100, and 0.00001 stays so


def round_number(value: float, significant: int = 3) -> str:
    """With so many significant digits, trailing zeros included: 0.300, 12.0."""
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else str(value).replace("inf", "infinity")
    if abs(value) < 0.5e-4:
        return "0"
    if abs(value) >= 10 ** (significant - 1):
        return f"{value:,.0f}"
    shown = f"{value:#.{significant}g}"
    return f"{value:.4f}" if "e" in shown or abs(value) < 1e-3 else shown


def in_bytes(value: float) -> str:
    """1.2 MB."""
    rounded = float(f"{value:.3g}")  # 999,960 bytes are 1 MB and not 1,000 kB
    unit, name = next((each for each in UNITS if rounded >= each[0]), UNITS[-1])
    return f"{short_number(value / unit, 3)} {name}"


def in_seconds(value: float) -> str:
    """90 s, 5 min, 3 h."""
    if value >= 2 * 3600:
        return f"{short_number(value / 3600, 3)} h"
    if value >= 2 * 60:
        return f"{short_number(value / 60, 3)} min"
    return f"{short_number(value, 3 if value >= 100 else 2)} s"


def failure_notes(failed: Sequence[Result]) -> tuple[str, ...]:
    """One note that names the failed runs and says why; none where nothing failed."""
    if not failed:
        return ()
    named = "; ".join(f"{run.key}: {run.failure}" for run in failed[:MAX_FAILURES])
    more = f"; and {len(failed) - MAX_FAILURES} more" if len(failed) > MAX_FAILURES else ""
    return (f"Failed runs, left out of the numbers: {named}{more}. `python -m benchmarks run` tries them again.",)


@dataclass(frozen=True, slots=True)
class Interval(Cell):
    """A number and the interval around it; NaN where there is none."""

    low: float = math.nan
    high: float = math.nan


def format_number(value: float, digits: int) -> str:
    """A number as people read it, short however large it is; a dash for NaN."""
    if not math.isfinite(value):
        return NONE if math.isnan(value) else str(value).replace("inf", "∞")
    return f"{value:,.{digits}f}" if abs(value) < SCIENTIFIC else f"{value:.2e}"


def number_cell(
    value: float, digits: int = 4, *, strong: bool = False, underlined: bool = False, sign: str = ""
) -> Cell:
    """A cell with a number and no interval; the sign is for people only."""
    return Cell(_signed(value, digits, sign), _value(value), strong, underlined)


def _signed(value: float, digits: int, sign: str) -> str:
    return format_number(value, digits) + ("" if math.isnan(value) else sign)


def count_cell(value: float) -> Cell:
    """A cell with a count."""
    return Cell(NONE, "") if math.isnan(value) else Cell(f"{value:,.0f}", int(value))


def seconds_cell(value: float) -> Cell:
    """A cell with a time, sorted by seconds."""
    return Cell(in_seconds(value), value) if math.isfinite(value) else Cell(NONE, "")


def bytes_cell(value: float) -> Cell:
    """A cell with an amount of memory or traffic, sorted by bytes."""
    return Cell(in_bytes(value), value) if math.isfinite(value) else Cell(NONE, "")


def interval_cell(
    value: float,
    low: float,
    high: float,
    digits: int = 4,
    *,
    strong: bool = False,
    underlined: bool = False,
    sign: str = "",
) -> Interval:
    """A cell with a number and its interval, where it has one; no interval around NaN. The sign is for people only."""
    if math.isnan(value):
        low = high = math.nan
    text = _signed(value, digits, sign)
    if not math.isnan(low) and not math.isnan(high):
        text += f" [{format_number(low, digits)}, {format_number(high, digits)}]"
    return Interval(text, _value(value), strong, underlined, low=low, high=high)


def cell_text(cell: Cell) -> str:
    """The text with the mark in words, for readers without colours."""
    return f"{cell.text} ({WORDS[cell.mark]})" if cell.mark in WORDS else cell.text


def numeric(table: Table) -> list[bool]:
    """Which columns are numbers, to be aligned right."""
    found = []
    for column in range(len(table.columns)):
        known = [row[column].value for row in table.rows if row[column].value != ""]
        found.append(bool(known) and all(isinstance(value, int | float) for value in known))
    return found


def _value(value: float) -> float | str:
    return "" if math.isnan(value) else value


SIGNS = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
SIGNS |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
SIGNS |= {"|": r"\textbar{}", '"': r"\textquotedbl{}", "\n": " ", "\r": " "}
SIGNS |= {"→": r"$\rightarrow$", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "λ": r"$\lambda$"}  # noqa: RUF001
SIGNS |= {"–": "--", "…": r"\dots{}", "✓": r"\checkmark{}", "†": r"$\dagger$", "∞": r"$\infty$"}  # noqa: RUF001
LONG = 40  # rows, about what a page holds
WIDE = 90  # letters in a row, about what a page holds
WRAPPED = 40  # letters; longer texts wrap
NEEDS = r"% needs \usepackage[T1]{fontenc} and \usepackage{amssymb,array,booktabs,graphicx,longtable}"


def as_latex(table: Table) -> str:
    """A `table`, or a `longtable` where it has more rows than a page; the first line says which packages it needs."""
    texts = [table.columns, *([cell_text(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    kinds = "".join(
        "r" if right else r">{\raggedright\arraybackslash}p{4.2cm}" if width > WRAPPED else "l"
        for width, right in zip(widths, numeric(table), strict=True)
    )
    wide = sum(min(width, WRAPPED) for width in widths) > WIDE
    caption = rf"\caption{{{latex_text(table.about.caption)}}}"
    head = _line([latex_text(name) for name in table.columns])
    body = [_line([_cell(cell) for cell in row]) for row in table.rows]
    lines = _long(kinds, caption, head, body, wide) if len(body) > LONG else _short(kinds, caption, head, body, wide)
    return "\n".join([NEEDS, *lines]) + "\n"


def latex_text(text: str) -> str:
    """With LaTeX's special characters escaped."""
    return "".join(SIGNS.get(letter, letter) for letter in text)


def _short(kinds: str, caption: str, head: str, body: list[str], wide: bool) -> list[str]:
    shrunk, end = ([r"\resizebox{\textwidth}{!}{%"], [r"\end{tabular}}"]) if wide else ([], [r"\end{tabular}"])
    begin = [r"\begin{table}", r"\centering", *shrunk, rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    return [*begin, head, r"\midrule", *body, r"\bottomrule", *end, caption, r"\end{table}"]


def _long(kinds: str, caption: str, head: str, body: list[str], wide: bool) -> list[str]:
    """The head is repeated on every page; a longtable cannot be shrunk, so a wide one has small type."""
    small = [r"\tiny", r"\setlength{\tabcolsep}{2pt}"] if wide else [r"\footnotesize"]
    begin = ["{" + small[0], *small[1:], rf"\begin{{longtable}}{{{kinds}}}", caption + r"\\", r"\toprule"]
    return [*begin, head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot", *body, r"\end{longtable}", "}"]


def _line(cells: list[str]) -> str:
    """A row; a bracket or star at its beginning would be read as an option of the line before it."""
    text = " & ".join(cells) + r" \\"
    return "{}" + text if text[:1] in ("[", "*", "(") else text


def _cell(cell: Cell) -> str:
    text = latex_text(cell_text(cell))
    text = rf"\underline{{{text}}}" if cell.underlined else text
    return rf"\textbf{{{text}}}" if cell.strong else text


MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "} | {sign: f"\\{sign}" for sign in "\\|*_`~$"}
)


def as_csv(table: Table) -> str:
    """Numbers unrounded; an interval is two more columns, marks are in words. All rows where the page sums them up."""
    table = table.details or table
    wide = [any(isinstance(row[c], Interval) for row in table.rows) for c in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lines: list[list[tuple[float | str, ...]]] = [[(name, f"{name} low", f"{name} high") for name in table.columns]]
    lines += [[_values(cell) for cell in row] for row in table.rows]
    for fields in lines:
        writer.writerow(
            [field for each, three in zip(fields, wide, strict=True) for field in each[: 3 if three else 1]]
        )
    return text.getvalue()


def as_markdown(table: Table) -> str:
    """The best in bold, its ties underlined."""
    lines = ["| " + " | ".join(name.translate(MARKDOWN) for name in table.columns) + " |"]
    lines.append("| " + " | ".join("---:" if right else "---" for right in numeric(table)) + " |")
    lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def as_html(table: Table, links: Mapping[str, str] | None = None) -> str:
    """A `<table>` without a page around it; `data-value` is what a cell is sorted by.

    `links` are the addresses of methods, to which their names in columns of methods lead.
    """
    kind = ' class="sortable"' if table.sortable else ""
    right = numeric(table)
    heads = zip(table.columns, map(_aligned, right), strict=True)
    head = "".join(f'<th scope="col"{aligned}>{html.escape(name)}</th>' for name, aligned in heads)
    linked = [links if links and name in LINKED else {} for name in table.columns]
    body = "\n".join("<tr>" + "".join(map(_html, row, right, linked)) + "</tr>" for row in table.rows)
    return f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"


FORMATS: dict[str, Callable[[Table], str]]
FORMATS = {".csv": as_csv, ".md": as_markdown, ".tex": as_latex, ".html": as_html}


def _values(cell: Cell) -> tuple[float | str, ...]:
    """What programs read: the value, and the ends of its interval where it has one."""
    value = cell_text(cell) if cell.value is None else cell.value
    return (value, _value(cell.low), _value(cell.high)) if isinstance(cell, Interval) else (value, "", "")


def _markdown(cell: Cell) -> str:
    text = cell_text(cell).translate(MARKDOWN)
    text = f"<u>{text}</u>" if cell.underlined and text else text
    return f"**{text}**" if cell.strong and text else text


def _html(cell: Cell, right: bool, links: Mapping[str, str]) -> str:
    text = html.escape(cell.text)
    if address := links.get(cell.text.partition(" (")[0]):  # a label is a method with its settings
        text = f'<a href="{html.escape(address)}">{text}</a>'
    text = f"<u>{text}</u>" if cell.underlined else text
    text = f"<strong>{text}</strong>" if cell.strong else text
    if cell.mark in WORDS:  # not by colour alone
        text += f' <span class="word">{WORDS[cell.mark]}</span>'
    value = "" if cell.value is None else f' data-value="{html.escape(_sort_value(cell.value))}"'
    return f"<td{_aligned(right, cell.mark)}{value}>{text}</td>"


def _sort_value(value: float | str) -> str:
    """As exact as the text of a cell ever is."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _aligned(right: bool, mark: str = "") -> str:
    classes = " ".join(name for name in ("number" if right else "", mark) if name)
    return f' class="{html.escape(classes)}"' if classes else ""
