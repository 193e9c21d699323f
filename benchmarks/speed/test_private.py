"""What privacy costs: of a round with noise, and of a secure sum by the size of the cohort.

Differential privacy adds clipping in the homes, noise and the account at the server. Rounds with privacy and without
take turns, in processor time. Both have the same homes, the same draws and the same valid rules; those of `fedrank`
are trained without noise in the counts, which would change what homes train on.

A secure sum is compared with the plain one: processor time and bytes of a home. Vectors have as many numbers as the
weights of `fedrank` (7,733) or 33,007, each below 2^44 in steps of 2^-30. One home in eight drops out before it sends
its masked vector, so that the server has keys to recover. The plain sum, of the same vectors in the same run, adds
int64 arrays.

Paillier's encryption, as the paper of `fedmf` has it, is compared with a secure sum of 16 homes, in processor time and
bytes of a home. The table has the numbers of `fedmf` on the paper's data, 1,207 items of 64 factors, one in each
ciphertext of a 2,048-bit key. A few are encrypted, by Python's own powers; compiled ones are several times faster.
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
pytest.importorskip("cryptography", reason="secure sums need the extra secure")
pytest.importorskip("opacus", reason="the account needs the extra private")

from benchmarks.conftest import SavedHomes
from benchmarks.references.paillier import Paillier
from benchmarks.speed.measure import note_ratio, seconds
from benchmarks.speed.test_federated import Rounds
from fedrule.federated.cohort import Cohorts
from fedrule.federated.private import Privacy
from fedrule.federated.secure.messages import Step
from fedrule.federated.secure_sum import secure_sum
from fedrule.methods.federated import Federated, FedGnn
from fedrule.methods.fedrank import FedRank

CLIENTS = {"smoke": 1_000, "default": 10_000, "paper": 76_218}
METHODS: dict[str, Federated] = {"fedgnn": FedGnn(draws=1), "fedrank": FedRank(draws=2, cohort=0)}
PRIVACY = Privacy(clip=0.1, epsilon=4.0, rounds=100)
TURNS = {"smoke": 3, "default": 7, "paper": 7}
COHORTS = {"smoke": (8, 16), "default": (8, 16, 32, 64), "paper": (8, 16, 32, 64, 128)}
LARGEST = max(COHORTS.values(), key=len)
BOUND = 2**44
FACTORS, FACTOR_BOUND, HOMES = 1_207 * 64, 2**32, 16  # of the secure sum beside Paillier's encryption
ENCRYPTED = {"smoke": 3, "default": 20, "paper": 50}  # numbers of which the time of all follows


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


@pytest.mark.parametrize("numbers", [7_733, 33_007])
@pytest.mark.parametrize("homes", LARGEST)
def test_secure_sum(benchmark: BenchmarkFixture, scale: str, homes: int, numbers: int) -> None:
    if homes not in COHORTS[scale]:
        pytest.skip(f"cohorts of the scale {scale} have up to {COHORTS[scale][-1]} homes")
    rng = np.random.default_rng(0)
    vectors = {home: rng.integers(-BOUND, BOUND, numbers) for home in range(homes)}
    dropped = dict.fromkeys(range(0, homes, 8), Step.MASK)
    present = {home: vector for home, vector in vectors.items() if home not in dropped}
    result = benchmark.pedantic(
        lambda: secure_sum(vectors, bound=BOUND, dropped=dropped), rounds=1 if scale == "smoke" else 3, warmup_rounds=1
    )
    assert np.array_equal(result.total, sum(present.values()))
    costs = [result.costs[home] for home in present]
    by_step = {
        f"{step.name.lower()} {what}": float(np.mean([getattr(cost[step], what) for cost in costs]))
        for step in Step
        for what in ("seconds", "sent", "received")
    }
    totals = {
        f"{what} per home": float(np.mean([sum(getattr(cost[step], what) for step in Step) for cost in costs]))
        for what in ("seconds", "sent", "received")
    }
    reference = seconds(lambda: sum(present.values()), repeats=5) / len(present)
    note_ratio(
        benchmark,
        len(present),
        reference,
        plain_bytes=8.0 * numbers,
        server_seconds=result.server_seconds,
        **totals,
        **by_step,
    )


def test_paillier_against_a_secure_sum(benchmark: BenchmarkFixture, scale: str) -> None:
    rng = np.random.default_rng(0)
    vectors = {home: rng.integers(-FACTOR_BOUND, FACTOR_BOUND, FACTORS) for home in range(HOMES)}
    dropped = dict.fromkeys(range(0, HOMES, 8), Step.MASK)
    found = benchmark.pedantic(
        secure_sum, args=(vectors,), kwargs={"bound": FACTOR_BOUND, "dropped": dropped}, rounds=1
    )
    finished = [list(steps.values()) for home, steps in found.costs.items() if home not in dropped]
    masked_seconds = float(np.mean([sum(cost.seconds for cost in steps) for steps in finished]))
    masked_bytes = float(np.mean([sum(cost.sent for cost in steps) for steps in finished]))
    key = Paillier.generate()
    numbers = vectors[0][: ENCRYPTED[scale]].tolist()
    begin = process_time()
    for number in numbers:
        key.encrypt(number)
    encrypted_seconds = (process_time() - begin) / len(numbers) * FACTORS
    benchmark.extra_info |= {
        "numbers": FACTORS,
        "paillier seconds": encrypted_seconds,
        "paillier bytes": FACTORS * key.ciphertext_bytes,
        "secure sum seconds": masked_seconds,
        "secure sum bytes": masked_bytes,
        "plain bytes": 4 * FACTORS,
        "ratio": encrypted_seconds / masked_seconds,
    }
