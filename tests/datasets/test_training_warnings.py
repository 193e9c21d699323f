"""What counts as a training that went wrong."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from datasets.common.training_warnings import TrainingWarning, training_warnings


def history(*rounds):
    return [{"round": number + 1.0, **values} for number, values in enumerate(rounds)]


def kinds(rows, rounds=None):
    return [warning.kind for warning in training_warnings(rows, len(rows) if rounds is None else rounds)]


def test_a_training_that_went_well_has_no_warnings():
    assert training_warnings(history({"loss": 0.7, "clients": 5.0, "refused": 0.0}, {"loss": 0.6}), 2) == []
    assert training_warnings([], 0) == []  # a method without rounds


def test_a_divergence_is_one_warning_that_says_which_rounds_there_were():
    found = training_warnings(history({"loss": 0.7}, {"loss": 0.6}, {"loss": 0.6, "diverged": 1.0}), 100)
    assert found == [
        TrainingWarning("diverged", 3, 1, "training diverged in round 3 of 100; the model is its last good one")
    ]
    assert found[0].marked


def test_the_loss_of_a_method_without_a_guard_says_that_it_diverged():
    (found,) = training_warnings(history({"loss": 0.7}, {"loss": math.inf}, {"loss": math.nan}), 3)
    assert (found.kind, found.round, found.marked) == ("non-finite", 2, True)


def test_a_round_without_clients_has_no_loss_and_is_no_divergence():
    assert kinds(history({"loss": math.nan, "clients": 0.0}, {"loss": 0.7, "clients": 3.0})) == []


def test_rounds_that_were_not_run_are_counted():
    rows = history({"loss": 0.7}, {"loss": 0.6, "early_stop": 1.0})
    (early,) = training_warnings(rows, 10)
    assert (early.kind, early.round, early.count) == ("early stopping", 2, 8)
    (unexplained,) = training_warnings(rows[:1], 10)
    assert (unexplained.kind, unexplained.round, unexplained.count) == ("stopped", 1, 9)
    assert unexplained.text == "training ended, without a reason given, after round 1 of 10"


def test_early_stopping_in_the_last_round_leaves_none_out():
    assert kinds(history({}, {"early_stop": 1.0})) == []


def test_more_than_a_tenth_of_the_updates_of_one_round_are_many():
    # 3 of 27 + 3 updates are a tenth, 3 of 26 + 3 are more.
    assert kinds(history({"clients": 27.0, "refused": 3.0})) == ["few refused"]
    (found,) = training_warnings(history({"clients": 30.0}, {"clients": 26.0, "refused": 3.0}), 2)
    assert (found.kind, found.round, found.count, found.marked) == ("refused", 2, 3, True)
    assert found.text == "3 of 59 updates were NaN or infinite and refused, 3 of 29 in round 2"


def test_a_single_client_is_counted_but_never_many():
    (found,) = training_warnings(history(*[{"clients": 2.0, "refused": 1.0}] * 4), 4)
    assert (found.kind, found.count, found.marked) == ("few refused", 4, False)
    assert found.text == "4 of 12 updates were NaN or infinite and refused"


def test_simulated_faults_are_counted_but_are_no_fault_of_the_training():
    (found,) = training_warnings(history({"clients": 5.0, "refused": 5.0, "corrupted": 5.0}), 1)
    assert (found.kind, found.count) == ("few refused", 5)
    assert found.text == "5 of 10 updates were NaN or infinite and refused, 5 of them simulated faults"
    assert kinds(history({"clients": 5.0, "refused": 5.0, "corrupted": 3.0})) == ["refused"]  # 2 of 10 are its own


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), min_size=1))
def test_every_refused_update_is_counted_whatever_else_happens(rounds):
    rows = history(*({"clients": float(c), "refused": float(r), "corrupted": float(min(b, r))} for c, r, b in rounds))
    total = sum(refused for _, refused, _ in rounds)
    found = training_warnings(rows, len(rows))
    assert sum(warning.count for warning in found) == total
    own = [(r - min(b, r), c + r) for c, r, b in rounds]
    assert any(warning.marked for warning in found) == any(lost > 1 and 10 * lost > sent for lost, sent in own)
