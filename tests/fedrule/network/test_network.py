"""The network: its parameters, its predictor, and that homes packed together do not see each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.contract import ToyHome, all_pairs, planted_homes, toy_homes
from datasets import DataError, Rules
from datasets.common.errors import UnknownName
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.network.batch import GraphBatch  # noqa: E402
from fedrule.network.encoders import Dropout, Sizes  # noqa: E402
from fedrule.network.network import ENCODERS, Network  # noqa: E402

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
KINDS = [
    ("sage", {}),
    ("sage", {"messages": "relation", "direction": "both", "node_embedding": 2}),
    ("gcn", {}),
    ("gcn", {"self_loops": True, "direction": "both"}),
    ("gat", {"heads": 2}),
    ("gat", {"self_loops": True, "node_embedding": 2}),
    ("rgcn", {"direction": "both", "node_embedding": 2, "num_bases": 2}),
    ("hgt", {"direction": "both", "node_embedding": 2, "heads": 2}),
    ("compgcn", {}),
    ("compgcn", {"direction": "both", "node_embedding": 2}),
]
EVERY_KIND = pytest.mark.parametrize(("encoder", "others"), KINDS)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def network_of(homes, encoder="sage", **others):
    return Network(Sizes(len(homes.types), len(homes.relations), hidden=4, **others), encoder)


def start(network, seed=0):
    return {name: value.double() for name, value in network.initial(generator(seed)).items()}


def busy_home():
    """A home where every device acts on every other one, so that whatever can be learned is heard."""
    owned = ("ContactSensor", "Light", "Light", "MotionSensor", "Plug", "Siren")
    homes = toy_homes([ToyHome(1, owned)])
    trigger, action = all_pairs(homes)
    return replace(homes, rules=Rules(0 * trigger, trigger, action, np.arange(len(trigger)) % 4))


def embed(network, parameters, homes):
    return network.embed(parameters, GraphBatch.of(homes)).numpy()


def test_the_papers_network_has_33_007_parameters():
    # 11 types, 163 relations, hidden 16: theta^1 2 * 11 * 16 + 16 = 368, theta^2 2 * 16 * 16 + 16 = 528,
    # phi^1 2 * 16 * 163 + 163 = 5,379, phi^2 163 * 163 + 163 = 26,732.
    parameters = Network(Sizes(n_types=11, n_relations=163)).initial(generator())
    assert sum(value.numel() for value in parameters.values()) == 368 + 528 + 5_379 + 26_732 == 33_007
    assert {name.partition(".")[0] for name in parameters} == {"theta", "phi"}


def test_the_predictor_is_two_linear_layers_on_both_embeddings():
    network = Network(Sizes(n_types=3, n_relations=7, hidden=4), predictor_hidden=5)
    parameters = start(network)
    first, second = torch.nn.Linear(8, 5).double(), torch.nn.Linear(5, 7).double()
    with torch.no_grad():
        first.weight.copy_(torch.cat([parameters["phi.trigger"], parameters["phi.action"]]).T)
        first.bias.copy_(parameters["phi.hidden_bias"])
        second.weight.copy_(parameters["phi.relation"])
        second.bias.copy_(parameters["phi.relation_bias"])
    z = torch.randn(6, 4, dtype=torch.float64, generator=generator(1))
    trigger, action = torch.tensor([0, 1, 1, 5]), torch.tensor([1, 0, 1, 2])
    with torch.no_grad():
        expected = second(torch.relu(first(torch.cat([z[trigger], z[action]], dim=1))))
    found = network.logits(parameters, z, trigger, action)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), **CLOSE)
    relation = torch.tensor([6, 0, 3, 3])
    one_each = network.logits_of(parameters, z, trigger, action, relation)
    np.testing.assert_allclose(one_each.numpy(), expected[range(4), relation].numpy(), **CLOSE)
    plain = network.plain_logits_of(parameters, z, trigger, action, relation)
    np.testing.assert_allclose(plain.numpy(), one_each.numpy(), **CLOSE)


def test_a_pair_of_devices_is_ordered():
    network = Network(Sizes(n_types=3, n_relations=7))
    parameters = start(network)
    z = torch.randn(2, 16, dtype=torch.float64, generator=generator(1))
    there, back = network.logits(parameters, z, torch.tensor([0, 1]), torch.tensor([1, 0]))
    assert not torch.allclose(there, back)


@EVERY_KIND
@given(homes=random_homes(min_homes=1))
@settings(max_examples=15)
def test_homes_packed_together_do_not_see_each_other(encoder, others, homes):
    network = network_of(homes, encoder, **others)
    parameters = start(network)
    alone = [embed(network, parameters, homes.subset(np.array([home]))) for home in range(homes.n_homes)]
    np.testing.assert_allclose(embed(network, parameters, homes), np.concatenate(alone), **CLOSE)


@pytest.mark.parametrize(("encoder", "others"), [(e, o) for e, o in KINDS if "node_embedding" not in o])
@given(homes=random_homes(), data=st.data())
@settings(max_examples=15)
def test_the_order_of_devices_changes_nothing(encoder, others, homes, data):
    network = network_of(homes, encoder, **others)
    parameters = start(network)
    draws = data.draw(st.lists(st.floats(0, 1), min_size=homes.n_devices, max_size=homes.n_devices))
    order = np.lexsort((np.array(draws), homes.device_home))  # any order within each home
    new_place = np.argsort(order)
    rules = homes.rules
    shuffled = replace(
        homes,
        device_type=homes.device_type[order],
        device_ids=homes.device_ids[order],
        rules=Rules(rules.home, new_place[rules.trigger], new_place[rules.action], rules.relation),
    )
    np.testing.assert_allclose(embed(network, parameters, shuffled), embed(network, parameters, homes)[order], **CLOSE)


@EVERY_KIND
def test_no_number_comes_from_torchs_own_generator(encoder, others):
    homes = planted_homes()
    network = network_of(homes, encoder, dropout=0.3, **others)
    state = torch.get_rng_state()
    parameters = network.initial(generator())
    first = network.embed(parameters, GraphBatch.of(homes), Dropout(1))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(12345)
    again = network.initial(generator())
    assert list(again) == list(parameters)
    assert all(torch.equal(again[name], parameters[name]) for name in parameters)
    assert torch.equal(network.embed(again, GraphBatch.of(homes), Dropout(1)), first)
    torch.set_rng_state(state)


@EVERY_KIND
def test_single_and_double_precision_agree(encoder, others):
    homes = planted_homes()
    network = network_of(homes, encoder, **others)
    trigger, action = (torch.tensor(device) for device in all_pairs(homes))
    packed, found = GraphBatch.of(homes), {}
    for dtype in (torch.float32, torch.float64):
        parameters = {name: value.to(dtype) for name, value in network.initial(generator()).items()}
        found[dtype] = network.logits(parameters, network.embed(parameters, packed), trigger, action)
        assert found[dtype].dtype == dtype
    np.testing.assert_allclose(found[torch.float32].numpy(), found[torch.float64].numpy(), rtol=1e-4, atol=1e-5)


@EVERY_KIND
def test_every_parameter_is_learned_and_none_is_changed_on_the_way(encoder, others):
    homes = busy_home()
    network = network_of(homes, encoder, **others)
    parameters = {name: value.requires_grad_() for name, value in start(network).items()}
    before = {name: value.detach().clone() for name, value in parameters.items()}
    z = network.embed(parameters, GraphBatch.of(homes))
    trigger, action = (torch.tensor(device) for device in all_pairs(homes))
    network.logits(parameters, z, trigger, action).square().mean().backward()
    for name, value in parameters.items():
        assert value.grad is not None, name
        assert value.grad.isfinite().all(), name
        assert value.grad.any(), name
        assert torch.equal(value.detach(), before[name]), name


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_homes_without_rules_and_without_devices_have_embeddings(two, encoder):
    network = network_of(two, encoder)
    parameters = start(network)
    assert np.isfinite(embed(network, parameters, two.with_rules(np.zeros(0, dtype=np.int64)))).all()
    assert embed(network, parameters, two.subset(np.zeros(0, dtype=np.int64))).shape == (0, 4)


def test_an_unknown_encoder_is_refused_with_a_guess():
    with pytest.raises(
        UnknownName, match=r"unknown encoder 'sagee'; did you mean 'sage'\? Known: compgcn, gat, gcn, hgt, rgcn, sage"
    ):
        Network(Sizes(2, 3), "sagee")


def test_sizes_are_refused_when_the_network_is_described():
    with pytest.raises(DataError, match="encoder 'gcn' has no messages"):
        Network(Sizes(2, 3, messages="relation"), "gcn")
    with pytest.raises(DataError, match=r"predictor_hidden must be at least 0 .*, got -1"):
        Network(Sizes(2, 3), predictor_hidden=-1)
