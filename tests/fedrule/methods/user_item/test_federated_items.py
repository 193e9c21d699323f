"""Federated user-item methods as a whole: as good as alternating least squares, what a home sends, and edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

import datasets
from baselines.contract import PLANTED, ToyHome, planted_homes, toy_homes
from baselines.items import Items
from baselines.registry import build
from benchmarks.evaluation import evaluate
from datasets.splits import split
from tests.support.real_data import needs_real

SHORT = {
    "fcf": {"rounds": 3, "factors": 4},
    "fedmf": {"rounds": 3, "factors": 4},
    "fedlightgcn": {"rounds": 3, "dimension": 4},
}
CONTACT_LIGHT = ("ContactSensor", "Light")


def fitted(name, homes, **options):
    """The model and the rows of the history."""
    rows = []
    made = build(name, **(SHORT[name] | options))
    return made.fit(homes, rng=np.random.default_rng(1), on_round=lambda *call: rows.append(call[3])), rows


def test_fcf_ends_where_alternating_least_squares_does():
    """The loss after 100 rounds is at most 2 % above that of 30 alternations, by plain NumPy; 1.3 % was measured.

    Neither finds the minimum: the loss has many.
    """
    homes = datasets.load("wyze-synthetic", homes=150)
    items = Items.of(homes)
    p = items.matrix(homes).toarray()
    penalty, c = 0.08 * math.sqrt(p.size), 1 + 49 * p

    def solved(table, weights, wanted):
        return np.stack(
            [
                np.linalg.solve(table.T @ (w[:, None] * table) + penalty * np.eye(8), table.T @ (w * r))
                for w, r in zip(weights, wanted, strict=True)
            ]
        )

    def loss(x, y):
        return (c * (p - x @ y.T) ** 2).sum() + penalty * ((x**2).sum() + (y**2).sum())

    y = 0.1 * np.random.default_rng(0).normal(size=(len(items), 8))
    for _ in range(30):
        x = solved(y, c, p)
        y = solved(x, c.T, p.T)
    model, _ = fitted("fcf", homes, rounds=100, factors=8, regularization=0.08, alpha=50.0, server_rate=0.05)
    assert loss(solved(model.factors, c, p), model.factors) <= 1.02 * loss(x, y)


@pytest.mark.slow
@needs_real("ifttt")
@pytest.mark.parametrize("name", ["fcf", "fedmf"])
def test_federated_factors_rank_as_well_as_mf_on_the_ifttt_data(name):
    """On a split of a seed that no result has MRR 0.667 of fcf, 0.666 of fedmf and 0.662 of mf were measured."""
    pytest.importorskip("implicit", reason="mf needs the extra mf")
    parts = split(datasets.load("ifttt-fedrule"), "holdout", seed=100)
    ours, theirs = (
        evaluate(build(each).fit(parts.train, rng=np.random.default_rng(100)), parts, "ranking").summary["mrr, closed"]
        for each in (name, "mf")
    )
    assert ours >= 0.98 * theirs


@pytest.mark.parametrize("name", ["fcf", "fedmf"])
def test_federated_factors_have_the_loss_of_mf(name):
    pytest.importorskip("implicit", reason="mf needs the extra mf")
    ours, theirs = build(name), build("mf")
    assert (ours.factors, ours.regularization, ours.alpha) == (theirs.factors, theirs.regularization, theirs.alpha)


@pytest.mark.parametrize("name", SHORT)
def test_the_history_says_what_a_home_sends(name):
    model, rows = fitted(name, planted_homes())
    # First the cells of 5 x 5 types and 4 relations, 4 bytes each; then in each round the table of 3 items x 4.
    assert [row.get("statistics_bytes") for row in rows] == [4.0 * 100, None, None]
    assert len(model.items) == 3
    if name == "fedlightgcn":  # the shared vector, and of each item in the batch 4 numbers and its own number
        assert all(4 * 4 + 20 < row["sent_bytes"] <= 4 * 4 + 3 * 20 for row in rows)
    else:
        assert all(row["sent_bytes"] == 4.0 * 12 for row in rows)
    if name == "fedmf":
        assert all(row["encrypted_bytes"] == 512.0 * 12 for row in rows)
    assert all(row["loss"] > 0 for row in rows)


def test_ciphertexts_are_counted_without_the_messages_of_secure_sums():
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    _, rows = fitted("fedmf", planted_homes(), secure_threshold=0.67)
    # Keys and shares are received beside the table, 3 items x 4 factors.
    assert all(row["received_bytes"] > 4.0 * 12 for row in rows)
    assert all(row["encrypted_bytes"] == 512.0 * 12 for row in rows)


@pytest.mark.parametrize("name", ["fcf", "fedmf"])
def test_a_home_without_rules_gets_no_scores_from_factors(name):
    model, _ = fitted(name, planted_homes())
    scores = model.score_items(
        toy_homes([ToyHome(1, CONTACT_LIGHT), ToyHome(2, CONTACT_LIGHT, (PLANTED,))]), np.arange(2)
    )
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()


def test_a_home_without_rules_is_scored_by_the_vector_that_all_homes_share():
    model, _ = fitted("fedlightgcn", planted_homes())
    (scores,) = model.score_items(toy_homes([ToyHome(1, CONTACT_LIGHT)]), np.arange(1))
    # q is 0, so that the mean over K + 1 layers of the home is h / (K + 1), and that of an item e / (K + 1).
    np.testing.assert_allclose(scores, model.embeddings @ model.home / (model.task.layers + 1) ** 2)


@pytest.mark.parametrize("name", SHORT)
def test_the_same_seed_gives_the_same_bits(name):
    homes = planted_homes()
    first, again = (fitted(name, homes)[0].score_items(homes, np.arange(homes.n_homes)) for _ in range(2))
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("name", SHORT)
def test_a_round_of_which_nobody_is_left_leaves_the_model(name):
    model, rows = fitted(name, planted_homes(), drop_out=1.0)
    assert all(row["clients"] == 0 for row in rows)
    assert np.isfinite(model.score_items(planted_homes(), np.array([0]))).all()


@pytest.mark.parametrize("name", SHORT)
def test_homes_without_a_rule_have_no_items_and_no_rounds(name):
    model, rows = fitted(name, toy_homes([ToyHome(1, CONTACT_LIGHT), ToyHome(2, CONTACT_LIGHT)]))
    assert rows == []
    assert model.score_items(planted_homes(), np.array([0])).shape == (1, 0)
