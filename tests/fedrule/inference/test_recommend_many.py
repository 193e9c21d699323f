"""The lists of many homes are those of one home after the other, and their table reads back as it was written."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets
from datasets import DataError, Homes, Relation, Rules
from fedrule.inference import HomeRequest, Recommender
from fedrule.inference import recommender as recommender_module
from fedrule.inference.arrow_lists import ArrowLists
from fedrule.inference.output import write_all
from fedrule.inference.search import ScorerSearch
from tests.support.random_models import cases, random_model
from tests.support.two_homes import two_homes

WAYS = st.sampled_from(["refuse", "ignore"])


def home_by_home(recommender, homes, k, unknown):
    """All columns of the lists of homes that have a device."""
    lines = []
    for home in homes:
        rules = recommender.recommend(home, k, unknown=unknown).rules if home.devices else ()
        lines += [
            (
                home.user,
                r.rank,
                r.trigger,
                r.trigger_state,
                r.action,
                r.action_device,
                r.probability,
                r.text,
                *r.why[:2],
            )
            for r in rules
        ]
    return lines


def lines_of(ranked):
    return [tuple(row) for row in ranked.frame().astype(object).itertuples(index=False)]


def assert_lines(found, expected):
    assert [row[:6] + row[7:] for row in found] == [row[:6] + row[7:] for row in expected]
    assert [row[6] for row in found] == pytest.approx([row[6] for row in expected], rel=1e-6)


def narrowed(saved, types, relations, *, seed=0):
    """A model of the same kind that knows only the first types and relations."""
    card = saved.card
    return random_model(card.types[:types], card.relations[:relations], seed=seed)


@pytest.fixture
def recommender(two):
    return Recommender(random_model(two.types, two.relations, valid=1.0, self_rules=1.0))


@given(cases(min_homes=0, max_homes=5, max_devices=4), st.integers(1, 12), st.integers(1, 40))
def test_many_homes_are_answered_as_one_after_the_other(case, k, at_once):
    recommender = Recommender(case.saved)
    expected = home_by_home(recommender, case.homes, k, "refuse")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recommender_module, "PAIRS_AT_ONCE", at_once)  # one home in a run, several, or all
        ranked = recommender.recommend_many(case.homes, k)
    assert_lines(lines_of(ranked), expected)
    assert (ranked.ignored_devices, ranked.ignored_rules) == (0, 0)


@given(cases(min_homes=0, max_homes=6, max_devices=4), st.integers(1, 40), st.integers(1, 3))
def test_lists_made_in_batches_and_sent_are_those_of_all_homes_bit_for_bit(case, at_once, searches):
    recommender = Recommender(case.saved)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recommender_module, "PAIRS_AT_ONCE", at_once)
        whole = recommender.recommend_many(case.homes, 5)
        batches = [*recommender.batches(case.homes, searches), case.homes.subset(np.zeros(0, dtype=np.int64))]
        lists = [ArrowLists.of(recommender.recommend_many(batch, 5)) for batch in batches]
    sent = ArrowLists.concatenate([ArrowLists.read(each.streams[0]) for each in lists])
    assert [user for batch in batches for user in batch.users] == list(case.homes.users)
    pd.testing.assert_frame_equal(sent.frame(), whole.frame(), check_exact=True)
    assert len(sent) == len(whole)
    for name in ("n_homes", "n_lists", "ignored_devices", "ignored_rules"):
        assert getattr(sent, name) == getattr(whole, name)


@given(cases(min_homes=0, max_homes=5, max_devices=4), st.integers(1, 12), st.integers(1, 5), st.integers(1, 8))
def test_so_they_are_where_the_model_does_not_know_all_their_words(case, k, types, relations):
    recommender = Recommender(narrowed(case.saved, types, relations))
    expected = home_by_home(recommender, case.homes, k, "ignore")
    ranked = recommender.recommend_many(case.homes, k, unknown="ignore")
    assert_lines(lines_of(ranked), expected)
    ignored = [
        sentence
        for home in case.homes
        if home.devices
        for sentence in recommender.recommend(home, unknown="ignore").ignored
    ]
    assert ranked.ignored_devices == sum(sentence.startswith("device ") for sentence in ignored)
    assert ranked.ignored_rules == sum(sentence.startswith("rule ") for sentence in ignored)


def test_words_may_stand_in_another_order_than_the_models(two, recommender):
    turned = two.with_vocabulary(two.types[::-1], two.relations[::-1])
    assert_lines(lines_of(recommender.recommend_many(turned)), lines_of(recommender.recommend_many(two)))


def test_unknown_words_are_refused_unless_they_are_ignored(two):
    recommender = Recommender(random_model(("Lamp",), two.relations, self_rules=1.0, valid=1.0))
    with pytest.raises(DataError, match="the model does not know the type Sensor; ignore what is unknown"):
        recommender.recommend_many(two)
    with pytest.raises(DataError, match="did you mean 'ignore'"):
        recommender.recommend_many(two, unknown="ignored")
    ranked = recommender.recommend_many(two, unknown="ignore")
    # Ann's sensor goes, and with it the two rules that it triggers.
    assert (ranked.ignored_devices, ranked.ignored_rules) == (1, 2)
    assert set(two.device_ids[ranked.trigger].tolist()) == {7, 8}


def test_homes_whose_devices_are_all_unknown_have_no_lines(two):
    ranked = Recommender(random_model(("Kettle",), two.relations)).recommend_many(two, unknown="ignore")
    assert len(ranked) == 0
    assert ranked.ignored_devices == two.n_devices
    assert lines_of(ranked) == []


def test_no_homes_have_no_lines(two, recommender):
    none = two.subset(np.zeros(0, dtype=np.int64))
    ranked = recommender.recommend_many(none)
    assert len(ranked) == 0
    assert list(ranked.frame().columns) == list(recommender.recommend_many(two).frame().columns)


@pytest.mark.parametrize("k", [0, -1, True, 1.0, "10", None])
def test_a_length_that_is_none_is_refused(two, recommender, k):
    with pytest.raises(DataError, match="k must be an integer of at least 1"):
        recommender.recommend_many(two, k)
    with pytest.raises(DataError, match="k must be an integer of at least 1"):
        recommender.recommend(HomeRequest.from_home(two.home(0)), k)


@pytest.fixture(scope="module")
def some_homes():
    return datasets.load("wyze-synthetic", homes=200)


def test_several_threads_give_the_same_lists(some_homes, monkeypatch):
    monkeypatch.setattr(recommender_module, "PAIRS_AT_ONCE", 500)
    recommender = Recommender(random_model(some_homes.types, some_homes.relations, valid=0.05))
    done = []
    ranked = recommender.recommend_many(some_homes, 10, jobs=2, on_homes=done.append)
    assert sum(done) == 200
    assert len(done) > 1
    assert lines_of(ranked) == lines_of(recommender.recommend_many(some_homes, 10))
    assert_lines(lines_of(ranked), home_by_home(recommender, some_homes, 10, "refuse"))


def test_a_scorer_gives_the_same_lists_too(some_homes, monkeypatch):
    pytest.importorskip("torch", reason="scorers are torch's")
    from fedrule.models.restore import restored

    saved = random_model(some_homes.types, some_homes.relations, valid=0.05)
    network, scorer, card = Recommender(saved), Recommender(saved), saved.card
    scorer._search = ScorerSearch(restored(saved), saved.valid, saved.self_rules, card.types, card.relations)
    monkeypatch.setattr(recommender_module, "PAIRS_AT_ONCE", 500)
    assert_lines(lines_of(scorer.recommend_many(some_homes)), lines_of(network.recommend_many(some_homes)))


def odd_homes():
    """Two homes with ids that tables may spoil."""
    text = np.dtypes.StringDType()
    users = np.array(["007", 'a, "b"\nc'], dtype=text)
    return replace(two_homes(), users=users, device_ids=np.array(["1", "NA", "灯/😀", "a\r\nb"], dtype=text))


READ = {
    ".csv": lambda path, kinds: pd.read_csv(path, dtype=kinds, keep_default_na=False),
    ".jsonl": lambda path, _: pd.DataFrame([json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]),
    ".parquet": lambda path, _: pd.read_parquet(path),
}


@pytest.mark.parametrize("suffix", READ)
@pytest.mark.parametrize("homes", [two_homes(), odd_homes()], ids=["numbers", "text"])
def test_a_table_reads_back_as_it_was_written(tmp_path, homes, suffix):
    ranked = Recommender(random_model(homes.types, homes.relations, valid=1.0, self_rules=1.0)).recommend_many(homes)
    path = tmp_path / "new" / f"lists{suffix}"
    ranked.write(path)
    frame = ranked.frame()
    assert len(frame) == len(ranked) > 5
    pd.testing.assert_frame_equal(READ[suffix](path, frame.dtypes.to_dict()), frame, rtol=1e-9)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", READ)
def test_small_probabilities_keep_their_digits(tmp_path, two, recommender, suffix):
    ranked = recommender.recommend_many(two)
    small = replace(ranked, probability=ranked.probability * 1e-10)
    small.write(tmp_path / f"lists{suffix}")
    found = READ[suffix](tmp_path / f"lists{suffix}", None)["probability"]
    np.testing.assert_allclose(found, small.probability, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("suffix", READ)
def test_parts_come_after_each_other_in_one_table_even_if_the_first_is_empty(tmp_path, suffix):
    homes = odd_homes()
    recommender = Recommender(random_model(homes.types, homes.relations, valid=1.0, self_rules=1.0))
    nobody = homes.subset(np.zeros(0, dtype=np.int64))
    parts = [nobody, homes.subset([0]), nobody, homes.subset([1])]
    path = tmp_path / f"lists{suffix}"
    ranked = recommender.recommend_many(homes)
    assert write_all(map(recommender.recommend_many, parts), path) == (2, len(ranked))
    frame = ranked.frame()
    pd.testing.assert_frame_equal(READ[suffix](path, frame.dtypes.to_dict()), frame, rtol=1e-9)


@pytest.mark.parametrize("suffix", READ)
def test_a_table_without_lines_is_a_file_too(tmp_path, two, recommender, suffix):
    path = tmp_path / f"lists{suffix}"
    recommender.recommend_many(two.subset([])).write(path)
    assert path.exists()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["lists", "lists.txt", "lists.CSV", "lists.parquet.gz"])
def test_another_ending_is_refused_before_any_work(tmp_path, name):
    def parts():
        raise AssertionError("it has begun to work")
        yield

    with pytest.raises(DataError, match=f"{name}: name a file that ends with .parquet, .csv"):
        write_all(parts(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_part_leaves_no_file_and_the_old_one_as_it_was(tmp_path, two, recommender):
    path = tmp_path / "lists.csv"
    path.write_text("old")

    def parts():
        yield recommender.recommend_many(two)
        raise DataError("a broken part")

    with pytest.raises(DataError, match="a broken part"):
        write_all(parts(), path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["lists.csv"]


def test_a_home_without_a_relation_to_recommend_is_passed_over():
    # The sensor alone could do nothing; the two lamps could switch each other.
    homes = Homes(
        name="three",
        types=("Lamp", "Sensor"),
        relations=(Relation("On", "On"),),
        users=np.array([1, 2, 3]),
        device_home=np.array([0, 2, 2]),  # the second owns nothing
        device_type=np.array([1, 0, 0]),
        device_ids=np.array([5, 6, 7]),
        rules=Rules(*(np.zeros(0, dtype=np.int64) for _ in range(4))),
    )
    ranked = Recommender(random_model(homes.types, homes.relations, valid=1.0)).recommend_many(homes)
    assert [row[:6] for row in lines_of(ranked)] == [(3, 1, 6, "On", "On", 7), (3, 2, 7, "On", "On", 6)]


@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)], ids=["numbers first", "text first"])
def test_ids_that_are_numbers_in_some_parts_and_text_in_others_are_text_in_parquet(two, tmp_path, order):
    saved = random_model(two.types, two.relations, valid=1.0)
    named = replace(two, device_ids=np.array([f"id {device}" for device in two.device_ids.tolist()]))
    parts = [Recommender(saved).recommend_many((two, named)[which], 2) for which in order]
    path = tmp_path / "lists.parquet"
    assert write_all(parts, path) == (3 * two.n_homes, sum(map(len, parts)))
    found = pd.read_parquet(path)
    for column in ("user", "trigger", "action_device", "text"):
        expected = [value for part in parts for value in part.frame()[column].tolist()]
        mixed = column in ("trigger", "action_device")
        assert found[column].tolist() == ([str(value) for value in expected] if mixed else expected)
    assert [file.name for file in tmp_path.iterdir()] == ["lists.parquet"]
