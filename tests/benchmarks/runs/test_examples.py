"""Examples: one home, one rule left out, and lists that an independent sort agrees with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import rankdata

from baselines.registry import build
from benchmarks.results.records import EXAMPLES, LONGEST_EXAMPLE, load_examples
from benchmarks.runs.examples import (
    DEVICES,
    RULES,
    ExampleSpec,
    choose_rule,
    make_example,
    save_example,
    with_every_type,
)
from benchmarks.runs.experiment import make_experiment, make_source
from datasets import DataError, load
from datasets.common.random import Stream, generator
from tests.support.lamps import lamps
from tests.support.toys import toys
from tests.support.two_homes import two_homes

assert toys  # a fixture

pytestmark = pytest.mark.usefixtures("toys")

HOMES = 200
METHODS = ("toy-log-odds", "toy-count", "ease", "popularity")


def spec_of(*methods, seed=0, **parameters):
    homes = make_source("wyze-synthetic", options={"homes": HOMES})
    runs = [make_experiment(name, homes, parameters=parameters, options={}, seed=seed) for name in methods]
    return ExampleSpec(homes, tuple(runs))


@pytest.fixture
def spec():
    return spec_of(*METHODS)


@pytest.fixture
def example(spec):
    return make_example(spec)


@pytest.fixture(scope="module")
def homes():
    return load("wyze-synthetic", homes=HOMES).merged_types()


def words(rule):
    return rule.trigger.type, rule.trigger_state, rule.action, rule.action_device.type


def entry_words(entry):
    return entry.trigger_type, entry.trigger_state, entry.action, entry.action_type


def lists(example):
    return [(each, part) for each in example.methods for part in (each.seen, each.every)]


def test_the_hidden_rule_and_the_known_ones_are_the_rules_of_the_home(example, homes):
    (home,) = [home for home in homes if home.user == example.user]
    known = {words(rule) for rule in example.known}
    assert words(example.hidden) not in known
    spelled = {(rule.trigger.type, *rule.relation, rule.action.type) for rule in home.rules}
    assert known | {words(example.hidden)} == spelled
    assert [(device.id, device.type) for device in example.devices] == [tuple(device) for device in home.devices]
    assert DEVICES[0] <= len(example.devices) <= DEVICES[1]
    assert RULES[0] <= len(example.known) + 1 <= RULES[1]


def test_the_hidden_rule_occurs_in_other_homes(example, homes):
    with_it = sum(
        words(example.hidden) in {(rule.trigger.type, *rule.relation, rule.action.type) for rule in home.rules}
        for home in homes
    )
    assert example.homes_with_hidden == with_it - 1 >= 1


def test_no_list_names_a_known_rule_or_any_rule_twice(example):
    known = {words(rule) for rule in example.known}
    for _, part in lists(example):
        listed = [entry_words(entry) for entry in part.top]
        assert not known & set(listed)
        assert len(set(listed)) == len(listed) == LONGEST_EXAMPLE


def test_only_user_item_models_list_what_the_home_has_no_devices_for(example):
    own = {device.type: device.id for device in example.devices}
    formulations = {each.method: each.formulation for each in example.methods}
    assert formulations == {"toy-log-odds": "graph", "toy-count": "graph", "ease": "items", "popularity": "graph"}
    for each, part in lists(example):
        for entry in part.top:
            assert entry.owned == (entry.trigger_type in own and entry.action_type in own)
            assert (entry.trigger_id, entry.action_id) == (own.get(entry.trigger_type), own.get(entry.action_type))
            assert entry.owned or each.formulation == "items"
    (ease,) = [each for each in example.methods if each.method == "ease"]
    assert not all(entry.owned for entry in ease.seen.top)


def test_lists_fall_in_probability_and_mark_the_hidden_rule(example):
    for _, part in lists(example):
        probability = [entry.probability for entry in part.top]
        assert probability == sorted(probability, reverse=True)
        assert all(0 <= value <= 1 for value in probability)
        marked = [place for place, entry in enumerate(part.top, 1) if entry.hidden]
        assert [entry_words(part.top[place - 1]) for place in marked] == [words(example.hidden)] * len(marked)
        assert bool(marked) or part.rank > LONGEST_EXAMPLE / 2  # ties share a rank, which may lie beyond the top


def train_without(example, homes):
    left_out = choose_rule(homes)
    train = homes.with_rules(np.arange(homes.n_rules) != left_out)
    which = int(homes.rules.home[left_out])
    assert homes.users[which] == example.user
    return train, which, left_out


def test_the_rank_of_a_user_item_model_is_that_of_sorting_its_items(example, homes):
    train, which, left_out = train_without(example, homes)
    fitted = build("ease").fit(train, rng=generator(Stream.FITTING, 0))
    scores = fitted.score_items(train, np.array([which]))[0].astype(np.float32)
    numbers = fitted.items.number(train)
    free = np.setdiff1d(np.arange(len(scores)), numbers[train.rules.home == which])
    (target,) = fitted.items.number(homes.with_rules(np.array([left_out])))
    (ease,) = [each for each in example.methods if each.method == "ease"]
    assert ease.seen.candidates == len(free)
    assert ease.seen.rank == ease.every.rank == rankdata(-scores[free])[list(free).index(target)]
    n_types, n_relations = len(homes.types), len(homes.relations)
    assert ease.every.candidates == n_types**2 * n_relations - len(example.known)


def test_the_rank_of_a_graph_method_is_that_of_sorting_the_pairs_of_its_home(example, homes):
    train, which, left_out = train_without(example, homes)
    by_relation = build("toy-log-odds").fit(train, rng=generator(Stream.FITTING, 0)).score
    own = range(*train.device_start[which : which + 2])
    rules = zip(train.rules.trigger, train.rules.action, train.rules.relation, strict=True)
    known = {tuple(map(int, rule)) for rule in rules}
    seen = {tuple(map(int, typed)) for typed in zip(*train.typed(), strict=True)}
    every = [(t, a, r) for t in own for a in own for r in range(len(train.relations)) if (t, a, r) not in known]
    valid = [(t, a, r) for t, a, r in every if (train.device_type[t], r, train.device_type[a]) in seen]
    rules = homes.rules
    hidden = int(rules.trigger[left_out]), int(rules.action[left_out]), int(rules.relation[left_out])
    (toy,) = [each for each in example.methods if each.method == "toy-log-odds"]
    for part, candidates in ((toy.seen, valid), (toy.every, every)):
        ranks = rankdata([-by_relation[r] for _, _, r in candidates])
        assert part.candidates == len(candidates)
        assert part.rank == ranks[candidates.index(hidden)]
    assert {entry.seen for entry in toy.seen.top} == {True}
    assert False in {entry.seen for entry in toy.every.top}


def test_log_odds_become_probabilities_by_the_logistic_function(example, homes):
    train, _, _ = train_without(example, homes)
    # The score of the toy is about how often a relation occurs: the commonest so often that it is nearly certain.
    score = float(build("toy-log-odds").fit(train, rng=generator(Stream.FITTING, 0)).score.max())
    by_name = {each.method: each for each in example.methods}
    assert by_name["toy-log-odds"].every.top[0].probability == round(1 / (1 + np.exp(-score)), 6)
    assert not by_name["toy-log-odds"].calibrated
    assert by_name["toy-count"].calibrated
    assert 0.5 < by_name["ease"].seen.top[0].probability < 1


def test_a_home_given_every_type_keeps_its_rules():
    homes = two_homes().subset(np.array([1]))  # Bob has a lamp and no sensor
    whole = with_every_type(homes)
    assert whole.device_type.tolist() == [0, 1]
    assert whole.users.tolist() == homes.users.tolist()
    assert [a.tolist() for a in whole.typed()] == [a.tolist() for a in homes.typed()]


def test_rules_of_a_larger_group_are_never_chosen():
    # Two homes of the same rules; in both, rule 0 stands alone and rules 1 and 2 are one automation.
    one = lamps(4, 3, [(0, 1, 0), (1, 2, 1), (2, 3, 2)], group=[0, 1, 1])
    rules = one.rules
    twice = replace(
        one,
        users=np.array([1, 2]),
        device_home=np.repeat([0, 1], 4),
        device_type=np.zeros(8, dtype=np.int64),
        device_ids=np.arange(8),
        rules=type(rules)(
            np.repeat([0, 1], 3),
            np.concatenate([rules.trigger, rules.trigger + 4]),
            np.concatenate([rules.action, rules.action + 4]),
            np.tile(rules.relation, 2),
            np.tile(rules.group, 2),
        ),
    )
    assert choose_rule(twice) in (0, 3)


def test_where_no_rule_is_shared_there_is_no_example():
    with pytest.raises(DataError, match="none occurs in two homes"):
        choose_rule(lamps(4, 3, [(0, 1, 0), (1, 2, 1)]))


def test_an_example_needs_methods_and_the_track_types():
    homes = make_source("wyze-synthetic", options={"homes": HOMES})
    with pytest.raises(DataError, match="name at least one"):
        ExampleSpec(homes, ())
    instances = replace(homes, track="instances")
    run = make_experiment("ease", instances, parameters={}, options={})
    with pytest.raises(DataError, match="need the track types"):
        ExampleSpec(instances, (run,))


def test_an_example_comes_back_equal_and_its_bytes_are_always_the_same(tmp_path, spec, example):
    path = save_example(example, tmp_path)
    content = path.read_bytes()
    assert load_examples(tmp_path) == ([example], [])
    assert save_example(make_example(spec), tmp_path) == path
    assert path.read_bytes() == content


def test_another_seed_or_parameter_is_another_file():
    files = {spec_of("toy-count").file, spec_of("toy-count", seed=1).file, spec_of("toy-count", noise=2.0).file}
    assert len(files) == 3


def test_an_example_by_other_code_is_not_current(tmp_path, spec, example):
    assert not spec.is_current(tmp_path)
    path = save_example(example, tmp_path)
    assert spec.is_current(tmp_path)
    save_example(replace(example, codes=example.codes | {"ease": "0" * 12}), tmp_path)
    assert not spec.is_current(tmp_path)
    path.write_text("{}")
    assert not spec.is_current(tmp_path)


def test_damaged_examples_are_named_and_the_others_are_read(tmp_path, example):
    path = save_example(example, tmp_path)
    (tmp_path / EXAMPLES / "0.json").write_bytes(path.read_bytes()[:-100])
    (tmp_path / EXAMPLES / "1.json").write_text('{"format": 3, "data": "x"}')
    found, problems = load_examples(tmp_path)
    assert found == [example]
    assert [name for name, _ in problems] == ["examples/0.json", "examples/1.json"]
    assert problems[1][1].startswith("Example: options is missing")
