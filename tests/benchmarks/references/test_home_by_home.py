"""The loop over homes that speed is measured against computes what the packed batch computes."""

from __future__ import annotations

import numpy as np
import pytest

import datasets
from baselines.registry import build
from datasets.candidates import Pairs, has_self_rules
from datasets.homes import Homes
from datasets.valid import ValidRules

pytest.importorskip("torch", reason="the network needs the extra graph")
pytest.importorskip("torch_geometric", reason="the network needs the extra graph")

import torch

from benchmarks.references.home_by_home import HomeByHome, home_graphs, whole_homes
from fedrule.network.encoders import Sizes
from fedrule.network.network import Network
from fedrule.network.score import Scorer
from fedrule.training.examples import ExampleSampler
from fedrule.training.loop import BatchLoss, TrainingBatch
from fedrule.training.losses import bce


@pytest.fixture(scope="module")
def homes() -> Homes:
    return datasets.load("wyze-synthetic", homes=120).merged_types()


def test_both_have_the_same_loss_and_gradient(homes: Homes) -> None:
    valid = ValidRules.of(homes)
    scorer = Scorer(Network(Sizes(len(homes.types), len(homes.relations))), valid)
    examples = ExampleSampler.of(homes, valid).draw(np.random.default_rng(0))
    parameters = {name: p.requires_grad_() for name, p in scorer.initial(torch.Generator().manual_seed(0)).items()}
    packed = BatchLoss(scorer, bce)(parameters, TrainingBatch.of(scorer, examples))
    slow = HomeByHome(parameters)
    one_by_one = slow.loss(home_graphs(examples, homes.n_homes))
    torch.testing.assert_close(packed, one_by_one, rtol=1e-4, atol=1e-5)
    torch.autograd.backward([packed, one_by_one])
    first, second = slow.layers
    of_loop = {
        "theta.in1": first.lin_l.weight.grad.T,
        "theta.self1": first.lin_r.weight.grad.T,
        "theta.in2": second.lin_l.weight.grad.T,
        "theta.self2": second.lin_r.weight.grad.T,
        "phi.relation": slow.relations.weight.grad,
        "phi.relation_bias": slow.relations.bias.grad,
    }
    for name, gradient in of_loop.items():
        torch.testing.assert_close(parameters[name].grad, gradient, rtol=1e-4, atol=1e-5)


def test_both_give_all_pairs_of_a_home_the_same_scores(homes: Homes) -> None:
    model = build("graphrule", rounds=3).fit(homes, rng=np.random.default_rng(0))
    self_pairs = has_self_rules(homes.rules)
    pairs = Pairs.of(homes, self_pairs=self_pairs)
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    slow = HomeByHome({name: value.float() for name, value in model.parameters.items()})
    with torch.no_grad():
        one_by_one = [slow.logits(home) for home in whole_homes(homes, homes.n_homes, self_pairs=self_pairs)]
    np.testing.assert_allclose(model.score_pairs(homes, trigger, action), torch.cat(one_by_one), rtol=1e-4, atol=1e-4)
