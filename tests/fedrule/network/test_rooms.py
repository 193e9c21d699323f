"""The term of a score that weighs what the words of trigger and action say, for each relation."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import all_pairs
from datasets import Rules
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from baselines.registry import build  # noqa: E402
from fedrule.evidence.features import PAIR_NAMES, WORD  # noqa: E402
from fedrule.network.terms import Rooms  # noqa: E402
from tests.support.plain_evidence import PlainEvidence  # noqa: E402
from tests.support.rooms import room_homes  # noqa: E402
from tests.support.strategies import triples  # noqa: E402

HOMES = room_homes().subset(np.arange(6))
TRIGGER, ACTION = all_pairs(HOMES)
ASKED = Rules(HOMES.device_home[TRIGGER], TRIGGER, ACTION, np.arange(len(TRIGGER)) % len(HOMES.relations))
TERM = Rooms(ValidRules.of(HOMES))
WORDS = [name for name in PAIR_NAMES if name.startswith(WORD)]


def test_the_weights_start_at_zero_one_for_each_relation_and_feature():
    parameters = TERM.initial(torch.Generator())
    assert parameters.keys() == {"weight"}
    assert parameters["weight"].tolist() == [[0.0] * len(WORDS)] * len(HOMES.relations)
    assert not TERM.logits_of(parameters, TERM.observe(HOMES, ASKED), None).any()


def test_logits_are_the_weights_of_the_relation_times_the_features_of_the_pair_by_words():
    weight = torch.randn(len(HOMES.relations), len(WORDS), generator=torch.Generator().manual_seed(3))
    plain, expected = PlainEvidence(HOMES), []
    for candidate in triples(ASKED):
        features = plain.features(HOMES, candidate, left_out=False)
        expected.append(sum(w * features[name] for w, name in zip(weight[candidate[-1]].tolist(), WORDS, strict=True)))
    assert np.std(expected) > 0.1
    logits = TERM.logits_of({"weight": weight}, TERM.observe(HOMES, ASKED), None)
    assert logits.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    # Whose rules are left out does not matter: it counts no other homes.
    assert torch.equal(logits, TERM.logits_of({"weight": weight}, TERM.observe(HOMES, ASKED, leave_out=HOMES), None))


def test_without_words_it_adds_nothing():
    weight = torch.ones(len(HOMES.relations), len(WORDS))
    assert not TERM.logits_of({"weight": weight}, TERM.observe(HOMES.without_words(), ASKED), None).any()


def test_the_paper_network_learns_with_rooms():
    homes = room_homes()
    model = build("graphrule", words=True, rounds=3).fit(homes, rng=np.random.default_rng(0))
    assert model.parameters["rooms.weight"].abs().max() > 0
    pairs = all_pairs(homes)
    with_words, without = (model.score_pairs(some, *pairs) for some in (homes, homes.without_words()))
    assert np.nanmax(np.abs(with_words - without)) > 0
    assert "rooms.weight" not in build("graphrule", rounds=1).fit(homes, rng=np.random.default_rng(0)).parameters
