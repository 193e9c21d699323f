"""Differential privacy of a whole run: one account of all that leaves the homes, and the noise that keeps it in budget.

The unit of privacy is a home, and neighbouring data differ by one home, added or removed. Two kinds of sums are
released, both with Gaussian noise on addends of bounded L2 norm: counts before training, to which every home adds, and
in each round the update of a cohort that each home joins independently with probability q (Poisson sampling; Abadi et
al. 2016, "Deep learning with differential privacy", CCS; McMahan et al. 2018, "Learning differentially private
recurrent language models", ICLR).

Without sampling (q = 1) the account is exact by `datasets.common.gaussian_mechanism`. With it, opacus composes the
distributions of the privacy loss numerically (Gopi, Lee and Wutschitz 2021, "Numerical composition of differential
privacy", NeurIPS). Renyi differential privacy would be simpler but is not tight: at delta 1e-6 and with z = 1 it says
epsilon 8.9 where 8.06 is enough (100 rounds, q = 0.1), and 0.80 instead of 0.107 (400 rounds of 64 homes of 76,218).
All that is reported is an upper bound.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported at their first use

from datasets.common import gaussian_mechanism
from datasets.common.errors import DataError, install_hint
from datasets.common.gaussian_mechanism import (
    Normals,
    check_delta,
    disclosed_epsilon,
    multiplier_for,
    noise,
    secret_normals,
    seeded_normals,
    together,
)
from fedrule.federated.cohort import Purpose
from fedrule.federated.optimizers import Precise

if TYPE_CHECKING:
    from opacus.accountants.analysis.prv import Domain

log = logging.getLogger(__name__)

ACCURACY = 0.002  # of epsilon: how far above the exact one the reported one may be, as a share
LEAST_ERROR = 2e-4  # in epsilon; finer meshes would take seconds
LEAST_EPSILON = 0.01  # with sampling; the account of a smaller one would take minutes
MOST_CELLS = 2**22  # of a mesh; 34 MB for each of a few arrays
ROUGH = 0.02  # of epsilon: the error of meshes in a search, whose end is accurate
ORDERS = [*range(2, 64), 96, 128, 256, 512, 1024]  # of Renyi divergences
LEAST_MULTIPLIER = 0.2  # below, with sampling, epsilon is mostly beyond 100, and its distribution beyond memory


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Sums with Gaussian noise that all have the same sampling and noise."""

    noise_multiplier: float  # z: standard deviation of the noise, in bounds of a home's addend
    sampling_rate: float = 1.0  # q: probability that a home takes part; 1: all do
    times: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.noise_multiplier < math.inf:
            raise DataError(f"noise_multiplier must be above 0 and finite, got {self.noise_multiplier}")
        if not 0 < self.sampling_rate <= 1:
            raise DataError(f"a sampling rate must be in (0, 1], got {self.sampling_rate}")
        if self.times < 0:
            raise DataError(f"a sum cannot be released {self.times} times")


def epsilon_of(mechanisms: Iterable[Mechanism], delta: float) -> float:
    """Epsilon of all of these together at a delta, an upper bound; their order does not matter. 0 where there is none.

    The error is at most `ACCURACY` or `LEAST_ERROR`.
    """
    check_delta("epsilon", delta, default=False)
    sampled, whole = _merged(mechanisms)
    return _epsilon(sampled, whole, delta, (sampled, whole))


def _merged(mechanisms: Iterable[Mechanism]) -> tuple[tuple[Mechanism, ...], float]:
    """Those with sampling, each kind once and sorted, and the multiplier of all without as one."""
    times: dict[tuple[float, float], int] = {}
    whole = []
    for one in mechanisms:
        if one.sampling_rate == 1:
            whole += [one.noise_multiplier / math.sqrt(one.times)] if one.times else []
        elif one.times:
            key = one.noise_multiplier, one.sampling_rate
            times[key] = times.get(key, 0) + one.times
    kinds = tuple(Mechanism(*key, times=count) for key, count in sorted(times.items()))
    return kinds, together(sorted(whole))


Planned = tuple[tuple[Mechanism, ...], float]


def _epsilon(sampled: Sequence[Mechanism], whole: float, delta: float, planned: Planned) -> float:
    """Of what has been done; `planned` are the same kinds with all that is to come, for which one mesh is made."""
    if not sampled:
        return 0.0 if whole == math.inf else disclosed_epsilon(whole, delta)
    if min(one.noise_multiplier for one in sampled) < LEAST_MULTIPLIER or whole < LEAST_MULTIPLIER:
        return math.inf
    mesh = _mesh(*planned, delta)
    return mesh.epsilon([*(one.times for one in sampled), *([1] if whole < math.inf else [])], delta)


@dataclass(frozen=True, eq=False)
class Mesh:
    """The distributions of the privacy loss of several mechanisms, each once, on one mesh fine and wide enough for all.

    The parts are those of `opacus.accountants.PRVAccountant`. It makes a mesh for every question, integrates by a slow
    quadrature and convolves in turn, a second or more in all; here the mesh and the transforms are made once for a run,
    and epsilon after any number of rounds takes one inverse transform.
    """

    domain: Domain  # of one mechanism, without shifts
    transforms: tuple[npt.NDArray[np.complex128], ...]  # their logarithms
    shifts: tuple[float, ...]  # what rounding to the mesh took off each mean
    error: float  # of epsilon
    delta_error: float

    @classmethod
    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # at the ends of a mesh, where there is no mass
    def of(cls, every: Sequence[Mechanism], delta: float, error: float) -> Mesh:
        """As wide and fine as theorem 5.5 and remark 5.6 of Gopi et al. want it for this error.

        The width is that of opacus, but by Renyi divergences of whole orders, which take a hundredth of the time. Where
        that takes more than MOST_CELLS, as with little noise and few homes in a round, the error is larger.
        """
        try:
            from opacus.accountants.analysis import prv
        except ModuleNotFoundError:
            raise DataError(f"an account with sampling needs {install_hint('private')}") from None
        losses = [prv.PoissonSubsampledGaussianPRV(one.sampling_rate, one.noise_multiplier) for one in every]
        times, delta_error = [one.times for one in every], delta / 1000
        each = [renyi_divergences(one) for one in every]
        all_rounds = sum(count * one for count, one in zip(times, each, strict=True))
        composed = renyi_epsilon(np.asarray(all_rounds), delta_error / 4)
        alone = [renyi_epsilon(one, delta_error / (8 * sum(times))) for one in each]
        largest = max(composed, *alone, error) + 3
        spread = math.sqrt(sum(times) * math.log(12 / delta_error) / 2)
        error = max(error, 2 * largest * spread / MOST_CELLS)
        width = error / spread
        size = 2 * scipy.fft.next_fast_len(math.ceil(largest / width) + 1)
        domain = prv.Domain((1 - size // 2) * width, size // 2 * width, size)
        transforms, shifts = [], []
        for loss in losses:
            cut = prv.TruncatedPrivacyRandomVariable(loss, domain.t_min, domain.t_max)
            between = cut.cdf(domain.t_min + width * (np.arange(size + 1) - 0.5))
            mass = np.diff(between)
            # The mean is t_max minus the integral of the distribution function, by Simpson's rule on half the width.
            at = cut.cdf(domain.ts)
            inner = between[1:-1].sum()
            integral = width / 6 * (at[0] + at[-1] + 2 * at[1:-1].sum() + 4 * inner)
            shifts.append(float(domain.t_max * at[-1] - domain.t_min * at[0] - integral - domain.ts @ mass))
            transform = scipy.fft.rfft(mass)
            transform[transform == 0] = 1e-300  # whose logarithm is finite
            transforms.append(np.log(transform))
        return cls(domain, tuple(transforms), tuple(shifts), error, delta_error)

    def epsilon(self, times: Sequence[int], delta: float) -> float:
        """An upper bound for each mechanism so many times."""
        return self.estimate(times, delta - self.delta_error) + self.error

    @np.errstate(over="ignore", invalid="ignore")  # as above
    def estimate(self, times: Sequence[int], delta: float) -> float:
        """Where the sum of the losses t has the mean of max(1 - e^(epsilon - t), 0) = delta; at least 0."""
        power = sum(np.multiply(kind, count) for kind, count in zip(self.transforms, times, strict=True))
        mass = scipy.fft.irfft(np.exp(power), self.domain.size)
        zero = self.domain.size // 2 - 1  # where the loss is 0; the sum of m of them has its 0 at m times that
        first = zero * (sum(times) - 1) % self.domain.size
        shift = sum(one * count for one, count in zip(self.shifts, times, strict=True))
        skipped = min(max(math.floor(-shift / self.domain.dt), 0) + zero, self.domain.size - 1)  # losses below 0
        mass = np.concatenate([mass[first:], mass[:first]])[skipped:]
        loss = self.domain.t_min + shift + self.domain.dt * np.arange(skipped, self.domain.size)
        above, scaled = (np.cumsum(each[::-1])[::-1] for each in (mass, mass * np.exp(-loss)))
        i = int(np.searchsorted(np.exp(loss) * scaled - above, -delta))  # delta at epsilon = loss falls with the loss
        if i == len(loss):
            raise DataError(
                f"no epsilon is found at delta {delta:g}: privacy losses exceed what the account expects; use a larger "
                "delta or more noise, and please report the options of this run"
            )
        return max(math.log((above[i] - delta) / scaled[i]), 0.0) if above[i] > delta and i else 0.0


def renyi_divergences(mechanism: Mechanism) -> Precise:
    """[n_orders]: of the mechanism once, of ORDERS (Mironov, Talwar and Zhang 2019, section 3.3, for whole orders).

    log of the sum over k = 0 ... a of binom(a, k) (1 - q)^(a - k) q^k e^((k^2 - k) / (2 z^2)), divided by a - 1.
    """
    z, q = mechanism.noise_multiplier, mechanism.sampling_rate
    found = []
    for a in ORDERS:
        k = np.arange(a + 1)
        chosen = scipy.special.gammaln(a + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(a - k + 1)
        sampled = scipy.special.xlogy(k, q) + scipy.special.xlog1py(a - k, -q)
        found.append(scipy.special.logsumexp(chosen + sampled + (k**2 - k) / (2 * z**2)) / (a - 1))
    return np.array(found)


def renyi_epsilon(divergences: Precise, delta: float) -> float:
    """An upper bound of epsilon that takes no mesh (Balle et al. 2020, theorem 21)."""
    a = np.array(ORDERS, dtype=float)
    return max(float(np.min(divergences + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1))), 0.0)


@lru_cache(maxsize=8)
def _mesh(sampled: tuple[Mechanism, ...], whole: float, delta: float) -> Mesh:
    """One whose error is `ACCURACY` of epsilon, which a rough one estimates."""
    every = [*sampled, *([Mechanism(whole)] if whole < math.inf else [])]
    guess = renyi_epsilon(np.sum([one.times * renyi_divergences(one) for one in every], axis=0), delta)
    rough = Mesh.of(every, delta, ROUGH * max(guess, LEAST_ERROR / ACCURACY))
    return Mesh.of(every, delta, max(ACCURACY * rough.estimate([one.times for one in every], delta), LEAST_ERROR))


@dataclass(frozen=True, slots=True)
class Account:
    """All that a run releases: counts before training, which may be none, and a sum in every round."""

    delta: float
    noise_multiplier: float  # z of every round
    sampling_rate: float  # q of every round
    rounds: int
    counts: float = math.inf  # z of all counts before training as one sum; infinite: there are none

    @classmethod
    def within(
        cls, epsilon: float, *, delta: float, sampling_rate: float, rounds: int, counts_share: float = 0.0
    ) -> Account:
        """With the least noise that keeps the whole run within epsilon.

        Counts get the noise by which they alone would take `counts_share` of epsilon; the rounds get what the joint
        account leaves, which is more than the rest. The joint one is what `after` says.
        """
        check_delta("epsilon", delta, default=False)
        if not 0 <= counts_share < 1:
            raise DataError(f"counts_share must be in [0, 1), got {counts_share}")
        counts = multiplier_for(counts_share * epsilon, delta) if counts_share else math.inf
        if sampling_rate < 1:
            counts = max(counts, LEAST_MULTIPLIER)  # less noise would not be counted
        multiplier = _least_multiplier(epsilon, delta, sampling_rate, rounds, counts)
        return cls(delta, multiplier, sampling_rate, rounds, counts)

    def after(self, done: int) -> float:
        """Epsilon of the counts and of the first so many rounds."""
        return _after(self, done)

    def known_cohorts(self, done: int) -> float:
        """The same for who knows the cohorts, so that sampling hides nobody, and a home that is in all of them."""
        return disclosed_epsilon(together([self.counts, *[self.noise_multiplier] * done]), self.delta)


@lru_cache(maxsize=4096)
def _after(account: Account, done: int) -> float:
    counts = [Mechanism(account.counts)] if account.counts < math.inf else []
    if not done:
        return epsilon_of(counts, account.delta)
    planned = _merged([*counts, Mechanism(account.noise_multiplier, account.sampling_rate, account.rounds)])
    now = _merged([*counts, Mechanism(account.noise_multiplier, account.sampling_rate, done)])
    return _epsilon(*now, account.delta, planned)


@lru_cache(maxsize=256)
def _least_multiplier(epsilon: float, delta: float, sampling_rate: float, rounds: int, counts: float) -> float:
    """Of the rounds, to 0.1 %, rounded up."""

    def spent(multiplier: float) -> float:
        return Account(delta, multiplier, sampling_rate, rounds, counts).after(rounds)

    def roughly(multiplier: float) -> float:
        every = [*([Mechanism(counts)] if counts < math.inf else []), Mechanism(multiplier, sampling_rate, rounds)]
        return Mesh.of(every, delta, ROUGH * epsilon).estimate([one.times for one in every], delta)

    if sampling_rate == 1:  # in closed form
        precision = multiplier_for(epsilon, delta) ** -2 - counts**-2
        return math.sqrt(rounds / precision)
    if 0 < epsilon < LEAST_EPSILON:
        raise DataError(
            f"epsilon {epsilon:g} is too small to be accounted for where homes are sampled, and leaves nothing but "
            f"noise; use {LEAST_EPSILON:g} or more"
        )
    # With small shares of homes and much noise, rounds are nearly one Gaussian sum with z / (q sqrt(rounds)).
    guess = multiplier_for(epsilon, delta) * sampling_rate * math.sqrt(rounds)
    low = high = min(max(guess, 2 * LEAST_MULTIPLIER), gaussian_mechanism.LARGEST_MULTIPLIER)
    while roughly(high) > epsilon:
        low, high = high, 1.5 * high
        if high > gaussian_mechanism.LARGEST_MULTIPLIER:
            raise DataError(
                f"epsilon {epsilon:g} at delta {delta:g} cannot be met in {rounds} rounds with a sampling rate of "
                f"{sampling_rate:g}: there would be nothing but noise; use a larger epsilon, fewer rounds or a smaller "
                "counts_share"
            )
    while low > LEAST_MULTIPLIER and roughly(low) <= epsilon:
        low = max(low / 1.5, LEAST_MULTIPLIER)
    if low == LEAST_MULTIPLIER and spent(low) <= epsilon:
        return low  # less noise would not be counted
    multiplier = scipy.optimize.brentq(lambda z: roughly(z) - epsilon, low, high, rtol=1e-3)
    power = math.log(roughly(1.05 * multiplier) / roughly(multiplier)) / math.log(1.05)  # of epsilon ~ z^power, here
    for _ in range(5):  # two or three are enough
        found = spent(multiplier)
        if 0.999 * epsilon <= found <= epsilon:
            return multiplier
        multiplier *= (0.9996 * epsilon / found) ** (1 / power)
    while spent(multiplier) > epsilon:
        multiplier *= 1.0005
    return multiplier


@dataclass(frozen=True, slots=True)
class Privacy:
    """How the rounds of a run are private; the default is not at all.

    A home multiplies its weighted update by a factor that keeps its L2 norm within `clip`, and the server adds noise to
    the sum before its optimizer uses it. The sum is divided by the expected number of homes of a round, not by those
    that came, which would be one more thing to hide.
    """

    clip: float = 0.0  # L2 norm of what a home adds to the sum; 0: unbounded
    epsilon: float = 0.0  # of the whole run; 0: by noise_multiplier
    noise_multiplier: float = 0.0  # of each round; 0: by epsilon, or no noise
    delta: float = 0.0  # 0: 1 / homes^1.1
    counts_share: float = 0.0  # of epsilon, for counts before training
    rounds: int = 1

    def __post_init__(self) -> None:
        for name in ("clip", "epsilon", "noise_multiplier"):
            if not 0 <= getattr(self, name) < math.inf:
                raise DataError(f"{name} must be at least 0 and finite, got {getattr(self, name)}")
        if self.epsilon and self.noise_multiplier:
            raise DataError(
                f"give epsilon ({self.epsilon:g}) or noise_multiplier ({self.noise_multiplier:g}), not both: one "
                "follows from the other"
            )
        if self.noisy and not self.clip:
            raise DataError("noise hides a home only if its part is bounded; set clip, e.g. 0.1")
        if not 0 <= self.counts_share < 1:
            raise DataError(f"counts_share must be in [0, 1), got {self.counts_share}")
        if self.counts_share and not self.epsilon:
            raise DataError("counts_share is a share of epsilon; set epsilon")
        if self.delta and not self.noisy:
            raise DataError("delta has no effect without noise; set epsilon")
        check_delta("differential privacy", self.delta)

    @property
    def noisy(self) -> bool:
        """Whether there is an account at all; without noise, clipping alone bounds what one home can do."""
        return self.epsilon > 0 or self.noise_multiplier > 0

    def account(self, n_clients: int, sampling_rate: float) -> Account:
        """Of the run, with so many homes, with rules or without, which is taken as known to everybody."""
        delta = self.delta or gaussian_mechanism.default_delta(n_clients)
        if self.noise_multiplier:
            if sampling_rate < 1 and self.noise_multiplier < LEAST_MULTIPLIER:
                raise DataError(
                    f"noise_multiplier {self.noise_multiplier:g} is too small for an account where homes are sampled; "
                    f"use {LEAST_MULTIPLIER:g} or more"
                )
            return Account(delta, self.noise_multiplier, sampling_rate, self.rounds)
        share = self.counts_share
        return Account.within(
            self.epsilon, delta=delta, sampling_rate=sampling_rate, rounds=self.rounds, counts_share=share
        )

    def sensitivity(self, size: int) -> float:
        """What one home, added or removed, changes in a sum of so many cells at most, by L2 norm.

        Its clipped update, and half a step of the grid in every cell, to which it is rounded.
        """
        return self.clip + math.sqrt(size) * gaussian_mechanism.GRID / 2

    def warn_of_noise(self, name: str, size: int, *, n_clients: int, sampling_rate: float) -> None:
        """Log a warning where the noise of the mean update of so many numbers is longer than an update can be.

        A mean of updates of norms up to clip is no longer than clip, and mostly much shorter, since they differ. In
        suite `privacy` (fedrank, 1,000 homes, MRR 0.34 without noise) noise of 1.8 and of 1.0 clips left 0.04 to 0.10,
        0.5 clips left 0.20 to 0.24; part of that is noise in the counts.
        """
        scale = self._scale(size, n_clients, sampling_rate) / (sampling_rate * n_clients)
        ratio = math.sqrt(size) * scale / self.clip
        if ratio > 1:
            log.warning(
                "%s: the mean update of a round has an L2 norm of at most clip = %g, and its noise one of %.3g, %.3g "
                "times as much: hardly anything but noise will be learned; use more homes in a round (now %.0f of %d), "
                "a larger epsilon, fewer rounds or a model with fewer weights (now %d)",
                name,
                self.clip,
                ratio * self.clip,
                ratio,
                sampling_rate * n_clients,
                n_clients,
                size,
            )

    def noisy_mean(self, total: Precise, *, n_clients: int, sampling_rate: float, normals: Normals) -> Precise:
        """The mean update that the server uses, from the exact sum."""
        scale = self._scale(total.size, n_clients, sampling_rate)
        return (total + noise(total.size, scale, normals)) / (sampling_rate * n_clients)

    def noisy_part(
        self, part: Precise, *, n_clients: int, sampling_rate: float, threshold: int, normals: Normals
    ) -> Precise:
        """What one of the participants of a secure sum adds to it: its own part with a share of the noise."""
        scale = self._scale(part.size, n_clients, sampling_rate)
        return part + share_of_noise(part.size, scale, threshold=threshold, normals=normals)

    def _scale(self, size: int, n_clients: int, sampling_rate: float) -> float:
        """The standard deviation of the noise of a round's sum."""
        return self.account(n_clients, sampling_rate).noise_multiplier * self.sensitivity(size)


def normals_of(seed: int | None, purpose: Purpose, *number: int) -> Normals:
    """Noise that repeats, for simulations with a seed, or without one noise that nobody can predict.

    In simulations it is keyed by (seed, purpose, round), and by the client where clients add it.
    """
    return secret_normals if seed is None else seeded_normals(seed, purpose, *number)


def share_of_noise(size: int, scale: float, *, threshold: int, normals: Normals) -> Precise:
    """The noise that each of the clients of a secure sum adds where nobody is to add all of it.

    Each adds variance scale^2 / threshold: any `threshold` of them, which is how many a secure sum needs at least to
    end, reach scale together, and more reach more. What fewer of them add is not private against the others.
    """
    return noise(size, scale / math.sqrt(threshold), normals)
