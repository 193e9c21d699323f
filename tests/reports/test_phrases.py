"""How numbers, seeds and lists are said."""

from __future__ import annotations

import math

import pytest

from reports.text.formats import join_names, seed_count, short_number


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.00001234, "0.000012"),
        (0.0123, "0.012"),
        (5.0, "5"),
        (99.4, "99"),
        (99.6, "100"),
        (-100, "-100"),
        (123.4, "123"),
        (12_345.6, "12,346"),
        (1e30, "1.0e+30"),
        (math.inf, "infinity"),
        (-math.inf, "-infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_number_has_all_digits_before_the_point_and_few_behind_it(value, said):
    assert short_number(value) == said


def test_a_number_rounded_up_to_a_further_digit_has_no_exponent():
    assert [short_number(each, 3) for each in (99.96, 999.4, 999.96, 1000.4)] == ["100", "999", "1,000", "1,000"]


def test_seeds_are_one_number_or_a_range():
    assert [seed_count(each) for each in ([1, 1], [3], [5, 1, 2], [])] == ["1 seed", "3 seeds", "1 to 5 seeds", ""]


def test_names_are_listed_as_people_do():
    assert [join_names(each) for each in (["a"], ["a", "b"], ["a", "b", "c"], [])] == ["a", "a and b", "a, b and c", ""]
