"""The report as files in memory: figures and tables in every format, the manifest, a page and one for each method.

A pure function of the inputs: the same results give the same bytes. The page opens from disk and needs no network, only
the figures beside it; without JavaScript only sorting and filtering of tables is lost. Dates, commits and versions are
those of the runs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.results.store import Result
from datasets.common.errors import DataError, counted
from datasets.common.progress import Progress, progress
from reports.boards import main_lists
from reports.findings.questions import HOW_TO_READ, Answer, findings
from reports.inputs import Inputs
from reports.methods import by_formulation, method_pages, page_paths
from reports.outputs import BUILD, Drawing, Missing, Output, Table
from reports.tables.lists import shown_lists
from reports.tables.settings import short_commit
from reports.text.formats import FORMATS, as_html, join_names
from reports.text.summary import summary

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

log = logging.getLogger(__name__)

FIRST = "leaderboard"  # the output above all sections
PHONE = "-phone.svg"
PIXELS = 96 / 72  # per point; the size in SVG files is in points


@dataclass(frozen=True, slots=True, eq=False)
class BuiltOutput:
    """An output and its files; `refused` where its runs cannot be combined."""

    output: Output
    content: Drawing | Table | Missing
    files: dict[str, bytes]  # by path below the page's folder
    refused: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """All files by path, and which outputs are missing."""

    files: dict[str, bytes]
    missing: dict[str, Missing]  # by output
    refused: bool  # some runs cannot be combined


class Picture(NamedTuple):
    """A figure on the page, for one width of the window."""

    address: str
    width: int
    height: int


def site(outputs: Sequence[Output], inputs: Inputs, *, page: bool = True, quiet: bool = True) -> Site:
    """The files of these outputs, with the manifest and the page unless `page` is False."""
    with progress(len(outputs), "output", quiet=quiet) as bar:
        built = [_build(output, inputs, bar) for output in outputs]
    files = {path: content for each in built for path, content in each.files.items()}
    if page:
        files |= {"manifest.json": _manifest(built), "index.html": render_page(inputs, built)}
        files |= render_method_pages(inputs)
    missing = {each.output.name: each.content for each in built if isinstance(each.content, Missing)}
    return Site(files, missing, any(each.refused for each in built))


def render_page(inputs: Inputs, built: Sequence[BuiltOutput]) -> bytes:
    """The page of the outputs that could be made; it lists the missing ones and why."""
    links = page_paths(inputs)
    made = [(each.output, each.content, each.files) for each in built if not isinstance(each.content, Missing)]
    shown = {output.name: _entry(output, content, files, links) for output, content, files in made}
    sections: dict[str, list[dict[str, object]]] = {}
    for output, _, _ in made:
        if output.name != FIRST:
            sections.setdefault(output.section, []).append(shown[output.name])
    answers = findings(inputs)
    few = 2 * sum(answer.known for answer in answers) < len(answers)  # as with a small suite of one's own
    text = _template("page.html").render(
        answers=[(answer, _details(answer)) for answer in answers],
        how_to_read=HOW_TO_READ,
        points=summary(*main_lists(inputs)) if few else [],
        citation=_citation(),
        lists=_lists(inputs, links),
        first=shown.get(FIRST),
        sections=[(title, "section-" + re.sub(r"\W+", "-", title.lower()), found) for title, found in sections.items()],
        methods=[
            (formulation, [(method, links[method], federated) for method, federated in found])
            for formulation, found in by_formulation(list(links))
        ],
        missing=[(each.output, each.content) for each in built if isinstance(each.content, Missing)],
        failed=[(run.key, run.failure) for run in inputs.failed],
        unreadable=inputs.unreadable,
        scope=_scope(inputs.runs),
        provenance=_provenance(inputs.runs),
    )
    return text.encode()


def render_method_pages(inputs: Inputs) -> dict[str, bytes]:
    """The page of each method, by path."""
    template = _template("method.html")
    return {path: template.render(page=page).encode() for path, page in method_pages(inputs)}


def _template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {"code": _code, "whole_intervals": _whole_intervals}
    return environment.get_template(name)


def _code(text: str) -> Markup:
    """The text with what stands between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _build(output: Output, inputs: Inputs, bar: Progress) -> BuiltOutput:
    bar.note(output.name)
    try:
        content = output.make(inputs)
        return BuiltOutput(output, content, _files(output.name, content))
    except Missing as missing:
        return BuiltOutput(output, missing, {})
    except DataError as error:  # results of different data
        return BuiltOutput(output, Missing(str(error), f"{BUILD} --results DIR"), {}, refused=True)
    except (LookupError, ArithmeticError, ValueError) as error:  # unexpected results
        log.exception("%s", output.name)
        unexpected = Missing(f"it cannot handle these results ({error!r})", f"{BUILD} --results DIR")
        return BuiltOutput(output, unexpected, {}, refused=True)
    finally:
        bar.step()


def _files(name: str, content: Drawing | Table) -> dict[str, bytes]:
    if isinstance(content, Table):
        return {f"tables/{name}{suffix}": form(content).encode() for suffix, form in FORMATS.items()}
    from reports.drawing.layout import METADATA, draw, render

    wide = draw(content.layout)
    files = {f"figures/{name}{suffix}": render(wide, suffix) for suffix in METADATA}
    return files | {f"figures/{name}{PHONE}": render(draw(content.layout, phone=True), ".svg")}


def _manifest(built: Sequence[BuiltOutput]) -> bytes:
    """The sources of each output, and the digest of each of its files."""
    entries = {
        each.output.name: {"missing": each.content.what, "command": each.content.command}
        if isinstance(each.content, Missing)
        else {
            "sources": list(each.content.about.sources),
            "command": each.content.about.command,
            "files": {path: hashlib.sha256(content).hexdigest()[:16] for path, content in each.files.items()},
        }
        for each in built
    }
    return (json.dumps(entries, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _entry(
    output: Output, content: Drawing | Table, files: Mapping[str, bytes], links: Mapping[str, str]
) -> dict[str, object]:
    """An output as page.html shows it; `links` are the pages of methods."""
    runs = sum("/" not in source for source in content.about.sources)
    return {
        "name": output.name,
        "title": output.title,
        "about": content.about,
        "downloads": [("svg (phone)" if path.endswith(PHONE) else path.rpartition(".")[2], path) for path in files],
        "runs": runs,
        "records": len(content.about.sources) - runs,  # other source files
        "wide": _picture(files, phone=False),
        "narrow": _picture(files, phone=True),
        "table": as_html(content, links) if isinstance(content, Table) else "",
    }


def _details(answer: Answer) -> list[tuple[str, str]]:
    """Sentences, some with a table below."""
    return [
        (each, "") if isinstance(each, str) else (each.about.caption, _whole_intervals(as_html(each)))
        for each in answer.details
    ]


def _whole_intervals(text: str) -> str:
    """No line breaks within 97 % and [95, 100]."""
    return re.sub(r"\d %|\[-?\d[^]]*\]", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def _picture(files: Mapping[str, bytes], *, phone: bool) -> Picture | None:
    """The SVG file of this layout; None where there is none."""
    address = next((path for path in files if path.endswith(".svg") and path.endswith(PHONE) == phone), None)
    if address is None:
        return None
    head = files[address].decode()
    sizes = [re.search(rf'<svg [^>]*\b{side}="([\d.]+)pt"', head) for side in ("width", "height")]
    width, height = (round(float(size[1]) * PIXELS) if size else 0 for size in sizes)
    return Picture(address, width, height)


def _citation() -> str:
    """Who, what and which version, as CITATION.cff and pyproject.toml say; empty where they are not beside the code."""
    folder = Path(__file__).parents[1]
    try:
        cited = (folder / "CITATION.cff").read_text(encoding="utf-8")
        version = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    except FileNotFoundError:  # an installed package
        return ""
    title = re.search(r'^title: "(.*)"$', cited, flags=re.MULTILINE)
    authors = re.search(r"^authors:\n((?: .*\n)*)", cited, flags=re.MULTILINE)
    names = re.findall(r"^ +- name: (.*)$", authors[1], flags=re.MULTILINE) if authors else []
    return f"{join_names(names)}. {title[1]}, version {version}." if title and names else ""


def _lists(inputs: Inputs, links: Mapping[str, str]) -> tuple[str, str]:
    """The table of the lists with its caption; empty where there are none."""
    try:
        table = shown_lists(inputs)
    except (Missing, DataError):  # the outputs say what cannot be shown
        return "", ""
    return as_html(table, links), table.about.caption


def _scope(runs: Sequence[Result]) -> str:
    if not runs:
        return "No run has finished."
    methods, data = ({getattr(run.key, what) for run in runs} for what in ("method", "data"))
    return f"{counted(len(runs), 'run')} of {counted(len(methods), 'method')} on {join_names(sorted(data))}."


def _provenance(runs: Sequence[Result]) -> list[tuple[str, str]]:
    """When, by which code and with which packages the runs were made, each value once."""
    dates = sorted({run.written for run in runs if run.written})
    commits = sorted({short_commit(run.commit) for run in runs})
    versions: dict[str, set[str]] = {}
    for run in runs:
        for package, version in run.versions.items():
            versions.setdefault(package, set()).add(version)
    facts = [("oldest run", dates[0]), ("newest run", dates[-1])] if dates else []
    facts += [("commit", ", ".join(commits))] if commits else []
    return facts + [(package, ", ".join(sorted(found))) for package, found in sorted(versions.items())]
