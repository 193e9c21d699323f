"""A scorer says the same of a candidate in training and when all relations of a pair are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.contract import all_pairs, planted_homes
from datasets.valid import ValidRules
from tests.support.strategies import every_candidate, homes

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

import fedrule.network.score  # noqa: E402
from fedrule.evidence.statistics import Statistics  # noqa: E402
from fedrule.network.encoders import Sizes  # noqa: E402
from fedrule.network.network import Network  # noqa: E402
from fedrule.network.score import Scorer  # noqa: E402
from fedrule.network.terms import (  # noqa: E402
    Context,
    CountBias,
    LearnedBias,
)


def scorer_of(train, *terms, answers_unseen=True):
    valid = ValidRules.of(train)
    network = Network(Sizes(len(train.types), len(train.relations), hidden=4))
    counts = CountBias.of(Statistics.of(train, valid))
    made = {"learned": LearnedBias(valid), "counts": counts, "context": Context(valid, 3)}
    return Scorer(network, valid, tuple(made[term] for term in terms), answers_unseen)


def parameters_of(scorer):
    """Random, also where training starts from zero; float64 as in answers."""
    generator = torch.Generator().manual_seed(5)
    return {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in scorer.initial(generator).items()
    }


@settings(max_examples=30)
@pytest.mark.parametrize("terms", [(), ("learned",), ("counts", "context"), ("learned", "context")])
@given(some=homes(max_homes=3, max_devices=3, max_relations=3), seed=st.integers(0, 9))
def test_scores_of_pairs_are_the_logits_of_their_candidates(terms, some, seed):
    train = some.with_rules(np.random.default_rng(seed).random(some.n_rules) < 0.5)
    scorer = scorer_of(train, *terms)
    parameters, candidates = parameters_of(scorer), every_candidate(some)
    logits = scorer.logits_of(parameters, scorer.query(some, candidates))
    n_relations = len(some.relations)
    scores = scorer.score_pairs(parameters, some, candidates.trigger[::n_relations], candidates.action[::n_relations])
    assert scores.dtype == np.float32
    assert scores.ravel().tolist() == pytest.approx(logits.tolist(), rel=1e-5, abs=1e-5)


def test_what_is_never_seen_has_no_score_where_training_does_not_ask_about_it():
    train = planted_homes()
    some, none = (scorer_of(train, "counts", answers_unseen=unseen) for unseen in (True, False))
    trigger, action = all_pairs(train)
    all_scores, scores = (s.score_pairs(parameters_of(s), train, trigger, action) for s in (some, none))
    types = train.device_type[trigger][:, None], train.device_type[action][:, None]
    seen = some.valid.contains(*types, np.arange(len(train.relations)))
    assert np.isnan(scores[~seen]).all()
    assert scores[seen].tolist() == pytest.approx(all_scores[seen].tolist(), rel=1e-6)


def test_scores_are_the_same_bits_in_any_order_and_a_few_at_a_time(monkeypatch):
    train = planted_homes()
    scorer = scorer_of(train, "counts", "context")
    parameters, (trigger, action) = parameters_of(scorer), all_pairs(train)
    together = scorer.score_pairs(parameters, train, trigger, action)
    order = np.random.default_rng(0).permutation(len(trigger))
    monkeypatch.setattr(fedrule.network.score, "CELLS_AT_ONCE", 12)  # three pairs
    parts = scorer.score_pairs(parameters, train, trigger[order], action[order])
    assert parts.tobytes() == together[order].tobytes()


def test_terms_keep_their_parameters_behind_their_names():
    scorer = scorer_of(planted_homes(), "learned", "context")
    names = set(scorer.initial(torch.Generator()))
    assert names >= {"bias.item", "context.rule", "context.type", "context.candidate", "phi.relation", "theta.self1"}


def test_a_score_too_large_for_its_type_is_finite():
    train = planted_homes()
    scorer = scorer_of(train)
    parameters = {name: value * 1e20 for name, value in parameters_of(scorer).items()}
    assert np.isfinite(scorer.score_pairs(parameters, train, *all_pairs(train))).all()


def test_no_pair_has_no_score():
    train = planted_homes()
    none = np.zeros(0, dtype=np.int64)
    scorer = scorer_of(train, "learned")
    assert scorer.score_pairs(parameters_of(scorer), train, none, none).shape == (0, len(train.relations))
