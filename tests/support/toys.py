"""The toy methods in the registry while a test runs, and nowhere else."""

from __future__ import annotations

import pytest

import tests.support.toy_methods
from baselines import registry

assert tests.support.toy_methods  # importing it registers them, also in the processes of runs
TOYS = {name: registry._METHODS.pop(name) for name in sorted(registry._METHODS) if name.startswith("toy-")}


@pytest.fixture
def toys(monkeypatch):
    for name, method in TOYS.items():
        monkeypatch.setitem(registry._METHODS, name, method)
