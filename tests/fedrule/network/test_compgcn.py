"""CompGCN against loops over devices and rules, and ComplEx against products of complex numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.contract import ToyHome, all_pairs, toy_homes
from datasets import DataError
from datasets.common.errors import UnknownName
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")

from fedrule.network.batch import GraphBatch  # noqa: E402
from fedrule.network.compgcn import CompGcn, correlation  # noqa: E402
from fedrule.network.complex_decoder import ComplexNetwork  # noqa: E402
from fedrule.network.encoders import Sizes  # noqa: E402

COMPOSITIONS = ["subtract", "multiply", "correlate"]
DIRECTIONS = ["in", "out", "both", "none"]
CLOSE = {"rtol": 1e-9, "atol": 1e-12}
RULES = (("ContactSensor", 0, "Light"), ("ContactSensor", 1, "Plug"), ("Plug", 2, "Light"))


def network_of(homes, composition="subtract", **others):
    sizes = Sizes(len(homes.types), len(homes.relations), hidden=4, **{"direction": "both", **others})
    return ComplexNetwork(CompGcn(sizes, composition))


def start(network, seed=0):
    drawn = network.initial(torch.Generator().manual_seed(seed))
    return {name: value.double() for name, value in drawn.items()}


def plain_correlation(a, b):
    return np.array([sum(a[i] * b[(i + k) % len(a)] for i in range(len(a))) for k in range(len(a))])


COMPOSE = {"subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "correlate": plain_correlation}


def plain_embeddings(theta, homes, composition, direction):
    """The equations of the module, device by device and rule by rule."""
    phi = COMPOSE[composition]
    h = [theta["device"][kind] for kind in homes.device_type]
    z = {way: theta.get(f"relation_{way}") for way in ("in", "out")}
    itself = theta["itself"]
    rules = list(zip(homes.rules.trigger, homes.rules.relation, homes.rules.action, strict=True))
    for layer in (1, 2):
        after = []
        for v in range(homes.n_devices):
            parts = [phi(h[v], itself) @ theta[f"message_self{layer}"]]
            arriving = [phi(h[u], z["in"][r]) for u, r, to in rules if to == v and direction in ("in", "both")]
            leaving = [phi(h[u], z["out"][r]) for by, r, u in rules if by == v and direction in ("out", "both")]
            for way, messages in (("in", arriving), ("out", leaving)):
                if messages:
                    parts.append(np.mean([m @ theta[f"message_{way}{layer}"] for m in messages], axis=0))
            ways = {"both": 3, "none": 1}.get(direction, 2)
            out = sum(parts) / ways + theta[f"bias{layer}"]
            after.append(np.tanh(out) if layer == 1 else out)
        h = after
        if layer == 1:
            z = {way: None if states is None else states @ theta["update1"] for way, states in z.items()}
            itself = itself @ theta["update1"]
    return np.array(h).reshape(homes.n_devices, len(itself))


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=10)
@given(homes=random_homes(min_homes=1))
def test_embeddings_are_those_of_the_equations(composition, direction, homes):
    network = network_of(homes, composition, direction=direction)
    parameters = start(network)
    theta = {name.removeprefix("theta."): value.numpy() for name, value in parameters.items()}
    expected = plain_embeddings(theta, homes, composition, direction)
    np.testing.assert_allclose(network.embed(parameters, GraphBatch.of(homes)).numpy(), expected, **CLOSE)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_scores_are_real_parts_of_products_of_complex_vectors(composition):
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light", "Plug"), RULES)])
    network = network_of(homes, composition)
    parameters = start(network)
    z = network.embed(parameters, GraphBatch.of(homes))
    trigger, action = all_pairs(homes)
    found = network.logits(parameters, z, torch.tensor(trigger), torch.tensor(action)).numpy()
    w = (parameters["theta.relation_in"] @ parameters["theta.update1"] @ parameters["phi.update"]).numpy()
    as_complex = z.numpy()[:, :2] + 1j * z.numpy()[:, 2:]
    relations = w[:, :2] + 1j * w[:, 2:]
    for pair, (i, j) in enumerate(zip(trigger, action, strict=True)):
        for r in range(len(homes.relations)):
            expected = (as_complex[i] * relations[r] * as_complex[j].conj()).sum().real
            assert found[pair, r] == pytest.approx(expected)
            one = (torch.tensor([number]) for number in (i, j, r))
            assert network.logits_of(parameters, z, *one).item() == pytest.approx(expected)


def test_the_score_tells_trigger_from_action():
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light"))])
    network = network_of(homes)
    parameters = start(network)
    z = network.embed(parameters, GraphBatch.of(homes))
    there, back = network.logits(parameters, z, torch.tensor([0, 1]), torch.tensor([1, 0]))
    assert not torch.allclose(there, back)


@given(st.integers(0, 2**31), st.integers(1, 9))
def test_circular_correlation_is_the_sum_of_shifted_products(seed, size):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 3, size))
    found = correlation(torch.tensor(a), torch.tensor(b)).numpy()
    np.testing.assert_allclose(found, [plain_correlation(*pair) for pair in zip(a, b, strict=True)], **CLOSE)


def test_correlation_by_hand_and_of_nothing():
    # k = 0: 1*3 + 2*5 = 13; k = 1: 1*5 + 2*3 = 11.
    assert correlation(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]])).tolist() == [[13, 11]]
    assert correlation(torch.zeros(0, 4), torch.zeros(0, 4)).shape == (0, 4)


def test_all_parameters_of_the_decoder_and_encoder_are_learned():
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light", "Plug", "Siren", "MotionSensor"))])
    trigger, action = all_pairs(homes)
    rules = type(homes.rules)(0 * trigger, trigger, action, np.arange(len(trigger)) % len(homes.relations))
    network = network_of(homes)
    parameters = {name: value.requires_grad_() for name, value in start(network).items()}
    z = network.embed(parameters, GraphBatch.of(homes, rules))
    network.logits(parameters, z, torch.tensor(trigger), torch.tensor(action)).square().mean().backward()
    assert all(value.grad is not None and value.grad.any() for value in parameters.values())


def test_wrong_options_are_refused():
    with pytest.raises(UnknownName, match="unknown composition 'multiplyy'; did you mean 'multiply'"):
        CompGcn(Sizes(2, 3), "multiplyy")
    with pytest.raises(DataError, match="encoder 'compgcn' has no messages, got 'relation'; leave it at 'type'"):
        CompGcn(Sizes(2, 3, messages="relation"))
    with pytest.raises(DataError, match="hidden must be even, half real and half imaginary, got 5"):
        ComplexNetwork(CompGcn(Sizes(2, 3, hidden=5)))
