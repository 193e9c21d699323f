r"""A table as LaTeX with booktabs, as authors paste it.

Long texts wrap, a wide table is shrunk to the width of the text, and one that is longer than a page goes over several.
"""

from __future__ import annotations

from reports.text.cells import numeric, worded
from reports.output_types import Cell, Table

SIGNS = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
SIGNS |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"}
SIGNS |= {"|": r"\textbar{}", '"': r"\textquotedbl{}", "\n": " ", "\r": " "}
SIGNS |= {"→": r"$\rightarrow$", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "λ": r"$\lambda$"}  # noqa: RUF001
SIGNS |= {"–": "--", "…": r"\dots{}", "✓": r"\checkmark{}", "∞": r"$\infty$"}  # noqa: RUF001
LONG = 40  # rows, about what a page holds
WIDE = 90  # letters in a row, about what a page holds
WRAPPED = 40  # letters; longer texts wrap
NEEDS = r"% needs \usepackage[T1]{fontenc} and \usepackage{amssymb,array,booktabs,graphicx,longtable}"


def as_latex(table: Table) -> str:
    """A `table`, or a `longtable` where it has more rows than a page; the first line says what it needs."""
    widths = [
        max(len(name), *(len(worded(row[column])) for row in table.rows)) if table.rows else len(name)
        for column, name in enumerate(table.columns)
    ]
    kinds = "".join(_kind(width, right) for width, right in zip(widths, numeric(table), strict=True))
    wide = sum(min(width, WRAPPED) for width in widths) > WIDE
    caption = rf"\caption{{{latex_text(table.about.caption)}}}"
    head = _line([latex_text(name) for name in table.columns])
    body = [_line([_cell(cell) for cell in row]) for row in table.rows]
    lines = _long(kinds, caption, head, body, wide) if len(body) > LONG else _short(kinds, caption, head, body, wide)
    return "\n".join([NEEDS, *lines]) + "\n"


def latex_text(text: str) -> str:
    """With LaTeX's own signs written as text."""
    return "".join(SIGNS.get(letter, letter) for letter in text)


def _short(kinds: str, caption: str, head: str, body: list[str], wide: bool) -> list[str]:
    shrunk, end = ([r"\resizebox{\textwidth}{!}{%"], [r"\end{tabular}}"]) if wide else ([], [r"\end{tabular}"])
    begin = [r"\begin{table}", r"\centering", *shrunk, rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    return [*begin, head, r"\midrule", *body, r"\bottomrule", *end, caption, r"\end{table}"]


def _long(kinds: str, caption: str, head: str, body: list[str], wide: bool) -> list[str]:
    """Its head is repeated on every page; it cannot be shrunk, so a wide one has small letters."""
    small = [r"\tiny", r"\setlength{\tabcolsep}{2pt}"] if wide else [r"\footnotesize"]
    begin = ["{" + small[0], *small[1:], rf"\begin{{longtable}}{{{kinds}}}", caption + r"\\", r"\toprule"]
    return [*begin, head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot", *body, r"\end{longtable}", "}"]


def _kind(width: int, right: bool) -> str:
    if right:
        return "r"
    return r">{\raggedright\arraybackslash}p{4.2cm}" if width > WRAPPED else "l"


def _line(cells: list[str]) -> str:
    """A row. What begins with a bracket or a star would be an option of the line before it."""
    text = " & ".join(cells) + r" \\"
    return "{}" + text if text[:1] in ("[", "*", "(") else text


def _cell(cell: Cell) -> str:
    text = latex_text(worded(cell))
    text = rf"\underline{{{text}}}" if cell.underlined else text
    return rf"\textbf{{{text}}}" if cell.strong else text
