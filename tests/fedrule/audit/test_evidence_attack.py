"""The attack on updates of fedrank finds the rules that an update is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

from datasets.common.errors import DataError
from fedrule.audit.evidence import invert_evidence, pursue
from fedrule.audit.findings import RuleScore
from fedrule.audit.view import highest, popular_rules
from tests.support.attacked import PLANTED, federation


@given(st.integers(0, 2**32))
def test_a_sum_of_two_atoms_is_taken_apart(seed):
    # 30 atoms in 100 dimensions are nearly orthogonal: the larger is found first, then the other.
    atoms = np.random.default_rng(seed).normal(size=(30, 100))
    assert pursue(atoms, 2 * atoms[3] + atoms[9], least=1e-6).tolist() == [3, 9]


def test_nothing_is_pursued_where_the_target_is_against_all_atoms():
    atoms = np.eye(3)
    assert pursue(atoms, -np.ones(3), least=1e-6).tolist() == []


def test_the_only_rule_of_a_home_is_read_from_the_round_in_which_it_was_hidden():
    attacked = federation("fedrank")
    while not (sums := attacked.updates(np.array([0]))):  # until a draw hides it
        attacked = attacked.skipped()
    view = attacked.view(0, sums[0].update / sums[0].weight, 0.0, clients=1)
    guess = invert_evidence(view)
    trigger, relation, action = PLANTED
    assert np.flatnonzero(guess.chosen).tolist() == [attacked.public.valid.number(trigger, action, relation)]


def test_the_attacker_has_to_know_the_devices():
    attacked = federation("fedrank")
    view = attacked.view(0, np.zeros(attacked.public.layout.size), 0.0, clients=1)
    with pytest.raises(DataError, match="has to know the home's devices"):
        invert_evidence(replace(view, devices=None))


def test_an_update_of_zeros_and_one_of_noise_tell_nothing():
    attacked = federation("fedrank")
    size = attacked.public.layout.size
    noise = np.random.default_rng(0).normal(size=size)
    for update, deviation in ((np.zeros(size), 0.0), (noise, 1.0)):
        assert not invert_evidence(attacked.view(0, update, deviation, clients=1)).chosen.any()


def test_it_finds_more_than_what_is_common_and_more_than_without_the_home():
    attacked, score, common = federation("fedrank"), RuleScore(), 0
    sums = attacked.updates(np.arange(20))
    clients = sorted(sums)
    for client, other in zip(clients, [*clients[1:], clients[0]], strict=True):
        views = (attacked.view(client, sums[k].update / sums[k].weight, 0.0, clients=1) for k in (client, other))
        guess, control = map(invert_evidence, views)
        truth = attacked.truth(client)
        score.add(guess, truth, control)
        view = attacked.view(client, sums[client].update, 0.0, clients=1)
        common += int((highest(popular_rules(view).score, int(truth.chosen.sum())) & truth.chosen).sum())
    has = sum(int(attacked.has[client].sum()) for client in clients)
    assert score.values["top"] > max(common / has, score.values["control"]) + 0.1
