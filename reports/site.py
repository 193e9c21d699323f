"""The whole report as files in memory: figures and tables in every format, the manifest and the page.

A pure function of the material, so the same results give the same bytes; `reports.build` writes them or compares them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.results.store import Result
from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress
from reports.boards import main_lists
from reports.drawing.layout import METADATA, draw, render
from reports.inputs import Inputs
from reports.output_types import BUILD, About, Drawing, Missing, Table
from reports.outputs import BuiltOutput, Output
from reports.text.formats import FORMATS, as_html
from reports.text.phrases import join_names
from reports.text.summary import summary

# --- The report as one page that needs nothing else: figures are inside, and it opens from disk without a network.
#
# Everything can be read without JavaScript; with it, tables can be sorted and filtered. What the page says of time,
# commits and versions is what the runs say of themselves, so that the same results give the same bytes.

FIRST = "leaderboard"  # the output that stands right below the summary
NARROW = "-phone.svg"
PIXELS = 96 / 72  # of a point, in which SVG files say their size


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure inside the page, for one width of the window."""

    address: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class PageEntry:
    """An output as the page shows it."""

    name: str
    title: str
    about: About
    downloads: tuple[tuple[str, str], ...]  # what it is called, and the path beside the page
    runs: int
    records: int  # other files that it is made of
    wide: Picture | None = None
    narrow: Picture | None = None
    table: str = ""  # HTML


@dataclass(frozen=True, slots=True)
class Section:
    """Outputs under one heading."""

    title: str
    anchor: str
    outputs: list[PageEntry] = field(default_factory=list)


def page(inputs: Inputs, everything: Sequence[BuiltOutput]) -> bytes:
    """The page of what could be made; it says what could not and why."""
    shown = {each.output.name: _shown(each) for each in everything if not isinstance(each.content, Missing)}
    sections: dict[str, Section] = {}
    for each in everything:
        if each.output.name in shown and each.output.name != FIRST:
            title = each.output.section
            section = sections.setdefault(title, Section(title, f"section-{_anchor(title)}"))
            section.outputs.append(shown[each.output.name])
    missing = [(each.output, each.content) for each in everything if isinstance(each.content, Missing)]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("page.html").render(
        points=summary(*main_lists(inputs)),
        first=shown.get(FIRST),
        sections=list(sections.values()),
        missing=missing,
        failed=[(run.key, _last_line(run.error)) for run in inputs.failed],
        unreadable=inputs.unreadable,
        scope=_scope(inputs.runs),
        circumstances=_circumstances(inputs.runs),
    )
    return text.encode()


def _shown(made: BuiltOutput) -> PageEntry:
    content = made.content
    if isinstance(content, Missing):
        raise ValueError(f"{made.output.name} was not made")
    sources = content.about.sources
    runs = sum("/" not in source for source in sources)
    common = made.output.name, made.output.title, content.about, _downloads(made.files), runs, len(sources) - runs
    if isinstance(content, Table):
        return PageEntry(*common, table=as_html(content))
    return PageEntry(*common, wide=_picture(made.files, wide=True), narrow=_picture(made.files, wide=False))


def _downloads(files: Mapping[str, bytes]) -> tuple[tuple[str, str], ...]:
    """What kind of file each is; the phone's variant is told apart."""
    return tuple(("svg (phone)" if path.endswith(NARROW) else path.rpartition(".")[2], path) for path in files)


def _picture(files: Mapping[str, bytes], *, wide: bool) -> Picture | None:
    """The SVG file of this layout as an address that holds it; None where it is not there."""
    found = next((svg for path, svg in files.items() if path.endswith(".svg") and path.endswith(NARROW) != wide), None)
    if found is None:
        return None
    width, height = (
        round(float(size[1]) * PIXELS)
        if (size := re.search(rf'<svg [^>]*\b{side}="([\d.]+)pt"', found.decode()))
        else 0
        for side in ("width", "height")
    )
    return Picture("data:image/svg+xml;base64," + base64.b64encode(_without_frills(found)).decode(), width, height)


def _without_frills(svg: bytes) -> bytes:
    """The same picture in fewer bytes: what programs say about themselves goes, and line breaks become spaces."""
    text = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", "", svg.decode(), flags=re.DOTALL)
    return re.sub(r"> <", "><", re.sub(r"\s+", " ", text)).strip().encode()


def _scope(runs: Sequence[Result]) -> str:
    """How much was run, in a sentence."""
    methods, data = ({getattr(run.key, what) for run in runs} for what in ("method", "data"))
    if not runs:
        return "No run has finished."
    return f"{_many(len(runs), 'run')} of {_many(len(methods), 'method')} on {join_names(sorted(data))}."


def _circumstances(runs: Sequence[Result]) -> list[tuple[str, str]]:
    """When, by which code and with which packages the runs were made, each value once."""
    dates = sorted({run.written for run in runs if run.written})
    commits = sorted({run.commit[:10] or "unknown" for run in runs})
    versions: dict[str, set[str]] = {}
    for run in runs:
        for package, version in run.versions.items():
            versions.setdefault(package, set()).add(version)
    said = [("oldest run", dates[0]), ("newest run", dates[-1])] if dates else []
    said += [("commit", ", ".join(commits))] if commits else []
    return said + [(package, ", ".join(sorted(found))) for package, found in sorted(versions.items())]


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _last_line(error: str) -> str:
    return ([line.strip() for line in error.splitlines() if line.strip()] or ["no message"])[-1]


log = logging.getLogger(__name__)

FIGURES, TABLES = "figures", "tables"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """All files by path, and what is not among them."""

    files: dict[str, bytes]
    missing: dict[str, Missing]  # by output
    refused: bool  # some runs must not be put together


def site(outputs: Sequence[Output], inputs: Inputs, *, whole: bool = True, quiet: bool = True) -> Site:
    """The files of these outputs; with `whole` the manifest and the page as well."""
    with progress(len(outputs), "output", quiet=quiet) as bar:
        everything = [_made(output, inputs, bar) for output in outputs]
    files = {path: content for each in everything for path, content in each.files.items()}
    if whole:
        files |= {"manifest.json": _manifest(everything), "index.html": page(inputs, everything)}
    missing = {each.output.name: each.content for each in everything if isinstance(each.content, Missing)}
    return Site(files, missing, any(each.refused for each in everything))


def _made(output: Output, inputs: Inputs, bar: Progress) -> BuiltOutput:
    bar.note(output.name)
    try:
        content = output.make(inputs)
        return BuiltOutput(output, content, _files(output.name, content))
    except Missing as missing:
        return BuiltOutput(output, missing, {})
    except DataError as error:  # results of different data
        return BuiltOutput(output, Missing(str(error), f"{BUILD} --results DIR"), {}, refused=True)
    except (LookupError, ArithmeticError, ValueError) as error:  # results of a kind that nobody has thought of
        log.exception("%s", output.name)
        return BuiltOutput(
            output, Missing(f"these results break it ({error!r})", f"{BUILD} --results DIR"), {}, refused=True
        )
    finally:
        bar.step()


def _manifest(everything: Sequence[BuiltOutput]) -> bytes:
    """What each output is made of, and the digest of each of its files."""
    listed = {
        each.output.name: {"missing": each.content.what, "command": each.content.command}
        if isinstance(each.content, Missing)
        else {
            "sources": list(each.content.about.sources),
            "command": each.content.about.command,
            "files": {path: hashlib.sha256(content).hexdigest()[:16] for path, content in each.files.items()},
        }
        for each in everything
    }
    return (json.dumps(listed, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _files(name: str, content: Drawing | Table) -> dict[str, bytes]:
    if isinstance(content, Table):
        return {f"{TABLES}/{name}{suffix}": form(content).encode() for suffix, form in FORMATS.items()}
    wide = draw(content.layout)
    files = {f"{FIGURES}/{name}{suffix}": render(wide, suffix) for suffix in METADATA}
    return files | {f"{FIGURES}/{name}{NARROW}": render(draw(content.layout, phone=True), ".svg")}
