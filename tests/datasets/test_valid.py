"""The valid-rule tensor, sparse and dense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from datasets import DataError, Homes, Rules
from datasets.valid import DENSE_CELLS, ValidRules
from tests.support.strategies import homes


def empty(n_types: int, n_relations: int) -> Homes:
    """Vocabularies without homes."""
    none = np.zeros(0, dtype=np.int64)
    return Homes(
        name="empty",
        types=tuple(f"type {i}" for i in range(n_types)),
        relations=tuple((f"state {i}", "On") for i in range(n_relations)),
        users=none,
        device_home=none,
        device_type=none,
        device_ids=none,
        rules=Rules(none, none, none, none),
    )


@given(homes())
def test_the_tensor_is_true_just_where_some_home_has_the_rule(some: Homes) -> None:
    expected = np.zeros((len(some.types), len(some.types), len(some.relations)), dtype=np.bool_)
    for trigger_type, relation, action_type in zip(*some.typed(), strict=True):
        expected[trigger_type, action_type, relation] = True
    valid = ValidRules.of(some)
    assert valid.shape == expected.shape
    assert len(valid) == expected.sum()
    assert np.array_equal(valid.dense(), expected)
    assert np.array_equal(valid.typed(), expected.nonzero())

    trigger_type, action_type, relation = np.indices(expected.shape)
    assert np.array_equal(valid.contains(trigger_type, action_type, relation), expected)
    for pair in np.ndindex(expected.shape[:2]):
        assert valid.relations_of(*pair).tolist() == np.flatnonzero(expected[pair]).tolist()
        assert valid.contains(*pair, np.arange(len(some.relations))).tolist() == expected[pair].tolist()


@given(homes())
def test_the_valid_rules_of_many_pairs_come_pair_after_pair(some: Homes) -> None:
    valid = ValidRules.of(some)
    # Every ordered pair of types twice, the second time in reverse: a pair may come again and in any order.
    trigger_type, action_type = np.indices((len(some.types), len(some.types))).reshape(2, -1)
    trigger_type, action_type = (np.concatenate([end, end[::-1]]) for end in (trigger_type, action_type))
    expected = [
        (place, relation)
        for place, types in enumerate(zip(trigger_type, action_type, strict=True))
        for relation in valid.relations_of(*types).tolist()
    ]
    pair, triple = valid.of_pairs(trigger_type, action_type)
    assert list(zip(pair.tolist(), valid.relation[triple].tolist(), strict=True)) == expected
    assert valid.number(trigger_type[pair], action_type[pair], valid.relation[triple]).tolist() == triple.tolist()
    assert valid.how_many(trigger_type, action_type).tolist() == np.bincount(pair, minlength=len(trigger_type)).tolist()


@given(homes(twins=True))
def test_merging_types_changes_nothing_about_what_is_valid(some: Homes) -> None:
    assert ValidRules.of(some.merged_types()).cell.tolist() == ValidRules.of(some).cell.tolist()


def test_one_triple_is_asked_for_by_plain_numbers() -> None:
    some = Homes(
        "one",
        ("Lamp", "Sensor"),
        (("Open", "On"), ("Shut", "Off")),
        [1],
        [0, 0],
        [0, 1],
        [1, 2],
        Rules([0], [1], [0], [1]),
    )
    valid = ValidRules.of(some)
    assert valid.contains(1, 0, 1)
    assert not valid.contains(0, 1, 1)
    assert not valid.contains(1, 0, 0)


@pytest.mark.parametrize("triple", [(2, 0, 0), (0, -1, 0), (0, 0, 3)])
def test_a_type_or_relation_out_of_bounds_is_refused_rather_than_taken_for_another(triple: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"valid rules: no (entity type|relation) -?\d"):
        ValidRules.of(empty(2, 3)).contains(*triple)
    with pytest.raises(DataError, match="valid rules: no entity type 2"):
        ValidRules.of(empty(2, 3)).of_pairs(np.array([2]), np.array([0]))


def test_a_large_tensor_stays_sparse_and_refuses_to_be_dense() -> None:
    # The size of IFTTT: 178 * 178 * 3,020 = 95,685,680 cells, more than DENSE_CELLS.
    valid = ValidRules.of(empty(178, 3020))
    assert DENSE_CELLS < 95_685_680
    assert not valid.contains(177, 177, 3019)
    assert valid.start.nbytes + valid.cell.nbytes < 1_000_000
    with pytest.raises(DataError, match="178 x 178 x 3020 has more than 50,000,000 cells; use `contains`"):
        valid.dense()


def test_empty_vocabularies_have_an_empty_tensor() -> None:
    valid = ValidRules.of(empty(0, 0))
    assert (len(valid), valid.shape, valid.dense().shape) == (0, (0, 0, 0), (0, 0, 0))


def test_its_arrays_cannot_be_written_to() -> None:
    valid = ValidRules.of(empty(2, 3))
    with pytest.raises(ValueError, match="read-only"):
        valid.start[0] = 1


def test_more_types_than_memory_has_room_for_pairs_of_them_are_refused() -> None:
    # 20,000 types are 400 million pairs: 3.2 GB before the first rule is looked up.
    assert len(ValidRules.of(empty(100, 1)).start) == 100**2 + 1
    with pytest.raises(DataError, match=r"empty: valid rules of 20,000 entity types, more than 5,000, would not fit"):
        ValidRules.of(empty(20_000, 1))
