"""The made-up smart homes: exact counts at full size, repeatable, sensible, with something to learn of each kind."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.common.errors import DataError
from datasets.homes import Array, Homes
from datasets.readers.wyze import read_wyze, write_wyze
from datasets.registry import load
from datasets.synthetic.catalogue import (
    ACTIONS,
    ALREADY_SO,
    ENDS,
    INTENTS,
    PROFILES,
    ROLES,
    STATES,
    Catalogue,
    catalogue,
)
from datasets.synthetic.draws import any_of, flatten_runs, pick
from datasets.synthetic.households import fit_to_capacity
from datasets.synthetic.wyze import PRESETS, Counts, paired, wyze_synthetic


@pytest.fixture(scope="module")
def paper() -> Homes:
    return wyze_synthetic()


@pytest.fixture(scope="module", params=["paper", "public"])
def small(request: pytest.FixtureRequest) -> Homes:
    return wyze_synthetic(preset=request.param, homes=4_000, seed=2)


def test_every_count_of_the_paper_is_hit_exactly(paper: Homes) -> None:
    described = paper.describe()
    published = dict(described.published.statistics)
    # 201,940 rules / 76,218 homes = 2.6495, which the paper rounds to 2.65
    assert published.pop("rules per home, mean") == round(paper.n_rules / paper.n_homes, 2)
    assert {name: described.statistics[name] for name in published} == published
    assert (paper.n_homes, paper.n_rules) == (76_218, 201_940)


def test_every_count_of_the_paper_is_hit_with_another_seed_too() -> None:
    other = wyze_synthetic(seed=11).describe().statistics
    assert (other["rules"], other["relations"], other["distinct rules"]) == (201_940, 163, 1_207)


def test_homes_of_the_paper_preset_own_four_devices_on_average(paper: Homes) -> None:
    devices = np.diff(paper.device_start)
    assert paper.n_devices == 4 * paper.n_homes
    assert np.mean((devices >= 2) & (devices <= 8)) > 0.85


def test_the_same_seed_repeats_and_another_does_not() -> None:
    one = wyze_synthetic(homes=500, seed=4)
    assert wyze_synthetic(homes=500, seed=4).fingerprint == one.fingerprint
    assert load("wyze-synthetic", homes=500, seed=4).fingerprint == one.fingerprint
    assert wyze_synthetic(homes=500, seed=5).fingerprint != one.fingerprint


def test_the_full_size_repeats(paper: Homes) -> None:
    assert wyze_synthetic(preset="paper", homes=76_218, seed=0).fingerprint == paper.fingerprint


@given(st.sampled_from(sorted(PRESETS)), st.integers(1, 60), st.integers(0, 2**40))
def test_any_number_of_homes_keeps_proportions_and_vocabularies(preset: str, n_homes: int, seed: int) -> None:
    homes = wyze_synthetic(preset=preset, homes=n_homes, seed=seed)
    full = PRESETS[preset]
    assert homes.n_homes == n_homes
    assert homes.n_rules == round(full.rules * n_homes / full.homes)
    assert homes.n_devices == round(full.devices * n_homes / full.homes)
    assert (len(homes.types), len(homes.relations)) == (len(full.types), full.n_relations)
    assert np.diff(homes.rule_start).min() >= 1
    assert homes.provenance.published == ""
    assert_sensible(homes)


def test_every_rule_can_be_carried_out(paper: Homes, small: Homes) -> None:
    assert_sensible(paper)
    assert_sensible(small)


def assert_sensible(homes: Homes) -> None:
    """The trigger's type has the state, the actor's type has the action, and no device is told what it is already."""
    notices = {state.name: set(state.types.split()) for state in STATES}
    can = {action.name: set(action.types.split()) for action in ACTIONS}
    seen = {tuple(row) for row in np.unique(np.stack(homes.typed()), axis=1).T.tolist()}
    for trigger, relation, action in seen:
        assert homes.types[trigger] in notices[homes.relations[relation].trigger]
        assert homes.types[action] in can[homes.relations[relation].action]
    alone = homes.rules.trigger == homes.rules.action
    assert not {homes.relations[r] for r in np.unique(homes.rules.relation[alone]).tolist()} & ALREADY_SO


def test_every_home_has_a_rule_and_some_rules_are_of_a_device_with_itself(paper: Homes) -> None:
    assert np.diff(paper.rule_start).min() == 1
    assert 0.05 < np.mean(paper.rules.trigger == paper.rules.action) < 0.4


def test_cloud_is_one_device_of_all_homes_and_only_where_a_rule_uses_it() -> None:
    homes = wyze_synthetic(preset="public", homes=3_000)
    cloud = np.flatnonzero(homes.device_type == homes.types.index("Cloud"))
    assert len(cloud) > 100
    assert set(homes.device_ids[cloud].tolist()) == {0}
    assert len(np.unique(homes.device_home[cloud])) == len(cloud)
    assert np.isin(cloud, np.concatenate([homes.rules.trigger, homes.rules.action])).all()
    others = np.delete(homes.device_ids, cloud)
    assert len(np.unique(others)) == len(others) == homes.n_devices - len(cloud)


def test_homes_survive_a_file(tmp_path: Path) -> None:
    homes = wyze_synthetic(preset="public", homes=300)
    homes.save(tmp_path / "homes.parquet")
    assert load("saved", path=tmp_path / "homes.parquet").fingerprint == homes.fingerprint


def test_homes_survive_the_wyze_layout(tmp_path: Path) -> None:
    homes = wyze_synthetic(preset="public", homes=300)
    write_wyze(homes, tmp_path)
    assert list(read_wyze(tmp_path)) == list(homes)


def test_a_wrong_preset_or_number_is_named() -> None:
    with pytest.raises(DataError, match=r"preset of wyze-synthetic 'papre'; did you mean 'paper'\?"):
        wyze_synthetic(preset="papre")
    for homes in (0, -3, 2.5, True, "9", 10**12):
        with pytest.raises(DataError, match=r"homes=.* is not a whole number from 1 to 10,000,000"):
            wyze_synthetic(homes=homes)  # type: ignore[arg-type]
    for seed in (-1, None, 1.0, 2**63):
        with pytest.raises(DataError, match=r"seed=.* is not a whole number from 0"):
            wyze_synthetic(homes=10, seed=seed)  # type: ignore[arg-type]


def test_a_scaled_down_set_says_so() -> None:
    homes = wyze_synthetic(homes=762, seed=3)  # 762 * 201,940 / 76,218 = 2018.9
    assert homes.n_rules == 2_019
    assert homes.provenance.notes[0].startswith("762 homes, not 76,218")
    assert "preset paper, homes 762, seed 3" in homes.provenance.source


def test_counts_that_cannot_be_met_are_an_error_and_not_silently_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    # 762 homes with 2,019 rules called a full set: far too few for all 1,207 rules of the catalogue to find a host
    few = replace(PRESETS["paper"], homes=762, rules=2_019, devices=3_049, homes_with_several_rules=419)
    monkeypatch.setitem(PRESETS, "few", few)
    with pytest.raises(DataError, match=r"<.+, .+ -> .+, .+> must occur 1 more times and only 0 homes can have it"):
        wyze_synthetic(preset="few")
    assert wyze_synthetic(preset="few", homes=700).n_homes == 700  # no counts are promised


def test_popularity_has_a_heavy_tail(small: Homes) -> None:
    _, count = np.unique(np.stack(small.typed()), axis=1, return_counts=True)
    count = np.sort(count)[::-1]
    assert count[: len(count) // 10].sum() > 0.5 * small.n_rules
    assert np.median(count) <= 5


def test_rules_that_undo_each_other_go_together(paper: Homes) -> None:
    """Collaborative signal: who has Open -> Power On for a lamp has Close -> Power Off far more often than others."""
    on, off = (
        homes_with(paper, "ContactSensor", relation, "Light")
        for relation in (("Open", "Power On"), ("Close", "Power Off"))
    )
    owners = homes_owning(paper, "ContactSensor") & homes_owning(paper, "Light")
    assert np.mean(off[on]) > 1.5 * np.mean(off[owners & ~on])


def homes_with(homes: Homes, trigger: str, relation: tuple[str, str], action: str) -> Array:
    t, r, a = homes.typed()
    wanted = (
        homes.types.index(trigger),
        [tuple(x) for x in homes.relations].index(relation),
        homes.types.index(action),
    )
    rows = (t == wanted[0]) & (r == wanted[1]) & (a == wanted[2])
    return np.isin(np.arange(homes.n_homes), homes.rules.home[rows])


def homes_owning(homes: Homes, entity_type: str) -> Array:
    return np.isin(np.arange(homes.n_homes), homes.device_home[homes.device_type == homes.types.index(entity_type)])


def test_devices_of_one_type_are_not_alike(paper: Homes) -> None:
    """Habits: two rules of a sensor meet in one lamp more often than if lamps of a home were interchangeable."""
    lights = np.bincount(paper.device_home[paper.device_type == paper.types.index("Light")], minlength=paper.n_homes)
    sensor, light = paper.types.index("ContactSensor"), paper.types.index("Light")
    t, _, a = paper.typed()
    rows = np.flatnonzero((t == sensor) & (a == light) & (lights[paper.rules.home] >= 2))
    trigger, action = paper.rules.trigger[rows], paper.rules.action[rows]
    order = np.lexsort((action, trigger))
    trigger, action, home = trigger[order], action[order], paper.rules.home[rows][order]
    both = trigger[1:] == trigger[:-1]
    met, chance = np.mean((action[1:] == action[:-1])[both]), np.mean(1 / lights[home[1:]][both])
    assert met > 1.15 * chance


def test_types_are_owned_together(paper: Homes) -> None:
    """A security kit: homes with a contact sensor have a lock more often than others."""
    contact, lock = homes_owning(paper, "ContactSensor"), homes_owning(paper, "Lock")
    assert np.mean(lock[contact]) > 1.5 * np.mean(lock[~contact])


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_catalogue_has_its_size_and_a_rule_for_every_two_types(preset: str) -> None:
    chosen = PRESETS[preset]
    cat = offered(preset)
    assert (len(cat.relations), len(cat.relation)) == (chosen.n_relations, chosen.n_typed)
    assert set(np.unique(cat.relation)) == set(range(chosen.n_relations))
    n = len(cat.types)
    acts = np.array([ROLES[t].acts > 0 for t in cat.types])
    rules = np.diff(cat.pair_start).reshape(n, n)
    cloud = np.array(cat.types) == "Cloud"
    assert np.array_equal(rules > 0, acts[None, :] & ~(cloud[:, None] & cloud[None, :]))
    typed = set(zip(cat.trigger_type.tolist(), cat.relation.tolist(), cat.action_type.tolist(), strict=True))
    assert len(typed) == chosen.n_typed


def test_a_catalogue_that_is_shared_cannot_be_written_to() -> None:
    cat = offered("paper")
    assert offered("paper") is cat
    columns = [getattr(cat, column.name) for column in fields(cat)]
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    assert len(arrays) == 9
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def offered(preset: str) -> Catalogue:
    chosen = PRESETS[preset]
    return catalogue(chosen.types, chosen.n_relations, chosen.n_typed, every_feature=chosen.seen_often > 0)


def test_the_vocabulary_hangs_together() -> None:
    for features in (STATES, ACTIONS):
        by_name = {feature.name: feature for feature in features}
        assert len(by_name) == len(features)
        for feature in features:
            assert set(feature.serves.split()) <= set(INTENTS)
            assert set(feature.types.split()) <= set(ROLES)
            if feature.opposite:
                assert by_name[feature.opposite].opposite == feature.name
                assert (feature.name in ENDS) != (feature.opposite in ENDS) or feature.name.startswith(NEITHER_ENDS)
    names = {feature.name for feature in STATES + ACTIONS}
    assert names >= ENDS
    assert {name for pair in ALREADY_SO for name in pair} <= names
    assert {t for profile in PROFILES for t in profile.owns} == set(ROLES) - {"Cloud"}
    assert sum(profile.share for profile in PROFILES) == pytest.approx(1)


NEITHER_ENDS = ("Temperature", "Humidity", "Set Mode")  # opposites of which neither ends what the other starts


def test_counts_meet_shares_total_and_largest_at_once() -> None:
    counts = Counts({2: 0.4, 3: 0.6, 5: 0.8}, 50).to_total(1_000, 4_500, 1_000)
    # 400 homes of 2, 200 of 3, 200 of 4 or 5, the rest above; together 4,500
    assert (counts.sum(), counts.max(), counts.min()) == (4_500, 50, 2)
    assert [(counts <= x).sum() for x in (2, 3, 5)] == [400, 600, 800]


@given(st.integers(1, 200), st.floats(1.3, 6), st.integers(1, 10**6))
def test_counts_always_sum_to_the_total(n: int, mean: float, longest: int) -> None:
    total = max(round(n * mean), n)
    counts = Counts({1: 0.4, 2: 0.6, 4: 0.8}, 30).to_total(n, total, longest)
    assert counts.sum() == total
    assert counts.min() >= 1
    assert np.all(np.diff(counts) >= 0)


def test_paired_counts_follow_rank_or_chance() -> None:
    rng = np.random.default_rng(0)
    first = np.arange(1_000)
    assert np.array_equal(paired(first, first, 1.0, rng), first)
    assert abs(np.corrcoef(first, paired(first, first, 0.0, rng))[0, 1]) < 0.1


def test_rules_change_homes_where_there_is_no_room() -> None:
    # home 0 could have 4 rules and is to have 9; home 2 could have 90 and is to have 2: they change places
    assert fit_to_capacity(np.array([9, 3, 2]), np.array([4, 60, 90])).tolist() == [2, 3, 9]
    assert fit_to_capacity(np.array([1, 3]), np.array([1, 30])).tolist() == [1, 3]
    # home 0 could have 1 rule, and changing 2 for 2 does not help: the other takes one more
    assert fit_to_capacity(np.array([2, 2]), np.array([1, 30])).tolist() == [1, 3]


def test_draws_follow_the_weights_of_their_own_run() -> None:
    weight = np.array([1.0, 0.0, 3.0, 5.0, 0.0])
    many = np.zeros(40_000, dtype=np.int64)
    drawn = pick(weight, many, many + 3, np.random.default_rng(0))
    # 1 : 0 : 3, so a quarter and three quarters
    assert np.bincount(drawn, minlength=5) / len(drawn) == pytest.approx([0.25, 0, 0.75, 0, 0], abs=0.01)
    ends = pick(weight, np.array([3, 4, 1]), np.array([4, 5, 2]), np.random.default_rng(0))
    assert ends.tolist() == [3, -1, -1]


def test_spread_out_lists_every_option_of_every_chooser() -> None:
    chooser, place, end = flatten_runs(np.array([5, 0, 2]), np.array([7, 1, 2]))
    assert (chooser.tolist(), place.tolist(), end.tolist()) == ([0, 0, 1], [5, 6, 0], [2, 3, 3])


def test_any_of_stays_in_its_run() -> None:
    start = np.repeat([3, 10], 500)
    drawn = any_of(start, start + 2, np.random.default_rng(0))
    assert set(drawn[:500]) == {3, 4}
    assert set(drawn[500:]) == {10, 11}
