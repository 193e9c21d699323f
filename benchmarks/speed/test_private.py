"""What differential privacy adds to a round: clipping in the homes, noise and the account at the server.

Rounds with privacy and without take turns, in processor time. Both have the same homes, the same draws and the same
valid rules; those of `fedrank` are trained without noise in the counts, which would change what homes train on.
"""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")
pytest.importorskip("opacus", reason="the account needs the extra private")

from benchmarks.conftest import SavedHomes
from benchmarks.speed.test_federated import Rounds
from fedrule.federated.cohort import Cohorts
from fedrule.federated.private import Privacy
from fedrule.methods.federated import Federated, FedGnn
from fedrule.methods.fedrank import FedRank

CLIENTS = {"smoke": 1_000, "default": 10_000, "paper": 76_218}
METHODS: dict[str, Federated] = {"fedgnn": FedGnn(draws=1), "fedrank": FedRank(draws=2, cohort=0)}
PRIVACY = Privacy(clip=0.1, epsilon=4.0, rounds=100)
TURNS = {"smoke": 3, "default": 7, "paper": 7}


@pytest.mark.parametrize("method", METHODS)
def test_a_private_round_against_a_plain_one(
    benchmark: BenchmarkFixture, saved: SavedHomes, scale: str, method: str
) -> None:
    homes = datasets.load("saved", path=saved(CLIENTS[scale]))
    cohorts = Cohorts(participation=0.5, sampling="poisson")
    plain, private = Rounds(METHODS[method], homes), Rounds(METHODS[method], homes)
    for rounds, privacy in ((plain, Privacy()), (private, PRIVACY)):
        for _ in range(METHODS[method].draws):
            rounds()  # of all homes: compiles, and draws all batches, which would fill the first rounds of a cohort
        rounds.engine = replace(rounds.engine, cohorts=cohorts, privacy=privacy)
        rounds()  # makes the account
    spent: dict[str, list[float]] = {"plain": [], "private": []}

    def turn() -> None:
        for name, rounds in (("plain", plain), ("private", private)):
            begin = process_time()
            rounds()
            spent[name].append(process_time() - begin)

    benchmark.pedantic(turn, rounds=TURNS[scale])
    fastest = {name: min(times) for name, times in spent.items()}
    median = {name: float(np.median(times)) for name, times in spent.items()}
    benchmark.extra_info |= {
        "homes": homes.n_homes,
        "plain_seconds": fastest["plain"],
        "private_seconds": fastest["private"],
        "overhead": fastest["private"] / fastest["plain"] - 1,
        "overhead of medians": median["private"] / median["plain"] - 1,
    }
