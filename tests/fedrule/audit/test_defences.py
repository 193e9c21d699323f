"""What the defences leave: exact means, bounded norms, noise of the stated size."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")

from fedrule.audit.defences import Defence, mean_update
from tests.support.attacked import federation


@pytest.fixture(scope="module")
def sums():
    return [*federation().updates(np.arange(8)).values()]


def test_a_secure_sum_of_a_cohort_is_the_exact_mean_of_its_updates(sums):
    mean, deviation = mean_update(sums, Defence(8), clip=1.0, key=(0,))
    assert deviation == 0.0
    assert np.array_equal(mean, np.sum([one.update for one in sums], axis=0) / 8)


def test_an_update_is_clipped_to_its_bound(sums):
    norm = float(np.linalg.norm(sums[0].update))
    mean, _ = mean_update(sums[:1], Defence(1, 1.0, 1e-12), clip=norm / 4, key=(0,))
    assert np.linalg.norm(mean) == pytest.approx(norm / 4, rel=0.01)
    assert np.linalg.norm(mean) <= norm / 4 * (1 + 1e-6)


def test_noise_has_the_stated_deviation_and_is_the_same_for_the_same_key(sums):
    defence = Defence(8, 1.0, 2.0)
    plain, _ = mean_update(sums, Defence(8, 1.0, 1e-12), clip=0.1, key=(3,))
    noisy, deviation = mean_update(sums, defence, clip=0.1, key=(3,))
    # z clip / n = 2 * 0.1 / 8; the deviation of so many numbers is known to 1 / sqrt(2 n), about 1.5 %.
    assert deviation == pytest.approx(0.025, rel=1e-3)
    assert np.std(noisy - plain) == pytest.approx(0.025, rel=0.1)
    assert np.array_equal(noisy, mean_update(sums, defence, clip=0.1, key=(3,))[0])
    assert not np.array_equal(noisy, mean_update(sums, defence, clip=0.1, key=(4,))[0])


def test_defences_are_named_by_what_they_do():
    assert Defence().name == "none"
    assert Defence(64).name == "secure sum"
    assert Defence(1, 4.0, 1.0).name == "noise in the home"
    assert Defence(64, 4.0, 1.0).name == "secure sum and noise"
