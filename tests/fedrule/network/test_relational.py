"""R-GCN and HGT against torch-geometric's own layers, DistMult against its sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from baselines.contract import ToyHome, all_pairs, toy_homes
from datasets import DataError, Rules
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
geometric = pytest.importorskip("torch_geometric.nn", reason="the graph formulation needs the extra graph")

from fedrule.methods.relational import DistMult  # noqa: E402
from fedrule.network.batch import GraphBatch  # noqa: E402
from fedrule.network.encoders import Dropout, Sizes  # noqa: E402
from fedrule.network.network import Network  # noqa: E402
from fedrule.network.relational import Hgt, Rgcn  # noqa: E402

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
EVERY_WAY = pytest.mark.parametrize("direction", ["in", "out", "both"])
HIDDEN = 4


def sizes_of(homes, **others):
    return Sizes(n_types=len(homes.types), n_relations=len(homes.relations), hidden=HIDDEN, **others)


def start(encoder, seed=0):
    initial = encoder.initial(torch.Generator().manual_seed(seed))
    return {name: value.double() for name, value in initial.items()}


def embed(encoder, theta, homes, dropout=None):
    return encoder.embed(theta, GraphBatch.of(homes), dropout).numpy()


def messages(homes, direction):
    """Sender, receiver and edge type of each message; along rules the relation, against them that of its inverse."""
    trigger, action, relation = (
        torch.tensor(c) for c in (homes.rules.trigger, homes.rules.action, homes.rules.relation)
    )
    along, against = (trigger, action, relation), (action, trigger, relation + len(homes.relations))
    ways = {"in": [along], "out": [against], "both": [along, against]}[direction]
    return tuple(torch.cat(column) for column in zip(*ways, strict=True))


def of_edge_types(theta, name, layer):
    """The weights of relations and of their inverses, one after the other; zeros where no message is of such a type."""
    ways = {way: theta.get(f"relation_{name}{way}{layer}") for way in ("in", "out")}
    some = next(value for value in ways.values() if value is not None)
    return torch.cat([torch.zeros_like(some) if value is None else value for value in ways.values()])


@EVERY_WAY
@given(homes=random_homes(min_homes=1, bare=False))  # torch-geometric's refuses graphs without an edge
@settings(max_examples=15)
def test_rgcn_is_two_of_torch_geometrics_layers(direction, homes):
    rgcn = Rgcn(sizes_of(homes, direction=direction, num_bases=3))
    theta = start(rgcn)
    sender, receiver, kind = messages(homes, direction)
    x = torch.eye(len(homes.types), dtype=torch.float64)[torch.tensor(homes.device_type)]
    for layer in (1, 2):
        conv = geometric.RGCNConv(x.shape[1], HIDDEN, 2 * len(homes.relations), num_bases=3).double()
        bases = theta[f"bases{layer}"].view(-1, 3, HIDDEN).transpose(0, 1)  # [n_bases, inputs, outputs]
        own = {"weight": bases, "comp": of_edge_types(theta, "", layer)}
        conv.load_state_dict(own | {"root": theta[f"self{layer}"], "bias": theta[f"bias{layer}"]})
        with torch.no_grad():
            x = conv(x, torch.stack([sender, receiver]), kind)
        x = torch.relu(x) if layer == 1 else x
    np.testing.assert_allclose(embed(rgcn, theta, homes), x.numpy(), **CLOSE)


def test_rgcn_takes_the_mean_over_devices_of_each_relation():
    # Two sensors open a light (relation 0), a third device moves it (relation 1): with one basis of ones, a_0 = 2 and
    # a_1 = 3, states 1, 1 and 5 come in as 2 (1 + 1) / 2 + 3 * 5 = 17, and the light's own state 7 is added.
    homes = toy_homes([ToyHome(1, ("Light", "ContactSensor", "ContactSensor", "MotionSensor"))])
    homes = replace(homes, rules=Rules(*np.array([[0, 0, 0], [1, 2, 3], [0, 0, 0], [0, 0, 1]])))
    rgcn = Rgcn(Sizes(len(homes.types), len(homes.relations), hidden=1, num_bases=1))
    state = torch.zeros(len(homes.types), 1, dtype=torch.float64)
    state[torch.tensor(homes.device_type), 0] = torch.tensor([7.0, 1.0, 1.0, 5.0], dtype=torch.float64)
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    coefficients = torch.tensor([[2.0], [3.0], [0.0], [0.0]], dtype=torch.float64)
    theta = {"self1": state, "bases1": state, "bias1": zero, "relation_in1": coefficients}
    theta |= {"self2": one, "bases2": one, "bias2": zero, "relation_in2": 0 * coefficients}
    assert embed(rgcn, theta, homes)[:, 0].tolist() == [24, 1, 1, 5]  # 7 + 17


def hgt_layer(theta, layer, homes, direction, heads, x):
    """A layer of torch-geometric with the same weights for all entity types at the ends of a relation."""
    sender, receiver, kind = messages(homes, direction)
    device_type = torch.tensor(homes.device_type)
    names = [str(number) for number in range(len(homes.types))]
    owned = torch.unique(device_type).tolist()
    triples = torch.unique(torch.stack([device_type[sender], kind, device_type[receiver]]), dim=1).T.tolist()
    edge_types = [(names[s], f"r{r}", names[t]) for s, r, t in triples]
    conv = geometric.HGTConv(HIDDEN, HIDDEN, (names, edge_types), heads=heads).double()
    attention, message, prior = (of_edge_types(theta, f"{n}_", layer) for n in ("attention", "message", "prior"))
    with torch.no_grad():
        for number, name in enumerate(names):
            conv.kqv_lin.lins[name].weight.copy_(theta[f"type_project{layer}"][number].T)
            conv.kqv_lin.lins[name].bias.copy_(theta[f"type_project_bias{layer}"][number])
            conv.out_lin.lins[name].weight.copy_(theta[f"type_out{layer}"][number].T)
            conv.out_lin.lins[name].bias.copy_(theta[f"type_out_bias{layer}"][number])
            conv.skip[name].fill_(float(theta[f"type_gate{layer}"][number]))
        for place, (edge_type, (_, r, _)) in enumerate(zip(edge_types, triples, strict=True)):
            for head in range(heads):  # torch-geometric has the types of the first head first
                conv.k_rel.weight[head * len(edge_types) + place] = attention[r, head]
                conv.v_rel.weight[head * len(edge_types) + place] = message[r, head]
            conv.p_rel["__".join(edge_type)].copy_(prior[r][None])
        within = torch.zeros(homes.n_devices, dtype=torch.int64)
        for number in owned:
            within[device_type == number] = torch.arange(int((device_type == number).sum()))
        edges = {
            edge_type: torch.stack([within[sender[of]], within[receiver[of]]])
            for edge_type, (s, r, t) in zip(edge_types, triples, strict=True)
            for of in [(device_type[sender] == s) & (kind == r) & (device_type[receiver] == t)]
        }
        found = conv({names[number]: x[device_type == number] for number in owned}, edges)
    out = x.clone()
    for name, state in found.items():
        out[device_type == int(name)] = state
    return out, {int(name) for name in found}


@EVERY_WAY
@pytest.mark.parametrize("heads", [1, 2])
@given(homes=random_homes(min_homes=1, bare=False))
@settings(max_examples=10)
def test_hgt_is_two_of_torch_geometrics_layers(direction, heads, homes):
    """Of devices whose type no message reaches, which torch-geometric leaves out, the layer is the formula below."""
    hgt = Hgt(sizes_of(homes, direction=direction, heads=heads))
    theta = {name: value + 0.1 * torch.rand_like(value) for name, value in start(hgt).items()}  # no prior or gate is 1
    x = theta["type_state"][torch.tensor(homes.device_type)]
    for layer in (1, 2):
        before, (x, reached) = x, hgt_layer(theta, layer, homes, direction, heads, x)
        for device in np.flatnonzero(~np.isin(homes.device_type, list(reached))):
            kind = homes.device_type[device]
            gate = torch.sigmoid(theta[f"type_gate{layer}"][kind])
            x[device] = gate * theta[f"type_out_bias{layer}"][kind] + (1 - gate) * before[device]
    np.testing.assert_allclose(embed(hgt, theta, homes), x.numpy(), **CLOSE)


@pytest.mark.parametrize("kind", [Rgcn, Hgt])
def test_a_node_embedding_tells_devices_of_one_type_apart(kind):
    homes = toy_homes([ToyHome(1, ("Light", "Light", "Plug"))])
    for size in (0, 2):
        encoder = kind(sizes_of(homes, node_embedding=size))
        first, second, _ = embed(encoder, start(encoder), homes)
        assert np.allclose(first, second) is (size == 0)


@pytest.mark.parametrize("kind", [Rgcn, Hgt])
def test_the_relation_of_a_rule_and_its_direction_matter(kind):
    owned, rule = ("ContactSensor", "Light"), ("ContactSensor", 0, "Light")
    first = toy_homes([ToyHome(1, owned, (rule,))])
    other = toy_homes([ToyHome(1, owned, (("ContactSensor", 1, "Light"),))])
    back = toy_homes([ToyHome(1, owned, (("Light", 0, "ContactSensor"),))])
    encoder = kind(sizes_of(first, direction="both"))
    theta = start(encoder)
    found = [embed(encoder, theta, homes) for homes in (first, other, back)]
    assert not np.isclose(found[0], found[1]).all(axis=1).any()
    assert not np.isclose(found[0], found[2]).all(axis=1).any()


@pytest.mark.parametrize("kind", [Rgcn, Hgt])
def test_dropout_repeats_with_its_seed_and_is_off_without_one(two, kind):
    encoder = kind(sizes_of(two, dropout=0.5))
    theta = start(encoder)
    np.testing.assert_array_equal(embed(encoder, theta, two, Dropout(1)), embed(encoder, theta, two, Dropout(1)))
    assert not np.allclose(embed(encoder, theta, two, Dropout(1)), embed(encoder, theta, two, Dropout(2)))
    np.testing.assert_array_equal(embed(encoder, theta, two), embed(kind(sizes_of(two)), theta, two))


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (Rgcn, {"messages": "relation"}, "encoder 'rgcn' has no messages, got 'relation'; leave it at 'type'"),
        (Rgcn, {"heads": 2}, "encoder 'rgcn' has no heads, got 2; leave it at 1"),
        (Rgcn, {"self_loops": True}, "encoder 'rgcn' has no self_loops"),
        (Rgcn, {"num_bases": 0}, "num_bases must be at least 1, got 0"),
        (Hgt, {"messages": "relation"}, "encoder 'hgt' has no messages"),
        (Hgt, {"heads": 3}, "encoder 'hgt': hidden 4 is not divisible by heads 3"),
        (Hgt, {"direction": "none"}, "encoder 'hgt': direction 'none' leaves nothing to attend to"),
    ],
)
def test_what_it_has_no_use_for_is_refused(two, kind, wrong, message):
    with pytest.raises(DataError, match=message):
        kind(sizes_of(two, **wrong))


def test_distmult_is_a_sum_of_products_of_three(two):
    network = DistMult(sizes_of(two), "rgcn")
    parameters = {name: value.double() for name, value in network.initial(torch.Generator().manual_seed(3)).items()}
    parameters["phi.diagonal_bias"] += torch.arange(len(two.relations))
    z = network.embed(parameters, GraphBatch.of(two))
    trigger, action = (torch.tensor(device) for device in all_pairs(two))
    found = network.logits(parameters, z, trigger, action).numpy()
    weight = parameters["phi.diagonal"].numpy()
    for row, (i, j) in enumerate(zip(trigger.tolist(), action.tolist(), strict=True)):
        for r in range(len(two.relations)):
            expected = r + sum(float(z[i, k]) * weight[r, k] * float(z[j, k]) for k in range(HIDDEN))
            assert found[row, r] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    relation = torch.arange(len(trigger)) % len(two.relations)
    single = network.logits_of(parameters, z, trigger, action, relation).numpy()
    np.testing.assert_allclose(single, found[np.arange(len(trigger)), relation.numpy()], **CLOSE)


def test_distmult_has_no_hidden_units_and_is_not_the_papers_network():
    with pytest.raises(DataError, match="decoder 'distmult' has no hidden units; set predictor_hidden 8 to 0"):
        DistMult(Sizes(2, 3), "rgcn", 8)
    assert Network(Sizes(2, 3)).is_papers
    assert not DistMult(Sizes(2, 3)).is_papers
