"""Negatives: never a rule that exists or is hidden, of the requested kind, as many as there can be."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from datasets import DataError, Homes, Rules
from datasets import negatives as module
from datasets.candidates import Pairs, has_self_rules
from datasets.common.random import KeyedRandom, RandomSource
from datasets.negatives import KINDS, Feasible, feasible, paper, sample
from datasets.splits import split
from datasets.valid import ValidRules
from tests.support.lamps import lamps
from tests.support.strategies import homes, triples

SEEDS = st.integers(0, 2**32)
SPLIT = st.sampled_from(["holdout", "leave_one_out", "new_homes"])
Triple = tuple[int, int, int, int]  # home, trigger, action, relation


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def all_candidates(some: Homes, *, self_pairs: bool) -> list[Triple]:
    """Every rule that could be, one by one."""
    start = some.device_start.tolist()
    return [
        (home, trigger, action, relation)
        for home in range(some.n_homes)
        for trigger in range(start[home], start[home + 1])
        for action in range(start[home], start[home + 1])
        for relation in range(len(some.relations))
        if self_pairs or trigger != action
    ]


def reference(some: Homes, positives: Rules, forbidden: Rules) -> tuple[set[Triple], set[Triple]]:
    """The paper's two kinds, by brute force: those apart, and those on pairs of a positive."""
    known = [*triples(some.rules), *triples(positives)]
    taken = {*known, *triples(forbidden)}
    free = [c for c in all_candidates(some, self_pairs=any(t == a for _, t, a, _ in taken)) if c not in taken]
    adjacent, existing = {rule[1:3] for rule in known}, {rule[1:3] for rule in triples(positives)}
    return {c for c in free if c[1:3] not in adjacent}, {c for c in free if c[1:3] in existing}


# What both kinds promise


@given(homes(max_rules=10), SPLIT, st.sampled_from(KINDS), SEEDS)
def test_negatives_are_never_rules_of_train_validation_or_test(some: Homes, how: str, kind: str, seed: int) -> None:
    made = split(some, how, seed=seed, validation=True)
    valid = ValidRules.of(some)
    every = {(home, *rule) for home, *rule in triples(some.rules)}
    for known, positives in (
        (made.train, made.train.rules),
        (made.validation.homes, made.validation.rules),
        (made.test.homes, made.test.rules),
    ):
        drawn = sample(kind, known, positives, rng=rng(seed), forbidden=made.forbidden, valid=valid)
        got = triples(drawn)
        assert len(set(got)) == len(got)
        assert not set(got) & {*triples(known.rules), *triples(positives)}
        for hidden in made.forbidden:
            assert not set(got) & set(triples(hidden))
        if not made.unseen_homes:  # then homes and devices have the same numbers as in the source
            assert not set(got) & every
        # They belong to the home: the model of homes accepts them as its rules.
        assert (known.device_home[drawn.trigger] == drawn.home).all()
        assert (known.device_home[drawn.action] == drawn.home).all()
        assert np.all(np.diff(drawn.home) >= 0)
        assert drawn.group is None
        count = np.bincount(drawn.home, minlength=known.n_homes)
        assert (count <= np.bincount(positives.home, minlength=known.n_homes)).all()


@given(homes(max_rules=10), st.sampled_from(KINDS), st.lists(st.integers(0, 9), min_size=5, max_size=5), SEEDS)
def test_each_home_gets_as_many_as_are_wanted_or_all_there_are(
    some: Homes, kind: str, wanted: list[int], seed: int
) -> None:
    valid, many = ValidRules.of(some), np.array(wanted)[: some.n_homes]
    all_there_are = sample(kind, some, some.rules, rng=rng(), valid=valid, wanted=np.full(some.n_homes, 1000))
    drawn = sample(kind, some, some.rules, rng=rng(seed), valid=valid, wanted=many)
    there = np.bincount(all_there_are.home, minlength=some.n_homes)
    assert np.bincount(drawn.home, minlength=some.n_homes).tolist() == np.minimum(many, there).tolist()
    assert set(triples(drawn)) <= set(triples(all_there_are))


@given(homes(self_rules=False), st.sampled_from(KINDS), SEEDS)
def test_no_device_acts_on_itself_where_the_data_has_no_such_rule(some: Homes, kind: str, seed: int) -> None:
    drawn = sample(kind, some, some.rules, rng=rng(seed), valid=ValidRules.of(some))
    assert (drawn.trigger != drawn.action).all()


@given(homes(), st.sampled_from(KINDS), SEEDS)
def test_a_seed_draws_the_same_negatives(some: Homes, kind: str, seed: int) -> None:
    valid = ValidRules.of(some)
    first, again = (sample(kind, some, some.rules, rng=rng(seed), valid=valid) for _ in range(2))
    assert triples(first) == triples(again)


def test_a_home_of_500_devices_gets_its_negatives() -> None:
    # 500 * 499 ordered pairs, 400 rules from each device to the next with one of 163 relations.
    some = lamps(500, 163, [(i, i + 1, i % 163) for i in range(400)])
    for kind in KINDS:
        drawn = sample(kind, some, some.rules, rng=rng(), valid=ValidRules.of(some))
        assert len(drawn) == 400
        assert not set(triples(drawn)) & set(triples(some.rules))


def test_homes_without_rules_get_no_negatives() -> None:
    some = lamps(3, 2, [])
    nowhere = some.subset(np.zeros(0, dtype=np.int64))
    for kind in KINDS:
        for homes_ in (some, nowhere):
            assert len(sample(kind, homes_, homes_.rules, rng=rng(), valid=ValidRules.of(homes_))) == 0


# The paper's


@given(homes(max_rules=12), st.data(), SEEDS)
def test_the_papers_negatives_are_half_apart_and_half_on_existing_pairs(
    some: Homes, data: st.DataObject, seed: int
) -> None:
    part = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=some.n_rules, max_size=some.n_rules)), dtype=np.int64
    )
    known, positives, forbidden = some.with_rules(part == 0), some.rules.take(part == 1), some.rules.take(part == 2)
    apart, existing = reference(known, positives, forbidden)
    got = triples(paper(known, positives, rng=rng(seed), forbidden=[forbidden]))
    assert len(set(got)) == len(got)
    assert set(got) <= apart | existing
    for home in range(some.n_homes):
        wanted = int((positives.home == home).sum())
        n_apart, n_existing = (sum(c[0] == home for c in kind) for kind in (apart, existing))
        # Half of them, rounded up, apart; where one kind runs out the other fills up; where both do there are fewer.
        expected_apart = min((wanted + 1) // 2, n_apart)
        expected_existing = min(wanted - expected_apart, n_existing)
        expected_apart = min(wanted - expected_existing, n_apart)
        drawn = {c for c in got if c[0] == home}
        assert (len(drawn & apart), len(drawn & existing)) == (expected_apart, expected_existing)


def test_the_papers_negatives_by_hand() -> None:
    # Devices 0, 1, 2; rules 0 -> 1 with relations 0 and 1 of 3, and 1 -> 2 with 0. Three positives: two apart on one
    # of the four other pairs, one on 0 -> 1 with relation 2 or 1 -> 2 with relation 1 or 2.
    some = lamps(3, 3, [(0, 1, 0), (0, 1, 1), (1, 2, 0)])
    for seed in range(20):
        got = triples(paper(some, some.rules, rng=rng(seed)))
        on = [c[1:] for c in got if c[1:3] in {(0, 1), (1, 2)}]
        assert len(got) == 3
        assert len(on) == 1
        assert on[0] in {(0, 1, 2), (1, 2, 1), (1, 2, 2)}


def test_where_every_pair_has_a_rule_existing_pairs_fill_up() -> None:
    # One relation on both pairs of two devices, another one is free on each: two negatives, none apart.
    some = lamps(2, 2, [(0, 1, 0), (1, 0, 0)])
    assert sorted(triples(paper(some, some.rules, rng=rng()))) == [(0, 0, 1, 1), (0, 1, 0, 1)]


def test_where_existing_pairs_are_full_pairs_apart_fill_up() -> None:
    # The only relation is taken on 0 -> 1 and 1 -> 2; four pairs are apart.
    some = lamps(3, 1, [(0, 1, 0), (1, 2, 0)])
    got = {c[1:3] for c in triples(paper(some, some.rules, rng=rng()))}
    assert len(got) == 2
    assert got <= {(0, 2), (1, 0), (2, 0), (2, 1)}


def test_a_home_with_nothing_left_gets_fewer() -> None:
    full = lamps(2, 1, [(0, 1, 0), (1, 0, 0)])
    assert len(paper(full, full.rules, rng=rng())) == 0
    # Of two pairs and two relations three are taken: one is left for three positives.
    nearly = lamps(2, 2, [(0, 1, 0), (0, 1, 1), (1, 0, 1)])
    assert triples(paper(nearly, nearly.rules, rng=rng())) == [(0, 1, 0, 0)]


def test_the_papers_negatives_are_uniform_over_pairs_apart_and_their_relations() -> None:
    # One rule, so one negative, apart: 11 other ordered pairs of 4 devices x 3 relations, minus one forbidden, is 32.
    # 3,200 homes at once: 100 expected of each.
    one = lamps(4, 3, [(0, 1, 2)])
    many = _repeated(one, 3200)
    home = np.arange(3200)
    forbidden = Rules(home, 4 * home + 2, 4 * home + 3, np.zeros(3200, dtype=np.int64))
    drawn = paper(many, many.rules, rng=rng(1), forbidden=[forbidden])
    counts = Counter(
        zip((drawn.trigger % 4).tolist(), (drawn.action % 4).tolist(), drawn.relation.tolist(), strict=True)
    )
    assert len(counts) == 32
    assert chisquare(list(counts.values())).pvalue > 0.001


# Feasible ones


@given(homes(max_rules=12), st.data(), SEEDS)
def test_feasible_negatives_are_valid_rules_that_the_home_could_have(
    some: Homes, data: st.DataObject, seed: int
) -> None:
    part = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=some.n_rules, max_size=some.n_rules)), dtype=np.int64
    )
    known, positives, forbidden = some.with_rules(part == 0), some.rules.take(part == 1), some.rules.take(part == 2)
    valid = ValidRules.of(data.draw(st.sampled_from([known, some])))  # with, and without, all taken rules being valid
    taken = {*triples(some.rules)}
    self_pairs = any(trigger == action for _, trigger, action, _ in taken)
    free = {
        (home, trigger, action, relation)
        for home, trigger, action, relation in all_candidates(some, self_pairs=self_pairs)
        if valid.contains(some.device_type[trigger], some.device_type[action], relation)
    } - taken
    got = triples(feasible(known, positives, rng=rng(seed), valid=valid, forbidden=[forbidden]))
    assert len(set(got)) == len(got)
    assert set(got) <= free
    for home in range(some.n_homes):
        wanted, there = int((positives.home == home).sum()), sum(c[0] == home for c in free)
        assert sum(c[0] == home for c in got) == min(wanted, there)


def test_feasible_negatives_are_uniform() -> None:
    # Two types. Valid: A -> B with relations 0 and 1, B -> A with 2. A home of A, A, B has 2 * 2 + 2 * 1 = 6 feasible
    # rules; one of them it has (a positive), one is forbidden, so 4 are left, each for a quarter of 4,000 homes.
    n = 4000
    home = np.arange(n)
    none = np.zeros(n, dtype=np.int64)
    many = Homes(
        name="many",
        types=("A", "B"),
        relations=(("x", "0"), ("x", "1"), ("x", "2"), ("x", "3")),
        users=home,
        device_home=np.repeat(home, 3),
        device_type=np.tile([0, 0, 1], n),
        device_ids=np.arange(3 * n),
        rules=Rules(home, 3 * home, 3 * home + 2, none),
    )
    teacher = replace(many.subset(np.array([0])), rules=Rules([0, 0, 0], [0, 0, 2], [2, 2, 1], [0, 1, 2]))
    forbidden = Rules(home, 3 * home + 2, 3 * home, none + 2)
    drawn = feasible(many, many.rules, rng=rng(2), valid=ValidRules.of(teacher), forbidden=[forbidden])
    counts = Counter(
        zip((drawn.trigger % 3).tolist(), (drawn.action % 3).tolist(), drawn.relation.tolist(), strict=True)
    )
    assert set(counts) == {(0, 2, 1), (1, 2, 0), (1, 2, 1), (2, 1, 2)}
    assert chisquare(list(counts.values())).pvalue > 0.001


@pytest.mark.parametrize("source", [rng(3), KeyedRandom(3, 0, np.arange(3000))], ids=["together", "keyed"])
@pytest.mark.parametrize("n_relations", [4, 5])
def test_every_set_of_distinct_negatives_is_equally_likely(
    n_relations: int, source: np.random.Generator | RandomSource
) -> None:
    # Two devices of one type, every relation valid on both pairs, three rules. With 4 relations 2 * 4 - 3 = 5 are left
    # for three negatives, which are shuffled; with 5 relations 7 are, which are drawn until three are distinct.
    many = _repeated(lamps(2, n_relations, [(0, 1, 0), (0, 1, 1), (1, 0, 0)]), 3000)
    valid = ValidRules.of(lamps(2, n_relations, [(0, 1, r) for r in range(n_relations)]))
    drawn = feasible(many, many.rules, rng=source, valid=valid)
    of_home = (drawn.trigger % 2 * n_relations + drawn.relation).reshape(3000, 3)
    sets = Counter(frozenset(cells) for cells in of_home.tolist())
    assert len(sets) == math.comb(2 * n_relations - 3, 3)
    assert chisquare(list(sets.values())).pvalue > 0.001


def test_looking_at_few_pairs_at_a_time_keeps_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    many = _repeated(lamps(3, 2, [(0, 1, 0), (1, 2, 1)]), 50)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 13)  # two homes of six pairs each
    drawn = feasible(many, many.rules, rng=rng(), valid=ValidRules.of(many))
    assert np.bincount(drawn.home).tolist() == [2] * 50
    assert not set(triples(drawn)) & set(triples(many.rules))


@given(homes(max_rules=12), SEEDS)
def test_what_is_prepared_once_draws_the_same_each_time(some: Homes, seed: int) -> None:
    valid, wanted = ValidRules.of(some), np.bincount(some.rules.home, minlength=some.n_homes)
    able = Feasible.of(some, valid, taken=[some.rules])
    for again in (seed, seed + 1, seed):
        prepared, at_once = able.draw(wanted, rng(again)), feasible(some, some.rules, rng=rng(again), valid=valid)
        assert triples(prepared) == triples(at_once)


def test_valid_rules_of_other_vocabularies_are_refused() -> None:
    some, other = lamps(2, 2, [(0, 1, 0)]), lamps(2, 3, [(0, 1, 0)])
    with pytest.raises(DataError, match="belong to other vocabularies"):
        feasible(some, some.rules, rng=rng(), valid=ValidRules.of(other))


def test_feasible_by_name_asks_for_the_valid_rules() -> None:
    some = lamps(2, 2, [(0, 1, 0)])
    with pytest.raises(DataError, match=r"need valid=ValidRules.of\(train\)"):
        sample("feasible", some, some.rules, rng=rng())


def test_a_wrong_kind_is_answered_with_the_right_one() -> None:
    some = lamps(2, 2, [(0, 1, 0)])
    with pytest.raises(DataError, match="unknown kind of negatives 'feasable'; did you mean 'feasible'"):
        sample("feasable", some, some.rules, rng=rng())


# What a home draws for itself


def draws_alone(
    kind: str,
    known: Homes,
    positives: Rules,
    forbidden: Rules,
    *,
    valid: ValidRules,
    wanted: np.ndarray | None,
    seed: int,
    chosen: list[int],
) -> None:
    """Asserts that the chosen homes, in this order, draw what they get among all."""
    selves, client = has_self_rules(known.rules, positives, forbidden), 10 * np.arange(known.n_homes) + 7
    every = sample(
        kind, known, positives, rng=KeyedRandom(seed, 2, client), forbidden=[forbidden], valid=valid, wanted=wanted
    )
    some = np.array(chosen, dtype=np.int64)
    # Rules of all homes as those of the chosen ones: subset renumbers them as it should.
    alone = sample(
        kind,
        known.subset(some),
        replace(known, rules=positives).subset(some).rules,
        rng=KeyedRandom(seed, 2, client[some]),
        forbidden=[replace(known, rules=forbidden).subset(some).rules],
        valid=valid,
        wanted=None if wanted is None else wanted[some],
        self_pairs=selves,
    )
    assert triples(alone) == triples(replace(known, rules=every).subset(some).rules)


@given(homes(min_homes=1, max_rules=12), st.data(), st.sampled_from(KINDS), SEEDS)
def test_with_keyed_chance_homes_draw_the_same_whichever_others_there_are(
    some: Homes, data: st.DataObject, kind: str, seed: int
) -> None:
    part = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=some.n_rules, max_size=some.n_rules)), dtype=np.int64
    )
    many = st.lists(st.integers(0, 12), min_size=some.n_homes, max_size=some.n_homes)
    wanted = data.draw(st.none() | many.map(np.array))
    order = data.draw(st.permutations(range(some.n_homes)))
    for chosen in (order[:1], order[:3], order):
        draws_alone(
            kind,
            some.with_rules(part == 0),
            some.rules.take(part == 1),
            some.rules.take(part == 2),
            valid=ValidRules.of(some),
            wanted=wanted,
            seed=seed,
            chosen=chosen,
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairs_at_once", [module.PAIRS_AT_ONCE, 100])
def test_homes_that_need_many_turns_draw_the_same_alone(
    kind: str, pairs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 42 pairs x 5 relations minus 6 rules are 204; from 1 to 204 of them are wanted. Up to 102 are drawn until enough
    # are distinct, in up to a dozen turns, and more than that are shuffled. Of 100 pairs two homes fit at a time.
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", pairs_at_once)
    many = _repeated(lamps(7, 5, [(i, i + 1, i % 5) for i in range(6)]), 30)
    nothing = many.rules.take(np.zeros(0, dtype=np.int64))
    wanted, valid = np.linspace(1, 204, 30).astype(np.int64), ValidRules.of(many)
    for chosen in ([0], [9], [14], [29], [14, 3, 28]):
        draws_alone(kind, many, many.rules, nothing, valid=valid, wanted=wanted, seed=1, chosen=chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_homes_that_are_alike_do_not_draw_alike(kind: str) -> None:
    # One negative of 204 or more in each of 300 homes: by chance two neighbours agree in 1 or 2 of 299 cases.
    many = _repeated(lamps(7, 5, [(i, i + 1, i % 5) for i in range(6)]), 300)
    one = np.ones(300, dtype=np.int64)
    drawn = sample(kind, many, many.rules, rng=KeyedRandom(0, 0, np.arange(300)), valid=ValidRules.of(many), wanted=one)
    cell = (drawn.trigger % 7 * 7 + drawn.action % 7) * 5 + drawn.relation
    assert len(cell) == 300
    assert (cell[1:] == cell[:-1]).sum() < 10


@pytest.mark.parametrize("kind", KINDS)
def test_self_pairs_are_drawn_where_the_population_has_them(kind: str) -> None:
    # Two lamps and one relation: 0 -> 1 is a rule, 1 -> 0 is left and, where a lamp may act on itself, 0 -> 0, 1 -> 1.
    some = lamps(2, 1, [(0, 1, 0)])
    for self_pairs, left in ((None, 1), (False, 1), (True, 3)):
        drawn = sample(
            kind, some, some.rules, rng=rng(), valid=ValidRules.of(some), wanted=np.array([9]), self_pairs=self_pairs
        )
        assert len(drawn) == left


@pytest.mark.parametrize("kind", KINDS)
def test_rules_that_cannot_be_are_refused(kind: str) -> None:
    some = lamps(2, 1, [(1, 1, 0)])
    with pytest.raises(DataError, match="self_pairs=False, but a rule lets a device act on itself"):
        sample(kind, some, some.rules, rng=rng(), valid=ValidRules.of(some), self_pairs=False)


# Numbered pairs


@given(homes(), st.booleans())
def test_pairs_are_numbered_one_by_one_and_back(some: Homes, self_pairs: bool) -> None:
    pairs = Pairs.of(some, self_pairs=self_pairs)
    home, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    expected = dict.fromkeys(c[:3] for c in all_candidates(some, self_pairs=self_pairs))
    assert list(zip(home.tolist(), trigger.tolist(), action.tolist(), strict=True)) == list(expected)
    back = pairs.number(Rules(home, trigger, action, np.zeros_like(home)))
    assert back.tolist() == list(range(len(expected)))


@given(homes(max_homes=8), st.integers(1, 30))
def test_runs_cover_every_home_once_within_the_limit(some: Homes, limit: int) -> None:
    pairs = Pairs.of(some, self_pairs=True)
    runs = list(pairs.runs(limit))
    assert [home for first, end in runs for home in range(first, end)] == list(range(some.n_homes))
    assert all(pairs.start[end] - pairs.start[first] <= limit or end == first + 1 for first, end in runs)


def _repeated(one: Homes, n: int) -> Homes:
    """The same home n times, as n homes."""
    home, devices = np.arange(n), one.n_devices
    rules = [np.tile(column, n) for column in (one.rules.trigger, one.rules.action, one.rules.relation)]
    of_rule = np.repeat(home, one.n_rules)
    return Homes(
        name=one.name,
        types=one.types,
        relations=one.relations,
        users=home,
        device_home=np.repeat(home, devices),
        device_type=np.tile(one.device_type, n),
        device_ids=np.arange(n * devices),
        rules=Rules(of_rule, rules[0] + devices * of_rule, rules[1] + devices * of_rule, rules[2]),
    )
