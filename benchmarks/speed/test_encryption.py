"""What encryption costs a home that sends a table of factors: Paillier as in FedMF's paper, beside a secure sum.

The table has the numbers of `fedmf` on the paper's data, 1,207 items of 64 factors, one in each ciphertext of a
2,048-bit key. A few are encrypted, by Python's own powers, and the time of all follows; libraries with compiled powers
are several times faster. The secure sum is that of all numbers, by 16 homes, of which one in eight drops out. Both are
measured in the same run, in processor time of one home.
"""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from benchmarks.references.paillier import Paillier
from fedrule.federated.secure.messages import Step
from fedrule.federated.secure_sum import secure_sum

NUMBERS = 1_207 * 64
ENCRYPTED = {"smoke": 3, "default": 20, "paper": 50}
COHORT = 16
BOUND = 2**32  # of a number in steps of 2^-30


def test_paillier_against_a_secure_sum(benchmark: BenchmarkFixture, scale: str) -> None:
    rng = np.random.default_rng(0)
    vectors = {home: rng.integers(-BOUND, BOUND, NUMBERS) for home in range(COHORT)}
    dropped = dict.fromkeys(range(0, COHORT, 8), Step.MASK)
    found = benchmark.pedantic(secure_sum, args=(vectors,), kwargs={"bound": BOUND, "dropped": dropped}, rounds=1)
    finished = [list(steps.values()) for home, steps in found.costs.items() if home not in dropped]
    masked_seconds = float(np.mean([sum(cost.seconds for cost in steps) for steps in finished]))
    masked_bytes = float(np.mean([sum(cost.sent for cost in steps) for steps in finished]))
    key = Paillier.generate()
    numbers = vectors[0][: ENCRYPTED[scale]].tolist()
    begin = process_time()
    for number in numbers:
        key.encrypt(number)
    encrypted_seconds = (process_time() - begin) / len(numbers) * NUMBERS
    benchmark.extra_info |= {
        "numbers": NUMBERS,
        "paillier seconds": encrypted_seconds,
        "paillier bytes": NUMBERS * key.ciphertext_bytes,
        "secure sum seconds": masked_seconds,
        "secure sum bytes": masked_bytes,
        "plain bytes": 4 * NUMBERS,
        "ratio": encrypted_seconds / masked_seconds,
    }
