"""Distinct rows of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrule.arrays import distinct_rows

SHAPES = st.tuples(st.integers(0, 20), st.integers(1, 3))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@given(data=st.data())
def test_distinct_rows_are_the_first_of_their_kind_in_order(kind, data):
    few = st.sampled_from([0, 1, -1, 3])  # so that rows repeat
    rows = data.draw(arrays(kind, SHAPES, elements=few))
    kinds = list(dict.fromkeys(tuple(row) for row in rows.tolist()))
    first, place = distinct_rows(rows)
    assert rows[first].tolist() == [list(each) for each in kinds]
    assert place.tolist() == [kinds.index(tuple(row)) for row in rows.tolist()]


def test_rows_that_share_a_hash_stay_apart(monkeypatch):
    """Weights of 0 give all rows one hash: they are drawn anew."""
    weights = iter([np.array([0, 0], dtype=np.uint64), np.array([1, 3], dtype=np.uint64)])

    class Drawn:
        def integers(self, *_args, **_named):
            return next(weights)

    monkeypatch.setattr(np.random, "default_rng", lambda _seed: Drawn())
    first, place = distinct_rows(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]], dtype=np.float32))
    assert first.tolist() == [0, 1]
    assert place.tolist() == [0, 1, 0]


def test_not_a_number_equals_itself():
    """Its bits do: [nan], [0], [nan] are two kinds of rows."""
    first, place = distinct_rows(np.array([[np.nan], [0.0], [np.nan]], dtype=np.float32))
    assert first.tolist() == [0, 1]
    assert place.tolist() == [0, 1, 0]
