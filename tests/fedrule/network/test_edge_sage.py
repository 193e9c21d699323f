"""GraphSAGE on the states and actions of a device's rules, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from baselines.contract import RELATIONS, ToyHome, toy_homes
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")

from fedrule.evidence.counts import ColumnReader  # noqa: E402
from fedrule.network.batch import GraphBatch  # noqa: E402
from fedrule.network.edge_sage import EdgeSage, EdgeSageNetwork, RelationHalves  # noqa: E402
from fedrule.network.encoders import Sizes  # noqa: E402

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def halves_of(homes, learned=None):
    reader = ColumnReader.of(homes.types, homes.relations)
    return RelationHalves.of(reader, np.ones(len(homes.relations), dtype=bool) if learned is None else learned)


def encoder_of(homes, halves, **others):
    sizes = Sizes(len(homes.types), len(homes.relations), hidden=3, **others)
    return EdgeSage(sizes, halves, first_hidden=5, edge_embedding=2)


def start(encoder):
    return {name: value.double() for name, value in encoder.initial(torch.Generator().manual_seed(1)).items()}


def embed(encoder, theta, homes):
    return encoder.embed(theta, GraphBatch.of(homes), None).numpy()


def by_loops(theta, homes, halves, ways):
    """The layers device by device and rule by rule."""
    theta = {name: value.numpy() for name, value in theta.items()}
    rules = [
        (trigger, action, relation)
        for trigger, action, relation in zip(homes.rules.trigger, homes.rules.action, homes.rules.relation, strict=True)
        if halves.learned[relation]
    ]
    hidden = []
    for device, kind in enumerate(homes.device_type):
        one_hot = np.eye(len(homes.types))[kind]
        states = sum((theta["state"][halves.state[r]] for t, _, r in rules if t == device), np.zeros(2))
        acts = sum((theta["act"][halves.act[r]] for _, a, r in rules if a == device), np.zeros(2))
        hidden.append(np.concatenate([one_hot, states, acts]))
    for layer in (1, 2):
        out = []
        for device in range(homes.n_devices):
            total = hidden[device] @ theta[f"self{layer}"] + theta[f"bias{layer}"]
            for way in ways:
                heard = [hidden[t] for t, a, _ in rules if a == device] if way == "in" else []
                heard += [hidden[a] for t, a, _ in rules if t == device] if way == "out" else []
                if heard:
                    total = total + np.mean(heard, axis=0) @ theta[f"{way}{layer}"]
            out.append(np.maximum(total, 0) if layer == 1 else total)
        hidden = out
    return np.array(hidden).reshape(-1, 3)


@pytest.mark.parametrize(("direction", "ways"), [("in", ("in",)), ("both", ("in", "out")), ("none", ())])
@given(homes=random_homes())
@settings(max_examples=15)
def test_it_is_the_formula(direction, ways, homes):
    halves = halves_of(homes, np.arange(len(homes.relations)) % 3 != 1)
    encoder = encoder_of(homes, halves, direction=direction)
    theta = start(encoder)
    np.testing.assert_allclose(embed(encoder, theta, homes), by_loops(theta, homes, halves, ways), **CLOSE)


def test_relations_with_the_same_state_share_its_embedding():
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light"), (("ContactSensor", 0, "Light"),))])
    # Open -> Power On, Motion -> Power On, No Motion -> Power Off, Open -> Ring
    halves = halves_of(homes)
    assert [relation.trigger for relation in RELATIONS] == ["Open", "Motion", "No Motion", "Open"]
    assert halves.state.tolist() == [0, 1, 2, 0]
    assert halves.act.tolist() == [0, 0, 1, 2]
    assert (halves.n_states, halves.n_acts) == (3, 3)
    encoder = encoder_of(homes, halves)
    theta = start(encoder)
    sums = encoder.edge_sums(theta, GraphBatch.of(homes))
    assert sums[0].tolist() == [*theta["state"][0].tolist(), 0, 0]  # the sensor triggers by Open
    assert sums[1].tolist() == [0, 0, *theta["act"][0].tolist()]  # the light is switched on


def test_numbers_of_states_stay_when_relations_are_added():
    homes = toy_homes([ToyHome(1, ("Light",))])
    before = halves_of(homes.with_vocabulary(homes.types, RELATIONS[:2]))
    after = halves_of(homes.with_vocabulary(homes.types, (*RELATIONS[:2], ("A first state", "An act"))))
    assert after.state.tolist() == [*before.state.tolist(), 2]
    assert after.act.tolist() == [*before.act.tolist(), 1]


def test_it_is_not_taken_for_the_papers_network():
    homes = toy_homes([ToyHome(1, ("Light",))])
    network = EdgeSageNetwork(
        Sizes(len(homes.types), len(homes.relations)), halves=halves_of(homes), first_hidden=8, edge_embedding=4
    )
    assert not network.is_papers
    assert "theta.state" in network.initial(torch.Generator())
