"""A federation by way of nodes gives the simulation's model, bit for bit, whatever happens to nodes and server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the federated methods need the extra graph")

from baselines.registry import build
from datasets import Homes
from fedrule.methods.federated import Federated
from fedrule.network.score import GraphModel
from tests.support.federation import federation, in_process
from tests.support.small_populations import population

SIZES = (1, 3, 2)  # homes of the nodes
METHODS: dict[str, dict[str, object]] = {
    "fedgnn": {},
    "fedgnn, partial": {"participation": 0.5, "weighting": "rules", "corrupted": 0.2, "drop_out": 0.2, "late": 0.1},
    "fedgnn, gat": {"encoder": "gat", "hidden": 4},
    "fedgnn, paper": {"preset": "paper"},
    "fedprox": {},
    "fedrule": {},
    "fedrule, partial": {"participation": 0.5, "weighting": "roots"},
    "fedrule, dense": {"predictor_lambda": 0.5, "participation": 0.6},
    "fedrule, adam": {"client_optimizer": "adam"},
    "fedgate": {"participation": 0.7, "corrupted": 0.3},
    "scaffold": {"participation": 0.7},
    "fedrank": {"cohort": 3, "candidates": 20},
    "fedrank, draws": {"draws": 2, "decay": False, "hidden_rules": 0.5, "cohort": 0, "candidates": 20},
}


def made(name: str, **more: object) -> Federated:
    method = build(name.partition(",")[0], **{"rounds": 4, **METHODS[name], **more})
    assert isinstance(method, Federated)
    return method


def simulated(method: Federated, homes: Homes, **more: object) -> GraphModel:
    return method.fit(homes, rng=np.random.default_rng(0), **more)  # type: ignore[arg-type]


def assert_equal(one: GraphModel, other: GraphModel) -> None:
    assert one.parameters.keys() == other.parameters.keys()
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value.numpy(), other.parameters[name].numpy(), err_msg=name)


@pytest.mark.parametrize("name", METHODS)
def test_nodes_and_server_give_the_model_of_the_simulation(name: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made(name)
    trained = federation(in_process(homes, SIZES, tmp_path), method, homes, tmp_path / "server").train()
    assert_equal(trained, simulated(method, homes))
