"""Examples: what is hidden and asked, that non-rules are none of the home's rules, and parts for minibatches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError, Homes, Rules
from datasets.common.random import KeyedRandom
from datasets.valid import ValidRules
from fedrule.training.examples import HALF_SCORED_PER_KEPT, SCORED_PER_KEPT, Examples, ExampleSampler, NonRules, Score
from tests.support.lamps import lamps
from tests.support.strategies import homes, triples

SEEDS = st.integers(0, 2**32)
HIDDEN = st.sampled_from([0.0, 0.3, 0.7])
KINDS: list[NonRules] = ["paper", "feasible", "hard", "half-hard"]
COUNTS = st.sampled_from([{"per_rule": 1}, {"per_rule": 3}, {"candidates": 2}, {"candidates": 30}, {"per_rule": 0}])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def by_number(context: Homes, candidates: Rules) -> np.ndarray:
    """A score under which no two candidates of a home are equal: later devices and relations score higher."""
    return candidates.keys(context.n_devices, len(context.relations)).astype(np.float64)


def drawn(
    some: Homes,
    kind: NonRules = "feasible",
    *,
    hidden: float = 0.0,
    seed: int = 0,
    score: Score = by_number,
    per_rule: int = 1,
    candidates: int = 0,
) -> Examples:
    sampler = ExampleSampler.of(
        some, ValidRules.of(some), hidden=hidden, non_rules=kind, per_rule=per_rule, candidates=candidates
    )
    return sampler.draw(rng(seed), score=score)


def targets(examples: Examples) -> list[tuple[int, int, int, int]]:
    return triples(examples.candidates.take(examples.positive))


def non_rules(examples: Examples) -> list[tuple[int, int, int, int]]:
    return triples(examples.candidates.take(~examples.positive))


# What is known and what is asked


@given(homes(), HIDDEN, st.sampled_from(KINDS), COUNTS, SEEDS)
def test_a_rule_is_known_or_asked_for_and_the_paper_has_both(
    some: Homes, hidden: float, kind: NonRules, count: dict[str, int], seed: int
) -> None:
    examples = drawn(some, kind, hidden=hidden, seed=seed, **count)
    known, questions, every = triples(examples.context.rules), targets(examples), triples(some.rules)
    assert triples(examples.full.rules) == every
    if hidden:
        assert sorted(known + questions) == sorted(every)
    else:
        assert (known, questions) == (every, every)


@given(homes(max_rules=12, groups=True), st.sampled_from([0.3, 0.7]), SEEDS)
def test_rules_of_one_automation_hide_together(some: Homes, hidden: float, seed: int) -> None:
    examples = drawn(some, hidden=hidden, seed=seed)
    assert some.rules.group is not None
    group = dict(zip(triples(some.rules), zip(some.rules.home, some.rules.group, strict=True), strict=True))
    hidden_groups = {group[rule] for rule in targets(examples)}
    assert not hidden_groups & {group[rule] for rule in triples(examples.context.rules)}


@pytest.mark.parametrize(("group", "automations"), [(None, 4000), ([i // 2 for i in range(4000)], 2000)])
def test_each_automation_hides_with_the_chance_it_is_given(group: list[int] | None, automations: int) -> None:
    # 100 lamps, 4,000 rules. Of n automations 0.3 n hide, with a deviation of sqrt(0.21 n): 29 of 4,000, 20 of 2,000.
    some = lamps(100, 1, _spread(4000), group=group)
    examples = drawn(some, hidden=0.3)
    hides = len(targets(examples)) * automations / 4000
    assert abs(hides - 0.3 * automations) < 4 * np.sqrt(0.21 * automations)


def _spread(n: int) -> list[tuple[int, int, int]]:
    """n rules of 100 lamps, 40 from each."""
    return [(i // 40, (i // 40 + 1 + i % 40) % 100, 0) for i in range(n)]


@given(homes(max_rules=12), SEEDS)
def test_one_automation_of_each_home_that_has_any_is_left_out(some: Homes, seed: int) -> None:
    examples = ExampleSampler.of(some, ValidRules.of(some), hide="one").draw(rng(seed))
    assert sorted(triples(examples.context.rules) + targets(examples)) == sorted(triples(some.rules))
    group = np.arange(some.n_rules) if some.rules.group is None else some.rules.group
    automation = dict(zip(triples(some.rules), zip(some.rules.home.tolist(), group.tolist(), strict=True), strict=True))
    left_out = {automation[rule] for rule in targets(examples)}
    assert sorted(home for home, _ in left_out) == np.unique(some.rules.home).tolist()
    assert not left_out & {automation[rule] for rule in triples(examples.context.rules)}


def test_every_rule_is_left_out_as_often_as_any_other() -> None:
    # One home of 4 rules, 400 draws: each is left out 100 times, with a deviation of sqrt(400 * 3 / 16) = 8.7.
    some = lamps(5, 1, [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 4, 0)])
    sampler, source = ExampleSampler.of(some, ValidRules.of(some), hide="one", per_rule=0), rng(5)
    found = [targets(sampler.draw(source))[0] for _ in range(400)]
    assert all(abs(found.count(rule) - 100) < 4 * 8.7 for rule in triples(some.rules))


@given(homes(min_homes=1, max_rules=12), SEEDS)
def test_what_a_client_leaves_out_does_not_depend_on_the_others(some: Homes, seed: int) -> None:
    valid, client = ValidRules.of(some), 5 * np.arange(some.n_homes) + 3
    every = ExampleSampler.of(some, valid, hide="one").draw(KeyedRandom(seed, 1, client))
    last = np.array([some.n_homes - 1])
    alone = ExampleSampler.of(some.subset(last), valid, hide="one").draw(KeyedRandom(seed, 1, client[last]))
    assert targets(alone) == targets(every.subset(last))


def test_one_automation_or_a_share_is_hidden_and_not_both() -> None:
    some = lamps(3, 1, [(0, 1, 0), (1, 2, 0)])
    with pytest.raises(DataError, match=r"one automation of each home is hidden, so hidden must be 0, got 0\.3"):
        ExampleSampler.of(some, ValidRules.of(some), hide="one", hidden=0.3)
    with pytest.raises(DataError, match="unknown way to hide automations 'two'"):
        ExampleSampler.of(some, ValidRules.of(some), hide="two")  # type: ignore[arg-type]


# Non-rules


@given(homes(max_rules=12), HIDDEN, st.sampled_from(KINDS), COUNTS, SEEDS)
def test_no_non_rule_is_a_rule_and_each_could_be_one(
    some: Homes, hidden: float, kind: NonRules, count: dict[str, int], seed: int
) -> None:
    examples = drawn(some, kind, hidden=hidden, seed=seed, **count)
    candidates, found = examples.candidates, non_rules(examples)
    assert not set(found) & set(triples(some.rules))
    assert len(set(triples(candidates))) == len(candidates)
    assert np.all(np.diff(candidates.home) >= 0)
    assert (some.device_home[candidates.trigger] == candidates.home).all()
    assert (some.device_home[candidates.action] == candidates.home).all()
    if kind != "paper":
        trigger, relation, action = some.typed(candidates)
        assert ValidRules.of(some).contains(trigger, action, relation).all()


@given(homes(max_rules=12), HIDDEN, st.sampled_from(KINDS), COUNTS, SEEDS)
def test_chosen_homes_get_as_many_non_rules_as_wanted_or_all_there_are(
    some: Homes, hidden: float, kind: NonRules, count: dict[str, int], seed: int
) -> None:
    examples = drawn(some, kind, hidden=hidden, seed=seed, **count)
    # The same draw of what hides, with more non-rules wanted than any home has left.
    every = drawn(some, "feasible" if kind == "hard" else kind, hidden=hidden, seed=seed, candidates=10_000)
    assert targets(every) == targets(examples)
    for home in range(some.n_homes):
        rules, found, there = (
            sum(rule[0] == home for rule in part) for part in (targets(examples), non_rules(examples), non_rules(every))
        )
        wanted = count["candidates"] * (rules > 0) if "candidates" in count else count["per_rule"] * rules
        assert found == min(wanted, there)


def test_hard_non_rules_are_the_highest_of_ten_times_as_many() -> None:
    # 4 lamps, 12 pairs x 9 relations that some pair has = 108 feasible, 9 of them rules. One candidate of 10 looked
    # at, and 9 candidates of 90: with the score of `by_number` those with the highest numbers.
    some = lamps(4, 9, [(0, 1, r) for r in range(9)])
    for candidates in (1, 9):
        sampler = ExampleSampler.of(some, ValidRules.of(some), non_rules="hard", candidates=candidates)
        looked_at: list[Rules] = []

        def score(context: Homes, shown: Rules, looked_at: list[Rules] = looked_at) -> np.ndarray:
            looked_at.append(shown)
            return by_number(context, shown)

        found = non_rules(sampler.draw(rng(5), score=score))
        shown = triples(looked_at[0])
        assert len(shown) == SCORED_PER_KEPT * candidates
        assert found == sorted(shown)[-candidates:]


def test_half_hard_non_rules_are_the_highest_of_those_drawn_and_any_others() -> None:
    # 20 lamps, 380 pairs, one of them a rule. 9 candidates: 4 hard ones of 4 * 4 + 5 = 21 that are drawn, 5 others.
    some = lamps(20, 1, [(0, 1, 0)])
    sampler = ExampleSampler.of(some, ValidRules.of(some), non_rules="half-hard", candidates=9)
    looked_at: list[Rules] = []

    def score(context: Homes, shown: Rules) -> np.ndarray:
        looked_at.append(shown)
        return by_number(context, shown)

    others: set[int] = set()
    for seed in range(40):
        found = non_rules(sampler.draw(rng(seed), score=score))
        shown = sorted(triples(looked_at[-1]))
        assert len(shown) == HALF_SCORED_PER_KEPT * 4 + 5 == 21
        assert len(found) == len(set(found)) == 9
        assert set(found) <= set(shown)
        assert set(shown[-4:]) <= set(found)
        others |= {shown.index(rule) for rule in found} - {17, 18, 19, 20}
    assert others == set(range(17))  # of the others any is drawn


def test_hard_non_rules_are_scored_without_the_rules_that_hide() -> None:
    some = lamps(10, 1, [(i, i + 1, 0) for i in range(9)])
    known: list[Homes] = []

    def score(context: Homes, shown: Rules) -> np.ndarray:
        known.append(context)
        return by_number(context, shown)

    examples = drawn(some, "hard", hidden=0.5, score=score)
    assert known == [examples.context]
    assert 0 < examples.context.n_rules < 9


def test_equal_scores_keep_any_of_what_was_looked_at() -> None:
    some = lamps(30, 1, [(0, 1, 0)])
    found = {non_rules(drawn(some, "hard", seed=s, score=lambda _, shown: np.zeros(len(shown))))[0] for s in range(60)}
    triggers = sorted({trigger for _, trigger, _, _ in found})
    # Ten of 869 looked at, sorted by trigger: were the first of them kept, that would hardly be one of the last lamps.
    assert triggers[0] < 5
    assert triggers[-1] > 24


# What a drawn non-rule stands for


def test_a_drawn_non_rule_stands_for_as_many_as_there_are_for_each_drawn() -> None:
    # 4 lamps have 12 pairs, 9 relations: 108 feasible, of which 9 are rules; 11 of the 99 others are drawn, 9 for each.
    some = lamps(4, 9, [(0, 1, r) for r in range(9)])
    assert drawn(some, candidates=11).stands_for.tolist() == [9.0]
    # With hidden rules the same 99 are there: a rule that is neither known nor asked for is no non-rule.
    assert drawn(some, candidates=11, hidden=0.5).stands_for.tolist() == [9.0]
    # All 99 drawn stand for themselves, and so do those of the paper and the hardest, which are not a uniform sample.
    assert drawn(some, candidates=500).stands_for.tolist() == [1.0]
    for kind in ("paper", "hard"):
        assert drawn(some, kind, candidates=11).stands_for.tolist() == [1.0]


@given(homes(max_rules=12), HIDDEN, COUNTS, SEEDS)
def test_what_non_rules_stand_for_is_all_that_a_home_could_have(
    some: Homes, hidden: float, count: dict[str, int], seed: int
) -> None:
    examples = drawn(some, hidden=hidden, seed=seed, **count)
    valid, selves = ValidRules.of(some), bool((some.rules.trigger == some.rules.action).any())
    taken = {rule[1:] for rule in triples(some.rules)}
    for home, stands_for in enumerate(examples.stands_for.tolist()):
        devices = np.flatnonzero(some.device_home == home).tolist()
        feasible = {
            (i, j, r)
            for i in devices
            for j in devices
            for r in valid.relations_of(some.device_type[i], some.device_type[j]).tolist()
            if selves or i != j
        }
        many = sum(rule[0] == home for rule in non_rules(examples))
        if many:
            assert stands_for * many == pytest.approx(len(feasible - taken))
        assert stands_for >= 1


# Randomness


@given(homes(max_rules=12), HIDDEN, st.sampled_from(KINDS), SEEDS)
def test_a_seed_draws_the_same_practice_again(some: Homes, hidden: float, kind: NonRules, seed: int) -> None:
    sampler = ExampleSampler.of(some, ValidRules.of(some), hidden=hidden, non_rules=kind)
    sampler.draw(rng(seed + 1), score=by_number)  # what was drawn before leaves no trace
    first, again = sampler.draw(rng(seed), score=by_number), drawn(some, kind, hidden=hidden, seed=seed)
    assert triples(first.candidates) == triples(again.candidates)
    assert first.positive.tolist() == again.positive.tolist()
    assert triples(first.context.rules) == triples(again.context.rules)


def test_each_draw_hides_and_draws_anew() -> None:
    some = lamps(30, 5, [(i, i + 1, i % 5) for i in range(29)])
    sampler = ExampleSampler.of(some, ValidRules.of(some), hidden=0.5, non_rules="feasible")
    generator = rng()
    first, second = sampler.draw(generator), sampler.draw(generator)
    assert targets(first) != targets(second)
    assert non_rules(first) != non_rules(second)


def by_cell(context: Homes, candidates: Rules) -> np.ndarray:
    """A score of the candidate alone, whatever its home's place: few values, so that there are ties."""
    first = context.device_start[candidates.home]
    return (candidates.trigger - first + candidates.relation) % 2 + 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [False, True])
@given(homes(min_homes=1, max_rules=12), HIDDEN, COUNTS, st.data(), SEEDS)
def test_with_keyed_random_a_client_draws_for_itself_what_it_gets_among_all(
    kind: NonRules, groups: bool, some: Homes, hidden: float, count: dict[str, int], data: st.DataObject, seed: int
) -> None:
    numbers = st.lists(st.integers(-1, 2), min_size=some.n_rules, max_size=some.n_rules)
    group = np.array(data.draw(numbers), dtype=np.int64) if groups else None
    some = replace(some, rules=replace(some.rules, group=group))
    valid, client = ValidRules.of(some), 5 * np.arange(some.n_homes) + 3
    every = ExampleSampler.of(some, valid, hidden=hidden, non_rules=kind, **count)
    order = data.draw(st.permutations(range(some.n_homes)))
    for chosen in (np.array(order[:1]), np.array(order[:3])):
        alone = ExampleSampler.of(
            some.subset(chosen), valid, hidden=hidden, non_rules=kind, self_pairs=every.self_pairs, **count
        ).draw(KeyedRandom(seed, 1, client[chosen]), score=by_cell)
        among_all = every.draw(KeyedRandom(seed, 1, client), score=by_cell).subset(chosen)
        assert triples(alone.candidates) == triples(among_all.candidates)
        assert alone.positive.tolist() == among_all.positive.tolist()
        assert triples(alone.context.rules) == triples(among_all.context.rules)
        assert triples(alone.full.rules) == triples(among_all.full.rules)
        assert alone.stands_for.tolist() == among_all.stands_for.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_keyed_practice_is_that_of_its_round_and_client(kind: NonRules) -> None:
    some = lamps(30, 5, [(i, i + 1, i % 5) for i in range(29)])
    sampler = ExampleSampler.of(some, ValidRules.of(some), hidden=0.5, non_rules=kind)
    three = np.array([3])
    key = KeyedRandom(1, 2, three)
    sources = (
        key,
        key,
        key.stream(0),
        KeyedRandom(0, 2, three),
        KeyedRandom(1, 0, three),
        KeyedRandom(1, 2, np.array([0])),
    )
    first, again, *others = (sampler.draw(source, score=by_number) for source in sources)
    assert triples(first.candidates) == triples(again.candidates)
    assert all(targets(first) != targets(other) for other in others)
    assert all(non_rules(first) != non_rules(other) for other in others)


def test_keyed_automations_hide_with_the_chance_they_are_given() -> None:
    # As above: 4,000 rules of 2,000 automations, of which 600 hide, with a deviation of 20.
    some = lamps(100, 1, _spread(4000), group=[i // 2 for i in range(4000)])
    examples = ExampleSampler.of(some, ValidRules.of(some), hidden=0.3).draw(KeyedRandom(0, 0, np.array([0])))
    assert abs(len(targets(examples)) / 2 - 600) < 80


# Homes with little in them


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [0.0, 0.5])
def test_homes_without_rules_or_with_one_device_are_asked_nothing(kind: NonRules, hidden: float) -> None:
    for some in (
        lamps(3, 2, []),
        lamps(1, 2, []),
        lamps(0, 2, []),
        lamps(2, 2, []).subset(np.zeros(0, dtype=np.int64)),
    ):
        examples = drawn(some, kind, hidden=hidden, candidates=5)
        assert len(examples.candidates) == len(examples.positive) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_that_acts_on_itself_is_asked_for_and_may_be_drawn(kind: NonRules) -> None:
    # One lamp, two relations, of which it has one; the other is not valid, since no home has it.
    examples = drawn(lamps(1, 2, [(0, 0, 1)]), kind)
    assert targets(examples) == [(0, 0, 0, 1)]
    assert non_rules(examples) == ([(0, 0, 0, 0)] if kind == "paper" else [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_is_told_whether_devices_act_on_themselves_in_its_population(kind: NonRules) -> None:
    # Two lamps, one relation, the rule 0 -> 1: 1 -> 0 is left and, where lamps act on themselves, 0 -> 0 and 1 -> 1.
    some = lamps(2, 1, [(0, 1, 0)])
    for self_pairs, left in ((None, [(1, 0)]), (False, [(1, 0)]), (True, [(0, 0), (1, 0), (1, 1)])):
        sampler = ExampleSampler.of(some, ValidRules.of(some), non_rules=kind, candidates=9, self_pairs=self_pairs)
        assert sorted(pair[1:3] for pair in non_rules(sampler.draw(rng(), score=by_number))) == left


def test_where_nothing_happens_to_hide_nobody_is_targets() -> None:
    some = lamps(3, 2, [(0, 1, 0), (1, 2, 1)])
    examples = drawn(some, hidden=1e-12, candidates=5)
    assert len(examples.candidates) == 0
    assert triples(examples.context.rules) == triples(some.rules)


# Minibatches


@given(homes(max_homes=6, max_rules=12), HIDDEN, st.sampled_from(KINDS), st.data(), SEEDS)
def test_a_part_holds_what_its_homes_are_targets(
    some: Homes, hidden: float, kind: NonRules, data: st.DataObject, seed: int
) -> None:
    examples = drawn(some, kind, hidden=hidden, seed=seed, per_rule=2)
    chosen = data.draw(st.permutations(range(some.n_homes)))
    chosen = chosen[: data.draw(st.integers(0, len(chosen)))]
    part = examples.subset(np.array(chosen, dtype=np.int64))
    # A examples as homes with its candidates as rules: subset renumbers these as it should.
    chosen_homes = replace(some, rules=examples.candidates).subset(np.array(chosen, dtype=np.int64))
    assert triples(part.candidates) == triples(chosen_homes.rules)
    assert part.positive.tolist() == [
        bool(positive) for home in chosen for positive in examples.positive[examples.candidates.home == home]
    ]
    assert part.stands_for.tolist() == examples.stands_for[np.array(chosen, dtype=np.int64)].tolist()
    assert part.full.fingerprint == some.subset(np.array(chosen, dtype=np.int64)).fingerprint
    assert part.context.n_homes == len(chosen)
    assert set(triples(part.context.rules)) <= set(triples(part.full.rules))
    assert part.context.n_rules + len(targets(part)) == part.full.n_rules * (1 if hidden else 2)


# Wrong settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 1.0}, r"hidden must be in \[0, 1\), got 1.0"),
        ({"per_rule": -1}, "non-rules must not be negative, got -1 per rule, 0 per home"),
        ({"non_rules": "feasable"}, "unknown kind of non-rules 'feasable'; did you mean 'feasible'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], message: str) -> None:
    some = lamps(2, 2, [(0, 1, 0)])
    with pytest.raises(DataError, match=message):
        ExampleSampler.of(some, ValidRules.of(some), **settings)  # type: ignore[arg-type]


def test_hard_non_rules_without_a_score_are_refused() -> None:
    some = lamps(2, 2, [(0, 1, 0)])
    with pytest.raises(DataError, match="pass score="):
        ExampleSampler.of(some, ValidRules.of(some), non_rules="hard").draw(rng())
