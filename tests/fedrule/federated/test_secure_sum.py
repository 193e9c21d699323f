"""Secure sums: equal to plain ones whoever drops out, and flat to the server.

Keys are drawn anew in every run. Where a statistic of them is tested, the probability of a false alarm is stated; it is
below 1e-6 in each test.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

pytest.importorskip("torch", reason="fedrule.federated needs the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from datasets.common.cli import run as run_command
from datasets.common.errors import DataError
from fedrule.federated.secure.masks import (
    add_pair_mask,
    agreed_secret,
    context_of,
    derived_key,
    key_stream,
    own_mask,
    point_of,
)
from fedrule.federated.secure.messages import (
    BelowThreshold,
    Secrets,
    Step,
    largest_bound,
)
from fedrule.federated.secure.shamir import interpolate
from fedrule.federated.secure_sum import (
    answer,
    collect_keys,
    route_shares,
    secure_sum,
    share,
)
from tests.support.secure_sessions import BOUND, Run, plain_sum, vectors_of

NEVER = None  # drops out
FATES = (*Step, NEVER)


# Equality


def check_pattern(fates: tuple[Step | None, ...], threshold: int) -> None:
    """Each participant misses the step of its fate and all later ones."""
    vectors = vectors_of(len(fates))
    dropped = {member: fate for member, fate in zip(vectors, fates, strict=True) if fate is not NEVER}
    left = [sum(fate is NEVER or fate > step for fate in fates) for step in Step]  # after each step
    if min(left) < threshold:
        with pytest.raises(BelowThreshold, match=rf"{next(n for n in left if n < threshold)} of {len(fates)} "):
            secure_sum(vectors, threshold=threshold, bound=BOUND, dropped=dropped)
        return
    result = secure_sum(vectors, threshold=threshold, bound=BOUND, dropped=dropped)
    missing = tuple(member for member, fate in dropped.items() if fate <= Step.MASK)
    assert result.counted == tuple(member for member in vectors if member not in missing)
    assert result.total.tolist() == plain_sum(vectors, without=missing)
    assert result.wrong == ()


@pytest.mark.parametrize(("n", "threshold"), [(2, 2), (3, 2), (3, 3), (4, 3)])
def test_under_every_pattern_of_dropouts_the_sum_is_exact_or_given_up_below_the_threshold(n, threshold):
    for fates in product(FATES, repeat=n):
        check_pattern(fates, threshold)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "threshold"), [(4, 4), (5, 3)])
def test_under_every_pattern_of_more_dropouts_too(n, threshold):
    for fates in product(FATES, repeat=n):
        check_pattern(fates, threshold)


@given(st.data())
def test_larger_cohorts_drop_out_at_random(data):
    n = data.draw(st.integers(5, 12))
    mostly_there = st.sampled_from((*FATES, *[NEVER] * 10))
    fates = tuple(data.draw(st.lists(mostly_there, min_size=n, max_size=n)))
    check_pattern(fates, data.draw(st.integers(n // 2 + 1, n)))


@given(st.integers(2, 5), st.integers(1, 2**62), st.data())
def test_addends_of_any_size_add_up_exactly(n, bound, data):
    bound = min(bound, largest_bound(n))
    number = st.integers(-bound, bound) | st.sampled_from([-bound, bound])
    vectors = {i: np.array(data.draw(st.lists(number, min_size=3, max_size=3))) for i in range(n)}
    assert secure_sum(vectors, bound=bound).total.tolist() == plain_sum(vectors)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_largest_and_smallest_sums_do_not_overflow(n):
    for bound in (1, 2 ** (7 - 1) // n, largest_bound(n)):
        vectors = {i: np.array([bound, -bound]) for i in range(n)}
        assert secure_sum(vectors, bound=bound).total.tolist() == [n * bound, -n * bound]
        assert secure_sum(vectors).total.tolist() == [n * bound, -n * bound]  # without a bound


def test_sums_do_not_depend_on_the_keys():
    first, second = (secure_sum(vectors_of(4), bound=BOUND) for _ in range(2))
    assert first.total.tobytes() == second.total.tobytes()
    assert first.total.dtype == np.int64


def test_participants_have_any_numbers_up_to_64_bits():
    vectors = {0: np.array([1]), 2**63: np.array([2]), 2**64 - 1: np.array([4])}
    assert secure_sum(vectors, bound=10, threshold=2, dropped={2**63: Step.MASK}).total.tolist() == [5]
    of_numpy = {np.int64(i): np.array([i]) for i in range(4)}
    assert secure_sum(of_numpy, bound=10).total.tolist() == [6]


def test_bytes_are_counted_by_participant_and_step():
    vectors = vectors_of(4, size=1_000)
    run = Run(vectors).share().mask(3).unmask(13)
    result = secure_sum(vectors, bound=BOUND, name="s", threshold=3, dropped={3: Step.MASK})
    costs = {step: (cost.sent, cost.received) for step, cost in result.costs[13].items()}
    assert costs == {
        Step.ADVERTISE: (len(run.keys[13].to_bytes()), len(run.session.to_bytes())),
        Step.SHARE: (len(run.outboxes[13].to_bytes()), len(run.roster.to_bytes())),
        Step.MASK: (len(run.masked[13].to_bytes()), len(run.inboxes[13].to_bytes())),
        Step.UNMASK: (len(run.revealed[23].to_bytes()), len(run.total.question(run.session).to_bytes())),
    }
    # 2 * 4 * 1,000 = 8,000 has 13 bits: 2 bytes a number, and two hashes, a number, two lengths, mark and checksum
    assert run.session.bytes_per_number == 2
    assert costs[Step.MASK][0] == 2 * 1_000 + 2 * (4 + 32) + 8 + 4 + 6 + 32
    assert list(result.costs[3]) == [Step.ADVERTISE, Step.SHARE]
    assert all(cost.seconds >= 0 for steps in result.costs.values() for cost in steps.values())


def test_a_mask_is_the_key_stream_of_chacha20():
    """RFC 8439, A.1, test vector 1: key, nonce and counter are zero."""
    expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert key_stream(bytes(32), 4).astype("<u8").tobytes().hex() == expected


def test_a_derived_key_depends_on_secret_purpose_context_and_participants():
    def key(secret=b"s" * 32, label=b"masks", context=b"c" * 32, participants=(1, 2)):
        return derived_key(secret, label, context=context, participants=participants)

    others = [key(b"t" * 32), key(label=b"shares"), key(context=b"d" * 32), key(participants=(2, 1))]
    assert len({key(), *others}) == 5
    assert key() == key()


def test_shares_that_are_dealt_again_after_a_crash_are_encrypted_with_another_nonce():
    """The key is the same: two texts under one nonce would give away their difference."""
    run = Run(vectors_of(3))
    roster = collect_keys(run.session, run.keys.values())
    first, again = (share(run.secrets[3], roster)[1].sealed[13] for _ in range(2))
    assert first[:12] != again[:12]


# What the server sees

N_SEEN = 40_000  # numbers of a vector
SMALL = 1e-8  # the probability of a false alarm of one statistic; no test looks at more than 50


def chi_square(data: bytes) -> float:
    """Of the 256 counts of byte values, against equal ones."""
    counts, expected = np.bincount(np.frombuffer(data, np.uint8), minlength=256), len(data) / 256
    return float(((counts - expected) ** 2).sum() / expected)


def is_flat(masked: bytes, width: int) -> bool:
    """All bytes, and those of each place within a number."""
    each = np.frombuffer(masked, np.uint8).reshape(-1, width)
    return all(chi_square(some.tobytes()) < chi2.isf(SMALL, 255) for some in (each, *each.T))


def differ(a: bytes, b: bytes) -> bool:
    """Whether two samples of bytes have different distributions, by chi-square of the two histograms."""
    counts = np.stack([np.bincount(np.frombuffer(data, np.uint8), minlength=256) for data in (a, b)])
    expected = counts.sum(0) / 2
    return bool(((counts - expected) ** 2 / expected).sum() > chi2.isf(SMALL, 255))


def numbers_in(masked: bytes, width: int) -> np.ndarray:
    wide = np.zeros((len(masked) // width, 8), np.uint8)
    wide[:, :width] = np.frombuffer(masked, np.uint8).reshape(-1, width)
    return wide.view("<u8")[:, 0].astype(np.float64)


def correlated(a: np.ndarray, b: np.ndarray) -> bool:
    """r sqrt(N) of independent samples is about normal: beyond 6 with a probability of 2e-9."""
    return bool(abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(len(a)) > 6)


@pytest.fixture(scope="module")
def telling() -> dict[int, np.ndarray]:
    """Vectors that nobody could overlook: most numbers are zero, as in updates of homes, and all have one sign."""
    rng = np.random.default_rng(0)
    return {i: np.where(rng.random(N_SEEN) < 0.7, 0, 10 ** rng.integers(1, 4, N_SEEN)) for i in range(4)}


def test_single_vectors_are_flat_to_the_server(telling):
    run = Run(telling).share().mask(2)
    width = run.session.bytes_per_number
    assert width == 2
    for member, message in run.masked.items():
        assert is_flat(message.numbers, width)
        assert not correlated(numbers_in(message.numbers, width), telling[member])
    # The same statistics do see the vectors without masks.
    plain = telling[0].astype("<u2").tobytes()
    assert not is_flat(plain, width)
    noise = np.random.default_rng(1).integers(-5_000, 5_000, N_SEEN)
    assert correlated(telling[0] + noise, telling[0])  # numbers of up to 1,000 in noise of 5,000


def test_equal_vectors_do_not_look_alike_and_neither_does_a_vector_masked_in_two_sessions(telling):
    same = dict.fromkeys(telling, telling[0])
    first, second = (Run(same, name=name).share().mask() for name in ("a", "b"))
    views = [numbers_in(run.masked[member].numbers, 2) for run in (first, second) for member in same]
    for i, a in enumerate(views):
        assert not any(correlated(a, b) for b in views[:i])


def test_two_runs_with_other_vectors_and_the_same_sum_cannot_be_told_apart(telling):
    """Against all-zero vectors: the telling ones with their negatives add up to zero, too."""
    telling_pairs = {0: telling[0], 1: -telling[0], 2: telling[1], 3: -telling[1]}
    zeros = {i: np.zeros(N_SEEN, np.int64) for i in range(4)}
    runs = [Run(vectors).share().mask().unmask() for vectors in (telling_pairs, zeros)]
    assert [run.recover().total.any() for run in runs] == [False, False]
    for member in telling_pairs:
        a, b = (run.masked[member].numbers for run in runs)
        assert not differ(a, b)
        for view in (a, b):
            assert not correlated(numbers_in(view, 2), telling_pairs[member])
    assert differ(telling[0].astype("<u2").tobytes(), runs[1].masked[0].numbers)  # the statistic sees a difference


def test_a_vector_that_arrives_late_stays_masked_although_the_key_was_revealed(telling):
    """The server recovers the key of the one who seemed to have dropped out, and takes off its masks of pairs."""
    run = Run(telling).share()
    seed = run.secrets[2].seed
    late = run.mask().masked.pop(2)
    run.unmask()
    assert run.recover().total.tolist() == plain_sum(telling, without=(2,))
    shares = {point_of(run.session, m): int.from_bytes(r.keys[2]) for m, r in run.revealed.items()}
    private = X25519PrivateKey.from_private_bytes(interpolate(shares).to_bytes(32))
    context, pairs = context_of(run.roster, telling), np.zeros(N_SEEN, np.uint64)
    for peer in (0, 1, 3):
        secret = agreed_secret(private, run.roster.public[peer].masking, peer=peer)
        add_pair_mask(pairs, secret, context=context, own=2, peer=peer)
    left = (np.frombuffer(late.numbers, "<u2") - pairs).astype("<u2")
    assert is_flat(left.tobytes(), 2)
    assert not correlated(left.astype(float), telling[2])
    # These were the right masks: without the own mask, whose seed nobody revealed, the vector would be there.
    own = own_mask(seed, N_SEEN, context=context, participant=2)
    assert np.array_equal((left - own).astype("<u2"), telling[2])


@pytest.mark.parametrize("helpers", [(), (0,), (0, 3)])
def test_a_vector_stays_masked_by_pairs_once_own_masks_are_known_even_if_some_help_the_server(telling, helpers):
    """Fewer than the threshold, which is 3, give the server their keys. It takes off all masks that it can compute."""
    run = Run(telling).share()
    private = {member: X25519PrivateKey.from_private_bytes(run.secrets[member].masking_key) for member in helpers}
    run.mask().unmask()
    context = context_of(run.roster, telling)
    left = {}
    for member in telling:
        shares = {point_of(run.session, m): int.from_bytes(r.seeds[member]) for m, r in run.revealed.items()}
        three = dict(list(shares.items())[: run.session.threshold])
        own = own_mask(interpolate(three).to_bytes(32), N_SEEN, context=context, participant=member)
        rest = np.frombuffer(run.masked[member].numbers, "<u2") - own
        for helper in set(helpers) - {member}:  # adding the helper's side takes off the member's
            secret = agreed_secret(private[helper], run.roster.public[member].masking, peer=member)
            add_pair_mask(rest, secret, context=context, own=helper, peer=member)
        left[member] = rest.astype("<u2")
    others = [member for member in telling if member not in helpers]
    for member in others:
        assert is_flat(left[member].tobytes(), 2)
        assert not correlated(left[member], telling[member])
    # All that can be known was taken off: what is left of the others adds up to the sum of their vectors.
    assert np.array_equal(sum(left[member] for member in others), sum(telling[member] for member in others))


def test_nobody_reveals_both_shares_of_a_peer():
    run = Run(vectors_of(5)).share().mask(13).unmask()
    for member, message in run.revealed.items():
        assert message.seeds.keys() == set(run.vectors) - {13}
        assert message.keys.keys() == {13}
        kept = run.secrets[member]
        assert (kept.seed_shares, kept.key_shares) == (message.seeds, message.keys)  # the others are deleted


def test_keys_are_deleted_once_the_vector_is_masked():
    run = Run(vectors_of(3)).share()
    before = run.secrets[3]
    run.mask()
    stored = run.secrets[3].to_bytes()
    for secret in (before.cipher_key, before.masking_key, before.seed):
        assert len(secret) == 32
        assert secret in before.to_bytes()
        assert secret not in stored


# Nodes


def test_a_node_needs_nothing_between_two_messages_but_bytes():
    run = Run(vectors_of(3))
    stored, keys = answer(run.session.to_bytes(), 3, step=Step.ADVERTISE)
    secrets = Secrets.from_bytes(stored)
    assert secrets.session == run.session
    run.secrets[3], run.keys[3] = secrets, type(run.keys[3]).from_bytes(keys)
    assert run.share().mask().unmask().recover().total.tolist() == plain_sum(run.vectors)


def test_a_node_refuses_secrets_that_are_damaged_or_of_another_participant():
    run = Run(vectors_of(3))
    roster = collect_keys(run.session, run.keys.values()).to_bytes()
    stored = run.secrets[3].to_bytes()
    for damaged in (b"", stored[:-5], stored[:50] + b"?" + stored[51:]):
        with pytest.raises(DataError, match=r"Secrets: (0 bytes that are not|cut short or changed)"):
            answer(roster, 3, step=Step.SHARE, stored=damaged)
    with pytest.raises(DataError, match="participant 3: these are its secrets, not those of participant 13"):
        answer(roster, 13, step=Step.SHARE, stored=stored)
    run.share()
    inbox = route_shares(run.session, run.roster, messages=run.outboxes.values())[3].to_bytes()
    with pytest.raises(DataError, match="step MASK needs its vector"):
        answer(inbox, 3, step=Step.MASK, stored=run.secrets[3].to_bytes())


def test_a_simulation_without_vectors_or_with_strangers_that_drop_out_is_refused():
    with pytest.raises(DataError, match="no vectors, or somebody drops out who has none"):
        secure_sum({})
    with pytest.raises(DataError, match="no vectors, or somebody drops out who has none"):
        secure_sum(vectors_of(3), dropped={99: Step.MASK})
    with pytest.raises(DataError, match="at least 2 members"):
        secure_sum(vectors_of(1), threshold=2)


def test_without_the_package_the_extra_is_named(capsys):
    def command() -> int:
        raise ModuleNotFoundError("No module named 'cryptography'", name="cryptography")

    assert run_command(command) == 1
    assert "install the extra secure" in capsys.readouterr().err
