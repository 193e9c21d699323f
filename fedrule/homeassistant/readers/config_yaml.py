"""Home Assistant's YAML, read within bounds: includes, packages' folders, secrets that stay secret, blueprint inputs.

Built from the parser's events with a stack of our own, so that depth, size and aliases are bounded before anything
grows: a file of a few lines can stand for billions of values. What cannot be read becomes a `Problem` that names file
and line and never quotes the text, which may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml

from datasets.common.errors import DataError
from fedrule.homeassistant.installation import Problem, printable

DEPTH = 100  # levels of lists and mappings in one file
INCLUDES = 20  # files that include one another
FILES = 5_000  # of one configuration
FILE_BYTES = 5_000_000
ALL_BYTES = 60_000_000
VALUES = 2_000_000  # of one configuration, those behind aliases counted each time
KEY = "<<"

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,300}\.[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][-+][0-9]{1,3})?")
_CONSTANTS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
for _words, _meaning in ((("true", "yes", "on"), True), (("false", "no", "off"), False)):
    for _word in _words:
        _CONSTANTS |= dict.fromkeys((_word, _word.title(), _word.upper()), _meaning)
_STR_TAG = "tag:yaml.org,2002:str"
_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one is ten times as fast


class Located(dict[str, object]):
    """A mapping that knows its file and line."""

    __slots__ = ("where",)

    def __init__(self, where: str = "") -> None:
        super().__init__()
        self.where = where


class Input(str):
    """`!input NAME` of a blueprint: the name."""

    __slots__ = ()


class Hidden(str):
    """`!secret NAME` or `!env_var NAME`: what it stands for is not looked up."""

    __slots__ = ()

    def __new__(cls, tag: str, name: str) -> Hidden:
        return super().__new__(cls, f"{tag} {name}")


class UnreadableFile(DataError):
    """A file that cannot be read; the message says why, without quoting it."""


class _Frame:
    """A list or mapping that is being built."""

    __slots__ = ("anchor", "has_key", "key", "size", "value")

    def __init__(self, value: list[object] | Located, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key = ""
        self.has_key = False
        self.size = 1


class _Sized(NamedTuple):
    value: object
    size: int  # values in it, those behind aliases and includes counted each time


@dataclass
class ConfigReader:
    """Reads the YAML files below one folder and counts what it could not read in `problems`."""

    root: Path
    problems: list[Problem] = field(default_factory=list)
    _files: int = 0
    _bytes: int = 0
    _values: int = 0
    _open: list[Path] = field(default_factory=list)
    _known: dict[Path, _Sized] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()

    def read(self, path: Path) -> object:
        """The content of a file with its includes; None and a problem if it cannot be read."""
        try:
            return self._load(path).value
        except UnreadableFile as error:
            self.problem(path, str(error))
            return None

    def problem(self, path: Path, reason: str, line: int = 0) -> None:
        self.problems.append(Problem(self.name(path) + (f" line {line}" if line else ""), reason))

    def name(self, path: Path) -> str:
        """A file as seen from the configuration's folder."""
        try:
            return printable(path.resolve().relative_to(self.root).as_posix())
        except (ValueError, OSError, RuntimeError):
            return printable(path.name)

    def _load(self, path: Path) -> _Sized:
        path = self._inside(path)
        if path in self._known:
            return self._count(self._known[path])
        if path in self._open:
            raise UnreadableFile("it includes itself, directly or through other files; skipped")
        if len(self._open) >= INCLUDES:
            raise UnreadableFile(f"more than {INCLUDES} files include one another; skipped")
        content = self._text(path)
        self._open.append(path)
        try:
            self._known[path] = self._build(content, path)
        finally:
            self._open.pop()
        return self._known[path]

    def _count(self, known: _Sized) -> _Sized:
        self._values += known.size
        if self._values > VALUES:
            raise UnreadableFile(f"with it the configuration has more than {VALUES:,} values; skipped")
        return known

    def _inside(self, path: Path) -> Path:
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError):
            raise UnreadableFile("not a usable path; skipped") from None
        if not resolved.is_relative_to(self.root):
            raise UnreadableFile("it is outside of the configuration's folder; refused")
        return resolved

    def _text(self, path: Path) -> str:
        self._files += 1
        if self._files > FILES:
            raise UnreadableFile(f"the configuration has more than {FILES:,} files; skipped")
        try:
            if not path.is_file():
                raise UnreadableFile("there is no such file" if not path.exists() else "not a file; skipped")
            size = path.stat().st_size
            if size > FILE_BYTES:
                raise UnreadableFile(f"{size:,} bytes, more than {FILE_BYTES:,}; skipped")
            self._bytes += size
            if self._bytes > ALL_BYTES:
                raise UnreadableFile(f"the configuration has more than {ALL_BYTES:,} bytes; skipped")
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            if isinstance(error, UnreadableFile):
                raise
            raise UnreadableFile(f"cannot be read ({getattr(error, 'strerror', None) or 'bad name'})") from None
        try:
            decoded = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"byte {error.start} is not UTF-8 text; skipped") from None
        if "\0" in decoded:
            raise UnreadableFile("a binary file; skipped")
        return decoded

    def _build(self, content: str, path: Path) -> _Sized:
        name = self.name(path)
        anchors: dict[str, _Sized | None] = {}
        stack: list[_Frame] = []
        done: _Sized | None = None
        for event in _events(content):
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                if len(stack) >= DEPTH:
                    raise UnreadableFile(f"lists and mappings are nested deeper than {DEPTH} levels; skipped")
                is_map = isinstance(event, yaml.MappingStartEvent)
                line = _line(event)
                stack.append(_Frame(Located(f"{name} line {line}") if is_map else [], event.anchor))
                if event.anchor:
                    anchors[event.anchor] = None  # known, not complete
                continue
            if isinstance(event, yaml.ScalarEvent):
                made = self._scalar(event, path)
                if event.anchor:
                    anchors[event.anchor] = made
            elif isinstance(event, yaml.AliasEvent):
                alias = anchors.get(event.anchor or "")
                if alias is None:
                    what = "contains itself" if event.anchor in anchors else "is not defined"
                    raise UnreadableFile(f"line {_line(event)}: an alias {what}; skipped")
                made = self._count(alias)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                frame = stack.pop()
                made = _Sized(frame.value, frame.size)
                if frame.anchor:
                    anchors[frame.anchor] = made
            elif isinstance(event, yaml.DocumentEndEvent):
                break  # Home Assistant reads one document
            else:
                continue
            if not stack:
                done = made
            else:
                _add(stack[-1], made, plain=isinstance(event, yaml.ScalarEvent) and not event.style)
        return done or _Sized(None, 1)

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> _Sized:
        self._values += 1
        if self._values > VALUES:
            raise UnreadableFile(f"with it the configuration has more than {VALUES:,} values; skipped")
        value = printable(event.value)
        tag = event.tag
        if tag is None:
            return _Sized(_plain(value) if event.implicit[0] else value, 1)
        if tag == "!input":
            return _Sized(Input(value), 1)
        if tag in ("!secret", "!env_var"):
            return _Sized(Hidden(tag, value.partition(" ")[0]), 1)
        if tag.startswith("!include"):
            return self._include(tag, value, path, _line(event))
        return _Sized(value if tag == _STR_TAG else _plain(value), 1)

    def _include(self, tag: str, value: str, path: Path, line: int) -> _Sized:
        """What stands in another file or folder; None and a problem if it cannot be read."""
        target = path.parent / value.strip()
        try:
            if tag == "!include":
                return self._load(target)
            kind = tag.removeprefix("!include_dir_")
            if kind in ("list", "named", "merge_list", "merge_named"):
                return self._folder(kind, target)
            raise UnreadableFile(f"the tag {tag[:40]} is not known; skipped")
        except UnreadableFile as error:
            self.problem(path, f"included {self.name(target)}: {error}", line)
            return _Sized(None, 1)

    def _folder(self, kind: str, folder: Path) -> _Sized:
        folder = self._inside(folder)
        if not folder.is_dir():
            raise UnreadableFile("there is no such folder")
        files: list[tuple[Path, _Sized]] = []
        for file in self._yaml_files(folder):
            try:
                files.append((file, self._load(file)))
            except UnreadableFile as error:
                self.problem(file, str(error))
        size = 1 + sum(content.size for _, content in files)
        if kind == "list":
            return _Sized([content.value for _, content in files if content.value is not None], size)
        if kind == "merge_list":
            lists = [content.value for _, content in files if isinstance(content.value, list)]
            return _Sized([item for each in lists for item in each], size)
        merged = Located(self.name(folder))
        for file, content in files:
            if kind == "named":
                merged[file.stem] = content.value
            elif isinstance(content.value, dict):
                merged.update(content.value)
        return _Sized(merged, size)

    def _yaml_files(self, folder: Path, depth: int = 0) -> Iterator[Path]:
        """Files that end in .yaml, in folders below too, without hidden ones and secrets, as Home Assistant does."""
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise UnreadableFile(f"cannot be read ({error.strerror})") from None
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                if depth < INCLUDES and not entry.is_symlink():  # a link may lead back up
                    yield from self._yaml_files(entry, depth + 1)
            elif entry.suffix == ".yaml" and entry.name != "secrets.yaml":
                yield entry


def _events(content: str) -> Iterator[yaml.Event]:
    loader = _LOADER(content)
    try:
        while loader.check_event():
            yield loader.get_event()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise UnreadableFile(f"{line}not valid YAML ({_reason(error)}); the file is skipped") from None
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        if isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile("not valid YAML (a character that is not allowed); the file is skipped") from None
    finally:
        loader.dispose()


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _reason(error: yaml.MarkedYAMLError) -> str:
    """What the parser says, without the quoted parts: they may be from the file."""
    return re.sub(r"\s*['\"].*['\"]\s*", " ", error.problem or "broken").strip()[:80] or "broken"


def _plain(value: str) -> object:
    """A plain scalar by YAML 1.1, as Home Assistant reads it, but times and dates stay text."""
    if value in _CONSTANTS:
        return _CONSTANTS[value]
    first = value[:1]
    if first.isdigit() or first in "+-.":
        if _INT.fullmatch(value):
            return int(value)
        if _FLOAT.fullmatch(value):
            return float(value)
    return value


def _add(frame: _Frame, made: _Sized, *, plain: bool) -> None:
    """Put a finished value where it belongs: into a list, or as a mapping's key or value."""
    frame.size += made.size
    if isinstance(frame.value, list):
        frame.value.append(made.value)
        return
    if not frame.has_key:
        frame.key = KEY if plain and made.value == KEY else _key(made.value)
        frame.has_key = True
        return
    frame.has_key = False
    if frame.key == KEY:  # what is merged does not replace what is there
        for each in made.value if isinstance(made.value, list) else [made.value]:
            if isinstance(each, dict):
                for key, value in each.items():
                    frame.value.setdefault(key, value)
        return
    frame.value[frame.key] = made.value


def _key(value: object) -> str:
    """A key as text; on and off are states where they are keys."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else "" if value is None else str(value)[:200]
