"""R-GCN and the heterogeneous graph transformer as methods: their networks, options, and saved models."""

from __future__ import annotations

import numpy as np
import pytest

import datasets
import fedrule
from baselines.contract import all_pairs, planted_homes, toy_homes
from baselines.registry import build, parameters
from datasets.common.errors import DataError

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")

from fedrule.inference.network import is_network_alone  # noqa: E402
from fedrule.methods.relational import (  # noqa: E402
    DistMult,
    HeterogeneousGnn,
    RelationalGcn,
)

BRIEF = {"rounds": 2, "least_steps": 0, "hidden": 4}
BOTH = pytest.mark.parametrize("name", ["rgcn", "hetgnn"])


def test_the_options_reach_the_networks():
    network = RelationalGcn(num_bases=3, decoder="distmult").network(5, 7)
    assert isinstance(network, DistMult)
    assert (network.encoder, network.sizes.num_bases, network.sizes.direction) == ("rgcn", 3, "both")
    network = HeterogeneousGnn(heads=4, predictor_hidden=9).network(5, 7)
    assert (network.encoder, network.sizes.heads, network.predictor_hidden) == ("hgt", 4, 9)


@BOTH
def test_every_parameter_says_what_it_means(name):
    assert all(parameter.meaning for parameter in parameters(name))


@BOTH
@pytest.mark.parametrize("decoder", ["distmult", "predictor"])
def test_the_same_seed_gives_the_same_bits_and_the_global_random_state_is_not_touched(name, decoder):
    homes = planted_homes()
    before = torch.random.get_rng_state()
    method = build(name, **BRIEF, decoder=decoder)
    first, second = (
        method.fit(homes, rng=np.random.default_rng(1)).score_pairs(homes, *all_pairs(homes)) for _ in range(2)
    )
    assert first.tobytes() == second.tobytes()
    assert torch.equal(before, torch.random.get_rng_state())


@BOTH
def test_homes_without_a_rule_give_no_score(name, caplog):
    homes = toy_homes([]) if name == "rgcn" else planted_homes().with_rules(np.zeros(0, dtype=np.int64))
    fitted = build(name, **BRIEF).fit(homes, rng=np.random.default_rng(0))
    assert "has no rule to learn from" in caplog.text
    assert np.isnan(fitted.score_pairs(homes, *all_pairs(homes))).all()


@pytest.mark.parametrize(("name", "encoder"), [("rgcn", "rgcn"), ("hetgnn", "hgt")])
def test_a_trained_model_recommends_and_is_not_taken_for_the_papers_network(name, encoder):
    homes = datasets.load("wyze-synthetic", homes=40)
    saved = fedrule.train(homes, name, options=BRIEF, seed=3)
    assert saved.card.options["encoder"] == encoder
    assert not is_network_alone(saved)
    assert len(fedrule.Recommender(saved).recommend_many(homes, k=3))
    other = {"rgcn": {"num_bases": 2}, "hetgnn": {"decoder": "distmult"}}[name]
    (option,) = other
    with pytest.raises(DataError, match=f"{option} cannot change from .* in a saved model"):
        fedrule.train(datasets.load("wyze-synthetic", homes=20, seed=9), continue_from=saved, options=other)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rgcn", {"encoder": "sage"}, "rgcn: encoder 'sage' cannot be changed here; graphrule has all encoders"),
        ("hetgnn", {"encoder": "rgcn"}, "hetgnn: encoder 'rgcn' cannot be changed here"),
        ("rgcn", {"hidden": 0, "bias": "learned"}, "rgcn: hidden must be at least 1, got 0"),
        ("rgcn", {"num_bases": 0}, "num_bases must be at least 1, got 0"),
        ("rgcn", {"decoder": "distmul"}, "'distmul'; did you mean 'distmult'"),
        ("rgcn", {"decoder": "distmult", "predictor_hidden": 8}, "decoder 'distmult' has no hidden units"),
        ("hetgnn", {"heads": 3}, "hidden 16 is not divisible by heads 3"),
        ("hetgnn", {"preset": "authors-code"}, "hetgnn: preset 'authors-code' is for the paper's methods"),
    ],
)
def test_options_that_it_has_no_use_for_are_refused(name, options, message):
    with pytest.raises(DataError, match=message):
        build(name, **options)
