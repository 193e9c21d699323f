"""Dataset summaries: counted again in plain Python, read back equal, and robust to damaged files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.results.records import SUMMARIES, load_summaries
from benchmarks.runs.dataset_summary import (
    DEVICES,
    ITEMS,
    OTHERS,
    RULES,
    example_home,
    is_current,
    save_summary,
    summarize,
)
from benchmarks.runs.experiment import make_source
from datasets import load
from tests.support.lamps import lamps
from tests.support.two_homes import two_homes

HOMES = 200


@pytest.fixture(scope="module")
def small():
    return make_source("wyze-synthetic", options={"homes": HOMES})


@pytest.fixture(scope="module")
def summary(small):
    return summarize(small)


@pytest.fixture(scope="module")
def spelled():
    """The same homes, spelled out one by one."""
    return list(load("wyze-synthetic", homes=HOMES))


def test_histograms_count_homes(summary, spelled):
    assert summary.rules_per_home == Counter(len(home.rules) for home in spelled)
    assert summary.devices_per_home == Counter(len(home.devices) for home in spelled)


def test_entity_types_are_counted_over_devices_homes_and_rules(summary, spelled):
    devices = Counter(device.type for home in spelled for device in home.devices)
    homes = Counter(name for home in spelled for name in {device.type for device in home.devices})
    trigger = Counter(rule.trigger.type for home in spelled for rule in home.rules)
    action = Counter(rule.action.type for home in spelled for rule in home.rules)
    assert len(summary.types) == 11
    for each in summary.types:
        counted = devices[each.name], homes[each.name], trigger[each.name], action[each.name]
        assert (each.devices, each.homes, each.as_trigger, each.as_action) == counted
    assert [each.devices for each in summary.types] == sorted(devices.values(), reverse=True)


def test_relations_are_counted_over_rules_and_homes(summary, spelled):
    rules = Counter(rule.relation for home in spelled for rule in home.rules)
    homes = Counter(relation for home in spelled for relation in {rule.relation for rule in home.rules})
    found = {(each.trigger_state, each.action): (each.rules, each.homes) for each in summary.relations}
    assert found == {tuple(name): (rules[name], homes[name]) for name in rules} | {
        name: counts for name, counts in found.items() if counts == (0, 0)
    }
    assert sum(each.rules for each in summary.relations) == sum(rules.values())


def test_the_example_home_is_small_and_each_of_its_devices_is_of_another_type(summary, spelled):
    example = summary.example
    (home,) = [home for home in spelled if home.user == example.user]
    assert DEVICES[0] <= len(example.devices) <= DEVICES[1]
    assert RULES[0] <= len(example.rules) <= RULES[1]
    assert len({device.type for device in example.devices}) == len(example.devices)
    assert [(device.id, device.type) for device in example.devices] == [tuple(device) for device in home.devices]
    words = [(rule.trigger.id, rule.trigger_state, rule.action, rule.action_device.id) for rule in example.rules]
    assert words == [(rule.trigger.id, *rule.relation, rule.action.id) for rule in home.rules]


def test_the_excerpt_is_a_part_of_the_user_item_matrix(summary, spelled):
    example = summary.example
    typed = {
        home.user: {(rule.trigger.type, *rule.relation, rule.action.type) for rule in home.rules} for home in spelled
    }
    columns = [(each.trigger_type, each.trigger_state, each.action, each.action_type) for each in example.items]
    assert len(set(columns)) == len(columns) <= ITEMS
    assert len(example.rows) == 1 + OTHERS
    for row in example.rows:
        assert list(row.has) == [column in typed[row.user] for column in columns]
        assert row.rules == len(typed[row.user])
    first, *others = example.rows
    assert first.user == example.user
    assert sum(first.has) == len(typed[example.user])
    assert not all(first.has)
    for row in others:
        assert typed[row.user] & typed[example.user]
        assert typed[row.user] - typed[example.user]


def test_a_home_alone_is_its_own_example():
    # One home of 2 lamps and 1 rule: it is the nearest to 4 devices and 3 rules, and nobody shares its rule.
    homes = lamps(2, 3, [(0, 1, 2)])
    example = example_home(homes, homes.merged_types())
    assert [row.user for row in example.rows] == [1]
    assert [str(item) for item in example.items] == ["(Lamp, state 2, On, Lamp)"]


def test_without_a_rule_there_is_no_example():
    homes = two_homes().with_rules(np.zeros(0, dtype=np.int64))
    assert example_home(homes, homes.merged_types()) is None


def test_published_numbers_stand_beside_ours_and_name_their_source():
    whole = summarize(make_source("ifttt-synthetic", options={}))
    beside = {each.name: (each.ours, each.published) for each in whole.statistics}
    assert beside["rules"] == (8729, 8729)
    assert beside["devices per home, mean"][1] is None
    assert "RecRules" in whole.source
    verdicts = {each.name: each.verdict for each in whole.fidelity}
    assert verdicts["rules"] == "met"
    assert verdicts["types per home, mean"] == ""


def test_nothing_is_judged_where_nothing_was_published(summary):
    assert summary.source == ""
    assert summary.fidelity == ()
    assert {each.published for each in summary.statistics} == {None}


def test_fingerprints_are_those_of_both_tracks(summary):
    homes = load("wyze-synthetic", homes=HOMES)
    assert summary.fingerprints == {"types": homes.merged_types().fingerprint, "instances": homes.fingerprint}


def test_a_summary_comes_back_equal_and_its_bytes_are_always_the_same(tmp_path, small, summary):
    path = save_summary(summary, tmp_path)
    content = path.read_bytes()
    assert load_summaries(tmp_path) == ([summary], [])
    assert save_summary(summarize(replace(small, track="instances")), tmp_path) == path
    assert path.read_bytes() == content


def test_a_summary_of_other_data_or_a_damaged_one_is_not_current(tmp_path, small, summary):
    assert not is_current(small, tmp_path)
    path = save_summary(summary, tmp_path)
    assert is_current(small, tmp_path)
    save_summary(replace(summary, fingerprints=summary.fingerprints | {"types": "0" * 16}), tmp_path)
    assert not is_current(small, tmp_path)
    path.write_text("{")
    assert not is_current(small, tmp_path)


def test_damaged_and_older_files_are_named_and_stay_and_the_others_are_read(tmp_path, summary):
    content = json.loads(save_summary(summary, tmp_path).read_text())
    folder = tmp_path / SUMMARIES
    del content["types"]
    (folder / "a.json").write_text(json.dumps(content))
    (folder / "b.json").write_text('{"format": 0}')
    (folder / "c.json").write_text("[]")
    (folder / "d.json").write_bytes(b"\xff")
    (folder / "e.json").write_text(json.dumps(json.loads((folder / summary.file).read_text()) | {"notes": [3]}))
    found, problems = load_summaries(tmp_path)
    assert found == [summary]
    reasons = dict(problems)
    assert list(reasons) == [f"data/{letter}.json" for letter in "abcde"]
    assert reasons["data/a.json"] == "DatasetSummary: types is missing"
    assert "format" in reasons["data/b.json"]
    assert "no format" in reasons["data/c.json"]
    assert "cannot be read" in reasons["data/d.json"]
    assert reasons["data/e.json"] == "DatasetSummary: notes[0]=3: expected str (a text)"
    assert len(list(folder.iterdir())) == 6


def test_a_folder_without_summaries_has_none(tmp_path):
    assert load_summaries(tmp_path / "nowhere") == ([], [])
