"""What is decided before a prediction is decided on known rules: hidden ones change no candidate, only the misses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from baselines.method import Scores
from baselines.scoring import allows_self_pairs, score_examples
from benchmarks.evaluation import evaluate
from datasets import DataError, Homes, Rules
from datasets.homes import Array
from datasets.splits import SPLITS, Split, holdout, split
from datasets.valid import ValidRules
from tests.support.strategies import homes

Rule = tuple[int, int, int, int]  # home, trigger device, action device, relation


class ByRelation:
    """The first relation is the likeliest, for every pair."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:  # noqa: ARG002
        return np.tile(-np.arange(len(homes.relations), dtype=np.float32), (len(trigger), 1))


def hidden_rows(some: Homes, made: Split) -> list[int]:
    """The rows of the source that a split without `min_pair_count` hides in its test part, found by user and device."""
    place = {user: home for home, user in enumerate(some.users.tolist())}
    number = {rule: row for row, rule in enumerate(all_rules(some))}
    known, rules = made.test.homes, made.test.rules
    found = []
    for home, trigger, action, relation in zip(rules.home, rules.trigger, rules.action, rules.relation, strict=True):
        source = place[known.users[home]]
        shift = some.device_start[source] - known.device_start[home]
        found.append(number[source, int(trigger + shift), int(action + shift), int(relation)])
    return found


def all_rules(some: Homes) -> list[Rule]:
    rules = some.rules
    columns = (rules.home, rules.trigger, rules.action, rules.relation)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def altered(draw: st.DrawFn) -> tuple[Split, Split]:
    """A split, and that of the same homes with other hidden rules, some of them of a device with itself."""
    some = draw(homes(min_homes=2, max_homes=6, max_rules=12, bare=False))
    how, seed = draw(st.sampled_from(sorted(SPLITS))), draw(st.integers(0, 99))
    rows, rules = hidden_rows(some, split(some, how, seed=seed)), all_rules(some)
    for row in rows:
        home = rules[row][0]
        device = st.integers(some.device_start[home], some.device_start[home + 1] - 1)
        other = (home, draw(device), draw(device), draw(st.integers(0, len(some.relations) - 1)))
        if other not in rules:
            rules[row] = other
    columns = [np.array(column, dtype=np.int64) for column in zip(*rules, strict=True)]
    changed = replace(some, rules=Rules(*columns, some.rules.group))
    try:
        options = {"seed": seed, "min_pair_count": draw(st.sampled_from([1, 2, 3]))}
        return split(some, how, **options), split(changed, how, **options)
    except DataError as error:  # no relation is common enough
        assert "leaves no rule" in str(error)  # noqa: PT017
        assume(False)
        raise


@settings(deadline=None)
@given(altered())
def test_other_hidden_rules_leave_vocabulary_valid_rules_and_self_pairs_as_they_are(pair: tuple[Split, Split]) -> None:
    one, other = pair
    assert one.train.fingerprint == other.train.fingerprint  # of vocabularies, devices and rules
    assert one.test.homes.fingerprint == other.test.homes.fingerprint
    assert ValidRules.of(one.train).cell.tolist() == ValidRules.of(other.train).cell.tolist()
    assert one.train.relations == other.train.relations
    assume(len(one.test.rules) and len(other.test.rules))
    assert allows_self_pairs(one, "test") == allows_self_pairs(other, "test")


@settings(deadline=None)
@given(altered())
def test_other_hidden_rules_are_ranked_among_the_same_candidates(pair: tuple[Split, Split]) -> None:
    one, other = pair
    assume(len(one.test.rules) and len(other.test.rules))
    lists = [evaluate(ByRelation(), made).homes for made in pair]
    columns = ["user", "n_hidden", "candidates", "candidates, all", "candidates, closed"]
    assert lists[0][columns].to_numpy().tolist() == lists[1][columns].to_numpy().tolist()
    assert len(one.test) == len(other.test)


def switches(relations: list[list[int]], *, to_itself: tuple[int, int] | None = None) -> Homes:
    """Homes of a switch that acts on a lamp by these relations; `to_itself` is a home and a relation of the switch."""
    rules = [(2 * home, 2 * home + 1, relation) for home, own in enumerate(relations) for relation in own]
    if to_itself is not None:
        home, relation = to_itself
        rules[rules.index((2 * home, 2 * home + 1, relation))] = (2 * home, 2 * home, relation)
    trigger, action, relation = np.array(rules).T
    n = len(relations)
    return Homes(
        name="switches",
        types=("Switch", "Lamp"),
        relations=tuple((f"state {i}", "on") for i in range(1 + max(map(max, relations)))),
        users=np.arange(n),
        device_home=np.repeat(np.arange(n), 2),
        device_type=np.tile([0, 1], n),
        device_ids=np.tile([0, 1], n),
        rules=Rules(trigger // 2, trigger, action, relation),
    )


def seed_that_hides(some: Homes, row: int, *, how: str = "leave_one_out") -> int:
    return next(seed for seed in range(1000) if row in hidden_rows(some, split(some, how, seed=seed)))


def test_a_hidden_rule_does_not_make_its_relation_common() -> None:
    # Relation 1 is in two homes: once it is hidden in the last, training has it once, less than min_pair_count=2.
    some = switches([[0], [0], [0, 1], [0, 1]])
    seed = seed_that_hides(some, row=5)
    made = split(some, "leave_one_out", seed=seed, min_pair_count=2)
    assert made.train.relations == (("state 0", "on"),)
    assert made.test.rare.relation.tolist() == [-1] * len(made.test.rare)
    assert len(made.test) == 2  # one of each home with two rules, whether it can be found or not


def test_a_hidden_rule_of_a_rare_relation_is_a_miss() -> None:
    # 10 homes with relations 0 to 4 and one each of 5 to 14: a fifth of 6 rules is one hidden rule of each home.
    some = switches([[0, 1, 2, 3, 4, 5 + home] for home in range(10)])
    made = holdout(some, seed=0, min_pair_count=3)
    assert made.train.relations == some.relations[:5]
    rare = len(made.test.rare)
    assert (len(made.test), rare + len(made.test.rules)) == (10, 10)
    assert rare > 0, "choose a seed that hides one of them"
    found = evaluate(ByRelation(), made).summary
    assert (found["hidden"], found["homes"], found["not_candidates"]) == (10, 10, rare)
    # In a home without one of 0 to 4 the hidden rule is the only valid candidate: rank 1. The others are misses.
    assert found["mrr"] == found["hr@1"] == pytest.approx((10 - rare) / 10)
    assert found["unanswered"] == found["unseen"] == rare
    # The paper's measures are about relations of the vocabulary.
    assert evaluate(ByRelation(), made, "paper").summary["hidden"] == 10 - rare


def test_a_home_whose_hidden_rules_are_all_rare_counts_as_missed() -> None:
    some = switches([[0, 1, 2, 3, 4, 5 + home] for home in range(10)])
    made = holdout(some, seed=0, min_pair_count=3)
    table = evaluate(ByRelation(), made).homes
    lost = made.test.rare.home.tolist()
    assert table.loc[table["user"].isin(lost), "mrr"].tolist() == [0.0] * len(lost)
    assert table["n_hidden"].tolist() == [1] * 10


def test_a_hidden_rule_of_a_device_with_itself_is_no_candidate_where_training_has_none() -> None:
    # Relation 1 of the last home is the only rule from a switch to itself.
    some = switches([[0, 1], [0, 1], [0, 1]], to_itself=(2, 1))
    made = split(some, "leave_one_out", seed=seed_that_hides(some, row=5))
    assert not allows_self_pairs(made, "test")
    found = evaluate(ByRelation(), made)
    assert found.summary["not_candidates"] == 1
    assert (found.rules["tied, all"] == 0).tolist() == (found.rules["trigger"] == found.rules["action"]).tolist()
    # Two devices: 2 * 1 ordered pairs with 2 relations, less the rule that is known.
    assert found.homes["candidates, all"].tolist() == [2 * 1 * 2 - 1] * 3
    drawn = score_examples(ByRelation(), made, part="test", seed=0, chunk=100)
    non_rules = drawn.rules.take(~drawn.positive)
    assert len(non_rules) == 3
    assert not (non_rules.trigger == non_rules.action).any()


def test_a_training_rule_of_a_device_with_itself_lets_every_device_act_on_itself() -> None:
    some = switches([[0, 1], [0, 1], [0, 1]], to_itself=(2, 1))
    made = split(some, "leave_one_out", seed=seed_that_hides(some, row=4))
    assert allows_self_pairs(made, "test")
    # 2 * 2 ordered pairs with 2 relations, less the rule that is known.
    assert evaluate(ByRelation(), made).homes["candidates, all"].tolist() == [2 * 2 * 2 - 1] * 3


def test_validation_is_decided_without_validation_rules() -> None:
    # One of three rules of each of 7 homes is left to train on: some relation has 7 / 3 or more, others may be rare.
    some = switches([[0, 1, 2]] * 7)
    for seed in range(20):
        made = split(some, "leave_one_out", seed=seed, validation=True, min_pair_count=2)
        count = np.bincount(split(some, "leave_one_out", seed=seed, validation=True).train.rules.relation, minlength=3)
        assert made.train.relations == tuple(r for r, n in zip(some.relations, count.tolist(), strict=True) if n >= 2)
        assert made.refit().train.relations == split(some, "leave_one_out", seed=seed, min_pair_count=2).train.relations


def test_a_threshold_that_leaves_nothing_is_refused() -> None:
    some = switches([[0, 1], [0, 1], [0, 1]])
    with pytest.raises(DataError, match=r"min_pair_count=9 leaves no rule: the commonest pair is seen [23] times"):
        split(some, "leave_one_out", min_pair_count=9)
    with pytest.raises(DataError, match="min_pair_count must be at least 1, got 0"):
        split(some, "leave_one_out", min_pair_count=0)
