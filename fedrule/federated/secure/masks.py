"""Keys, ciphers and masks of a secure sum: what both sides compute, from primitives of the package `cryptography`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from datasets.common.errors import DataError
from fedrule.federated.secure.messages import KEY_BYTES, Rejected, Roster, Session, integers, sha256

Integers: TypeAlias = npt.NDArray[np.int64]
Residues: TypeAlias = npt.NDArray[np.uint64]  # modulo 2^64, of which 2^k is a divisor


def context_of(roster: Roster, senders: Collection[int]) -> bytes:
    """Depends on the session, on all keys and on who sent shares: all that masks have to agree on."""
    return sha256(b"context", roster.digest, integers(sorted(senders)))


def point_of(session: Session, participant: int) -> int:
    """Where the polynomial of a secret is evaluated for a participant; 0 is the secret itself."""
    return session.members.index(participant) + 1


def commitment_to(session: Session, participant: int, seed: bytes) -> bytes:
    return sha256(b"seed", session.digest, integers([participant]), seed)


def derived_key(secret: bytes, label: bytes, *, context: bytes, participants: tuple[int, ...]) -> bytes:
    """A key for one purpose, between these participants, in this context."""
    info = label + context + integers(participants)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def agreed_secret(private: X25519PrivateKey, public: bytes, *, peer: int) -> bytes:
    """What X25519 gives both sides of a pair. The public key is that of `peer`."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a point of small order, with which the secret would be zero
        raise Rejected(peer, "its public key is invalid; leave it out") from None


def share_cipher(secret: bytes, context: bytes, *, sender: int, recipient: int) -> tuple[ChaCha20Poly1305, bytes]:
    """The cipher of one participant's shares for another, and the associated data that it authenticates."""
    key = derived_key(secret, b"fedrule shares", context=context, participants=(sender, recipient))
    return ChaCha20Poly1305(key), context + integers((sender, recipient))


def key_stream(key: bytes, size: int) -> Residues:
    """ChaCha20 from block 0 with nonce 0, which is sound because each key has one stream only."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


def own_mask(seed: bytes, size: int, *, context: bytes, participant: int) -> Residues:
    return key_stream(derived_key(seed, b"fedrule own mask", context=context, participants=(participant,)), size)


def add_pair_mask(total: Residues, secret: bytes, *, context: bytes, own: int, peer: int) -> None:
    """Add to `total`, in place, what `own` adds for its pair with `peer`: the mask or its negative."""
    pair = (min(own, peer), max(own, peer))
    stream = key_stream(derived_key(secret, b"fedrule pair mask", context=context, participants=pair), len(total))
    if own < peer:
        total += stream
    else:
        total -= stream


def packed(session: Session, values: Residues) -> bytes:
    """The low k bits of each number."""
    as_bytes = values.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    return as_bytes[:, : session.bytes_per_number].tobytes()


def unpacked(session: Session, sender: int, *, numbers: bytes) -> Residues:
    width = session.bytes_per_number
    if len(numbers) != width * session.size:
        raise Rejected(sender, f"its masked vector has {len(numbers)} bytes, not {session.size} times {width}")
    as_bytes = np.zeros((session.size, 8), dtype=np.uint8)
    as_bytes[:, :width] = np.frombuffer(numbers, dtype=np.uint8).reshape(-1, width)
    return as_bytes.view("<u8")[:, 0].astype(np.uint64, copy=False)


def signed(session: Session, total: Residues, *, n: int) -> Integers:
    """The number of [-2^(k-1), 2^(k-1)) that equals each sum modulo 2^k; refused if n addends cannot give it."""
    spare = np.uint64(64 - session.bits)
    values: Integers = (total << spare).view(np.int64) >> np.int64(spare)
    if max(-int(values.min()), int(values.max())) > n * session.bound:
        raise DataError(
            f"secure sum {session.name!r}: a sum is larger than {n} vectors within the bound can give: a masked vector "
            "was changed on the way, or a participant did not keep to the bound; start a new session"
        )
    return values
