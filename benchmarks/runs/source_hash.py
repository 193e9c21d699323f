"""A hash of source files that changes when their code does: comments and docstrings do not count."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from baselines.registry import files_of

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)  # what may have a docstring


class SourceHash(NamedTuple):
    """Files, and the hash of their code."""

    files: list[Path]
    stamp: list[tuple[int, int]]  # when each was changed last, and its size
    digest: str  # 12 hex digits


_CACHE: dict[tuple[tuple[Path, ...], frozenset[Path]], SourceHash] = {}  # by the arguments


def source_hash(roots: Sequence[Path], more: Collection[Path] = ()) -> SourceHash:
    """The hash of these files, of those of ours that they import, directly or through others, and of more files.

    Imports are followed as those of methods are, so not within benchmarks/, which methods cannot import.
    """
    key = tuple(roots), frozenset(more)
    known = _CACHE.get(key)
    if known is None or known.stamp != _stamp(known.files):  # reading them all takes a while
        files = sorted({found for root in roots for found in files_of(root)}.union(more))
        stamp = _stamp(files)
        parts = [part for each, when in zip(files, stamp, strict=True) for part in (each.name, _code(each, when))]
        known = SourceHash(files, stamp, hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12])
        _CACHE[key] = known
    return known


@cache
def _code(file: Path, stamp: tuple[int, int]) -> str:  # noqa: ARG001  read again when it has changed
    """A file without its comments, docstrings, blank lines and white space at the end of a line."""
    text = file.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text_lines = range(node.body[0].lineno - 1, node.body[0].end_lineno or node.body[0].lineno)
            others = {getattr(node, "lineno", 0) - 1, *(each.lineno - 1 for each in node.body[1:])}
            if others.isdisjoint(text_lines):  # it shares no line with code
                lines[text_lines.start : text_lines.stop] = [""] * len(text_lines)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (line := lines[token.start[0] - 1]):
            lines[token.start[0] - 1] = line[: token.start[1]]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _stamp(files: Sequence[Path]) -> list[tuple[int, int]]:
    return [(stat.st_mtime_ns, stat.st_size) for file in files for stat in [file.stat()]]
