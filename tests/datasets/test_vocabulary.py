"""One vocabulary for homes that were read apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets
from datasets import DataError, Homes, Provenance, Rules
from datasets.readers.wyze import write_wyze
from datasets.submission import Submission, read_submission, write_submission
from datasets.vocabulary import align
from tests.support.strategies import homes
from tests.support.tables import write_pair


@given(homes(), st.data())
def test_homes_say_the_same_in_any_order_of_their_vocabularies(some: Homes, data: st.DataObject) -> None:
    types = data.draw(st.permutations([*some.types, "new type"]))
    relations = data.draw(st.permutations([*some.relations, ("new", "relation")]))
    numbered = some.with_vocabulary(types, relations)
    assert (numbered.types, numbered.relations) == (tuple(types), tuple(relations))
    assert list(numbered) == list(some)


def test_a_vocabulary_that_lacks_what_is_used_is_refused(two: Homes) -> None:
    with pytest.raises(DataError, match="two: entity type Sensor is used but not in the new vocabulary"):
        two.with_vocabulary(["Lamp"], two.relations)
    with pytest.raises(DataError, match="two: relation On -> Off is used but not"):
        two.with_vocabulary(two.types, [("Open", "On")])
    assert two.with_vocabulary(two.types, [("On", "Off"), ("Open", "On")]).home(0) == two.home(0)  # Open -> Off is not


@given(homes(), homes())
def test_aligning_loses_nothing_and_both_ways_gives_one_vocabulary(left: Homes, right: Homes) -> None:
    aligned = align(left, like=right)
    assert list(aligned) == list(left)
    assert aligned.types[: len(right.types)] == right.types
    assert aligned.relations[: len(right.relations)] == right.relations
    other = align(right, like=aligned)
    assert (other.types, other.relations) == (aligned.types, aligned.relations)
    assert other.provenance.codes == aligned.provenance.codes


def test_the_source_numbers_of_the_other_part_are_taken_over(two: Homes) -> None:
    mine = replace(two, provenance=Provenance(codes={"action": {"On": 1, "Off": 2}}))
    other = replace(two, provenance=Provenance(codes={"action": {"On": 5, "Dim": 6}}))
    assert align(mine, like=other).provenance.codes == {"action": {"On": 5, "Off": 2, "Dim": 6}}


def test_a_submission_for_one_part_may_use_a_relation_that_occurs_only_in_the_other(tmp_path: Path) -> None:
    write_pair(
        tmp_path / "train",
        devices=["1,1,Sensor", "1,2,Light"],
        rules=["1,Sensor,1,Open,3,Power On,4,Light,2,1_3_4_2", "1,Sensor,1,Shut,7,Power Off,8,Light,2,1_7_8_2"],
    )
    write_pair(
        tmp_path / "test",
        devices=["5,10,Light", "5,11,Sensor"],
        rules=["5,Sensor,11,Open,3,Power On,4,Light,10,11_3_4_10"],
    )
    train, test = (datasets.load("wyze", path=tmp_path / part) for part in ("train", "test"))
    test = align(test, like=train)
    learned = train.relations.index(("Shut", "Power Off"))  # a model of `train` answers with its own numbers
    ranked = Submission(Rules([0], [1], [0], [learned]), np.array([1]))
    write_submission(test, ranked, tmp_path / "submission.csv")
    assert (tmp_path / "submission.csv").read_text() == "user_id,rule,rank\n5,11_7_8_10,1\n"
    assert read_submission(test, tmp_path / "submission.csv").rules.relation.tolist() == [learned]


def test_a_state_without_a_number_in_the_source_is_named_with_the_remedy(two: Homes, tmp_path: Path) -> None:
    numbered = replace(two, users=[1, 2], provenance=Provenance(codes={"trigger_state": {"Open": 0}, "action": {}}))
    with pytest.raises(DataError, match=r"no number for the trigger_state 'On'; take them over with .*align"):
        write_wyze(numbered, tmp_path)
