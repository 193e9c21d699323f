"""Paillier's encryption: sums of ciphertexts are ciphertexts of sums, and no two are alike."""

from __future__ import annotations

import pytest

pytest.importorskip("cryptography", reason="its primes are of the extra secure")

from benchmarks.references.paillier import Paillier
from fedrule.methods.user_item.fcf import CIPHERTEXT_BYTES


@pytest.fixture(scope="module")
def key():
    return Paillier.generate(1024)  # small, for speed


@pytest.mark.parametrize(("one", "other"), [(0, 0), (5, 7), (-3, 10), (-(2**40), 2**31), (2**62, 2**62)])
def test_the_product_of_ciphertexts_decrypts_to_the_sum(key, one, other):
    assert key.decrypt(key.add(key.encrypt(one), key.encrypt(other))) == one + other


def test_a_number_never_has_the_same_ciphertext_twice(key):
    one, other = key.encrypt(1), key.encrypt(1)
    assert one != other
    assert max(one, other).bit_length() <= 8 * key.ciphertext_bytes


def test_a_ciphertext_of_a_2048_bit_key_has_the_bytes_that_fedmf_reports():
    # n of 2,048 bits is just below 2^2048, and n^2 has 4,096 bits: 512 bytes.
    assert Paillier(n=2**2048 - 1, phi=1).ciphertext_bytes == CIPHERTEXT_BYTES == 4096 // 8
