"""The context of the whole home, against its formula written out for one home at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from datasets.valid import ValidRules
from tests.support.strategies import every_candidate, homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.network.terms import Context  # noqa: E402

SIZE = 3


def plain(parameters, valid, some, candidates):
    """<ReLU(sum of e / sqrt(n + 1) + mean of s), v>, rule by rule."""

    def item(trigger, action, relation):
        number = int(valid.number(some.device_type[trigger], some.device_type[action], relation))
        return number if number >= 0 else len(valid)

    rules = some.rules
    found = []
    for home, trigger, action, relation in zip(
        candidates.home, candidates.trigger, candidates.action, candidates.relation, strict=True
    ):
        others = {
            item(t, a, r)
            for h, t, a, r in zip(rules.home, rules.trigger, rules.action, rules.relation, strict=True)
            if h == home and (t, a, r) != (trigger, action, relation)
        }
        owned = sorted(set(some.device_type[some.device_home == home].tolist()))
        context = sum((parameters["rule"][m] for m in others), torch.zeros(SIZE)) / (len(others) + 1) ** 0.5
        context = torch.relu(context + parameters["type"][owned].mean(dim=0))
        found.append(float(context @ parameters["candidate"][item(trigger, action, relation)]))
    return found


def some_parameters(term):
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(value.shape, generator=generator) for name, value in term.initial(generator).items()}


@given(homes(max_homes=3, max_devices=3, max_relations=3))
def test_the_context_is_all_other_typed_rules_and_the_types_of_the_home(some):
    half = some.with_rules(np.arange(0, some.n_rules, 2))  # the rules in between are never seen
    term = Context(ValidRules.of(half), SIZE)
    parameters, candidates = some_parameters(term), every_candidate(some)
    logits = term.logits_of(parameters, term.observe(some, candidates), None)
    assert logits.tolist() == pytest.approx(plain(parameters, term.valid, some, candidates), abs=1e-5)


def test_training_starts_from_a_context_that_adds_nothing(two):
    term = Context(ValidRules.of(two), SIZE)
    observed = term.observe(two, every_candidate(two))
    assert not term.logits_of(term.initial(torch.Generator()), observed, None).any()
