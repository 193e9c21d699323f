"""Shamir's secret sharing: any `threshold` shares give the secret, fewer say nothing about it (Shamir 1979).

A secret is f(0) of a random polynomial f of degree threshold - 1 over the integers modulo PRIME, and the share of point
x > 0 is f(x).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice

PRIME = 2**256 + 297  # the smallest one above all secrets of 32 bytes
SHARE_BYTES = 33
SUBSETS = 2_000  # that `consistent` tries; about 2 ms each for 43 shares


def deal(secret: int, points: Iterable[int], *, threshold: int) -> list[int]:
    """The share of each point."""
    coefficients = [secret, *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_evaluate(coefficients, x) for x in points]


def _evaluate(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def interpolate(shares: Mapping[int, int], *, at: int = 0) -> int:
    """The value at a point, by default the secret, of the polynomial through all of these shares (Lagrange)."""
    points = tuple(shares)
    return sum(weight * shares[x] for x, weight in zip(points, _weights(points, at), strict=True)) % PRIME


@lru_cache(maxsize=256)  # the shares of all secrets of a session mostly come from the same points
def _weights(points: tuple[int, ...], at: int) -> tuple[int, ...]:
    weights = []
    for x in points:
        above = below = 1
        for other in points:
            if other != x:
                above = above * (other - at) % PRIME
                below = below * (other - x) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


def consistent(
    shares: Mapping[int, int], threshold: int, *, accept: Callable[[int], bool]
) -> tuple[int, tuple[int, ...]] | None:
    """The secret that `accept` confirms, and the points whose shares were found wrong on the way to it.

    The first `threshold` shares are tried first; if they give something else, subsets with one of the first
    threshold + 1 left out, then two of threshold + 2, and so on, SUBSETS in all. None if no subset is confirmed. The
    secret is certain; wrong shares that were made to cancel each other out can put the blame on right ones.
    """
    points = tuple(shares)
    for kept in islice(_subsets(points, threshold), SUBSETS):
        chosen = {x: shares[x] for x in kept}
        secret = interpolate(chosen)
        if accept(secret):
            if kept == points[:threshold]:
                return secret, ()
            others = (x for x in points if x not in chosen)
            return secret, tuple(x for x in others if shares[x] != interpolate(chosen, at=x))
    return None


def _subsets(points: tuple[int, ...], size: int) -> Iterable[tuple[int, ...]]:
    for left_out in range(len(points) - size + 1):
        for out in combinations(points[: size + left_out], left_out):
            yield tuple(x for x in points[: size + left_out] if x not in out)
