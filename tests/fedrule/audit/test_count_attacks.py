"""What counting sums give away: rows of rules of one home, differences, membership; and what defences leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")
pytest.importorskip("opacus", reason="the account of noise needs the extra private")

from datasets.valid import ValidRules
from fedrule.audit.counts import added_cells, claimed_cells, homes_read, is_member
from fedrule.audit.defences import Defence, summed_counts
from fedrule.audit.federation import contributions
from fedrule.audit.run import AuditSize, audit_count_members, audit_count_rules, audit_singles
from fedrule.evidence.counts import PATTERNS
from fedrule.evidence.statistics import Statistics
from tests.support.attacked import planted
from tests.support.small_populations import populations


@settings(max_examples=20)
@given(populations())
def test_what_homes_add_is_what_the_statistics_sum(homes):
    valid = ValidRules.of(homes)
    counted, tables = Statistics.of(homes, valid), contributions(homes, valid)
    sums = {name: np.asarray(table.sum(axis=0)).ravel() for name, table in tables.items()}
    names = ["typed rules", *(f"rules by {', '.join(p).replace('_', ' ')}" for p in PATTERNS[1:])]
    for name, have in zip(names, counted.have, strict=True):
        assert np.array_equal(sums[name], have[1:] if name == "typed rules" else have)
    both = counted.both.reshape(valid.n_types, -1)
    assert np.array_equal(sums["pairs of owned types"].reshape(both.shape), np.triu(both))
    together = counted.counted_together().toarray()
    assert np.array_equal(sums["pairs of typed rules"].reshape(together.shape), np.triu(together, 1))
    assert np.array_equal(sums["relations in common"], counted.companions.homes)
    rooms = ("rooms, by types", "same room, by types", "rooms, by typed rule", "same room, by typed rule")
    for name, column in zip(rooms, counted.rooms.columns, strict=True):
        assert np.array_equal(sums[name], column)


def test_a_rule_of_one_home_gives_all_its_rules_away():
    # Rule 0 is of home 0 only, which also has 1 and 2; home 1 has 1 and 2; home 2 has 2.
    has = csr_array(np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]]))
    assert [row.tolist() for row in homes_read(csr_array(has.T @ has))] == [[0, 1, 2]]


def test_counts_of_one_are_counted_by_sum_and_home():
    homes = planted(4)
    findings = {finding.attack: finding.values for finding in audit_singles(homes)}
    typed = contributions(homes, ValidRules.of(homes))["typed rules"].toarray()
    single = typed.sum(axis=0) == 1
    assert findings["counts of 1: typed rules"]["cells of one home"] == single.sum()
    assert findings["counts of 1: typed rules"]["homes with such a cell"] == typed[:, single].any(axis=1).mean()
    assert findings["rows of rules of one home"]["precision"] == 1.0


def test_two_sums_that_differ_by_a_home_give_its_cells():
    assert added_cells(np.array([3.0, 0.0, 7.0]), np.array([4.0, 0.0, 8.0])).tolist() == [0, 2]


def test_the_addend_of_a_single_home_is_claimed_as_it_is():
    odds = claimed_cells(np.array([1.0, 0.0, 1.0]), 0.0, np.array([0.5, 0.5, 0.01]), clients=1)
    assert (odds > 0).tolist() == [True, False, True]


def test_a_home_with_an_empty_cell_is_not_in_the_sum_and_one_with_a_rare_cell_is():
    share = np.array([0.3, 0.001])
    assert is_member(np.array([30.0, 0.0]), 0.0, share, homes=100) == -np.inf
    # The rare cell is 1: expected 0.1 times without the home, certain with it. log(1 / 0.1), about 2.3, and a bit less
    # for the common one.
    assert is_member(np.array([30.0, 1.0]), 0.0, share, homes=100) == pytest.approx(np.log(1 / 0.1), abs=0.15)


def test_noise_and_bounds_are_those_of_private_counts():
    table = csr_array(np.ones((3, 8)))
    plain, deviation = summed_counts(table, "rules", Defence(3), key=(1,))
    assert (plain.tolist(), deviation) == ([3.0] * 8, 0.0)
    # Rows of norm sqrt(8) are scaled to sqrt(2), by half; the share of rules is 0.4, so z is 1e-9 / sqrt(0.4).
    bounded, deviation = summed_counts(table, "rules", Defence(3, 1.0, 1e-9), key=(1,))
    assert bounded == pytest.approx([1.5] * 8)
    assert deviation == pytest.approx(1e-9 / np.sqrt(0.4) * np.sqrt(2))


PLAN = AuditSize(homes=20, targets=10, cohorts=(4,), epsilons=(1.0,), account_homes=1000)


def test_without_a_defence_counts_are_the_rules_and_noise_hides_them():
    found = {(f.attack, f.defence, f.cohort): f.values for f in audit_count_rules(planted(), PLAN, seed=0)}
    assert found["typed rules", "none", 1]["exact"] == 1.0
    assert found["difference of two sums", "secure sum", 20]["exact"] == 1.0
    alone, everybody = found["typed rules", "noise in the home", 1], found["typed rules", "secure sum and noise", 20]
    assert alone["top"] < 0.6
    assert everybody["top"] < 0.4


def test_membership_in_counts_is_seen_without_noise_and_hardly_with_it():
    found = {f.defence: f.values["auc"] for f in audit_count_members(planted(40), PLAN, seed=0)}
    assert found["secure sum"] > 0.9
    # 80 trials: a standard deviation of 0.065; epsilon 1 of a large federation still allows some advantage.
    assert found["secure sum and noise"] < 0.75
