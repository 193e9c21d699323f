"""Random sources: a keyed number depends on its key alone, is uniform, and is independent of its neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from datasets import DataError
from datasets.common.random import KeyedRandom, RandomSource, SharedRandom, output, random_source
from datasets.homes import Array

IDS = st.integers(-(2**63), 2**63 - 1)
WORDS = st.integers(0, 2**64 - 1)
PURPOSES = st.lists(WORDS, max_size=3)
# How often each home asks in a call; a home that does not ask in one call may do so in the next.
CALLS = st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=4)


def keyed(seed: int = 0, round: int = 0, client: Array | int = 1, *, purposes: list[int] | None = None) -> RandomSource:
    """Of these clients, or of so many, after going from stream to stream."""
    source: RandomSource = KeyedRandom(seed, round, np.arange(client) if isinstance(client, int) else client)
    for purpose in purposes or []:
        source = source.stream(purpose)
    return source


def one_home(n: int) -> Array:
    return np.zeros(n, dtype=np.int64)


def plain(seed: int, round: int, client: int, purposes: list[int], turn: int, number: int) -> float:
    """One number by plain whole numbers, part of the key by part."""
    state = 0
    for part in (seed, round, len(purposes), *purposes, turn, client, number):
        state = (state + (part + 1) * 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return (state >> 11) / 2**53


# What a number depends on


def test_outputs_are_those_of_splitmix64() -> None:
    # The first five for state 1234567, as the task "Pseudo-random numbers/Splitmix64" of Rosetta Code gives them.
    assert output(np.array([1234567], dtype=np.uint64), np.arange(5, dtype=np.uint64)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(WORDS, WORDS, st.lists(IDS, min_size=6, max_size=6), PURPOSES, CALLS)
def test_a_number_is_a_function_of_its_key(
    seed: int, round: int, client: list[int], purposes: list[int], calls: list[list[int]]
) -> None:
    source = keyed(seed, round, np.array(client), purposes=purposes)
    for turn, asks in enumerate(calls):
        drawn = source.random(np.repeat(np.arange(6), asks))
        assert drawn.tolist() == [
            plain(seed, round, of, purposes, turn, number)
            for of, many in zip(client, asks, strict=True)
            for number in range(many)
        ]


@given(st.lists(IDS, min_size=6, max_size=6, unique=True), st.permutations(range(6)), st.integers(0, 6), CALLS)
def test_a_home_draws_the_same_whichever_others_there_are(
    client: list[int], order: list[int], many: int, calls: list[list[int]]
) -> None:
    some = np.array(order[:many], dtype=np.int64)
    every, few = keyed(3, 4, np.array(client)), keyed(3, 4, np.array(client)[some])
    for asks in calls:
        among_all, home = np.repeat(np.arange(6), asks), np.repeat(np.arange(many), np.array(asks)[some])
        bound = np.arange(1, 7)
        expected, below = every.random(among_all), every.below(among_all, bound[among_all])
        here = [np.flatnonzero(among_all == h) for h in some]
        chosen = np.concatenate([np.zeros(0, dtype=np.int64), *here])
        assert few.random(home).tolist() == expected[chosen].tolist()
        assert few.below(home, bound[some[home]]).tolist() == below[chosen].tolist()


DIFFERENT = {
    "seed": keyed(1),
    "round": keyed(0, 1),
    "client": keyed(0, 0, np.array([1])),
    "purpose": keyed(purposes=[0]),
    "another purpose": keyed(purposes=[1]),
    "a stream of a stream": keyed(purposes=[0, 0]),
    "streams in one order": keyed(purposes=[0, 1]),
    "streams in the other": keyed(purposes=[1, 0]),
}


def test_another_seed_round_client_or_purpose_draws_other_numbers() -> None:
    drawn = {name: source.random(one_home(100)) for name, source in DIFFERENT.items()}
    drawn |= {"none of these": (same := keyed()).random(one_home(100)), "another turn": same.random(one_home(100))}
    together = np.concatenate(list(drawn.values()))
    assert len(np.unique(together)) == len(together) == 1000


def test_how_often_one_purpose_draws_does_not_shift_another() -> None:
    source = keyed(client=2)
    home = np.array([0, 0, 1])
    before = source.stream(5).random(home)
    source.random(home)
    source.stream(4).random(home)
    assert source.stream(5).random(home).tolist() == before.tolist()


# Uniform, and nothing to do with each other

N = 20_000
ALONG: dict[str, Callable[[], np.ndarray]] = {
    "the numbers of a home": lambda: keyed().random(one_home(N)),
    "clients": lambda: keyed(client=N).random(np.arange(N)),
    "rounds": lambda: np.concatenate([keyed(0, r).random(one_home(1)) for r in range(N // 10)]),
    "seeds": lambda: np.concatenate([keyed(s).random(one_home(1)) for s in range(N // 10)]),
    "purposes": lambda: np.concatenate([keyed(purposes=[p]).random(one_home(1)) for p in range(N // 10)]),
    "turns": lambda: np.concatenate([source.random(one_home(1)) for source in [keyed()] for _ in range(N // 10)]),
}


@pytest.mark.parametrize("along", ALONG)
def test_numbers_are_uniform_along_every_part_of_the_key(along: str) -> None:
    drawn = ALONG[along]()
    assert 0 <= drawn.min() <= drawn.max() < 1
    assert kstest(drawn, "uniform").pvalue > 0.001
    assert chisquare(np.bincount((drawn * 100).astype(np.int64), minlength=100)).pvalue > 0.001


@pytest.mark.parametrize("along", ALONG)
def test_neighbours_along_every_part_of_the_key_are_not_correlated(along: str) -> None:
    # Of n pairs without correlation it deviates by 1 / sqrt(n): 4 deviations are 0.028 for 20,000, 0.09 for 2,000.
    drawn = ALONG[along]()
    for lag in (1, 2, 16):
        assert abs(np.corrcoef(drawn[lag:], drawn[:-lag])[0, 1]) < 4 / np.sqrt(len(drawn) - lag)


def test_neighbouring_clients_and_rounds_fill_the_square() -> None:
    # The first number of a client beside that of the next one and beside its own of the next round: 20,000 points,
    # 200 in each of 100 squares.
    this, then = (keyed(0, r, N).random(np.arange(N)) for r in (7, 8))
    for other in (np.roll(this, 1), then):
        square = (this * 10).astype(np.int64) * 10 + (other * 10).astype(np.int64)
        assert chisquare(np.bincount(square, minlength=100)).pvalue > 0.001


@pytest.mark.parametrize("bound", [2, 3, 163, 1000])
def test_whole_numbers_below_a_bound_are_equally_likely(bound: int) -> None:
    # 50,000 of 5,000 clients: at least 50 of each.
    home = np.repeat(np.arange(5000), 10)
    drawn = keyed(client=5000).below(home, np.full(len(home), bound))
    assert drawn.dtype == np.int64
    assert chisquare(np.bincount(drawn, minlength=bound)).pvalue > 0.001
    assert drawn.max() == bound - 1


@given(WORDS, st.integers(1, 2**53))
def test_whole_numbers_stay_below_their_bound(seed: int, bound: int) -> None:
    drawn = keyed(seed).below(one_home(50), np.full(50, bound))
    assert ((drawn >= 0) & (drawn < bound)).all()


def test_the_highest_number_there_is_stays_below_every_bound() -> None:
    # 1 - 2 ** -53 times a bound of up to 53 bits is never rounded up to the bound.
    bound = np.concatenate([2 ** np.arange(54) - 1, 2 ** np.arange(54), 3 * 2 ** np.arange(51)])[1:]
    assert (((1 - 2.0**-53) * bound).astype(np.int64) == bound - 1).all()


# All homes together


def test_together_draws_what_the_generator_draws() -> None:
    source, rng = random_source(np.random.default_rng(5)), np.random.default_rng(5)
    home, bound = np.array([0, 0, 2, 5]), np.array([3, 1000, 7, 2**40])
    assert isinstance(source, SharedRandom)
    assert source.random(home).tolist() == rng.random(4).tolist()
    assert source.stream(1).below(home, bound).tolist() == rng.integers(0, bound).tolist()
    assert source.random(home[:0]).tolist() == []
    assert source.random(home).tolist() == rng.random(4).tolist()


def test_a_chance_stays_as_it_is() -> None:
    source = keyed()
    assert random_source(source) is source


# Wrong keys


def test_nobody_asks() -> None:
    for clients in (0, 3):
        assert keyed(client=clients).random(one_home(0)).tolist() == []


@pytest.mark.parametrize(("key", "message"), [((-1, 0), "seed -1"), ((0, 2**64), f"round {2**64}")])
def test_a_key_that_does_not_fit_is_refused(key: tuple[int, int], message: str) -> None:
    with pytest.raises(DataError, match=f"keyed random: {message} must be at least 0 and have at most 64 bits"):
        KeyedRandom(*key, np.arange(2))
    with pytest.raises(DataError, match="purpose -3"):
        keyed().stream(-3)


def test_clients_are_told_apart_by_whole_numbers() -> None:
    with pytest.raises(DataError, match="clients must be integers, got StringDType"):
        KeyedRandom(0, 0, np.array(["ann", "bob"], dtype=np.dtypes.StringDType()))


def test_homes_out_of_order_are_refused() -> None:
    with pytest.raises(DataError, match="homes must be sorted"):
        keyed(client=2).random(np.array([0, 1, 0]))
