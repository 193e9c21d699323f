"""Shares of a secret, against Lagrange interpolation in exact fractions."""

from __future__ import annotations

import secrets
from fractions import Fraction
from itertools import combinations
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="fedrule.federated needs the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from fedrule.federated.secure.shamir import PRIME, SHARE_BYTES, consistent, deal, interpolate

values = st.integers(0, 2**256 - 1)


def lagrange(shares: dict[int, int], at: int = 0) -> int:
    """The same with weights that are fractions, of which only the sum is taken modulo the prime."""
    total = Fraction(0)
    for x, share in shares.items():
        total += share * prod(Fraction(at - other, x - other) for other in shares if other != x)
    return total.numerator * pow(total.denominator, -1, PRIME) % PRIME


def is_prime(n: int) -> bool:
    """Miller and Rabin with 40 bases: a composite number passes with a probability below 4^-40."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(any(pow(base, odd * 2**i, n) == n - 1 for i in range(twos)) or pow(base, odd, n) == 1 for base in BASES)


BASES = [p for p in range(2, 174) if all(p % q for q in range(2, p))]


def test_the_field_is_one_and_holds_every_secret_of_32_bytes():
    assert len(BASES) == 40
    assert is_prime(PRIME)
    assert not is_prime(PRIME - 2)
    assert 2**256 <= PRIME < 2 ** (8 * SHARE_BYTES)
    assert not any(is_prime(n) for n in range(2**256 + 1, PRIME, 2))  # the smallest one, as it says


@given(values, st.integers(2, 7), st.integers(0, 3), st.integers(1, 2**64))
def test_any_subset_of_the_size_of_the_threshold_gives_the_secret(value, threshold, more, first):
    points = range(first, first + threshold + more)
    shares = dict(zip(points, deal(value, points, threshold=threshold), strict=True))
    for chosen in combinations(points, threshold):
        some = {x: shares[x] for x in chosen}
        assert interpolate(some) == lagrange(some) == value
        assert all(interpolate(some, at=x) == lagrange(some, x) == shares[x] for x in points)


@given(values, st.integers(3, 6))
def test_one_share_less_gives_something_else(value, threshold):
    points = range(1, threshold + 1)
    shares = dict(zip(points, deal(value, points, threshold=threshold), strict=True))
    del shares[threshold]
    assert interpolate(shares) != value  # by accident with a probability of 2^-256


def test_a_secret_is_dealt_differently_each_time():
    assert deal(5, [1, 2], threshold=2) != deal(5, [1, 2], threshold=2)


@given(values, st.data())
def test_wrong_shares_are_found_if_enough_right_ones_are_left(value, data):
    threshold, more = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 3))
    points = range(1, threshold + more + 1)
    shares = dict(zip(points, deal(value, points, threshold=threshold), strict=True))
    errors = {x: secrets.randbelow(PRIME - 1) + 1 for x in points}  # small ones may cancel each other out
    wrong = data.draw(st.sets(st.sampled_from(points), min_size=1, max_size=more))
    for x in wrong:
        shares[x] = (shares[x] + errors[x]) % PRIME
    found, named = consistent(shares, threshold, accept=lambda candidate: candidate == value)
    assert found == value
    if wrong & set(points[:threshold]):  # otherwise the first shares give the secret, and the rest is not looked at
        assert set(named) == wrong
    else:
        assert named == ()


def test_too_many_wrong_shares_give_nothing():
    shares = dict(zip(range(1, 6), deal(7, range(1, 6), threshold=3), strict=True))
    for x in (1, 2, 3):  # 2 right ones are left, 3 would be needed
        shares[x] = secrets.randbelow(PRIME)
    assert consistent(shares, 3, accept=lambda candidate: candidate == 7) is None
