"""Secure sums: equal to plain ones whoever drops out, flat to the server, and nothing wrong goes unnoticed.

Keys are drawn anew in every run. Where a statistic of them is tested, the probability of a false alarm is stated; it is
below 1e-6 in each test.
"""

from __future__ import annotations

from dataclasses import replace
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
    Inbox,
    Masked,
    PublicKeys,
    Rejected,
    Revealed,
    Roster,
    Secrets,
    Session,
    Step,
    Survivors,
    default_threshold,
    largest_bound,
)
from fedrule.federated.secure.shamir import SHARE_BYTES, interpolate
from fedrule.federated.secure_sum import (
    add_masked,
    advertise,
    answer,
    collect_keys,
    mask,
    recover_sum,
    route_shares,
    secure_sum,
    share,
    unmask,
)

NEVER = None  # drops out
FATES = (*Step, NEVER)
BOUND = 1_000


def vectors_of(n: int, *, size: int = 5, bound: int = BOUND) -> dict[int, np.ndarray]:
    """Numbers within the bound, of participants 3, 13, 23, ..."""
    rng = np.random.default_rng(n)
    return {3 + 10 * i: rng.integers(-bound, bound, size, endpoint=True) for i in range(n)}


def session_of(vectors: dict[int, np.ndarray], *, threshold: int = 0, bound: int = BOUND, name: str = "s") -> Session:
    members = tuple(vectors)
    return Session(name, members, threshold or default_threshold(len(members)), len(vectors[members[0]]), bound)


class Run:
    """A session step by step, so that a test can change what is sent in between."""

    def __init__(self, vectors: dict[int, np.ndarray], **options: object) -> None:
        self.vectors, self.session = vectors, session_of(vectors, **options)
        first = {member: advertise(self.session, member) for member in vectors}
        self.secrets = {member: secrets for member, (secrets, _) in first.items()}
        self.keys = {member: keys for member, (_, keys) in first.items()}

    def share(self) -> Run:
        self.roster = collect_keys(self.session, self.keys.values())
        return self.share_with(dict.fromkeys(self.vectors, self.roster))

    def share_with(self, rosters: dict[int, Roster]) -> Run:
        self.outboxes = {}
        for member, roster in rosters.items():
            self.secrets[member], self.outboxes[member] = share(self.secrets[member], roster)
        return self

    def mask(self, *absent: int) -> Run:
        self.inboxes = route_shares(self.session, self.roster, messages=self.outboxes.values())
        self.masked = {}
        for member, inbox in self.inboxes.items():
            if member not in absent:
                vector = self.vectors[member]
                self.secrets[member], self.masked[member] = mask(self.secrets[member], inbox, vector=vector)
        return self

    def unmask(self, *absent: int) -> Run:
        self.total = add_masked(self.session, self.roster, senders=self.inboxes, messages=self.masked.values())
        question = self.total.question(self.session)
        self.revealed = {}
        for member in self.total.survivors:
            if member not in absent:
                self.secrets[member], self.revealed[member] = unmask(self.secrets[member], question)
        return self

    def recover(self):
        return recover_sum(self.session, self.roster, masked=self.total, messages=self.revealed.values())


def plain_sum(vectors: dict[int, np.ndarray], *, without: tuple[int, ...] = ()) -> list[int]:
    kept = [vector.tolist() for member, vector in vectors.items() if member not in without]
    return [sum(column) for column in zip(*kept, strict=True)]  # of Python, which has no overflow


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


# What participants refuse


def test_an_addend_beyond_the_bound_is_refused_by_its_owner():
    for number in (BOUND + 1, -BOUND - 1, -(2**63)):
        run = Run({**vectors_of(3), 13: np.array([0, 0, number, 0, 0])}).share()
        with pytest.raises(DataError, match=rf"participant 13: its numbers are from .*bound of the session is {BOUND}"):
            run.mask()


@pytest.mark.parametrize("vector", [np.zeros(5), np.zeros(4, np.int64), np.zeros((5, 1), np.int64)])
def test_a_vector_of_another_type_or_size_is_refused(vector):
    run = Run(vectors_of(3)).share()
    run.vectors[3] = vector
    with pytest.raises(DataError, match=r"participant 3: its vector must have 5 numbers of type int64, got"):
        run.mask()


def test_own_keys_that_are_missing_or_changed_are_noticed():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    other = advertise(run.session, 3)[1].public
    mine = run.keys[3].public
    for public in (other, replace(mine, cipher=other.cipher), replace(mine, commitment=other.commitment), None):
        changed = {**roster.public, 3: public} if public else {m: k for m, k in roster.public.items() if m != 3}
        with pytest.raises(DataError, match="participant 3: its keys are missing from the key list or were replaced"):
            share(run.secrets[3], replace(roster, public=changed))


def test_a_public_key_that_two_have_is_refused_by_both_sides():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    for field in ("cipher", "masking", "commitment"):
        copied = replace(roster.public[13], **{field: getattr(roster.public[23], field)})
        with pytest.raises(Rejected, match="participant 23: has a key that participant 13 has, too"):
            share(run.secrets[3], replace(roster, public={**roster.public, 13: copied}))
        with pytest.raises(Rejected, match="has a key that participant"):
            collect_keys(
                run.session, [*(k for m, k in run.keys.items() if m != 13), replace(run.keys[13], public=copied)]
            )


def test_an_invalid_public_key_is_named():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    zero = replace(roster.public[13], cipher=bytes(32))  # a point with which every secret is zero
    with pytest.raises(Rejected, match="participant 13: its public key is invalid"):
        share(run.secrets[3], replace(roster, public={**roster.public, 13: zero}))


def test_a_key_list_below_the_threshold_or_with_strangers_is_refused():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    few = {member: roster.public[member] for member in (3, 13)}
    with pytest.raises(BelowThreshold, match="2 of 4 participants sent keys, but the threshold is 3"):
        share(run.secrets[3], replace(roster, public=few))
    stranger = PublicKeys(b"1" * 32, b"2" * 32, b"3" * 32)
    with pytest.raises(Rejected, match="participant 99: is in the key list, but not a member"):
        share(run.secrets[3], replace(roster, public={**roster.public, 99: stranger}))


def test_steps_are_taken_once_and_in_order():
    run = Run(vectors_of(3))
    roster = collect_keys(run.session, run.keys.values())
    inbox = Inbox(run.session.digest, 3, {})
    with pytest.raises(DataError, match="cannot take step MASK after ADVERTISE"):
        mask(run.secrets[3], inbox, vector=run.vectors[3])
    run.share()
    with pytest.raises(DataError, match="cannot take step SHARE after SHARE"):
        share(run.secrets[3], roster)
    with pytest.raises(DataError, match="cannot take step UNMASK after SHARE"):
        unmask(run.secrets[3], Survivors(run.session.digest, (3, 13, 23)))
    run.mask()
    with pytest.raises(DataError, match="cannot take step MASK after MASK"):
        mask(run.secrets[3], run.inboxes[3], vector=run.vectors[3])


def test_one_set_of_survivors_is_answered_and_no_other():
    run = Run(vectors_of(4)).share().mask().unmask()
    secrets, question = run.secrets[3], run.total.question(run.session)
    assert unmask(secrets, question) == (secrets, run.revealed[3])  # the answer got lost
    with pytest.raises(DataError, match="two different sets of survivors in one session"):
        unmask(secrets, replace(question, participants=(3, 13, 23)))


def test_survivors_below_the_threshold_or_that_cannot_be_are_refused():
    run = Run(vectors_of(5), threshold=3).share()
    del run.outboxes[33]
    run.mask()
    digest, secrets = run.session.digest, run.secrets[3]
    with pytest.raises(BelowThreshold, match="2 of 5 participants are named as survivors, but the threshold is 3"):
        unmask(secrets, Survivors(digest, (3, 13)))
    for impossible in ((13, 23, 43), (3, 13, 33), (3, 13, 99)):  # without itself, without shares, a stranger
        with pytest.raises(DataError, match="not among the survivors, or one of them never sent it shares"):
            unmask(secrets, Survivors(digest, impossible))


def test_shares_of_too_few_or_for_another_participant_are_refused():
    run = Run(vectors_of(4)).share()
    inbox = route_shares(run.session, run.roster, messages=run.outboxes.values())[3]
    for wrong in (replace(inbox, participant=13), replace(inbox, sealed={**inbox.sealed, 99: b""})):
        with pytest.raises(DataError, match="shares that are for another participant, or from one that is not in"):
            mask(run.secrets[3], wrong, vector=run.vectors[3])
    with pytest.raises(BelowThreshold, match="2 of 4 participants sent shares"):
        mask(run.secrets[3], replace(inbox, sealed={13: inbox.sealed[13]}), vector=run.vectors[3])


@pytest.mark.parametrize("place", [0, 20, -1])  # the nonce, the text, the tag
def test_a_changed_share_is_noticed_by_its_recipient(place):
    run = Run(vectors_of(4)).share()
    sealed = bytearray(run.outboxes[13].sealed[3])
    sealed[place] ^= 1
    run.outboxes[13].sealed[3] = bytes(sealed)
    with pytest.raises(DataError, match="participant 3: the shares of participant 13 cannot be opened"):
        run.mask()


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(200)])
def test_shares_of_another_length_are_noticed(sealed):
    run = Run(vectors_of(4)).share()
    run.outboxes[13].sealed[3] = sealed
    with pytest.raises(DataError, match="the shares of participant 13 cannot be opened"):
        run.mask()


def test_shares_that_were_swapped_between_participants_are_noticed():
    run = Run(vectors_of(4)).share()
    run.outboxes[13].sealed[3] = run.outboxes[23].sealed[3]
    with pytest.raises(DataError, match="participant 3: the shares of participant 13 cannot be opened"):
        run.mask()


# Replays


def test_a_message_of_an_earlier_session_is_noticed_in_every_step():
    before = Run(vectors_of(4), name="round 1").share().mask(13).unmask()
    now = Run(vectors_of(4), name="round 2")
    with pytest.raises(Rejected, match="participant 3: Keys of another session; it may be a replayed one"):
        collect_keys(now.session, [before.keys[3], *now.keys.values()])
    with pytest.raises(DataError, match="message of another session in step SHARE"):
        share(now.secrets[3], before.roster)
    now.share()
    with pytest.raises(Rejected, match="Outbox of another session"):
        route_shares(now.session, now.roster, messages=[before.outboxes[3]])
    with pytest.raises(DataError, match="message of another session in step MASK"):
        mask(now.secrets[3], before.inboxes[3], vector=now.vectors[3])
    now.mask(13)
    with pytest.raises(Rejected, match="Masked of another session"):
        add_masked(now.session, now.roster, senders=now.inboxes, messages=[before.masked[3]])
    with pytest.raises(DataError, match="message of another session in step UNMASK"):
        unmask(now.secrets[3], before.total.question(before.session))
    now.unmask()
    with pytest.raises(DataError, match="message of another session in step UNMASK"):  # also after its answer
        unmask(now.secrets[3], before.total.question(before.session))
    with pytest.raises(Rejected, match="Revealed of another session"):
        recover_sum(now.session, now.roster, masked=now.total, messages=[before.revealed[3]])


def test_a_replayed_key_under_the_name_of_this_session_is_noticed():
    """By its owner, or, if the owner is shown its new key, by the others, who cannot open its shares."""
    before, now = (Run(vectors_of(4), name=name) for name in ("round 1", "round 2"))
    now.roster = collect_keys(now.session, now.keys.values())
    replayed = replace(now.roster, public={**now.roster.public, 3: before.keys[3].public})
    with pytest.raises(DataError, match="participant 3: its keys are missing from the key list or were replaced"):
        share(now.secrets[3], replayed)
    now.share_with({3: now.roster, 13: replayed, 23: replayed, 33: replayed})
    with pytest.raises(DataError, match="cannot be opened: they were changed on the way, or belong to another session"):
        now.mask()


def test_replayed_shares_under_the_name_of_this_session_are_noticed():
    """Even if a participant used the same keys again, which `advertise` never does."""
    before, now = (Run(vectors_of(4), name=name) for name in ("round 1", "round 2"))
    for member, secrets in before.secrets.items():
        now.secrets[member] = replace(secrets, session=now.session)
        now.keys[member] = replace(before.keys[member], session=now.session.digest)
    before.share()
    now.share()
    now.outboxes[13] = replace(before.outboxes[13], session=now.session.digest)
    with pytest.raises(DataError, match="the shares of participant 13 cannot be opened"):
        now.mask()


def test_participants_who_were_told_different_terms_notice_it():
    """A higher threshold for one of them: its session is another one, whatever the messages say."""
    run = Run(vectors_of(4), threshold=3)
    run.secrets[3], keys = advertise(replace(run.session, threshold=4), 3)
    with pytest.raises(Rejected, match="participant 3: Keys of another session"):
        collect_keys(run.session, [keys, *(run.keys[m] for m in (13, 23, 33))])
    run.keys[3] = replace(keys, session=run.session.digest)
    roster = collect_keys(run.session, run.keys.values())
    with pytest.raises(DataError, match="message of another session in step SHARE"):
        share(run.secrets[3], roster)


# What the server refuses


def test_the_server_accepts_one_message_of_each_participant_and_no_strangers():
    run = Run(vectors_of(4))
    with pytest.raises(Rejected, match="sent Keys twice; keep the first") as error:
        collect_keys(run.session, [*run.keys.values(), run.keys[13]])
    assert error.value.participant == 13
    with pytest.raises(Rejected, match="participant 99: Keys from one who is not a member"):
        collect_keys(run.session, [*run.keys.values(), replace(run.keys[3], participant=99)])
    with pytest.raises(DataError, match="participant 99 is not one of its members"):
        advertise(run.session, 99)


def test_shares_that_are_missing_for_somebody_are_noticed_by_the_server():
    run = Run(vectors_of(4)).share()
    del run.outboxes[13].sealed[3]
    with pytest.raises(Rejected, match="participant 13: did not send shares for exactly the others"):
        run.mask()


def test_one_who_missed_a_step_cannot_come_back():
    run = Run(vectors_of(4)).share()
    late = run.outboxes.pop(3)
    run.mask()
    message = Masked(run.session.digest, 3, b"", b"")
    with pytest.raises(Rejected, match=r"participant 3: Masked from one who .* missed an earlier step"):
        add_masked(run.session, run.roster, senders=run.inboxes, messages=[*run.masked.values(), message])
    assert late.participant == 3


def test_a_vector_masked_for_other_senders_is_noticed():
    run = Run(vectors_of(4), threshold=3).share()
    inboxes = route_shares(run.session, run.roster, messages=run.outboxes.values())
    fewer = replace(inboxes[3], sealed={m: s for m, s in inboxes[3].sealed.items() if m != 33})
    _, other = mask(run.secrets[3], fewer, vector=run.vectors[3])
    run.mask()
    run.masked[3] = other
    with pytest.raises(Rejected, match="participant 3: masked its vector for another key list or other senders"):
        run.unmask()


def test_a_masked_vector_of_another_length_is_noticed():
    run = Run(vectors_of(4)).share().mask()
    run.masked[3] = replace(run.masked[3], numbers=run.masked[3].numbers[:-1])
    with pytest.raises(Rejected, match="participant 3: its masked vector has 9 bytes, not 5 times 2"):
        run.unmask()


def test_a_changed_masked_vector_gives_a_sum_that_is_out_of_bounds():
    """If the change is large: 2 bytes hold 65,536 values, and 4 numbers up to 1,000 add up to at most 4,000."""
    run = Run(vectors_of(4)).share().mask()
    numbers = bytearray(run.masked[3].numbers)
    numbers[1] ^= 0x80  # half of 65,536
    run.masked[3] = replace(run.masked[3], numbers=bytes(numbers))
    run.unmask()
    with pytest.raises(DataError, match="a sum is larger than 4 vectors within the bound can give"):
        run.recover()


def changed_share(message: Revealed, owner: int) -> Revealed:
    """With a wrong share of one participant's seed."""
    value = (int.from_bytes(message.seeds[owner]) + 1).to_bytes(SHARE_BYTES)
    return replace(message, seeds={**message.seeds, owner: value})


@pytest.mark.parametrize("owner", [3, 43])
def test_a_wrong_share_is_found_and_named_if_there_are_more_than_needed(owner):
    run = Run(vectors_of(6), threshold=4).share().mask(53).unmask()
    run.revealed[13] = changed_share(run.revealed[13], owner)
    result = run.recover()
    assert result.total.tolist() == plain_sum(run.vectors, without=(53,))
    assert result.wrong == (13,)


def test_a_wrong_share_of_a_key_is_found_as_well():
    run = Run(vectors_of(6), threshold=4).share().mask(53).unmask()
    message = run.revealed[3]
    run.revealed[3] = replace(message, keys={53: b"\xff" * SHARE_BYTES})
    result = run.recover()
    assert (result.total.tolist(), result.wrong) == (plain_sum(run.vectors, without=(53,)), (3,))


def test_a_wrong_share_without_one_to_spare_loses_the_sum_in_words():
    run = Run(vectors_of(6), threshold=5).share().mask(53).unmask()
    run.revealed[13] = changed_share(run.revealed[13], 43)
    with pytest.raises(DataError, match=r"5 shares of participant 43 do not give what it advertised.*without partici"):
        run.recover()


def test_wrong_shares_of_a_dealer_lose_the_sum_and_name_the_dealer():
    run = Run(vectors_of(6), threshold=4)
    run.secrets[23] = replace(run.secrets[23], seed=b"x" * 32)  # not the one that it committed to
    run.share().mask().unmask()
    with pytest.raises(DataError, match="6 shares of participant 23 do not give what it advertised"):
        run.recover()


def test_an_answer_that_was_not_asked_for_is_noticed():
    run = Run(vectors_of(5), threshold=3).share().mask(43).unmask()
    message = run.revealed[3]
    for wrong in (
        replace(message, keys={}),
        replace(message, seeds={**message.seeds, 43: message.seeds[3]}),
        replace(message, seeds={**message.seeds, 13: b"short"}),
    ):
        with pytest.raises(Rejected, match=r"participant 3: (did not send the shares|shares must have 33 bytes)"):
            recover_sum(run.session, run.roster, masked=run.total, messages=[wrong])


def test_the_server_goes_on_without_one_whose_message_it_rejects():
    run = Run(vectors_of(5), threshold=3).share().mask()
    run.masked[13] = replace(run.masked[13], context=b"other")
    with pytest.raises(Rejected) as error:
        run.unmask()
    del run.masked[error.value.participant]
    assert run.unmask().recover().total.tolist() == plain_sum(run.vectors, without=(13,))


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
