"""Submissions to the Wyze challenge: written, read back, and every bad line named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets.common.errors import DataError
from datasets.homes import Provenance, Rules
from datasets.readers.wyze import read_wyze
from datasets.submission import LONGEST_LIST, Submission, read_submission, write_submission
from tests.support.tables import write_pair


@pytest.fixture
def homes(tmp_path):
    rules = ["7,A,1,s,3,x,4,B,2,1_3_4_2", "7,A,1,s,3,y,6,B,2,1_3_6_2", "9,A,1,s,3,x,4,A,1,1_3_4_1"]
    write_pair(tmp_path, devices=["7,1,A", "7,2,B", "9,1,A"], rules=rules)
    return read_wyze(tmp_path)


def test_a_submission_is_written_as_user_rule_and_rank_and_read_back(homes, tmp_path):
    # Given in another order than it is written in: by user, then by rank.
    ranked = Submission(homes.rules.take(np.array([2, 0, 1])), np.array([1, 2, 1]))
    write_submission(homes, ranked, tmp_path / "submission.csv")
    expected = "user_id,rule,rank\n7,1_3_6_2,1\n7,1_3_4_2,2\n9,1_3_4_1,1\n"
    assert (tmp_path / "submission.csv").read_text() == expected
    back = read_submission(homes, tmp_path / "submission.csv")
    assert back.rank.tolist() == [1, 2, 1]
    assert back.rules.relation.tolist() == homes.rules.relation[[1, 0, 2]].tolist()
    assert back.rules.trigger.tolist() == homes.rules.trigger[[1, 0, 2]].tolist()
    assert back.skipped == ()


def test_a_submission_holds_no_more_than_fifty_ranks(homes, tmp_path):
    one = Rules([0], [0], [1], [0])
    with pytest.raises(DataError, match="from 1 to 50"):
        write_submission(homes, Submission(one, np.array([LONGEST_LIST + 1])), tmp_path / "submission.csv")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("8,1_3_4_2,1", r"line 2: the user is not in the data \(user_id '8'\)"),
        ("7,1_3_4,1", "line 2: rule is not four whole numbers"),
        ("7,1_3_4_9,1", "line 2: the rule names a device that its user does not have"),
        ("9,1_3_4_2,1", "line 2: the rule names a device that its user does not have"),
        ("7,1_5_4_2,1", "line 2: the rule's state and action never occur together"),
        ("7,1_3_4_2,51", "line 2: rank is not in 1..50"),
        ("7,1_3_4_2,x", "line 2: rank is not a whole number"),
        ("7,1_3_4_2,1\n7,1_3_6_2,1", "line 3: the user has this rank twice"),
        ("7,1_3_4_2,1\n7,1_3_4_2,2", "line 3: the user has this rule twice"),
        ("7,1_3_4_02,1", "line 2: rule is not four whole numbers"),
        ("7,1_3_4_9223372036854775808,1", "line 2: rule is not four whole numbers"),
        ("7,1_3_4_2_1,1", "line 2: rule is not four whole numbers"),
    ],
)
def test_a_bad_line_is_named(homes, tmp_path, line, complaint):
    path = tmp_path / "submission.csv"
    path.write_text(f"user_id,rule,rank\n{line}\n")
    with pytest.raises(DataError, match=complaint):
        read_submission(homes, path)


def test_what_is_skipped_in_reading_is_given_back_with_the_rest(homes, tmp_path):
    (tmp_path / "submission.csv").write_text("user_id,rule,rank\n8,1_3_4_2,1\n7,1_3_4_2,1\n")
    read = read_submission(homes, tmp_path / "submission.csv", on_error="skip")
    assert read.rank.tolist() == [1]
    assert read.skipped == ("submission.csv: 1 line skipped because the user is not in the data: 2",)


@pytest.mark.parametrize(
    ("rules", "rank", "complaint"),
    [
        (Rules([0, 0], [0, 0], [1, 1], [0, 1]), [1, 1], "user 7 has a rank twice"),
        (Rules([0, 0], [0, 0], [1, 1], [0, 0]), [1, 2], "user 7 has a rule under two ranks"),
    ],
)
def test_a_rank_or_a_rule_that_a_home_has_twice_is_not_written(homes, tmp_path, rules, rank, complaint):
    with pytest.raises(DataError, match=complaint):
        write_submission(homes, Submission(rules, np.array(rank)), tmp_path / "submission.csv")
    assert not (tmp_path / "submission.csv").exists()


def test_more_than_fifty_rules_of_a_home_cannot_have_a_rank_each(homes, tmp_path):
    many = replace(
        homes.with_rules(np.zeros(3, dtype=bool)),
        relations=tuple((f"s{i}", "x") for i in range(LONGEST_LIST + 1)),
        provenance=Provenance(),
    )
    none = np.zeros(LONGEST_LIST + 1, dtype=np.int64)
    rules = Rules(none, none, none, np.arange(LONGEST_LIST + 1))
    rank = np.arange(LONGEST_LIST + 1) + 1
    with pytest.raises(DataError, match="a submission ranks from 1 to 50; found 1 to 51"):
        write_submission(many, Submission(rules, rank), tmp_path / "x.csv")
    with pytest.raises(DataError, match="user 7 has a rank twice; give each rule and each rank once"):
        write_submission(many, Submission(rules, np.minimum(rank, LONGEST_LIST)), tmp_path / "x.csv")


@pytest.mark.parametrize("id_", [-5, 2**63 - 1, -(2**63), 10**18])
def test_every_id_that_the_tables_may_have_comes_back(tmp_path, id_):
    write_pair(tmp_path, devices=[f"{id_},{id_},A"], rules=[f"{id_},A,{id_},s,0,x,0,A,{id_},{id_}_0_0_{id_}"])
    homes = read_wyze(tmp_path)
    write_submission(homes, Submission(homes.rules, np.array([1])), tmp_path / "submission.csv")
    assert read_submission(homes, tmp_path / "submission.csv").rules.trigger.tolist() == [0]


def test_numbers_that_stand_for_two_relations_are_refused_where_they_are_used(tmp_path):
    # The source gives both "s" and "t" the number 3, so 3_4 may mean either; 3_6 is only "s" with "y".
    rules = ["7,A,1,s,3,x,4,A,1,1_3_4_1", "7,A,1,t,3,x,4,A,1,1_3_4_1", "7,A,1,s,3,y,6,A,1,1_3_6_1"]
    write_pair(tmp_path, devices=["7,1,A"], rules=rules)
    homes = read_wyze(tmp_path)
    path = tmp_path / "submission.csv"
    clear = homes.relations.index(("s", "y"))
    write_submission(homes, Submission(Rules([0], [0], [0], [clear]), np.array([1])), path)
    assert read_submission(homes, path).rules.relation.tolist() == [clear]
    with pytest.raises(DataError, match="the numbers of s -> x are used for another relation as well"):
        write_submission(homes, Submission(homes.rules.take(np.array([0])), np.array([1])), path)
    path.write_text("user_id,rule,rank\n7,1_3_4_1,1\n")
    with pytest.raises(DataError, match="line 2: the rule's state and action are numbers of two relations"):
        read_submission(homes, path)


def test_homes_whose_ids_are_text_have_no_submission(two, tmp_path):
    with pytest.raises(DataError, match="the Wyze layout needs whole numbers as ids"):
        write_submission(two, Submission(two.rules.take([0]), np.array([1])), tmp_path / "submission.csv")
