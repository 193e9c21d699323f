"""GC-MC: its layers against explicit matrices, and what it answers to whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from baselines.contract import PLANTED, ToyHome, all_pairs, planted_homes, toy_homes
from baselines.items import Items, NonRules, automations
from datasets import DataError, Rules
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="gcmc needs the extra graph")
pytest.importorskip("torch_geometric", reason="gcmc needs the extra graph")

from baselines.gcmc import BilinearDecoder, Dense, Gcmc, Graph, LevelMessages, device_features  # noqa: E402

SHORT = Gcmc(epochs=5)
CONTACT_LIGHT = ("ContactSensor", "Light")
MOTION_RULE = ("MotionSensor", 1, "Light")

# Three homes, four items. Level 1: home 0 has items 0 and 2, home 1 has item 2. Level 0: home 1 has not item 3.
RULES = np.array([0, 0, 1]), np.array([0, 2, 2])
NON_RULES = np.array([1]), np.array([3])
M = np.zeros((2, 3, 4))  # [level, home, item]
M[1, 0, 0] = M[1, 0, 2] = M[1, 1, 2] = M[0, 1, 3] = 1


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def fit(method, homes, seed=0):
    return method.fit(homes, rng=np.random.default_rng(seed))


def scores_of(fitted, homes):
    return fitted.score_pairs(homes, *all_pairs(homes))


@pytest.mark.parametrize("normalisation", ["left", "symmetric"])
@pytest.mark.parametrize("accumulation", ["stack", "sum"])
@pytest.mark.parametrize("to_homes", [True, False])
def test_messages_are_the_dense_formula(accumulation, normalisation, to_homes):
    graph = Graph.of(3, 4, RULES, NON_RULES)
    adjacency = M if to_homes else M.transpose(0, 2, 1)  # [level, target, source]
    layer = LevelMessages(adjacency.shape[2], 6, accumulation, normalisation, generator())
    # Degrees count both levels; home 2 and item 1 have no edge, and the degree 1 in place of 0.
    of_target, of_source = (np.maximum(adjacency.sum(axis=(0, axis)), 1) for axis in (2, 1))
    norm = of_target[:, None] * np.ones(len(of_source))
    if normalisation == "symmetric":
        norm = np.sqrt(of_target[:, None] * of_source)
    kept = np.linspace(0, 2, len(of_source))  # the first source is dropped
    weight = layer.weight.detach().double().numpy()  # [level, source, width]
    levels = [(adjacency[level] / norm * kept) @ weight[level] for level in (0, 1)]
    expected = np.concatenate(levels, axis=1) if accumulation == "stack" else levels[0] + levels[1]

    edges = graph.to_homes() if to_homes else graph.to_items()
    found = layer(edges, torch.from_numpy(kept).float()).detach().numpy()
    assert found.shape == (len(of_target), 6)
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


def test_stacked_levels_do_not_mix():
    layer = LevelMessages(4, 6, "stack", "left", generator())
    with torch.no_grad():
        layer.weight.fill_(1.0)
    hidden = layer(Graph.of(3, 4, RULES, NON_RULES).to_homes())
    # Home 0 has two rules and nothing else: (0, 2 / 2); home 1 a rule and a non-rule: (1 / 2, 1 / 2); home 2 nothing.
    expected = [[0, 0, 0, 1, 1, 1], [0.5] * 6, [0] * 6]
    assert hidden.tolist() == expected


def test_the_decoder_is_a_softmax_over_explicit_matrices():
    decoder = BilinearDecoder(5, 3, 4, generator()).double()
    with torch.no_grad():
        decoder.bias.copy_(torch.randn(2, 4, generator=generator(1)))
    homes, items = (torch.randn(n, 5, dtype=torch.float64, generator=generator(n)) for n in (3, 4))
    basis, coefficient = decoder.basis.detach().numpy(), decoder.coefficient.detach().numpy()
    logits = np.zeros((2, 3, 4))
    for level in (0, 1):
        matrix = sum(coefficient[level, s] * basis[s] for s in range(3))
        logits[level] = homes.numpy() @ matrix @ items.numpy().T + decoder.bias.detach().numpy()[level]
    has = np.exp(logits[1]) / np.exp(logits).sum(axis=0)
    grid = decoder.grid(homes, items).detach().numpy()
    np.testing.assert_allclose(1 / (1 + np.exp(-grid)), has, rtol=1e-10)

    home, item = torch.tensor([2, 0, 2]), torch.tensor([1, 1, 3])
    pairs = decoder.pairs(homes, items, home, item).detach().numpy()
    np.testing.assert_allclose(pairs, grid[home, item], rtol=1e-10)


def test_side_features_pass_their_own_layer():
    dense = Dense(3, 2, 4, generator())
    with torch.no_grad():
        dense.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
    hidden, features = torch.rand(5, 3, generator=generator(1)), torch.rand(5, 4, generator=generator(2))
    weight, inner, outer, bias = (
        w.detach().double().numpy() for w in (dense.weight, dense.inner, dense.outer, dense.bias)
    )
    expected = hidden.numpy() @ weight + np.maximum(features.numpy() @ inner + bias, 0) @ outer
    np.testing.assert_allclose(dense(hidden, features).detach().numpy(), expected, rtol=1e-5)


def test_device_features_are_log_counts_of_length_one():
    homes = toy_homes([ToyHome(1, ("Light", "Light", "Light", "Plug")), ToyHome(2, ())])
    # log(1 + 3) = 2 log 2 and log(1 + 1) = log 2, so (2, 1) / sqrt(5).
    expected = np.zeros((2, 5))
    expected[0, [1, 3]] = np.array([2, 1]) / np.sqrt(5)
    np.testing.assert_allclose(device_features(homes).numpy(), expected, rtol=1e-6)


def test_what_is_expected_is_the_mean_of_many_draws():
    train = planted_homes()
    items = Items.of(train)
    non_rules, known = NonRules.of(train, items), items.matrix(train)
    home = np.repeat(np.arange(train.n_homes), np.diff(known.indptr))
    rng, times = np.random.default_rng(0), 3000
    counted = np.zeros(known.shape)
    asked = np.tile(home, times)
    place, item = non_rules.draw(asked, rng)
    np.add.at(counted, (asked[place], item), 1 / times)

    graph = Graph.expected(known, non_rules.matrix(), 1, torch.ones(len(items)))
    drawn = graph.level.numpy() == 0
    expected = np.zeros(known.shape)
    expected[graph.home.numpy()[drawn], graph.item.numpy()[drawn]] = graph.strength.numpy()[drawn]
    assert expected.any()
    np.testing.assert_allclose(counted, expected, atol=0.05)


@given(random_homes(min_homes=1))
def test_non_rules_are_what_the_home_could_have_and_has_not(some):
    items = Items.of(some)
    known = items.matrix(some)
    home = np.repeat(np.arange(some.n_homes), np.diff(known.indptr))
    place, item = NonRules.of(some, items).draw(np.repeat(home, 5), np.random.default_rng(0))
    cell = items.valid.cell[item] // max(items.valid.n_relations, 1)
    for h, i, pair in zip(np.repeat(home, 5)[place], item, cell, strict=True):
        owned = some.device_type[some.device_home == h]
        assert known[h, i] == 0
        assert pair // items.valid.n_types in owned
        assert pair % items.valid.n_types in owned


@given(random_homes(max_homes=10))
def test_every_rule_between_owned_types_that_a_home_has_not_may_be_drawn(some):
    """Homes that own the same types share their candidates, wherever they stand."""
    items = Items.of(some)
    known, trigger, action = items.matrix(some).toarray(), *items.valid.typed()[:2]
    expected = np.zeros(known.shape)
    for home in range(some.n_homes):
        owned = set(some.device_type[some.device_home == home].tolist())
        for item in range(len(items)):
            expected[home, item] = {int(trigger[item]), int(action[item])} <= owned and not known[home, item]
    assert np.array_equal(NonRules.of(some, items).matrix().toarray(), expected)


@given(random_homes(min_homes=1))
def test_all_items_may_be_drawn_where_ownership_does_not_count(some):
    items = Items.of(some)
    free = NonRules.of(some, items, owned=False).matrix().toarray()
    assert np.array_equal(free, 1 - items.matrix(some).toarray())


@given(random_homes(groups=True))
def test_an_automation_is_hidden_as_a_whole(some):
    some = some.merged_types()
    items = Items.of(some)
    number = automations(some, items)
    known = items.matrix(some)
    entry = {
        (h, i): n
        for h, i, n in zip(
            np.repeat(np.arange(some.n_homes), np.diff(known.indptr)), known.indices, number, strict=True
        )
    }
    item = items.number(some)
    groups = {}
    for h, g, i in zip(some.rules.home, some.rules.group, item, strict=True):
        groups.setdefault((h, g), set()).add(entry[h, i])
    assert all(len(numbers) == 1 for numbers in groups.values())
    assert len({n for numbers in groups.values() for n in numbers}) == len(groups)


def test_a_rule_that_two_automations_make_is_hidden_with_the_first():
    twins = toy_homes([ToyHome(1, ("ContactSensor", "Light", "Light"), (PLANTED,))])
    rules = Rules([0, 0], [0, 0], [1, 2], [PLANTED[1]] * 2, np.array([4, 7]))  # one for each of the two lights
    homes = replace(twins, rules=rules)
    assert automations(homes, Items.of(homes)).tolist() == [0]
    assert np.isfinite(fit(SHORT, homes).score_items(homes, np.array([0]))).all()


@settings(max_examples=15, deadline=None)
@given(random_homes())
def test_any_homes_can_be_fitted_and_scored(some):
    for method in (replace(SHORT, epochs=2), replace(SHORT, epochs=2, features=False, accumulation="stack")):
        scores = scores_of(fit(method, some), some)
        assert not np.isinf(scores).any()


def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone():
    homes = planted_homes()
    before = torch.random.get_rng_state()
    first, again, other = (scores_of(fit(SHORT, homes, seed), homes) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert torch.equal(before, torch.random.get_rng_state())


def test_scores_do_not_depend_on_how_many_homes_are_answered_at_once(monkeypatch):
    homes = planted_homes()
    fitted = fit(SHORT, homes)
    together = scores_of(fitted, homes)
    monkeypatch.setattr("baselines.gcmc.HOMES_AT_ONCE", 7)
    assert scores_of(fitted, homes).tobytes() == together.tobytes()


def test_a_model_seen_in_a_round_stays_as_it_was():
    homes, seen = planted_homes(), []

    def keep(done, of, fitted, values):
        assert (done, of) == (len(seen) + 1, 5)
        assert values["loss"] > 0
        seen.append((fitted, scores_of(fitted, homes)))

    SHORT.fit(homes, rng=np.random.default_rng(0), on_round=keep)
    assert len(seen) == 5
    assert all(scores_of(fitted, homes).tobytes() == scores.tobytes() for fitted, scores in seen)


@pytest.mark.parametrize("changes", [{}, {"accumulation": "stack", "normalisation": "symmetric"}, {"hidden": 0.0}])
def test_it_finds_the_planted_rule(changes):
    train = planted_homes()
    fitted = fit(replace(Gcmc(epochs=60), **changes), train)
    new = toy_homes([ToyHome(1, (*CONTACT_LIGHT, "MotionSensor", "Plug"), (MOTION_RULE,))])
    (planted,) = fitted.items.number(toy_homes([ToyHome(1, CONTACT_LIGHT, (PLANTED,))]))
    (motion,) = fitted.items.number(new)
    for homes in (train, new):  # the first training home lacks it too
        scores = fitted.score_items(homes, np.array([0]))[0]
        scores[motion] = -np.inf  # which both have
        assert np.argmax(scores) == planted


@pytest.mark.parametrize("features", [True, False])
def test_homes_without_a_known_rule_need_side_features(features):
    fitted = fit(replace(SHORT, features=features), planted_homes())
    bare = ToyHome(1, CONTACT_LIGHT)
    unseen_rule = ToyHome(2, ("Siren", "Light"), (("Siren", 3, "Light"),))
    known = ToyHome(3, ("MotionSensor", "Light"), (MOTION_RULE,))
    scores = fitted.score_items(toy_homes([bare, unseen_rule, known]), np.arange(3))
    assert np.isnan(scores).all(axis=1).tolist() == [not features, not features, False]
    assert np.isfinite(scores[2]).all()


def test_wrong_parameters_say_what_would_be_right():
    with pytest.raises(DataError, match="stack"):
        Gcmc(accumulation="stak")
    with pytest.raises(DataError, match="left"):
        Gcmc(normalisation="right")
    with pytest.raises(DataError, match="even"):
        Gcmc(accumulation="stack", channels=7)
    with pytest.raises(DataError, match="hidden"):
        Gcmc(hidden=1.0)
