"""GraphSAGE against the paper's pseudocode, device by device, and against torch-geometric's layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from baselines.contract import ToyHome, toy_homes
from datasets import DataError, Rules
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
geometric = pytest.importorskip("torch_geometric.nn", reason="the graph formulation needs the extra graph")

from fedrule.network.batch import GraphBatch  # noqa: E402
from fedrule.network.encoders import (  # noqa: E402
    MAX_PLACES,
    Dropout,
    Sage,
    Sizes,
)

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
HIDDEN = 8  # enough that ReLU never silences a whole state


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def sizes_of(homes, **others):
    return Sizes(n_types=len(homes.types), n_relations=len(homes.relations), hidden=HIDDEN, **others)


def start(sage, seed=0):
    return {name: value.double() for name, value in sage.initial(generator(seed)).items()}


def embed(sage, theta, homes, drawn=None):
    return sage.embed(theta, GraphBatch.of(homes), drawn).numpy()


def plain(theta, homes):
    """Algorithm 1 for one device after the other; the weight matrices in one piece, with a bias."""
    theta = {name: value.numpy() for name, value in theta.items()}
    neighbours = [homes.rules.trigger[homes.rules.action == v].tolist() for v in range(homes.n_devices)]
    h = {v: np.eye(len(homes.types))[homes.device_type[v]] for v in range(homes.n_devices)}
    for layer in (1, 2):
        weight = np.concatenate([theta[f"self{layer}"], theta[f"in{layer}"]]).T  # theta^layer
        after = {}
        for v in range(homes.n_devices):
            of_neighbours = np.mean([h[n] for n in neighbours[v]], axis=0) if neighbours[v] else np.zeros_like(h[v])
            after[v] = weight @ np.concatenate([h[v], of_neighbours]) + theta[f"bias{layer}"]
            if layer == 1:
                after[v] = np.maximum(after[v], 0)
        h = after
    return np.array([h[v] for v in range(homes.n_devices)]).reshape(-1, HIDDEN)


@given(random_homes())
def test_it_is_algorithm_1(homes):
    sage = Sage(sizes_of(homes))
    theta = start(sage)
    np.testing.assert_allclose(embed(sage, theta, homes), plain(theta, homes), **CLOSE)


@given(random_homes())
@settings(max_examples=25)
def test_it_is_two_of_torch_geometrics_layers(homes):
    sage = Sage(sizes_of(homes))
    theta = start(sage)
    x = torch.eye(len(homes.types), dtype=torch.float64)[torch.tensor(homes.device_type)]
    edges = torch.tensor(np.stack([homes.rules.trigger, homes.rules.action]))
    for layer in (1, 2):
        conv = geometric.SAGEConv(x.shape[1], HIDDEN, aggr="mean", root_weight=True).double()
        with torch.no_grad():
            conv.lin_r.weight.copy_(theta[f"self{layer}"].T)
            conv.lin_l.weight.copy_(theta[f"in{layer}"].T)
            conv.lin_l.bias.copy_(theta[f"bias{layer}"])
            x = conv(x, edges)
        x = torch.relu(x) if layer == 1 else x
    np.testing.assert_allclose(embed(sage, theta, homes), x.numpy(), **CLOSE)


def test_a_device_that_no_rule_reaches_keeps_its_own_features(two):
    sage = Sage(sizes_of(two))
    theta = start(sage)
    # Ann's sensor is device 2 and of type 1: its neighbours are a zero vector in both layers.
    hidden = torch.relu(theta["self1"][1] + theta["bias1"])
    expected = hidden @ theta["self2"] + theta["bias2"]
    np.testing.assert_allclose(embed(sage, theta, two)[2], expected.numpy(), **CLOSE)


def test_messages_against_the_rules_are_those_of_the_turned_homes(two):
    rules = two.rules
    turned = replace(two, rules=Rules(rules.home, rules.action, rules.trigger, rules.relation))
    inward, outward = Sage(sizes_of(two, direction="in")), Sage(sizes_of(two, direction="out"))
    theta = start(inward)
    renamed = {name.replace("in", "out"): value for name, value in theta.items()}
    renamed |= {name: theta[name] for name in ("bias1", "bias2")}
    np.testing.assert_array_equal(embed(outward, renamed, turned), embed(inward, theta, two))


def test_both_directions_are_summed_with_a_matrix_for_each(two):
    both, inward = Sage(sizes_of(two, direction="both")), Sage(sizes_of(two))
    theta = start(both)
    silent = theta | {name: torch.zeros_like(theta[name]) for name in ("out1", "out2")}
    np.testing.assert_allclose(embed(both, silent, two), embed(inward, theta, two), **CLOSE)
    assert not np.allclose(embed(both, theta, two), embed(inward, theta, two))


def test_without_messages_a_device_is_its_type(two):
    sage = Sage(sizes_of(two, direction="none"))
    theta = start(sage)
    assert set(theta) == {"self1", "bias1", "self2", "bias2"}
    hidden = torch.relu(theta["self1"] + theta["bias1"])  # a row for each type
    by_type = (hidden @ theta["self2"] + theta["bias2"]).numpy()
    np.testing.assert_allclose(embed(sage, theta, two), by_type[two.device_type], **CLOSE)


def test_two_rules_between_two_devices_weigh_twice():
    home = ToyHome(1, ("ContactSensor", "MotionSensor", "Light"))
    rules = (("ContactSensor", 0, "Light"), ("ContactSensor", 3, "Light"), ("MotionSensor", 1, "Light"))
    homes = toy_homes([home._replace(rules=rules)])
    sage = Sage(sizes_of(homes))
    theta = start(sage)
    # The light hears the contact sensor twice and the motion sensor once; nobody reaches the sensors.
    sensors = [torch.relu(theta["self1"][kind] + theta["bias1"]) for kind in (0, 2)]
    heard = (2 * theta["in1"][0] + theta["in1"][2]) / 3
    light = torch.relu(theta["self1"][1] + heard + theta["bias1"])
    second = (2 * sensors[0] + sensors[1]) / 3
    expected = light @ theta["self2"] + second @ theta["in2"] + theta["bias2"]
    np.testing.assert_allclose(embed(sage, theta, homes)[2], expected.numpy(), **CLOSE)


def test_a_rule_of_a_device_with_itself_is_a_message_to_itself(two):
    sage = Sage(sizes_of(two))
    theta = start(sage)
    hidden = torch.relu(theta["self1"][0] + theta["in1"][0] + theta["bias1"])
    expected = hidden @ (theta["self2"] + theta["in2"]) + theta["bias2"]
    np.testing.assert_allclose(embed(sage, theta, two)[3], expected.numpy(), **CLOSE)


@pytest.mark.parametrize("direction", ["in", "out", "both"])
def test_only_messages_that_carry_the_relation_change_with_it(two, direction):
    rules = two.rules
    other = replace(two, rules=Rules(rules.home, rules.trigger, rules.action, np.array([1, 0, 2, 2])))
    deaf = Sage(sizes_of(two, direction=direction))
    heard = Sage(sizes_of(two, direction=direction, messages="relation"))
    theta = start(heard)
    np.testing.assert_array_equal(embed(deaf, theta, two), embed(deaf, theta, other))
    changed = np.any(embed(heard, theta, two) != embed(heard, theta, other), axis=1)
    # The relation from the sensor to lamp 0 is another one, which lamp 0 hears and lamp 1 hears from lamp 0.
    assert (
        changed.tolist()
        == {
            "in": [True, True, False, False],
            "out": [False, False, True, False],
            "both": [True, True, True, False],
        }[direction]
    )


def test_a_relation_adds_its_mean_to_what_a_device_hears(two):
    sage = Sage(sizes_of(two, messages="relation"))
    theta = start(sage)
    heard = (theta["in1"][0] + theta["relation_in1"][2] + theta["in1"][1] + theta["relation_in1"][0]) / 2
    first = [
        theta["self1"][0] + theta["in1"][1] + theta["relation_in1"][0],
        theta["self1"][0] + heard,
        theta["self1"][1],
    ]
    first = [torch.relu(state + theta["bias1"]) for state in first]
    heard = ((first[0] + first[2]) @ theta["in2"] + theta["relation_in2"][2] + theta["relation_in2"][0]) / 2
    expected = first[1] @ theta["self2"] + heard + theta["bias2"]
    np.testing.assert_allclose(embed(sage, theta, two)[1], expected.numpy(), **CLOSE)


def test_a_node_embedding_tells_devices_of_one_type_apart():
    homes = toy_homes([ToyHome(1, ("Light", "Light", "Plug"))])
    plain_sage, told_apart = Sage(sizes_of(homes)), Sage(sizes_of(homes, node_embedding=2))
    same = embed(plain_sage, start(plain_sage), homes)
    np.testing.assert_array_equal(same[0], same[1])
    theta = start(told_apart)
    apart = embed(told_apart, theta, homes)
    assert not np.allclose(apart[0], apart[1])
    # x = [one-hot Light ; row 1 of the embedding] for the second light.
    x = torch.cat([torch.eye(5, dtype=torch.float64)[1], theta["place"][1]])
    expected = torch.relu(x @ theta["self1"] + theta["bias1"]) @ theta["self2"] + theta["bias2"]
    np.testing.assert_allclose(apart[1], expected.numpy(), **CLOSE)


def test_further_devices_of_a_type_share_the_last_place():
    homes = toy_homes([ToyHome(1, ("Light",) * (MAX_PLACES + 2))])
    sage = Sage(sizes_of(homes, node_embedding=2))
    z = embed(sage, start(sage), homes)
    np.testing.assert_array_equal(z[MAX_PLACES - 1 :], z[[-1] * 3])
    assert not np.allclose(z[MAX_PLACES - 2], z[-1])


def test_dropout_repeats_with_its_seed_and_is_off_without_one(two):
    sage = Sage(sizes_of(two, dropout=0.5))
    theta = start(sage)
    np.testing.assert_array_equal(embed(sage, theta, two, Dropout(1)), embed(sage, theta, two, Dropout(1)))
    assert not np.allclose(embed(sage, theta, two, Dropout(1)), embed(sage, theta, two, Dropout(2)))
    np.testing.assert_array_equal(embed(sage, theta, two), embed(Sage(sizes_of(two)), theta, two))


def test_dropout_keeps_the_expected_value():
    hidden = torch.full((200, 100), 3.0)
    found = Dropout(0)(hidden, 0.25)
    assert set(found.unique().tolist()) == {0.0, 4.0}  # 3 / (1 - 0.25)
    # 20,000 draws of 4 with generator 3/4: standard error 4 sqrt(3/16) / sqrt(20,000) = 0.012.
    assert found.mean().item() == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"node_embedding": -1}, "node_embedding must be at least 0, got -1"),
        ({"direction": "inn"}, "unknown direction 'inn'; did you mean 'in'"),
        ({"messages": "relations"}, "unknown messages 'relations'; did you mean 'relation'"),
        ({"self_loops": True}, r"encoder 'sage' has no self_loops, got True; leave it at False"),
        ({"heads": 2}, r"encoder 'sage' has no heads, got 2; leave it at 1"),
    ],
)
def test_sizes_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        Sage(Sizes(n_types=2, n_relations=3, **wrong))
