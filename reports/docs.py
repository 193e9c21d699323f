"""What README.md and docs/ show of results: blocks between two lines, all renewed by one command, and their manifest.

    <!-- ratios: begin -->
    <!-- ratios: end -->

A block has the name of a figure or table of outputs.toml, or is `findings`, or `leaderboard` in README.md, which has
pages of its own in docs/report/. Where results are missing it says which, and how to make them. MAKE_DOCS renews all;
with `--check` it compares. By the digests of the manifest edits by hand are noticed without results.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results.status import SIGN
from datasets.common.errors import DataError, counted, unknown
from reports.findings.questions import HOW_TO_READ, Answer, findings
from reports.inputs import Inputs
from reports.outputs import BUILD, MAKE_DOCS, Drawing, Missing, Output, Table, all_outputs
from reports.readme import FOLDER, LEADERBOARD, Made, leaderboard
from reports.text.formats import MARKDOWN, as_markdown

FINDINGS = "findings"  # the name of a block
MANIFEST = "manifest.json"
LINE = re.compile(r"^<!-- ([\w-]+): (begin|end) -->$", re.MULTILINE)
PROSE = {sign: text for sign, text in MARKDOWN.items() if sign != ord("`")}  # for sentences with commands
SIGNED = f"{SIGN} The training of some seed went wrong; the leaderboards say of which."


@dataclass(frozen=True, slots=True)
class Block:
    """A place in a page."""

    name: str
    begin: int  # of the text between its two lines
    end: int


@dataclass(slots=True)
class Page:
    """A page with blocks, and the notes that are in some block of it already."""

    name: str  # below the root
    text: str
    blocks: list[Block]
    noted: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path, root: Path) -> Page:
        """An error unless each block has both of its lines, once; README.md has the leaderboard."""
        name, text = path.relative_to(root).as_posix(), path.read_text("utf-8")
        blocks = blocks_of(text, name)
        if name == "README.md" and LEADERBOARD not in {block.name for block in blocks}:
            raise _needs_both(name, LEADERBOARD)
        return cls(name, text, blocks)

    @property
    def pictures(self) -> str:
        """The folder of pictures as the page links to it."""
        return f"{FOLDER}/" if "/" not in self.name else FOLDER.removeprefix("docs/") + "/"

    def new_notes(self, notes: Iterable[str]) -> list[str]:
        """Those that no block above has."""
        new = [note for note in dict.fromkeys(notes) if note not in self.noted]
        self.noted.update(new)
        return new

    def with_contents(self, contents: Sequence[str]) -> str:
        """The page with other text in its blocks."""
        text = self.text
        for block, content in reversed(list(zip(self.blocks, contents, strict=True))):
            text = text[: block.begin] + content + text[block.end :]
        return text


def docs_files(inputs: Inputs, root: Path) -> dict[Path, bytes]:
    """Every page of a repository with its blocks renewed, what they show or link to, and the manifest of all."""
    pages = [Page.read(path, root) for path in (root / "README.md", *sorted((root / "docs").glob("*.md")))]
    outputs = {output.name: output for output in all_outputs()}
    for page in pages:
        for block in page.blocks:
            if block.name not in (known := (*outputs, LEADERBOARD, FINDINGS)):
                raise DataError(f"{page.name}: {unknown('block', block.name, known)}")
    files: dict[str, Made] = {}  # by name below the root
    texts: dict[str, str] = {}
    for page in pages:
        made = [_block(block.name, page, inputs, outputs, files) for block in page.blocks]
        if made:
            texts[page.name] = page.with_contents([each.content.decode() for each in made])
            sources = sorted({source for each in made for source in each.sources})
            files[page.name] = Made(blocks_text(texts[page.name], page.name).encode(), tuple(sources))
    entries = {name: {"digest": digest(each.content), **_sources_entry(each.sources)} for name, each in files.items()}
    manifest = json.dumps({"command": MAKE_DOCS, "files": entries}, indent=1, sort_keys=True) + "\n"
    contents = {name: each.content for name, each in files.items()}
    contents |= {name: text.encode() for name, text in texts.items()} | {f"{FOLDER}/{MANIFEST}": manifest.encode()}
    return {root / name: content for name, content in contents.items()}


def blocks_of(text: str, page: str) -> list[Block]:
    """The blocks of a page in order; an error unless each has both of its lines, once."""
    found: dict[str, Block] = {}
    lines = list(LINE.finditer(text))
    for at in range(0, len(lines), 2):
        name, pair = lines[at][1], lines[at : at + 2]
        if [line.groups() for line in pair] != [(name, "begin"), (name, "end")] or name in found:
            raise _needs_both(page, name)
        found[name] = Block(name, pair[0].end(), pair[1].start())
    return list(found.values())


def blocks_text(text: str, page: str) -> str:
    """All that stands in the blocks of a page: what its digest is of."""
    return "".join(f"{block.name}{text[block.begin : block.end]}" for block in blocks_of(text, page))


def digest(content: bytes) -> str:
    """16 hex digits, the same for the same bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def _sources_entry(sources: Sequence[str]) -> dict[str, object]:
    """How many files of results, and a digest of their names, which are too many to be listed."""
    return {"sources": len(sources), "sources digest": digest("\n".join(sources).encode())}


def _needs_both(page: str, name: str) -> DataError:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    return DataError(f"{page}: the block {name} goes between the lines {begin} and {end}; it needs both, once")


def _block(name: str, page: Page, inputs: Inputs, outputs: dict[str, Output], files: dict[str, Made]) -> Made:
    """The content of a block; the files that it shows or links to are added to `files`."""
    if name == LEADERBOARD:
        made, linked = leaderboard(inputs)
        files |= {f"{FOLDER}/{file}": each for file, each in linked.items()}
        return made
    if name == FINDINGS:
        return _findings(findings(inputs))
    try:
        content = outputs[name].make(inputs)
    except Missing as missing:
        return _made([_missing(missing.what, missing.command)])
    except DataError as error:  # results of different data, or their tables are gone
        return _made([_missing(str(error), f"{BUILD} --results DIR")])
    about = content.about
    if isinstance(content, Drawing):
        files[f"{FOLDER}/{name}.svg"] = _picture(content)
        shown = f"![{outputs[name].title}]({page.pictures}{name}.svg)"
    else:
        shown = as_markdown(content).rstrip()
    notes = " ".join(note.translate(PROSE) for note in page.new_notes(about.notes))
    command = MAKE_DOCS.replace("--only docs", f"--only {name}")
    origin = f"{notes} From {_counted_sources(about.sources)}: `{command}`".strip()
    return _made([about.caption.translate(PROSE), shown, origin], about.sources)


def _counted_sources(sources: Sequence[str]) -> str:
    """15 runs; 2 files of speed/."""
    folders = Counter(source.rpartition("/")[0].partition("/")[0] for source in sources)
    return " and ".join(
        counted(many, "run") if not folder else f"{counted(many, 'file')} of {folder}/"
        for folder, many in sorted(folders.items())
    )


def _made(parts: Sequence[str], sources: Sequence[str] = ()) -> Made:
    return Made(("\n" + "\n\n".join(parts) + "\n").encode(), tuple(sources))


def _missing(what: str, command: str) -> str:
    how = f"To get it: `{command}`, then `python -m benchmarks publish`."
    return f"Not among the published results: {what.rstrip('.').translate(PROSE)}. {how}"


def _picture(drawing: Drawing) -> Made:
    from reports.drawing.layout import draw, render

    return Made(render(draw(drawing.layout), ".svg"), drawing.about.sources)


def _findings(answers: Sequence[Answer]) -> Made:
    """A heading, a sentence, the numbers behind it to be unfolded, and a command for each."""
    parts = []
    for number, answer in enumerate(answers, start=1):
        command = answer.finding.command + " --results published" if answer.known else answer.command
        headline = answer.headline.translate(PROSE)
        parts += [f"## {number}. {answer.finding.title}", f"**{headline}**" if answer.known else headline]
        if answer.details:
            parts += ["<details><summary>The numbers</summary>", *map(_detail, answer.details), "</details>"]
        parts.append(f"    {command}")
    notes = [*HOW_TO_READ, *([SIGNED] if any(answer.signed for answer in answers) else [])]
    sources = sorted({source for answer in answers for source in answer.sources})
    return _made([*parts, "## How to read them", "\n".join(f"- {note.translate(PROSE)}" for note in notes)], sources)


def _detail(detail: str | Table) -> str:
    if isinstance(detail, str):
        return detail.translate(PROSE)
    return f"{detail.about.caption.translate(PROSE)}\n\n{as_markdown(detail).rstrip()}"
