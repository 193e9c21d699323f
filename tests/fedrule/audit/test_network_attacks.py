"""Attacks on updates of the paper's network find what was planted, and nothing where there is only noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

from fedrule.audit.defences import Defence, mean_update
from fedrule.audit.findings import RuleScore
from fedrule.audit.network import TouchedRows, invert_network, pair_units, touched_rows
from fedrule.audit.view import highest, popular_rules
from tests.support.attacked import N_TYPES, PLANTED, federation

TARGETS = np.arange(20)


def view_of(attacked, client=0, **changes):
    (one,) = attacked.updates(np.array([client])).values()
    return replace(attacked.view(client, one.update / one.weight, 0.0, clients=1), **changes)


def planted_rule(attacked):
    trigger, relation, action = PLANTED
    chosen = np.zeros(len(attacked.public.valid), dtype=bool)
    chosen[attacked.public.valid.number(trigger, action, relation)] = True
    return chosen


@pytest.mark.parametrize("method", ["fedgnn", "fedrule"])
@pytest.mark.parametrize("steps", [1, 3])
def test_the_only_rule_of_a_home_is_read_from_its_update(method, steps):
    attacked = federation(method, local_steps=steps)
    guess = invert_network(view_of(attacked, devices=None))
    assert np.array_equal(guess.chosen, planted_rule(attacked))
    assert np.flatnonzero(guess.relations).tolist() == [PLANTED[1]]


def test_touched_rows_say_which_relation_is_a_rule_and_which_type_triggers_it():
    attacked = federation()
    view = view_of(attacked, devices=None)
    touched = TouchedRows.of(view)
    # One rule and one non-rule: two rows differ from zero, and the bias of the rule's alone is negative.
    assert (np.abs(touched.rows).sum(axis=1) > 0).sum() == 2
    assert np.flatnonzero(touched.rules).tolist() == [PLANTED[1]]
    assert np.flatnonzero(touched.senders).tolist() == [PLANTED[0]]
    assert touched_rows(view).chosen[planted_rule(attacked)].all()


def test_the_bias_of_a_rule_has_the_gradient_of_cross_entropy():
    attacked = federation(local_steps=1)
    touched = TouchedRows.of(view_of(attacked))
    view = view_of(attacked)
    pair = np.array([PLANTED[0] * N_TYPES + PLANTED[2]])
    (units,) = pair_units(view, pair, np.zeros(len(attacked.public.valid), dtype=bool))
    layout = attacked.public.layout
    row = view.model[layout.n_dense :].reshape(layout.n_rows, layout.row_length)[PLANTED[1]]
    # d = (p - 1) / 2 for the rule, of two candidates; the row is d [h ; 1].
    d = -1 / (1 + np.exp(row @ units)) / 2
    np.testing.assert_allclose(touched.rows[PLANTED[1]], d * units, rtol=1e-3, atol=1e-6)


def test_a_server_that_keeps_the_updates_of_fedrule_knows_the_client_s_correction():
    before = federation("fedrule")
    after = before.after(1)
    own = view_of(before).next_own()
    np.testing.assert_allclose(own, after.own(0), rtol=1e-3, atol=1e-5)
    later = replace(view_of(after), own=own)
    np.testing.assert_allclose(later.next_own(), after.after(2).own(0), rtol=2e-2, atol=1e-3)


def test_the_only_rule_is_also_read_after_training_where_the_server_kept_the_updates():
    attacked = federation("fedrule").after(5)
    guess = invert_network(view_of(attacked, devices=None, own=attacked.own(0)))
    assert np.array_equal(guess.chosen, planted_rule(attacked))


def noise_view(attacked):
    deviation = 100.0
    noise = np.random.default_rng(0).normal(size=attacked.public.layout.size) * deviation
    return attacked.view(0, noise, deviation, clients=1)


def test_of_pure_noise_inversion_claims_nothing_and_ranks_by_what_is_common():
    view = noise_view(federation())
    guess, common = invert_network(view), popular_rules(view)
    assert not guess.chosen.any()
    # Likelihood ratios are below 1e-3 here; shares of homes, and so their log-odds, differ by more or not at all.
    assert np.diff(np.unique(view.prior)).min() > 1e-3
    assert common.score[highest(guess.score, 5)].sum() == pytest.approx(np.sort(common.score)[-5:].sum())


def test_of_pure_noise_hardly_any_row_is_taken_as_touched():
    touched = TouchedRows.of(noise_view(federation()))
    # Of 40 normal numbers 0.05 are below -3 standard deviations on average; more than one in 1 of 800 draws.
    assert touched.rules.sum() <= 1


def score_of(attacked, defence, clip=0.1):
    sums, score = attacked.updates(TARGETS), RuleScore()
    for target in TARGETS.tolist():
        others = [client for client in sums if client != target]
        rng = np.random.default_rng(target)
        cohort = [target, *rng.choice(others, defence.cohort - 1, replace=False).tolist()]
        control = rng.choice(others, defence.cohort, replace=False).tolist()
        guesses = []
        for which, some in enumerate((cohort, control)):
            update, deviation = mean_update([sums[k] for k in some], defence, clip=clip, key=(target, which))
            guesses.append(invert_network(attacked.view(target, update, deviation, clients=len(some))))
        score.add(guesses[0], attacked.truth(target), guesses[1])
    return score.values


def test_defences_lower_what_is_found():
    attacked = federation()
    plain, summed = score_of(attacked, Defence()), score_of(attacked, Defence(10))
    little, much = score_of(attacked, Defence(1, 64, 0.1)), score_of(attacked, Defence(1, 1, 4.0))
    assert plain["top"] > 0.8
    assert plain["control"] < 0.3
    assert summed["top"] < plain["top"] - 0.3
    assert summed["precision"] < 0.5
    assert much["top"] < little["top"] <= plain["top"]
    assert much["recall"] < 0.2
