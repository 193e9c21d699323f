"""The second place of the challenge: what it learns, what has no score, and that a saved model stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

import datasets
import fedrule
from baselines.contract import all_pairs, planted_homes
from baselines.registry import build, parameters
from datasets.common.errors import DataError, UnknownName
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="sagerank needs the extra graph")

from fedrule.evidence.statistics import Statistics  # noqa: E402
from fedrule.inference.network import is_network_alone  # noqa: E402
from fedrule.methods.sagerank import SageRank  # noqa: E402
from fedrule.models.restore import counts_of  # noqa: E402

BRIEF = {"rounds": 3, "least_steps": 0, "first_hidden": 8, "hidden": 4}


def fitted(homes, **options):
    return SageRank(**{**BRIEF, **options}).fit(homes, rng=np.random.default_rng(2))


def test_every_parameter_says_what_it_means():
    assert all(parameter.meaning for parameter in parameters("sagerank"))


def test_relations_seen_too_rarely_are_not_learned_and_have_no_score():
    # Of the planted homes 19 have Open -> Power On between the types, 26 Motion -> Power On (all with a Light: not 6,
    # 13, 20, 27, which is 26 of 30), and 5 No Motion -> Power Off (every other one with a Plug: 3, 9, 15, 21, 27).
    homes = planted_homes()
    counts = np.bincount(homes.rules.relation, minlength=4)
    assert counts.tolist() == [19, 26, 5, 0]
    for least, learned in ((0, 4), (1, 3), (5, 3), (6, 2), (20, 1)):
        scorer = SageRank(**BRIEF, min_count=least).scorer(
            ValidRules.of(homes), Statistics.of(homes, ValidRules.of(homes))
        )
        assert scorer.network.halves.learned.sum() == learned
    scores = fitted(homes, min_count=20).score_pairs(homes, *all_pairs(homes))
    assert np.isfinite(scores[:, 1]).any()
    assert np.isnan(scores[:, [0, 2, 3]]).all()


def test_rules_of_relations_that_are_not_learned_change_no_score():
    homes = planted_homes()
    model = fitted(homes, min_count=20)
    others = homes.with_rules(homes.rules.relation == 1)
    pairs = all_pairs(homes)
    assert model.score_pairs(homes, *pairs).tobytes() == model.score_pairs(others, *pairs).tobytes()


def test_where_no_relation_is_common_enough_nothing_has_a_score():
    homes = planted_homes()
    assert np.isnan(fitted(homes, min_count=1000).score_pairs(homes, *all_pairs(homes))).all()


def test_one_rule_of_each_home_is_left_out_beside_one_non_rule():
    homes = planted_homes()
    method = SageRank(**BRIEF, per_rule=1)
    valid = ValidRules.of(homes)
    scorer = method.scorer(valid, Statistics.of(homes, valid))
    examples = method.sampler(homes, scorer, self_pairs=False).draw(np.random.default_rng(0))
    with_rules = np.unique(homes.rules.home)
    assert examples.candidates.home[examples.positive].tolist() == with_rules.tolist()
    assert examples.context.n_rules == homes.n_rules - len(with_rules)
    non_rules = np.bincount(examples.candidates.home[~examples.positive], minlength=homes.n_homes)
    assert non_rules.max() == 1  # none where the home's devices could have no other rule


def test_a_share_of_rules_can_be_hidden_instead():
    homes = planted_homes()
    method = SageRank(**BRIEF, hidden_rules=0.5)
    valid = ValidRules.of(homes)
    scorer = method.scorer(valid, Statistics.of(homes, valid))
    examples = method.sampler(homes, scorer, self_pairs=False).draw(np.random.default_rng(0))
    assert np.bincount(examples.candidates.home[examples.positive]).max() > 1


def test_the_same_seed_gives_the_same_bits():
    homes = planted_homes()
    first, second = (fitted(homes, dropout=0.2).score_pairs(homes, *all_pairs(homes)) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("track", ["types", "instances"])
def test_a_trained_model_recommends_rules_of_learned_relations_and_is_not_taken_for_the_papers_network(track):
    homes = datasets.load("wyze-synthetic", homes=60)
    homes = homes.merged_types() if track == "types" else homes
    saved = fedrule.train(homes, "sagerank", options=BRIEF, seed=3)
    assert not is_network_alone(saved)
    learned = SageRank(**BRIEF).scorer(saved.valid, counts_of(saved)).network.halves.learned
    assert 0 < learned.sum() < len(learned)
    listed = fedrule.Recommender(saved).recommend_many(homes, k=1000)
    assert len(listed)
    assert learned[listed.relation].all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_hidden": 0}, "sagerank: first_hidden must be at least 1, got 0"),
        ({"edge_embedding": 0}, "sagerank: edge_embedding must be at least 1, got 0"),
        ({"min_count": -1}, "sagerank: min_count must be at least 0, got -1"),
        (
            {"encoder": "gcn"},
            r"sagerank: encoder 'gcn' cannot be changed here; graphrule has all encoders \(leave it at 'sage'\)",
        ),
        ({"evidence": 4}, r"sagerank: evidence 4 is a term of the score of other graph methods \(leave it at 0\)"),
        ({"bias": "counts"}, "sagerank: bias 'counts' is a term of the score of other graph methods"),
        ({"preset": "paper"}, "sagerank: preset 'paper' is for the paper's methods"),
    ],
)
def test_options_that_it_has_no_use_for_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        SageRank(**options)


def test_an_unknown_option_is_refused_with_a_guess():
    with pytest.raises((DataError, UnknownName), match="min_count"):
        build("sagerank", min_counts=3)
