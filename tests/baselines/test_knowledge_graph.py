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

from torch_geometric.nn.kge import ComplEx, RotatE  # noqa: E402

from baselines.knowledge_graph.gradients import Loss, Tables, adversarial, batch_gradient  # noqa: E402
from baselines.knowledge_graph.methods import AdamW, ComplexMethod, RotateMethod, Sampler  # noqa: E402
from baselines.knowledge_graph.model import Embeddings, KnowledgeGraphModel  # noqa: E402

SHORT = {"epochs": 2, "least_steps": 0, "dimension": 3}
METHODS = {"rotate": RotateMethod(**SHORT), "complex": ComplexMethod(**SHORT)}
MOTION_RULE = ("MotionSensor", 1, "Light")
PLUG_RULE = ("MotionSensor", 2, "Plug")
both = pytest.mark.parametrize("name", METHODS)


def fit(method, homes, seed=0):
    return method.fit(homes, rng=np.random.default_rng(seed))


def random_rows(homes, *, personal=True, seed=1):
    """Tables of the homes, and rows in which all numbers differ from zero."""
    tables = Tables(len(homes.types), len(homes.relations), SHORT["dimension"], personal)
    rows = np.random.default_rng(seed).normal(size=(tables.n_rows, 2 * SHORT["dimension"]))
    return tables, rows.astype(np.float32)


def random_embeddings(name, homes):
    tables, rows = random_rows(homes)
    return tables.embeddings(rows, name, 4.0)


def batch_loss(name, homes, rows, batch, *, temperature=1.0, personal=True):
    """The loss of a batch, and its gradient."""
    tables, items = Tables(len(homes.types), len(homes.relations), rows.shape[1] // 2, personal), Items.of(homes)
    rules, gradient = Sampler.of(homes, items, METHODS[name]).rules, np.zeros_like(rows)
    loss = Loss(name == "rotate", 4.0, temperature, personal)
    return batch_gradient(rows, tables.offsets, loss, batch.typed, rules, *batch[1:], gradient), gradient


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
    items, embeddings = Items.of(homes), random_embeddings(name, homes)
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
    homes = planted_homes()
    tables, rows = random_rows(homes)
    turn = complex_vector(tables.embeddings(rows, "rotate", 4.0).relation[0])[1]
    assert turn == pytest.approx(cmath.exp(1j * float(rows[tables.relation, 1])))
    assert abs(turn) == pytest.approx(1)


@both
def test_without_vectors_of_homes_scores_are_those_of_torch_geometric(name):
    homes, d = planted_homes(), SHORT["dimension"]
    items, (tables, rows) = Items.of(homes), random_rows(homes, personal=False)
    sizes = len(homes.types), len(homes.relations), d
    with torch.random.fork_rng(devices=[]):
        graph = RotatE(*sizes, margin=4.0) if name == "rotate" else ComplEx(*sizes)
    entity, relation = (torch.from_numpy(part) for part in np.split(rows, [tables.relation]))
    weights = {"node_emb": entity[:, :d], "node_emb_im": entity[:, d:], "rel_emb": relation[:, :d]}
    weights |= {"rel_emb_im": relation[:, d:]} if name == "complex" else {}
    graph.load_state_dict({f"{key}.weight": value for key, value in weights.items()})
    trigger, action, relation = (torch.from_numpy(np.array(column)) for column in items.valid.typed())
    expected = graph(trigger, relation, action).detach().numpy()
    fitted = KnowledgeGraphModel(items, homes, tables.embeddings(rows, name, 4.0))
    np.testing.assert_allclose(fitted.score_items(homes, np.array([0]))[0], expected, rtol=1e-4, atol=1e-5)


def plain_batch_loss(name, homes, x, batch, *, temperature, personal):
    """The mean loss of a batch rule by rule, by the equations of the modules, as a function of its table, a tensor."""
    tables, d = Tables(len(homes.types), len(homes.relations), SHORT["dimension"], personal), SHORT["dimension"]
    rules, losses = Sampler.of(homes, Items.of(homes), METHODS[name]).rules, []
    trigger, relation, action = batch.typed

    def row(number):
        return torch.complex(x[number, :d], x[number, d:])

    for home, entry, candidates, is_drawn in zip(*batch[1:], strict=True):
        u = torch.zeros(d, dtype=torch.complex128)
        if personal:
            own = range(rules.start[home], rules.start[home + 1])
            others = [each for each in own if rules.automation[each] != rules.automation[entry]]
            for item in rules.item[others]:
                v = row(tables.rule_relation + relation[item]) + row(tables.rule_trigger + trigger[item])
                u = u + (v + row(tables.rule_action + action[item])) / math.sqrt(len(others) + 1)
            types = rules.owned[rules.owned_start[home] : rules.owned_start[home + 1]]
            u = u + sum(row(tables.owned + kind) for kind in types) / len(types)
        scores = []
        for c in candidates[is_drawn]:
            h, r, t = row(trigger[c]) + u, row(tables.relation + relation[c]), row(action[c])
            if name == "rotate":
                turn = torch.exp(1j * x[tables.relation + relation[c], :d])
                scores.append(4.0 - (h * turn - t).abs().square().sum().sqrt())
            else:
                scores.append((h * r * t.conj()).real.sum())
        scores = torch.stack(scores)
        share = torch.softmax(temperature * scores[1:].detach(), dim=0)
        softplus = torch.nn.functional.softplus
        losses.append(softplus(-scores[0]) + (share * softplus(scores[1:])).sum())
    return torch.stack(losses).mean()


@pytest.mark.parametrize("personal", [True, False])
@pytest.mark.parametrize("corrupted_triples", [True, False])
@both
def test_gradients_are_those_of_autograd_on_the_equations(name, corrupted_triples, personal):
    homes = planted_homes()
    place = np.arange(homes.n_rules) - np.searchsorted(homes.rules.home, homes.rules.home)
    homes = replace(homes, rules=replace(homes.rules, group=np.maximum(place - 1, 0)))
    _, rows = random_rows(homes, personal=personal)
    sampler = Sampler.of(
        homes, Items.of(homes), replace(METHODS[name], corrupted_triples=corrupted_triples, non_rules=5)
    )
    batch = sampler.batch(np.arange(0, len(sampler.home), 2), np.random.default_rng(0))
    x = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    expected = plain_batch_loss(name, homes, x, batch, temperature=0.7, personal=personal)
    expected.backward()
    loss, gradient = batch_loss(name, homes, rows, batch, temperature=0.7, personal=personal)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_steps_are_those_of_torchs_adamw():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4)).astype(np.float32)
    weight = torch.nn.Parameter(torch.from_numpy(x.copy()))
    ours, theirs = AdamW(x, 0.3), torch.optim.AdamW([weight], weight_decay=0.3)
    for rate in (0.1, 0.05, 0.01):
        gradient = rng.normal(size=x.shape).astype(np.float32)
        weight.grad, theirs.param_groups[0]["lr"] = torch.from_numpy(gradient), rate
        ours.step(gradient, rate)
        theirs.step()
    np.testing.assert_allclose(x, weight.detach().numpy(), rtol=1e-5)


def test_the_whole_automation_of_a_rule_is_left_out_of_its_home():
    homes = toy_homes([ToyHome(1, TYPES, (PLANTED, MOTION_RULE, PLUG_RULE))])
    grouped = replace(homes, rules=replace(homes.rules, group=np.array([0, 0, 1])))
    tables, rows = random_rows(grouped)
    items = Items.of(grouped)
    sampler = Sampler.of(grouped, items, METHODS["rotate"])
    planted, _, plug = items.number(grouped)
    relations = [rule[1] for rule in (PLANTED, MOTION_RULE, PLUG_RULE)]
    entry = {item: place for place, item in enumerate(sampler.rules.item.tolist())}
    # Without its automation the planted rule has the plug's beside it, and the plug's rule has the other two.
    for item, others in ((planted, relations[2:]), (plug, relations[:2])):
        batch = sampler.batch(np.array([entry[item]]), np.random.default_rng(0))
        _, gradient = batch_loss("rotate", grouped, rows, batch)
        moved = gradient[tables.rule_relation : tables.rule_trigger].any(axis=1)
        assert np.flatnonzero(moved).tolist() == sorted(others)


def test_the_loss_is_that_of_the_paper():
    scores, d_scores = np.array([1.0, 0.5, -1.0, 2.0]), np.zeros(4)
    # Two non-rules, 0.5 and -1; the third is none.
    one, other = math.exp(2 * 0.5), math.exp(2 * -1.0)
    expected = math.log(1 + math.exp(-1))
    expected += (one * math.log(1 + math.exp(0.5)) + other * math.log(1 + math.exp(-1.0))) / (one + other)
    assert adversarial(scores, np.array([True, True, True, False]), 2.0, d_scores) == pytest.approx(expected)
    # A rule without non-rules has its own loss.
    only = np.array([True, False, False, False])
    assert adversarial(np.zeros(4), only, 2.0, d_scores) == pytest.approx(math.log(2))


def test_the_share_of_a_non_rule_is_taken_as_constant():
    d_scores = np.zeros(3)
    adversarial(np.array([0.0, 1.0, 0.0]), np.ones(3, dtype=bool), 1.0, d_scores)
    # p = e / (e + 1) of the first non-rule, and softplus has the slope sigmoid(1).
    p, slope = math.e / (math.e + 1), 1 / (1 + math.exp(-1))
    assert d_scores.tolist() == pytest.approx([-0.5, p * slope, (1 - p) * 0.5])


def test_corrupted_rules_keep_their_relation_and_one_type_and_nobody_has_them():
    homes = planted_homes()
    items = Items.of(homes)
    sampler = Sampler.of(homes, items, replace(METHODS["rotate"], corrupted_triples=True, non_rules=50))
    batch = sampler.batch(np.arange(5), np.random.default_rng(0))
    head, relation, tail = (column[batch.candidate] for column in batch.typed)
    assert (relation == relation[:, :1]).all()
    assert ((head == head[:, :1]) | (tail == tail[:, :1])).all()
    valid = items.valid.contains(head, tail, relation)
    assert valid[:, 0].all()
    assert batch.is_drawn[:, 0].all()
    assert (batch.is_drawn[:, 1:] == ~valid[:, 1:]).all()
    assert batch.is_drawn[:, 1:].any(axis=1).all()


@both
def test_without_vectors_of_homes_all_get_the_same_scores(name):
    homes = planted_homes()
    scores = fit(replace(METHODS[name], personal=False), homes).score_items(homes, np.arange(homes.n_homes))
    assert (scores == scores[0]).all()
    assert len(np.unique(scores[0])) == scores.shape[1]


@both
def test_the_same_seed_gives_the_same_bits(name):
    homes = planted_homes()
    first, again, other = (fit(METHODS[name], homes, seed).score_pairs(homes, *all_pairs(homes)) for seed in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@both
def test_a_home_without_rules_is_scored_by_the_types_that_it_owns(name):
    homes = planted_homes()
    fitted = KnowledgeGraphModel(Items.of(homes), homes, random_embeddings(name, homes))
    some, other = ToyHome(1, ("ContactSensor", "Light")), ToyHome(2, ("MotionSensor", "Light"))
    scores = fitted.score_items(toy_homes([some, other]), np.arange(2))
    assert np.isfinite(scores).all()
    assert not np.allclose(scores[0], scores[1])


@pytest.mark.parametrize("corrupted_triples", [False, True])
@settings(max_examples=10, deadline=None)
@given(some=random_homes())
def test_any_homes_can_be_fitted_and_scored(corrupted_triples, some):
    for method in METHODS.values():
        scores = fit(replace(method, corrupted_triples=corrupted_triples), some).score_pairs(some, *all_pairs(some))
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
        ({"corrupted_triples": True, "owned": False}, "owned False has no effect with corrupted_triples"),
    ],
)
def test_wrong_parameters_say_what_would_be_right(options, words):
    with pytest.raises(DataError, match=words):
        RotateMethod(**options)
