"""Numbering values by the sorted list of what is distinct."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datasets.readers.join import encode

CLOSE = st.lists(st.integers(-20, 20), max_size=30)  # counted over their range
FAR = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)  # hashed


@given(values=st.one_of(CLOSE, FAR, st.lists(st.text(max_size=3), max_size=30)))
def test_positions_are_those_in_the_sorted_distinct_values(values):
    array = np.array(values, dtype=np.int64 if not values or isinstance(values[0], int) else object)
    distinct, position = encode(array)
    assert distinct.tolist() == sorted(set(values))
    assert [distinct[i] for i in position] == values
