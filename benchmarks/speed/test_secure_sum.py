"""Cost of a secure sum by size of the cohort: processor time and bytes of a home, against the plain sum.

Vectors have as many numbers as the weights of `fedrank` (7,733) or 33,007, each below 2^44 in steps of 2^-30. One home
in eight drops out before it sends its masked vector, so that the server has keys to recover. The plain sum, of the same
vectors in the same run, adds int64 arrays.
"""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

pytest.importorskip("torch", reason="fedrule.federated needs the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from benchmarks.speed.measure import note_ratio, seconds
from fedrule.federated.secure.messages import Step
from fedrule.federated.secure_sum import secure_sum

COHORTS = {"smoke": (8, 16), "default": (8, 16, 32, 64), "paper": (8, 16, 32, 64, 128)}
LARGEST = max(COHORTS.values(), key=len)
BOUND = 2**44


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
