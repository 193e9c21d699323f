"""What the README shows of the results: the leaderboard and two figures, with a manifest that tells edits by hand.

Numbers are aggregates over homes. `python -m reports.build --no-run --only readme` writes them, with `--check` it
compares.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports.boards import TIE_TEST, MainList, Row, main_lists, seeds_of
from reports.drawing.layout import draw, render
from reports.inputs import Inputs
from reports.output_types import RUN, About, Cell, Drawing, Missing, Table, run_files
from reports.outputs import chosen_outputs
from reports.text.formats import NONE, as_markdown, number_cell
from reports.text.summary import BRACKETS

README = "readme"
COMMAND = "python -m reports.build --no-run --only readme"
BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
FOLDER = "docs/report"
FIGURES = {"leaderboard.svg": "leaderboard-intervals", "hit-rate.svg": "hit-rate"}  # file -> output


def readme_files(inputs: Inputs, root: Path) -> dict[Path, bytes]:
    """The README with its part renewed, the figures that it shows and their manifest."""
    found, refused = main_lists(inputs)
    if not found:
        reason = " ".join(refused) or "no finished run"
        raise DataError(f"README.md: there is no list to show ({reason}). To get one: {RUN}")
    drawn = {file: _drawn(name, inputs) for file, name in FIGURES.items()}
    runs = [run for each in found for _, run in each.board.runs]
    part = _part(found, runs, {file: drawing.about.caption for file, drawing in drawn.items()})
    figures = {file: render(draw(drawing.layout), ".svg") for file, drawing in drawn.items()}
    manifest = {
        "README.md": {"sources": list(run_files(runs)), "digest": digest(part.encode())},
        **{
            f"{FOLDER}/{file}": {"sources": list(drawn[file].about.sources), "digest": digest(content)}
            for file, content in figures.items()
        },
    }
    text = json.dumps({"command": COMMAND, "files": manifest}, indent=1, sort_keys=True) + "\n"
    return {
        root / "README.md": _with_part(root / "README.md", part).encode(),
        **{root / FOLDER / file: content for file, content in figures.items()},
        root / FOLDER / "manifest.json": text.encode(),
    }


def part_of(text: str, place: Path | str = "README.md") -> str:
    """What stands between the markers."""
    begin, end = text.find(BEGIN), text.find(END)
    if not 0 <= begin < end or text.count(BEGIN) > 1 or text.count(END) > 1:
        raise DataError(f"{place}: the leaderboard goes between the lines {BEGIN} and {END}; put both in, once")
    return text[begin + len(BEGIN) : end]


def digest(content: bytes) -> str:
    """The same for the same bytes, and short."""
    return hashlib.sha256(content).hexdigest()[:16]


def _with_part(path: Path, part: str) -> str:
    text = path.read_text("utf-8")
    return text.replace(f"{BEGIN}{part_of(text, path)}{END}", f"{BEGIN}{part}{END}")


def _part(found: Sequence[MainList], runs: Sequence[Result], captions: dict[str, str]) -> str:
    """All lists side by side, then the figures."""
    newest = max(run.written for run in runs)[:10] or "no date"
    pictures = [f"![{_plain(caption)}]({FOLDER}/{file})" for file, caption in captions.items()]
    lists = "; ".join(f"{each.data}: {seeds_of(each.board)}" for each in found)
    how = (
        f"Made by `{COMMAND}` from {len(runs)} runs, the newest of {newest} ({lists}). {BRACKETS} Bold leads its list; "
        f"underlined: cannot be told apart from that ({TIE_TEST})."
    )
    return "\n" + "\n\n".join([how, as_markdown(_table(found)).rstrip(), *pictures]) + "\n"


def _table(found: Sequence[MainList]) -> Table:
    """A row per method, as the first list has them; two columns per list."""
    rows = {label: [Cell(label)] for each in found for label in (row.label for row in each.rows)}
    columns = ["method"]
    for each in found:
        columns += [f"{each.data}: {each.metric}", "HR@10"]
        there = {row.label: row for row in each.rows}
        for label, cells in rows.items():
            cells += _cells(there.get(label), there[label] is each.rows[0] if label in there else False)
    return Table(tuple(columns), tuple(map(tuple, rows.values())), About("", (), COMMAND))


def _cells(row: Row | None, leads: bool) -> tuple[Cell, Cell]:
    if row is None:
        return Cell(NONE, ""), Cell(NONE, "")
    text = f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]"
    return Cell(text, row.value, strong=leads, underlined=row.group == 1 and not leads), number_cell(row.hits, 3)


def _drawn(name: str, inputs: Inputs) -> Drawing:
    (output,) = chosen_outputs([name])
    try:
        content = output.make(inputs)
    except Missing as missing:
        raise DataError(f"README.md shows {name}: {missing.what}. To get it: {missing.command}") from missing
    if not isinstance(content, Drawing):
        raise TypeError(f"{name} is no figure")
    return content


def _plain(text: str) -> str:
    """Without what ends the text beside a picture in Markdown."""
    return " ".join(text.replace("[", "(").replace("]", ")").split())
