"""The counts of fedrank with differential privacy: bounded addends, and sums that stay consistent after the noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.common.gaussian_mechanism import seeded_normals, together
from datasets.valid import ValidRules
from fedrule.evidence import private_statistics
from fedrule.evidence.counts import companion_cells, typed_start
from fedrule.evidence.private_statistics import (
    BOUNDS,
    SHARES,
    BoundedSums,
    mirrored_companion_cells,
    multipliers,
    of_shares,
    sizes_of,
    sum_of_rules,
    upper_companion_cells,
)
from fedrule.evidence.statistics import Statistics
from tests.support import strategies
from tests.support.small_populations import population


@settings(max_examples=60)
@given(st.data(), strategies.homes(min_homes=1, max_rules=12), st.booleans())
def test_a_home_added_or_removed_changes_every_part_by_at_most_its_bound(data, homes, all_patterns):
    which = data.draw(st.integers(0, homes.n_homes - 1))
    fewer = homes.subset(np.delete(np.arange(homes.n_homes), which))
    assert np.linalg.norm(sum_of_rules(homes) - sum_of_rules(fewer)) <= BOUNDS["rules"] * (1 + 1e-15)
    # Any valid rules: they come from noise, so that homes may have others.
    n_cells = len(homes.types) ** 2 * len(homes.relations)
    cells = np.array(sorted(data.draw(st.sets(st.integers(0, n_cells - 1)))), dtype=np.int64)
    valid = ValidRules.of_cells(len(homes.types), len(homes.relations), cells)
    of_all = BoundedSums.of(homes, valid, all_patterns=all_patterns).parts
    of_fewer = BoundedSums.of(fewer, valid, all_patterns=all_patterns).parts
    for name, part in of_all.items():
        assert np.linalg.norm(part - of_fewer[name]) <= BOUNDS[name] * (1 + 1e-15), name


@given(strategies.homes(min_homes=1, words=True), st.integers(0, 4))
def test_sums_of_two_nodes_add_up_exactly_to_those_of_all_homes(homes, cut):
    cut, valid = min(cut, homes.n_homes), ValidRules.of(homes)
    parts = (homes.subset(np.arange(cut)), homes.subset(np.arange(cut, homes.n_homes)))
    one, other = (BoundedSums.of(part, valid) for part in parts)
    whole = BoundedSums.of(homes, valid).parts
    for name, part in (one + other).parts.items():
        assert np.array_equal(part, whole[name]), name


@given(strategies.homes(min_homes=1, words=True), st.booleans(), st.booleans(), st.integers(2, 5))
def test_shares_of_noise_of_members_add_up_to_that_of_one_server(homes, all_patterns, rooms, members):
    # Every member draws 1 in place of random numbers and adds s / sqrt(threshold) to every cell; at a threshold of all
    # that is members * s / sqrt(members) = sqrt(members) s, up to half a step of 2^-30 for each.
    valid = ValidRules.of(homes)
    nobody = homes.subset(np.zeros(0, dtype=np.int64))
    sums = [BoundedSums.of(part, valid, all_patterns=all_patterns, always_rooms=rooms) for part in (homes, nobody)]
    if not rooms:
        sums = [BoundedSums({name: part for name, part in each.parts.items() if name != "rooms"}) for each in sums]
    each = [sums[0], *[sums[1]] * (members - 1)]
    total = sum(part.with_share_of_noise(0.5, threshold=members, normals=np.ones) for part in each)
    sizes = sizes_of(homes, valid, all_patterns=all_patterns, rooms=rooms)
    found = of_shares(total, sizes, 0.5, members=members, threshold=members)
    assert found.keys() == sums[0].parts.keys()
    for name, noisy in found.items():
        s = multipliers(0.5)[name] * BOUNDS[name]
        assert noisy.deviation == pytest.approx(s)
        expected = sums[0].parts[name] + np.sqrt(members) * s
        np.testing.assert_allclose(noisy.values, expected, rtol=0, atol=members * 2.0**-31 + 1e-12)


def test_all_parts_together_disclose_what_one_sum_with_the_multiplier_would():
    assert together(multipliers(7.0).values()) == pytest.approx(7.0)
    assert set(SHARES) == set(BOUNDS)
    assert sum(SHARES.values()) == pytest.approx(1.0)


def test_without_noise_and_bounds_the_statistics_are_the_exact_ones(monkeypatch):
    homes = population(3, n_homes=40)
    for name in BOUNDS:
        monkeypatch.setitem(BOUNDS, name, 1e6)  # nobody is scaled down
    monkeypatch.setattr(private_statistics, "MAX_RULES", 10**6)
    valid = ValidRules.of(homes)
    released = {
        name: private_statistics.NoisySum(part, 1e-12) for name, part in BoundedSums.of(homes, valid).parts.items()
    }
    rules = private_statistics.NoisySum(sum_of_rules(homes), 1e-12)
    found = private_statistics.statistics(homes, valid, rules, released, n_homes=homes.n_homes)
    exact = Statistics.of(homes, valid)
    assert found.noisy
    assert np.array_equal(found.both, np.maximum(exact.both, 1))
    for one, other in zip(found.have, exact.have, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(found.self_rules, exact.self_rules)
    for one, other in zip(found.rooms.columns, exact.rooms.columns, strict=True):
        assert np.array_equal(one, other)
    ridge = np.eye(len(valid), dtype=np.int64)  # the least one
    assert np.array_equal(found.together.toarray(), exact.together.toarray() + ridge)
    plain = dict(zip(exact.companions.cell, exact.companions.homes, strict=True))
    upper = upper_companion_cells(valid)
    for cell, many in zip(found.companions.cell, found.companions.homes, strict=True):
        if cell in upper or mirrored_companion_cells(valid, np.array([cell]))[0] in upper:
            assert plain[cell] == many
        else:  # a diagonal: at least as many as in truth
            assert many >= plain[cell]
    assert set(plain) == set(found.companions.cell.tolist())


@given(strategies.homes(min_homes=1))
def test_cells_of_two_relations_are_mirrored_and_every_one_is_above_below_or_on_a_diagonal(homes):
    valid = ValidRules.of(homes)
    upper = upper_companion_cells(valid)
    lower = mirrored_companion_cells(valid, upper)
    assert np.array_equal(mirrored_companion_cells(valid, lower), upper)
    diagonals = 3 * valid.n_relations + len(valid)
    n_cells = 3 * valid.n_relations**2 + int(typed_start(valid)[-1])
    assert len(set(upper.tolist()) | set(lower.tolist())) == 2 * len(upper) == n_cells - diagonals
    _, cell = companion_cells(homes, valid)  # with each pair both orders occur
    assert set(mirrored_companion_cells(valid, cell).tolist()) == set(cell.tolist())


@settings(max_examples=20)
@given(strategies.homes(min_homes=1), st.integers(0, 2**32), st.floats(0.01, 50))
def test_noisy_statistics_are_consistent_whatever_the_noise(homes, seed, multiplier):
    counts = private_statistics.private_statistics(homes, multiplier=multiplier, normals=seeded_normals(seed))
    rule, both = counts.with_rule, counts.both.reshape(len(homes.types), -1)
    trigger_type, action_type, _ = counts.valid.typed()
    assert (rule >= 1).all()
    assert (both == both.T).all()
    assert (both[trigger_type, action_type] >= np.minimum(rule, homes.n_homes)).all()
    for have, number in zip(counts.have, counts.numbers, strict=True):
        assert (have[number] >= rule).all()
    together_ = counts.counted_together().toarray()
    assert (together_ == together_.T).all()
    assert (np.diff(counts.companions.cell) > 0).all()
    assert (counts.companions.homes >= 0).all()
    again = private_statistics.private_statistics(homes, multiplier=multiplier, normals=seeded_normals(seed))
    assert np.array_equal(again.valid.cell, counts.valid.cell)
    assert np.array_equal(again.both, counts.both)


def test_features_from_noisy_counts_are_finite_and_do_not_depend_on_who_is_left_out():
    homes = population(3, n_homes=60)
    counts = private_statistics.private_statistics(homes, multiplier=0.5, normals=seeded_normals(1))
    evidence = counts.evidence()
    features = evidence.features(homes, homes.rules, leave_out=homes)
    assert np.isfinite(features).all()
    assert np.array_equal(features, evidence.features(homes, homes.rules))
