"""The leaderboards in README.md, short and with a figure; docs/report/ has all methods, and all formulations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.results.formulations import PROBE, families, federated_method, formulation_of
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports import boards
from reports.boards import (
    PAPER_METHODS,
    SPREAD,
    UNDERLINED,
    MainList,
    Row,
    boards_note,
    main_lists,
    seeds_of,
    with_rows,
)
from reports.inputs import OVERVIEW, PLACES, Inputs
from reports.outputs import MAKE_DOCS, RUN, About, Cell, Drawing, Missing, Table, chosen_outputs, run_files
from reports.tables.results import twin_notes
from reports.text.formats import MARKDOWN, NONE, as_markdown, interval_cell, number_cell
from reports.text.summary import brackets

LEADERBOARD = "leaderboard"  # name of the block
FOLDER = "docs/report"
FIGURE, OUTPUT = "leaderboard.svg", "leaderboard-intervals"  # file and output
FULL_TABLE = "leaderboard.md"
FORMULATIONS, SECTION = "formulations.md", "Formulations and where they are trained"  # file, and section of the page
ALWAYS = (*PAPER_METHODS, "mf", "gcmc", "ease", "popularity")  # the paper's methods, and the simplest ones
MORE_METRICS = "Sd over seeds: of single runs. NDCG@10: all hidden rules of a home, mean over homes."


@dataclass(frozen=True, slots=True)
class Made:
    """Text or a file, and the files of the results that it is made from."""

    content: bytes
    sources: tuple[str, ...]


def leaderboard(inputs: Inputs) -> tuple[Made, dict[str, Made]]:
    """The block of README.md, and the files in FOLDER that it shows or links to."""
    found, refused = main_lists(inputs, OVERVIEW)
    if not found:
        reason = " ".join(refused) or "no finished run"
        raise DataError(f"README.md: no leaderboard to show ({reason}). To get one: {RUN}")
    from reports.drawing.layout import draw, render

    drawing = _drawing(inputs)
    runs = _runs(found)
    tables = _section_tables(inputs)
    block = _block(found, runs, drawing.about.caption, formulations=bool(tables))
    every, _ = main_lists(inputs, PLACES)
    files = {
        FIGURE: Made(render(draw(drawing.layout), ".svg"), drawing.about.sources),
        FULL_TABLE: Made(_full_tables(every or found).encode(), run_files(_runs(every or found))),
    }
    if tables:
        sources = tuple(sorted({file for _, table in tables for file in table.about.sources}))
        files[FORMULATIONS] = Made(_formulations(tables).encode(), sources)
    return Made(block.encode(), run_files(runs)), files


def _block(found: Sequence[MainList], runs: Sequence[Result], caption: str, *, formulations: bool) -> str:
    """The best methods and the paper's, side by side on all leaderboards, and the figure."""
    table = as_markdown(_short_table(found, _chosen(found))).rstrip()
    alt = " ".join(caption.replace("[", "(").replace("]", ")").split())  # brackets would end it
    picture = f"![{alt}]({FOLDER}/{FIGURE})"
    pages = {"All methods and metrics": FULL_TABLE}
    pages |= {"central beside federated": FORMULATIONS} if formulations else {}
    links = "; ".join(f"{what}: [{FOLDER}/{file}]({FOLDER}/{file})" for what, file in pages.items())
    more = f"{links}. {_how(found, runs)}"
    return "\n" + "\n\n".join(filter(None, [table, _status(found, _chosen(found)), picture, more])) + "\n"


def _status(found: Sequence[MainList], labels: Collection[str]) -> str:
    """What the sign means in these rows; empty where none has it."""
    return boards_note(with_rows(each.ranking.board, list(labels)) for each in found).translate(MARKDOWN)


def _how(found: Sequence[MainList], runs: Sequence[Result]) -> str:
    newest = max(run.written for run in runs)[:10] or "no date"
    seeds = {each.data: seeds_of(each.ranking.board) for each in found}
    same = len(set(seeds.values())) == 1
    lists = f"{seeds[found[0].data]} each" if same else "; ".join(f"{data}: {many}" for data, many in seeds.items())
    return (
        f"Made by `{MAKE_DOCS}` from {len(runs)} runs, the newest of {newest} ({lists}). {brackets(found)} "
        f"{boards.HEADLINE_NOTE} Bold: the best; {UNDERLINED}."
    )


def _chosen(found: Sequence[MainList]) -> set[str]:
    """The best of each leaderboard, the best of each family on the first, and the paper's methods and simple ones."""
    chosen = {row.label for each in found for row in each.rows if row.label in ALWAYS}
    best = [found[0].first(*methods) for family, methods in families().items() if family != PROBE]
    return chosen | {row.label for row in best if row} | {each.rows[0].label for each in found}


def _short_table(found: Sequence[MainList], labels: Collection[str]) -> Table:
    """A row per label, in the order of the first leaderboard; a column per leaderboard."""
    rows = {row.label: row.method for each in found for row in each.rows if row.label in labels}
    cells = {label: [Cell(label), Cell(_formulation(method))] for label, method in rows.items()}
    for each in found:
        present = {row.label: row for row in each.rows}
        for label, row in cells.items():
            row.append(_value_cell(present.get(label), leads=label == each.rows[0].label))
    columns = ("method", "formulation", *(f"{each.data}: {each.metric}" for each in found))
    return Table(columns, tuple(map(tuple, cells.values())), About("", (), MAKE_DOCS))


def _formulation(method: str) -> str:
    """The family of its formulation, and whether it is federated."""
    known = formulation_of(method)
    family = known.family if known else NONE
    return f"{family}, federated" if federated_method(method) else family


def _full_tables(found: Sequence[MainList]) -> str:
    """All methods of each leaderboard, with more of their metrics."""
    parts = ["# Leaderboards", f"{_how(found, _runs(found))} {MORE_METRICS}"]
    for each in found:
        rows = tuple(_row(row, leads=row is each.rows[0]) for row in each.rows)
        columns = ("method", each.metric, SPREAD, "HR@10", "NDCG@10")
        table = as_markdown(Table(columns, rows, About("", (), MAKE_DOCS))).rstrip()
        notes = [_status([each], {row.label for row in each.rows}), " ".join(twin_notes([each.ranking]))]
        parts += [f"## {each.data}", table, *filter(None, notes)]
    return "\n\n".join(parts) + "\n"


def _row(row: Row, *, leads: bool) -> tuple[Cell, ...]:
    hits, gain = (number_cell(value, 3, sign=row.sign) for value in (row.hits, row.gain))
    return Cell(row.label), _value_cell(row, leads=leads), number_cell(row.spread, 3), hits, gain


def _value_cell(row: Row | None, *, leads: bool) -> Cell:
    if row is None:
        return Cell(NONE, "")
    style = {"strong": leads, "underlined": row.tied}
    return interval_cell(row.value, row.low, row.high, 3, **style, sign=row.sign)


def _runs(found: Sequence[MainList]) -> list[Result]:
    return [run for each in found for _, run in each.ranking.board.runs]


def _section_tables(inputs: Inputs) -> list[tuple[str, Table]]:
    """Title and content of each table of formulations that can be made from these results."""
    found = []
    for output in chosen_outputs(()):
        if output.section == SECTION and output.kind == "table":
            with suppress(Missing):
                content = output.make(inputs)
                assert isinstance(content, Table)
                found.append((output.title, content))
    return found


def _formulations(tables: Sequence[tuple[str, Table]]) -> str:
    """The tables below each other, each with its caption and the notes that no table above it has."""
    parts, noted = [f"# {SECTION}\n\nMade by `{MAKE_DOCS}`."], set[str]()
    for title, table in tables:
        notes = [note for note in table.about.notes if note not in noted]
        noted.update(notes)
        text = "\n\n".join((table.about.caption, *notes))
        parts.append(f"## {title}\n\n{text}\n\n{as_markdown(table).rstrip()}")
    return "\n\n".join(parts) + "\n"


def _drawing(inputs: Inputs) -> Drawing:
    try:
        content = chosen_outputs([OUTPUT])[0].make(inputs)
    except Missing as missing:
        raise DataError(f"README.md shows {OUTPUT}: {missing.what}. To get it: {missing.command}") from missing
    assert isinstance(content, Drawing)
    return content
