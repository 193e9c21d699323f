"""The whole report as files in memory: figures and tables in every format, the manifest and the page.

A pure function of the material, so the same results give the same bytes; `reports.build` writes them or compares them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from datasets.common.errors import DataError
from datasets.common.progress import Progress, progress
from reports.output_types import BUILD, Drawing, Missing, Table
from reports.material import Material
from reports.outputs import Made, Output
from reports.page import NARROW, page
from reports.drawing.sheet import WITHOUT_DATE, laid_out, written
from reports.text.table_formats import FORMATS

log = logging.getLogger(__name__)

FIGURES, TABLES = "figures", "tables"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """All files by path, and what is not among them."""

    files: dict[str, bytes]
    missing: dict[str, Missing]  # by output
    refused: bool  # some runs must not be put together


def site(outputs: Sequence[Output], material: Material, *, whole: bool = True, quiet: bool = True) -> Site:
    """The files of these outputs; with `whole` the manifest and the page as well."""
    with progress(len(outputs), "output", quiet=quiet) as bar:
        everything = [_made(output, material, bar) for output in outputs]
    files = {path: content for each in everything for path, content in each.files.items()}
    if whole:
        files |= {"manifest.json": _manifest(everything), "index.html": page(material, everything)}
    missing = {each.output.name: each.content for each in everything if isinstance(each.content, Missing)}
    return Site(files, missing, any(each.refused for each in everything))


def _made(output: Output, material: Material, bar: Progress) -> Made:
    bar.note(output.name)
    try:
        content = output.make(material)
        return Made(output, content, _files(output.name, content))
    except Missing as missing:
        return Made(output, missing, {})
    except DataError as error:  # results of different data
        return Made(output, Missing(str(error), f"{BUILD} --results DIR"), {}, refused=True)
    except (LookupError, ArithmeticError, ValueError) as error:  # results of a kind that nobody has thought of
        log.exception("%s", output.name)
        return Made(output, Missing(f"these results break it ({error!r})", f"{BUILD} --results DIR"), {}, refused=True)
    finally:
        bar.step()


def _manifest(everything: Sequence[Made]) -> bytes:
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
    wide = laid_out(content.sheet)
    files = {f"{FIGURES}/{name}{suffix}": written(wide, suffix) for suffix in WITHOUT_DATE}
    return files | {f"{FIGURES}/{name}{NARROW}": written(laid_out(content.sheet, phone=True), ".svg")}
