"""Homes as one graph: who hears from whom, and means over messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from datasets import Rules
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.network.batch import Edges, GraphBatch  # noqa: E402


def test_messages_go_along_rules_and_back(two):
    packed = GraphBatch.of(two)
    # Ann's sensor (2) acts on her lamps (0, 1), lamp 0 on lamp 1; Bob's lamp (3) acts on itself.
    assert packed.incoming.sender.tolist() == packed.outgoing.receiver.tolist() == [2, 2, 0, 3]
    assert packed.incoming.receiver.tolist() == packed.outgoing.sender.tolist() == [0, 1, 1, 3]
    assert packed.incoming.relation.tolist() == packed.outgoing.relation.tolist() == [0, 0, 2, 2]
    assert (packed.n_homes, packed.n_devices) == (2, 4)


def test_a_device_gets_the_mean_of_its_messages_and_zeros_where_none_reaches_it(two):
    packed = GraphBatch.of(two)
    state = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    # In: lamp 0 hears 4, lamp 1 hears 4 and 1, the sensor nothing, Bob's lamp itself.
    assert packed.incoming.mean(state[packed.incoming.sender]).flatten().tolist() == [4, 2.5, 0, 8]
    # Out: lamp 0 hears lamp 1, which hears nothing; the sensor hears 1 and 2.
    assert packed.outgoing.mean(state[packed.outgoing.sender]).flatten().tolist() == [2, 0, 1.5, 8]


def test_two_rules_between_the_same_devices_are_two_messages():
    sender, receiver = torch.tensor([0, 0, 1]), torch.tensor([2, 2, 2])
    edges = Edges.of(sender, receiver, torch.tensor([0, 1, 0]), 3)
    # (1 + 1 + 4) / 3
    assert edges.mean(torch.tensor([[1.0], [1.0], [4.0]]))[2].item() == pytest.approx(2)


@given(random_homes())
def test_means_are_exact_in_double_precision(homes):
    packed = GraphBatch.of(homes)
    state = torch.rand(homes.n_devices, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = np.zeros((homes.n_devices, 2))
    for device in range(homes.n_devices):
        heard = [state[t].numpy() for t, a in zip(homes.rules.trigger, homes.rules.action, strict=True) if a == device]
        if heard:
            expected[device] = np.mean(heard, axis=0)
    found = packed.incoming.mean(state[packed.incoming.sender])
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14, atol=1e-15)


@given(random_homes(twins=True))
def test_devices_of_a_type_are_numbered_within_their_home(homes):
    seen: dict[tuple[int, int], int] = {}
    expected = []
    for key in zip(homes.device_home.tolist(), homes.device_type.tolist(), strict=True):
        expected.append(seen.get(key, 0))
        seen[key] = expected[-1] + 1
    assert GraphBatch.of(homes).place.tolist() == expected


def test_messages_go_along_other_rules_if_asked(two):
    one = Rules(np.array([0]), np.array([1]), np.array([2]), np.array([1]))
    packed = GraphBatch.of(two, one)
    assert packed.incoming.sender.tolist() == [1]
    assert packed.incoming.receiver.tolist() == [2]
    assert packed.n_devices == 4


def test_tensors_are_copies(two):
    before = two.fingerprint
    packed = GraphBatch.of(two)
    for tensor in (packed.home, packed.type, packed.incoming.sender, packed.incoming.relation):
        tensor.add_(1)
    assert two.fingerprint == before


def test_homes_without_devices_pack(two):
    packed = GraphBatch.of(two.subset(np.zeros(0, dtype=np.int64)))
    assert (packed.n_homes, packed.n_devices) == (0, 0)
    assert packed.incoming.mean(torch.zeros(0, 3)).shape == (0, 3)
