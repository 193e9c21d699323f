"""Tables in every format: numbers stay numbers, names with signs of the format stay names."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest

from reports.outputs import About, Cell, Table
from reports.text.formats import (
    FORMATS,
    LONG,
    NONE,
    Interval,
    as_csv,
    as_html,
    as_latex,
    as_markdown,
    count_cell,
    interval_cell,
    latex_text,
    number_cell,
)

ABOUT = About("Best: a_b, 50 % of it.", ("x.json",), "python -m reports.build")
NASTY = r"a|b_c*d`e~f$g%h&i#j{k}l^m<n>o\p" + '"q\nr'


def table(*rows, columns=("method", "MRR"), **options):
    """A table of these rows."""
    return Table(columns, tuple(rows), ABOUT, **options)


def read(text):
    """CSV as programs read it."""
    return list(csv.reader(io.StringIO(text)))


def test_csv_has_numbers_unrounded_and_texts_as_they_are():
    shown = table((Cell(NASTY), number_cell(1 / 3)), (Cell("b"), number_cell(math.nan)))
    assert read(as_csv(shown)) == [["method", "MRR"], [NASTY, repr(1 / 3)], ["b", ""]]


def test_csv_has_the_ends_of_an_interval_as_columns_of_their_own():
    shown = table((Cell("a"), interval_cell(0.25, 0.125, 0.5)), (Cell("b"), number_cell(1.0)))
    assert read(as_csv(shown)) == [
        ["method", "MRR", "MRR low", "MRR high"],
        ["a", "0.25", "0.125", "0.5"],
        ["b", "1.0", "", ""],
    ]


def test_csv_says_marks_in_words():
    shown = table((Cell("rule", mark="hidden"), Cell("other", mark="impossible")))
    assert read(as_csv(shown))[1] == ["rule (hidden rule)", "other (not possible here)"]


def test_a_row_of_markdown_has_as_many_cells_as_columns_whatever_the_names_are():
    lines = as_markdown(table((Cell(NASTY), number_cell(0.5)), columns=("a|b", "MRR"))).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3  # two cells have three bars
    assert lines[0].startswith(r"| a\|b |")
    assert r"a\|b\_c\*d\`e\~f\$g%h&amp;i#j{k}l^m&lt;n&gt;o\\p" in lines[2]


def test_the_best_is_bold_and_what_ties_with_it_underlined():
    shown = table((Cell("a"), number_cell(0.5, strong=True)), (Cell("b"), number_cell(0.4, underlined=True)))
    assert "| **0.5000** |" in as_markdown(shown)
    assert "| <u>0.4000</u> |" in as_markdown(shown)
    assert r"\textbf{0.5000}" in as_latex(shown)
    assert r"\underline{0.4000}" in as_latex(shown)
    assert "<strong>0.5000</strong>" in as_html(shown)
    assert "<u>0.4000</u>" in as_html(shown)


def test_numbers_stand_to_the_right_even_where_one_is_missing():
    shown = table((Cell("a"), number_cell(0.5)), (Cell("b"), number_cell(math.nan)))
    assert as_markdown(shown).splitlines()[1] == "| --- | ---: |"
    assert r"\begin{tabular}{lr}" in as_latex(shown)
    assert '<td class="number" data-value="0.5">0.5000</td>' in as_html(shown)


# What LaTeX reads as a command or as a sign of its own, by itself: nothing of a name may be left as such.
UNSAFE = re.compile(r"(?<!\\)[&%$#_{}^~<>|\"\n]")


def test_names_are_text_in_latex():
    render = latex_text(NASTY)
    for command in re.findall(r"\\text[a-z]+\{\}", render):
        render = render.replace(command, "")
    assert not UNSAFE.search(render)
    assert re.sub(r"\\([&%$#_{}])", r"\1", render) == "ab_c*d`ef$g%h&i#j{k}lmnopq r"


def test_a_latex_row_is_one_line_with_a_separator_between_cells():
    lines = as_latex(table((Cell(NASTY), number_cell(0.5)))).splitlines()
    (row,) = [line for line in lines if line.startswith("a") and line.endswith(r" \\")]
    assert len(re.findall(r"(?<!\\)&", row)) == 1


def test_latex_does_not_take_a_bracket_at_the_beginning_of_a_row_for_an_option():
    lines = as_latex(table((Cell("[0.1, 0.2]"), Cell("x")), (Cell("*"), Cell("y")))).splitlines()
    assert r"{}[0.1, 0.2] & x \\" in lines
    assert r"{}* & y \\" in lines


def test_every_group_and_environment_of_latex_is_closed():
    for rows in (1, LONG, LONG + 1):
        for name in ("short", "a name of so many letters that it has to be wrapped " * 3):
            shown = table(*[(Cell(name), Cell(name), number_cell(0.5))] * rows, columns=("a", "b", "c"))
            text = re.sub(r"\\[{}]", "", as_latex(shown))
            assert text.count("{") == text.count("}")
            begun, ended = re.findall(r"\\begin\{(\w+)\}", text), re.findall(r"\\end\{(\w+)\}", text)
            assert begun == ended[::-1]
            assert ("longtable" in begun) == (rows > LONG)
            assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]


def test_a_wide_table_is_shrunk_and_a_narrow_one_is_not():
    wide = table(*[tuple(Cell("x" * 30) for _ in range(4))], columns=("a", "b", "c", "d"))
    assert r"\resizebox{\textwidth}" in as_latex(wide)
    assert r"\resizebox" not in as_latex(table((Cell("a"), number_cell(0.5))))


def test_html_escapes_names_and_says_marks_in_words():
    text = as_html(table((Cell("<b>&", mark="impossible"), Cell('"', '"')), sortable=True))
    assert '<table class="sortable">' in text
    assert '<td class="impossible">&lt;b&gt;&amp; <span class="word">not possible here</span></td>' in text
    assert '<td data-value="&quot;">&quot;</td>' in text


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_without_rows_is_a_table(suffix):
    assert "MRR" in FORMATS[suffix](table())


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, NONE), (math.inf, "∞"), (-math.inf, "-∞"), (1234.5, "1,234.50"), (1e300, "1.00e+300")],
)
def test_any_number_is_short(value, text):
    assert number_cell(value, 2).text == text


def test_an_interval_without_ends_is_a_number():
    assert interval_cell(0.5, math.nan, math.nan, 2) == Interval("0.50", 0.5, low=math.nan, high=math.nan)
    assert interval_cell(0.5, 0.25, 0.75, 2).text == "0.50 [0.25, 0.75]"
    assert count_cell(math.nan).value == ""
    assert count_cell(1234.0) == Cell("1,234", 1234)


def test_names_of_methods_lead_to_their_pages_in_columns_of_methods_only():
    shown = table((Cell("mf (factors=64)"), Cell("mf")), (Cell("other"), Cell("1")))
    text = as_html(shown, {"mf": "methods/mf.html"})
    assert '<td><a href="methods/mf.html">mf (factors=64)</a></td><td>mf</td>' in text
    assert "<td>other</td>" in text
    assert "<a " not in as_html(shown)
