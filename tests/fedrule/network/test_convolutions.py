"""Graph convolutions against a dense formula, graph attention against torch-geometric's own module."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import datasets
from baselines.contract import ToyHome, toy_homes
from baselines.registry import build
from datasets import DataError, Rules
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
geometric = pytest.importorskip("torch_geometric.nn", reason="the graph formulation needs the extra graph")

from fedrule.network.batch import GraphBatch  # noqa: E402
from fedrule.network.encoders import (  # noqa: E402
    Dropout,
    Gat,
    Gcn,
    Sizes,
    message_edges,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
EVERY_WAY = pytest.mark.parametrize("direction", ["in", "out", "both"])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def sizes_of(homes, **others):
    return Sizes(n_types=len(homes.types), n_relations=len(homes.relations), hidden=4, **others)


def start(encoder, seed=0):
    return {name: value.double() for name, value in encoder.initial(generator(seed)).items()}


def embed(encoder, theta, homes, drawn=None):
    return encoder.embed(theta, GraphBatch.of(homes), drawn).numpy()


def adjacency(homes, direction):
    """[receiver, sender]: how many messages go from one device to another."""
    counts = np.zeros((homes.n_devices, homes.n_devices))
    np.add.at(counts, (homes.rules.action, homes.rules.trigger), 1)
    if direction == "both":
        return counts + counts.T - np.diag(np.diag(counts))
    return counts if direction == "in" else counts.T


def dense(theta, homes, matrix):
    """matrix ReLU(matrix x theta^1 + b^1) theta^2 + b^2 with one-hot inputs x."""
    theta = {name: value.numpy() for name, value in theta.items()}
    hidden = np.eye(len(homes.types))[homes.device_type]
    for layer in (1, 2):
        hidden = matrix @ hidden @ theta[f"layer{layer}.lin.weight"].T + theta[f"layer{layer}.bias"]
        hidden = np.maximum(hidden, 0) if layer == 1 else hidden
    return hidden


@EVERY_WAY
@given(homes=random_homes())
@settings(max_examples=25)
def test_gcn_without_loops_divides_by_the_root_of_messages_sent_and_got(direction, homes):
    gcn = Gcn(sizes_of(homes, direction=direction))
    theta = start(gcn)
    counts = adjacency(homes, direction)
    got, sent = (np.maximum(counts.sum(axis=axis), 1) for axis in (1, 0))
    expected = dense(theta, homes, counts / np.sqrt(got[:, None] * sent))
    np.testing.assert_allclose(embed(gcn, theta, homes), expected, **CLOSE)


@EVERY_WAY
@given(homes=random_homes())
@settings(max_examples=25)
def test_gcn_with_loops_is_torch_geometrics_own(direction, homes):
    gcn = Gcn(sizes_of(homes, direction=direction, self_loops=True))
    theta = start(gcn)
    counts = adjacency(homes, direction)
    np.fill_diagonal(counts, 1)  # every device hears itself once, whatever rules it has with itself
    got = counts.sum(axis=1)
    expected = dense(theta, homes, counts / np.sqrt(got[:, None] * got))
    np.testing.assert_allclose(embed(gcn, theta, homes), expected, **CLOSE)


@EVERY_WAY
@pytest.mark.parametrize(("heads", "self_loops"), [(1, False), (1, True), (2, False), (4, True)])
@given(homes=random_homes())
@settings(max_examples=10)
def test_gat_is_two_of_torch_geometrics_layers(direction, heads, self_loops, homes):
    gat = Gat(sizes_of(homes, direction=direction, heads=heads, self_loops=self_loops))
    theta = start(gat)
    pairs = np.repeat(np.argwhere(counts := adjacency(homes, direction)), counts[counts > 0].astype(int), axis=0)
    edges = torch.tensor(pairs[:, ::-1].T.copy())  # sender, receiver
    x = torch.eye(len(homes.types), dtype=torch.float64)[torch.tensor(homes.device_type)]
    for layer in (1, 2):
        conv = geometric.GATConv(x.shape[1], 4 // heads, heads=heads, add_self_loops=self_loops).double()
        own = {name: theta[f"layer{layer}.{name}"] for name in conv.state_dict()}
        conv.load_state_dict(own)
        with torch.no_grad():
            x = conv(x, edges)
        x = torch.relu(x) if layer == 1 else x
    np.testing.assert_allclose(embed(gat, theta, homes), x.numpy(), **CLOSE)


@pytest.mark.parametrize("kind", [Gcn, Gat])
def test_without_loops_a_device_that_no_rule_reaches_has_the_bias_alone(two, kind):
    encoder = kind(sizes_of(two))
    theta = start(encoder)
    np.testing.assert_array_equal(embed(encoder, theta, two)[2], theta["layer2.bias"].numpy())
    # So two sensors of different types, neither of which a rule reaches, are the same to it.
    sensors = toy_homes([ToyHome(1, ("ContactSensor", "MotionSensor", "Light"), (("ContactSensor", 0, "Light"),))])
    for loops in (False, True):
        encoder = kind(sizes_of(sensors, self_loops=loops))
        contact, motion, _ = embed(encoder, start(encoder), sensors)
        assert np.array_equal(contact, motion) is not loops


@pytest.mark.parametrize("kind", [Gcn, Gat])
def test_a_device_that_no_rule_reaches_is_heard_in_the_first_layer(two, kind):
    encoder = kind(sizes_of(two))
    theta = start(encoder)
    other = replace(two, device_type=np.array([0, 0, 0, 0]))  # Ann's sensor is a lamp
    changed = np.any(embed(encoder, theta, two) != embed(encoder, theta, other), axis=1)
    assert changed.tolist() == [False, True, False, False]  # lamp 1 hears lamp 0, which heard the sensor


def test_both_directions_are_the_undirected_graph(two):
    sender, receiver = message_edges(GraphBatch.of(two), "both").tolist()
    # sensor -> lamps 0 and 1, lamp 0 -> lamp 1, each and back; Bob's lamp and itself once.
    assert sorted(zip(sender, receiver, strict=True)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 3)]
    turned = Rules(two.rules.home, two.rules.action, two.rules.trigger, two.rules.relation)
    for kind in (Gcn, Gat):
        encoder = kind(sizes_of(two, direction="both"))
        theta = start(encoder)
        found = embed(encoder, theta, replace(two, rules=turned))
        np.testing.assert_allclose(found, embed(encoder, theta, two), **CLOSE)


@pytest.mark.parametrize("kind", [Gcn, Gat])
def test_a_node_embedding_tells_devices_of_one_type_apart(kind):
    homes = toy_homes([ToyHome(1, ("Light", "Light", "Plug"))])
    for size in (0, 2):
        encoder = kind(sizes_of(homes, node_embedding=size, self_loops=True))
        first, second, _ = embed(encoder, start(encoder), homes)
        assert np.allclose(first, second) is (size == 0)


@pytest.mark.parametrize("kind", [Gcn, Gat])
def test_dropout_repeats_with_its_seed_and_is_off_without_one(two, kind):
    encoder = kind(sizes_of(two, dropout=0.5, self_loops=True))
    theta = start(encoder)
    np.testing.assert_array_equal(embed(encoder, theta, two, Dropout(1)), embed(encoder, theta, two, Dropout(1)))
    assert not np.allclose(embed(encoder, theta, two, Dropout(1)), embed(encoder, theta, two, Dropout(2)))
    undropped = kind(sizes_of(two, self_loops=True))
    np.testing.assert_array_equal(embed(encoder, theta, two), embed(undropped, theta, two))


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (Gcn, {"messages": "relation"}, "encoder 'gcn' has no messages, got 'relation'; leave it at 'type'"),
        (Gat, {"messages": "relation"}, "encoder 'gat' has no messages, got 'relation'; leave it at 'type'"),
        (Gcn, {"heads": 2}, "encoder 'gcn' has no heads, got 2; leave it at 1"),
        (Gcn, {"direction": "none"}, "encoder 'gcn': direction 'none' leaves a device no state; use encoder 'sage'"),
        (Gat, {"direction": "none"}, "encoder 'gat': direction 'none' leaves a device no state; use encoder 'sage'"),
        (Gat, {"heads": 3}, "encoder 'gat': hidden 4 is not divisible by heads 3"),
    ],
)
def test_what_it_has_no_use_for_is_refused(two, kind, wrong, message):
    with pytest.raises(DataError, match=message):
        kind(sizes_of(two, **wrong))


ONLY_CONVOLUTIONS = """
import sys
import numpy as np
import datasets
from baselines.registry import build, listed
homes = datasets.load("wyze-synthetic", homes=10).merged_types()
ours = [build(name) for name, at in listed().items() if at.module.startswith("fedrule.")]
for encoder in ("sage", "gcn"):
    build("graphrule", rounds=1, encoder=encoder).fit(homes, rng=np.random.default_rng(0))
    print("torch_geometric" in sys.modules)
"""


def test_torch_geometric_is_imported_for_its_own_layers_and_for_nothing_else():
    done = subprocess.run([sys.executable, "-c", ONLY_CONVOLUTIONS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("method", ["graphrank", "fedrank", "fedrule"])
def test_methods_without_its_layers_are_fitted_without_torch_geometric(monkeypatch, method):
    few = build(method, rounds=1, **({"least_steps": 0} if method == "graphrank" else {}))
    homes = datasets.load("wyze-synthetic", homes=10).merged_types()
    monkeypatch.setitem(sys.modules, "torch_geometric", None)  # to import it is an error
    fitted = few.fit(homes, rng=np.random.default_rng(0))
    assert np.isfinite(fitted.score_pairs(homes, homes.rules.trigger, homes.rules.action)).any()
