"""Compiled loops that are kept on disk."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="compiled loops need the extra graph")

from numba.core.dispatcher import Dispatcher

from datasets.common import compiled

OURS = ("baselines", "benchmarks", "datasets", "fedrule")
ROOT = Path(__file__).parents[2]
OF_EVIDENCE = "fedrule.evidence.home_graph"  # has decorators of its own, with the sources of all loops of evidence
WITH_NUMBA = ["datasets/common/compiled.py", "benchmarks/runs/workers.py"]  # the latter loads it before runs are forked


def compiled_modules() -> list[str]:
    """Modules of ours that compile loops."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in our_files()
        if re.search(rf"^from (datasets\.common\.compiled|{OF_EVIDENCE}) import", path.read_text("utf-8"), re.MULTILINE)
        and decorators(path)
    ]


def our_files() -> list[Path]:
    return [path for folder in OURS for path in sorted((ROOT / folder).rglob("*.py"))]


def decorators(path: Path) -> set[str]:
    """Those of ours that compile, which the functions of a file have."""
    known = {"entry_point", "as_written", "in_any_order", "inlined", "compiled", "reordered"}
    return known & set(re.findall(r"^@(\w+)", path.read_text("utf-8"), re.MULTILINE))


def test_all_loops_are_compiled_by_the_functions_of_one_module():
    with_numba = re.compile(r"^\s*(from|import) numba\b", re.MULTILINE)
    found = [path.relative_to(ROOT).as_posix() for path in our_files() if with_numba.search(path.read_text("utf-8"))]
    assert sorted(found) == sorted(WITH_NUMBA)


@pytest.mark.parametrize("module", compiled_modules())
def test_the_name_of_a_compiled_loop_changes_with_each_of_our_files_that_it_uses(module):
    """Its name on disk has a hash of `SOURCES`: numba looks at the loop's own file alone, and keeps old code of others.

    The loops of evidence have one tuple of sources together.
    """
    pytest.importorskip("torch", reason="the trainers need the extra graph")
    found = importlib.import_module(module)
    shared = importlib.import_module(OF_EVIDENCE) if "fedrule.evidence" in module else found
    hashed = (Path(compiled.__file__), *getattr(shared, "SOURCES", ()))
    loops = [value for value in vars(found).values() if isinstance(value, Dispatcher)]
    own = [loop for loop in loops if loop.py_func.__module__ == module]
    assert own
    kept = [loop for loop in own if loop._cache.cache_path is not None]
    assert bool(kept) == bool({"entry_point", "compiled"} & decorators(Path(found.__file__)))
    for loop in kept:
        assert files_of(loop) - {source_of(loop)} <= set(hashed), loop
        assert loop.py_func.__qualname__ == f"{loop.py_func.__name__}-{compiled.hash_of(hashed)}", loop


def source_of(loop: Dispatcher) -> Path:
    return Path(loop.py_func.__code__.co_filename)


def files_of(loop: Dispatcher) -> set[Path]:
    """The files of ours that have what a loop, or one that it calls, is made from."""
    function = loop.py_func
    imported = {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(ast.parse(source_of(loop).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS
        for alias in node.names
    }
    named = {imported[name] for name in function.__code__.co_names if name in imported}
    own = {source_of(loop), *(Path(inspect.getfile(importlib.import_module(name))) for name in named)}
    return own.union(*map(files_of, callees(loop)))


def callees(loop: Dispatcher) -> list[Dispatcher]:
    function = loop.py_func
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    return [value for value in named if isinstance(value, Dispatcher)]


def is_any_order(loop: Dispatcher) -> bool:
    """Whether it or what becomes a part of it rounds as the optimiser likes."""
    return bool(loop.targetoptions.get("fastmath")) or any(map(is_any_order, callees(loop)))


def is_inlined(loop: Dispatcher) -> bool:
    return bool(loop.targetoptions.get("forceinline")) or loop.targetoptions.get("inline") == "always"


@pytest.mark.parametrize("module", compiled_modules())
def test_loops_that_add_in_any_order_are_a_part_of_their_callers(module):
    """A caller has a copy of what it calls, optimised anew, so that the last bits of its sums may be others.

    Where numba compiles the caller, the original is called, and the copy where numba loads the caller from its cache. A
    function that does not say how it rounds is compiled as its first caller is, so loops in any order do not call one.
    """
    pytest.importorskip("torch", reason="the trainers need the extra graph")
    loops = [value for value in vars(importlib.import_module(module)).values() if isinstance(value, Dispatcher)]
    assert loops
    called = {
        callee.__name__
        for loop in loops
        for callee in callees(loop)
        if (is_any_order(callee) and not is_inlined(callee))
        or (loop.targetoptions.get("fastmath") and "fastmath" not in callee.targetoptions)
    }
    assert called == set()
