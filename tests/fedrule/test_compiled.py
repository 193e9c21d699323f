"""Compiled loops that are kept on disk."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

pytest.importorskip("numba", reason="compiled loops need the extra graph")

from numba.core.dispatcher import Dispatcher

OURS = ("baselines", "benchmarks", "datasets", "fedrule")


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
