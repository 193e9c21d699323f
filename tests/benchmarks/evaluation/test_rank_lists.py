"""Rank lists on disk: what is written comes back, and is evaluated like the model that made it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.evaluation import evaluate
from benchmarks.evaluation.rank_lists import RankLists, read_rank_lists
from datasets import DataError, load
from datasets.readers.wyze import read_wyze, write_wyze
from datasets.submission import Submission, write_submission
from tests.benchmarks.evaluation.test_evaluate import Fixed, cases, lamp_and_switch
from tests.support.rank_lists import best_rules, write_rank_lists
from tests.support.strategies import triples


@settings(max_examples=30, deadline=None)
@given(cases(), st.booleans(), st.sampled_from([1, 25, 10**6]))
def test_a_full_ranking_finds_what_its_model_finds_where_nothing_ties(case, valid, chunk):
    fitted, made, part = case

    class Untied:
        """The score in steps of 0.25, and below them the place of the rule in its home."""

        def score_pairs(self, homes, trigger, action):
            first = homes.device_start[homes.device_home[trigger]]
            place = ((trigger - first) * 4 + action - first)[:, None] * 4 + np.arange(len(homes.relations))
            return fitted.score_pairs(homes, trigger, action) - np.float32(0.0005) * place.astype(np.float32)

    homes, ranked = best_rules(Untied(), made, part=part, n=1000, valid=valid, chunk=chunk)
    names = ["above", "tied"] if valid else ["above, all", "tied, all"]
    again = evaluate(RankLists(homes, ranked), made, part=part).rules[names]
    pd.testing.assert_frame_equal(again, evaluate(Untied(), made, part=part).rules[names])


@pytest.mark.parametrize("name", ["lists.csv", "lists.csv.gz", "lists.parquet"])
def test_what_is_written_comes_back(tmp_path, name):
    # The list of both homes: lamp -> switch 0 (2.0), then level at 1.0 switch -> lamp 1 and lamp -> switch 1.
    made = lamp_and_switch()
    homes, ranked = best_rules(Fixed(), made, n=3, valid=False)
    assert ranked.rank.tolist() == [1, 2, 3, 1, 2, 3]
    assert triples(ranked.rules)[:3] == [(0, 1, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1)]
    write_rank_lists(homes, ranked, tmp_path / name)
    again = read_rank_lists(made.test.homes, tmp_path / name)
    assert triples(again.ranked.rules) == triples(ranked.rules)
    found = evaluate(again, made)
    # Home 7's hidden rule is second in the file; home 8's is not in it.
    assert found.rules[["above, all", "tied, all"]].to_numpy().tolist() == [[1, 1], [0, 0]]
    assert found.summary["unanswered"] == 1


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("user", 99, "row 2: the user is not in the data"),
        ("action_device", "2b", "row 2: action_device is not a whole number"),
        ("trigger_device", 5, "row 2: its user has no such device"),
        ("action", "Explode", "row 2: no rule has this trigger state with this action"),
        ("rank", 0, "row 2: the rank must be an integer, 1 or more"),
        ("rank", 1.5, "row 2: the rank must be an integer, 1 or more"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, column, value, message):
    made, path = lamp_and_switch(), tmp_path / "lists.csv"
    write_rank_lists(*best_rules(Fixed(), made), path)
    table = pd.read_csv(path, dtype=object)
    table.loc[1, column] = value
    table.to_csv(path, index=False)
    with pytest.raises(DataError) as caught:
        read_rank_lists(made.test.homes, path)
    assert message in str(caught.value)


def test_a_rule_ranked_twice_a_missing_column_and_another_format_are_errors(tmp_path):
    made, path = lamp_and_switch(), tmp_path / "lists.csv"
    homes, ranked = best_rules(Fixed(), made)
    write_rank_lists(homes, ranked, path)
    table = pd.read_csv(path)
    pd.concat([table, table.head(1)]).to_csv(path, index=False)
    with pytest.raises(DataError, match="has this rule twice"):
        read_rank_lists(made.test.homes, path)
    table.drop(columns="rank").to_csv(path, index=False)
    with pytest.raises(DataError, match="no column rank; rank lists have user, trigger_device"):
        read_rank_lists(made.test.homes, path)
    with pytest.raises(DataError, match=r"\.csv, \.csv\.gz or \.parquet"):
        read_rank_lists(made.test.homes, path.rename(tmp_path / "lists.txt"))


def test_a_submission_to_the_wyze_challenge_is_read_as_rank_lists(tmp_path):
    write_wyze(load("wyze-synthetic", homes=30), tmp_path)
    homes = read_wyze(tmp_path)
    first = np.unique(homes.rules.home, return_index=True)[1]
    ranked = Submission(homes.rules.take(first), np.full(len(first), 7))
    write_submission(homes, ranked, tmp_path / "submission.csv")
    found = read_rank_lists(homes, tmp_path / "submission.csv").ranked
    assert triples(found.rules) == triples(ranked.rules)
    assert set(found.rank) == {7}
