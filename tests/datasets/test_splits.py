"""Splits: what is hidden, what stays known, and that nothing leaks from one to the other."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError, Homes, Rules
from datasets.splits import SPLITS, Hidden, Split, holdout, leave_one_out, new_homes, split
from tests.support.strategies import homes, triples

HOW = st.sampled_from(sorted(SPLITS))
SEEDS = st.integers(0, 2**40)


def lone(counts: list[int], *, groups: list[int] | None = None) -> Homes:
    """Homes with these numbers of rules, each home a single device acting on itself, one relation per rule."""
    home = np.repeat(np.arange(len(counts)), counts)
    relation = np.concatenate([np.arange(n) for n in counts]).astype(np.int64)
    return Homes(
        name="lone",
        types=("Lamp",),
        relations=tuple((f"state {i}", "On") for i in range(max(counts))),
        users=np.arange(len(counts)) + 100,
        device_home=np.arange(len(counts)),
        device_type=np.zeros(len(counts), dtype=np.int64),
        device_ids=np.arange(len(counts)),
        rules=Rules(home, home, home, relation, None if groups is None else np.array(groups)),
    )


def spelled(some: Homes, rules: Rules) -> list[tuple[object, ...]]:
    """Rules by the position of the user and the device within the source, whatever their numbers here."""
    first = some.device_start[rules.home]
    columns = (some.users[rules.home], rules.trigger - first, rules.action - first, rules.relation)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def parts(made: Split) -> list[tuple[object, ...]]:
    """All rules of all parts. What is known at test time repeats train where homes are the same, so it counts once."""
    rules = spelled(made.train, made.train.rules)
    for hidden in (made.validation, made.test):
        rules += spelled(hidden.homes, hidden.rules)
        if made.unseen_homes:
            rules += spelled(hidden.homes, hidden.homes.rules)
    return rules


def group_of(some: Homes) -> dict[tuple[object, ...], int]:
    assert some.rules.group is not None
    return dict(zip(spelled(some, some.rules), some.rules.group.tolist(), strict=True))


def same(left: Split, right: Split) -> bool:
    def shown(made: Split) -> list[object]:
        homes_ = (made.train, made.validation.homes, made.test.homes, made.source)
        return [made.key, *(h.fingerprint for h in homes_), triples(made.validation.rules), triples(made.test.rules)]

    return shown(left) == shown(right)


# Nothing leaks, nothing is lost


@given(homes(), HOW, SEEDS, st.booleans())
def test_every_rule_is_in_exactly_one_part(some: Homes, how: str, seed: int, validation: bool) -> None:
    made = split(some, how, seed=seed, validation=validation)
    assert Counter(parts(made)) == Counter(spelled(some, some.rules))


@given(homes(), HOW, SEEDS)
def test_no_hidden_rule_is_known_when_it_is_to_be_found(some: Homes, how: str, seed: int) -> None:
    made = split(some, how, seed=seed, validation=True)
    test, validation = spelled(made.test.homes, made.test.rules), spelled(made.validation.homes, made.validation.rules)
    assert not set(test) & set(spelled(made.test.homes, made.test.homes.rules))
    assert not set(test + validation) & set(spelled(made.train, made.train.rules))
    assert not set(test + validation) & set(spelled(made.validation.homes, made.validation.homes.rules))


@given(homes(groups=True, max_rules=12), HOW, SEEDS)
def test_no_sibling_of_a_hidden_rule_is_known(some: Homes, how: str, seed: int) -> None:
    made, group = split(some, how, seed=seed, validation=True), group_of(some)
    for known, hidden in (
        (made.test.homes, made.test),
        (made.train, made.test),
        (made.validation.homes, made.validation),
        (made.train, made.validation),
    ):
        seen = {(rule[0], group[rule]) for rule in spelled(known, known.rules)}
        assert not seen & {(rule[0], group[rule]) for rule in spelled(hidden.homes, hidden.rules)}
    # A home's groups are the same numbers in every part.
    assert made.test.rules.group is not None
    assert [group[rule] for rule in spelled(made.test.homes, made.test.rules)] == made.test.rules.group.tolist()


@given(homes(), HOW, SEEDS, st.booleans())
def test_parts_keep_vocabularies_and_the_order_of_rules(some: Homes, how: str, seed: int, validation: bool) -> None:
    made = split(some, how, seed=seed, validation=validation)
    place = {rule: i for i, rule in enumerate(spelled(some, some.rules))}
    for part, rules in ((made.train, made.train.rules), (made.test.homes, made.test.rules)):
        assert (part.types, part.relations) == (some.types, some.relations)
        order = [place[rule] for rule in spelled(part, rules)]
        assert order == sorted(order)
        assert np.all(np.diff(rules.home) >= 0)


def test_a_rule_both_known_and_hidden_is_refused() -> None:
    some = lone([3])
    with pytest.raises(DataError, match="both known and hidden"):
        Hidden(some, some.rules.take(np.array([1])))


# How many are hidden


@given(homes(groups=False, max_rules=12, max_relations=6), SEEDS, st.floats(0.01, 0.99))
def test_holdout_hides_the_papers_number_of_rules_in_each_home(some: Homes, seed: int, fraction: float) -> None:
    made = holdout(some, seed=seed, fraction=fraction)
    count = np.bincount(some.rules.home, minlength=some.n_homes)
    hidden = np.bincount(made.test.rules.home, minlength=some.n_homes)
    assert hidden.tolist() == [int(fraction * n) for n in count.tolist()]
    assert made.train.n_homes == some.n_homes  # homes without a hidden rule still train


def test_holdout_of_a_fifth_by_hand() -> None:
    # int(0.2 n) of n = 1, 4, 5, 9, 10, 14, 15: 0, 0, 1, 1, 2, 2, 3
    made = holdout(lone([1, 4, 5, 9, 10, 14, 15]))
    assert np.bincount(made.test.rules.home, minlength=7).tolist() == [0, 0, 1, 1, 2, 2, 3]


@given(homes(groups=True, max_rules=12), SEEDS, st.floats(0.01, 0.99))
def test_holdout_hides_whole_groups_whose_middle_is_within_the_fraction(
    some: Homes, seed: int, fraction: float
) -> None:
    made, group = holdout(some, seed=seed, fraction=fraction), group_of(some)
    for home, user in enumerate(some.users.tolist()):
        size = Counter(g for rule, g in group.items() if rule[0] == user)
        taken = {group[rule] for rule in spelled(some, made.test.rules) if rule[0] == user}
        total, hidden = size.total(), sum(size[g] for g in taken)
        assert hidden == int((made.test.rules.home == home).sum())
        # The last group to go in had its middle within int(fraction n), so at most half of it lies beyond.
        assert hidden <= int(fraction * total) + max((size[g] for g in taken), default=0) / 2
        assert hidden < total or total == 0  # no home loses everything
        # The first group to stay has its middle beyond, unless it is the only one left.
        kept = [size[g] for g in size if g not in taken]
        assert not kept or hidden + max(kept) / 2 > int(fraction * total) or len(kept) == 1


def test_holdout_of_groups_is_a_fifth_on_average() -> None:
    # 400 homes of 20 rules in groups of 1, 2, 3, 4, 1, 2, 3, 4: int(0.2 * 20) = 4 of 20 wanted, whole groups only.
    groups = np.repeat(np.arange(8), [1, 2, 3, 4, 1, 2, 3, 4])
    made = holdout(lone([20] * 400, groups=np.tile(groups, 400).tolist()))
    share = len(made.test) / (400 * 20)
    # A home's number has a standard deviation below 2 (half of the largest group), its mean over 400 below 0.1 of 20.
    assert share == pytest.approx(0.2, abs=3 * 0.1 / 20)


@given(homes(), SEEDS)
def test_leave_one_out_hides_one_group_of_every_home_with_two(some: Homes, seed: int) -> None:
    made = leave_one_out(some, seed=seed)
    for home in range(some.n_homes):
        here, hidden = some.rules.home == home, made.test.rules.home == home
        if some.rules.group is None:
            assert hidden.sum() == (here.sum() >= 2)
            continue
        assert made.test.rules.group is not None
        size = Counter(some.rules.group[here].tolist())
        taken = set(made.test.rules.group[hidden].tolist())
        assert len(taken) == (len(size) >= 2)
        assert hidden.sum() == sum(size[g] for g in taken)


@given(homes(max_homes=8), SEEDS, st.floats(0.1, 0.9))
def test_new_homes_are_unseen_and_keep_all_but_one_rule_as_context(some: Homes, seed: int, fraction: float) -> None:
    made = new_homes(some, seed=seed, fraction=fraction, validation=True)
    group = some.rules.group if some.rules.group is not None else np.arange(some.n_rules)
    able = sum(len(set(group[some.rules.home == home].tolist())) >= 2 for home in range(some.n_homes))
    tested, validated = int(fraction * able), int(fraction * (able - int(fraction * able)))
    assert (made.test.homes.n_homes, made.validation.homes.n_homes) == (tested, validated)
    users = [part.users.tolist() for part in (made.train, made.validation.homes, made.test.homes)]
    assert Counter(itertools.chain(*users)) == Counter(some.users.tolist())
    for hidden in (made.validation, made.test):
        for home in range(hidden.homes.n_homes):
            assert (hidden.homes.rules.home == home).any()
            of_home = hidden.rules.home == home
            count = of_home.sum() if hidden.rules.group is None else len(set(hidden.rules.group[of_home].tolist()))
            assert count == 1


def test_every_rule_of_a_home_is_hidden_about_as_often() -> None:
    # 4,000 homes of 5 rules, one hidden in each: 800 expected per rule, standard deviation sqrt(4000 * .2 * .8) = 25.3
    for made in (holdout(lone([5] * 4000)), leave_one_out(lone([5] * 4000))):
        assert np.abs(np.bincount(made.test.rules.relation) - 800).max() < 4 * 25.3


# Validation


@given(homes(max_rules=12, max_homes=8), HOW, SEEDS)
def test_the_test_part_is_the_same_with_and_without_validation(some: Homes, how: str, seed: int) -> None:
    plain, carved = split(some, how, seed=seed), split(some, how, seed=seed, validation=True)
    assert triples(plain.test.rules) == triples(carved.test.rules)
    assert plain.test.homes.fingerprint == carved.test.homes.fingerprint
    assert (len(plain.validation), plain.validation.homes.n_homes) == (0, 0)


@given(homes(max_rules=12, max_homes=8), HOW, SEEDS)
def test_refitting_gives_the_split_as_if_validation_had_never_been_carved(some: Homes, how: str, seed: int) -> None:
    assert same(split(some, how, seed=seed, validation=True).refit(), split(some, how, seed=seed))
    assert same(split(some, how, seed=seed).refit(), split(some, how, seed=seed))


@given(homes(max_rules=12), st.sampled_from(["holdout", "leave_one_out"]), SEEDS)
def test_validation_is_found_from_train_and_test_from_both(some: Homes, how: str, seed: int) -> None:
    made = split(some, how, seed=seed, validation=True)
    assert made.validation.homes.fingerprint == made.train.fingerprint
    known = spelled(made.train, made.train.rules) + spelled(made.validation.homes, made.validation.rules)
    assert sorted(spelled(made.test.homes, made.test.homes.rules)) == sorted(known)


def test_validation_is_carved_the_same_way_by_another_stream() -> None:
    # Of 10 rules int(0.2 * 10) = 2 are tested; of the other 8, int(0.2 * 8) = 1 is for validation; 7 train.
    made = holdout(lone([10] * 50), validation=True)
    assert np.bincount(made.test.rules.home).tolist() == [2] * 50
    assert np.bincount(made.validation.rules.home).tolist() == [1] * 50
    assert made.train.n_rules == 7 * 50
    one = leave_one_out(lone([2, 3] * 20), validation=True)
    # With 2 rules one is tested and the other trains; with 3 there is one for each part.
    assert np.bincount(one.validation.rules.home, minlength=40).tolist() == [0, 1] * 20


def test_forbidden_rules_are_those_hidden_from_the_training_homes() -> None:
    made = leave_one_out(lone([3] * 4), validation=True)
    assert [len(rules) for rules in made.forbidden] == [4, 4]
    assert new_homes(lone([3] * 10), validation=True).forbidden == ()


# Seeds, names and options


@given(homes(), HOW, SEEDS, st.booleans())
def test_a_seed_repeats_exactly_whatever_numpys_global_state(
    some: Homes, how: str, seed: int, validation: bool
) -> None:
    before = split(some, how, seed=seed, validation=validation)
    np.random.seed(7)  # noqa: NPY002
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert same(before, split(some, how, seed=seed, validation=validation))
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.parametrize("how", sorted(SPLITS))
def test_another_seed_hides_other_rules(how: str) -> None:
    some = lone([10] * 30)
    hidden = [spelled(made.test.homes, made.test.rules) for made in (split(some, how, seed=s) for s in range(3))]
    assert hidden[0] != hidden[1] != hidden[2] != hidden[0]


def test_the_key_says_all_that_decides() -> None:
    made = split(lone([10] * 5), "holdout", seed=3, fraction=0.3, validation=True)
    decided = {"split": "holdout", "seed": 3, "fraction": 0.3, "min_pair_count": 1}
    assert made.key == {**decided, "validation": True}
    assert made.refit().key == {**decided, "validation": False}
    alone = {"split": "leave_one_out", "seed": 0, "validation": False, "min_pair_count": 1}
    assert split(lone([3]), "leave_one_out").key == alone


def test_the_default_is_the_papers_holdout() -> None:
    some = lone([10] * 5)
    assert same(split(some), holdout(some, seed=0, fraction=0.2))


def test_a_wrong_name_or_option_is_answered_with_the_right_one() -> None:
    some = lone([3])
    with pytest.raises(DataError, match="unknown split 'hold_out'; did you mean 'holdout'"):
        split(some, "hold_out")
    with pytest.raises(DataError, match="unknown option of holdout 'fracton'; did you mean 'fraction'"):
        split(some, "holdout", fracton=0.1)
    with pytest.raises(
        DataError, match=r"unknown option of leave_one_out 'fraction'.* Known: min_pair_count, seed, validation"
    ):
        split(some, "leave_one_out", fraction=0.1)


@pytest.mark.parametrize("fraction", [0, 1, -0.2, 20, float("nan")])
@pytest.mark.parametrize("how", ["holdout", "new_homes"])
def test_a_fraction_outside_0_and_1_is_refused(how: str, fraction: float) -> None:
    with pytest.raises(DataError, match=r"fraction must be in \(0, 1\), got"):
        split(lone([3]), how, fraction=fraction)


def test_a_validation_part_is_asked_for_by_true_not_by_a_size() -> None:
    with pytest.raises(DataError, match=r"validation=0\.1: expected bool"):
        split(lone([3]), validation=0.1)
    with pytest.raises(DataError, match=r"validation must be True or False, got 0\.1"):
        holdout(lone([3]), validation=0.1)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(DataError, match="seed must be at least 0, got -1"):
        split(lone([3]), seed=-1)


@pytest.mark.parametrize("how", sorted(SPLITS))
def test_homes_without_rules_split_into_nothing_hidden(how: str) -> None:
    none = lone([1, 1]).with_rules(np.zeros(2, dtype=np.bool_))
    made = split(none, how, validation=True)
    assert (len(made.test), len(made.validation), made.train.n_homes) == (0, 0, 2)
    assert split(none.subset(np.zeros(0, dtype=np.int64)), how).train.n_homes == 0
