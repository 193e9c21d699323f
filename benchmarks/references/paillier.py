"""Paillier's encryption, whose ciphertexts can be added without decrypting them: what `fedmf` would cost as published.

Paillier (1999), "Public-key cryptosystems based on composite degree residuosity classes", EUROCRYPT. With n = p q,
g = n + 1 and a random r that is used once,

    encrypt(m) = (1 + m n) r^n mod n^2,    encrypt(a) encrypt(b) = encrypt(a + b) mod n^2
    decrypt(c) = ((c^phi mod n^2) - 1) / n * phi^-1 mod n,   phi = (p - 1) (q - 1)

For measurements only: the powers are Python's, which is neither fast nor safe against timing. The primes are those of
an RSA key of the package cryptography.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key


@dataclass(frozen=True, slots=True)
class Paillier:
    """A key pair."""

    n: int  # public
    phi: int  # secret

    @classmethod
    def generate(cls, bits: int = 2048) -> Paillier:
        """A new key pair with an n of so many bits, at least 1,024."""
        numbers = generate_private_key(65537, bits).private_numbers()
        return cls(numbers.p * numbers.q, (numbers.p - 1) * (numbers.q - 1))

    @property
    def ciphertext_bytes(self) -> int:
        """Of one ciphertext, a number below n^2."""
        return -(-2 * self.n.bit_length() // 8)

    def encrypt(self, message: int) -> int:
        """Of an integer, which may be negative, between -n / 2 and n / 2."""
        square = self.n**2
        return (1 + message % self.n * self.n) * pow(secrets.randbelow(self.n - 1) + 1, self.n, square) % square

    def add(self, one: int, other: int) -> int:
        """The ciphertext of the sum of two."""
        return one * other % self.n**2

    def decrypt(self, ciphertext: int) -> int:
        message = (pow(ciphertext, self.phi, self.n**2) - 1) // self.n * pow(self.phi, -1, self.n) % self.n
        return message - self.n if message > self.n // 2 else message
