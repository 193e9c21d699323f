"""Compiled loops give the same bits where numba compiles them and where numba loads them from its cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the kernel needs the extra graph")

ROOT = Path(__file__).parents[3]
PROGRAM = """
import hashlib
import numpy as np
import datasets
from baselines.registry import build
from datasets.common.environment import set_threads

set_threads(1)
homes = datasets.load("wyze-synthetic", homes=100)
for method, options in (
    ("fedgnn", {"rounds": 5}),
    ("fedgnn", {"rounds": 5, "client_optimizer": "adam"}),
    ("fedrule", {"rounds": 5, "client_optimizer": "kept-adam"}),
    ("scaffold", {"rounds": 5}),
    ("fedprox", {"rounds": 5}),
    ("rotate", {"epochs": 1, "least_steps": 30}),
    ("rotate", {"epochs": 1, "least_steps": 30, "personal": False}),
    ("complex", {"epochs": 1, "least_steps": 30}),
    ("fede", {"rounds": 5}),
):
    model = build(method, **options).fit(homes, rng=np.random.default_rng(0))
    scores = model.score_pairs(homes, np.arange(4), np.arange(1, 5))
    print(method, options, hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_compiled_loops_and_cached_ones_give_the_same_bits(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    compiled, cached = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert compiled == cached
    assert len(compiled.splitlines()) == 9
