"""Clients trained many at once: as one after the other, whichever clients are trained together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

import torch

import fedrule.federated.trainers.batched as batched
from baselines.contract import planted_homes
from baselines.registry import build
from fedrule.federated.trainers.batched import BatchedTrainer, ClientBatches, fits_batches
from fedrule.federated.trainers.trainer import TorchTrainer
from fedrule.federated.vectors import FlatParameters
from fedrule.methods.federated import trainer_of
from tests.support.small_populations import population

SMALL = {"hidden": 4, "cohort": 0, "candidates": 6}
SETTINGS = {
    "defaults": ("fedcompgcn", {}),
    "correlate, dropout": ("fedcompgcn", {"composition": "correlate", "dropout": 0.3, "local_steps": 3}),
    "multiply, ranking, counts": ("fedcompgcn", {"composition": "multiply", "objective": "ranking", "bias": "counts"}),
    "no messages, bce": ("fedcompgcn", {"direction": "none", "objective": "bce", "bias": "none"}),
    "client Adam": ("fedcompgcn", {"client_optimizer": "kept-adam", "learning_rate": 0.001, "local_steps": 2}),
    "sage with dropout": ("fedgnn", {"dropout": 0.4, "candidates": 0}),
    "corrected, with rows": ("fedrule", {"messages": "relation", "bias": "learned", "candidates": 0}),
    "scaffold, node embedding": ("scaffold", {"node_embedding": 2, "dropout": 0.2, "draws": 2, "candidates": 0}),
    "paper's predictor": ("fedgnn", {"encoder": "compgcn", "non_rules": "feasible", "objective": "ranking"}),
}
EVERY_SETTING = pytest.mark.parametrize(("name", "options"), SETTINGS.values(), ids=SETTINGS)


class Setting:
    """A method on homes, ready to play rounds."""

    def __init__(self, name, options, homes):
        self.method = build(name, **SMALL | options)
        prepared = self.method.prepare(homes, np.random.default_rng(0))
        self.initial = prepared.scorer.initial(torch.Generator().manual_seed(1))
        self.homes, self.task = prepared.train, self.method.task(prepared, FlatParameters.of(self.initial), 5)

    def played(self, trainer, rounds=3, **engine):
        """The arrays of the server's state after some rounds, and their reports."""
        engine = replace(self.method.engine(), **engine)
        state, reports = engine.begin(trainer, self.task.layout.flat(self.initial)), []
        for _ in range(rounds):
            state, report = engine.step(trainer, state, seed=5, rate=0.01)
            reports.append(report)
        return state.arrays(), reports


@EVERY_SETTING
def test_clients_are_trained_as_one_after_the_other(name, options):
    setting = Setting(name, options, population(3))
    assert fits_batches(setting.task)
    (many, reports), (alone, expected) = (
        setting.played(trainer(setting.homes, setting.task)) for trainer in (BatchedTrainer, TorchTrainer)
    )
    for key, value in alone.items():
        np.testing.assert_allclose(many[key], value, rtol=2e-3, atol=1e-4, err_msg=key)
    for report, other in zip(reports, expected, strict=True):
        assert report == pytest.approx(other, rel=1e-4, nan_ok=True)


@EVERY_SETTING
def test_neither_the_chunk_nor_who_shares_it_changes_a_bit(monkeypatch, name, options):
    setting = Setting(name, options, population(4))
    whole, _ = setting.played(BatchedTrainer(setting.homes, setting.task), 2)
    for chunk_size, per_call in ((1, 128), (3, 128), (1024, 2)):
        monkeypatch.setattr(batched, "CLIENTS_PER_CALL", per_call)
        again, _ = setting.played(BatchedTrainer(setting.homes, setting.task), 2, chunk_size=chunk_size)
        assert all(again[key].tobytes() == value.tobytes() for key, value in whole.items())


def test_a_node_trains_its_homes_as_the_simulation_does():
    setting = Setting("fedcompgcn", {"dropout": 0.3}, population(5))
    everyone = BatchedTrainer(setting.homes, setting.task)
    model, clients = setting.task.layout.flat(setting.initial), np.flatnonzero(everyone.rule_counts)
    mine = clients[1::2]
    node = BatchedTrainer(setting.homes.subset(mine), setting.task, mine)
    among_all, alone = everyone.begin(2, clients, model), node.begin(2, np.arange(len(mine)), model)
    assert alone.numbers.tolist() == np.intersect1d(among_all.numbers, mine).tolist()
    which = np.flatnonzero(np.isin(among_all.numbers, mine))
    x = np.tile(model, (len(which), 1))
    loss, gradient = among_all._gradients(which)(x, 0)
    own_loss, own_gradient = alone._gradients(np.arange(len(which)))(x, 0)
    assert loss.tobytes() == own_loss.tobytes()
    assert gradient.tobytes() == own_gradient.tobytes()


def test_the_class_of_a_client_has_room_for_all_that_it_has(monkeypatch):
    monkeypatch.setattr(batched, "SMALLEST", {"devices": 1, "messages": 1, "candidates": 2})
    setting = Setting("fedcompgcn", {}, planted_homes())
    examples = setting.task.sampler(setting.homes).draw(
        np.random.default_rng(0), score=setting.task.score(setting.task.layout.flat(setting.initial))
    )
    batches = ClientBatches.of(setting.task.scorer, examples.subset(np.unique(examples.candidates.home)))
    assert all(len(np.unique(column)) > 1 for column in batches.size_class.T)
    for column, parts in zip(batches.size_class.T, batched.SIZES, strict=True):
        for part in parts:
            assert (np.diff(getattr(batches, part)) <= batched.SMALLEST[part] * batched.FACTOR**column).all()
    for each in np.unique(batches.size_class, axis=0):
        clients = np.flatnonzero((batches.size_class == each).all(axis=1))
        rows = batches.padded(clients)
        # All that is there comes once, in its order, and nothing else counts.
        counts = np.diff(batches.candidates)[clients]
        assert rows["counts"].sum(dim=1).tolist() == counts.tolist()
        first = clients[0]
        own = batches.batch.query.relation[batches.candidates[first] : batches.candidates[first + 1]]
        assert rows["relation"][0, : counts[0]].tolist() == own.tolist()
        assert not rows["weight_in"][0, np.diff(batches.messages)[first] :].any()


def test_it_is_used_where_the_network_takes_many_models_and_no_kernel_is_faster():
    homes = population(0)
    for name, options in SETTINGS.values():
        setting = Setting(name, options, homes)
        assert isinstance(trainer_of(setting.homes, setting.task), BatchedTrainer)
    for options in ({"encoder": "gcn"}, {"encoder": "gat"}, {"context": 3}, {"evidence": 4}):
        setting = Setting("fedgnn", options | {"candidates": 0}, homes)
        assert not fits_batches(setting.task)
        assert isinstance(trainer_of(setting.homes, setting.task), TorchTrainer)
    paper = Setting("fedgnn", {"candidates": 0}, homes)
    assert not isinstance(trainer_of(paper.homes, paper.task), BatchedTrainer | TorchTrainer)
    strange = replace(paper.task, objective=lambda *_: torch.zeros(()))
    assert isinstance(trainer_of(paper.homes, strange), TorchTrainer)
