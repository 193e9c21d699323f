"""The term of a score that weighs plain graph features, against its formula in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import all_pairs, planted_homes
from datasets import Rules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.evidence.evidence import Evidence  # noqa: E402
from fedrule.evidence.features import IS_WORD, NAMES  # noqa: E402
from fedrule.network.encoders import Dropout  # noqa: E402
from fedrule.network.hidden_layer import HiddenLayer  # noqa: E402
from fedrule.network.terms import EvidenceNetwork  # noqa: E402

HOMES = planted_homes()
TRIGGER, ACTION = all_pairs(HOMES)
ASKED = Rules(HOMES.device_home[TRIGGER], TRIGGER, ACTION, np.arange(len(TRIGGER)) % len(HOMES.relations))
TERM = EvidenceNetwork(Evidence.of(HOMES), hidden=4)


def random_parameters(term):
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(value.shape, generator=generator) for name, value in term.initial(generator).items()}


def test_logits_are_a_direct_weight_of_each_feature_and_a_hidden_layer():
    parameters = random_parameters(TERM)
    features = centred(TERM.evidence.features(HOMES, ASKED))
    p = {name: value.numpy() for name, value in parameters.items()}
    hidden = np.maximum(features @ p["first"] + p["first_bias"], 0)
    expected = features @ p["direct"] + hidden @ p["last"]
    logits = TERM.logits_of(parameters, TERM.observe(HOMES, ASKED), None)
    assert logits.tolist() == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-3)


def centred(features):
    """Shares of homes from around -3.5 to around 0, in steps of 1.5; the others stay."""
    is_share = [name.startswith("share of homes") for name in NAMES]
    return np.where(is_share, (features + 3.5) / 1.5, features)


def test_the_direct_weights_start_at_zero():
    parameters = TERM.initial(torch.Generator().manual_seed(0))
    assert parameters["direct"].tolist() == [0.0] * len(NAMES)
    assert {name: tuple(value.shape) for name, value in parameters.items()} == {
        "direct": (len(NAMES),),
        "first": (len(NAMES), 4),
        "first_bias": (4,),
        "last": (4,),
    }


@pytest.mark.parametrize("leave_out", [None, HOMES], ids=["all homes", "own home left out"])
def test_it_observes_the_features_of_the_evidence(leave_out):
    observed = TERM.observe(HOMES, ASKED, leave_out=leave_out)
    expected = centred(TERM.evidence.features(HOMES, ASKED, leave_out=leave_out))
    assert observed["features"].numpy() == pytest.approx(expected)


def test_without_words_it_takes_all_other_features():
    without = EvidenceNetwork(TERM.evidence, hidden=4, words=False)
    assert without.n_features == len(NAMES) - IS_WORD.sum() < TERM.n_features == len(NAMES)
    expected = TERM.observe(HOMES, ASKED)["features"].numpy()[:, ~IS_WORD]
    assert without.observe(HOMES, ASKED)["features"].numpy().tobytes() == expected.tobytes()


def test_dropout_is_drawn_in_training_only():
    term = EvidenceNetwork(TERM.evidence, hidden=4, dropout=0.5)
    parameters, observed = random_parameters(term), term.observe(HOMES, ASKED)
    answers = [term.logits_of(parameters, observed, None) for _ in range(2)]
    assert torch.equal(*answers)
    assert torch.equal(answers[0], TERM.logits_of(parameters, observed, None))
    drawn = [term.logits_of(parameters, observed, Dropout(seed)) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_are_those_of_finite_differences(dropout):
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    shapes = ((5,), (5, 4), (4,), (4,))  # direct, first, first_bias, last
    weights = [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
    kept = Dropout(1).kept((7, 4), dropout)
    assert torch.autograd.gradcheck(HiddenLayer.apply, (features, *weights, kept, 1 - dropout))


def test_scores_follow_the_type_of_the_parameters():
    parameters = {name: value.double() for name, value in random_parameters(TERM).items()}
    assert TERM.logits_of(parameters, TERM.observe(HOMES, ASKED), None).dtype == torch.float64
