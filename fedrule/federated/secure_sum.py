"""Sums of vectors that the server cannot look into (Bonawitz et al. 2017, Practical Secure Aggregation).

Participants u, v have integer vectors x_u. Each pair shares a mask m_uv, which u adds if u < v and subtracts otherwise,
and each participant has a mask p_u of its own; all are key streams of ChaCha20. The server receives

    y_u = x_u + p_u + sum_{v > u} m_uv - sum_{v < u} m_uv   modulo 2^k

In the sum the masks of pairs cancel out. Own masks, and masks of pairs with those who dropped out, are recovered from
Shamir shares of the seed of p_u, or of the private key behind the m_uv, that participants dealt to each other before.
2^k is more than any sum can be, so the result equals the plain sum, bit for bit. There are four steps, each a pure
function from one message to another; between two of them a participant keeps `Secrets`, which a node writes to a file:

    step       to the participant   function    from the participant   server
    ADVERTISE  Session              advertise   Keys                   collect_keys
    SHARE      Roster               share       Outbox                 route_shares
    MASK       Inbox                mask        Masked                 add_masked
    UNMASK     Survivors            unmask      Revealed               recover_sum

Store the new secrets before the message is sent: a vector masked twice with the same secrets gives away the difference.

Threat model: the server is honest but curious. It learns the sum and who took part, but no single vector, even together
with fewer than `threshold` participants. Not protected against: a server that breaks the protocol, by lying about who
dropped out (with 2 threshold - n or more participants on its side) or by replacing keys and inventing participants;
`threshold` or more participants who collude with it; what the sum itself says; participants who add nonsense or make
the sum fail. This code has not been audited. Noise for differential privacy is added by a participant to its own
vector, before `mask`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import thread_time
from typing import Protocol, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from datasets.common.errors import DataError
from fedrule.federated.secure.masks import (
    Integers,
    Residues,
    add_pair_mask,
    agreed_secret,
    commitment_to,
    context_of,
    own_mask,
    packed,
    point_of,
    share_cipher,
    signed,
    unpacked,
)
from fedrule.federated.secure.messages import (
    KEY_BYTES,
    BelowThreshold,
    Inbox,
    Keys,
    Masked,
    Outbox,
    PublicKeys,
    Rejected,
    Revealed,
    Roster,
    Secrets,
    Session,
    Step,
    Survivors,
    WrongShares,
    largest_bound,
    threshold_of,
)
from fedrule.federated.secure.shamir import SHARE_BYTES, consistent, deal

NONCE_BYTES = 12  # of ChaCha20-Poly1305


# Participants


def advertise(session: Session, participant: int) -> tuple[Secrets, Keys]:
    """Step 1: new keys and a new seed, for this session alone."""
    if participant not in session.members:
        raise DataError(f"secure sum {session.name!r}: participant {participant} is not one of its members")
    cipher_key, masking_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    seed = os.urandom(KEY_BYTES)
    public = PublicKeys(
        cipher_key.public_key().public_bytes_raw(),
        masking_key.public_key().public_bytes_raw(),
        commitment_to(session, participant, seed),
    )
    secrets = Secrets(
        session,
        participant,
        Step.ADVERTISE,
        cipher_key.private_bytes_raw(),
        masking_key.private_bytes_raw(),
        seed,
        public={participant: public},
    )
    return secrets, Keys(session.digest, participant, public)


def share(secrets: Secrets, roster: Roster) -> tuple[Secrets, Outbox]:
    """Step 2: shares of the own masking key and of the own seed, one encrypted for each participant of the roster."""
    session, own = secrets.session, secrets.participant
    _expect(secrets, Step.SHARE, roster.session)
    _check_roster(session, roster)
    if roster.public.get(own) != secrets.public[own]:
        raise _refusal(secrets, "its keys are missing from the key list or were replaced; start a new session")
    points = [point_of(session, peer) for peer in roster.public]
    both = (int.from_bytes(secret) for secret in (secrets.masking_key, secrets.seed))
    dealt = (deal(secret, points, threshold=session.threshold) for secret in both)
    pairs = dict(zip(roster.public, zip(*dealt, strict=True), strict=True))  # shares of key and seed, by recipient
    context, private = roster.digest, X25519PrivateKey.from_private_bytes(secrets.cipher_key)
    sealed = {}
    for peer, (key_share, seed_share) in pairs.items():
        if peer == own:
            continue
        secret = agreed_secret(private, roster.public[peer].cipher, peer=peer)
        cipher, header = share_cipher(secret, context, sender=own, recipient=peer)
        nonce = os.urandom(NONCE_BYTES)
        plain = key_share.to_bytes(SHARE_BYTES) + seed_share.to_bytes(SHARE_BYTES)
        sealed[peer] = nonce + cipher.encrypt(nonce, plain, header)
    key_share, seed_share = pairs[own]
    kept = replace(
        secrets,
        done=Step.SHARE,
        public=dict(roster.public),
        key_shares={own: key_share.to_bytes(SHARE_BYTES)},
        seed_shares={own: seed_share.to_bytes(SHARE_BYTES)},
    )
    return kept, Outbox(session.digest, own, sealed)


def mask(secrets: Secrets, inbox: Inbox, *, vector: Integers) -> tuple[Secrets, Masked]:
    """Step 3: open the shares of the others, and mask the vector. Keys and seed are deleted."""
    session, own = secrets.session, secrets.participant
    _expect(secrets, Step.MASK, inbox.session)
    _check_vector(session, own, vector=vector)
    senders = tuple(sorted({*inbox.sealed, own}))
    if inbox.participant != own or own in inbox.sealed or not secrets.public.keys() >= inbox.sealed.keys():
        raise _refusal(secrets, "got shares that are for another participant, or from one that is not in the key list")
    _require(session, senders, what="sent shares")
    roster = Roster(session.digest, secrets.public)
    listed, context = roster.digest, context_of(roster, senders)
    cipher_key = X25519PrivateKey.from_private_bytes(secrets.cipher_key)
    masking_key = X25519PrivateKey.from_private_bytes(secrets.masking_key)
    key_shares, seed_shares = dict(secrets.key_shares), dict(secrets.seed_shares)
    total = vector.astype(np.uint64)
    total += own_mask(secrets.seed, session.size, context=context, participant=own)
    for peer, sealed in inbox.sealed.items():
        public = secrets.public[peer]
        secret = agreed_secret(cipher_key, public.cipher, peer=peer)
        cipher, header = share_cipher(secret, listed, sender=peer, recipient=own)
        try:
            plain = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], header)
        except (InvalidTag, ValueError):  # the latter if not even the nonce is there
            raise _refusal(
                secrets,
                f"the shares of participant {peer} cannot be opened: they were changed on the way, or belong to "
                f"another session or key list; start a new session, without participant {peer} if it happens again",
            ) from None
        if len(plain) != 2 * SHARE_BYTES:
            raise _refusal(secrets, f"the shares of participant {peer} have {len(plain)} bytes, not {2 * SHARE_BYTES}")
        key_shares[peer], seed_shares[peer] = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
        add_pair_mask(total, agreed_secret(masking_key, public.masking, peer=peer), context=context, own=own, peer=peer)
    kept = replace(
        secrets,
        done=Step.MASK,
        cipher_key=b"",
        masking_key=b"",
        seed=b"",
        key_shares=key_shares,
        seed_shares=seed_shares,
    )
    return kept, Masked(session.digest, own, context, packed(session, total))


def unmask(secrets: Secrets, survivors: Survivors) -> tuple[Secrets, Revealed]:
    """Step 4: for each survivor a share of its seed, for everybody else one of its masking key, for nobody both.

    Only one set of survivors is ever answered (the same one again, if the answer got lost): with the shares of the key
    and of the seed of one participant the server could unmask its vector. What is not revealed is deleted.
    """
    session, own, asked = secrets.session, secrets.participant, survivors.participants
    again = replace(secrets, done=Step.MASK) if secrets.done == Step.UNMASK else secrets
    _expect(again, Step.UNMASK, survivors.session)
    if secrets.survivors not in ((), asked):
        raise _refusal(secrets, "was asked about two different sets of survivors in one session, and answers one only")
    _require(session, asked, what="are named as survivors")
    if own not in asked or not secrets.seed_shares.keys() | secrets.key_shares.keys() >= set(asked):
        raise _refusal(secrets, "it is not among the survivors, or one of them never sent it shares")
    seeds = {peer: value for peer, value in secrets.seed_shares.items() if peer in asked}
    keys = {peer: value for peer, value in secrets.key_shares.items() if peer not in asked}
    kept = replace(secrets, done=Step.UNMASK, key_shares=keys, seed_shares=seeds, survivors=asked)
    return kept, Revealed(session.digest, own, seeds, keys)


def answer(
    message: bytes, participant: int, *, step: Step, stored: bytes = b"", vector: Integers | None = None
) -> tuple[bytes, bytes]:
    """A step as a node takes it, from bytes to bytes: the secrets to store, then the message to send.

    `stored` is empty in the first step; `vector` is needed in step MASK only.
    """
    if step == Step.ADVERTISE:
        secrets, reply = advertise(Session.from_bytes(message), participant)
        return secrets.to_bytes(), reply.to_bytes()
    before = Secrets.from_bytes(stored)
    if before.participant != participant:
        raise _refusal(before, f"these are its secrets, not those of participant {participant}")
    after: tuple[Secrets, Outbox | Masked | Revealed]
    if step == Step.SHARE:
        after = share(before, Roster.from_bytes(message))
    elif step == Step.MASK:
        if vector is None:
            raise _refusal(before, "step MASK needs its vector")
        after = mask(before, Inbox.from_bytes(message), vector=vector)
    else:
        after = unmask(before, Survivors.from_bytes(message))
    return after[0].to_bytes(), after[1].to_bytes()


def _expect(secrets: Secrets, step: Step, session: bytes) -> None:
    if session != secrets.session.digest:
        raise _refusal(secrets, f"got a message of another session in step {step.name}; it may be a replayed one")
    if secrets.done != step - 1:
        last = Step(secrets.done).name
        raise _refusal(secrets, f"cannot take step {step.name} after {last}; each is taken once, in order")


def _refusal(secrets: Secrets, reason: str) -> DataError:
    return DataError(f"secure sum {secrets.session.name!r}: participant {secrets.participant}: {reason}")


def _check_vector(session: Session, own: int, *, vector: Integers) -> None:
    where = f"secure sum {session.name!r}: participant {own}"
    if vector.dtype != np.int64 or vector.shape != (session.size,):
        raise DataError(
            f"{where}: its vector must have {session.size} numbers of type int64, "
            f"got {vector.dtype} of shape {vector.shape}"
        )
    smallest, largest = int(vector.min()), int(vector.max())
    if max(-smallest, largest) > session.bound:
        raise DataError(
            f"{where}: its numbers are from {smallest} to {largest}, but the bound of the session is {session.bound}: "
            "the sum could overflow; clip the vector, or start a session with a larger bound"
        )


# Server


@dataclass(frozen=True)
class MaskedSum:
    """The sum of the vectors that arrived, with their masks."""

    total: Residues
    senders: tuple[int, ...]  # of shares: with each of them the survivors have masks
    survivors: tuple[int, ...]  # whose vectors arrived

    def question(self, session: Session) -> Survivors:
        return Survivors(session.digest, self.survivors)


@dataclass(frozen=True)
class Recovered:
    """The sum, and the survivors who sent wrong shares, which it could do without."""

    total: Integers
    wrong: tuple[int, ...]


def collect_keys(session: Session, messages: Iterable[Keys]) -> Roster:
    """After step 1: the key list."""
    received = _by_participant(session, messages, allowed=session.members)
    roster = Roster(session.digest, {peer: message.public for peer, message in sorted(received.items())})
    _check_roster(session, roster)
    return roster


def route_shares(session: Session, roster: Roster, *, messages: Iterable[Outbox]) -> dict[int, Inbox]:
    """After step 2: for everyone that sent shares, the shares from the others that did."""
    received = _by_participant(session, messages, allowed=roster.public)
    for sender, message in received.items():
        if message.sealed.keys() != roster.public.keys() - {sender}:
            raise Rejected(sender, "did not send shares for exactly the others of the key list; leave it out")
    _require(session, received, what="sent shares")
    return {
        recipient: Inbox(
            session.digest,
            recipient,
            {sender: received[sender].sealed[recipient] for sender in sorted(received) if sender != recipient},
        )
        for recipient in sorted(received)
    }


def add_masked(session: Session, roster: Roster, *, senders: Collection[int], messages: Iterable[Masked]) -> MaskedSum:
    """After step 3: the sum of the masked vectors of those that sent shares."""
    everybody = tuple(sorted(senders))
    context, total = context_of(roster, everybody), np.zeros(session.size, dtype=np.uint64)
    survivors = []
    for sender, message in _each(session, messages, allowed=everybody):
        if message.context != context:
            raise Rejected(sender, "masked its vector for another key list or other senders of shares; leave it out")
        total += unpacked(session, sender, numbers=message.numbers)
        survivors.append(sender)
    _require(session, survivors, what="sent a masked vector")
    return MaskedSum(total, everybody, tuple(sorted(survivors)))


def recover_sum(session: Session, roster: Roster, *, masked: MaskedSum, messages: Iterable[Revealed]) -> Recovered:
    """After step 4: take off the own masks of the survivors and their masks with those who dropped out.

    Each recovered seed and key is compared with what its owner advertised. If it differs, and more shares came than are
    needed, a subset that fits is looked for, and the senders of the wrong ones are named in the result.
    """
    received = _by_participant(session, messages, allowed=masked.survivors)
    gone = tuple(sorted(set(masked.senders) - set(masked.survivors)))
    for sender, message in received.items():
        if tuple(sorted(message.seeds)) != masked.survivors or tuple(sorted(message.keys)) != gone:
            raise Rejected(sender, "did not send the shares that it was asked for; leave it out")
        if {*map(len, message.seeds.values()), *map(len, message.keys.values())} != {SHARE_BYTES}:
            raise Rejected(sender, f"shares must have {SHARE_BYTES} bytes each; leave it out")
    _require(session, received, what="sent shares of the masks")
    order = sorted(received)  # whoever sent a wrong share moves to the end
    wrong: set[int] = set()

    def recover(
        owner: int, revealed: Mapping[int, bytes], *, advertised: bytes, public_of: Callable[[bytes], bytes]
    ) -> bytes:
        shares = {point_of(session, sender): int.from_bytes(revealed[sender]) for sender in order}

        def fits(secret: int) -> bool:
            return secret.bit_length() <= 8 * KEY_BYTES and public_of(secret.to_bytes(KEY_BYTES)) == advertised

        found = consistent(shares, session.threshold, accept=fits)
        if found is None:
            raise WrongShares(
                owner,
                f"secure sum {session.name!r}: the {len(shares)} shares of participant {owner} do not give what it "
                f"advertised, in no subset of {session.threshold} that was tried: it dealt wrong shares, or too many "
                f"survivors sent wrong ones; the sum is lost, start a new session without participant {owner}",
            )
        secret, points = found
        wrong.update(session.members[point - 1] for point in points)
        order.sort(key=lambda sender: (sender in wrong, sender))
        return secret.to_bytes(KEY_BYTES)

    context, total = context_of(roster, masked.senders), masked.total.copy()
    for survivor in masked.survivors:
        seed = recover(
            survivor,
            {sender: message.seeds[survivor] for sender, message in received.items()},
            advertised=roster.public[survivor].commitment,
            public_of=partial(commitment_to, session, survivor),
        )
        total -= own_mask(seed, session.size, context=context, participant=survivor)
    for absent in gone:
        key = recover(
            absent,
            {sender: message.keys[absent] for sender, message in received.items()},
            advertised=roster.public[absent].masking,
            public_of=_public_bytes,
        )
        private = X25519PrivateKey.from_private_bytes(key)
        for survivor in masked.survivors:  # what the absent one would have added is the negative of what they added
            secret = agreed_secret(private, roster.public[survivor].masking, peer=survivor)
            add_pair_mask(total, secret, context=context, own=absent, peer=survivor)
    return Recovered(signed(session, total, n=len(masked.survivors)), tuple(sorted(wrong)))


class _Message(Protocol):
    @property
    def session(self) -> bytes: ...
    @property
    def participant(self) -> int: ...


M = TypeVar("M", bound=_Message)


def _each(session: Session, messages: Iterable[M], *, allowed: Collection[int]) -> Iterator[tuple[int, M]]:
    """The messages of a step by their senders, each of which may send one."""
    digest, seen = session.digest, set[int]()
    for message in messages:
        sender, name = message.participant, type(message).__name__
        if message.session != digest:
            raise Rejected(sender, f"{name} of another session; it may be a replayed one; leave it out")
        if sender not in allowed:
            raise Rejected(sender, f"{name} from one who is not a member or missed an earlier step; leave it out")
        if sender in seen:
            raise Rejected(sender, f"sent {name} twice; keep the first")
        seen.add(sender)
        yield sender, message


def _by_participant(session: Session, messages: Iterable[M], *, allowed: Collection[int]) -> dict[int, M]:
    return dict(_each(session, messages, allowed=allowed))


def _public_bytes(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


# Checks on both sides


def _require(session: Session, participants: Collection[int], *, what: str) -> None:
    if len(participants) < session.threshold:
        raise BelowThreshold(
            f"secure sum {session.name!r}: {len(participants)} of {len(session.members)} participants {what}, but the "
            f"threshold is {session.threshold}: this sum is given up, nobody's vector is known; start a new session"
        )


def _check_roster(session: Session, roster: Roster) -> None:
    _require(session, roster.public, what="sent keys")
    owners: dict[bytes, int] = {}
    for participant, public in roster.public.items():
        if participant not in session.members:
            raise Rejected(participant, "is in the key list, but not a member of the session; leave it out")
        for key in (public.cipher, public.masking, public.commitment):
            if key in owners:
                raise Rejected(
                    participant,
                    f"has a key that participant {owners[key]} has, too; keys are used once, by one; leave it out",
                )
            owners[key] = participant


# All of it in one process


@dataclass(frozen=True)
class Cost:
    """What one step costs one participant."""

    sent: int  # bytes
    received: int
    seconds: float  # of processor time


@dataclass(frozen=True)
class SecureSum:
    """A sum, and what it cost."""

    total: Integers
    counted: tuple[int, ...]  # whose vectors are in it
    wrong: tuple[int, ...]  # who sent wrong shares
    costs: dict[int, dict[Step, Cost]]  # by participant and step, as far as each came
    server_seconds: float  # of processor time


def secure_sum(
    vectors: Mapping[int, Integers],
    *,
    threshold: int | None = None,
    bound: int | None = None,
    dropped: Mapping[int, Step] | None = None,
    name: str = "simulation",
) -> SecureSum:
    """All participants and the server in one process. As between machines, nothing is passed on but bytes.

    `dropped` has the first step that a participant misses: its vector counts if that is UNMASK. Without a bound, it is
    the largest one that 64 bits allow. BelowThreshold if too few are left at some step.
    """
    members, gone = tuple(sorted(map(int, vectors))), dropped or {}
    if not members or not set(gone) <= set(members):
        raise DataError("secure sum: no vectors, or somebody drops out who has none")
    session = Session(
        name,
        members,
        threshold_of(len(members)) if threshold is None else threshold,
        len(vectors[members[0]]),
        largest_bound(len(members)) if bound is None else bound,
    )
    stored: dict[int, bytes] = {}
    costs: dict[int, dict[Step, Cost]] = {member: {} for member in members}
    start = thread_time()

    def replies(step: Step, messages: Mapping[int, bytes]) -> list[bytes]:
        """What those who are still there answer to their messages."""
        received = []
        for member, message in messages.items():
            if gone.get(member, step + 1) <= step:
                continue
            begin = thread_time()
            kept = stored.get(member, b"")
            stored[member], reply = answer(message, member, step=step, stored=kept, vector=vectors[member])
            costs[member][step] = Cost(len(reply), len(message), thread_time() - begin)
            received.append(reply)
        return received

    keys = replies(Step.ADVERTISE, dict.fromkeys(members, session.to_bytes()))
    roster = collect_keys(session, map(Keys.from_bytes, keys))
    outboxes = replies(Step.SHARE, dict.fromkeys(roster.public, roster.to_bytes()))
    inboxes = route_shares(session, roster, messages=map(Outbox.from_bytes, outboxes))
    masked_vectors = replies(Step.MASK, {member: inbox.to_bytes() for member, inbox in inboxes.items()})
    masked = add_masked(session, roster, senders=inboxes, messages=map(Masked.from_bytes, masked_vectors))
    revealed = replies(Step.UNMASK, dict.fromkeys(masked.survivors, masked.question(session).to_bytes()))
    recovered = recover_sum(session, roster, masked=masked, messages=map(Revealed.from_bytes, revealed))
    of_participants = sum(cost.seconds for steps in costs.values() for cost in steps.values())
    server_seconds = thread_time() - start - of_participants
    return SecureSum(recovered.total, masked.survivors, recovered.wrong, costs, server_seconds)
