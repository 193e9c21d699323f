"""RotatE and ComplEx: scores against the papers' equations home by home, the loss against plain loops, and sampling."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from baselines.contract import PLANTED, TYPES, ToyHome, all_pairs, planted_homes, toy_homes
from baselines.items import Items
from datasets import DataError
from tests.support.strategies import homes as random_homes

torch = pytest.importorskip("torch", reason="rotate and complex need the extra graph")
pytest.importorskip("torch_geometric", reason="rotate and complex need the extra graph")

from baselines.knowledge_graph.methods import (  # noqa: E402
    ComplexMethod,
    Network,
    RotateMethod,
    Sampler,
    Triples,
    self_adversarial,
)
from baselines.knowledge_graph.model import Embeddings, KnowledgeGraphModel  # noqa: E402

SHORT = {"epochs": 2, "least_steps": 0, "dimension": 3}
METHODS = {"rotate": RotateMethod(**SHORT), "complex": ComplexMethod(**SHORT)}
MOTION_RULE = ("MotionSensor", 1, "Light")
PLUG_RULE = ("MotionSensor", 2, "Plug")
both = pytest.mark.parametrize("name", METHODS)


def fit(method, homes, seed=0):
    return method.fit(homes, rng=np.random.default_rng(seed))


def network(name, homes, *, seed=1):
    """An untrained network in which all vectors differ from zero."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = Network(METHODS[name].graph(len(homes.types), len(homes.relations)), personal=True)
        for table in (made.rule_relation, made.rule_trigger, made.rule_action, made.owned):
            torch.nn.init.normal_(table)
    return made


def complex_vector(row):
    """d real parts and d imaginary parts as Python's complex numbers."""
    d = len(row) // 2
    return [complex(row[k], row[d + k]) for k in range(d)]


def plain_score(e: Embeddings, home, rule):
    """The equations of the module, for one home (owned types, rules) and one rule, number by number."""
    owned, rules = home
    h, r, t = rule
    u = np.zeros(e.entity.shape[1])
    for trigger, relation, action in rules:
        u += (e.rule_relation[relation] + e.rule_trigger[trigger] + e.rule_action[action]) / math.sqrt(len(rules) + 1)
    for kind in set(owned):
        u += e.owned[kind] / len(set(owned))
    head, turn, tail = (complex_vector(row) for row in (e.entity[h] + u, e.relation[r], e.entity[t]))
    if e.score == "complex":
        return sum((a * b * c.conjugate()).real for a, b, c in zip(head, turn, tail, strict=True))
    return e.margin - math.sqrt(sum(abs(a * b - c) ** 2 for a, b, c in zip(head, turn, tail, strict=True)))


@both
def test_scores_are_the_equations_of_the_papers_with_the_vector_of_the_home(name):
    homes = planted_homes()
    items, made = Items.of(homes), network(name, homes)
    embeddings = made.embeddings()
    found = KnowledgeGraphModel(items, homes, embeddings).score_items(homes, np.arange(homes.n_homes))
    typed = np.stack(homes.typed(), axis=1)
    trigger, action, relation = items.valid.typed()
    for number in range(homes.n_homes):
        owned = homes.device_type[homes.device_home == number].tolist()
        rules = sorted({tuple(row) for row in typed[homes.rules.home == number].tolist()})
        for item in range(len(items)):
            rule = trigger[item], relation[item], action[item]
            expected = plain_score(embeddings, (owned, rules), rule)
            assert found[number, item] == pytest.approx(expected, abs=1e-9)


def test_relations_of_rotate_only_rotate():
    made = network("rotate", planted_homes())
    angle = made.graph.rel_emb.weight[0, 1].item()
    turn = complex_vector(made.embeddings().relation[0])[1]
    assert turn == pytest.approx(cmath.exp(1j * angle))
    assert abs(turn) == pytest.approx(1)


@both
def test_training_scores_by_torch_geometric_are_those_of_the_model(name):
    # Of a new home without the predicted rule, which is what training leaves out.
    homes = toy_homes([ToyHome(1, TYPES, (PLANTED, MOTION_RULE, PLUG_RULE))])
    items, made = Items.of(homes), network(name, homes)
    sampler = Sampler.of(homes, items, METHODS[name])
    batch = sampler.batch(np.arange(3), np.random.default_rng(0))
    trigger, action, relation = (torch.from_numpy(np.array(column)) for column in items.valid.typed())
    every = Triples(*(column.repeat(3, 1) for column in (trigger, relation, action)))
    found = made.scores(every, made.home_vectors(batch, Triples(trigger, relation, action))).detach().numpy()
    model = KnowledgeGraphModel(items, homes, made.embeddings())
    own = items.number(homes)
    for row, item in enumerate(sampler.known.indices.tolist()):
        rest = model.score_items(homes.with_rules(own != item), np.array([0]))[0]
        np.testing.assert_allclose(found[row], rest, rtol=1e-4, atol=1e-4)
    none = made.scores(every, None).detach().numpy()
    np.testing.assert_allclose(none[0], made.graph(trigger, relation, action).detach().numpy(), rtol=1e-6)


def test_the_whole_automation_of_a_rule_is_left_out_of_its_home():
    homes = toy_homes([ToyHome(1, TYPES, (PLANTED, MOTION_RULE, PLUG_RULE))])
    grouped = replace(homes, rules=replace(homes.rules, group=np.array([0, 0, 1])))
    items = Items.of(grouped)
    sampler = Sampler.of(grouped, items, METHODS["rotate"])
    planted, motion, plug = items.number(grouped)
    entry = {item: place for place, item in enumerate(sampler.known.indices.tolist())}
    batch = sampler.batch(np.array([entry[planted], entry[plug]]), np.random.default_rng(0))
    # Without its automation the planted rule has the plug's beside it, and the plug's rule has the other two.
    assert batch.others_start.tolist() == [0, 1]
    assert batch.others.tolist()[0] == plug
    assert sorted(batch.others.tolist()[1:]) == sorted([planted, motion])


def test_the_loss_is_that_of_the_paper_rule_by_rule():
    scores = torch.tensor([[1.0, 0.5, -1.0, 2.0], [0.0, 3.0, 1.0, 1.0]])
    is_drawn = torch.tensor([[True, True, False], [False, False, False]])
    # The first rule has two non-rules, 0.5 and -1; the second has none.
    one, other = math.exp(2 * 0.5), math.exp(2 * -1.0)
    first = math.log(1 + math.exp(-1)) + (one * math.log(1 + math.exp(0.5)) + other * math.log(1 + math.exp(-1.0))) / (
        one + other
    )
    found = self_adversarial(scores, is_drawn, 2.0)
    assert found.item() == pytest.approx((first + math.log(2)) / 2)


def test_the_share_of_a_non_rule_is_taken_as_constant():
    scores = torch.tensor([[0.0, 1.0, 0.0]], requires_grad=True)
    self_adversarial(scores, torch.ones(1, 2, dtype=torch.bool), 1.0).backward()
    # p = e / (e + 1) of the first non-rule, and softplus has the slope sigmoid(1).
    p, slope = math.e / (math.e + 1), 1 / (1 + math.exp(-1))
    assert scores.grad[0].tolist() == pytest.approx([-0.5, p * slope, (1 - p) * 0.5])


def test_corrupted_rules_keep_their_relation_and_one_type_and_nobody_has_them():
    homes = planted_homes()
    items = Items.of(homes)
    sampler = Sampler.of(homes, items, replace(METHODS["rotate"], corrupted=True, non_rules=50))
    batch = sampler.batch(np.arange(5), np.random.default_rng(0))
    (head, relation, tail), is_drawn = batch.triples, batch.is_drawn
    assert (relation == relation[:, :1]).all()
    assert ((head == head[:, :1]) | (tail == tail[:, :1])).all()
    valid = items.valid.contains(head.numpy(), tail.numpy(), relation.numpy())
    assert valid[:, 0].all()
    assert (is_drawn.numpy() == ~valid[:, 1:]).all()
    assert is_drawn.any(dim=1).all()


@both
def test_without_vectors_of_homes_all_get_the_same_scores(name):
    homes = planted_homes()
    scores = fit(replace(METHODS[name], personal=False), homes).score_items(homes, np.arange(homes.n_homes))
    assert (scores == scores[0]).all()
    assert len(np.unique(scores[0])) == scores.shape[1]


@both
def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone(name):
    homes = planted_homes()
    before = torch.random.get_rng_state()
    first, again, other = (fit(METHODS[name], homes, seed).score_pairs(homes, *all_pairs(homes)) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert torch.equal(before, torch.random.get_rng_state())


@both
def test_a_home_without_rules_is_scored_by_the_types_that_it_owns(name):
    homes = planted_homes()
    fitted = KnowledgeGraphModel(Items.of(homes), homes, network(name, homes).embeddings())
    some, other = ToyHome(1, ("ContactSensor", "Light")), ToyHome(2, ("MotionSensor", "Light"))
    scores = fitted.score_items(toy_homes([some, other]), np.arange(2))
    assert np.isfinite(scores).all()
    assert not np.allclose(scores[0], scores[1])


@pytest.mark.parametrize("corrupted", [False, True])
@settings(max_examples=10, deadline=None)
@given(some=random_homes())
def test_any_homes_can_be_fitted_and_scored(corrupted, some):
    for method in METHODS.values():
        scores = fit(replace(method, corrupted=corrupted), some).score_pairs(some, *all_pairs(some))
        assert not np.isinf(scores).any()


def test_few_rules_are_trained_on_for_as_many_steps_as_asked():
    homes, rounds = planted_homes(), []
    method = replace(METHODS["rotate"], epochs=1, least_steps=7, batch_size=30)

    method.fit(homes, rng=np.random.default_rng(0), on_round=lambda *seen: rounds.append(seen))
    n_rules = Items.of(homes).matrix(homes).nnz
    epochs = math.ceil(7 / math.ceil(n_rules / 30))
    assert [(done, of) for done, of, _, _ in rounds] == [(done, epochs) for done in range(1, epochs + 1)]
    assert all(values["loss"] > 0 for *_, values in rounds)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dimension": 0}, "rotate: dimension must be at least 1, got 0"),
        ({"temperature": -1.0}, "rotate: temperature must be at least 0, got -1"),
        ({"margin": 0.0}, "rotate: margin must be above 0, got 0"),
        ({"learning_rate": 0.0}, "rotate: learning_rate must be above 0, got 0"),
        ({"corrupted": True, "owned": False}, "owned False has no effect with corrupted"),
    ],
)
def test_wrong_parameters_say_what_would_be_right(options, words):
    with pytest.raises(DataError, match=words):
        RotateMethod(**options)
