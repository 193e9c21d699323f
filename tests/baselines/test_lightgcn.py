"""LightGCN: propagation against the dense formula, and how homes are folded in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from baselines.contract import PLANTED, ToyHome, all_pairs, planted_homes, toy_homes
from baselines.items import Items
from datasets import DataError
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="lightgcn needs the extra graph")
pytest.importorskip("torch_geometric", reason="lightgcn needs the extra graph")

from baselines.lightgcn import LightGcnModel, LightGraphConvolution, graph, propagated  # noqa: E402

SHORT = LightGraphConvolution(epochs=5, dimension=6, layers=3)
CONTACT_LIGHT = ("ContactSensor", "Light")
MOTION_RULE = ("MotionSensor", 1, "Light")


def fit(method, homes, seed=0):
    return method.fit(homes, rng=np.random.default_rng(seed))


def scores_of(fitted, homes):
    return fitted.score_pairs(homes, *all_pairs(homes))


def network(homes, items, layers):
    """An untrained network of torch-geometric with weights of its own."""
    from torch_geometric.nn.models import LightGCN

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LightGCN(homes.n_homes + len(items), 6, layers, normalize=False)


def dense_layers(known, first, layers):
    """Layers 0 to K by the normalised adjacency matrix D^-1/2 A D^-1/2 of all nodes."""
    table = known.toarray()
    n_homes, n_items = table.shape
    adjacency = np.block([[np.zeros((n_homes, n_homes)), table], [table.T, np.zeros((n_items, n_items))]])
    root = np.sqrt(np.maximum(adjacency.sum(axis=0), 1))
    adjacency = adjacency / root / root[:, None]
    return [np.linalg.matrix_power(adjacency, k) @ first for k in range(layers + 1)]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_propagation_is_the_dense_formula(layers):
    homes = planted_homes()
    items = Items.of(homes)
    known = items.matrix(homes)
    model = network(homes, items, layers)
    expected = dense_layers(known, model.embedding.weight.detach().double().numpy(), layers)
    for found, layer in zip(propagated(model, known), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), layer, rtol=1e-4, atol=1e-6)
    # torch-geometric's own embedding, with which the loss is computed, is the mean of the layers.
    embedding = model.get_embedding(*graph(known)).detach().numpy()
    np.testing.assert_allclose(embedding, np.mean(expected, axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_training_home_is_scored_by_its_trained_embedding(layers):
    homes = planted_homes()
    items = Items.of(homes)
    known = items.matrix(homes)
    model = network(homes, items, layers)
    embedding = model.get_embedding(*graph(known)).detach().double().numpy()
    expected = embedding[: homes.n_homes] @ embedding[homes.n_homes :].T
    expected[np.diff(known.indptr) == 0] = np.nan
    found = LightGcnModel(items, homes, model, known).score_items(homes, np.arange(homes.n_homes))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_new_home_is_what_its_rules_send():
    homes = planted_homes()
    items = Items.of(homes)
    known = items.matrix(homes)
    model = network(homes, items, 2)
    layers = dense_layers(known, model.embedding.weight.detach().double().numpy(), 2)
    rules = [layer[homes.n_homes :] for layer in layers]
    new = toy_homes([ToyHome(1, (*CONTACT_LIGHT, "MotionSensor"), (PLANTED, MOTION_RULE))])
    one, other = items.number(new)
    degree = known.sum(axis=0)
    # Two rules i, each sends layer k / sqrt(2 degree_i) to layer k + 1 of the home, whose layer 0 is 0.
    sent = [sum(layer[i] / np.sqrt(2 * degree[i]) for i in (one, other)) for layer in rules[:-1]]
    expected = (sum(sent) / 3) @ (sum(rules) / 3).T
    found = LightGcnModel(items, homes, model, known).score_items(new, np.array([0]))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)


@settings(max_examples=15, deadline=None)
@given(random_homes())
def test_any_homes_can_be_fitted_and_scored(some):
    scores = scores_of(fit(replace(SHORT, epochs=2), some), some)
    assert not np.isinf(scores).any()


def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone():
    homes = planted_homes()
    before = torch.random.get_rng_state()
    first, again, other = (scores_of(fit(SHORT, homes, seed), homes) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_model_seen_in_a_round_stays_as_it_was():
    homes, seen = planted_homes(), []

    def keep(done, of, fitted, values):
        assert (done, of) == (len(seen) + 1, 5)
        assert values["loss"] > 0
        seen.append((fitted, scores_of(fitted, homes)))

    SHORT.fit(homes, rng=np.random.default_rng(0), on_round=keep)
    assert len(seen) == 5
    assert all(scores_of(fitted, homes).tobytes() == scores.tobytes() for fitted, scores in seen)


def test_homes_without_a_known_rule_are_not_answered():
    fitted = fit(SHORT, planted_homes())
    bare, known = ToyHome(1, CONTACT_LIGHT), ToyHome(2, ("MotionSensor", "Light"), (MOTION_RULE,))
    scores = fitted.score_items(toy_homes([bare, known]), np.arange(2))
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()


def test_it_finds_the_planted_rule():
    train = planted_homes()
    fitted = fit(LightGraphConvolution(epochs=60), train)
    new = toy_homes([ToyHome(1, (*CONTACT_LIGHT, "MotionSensor", "Plug"), (MOTION_RULE,))])
    (planted,) = fitted.items.number(toy_homes([ToyHome(1, CONTACT_LIGHT, (PLANTED,))]))
    (motion,) = fitted.items.number(new)
    for homes in (train, new):  # the first training home lacks it too
        scores = fitted.score_items(homes, np.array([0]))[0]
        scores[motion] = -np.inf  # which both have
        assert np.argmax(scores) == planted


def test_wrong_parameters_say_what_would_be_right():
    with pytest.raises(DataError, match="layers must be at least 1, got 0"):
        LightGraphConvolution(layers=0)
