"""Compiled loops that are kept on disk."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="compiled loops need the extra graph")

from numba.core.dispatcher import Dispatcher

OURS = ("baselines", "benchmarks", "datasets", "fedrule")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "module",
    ["fedrule.evidence.kernel", "fedrule.federated.trainers.state_loops", "fedrule.federated.trainers.evidence"],
)
def test_compiled_loops_use_nothing_of_our_other_files(module):
    """numba compiles a function anew when its own file has changed, and goes on with the old code of all others."""
    pytest.importorskip("torch", reason="the trainers need the extra graph")
    loaded = importlib.import_module(module)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(inspect.getsource(loaded)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS
        for alias in node.names
    }
    loops = {name: value.py_func for name, value in vars(loaded).items() if isinstance(value, Dispatcher)}
    assert loops
    found = {name: sorted(imported & set(function.__code__.co_names)) for name, function in loops.items()}
    assert {name: names for name, names in found.items() if names} == {}


def compiled_modules() -> list[str]:
    """Modules of ours that compile loops or use those of others."""
    files = (path for folder in OURS for path in sorted((ROOT / folder).rglob("*.py")))
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in files
        if "\n@compiled\n" in (text := path.read_text(encoding="utf-8")) or "\nfrom numba import njit\n" in text
    ]


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
    function that does not say how it rounds is compiled as its first caller is.
    """
    pytest.importorskip("torch", reason="the trainers need the extra graph")
    loops = [value for value in vars(importlib.import_module(module)).values() if isinstance(value, Dispatcher)]
    assert loops
    called = {
        callee.__name__
        for loop in loops
        for callee in callees(loop)
        if is_any_order(callee) or (loop.targetoptions.get("fastmath") and "fastmath" not in callee.targetoptions)
        if not is_inlined(callee)
    }
    assert called == set()
