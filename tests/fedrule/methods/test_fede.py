"""FedE: resumed fits, histories, what a model is made of, and options that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.contract import ToyHome, all_pairs, planted_homes, toy_homes
from datasets import DataError

pytest.importorskip("numba", reason="fede needs the extra graph")

from fedrule.federated.checkpoint import Checkpoint
from fedrule.methods.fede import FedE

SMALL = {"dimension": 2, "non_rules": 3, "rounds": 6, "cohort": 10}
HOMES = planted_homes()


class KilledError(Exception):
    """The process ends here."""


def fit(method, homes=HOMES, seed=0, **more):
    return method.fit(homes, rng=np.random.default_rng(seed), **more)


def scores_of(fitted, homes=HOMES):
    return fitted.score_pairs(homes, *all_pairs(homes))


@pytest.mark.parametrize("server", ["plain", "adam"])
def test_a_resumed_fit_is_an_uninterrupted_one_bit_for_bit(server, tmp_path):
    method = FedE(**SMALL, server_optimizer=server, drop_out=0.1, corrupted=0.1)

    def kill(done, *_):
        if done == 4:
            raise KilledError

    checkpoint = Checkpoint(tmp_path / "fit.npz", every=1)
    with pytest.raises(KilledError):
        fit(method, checkpoint=checkpoint, on_round=kill)
    rounds = []
    resumed = fit(method, checkpoint=checkpoint, on_round=lambda done, *_: rounds.append(done))
    assert rounds == [4, 5, 6]
    assert scores_of(resumed).tobytes() == scores_of(fit(method)).tobytes()


def test_another_fit_does_not_resume_it(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.npz", every=1)
    fit(FedE(**SMALL), checkpoint=checkpoint)
    with pytest.raises(DataError):
        fit(FedE(**SMALL, margin=3.0, score="rotate"), checkpoint=checkpoint)


def test_every_round_says_what_a_home_sends():
    history = []
    fit(FedE(**SMALL), on_round=lambda *seen: history.append(seen))
    assert [(done, of) for done, of, *_ in history] == [(done, 6) for done in range(1, 7)]
    assert all(values["sent_bytes"] > 0 and values["clients"] == 10 for *_, values in history)
    # First which typed rules there are: the cells of 5 x 5 types and 4 relations, 4 bytes each.
    assert [values.get("statistics_bytes") for *_, values in history] == [4.0 * 100, *[None] * 5]
    # Rows of 4 numbers and a count, of 5 types and 4 relations: 2 tables of relations and 4 of types.
    assert history[0][-1]["received_bytes"] == 4 * 5 * (2 * 4 + 4 * 5)


@pytest.mark.parametrize("score", ["rotate", "complex"])
def test_training_lowers_the_loss(score):
    losses = []
    method = FedE(score=score, rounds=40, cohort=0)
    fit(method, on_round=lambda *seen: losses.append(seen[-1]["loss"]))
    assert np.mean(losses[-5:]) < 0.8 * losses[0]


def test_without_vectors_of_homes_all_get_the_same_scores():
    fitted = fit(FedE(**SMALL, personal=False))
    assert fitted.embeddings.owned is None
    scores = fitted.score_items(HOMES, np.arange(HOMES.n_homes))
    assert (scores == scores[0]).all()


def test_relations_of_rotate_only_rotate():
    d, relation = 2, fit(FedE(**SMALL, score="rotate")).embeddings.relation
    np.testing.assert_allclose(np.hypot(relation[:, :d], relation[:, d:]), 1)


def test_homes_without_a_rule_leave_nothing_to_learn():
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light")), ToyHome(2, ())])
    assert np.isnan(scores_of(fit(FedE(**SMALL), homes), homes)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 4.0}, r"fede: epsilon 4.0 is refused: the list of items is a count"),
        ({"noise_multiplier": 1.0, "clip": 0.1}, "fede: noise_multiplier 1.0 is refused: the list of items"),
        ({"clip": 0.1}, "fede: clip 0.1 would also change the weights by which rows are averaged"),
        ({"aggregation": "median"}, "fede: aggregation 'median' would also change the weights"),
        ({"client_optimizer": "kept-adam"}, "fede: client_optimizer kept-adam would move rows .* set sgd or adam"),
        ({"score": "distmult"}, "score of fede"),
        ({"non_rules": 0}, "fede: non_rules must be at least 1, got 0"),
        ({"margin": 0.0}, "fede: margin must be above 0, got 0"),
        ({"margin": 8.0}, "fede: margin 8 has no effect with score complex; use rotate"),
    ],
)
def test_wrong_options_say_what_would_be_right(options, words):
    with pytest.raises(DataError, match=words):
        FedE(**options)
