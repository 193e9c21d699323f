"""The loop over clients that speed is measured against computes what the engine computes."""

from __future__ import annotations

import numpy as np
import pytest

import datasets

pytest.importorskip("torch", reason="the network needs the extra graph")
pytest.importorskip("numba", reason="the kernel needs the extra graph")

import torch

from benchmarks.references.home_by_home import ClientByClient, home_graphs
from fedrule.federated.vectors import FlatParameters
from fedrule.methods.federated import FedGnn, FedRule, trainer_of


@pytest.mark.parametrize(("method", "correct"), [(FedGnn, False), (FedRule, True)])
def test_three_rounds_end_in_the_same_model(method, correct):
    homes = datasets.load("wyze-synthetic", homes=40)
    setting = method(server_optimizer="plain", server_rate=1.0, learning_rate=0.5, draws=1)
    prepared = setting.prepare(homes, np.random.default_rng(0))
    initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
    task = setting.task(prepared, FlatParameters.of(initial), seed=3)
    engine, trainer = setting.engine(), trainer_of(homes, task)
    examples = task.sampler(homes).draw(task.key(0, np.arange(homes.n_homes)))
    loop = ClientByClient(initial, home_graphs(examples, homes.n_homes), steps=3, rate=0.5, correct=correct)
    state = engine.begin(trainer, task.layout.flat(initial))
    for _ in range(3):
        loop.round()
        state, _ = engine.step(trainer, state, seed=3)
    moved = state.model - task.layout.flat(initial)
    assert np.abs(moved).max() > 0.01
    np.testing.assert_allclose(task.layout.flat(loop.model), state.model, atol=1e-6)
