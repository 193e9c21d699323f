"""What the server and the participants of a secure sum send each other, and what a participant keeps in between.

Each is a dataclass that converts to bytes and back. The layout: the mark `FSUM`, a byte with the version of the
layout, a byte with the kind, the fields in their order, and the SHA-256 of all that. Integers have 8 bytes,
little-endian; texts and bytes begin with their length, tuples and dictionaries with their number of entries, in 4 bytes
each; participants come in increasing order. Messages name their session by its SHA-256, so those of another one are
noticed.

The checksum finds messages that were cut short or damaged. Whoever can write to the connection can write checksums,
too: it needs TLS, and nodes need keys of their own.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from itertools import pairwise
from typing import ClassVar, Self, SupportsIndex, get_type_hints

from cryptography.hazmat.primitives import hashes

from datasets.common.errors import DataError

MARK = b"FSUM"
VERSION = 1
HASH_BYTES = KEY_BYTES = 32
LARGEST_INTEGER = 2**64 - 1


class Step(IntEnum):
    """The message rounds of the protocol."""

    ADVERTISE = 1
    SHARE = 2
    MASK = 3
    UNMASK = 4


class BelowThreshold(DataError):
    """Too few participants are left; nothing can be recovered, and nobody's vector has been."""


class Rejected(DataError):
    """A message that the server cannot use. It may go on without the participant, as if it had dropped out."""

    def __init__(self, participant: int, reason: str) -> None:
        super().__init__(f"secure sum: participant {participant}: {reason}")
        self.participant = participant


class WrongShares(DataError):
    """The shares of a participant do not give what it advertised: the sum is lost. Begin the next one without it."""

    def __init__(self, participant: int, message: str) -> None:
        super().__init__(message)
        self.participant = participant


def sha256(*parts: bytes) -> bytes:
    """The hash of a sequence of parts; it depends on where one ends and the next begins."""
    state = hashes.Hash(hashes.SHA256())
    for part in parts:
        state.update(struct.pack("<Q", len(part)))
        state.update(part)
    return state.finalize()


def integers(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """The public side of a participant's secrets in one session."""

    cipher: bytes  # X25519, for the encryption of shares
    masking: bytes  # X25519, for the masks of pairs
    commitment: bytes  # to the seed of the own mask

    def joined(self) -> bytes:
        return self.cipher + self.masking + self.commitment


class Record:
    """A dataclass with the layout above."""

    KIND: ClassVar[int]

    def to_bytes(self) -> bytes:
        body = [MARK, bytes([VERSION, self.KIND])]
        body += (_written(getattr(self, name)) for name in _hints(type(self)))
        written = b"".join(body)
        return written + sha256(written)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Refused, in words: other data, another version or kind, anything cut short, changed or with a rest."""
        what = f"secure sum: {cls.__name__}"
        if data[: len(MARK)] != MARK or len(data) < len(MARK) + 2:
            raise DataError(f"{what}: {len(data)} bytes that are not a message of a secure sum")
        version, kind = data[len(MARK) : len(MARK) + 2]
        if version != VERSION:
            raise DataError(
                f"{what}: layout of version {version}, but this side reads version {VERSION}; "
                "run the same version of fedrule on the server and all nodes"
            )
        if kind != cls.KIND:
            names = {record.KIND: record.__name__ for record in Record.__subclasses__()}
            raise DataError(f"{what}: got a message of another kind, {names.get(kind, kind)}")
        if sha256(data[:-HASH_BYTES]) != data[-HASH_BYTES:]:
            raise DataError(f"{what}: cut short or changed on the way (checksum); have it sent again")
        reader = _Reader(data[len(MARK) + 2 : -HASH_BYTES], what)
        values = {name: reader.read(hint) for name, hint in _hints(cls).items()}
        if reader.at != len(reader.data):
            raise DataError(f"{what}: {len(reader.data) - reader.at} bytes after its end")
        make: Callable[..., Self] = cls
        return make(**values)


_HINTS: dict[
    int, dict[str, object]
] = {}  # of the fields by kind: found once, which takes longer than to read a message


def _hints(record: type[Record]) -> dict[str, object]:
    if record.KIND not in _HINTS:
        hints = get_type_hints(record)
        names = (one.name for one in fields(record))  # type: ignore[arg-type]  # every record is a dataclass
        _HINTS[record.KIND] = {name: hints[name] for name in names}
    return _HINTS[record.KIND]


def _written(value: object) -> bytes:
    if isinstance(value, str | bytes):
        data = value.encode() if isinstance(value, str) else value
        return struct.pack("<I", len(data)) + data
    if isinstance(value, PublicKeys):
        return value.joined()
    if isinstance(value, tuple):
        return struct.pack("<I", len(value)) + integers(value)
    if isinstance(value, Mapping):
        entries = (struct.pack("<Q", key) + _written(value[key]) for key in sorted(value))
        return struct.pack("<I", len(value)) + b"".join(entries)
    if isinstance(value, Record):
        return _written(value.to_bytes())
    assert isinstance(value, SupportsIndex)  # also an integer of NumPy
    return struct.pack("<Q", value)


class _Reader:
    """Reads fields one after the other."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.at = data, what, 0

    def take(self, length: int) -> bytes:
        if self.at + length > len(self.data):
            raise DataError(f"{self.what}: ends within a field")
        self.at += length
        return self.data[self.at - length : self.at]

    def count(self) -> int:
        (value,) = struct.unpack("<I", self.take(4))
        return int(value)

    def integer(self) -> int:
        (value,) = struct.unpack("<Q", self.take(8))
        return int(value)

    def read(self, hint: object) -> object:
        if hint is int:
            return self.integer()
        if hint is PublicKeys:
            return PublicKeys(self.take(KEY_BYTES), self.take(KEY_BYTES), self.take(HASH_BYTES))
        if hint is bytes:
            return self.take(self.count())
        if hint is str:
            try:
                return self.take(self.count()).decode()
            except UnicodeDecodeError:
                raise DataError(f"{self.what}: a text that is not UTF-8") from None
        if hint == tuple[int, ...]:
            return self.increasing(tuple(self.integer() for _ in range(self.count())))
        if isinstance(hint, type) and issubclass(hint, Record):
            return hint.from_bytes(self.take(self.count()))
        value = PublicKeys if hint == dict[int, PublicKeys] else bytes
        entries = [(self.integer(), self.read(value)) for _ in range(self.count())]
        self.increasing([key for key, _ in entries])
        return dict(entries)

    def increasing(self, participants: Sequence[int]) -> Sequence[int]:
        if any(a >= b for a, b in pairwise(participants)):
            raise DataError(f"{self.what}: participants are not in increasing order")
        return participants


def threshold_of(n: int, share: float = 2 / 3) -> int:
    """How many of n participants a secure sum needs: more than this share of them, at most all, at least 2."""
    return max(2, min(math.floor(share * n) + 1, n))


def largest_bound(n: int) -> int:
    """The largest addend with which a sum of n still fits into 64 bits: n b <= 2^63 - 1."""
    return (2**63 - 1) // n


@dataclass(frozen=True, slots=True)
class Session(Record):
    """What all participants of one sum have to agree on. Keys and messages depend on every field of it."""

    KIND: ClassVar[int] = 1

    name: str  # never used for another sum, e.g. the id of the run and the number of the round
    members: tuple[int, ...]  # who is invited, in increasing order
    threshold: int  # so many have to stay to the end, and so many together could look into a member's vector
    size: int  # numbers in a vector
    bound: int  # of the absolute value of each of them

    def __post_init__(self) -> None:
        n, where = len(self.members), f"secure sum {self.name!r}"
        if not self.name:
            raise DataError("secure sum: give the session a name that no other has, e.g. run and round")
        if n < 2:
            raise DataError(f"{where}: needs at least 2 members, got {n}; the sum of one is its vector")
        if any(a >= b for a, b in pairwise(self.members)):
            raise DataError(f"{where}: members must be distinct and in increasing order")
        if self.members[0] < 0 or self.members[-1] > LARGEST_INTEGER:
            raise DataError(f"{where}: members are numbers from 0 to 2^64 - 1")
        if not (n < 2 * self.threshold and 2 <= self.threshold <= n):
            raise DataError(
                f"{where}: the threshold of {n} members must be in [{max(2, n // 2 + 1)}, {n}], got {self.threshold}; "
                "half of them or fewer could be asked about one set of survivors and the rest about another"
            )
        if self.size < 1:
            raise DataError(f"{where}: vectors must have at least 1 number, got {self.size}")
        if not 1 <= self.bound <= largest_bound(n):
            raise DataError(
                f"{where}: the bound must be in [1, {largest_bound(n)}], or a sum of {n} would not fit into 64 bits; "
                f"got {self.bound}"
            )

    @property
    def bytes_per_number(self) -> int:
        """Sums are in [-n b, n b], that is 2 n b + 1 values: 2^k must be more than 2 n b. k is of whole bytes."""
        bits = (2 * len(self.members) * self.bound).bit_length()
        return -(-bits // 8)

    @property
    def bits(self) -> int:
        """k: sums are modulo 2^k."""
        return 8 * self.bytes_per_number

    @property
    def digest(self) -> bytes:
        return sha256(b"session", self.to_bytes())


@dataclass(frozen=True, slots=True)
class Keys(Record):
    """From a participant: its public keys."""

    KIND: ClassVar[int] = 2

    session: bytes
    participant: int
    public: PublicKeys


@dataclass(frozen=True, slots=True)
class Roster(Record):
    """To all that sent keys: the keys of all of them."""

    KIND: ClassVar[int] = 3

    session: bytes
    public: dict[int, PublicKeys]

    @property
    def digest(self) -> bytes:
        return sha256(b"roster", self.to_bytes())


@dataclass(frozen=True, slots=True)
class Outbox(Record):
    """From a participant: shares of its secrets, encrypted for each of the others."""

    KIND: ClassVar[int] = 4

    session: bytes
    participant: int
    sealed: dict[int, bytes]  # by recipient


@dataclass(frozen=True, slots=True)
class Inbox(Record):
    """To a participant: the shares that the others encrypted for it."""

    KIND: ClassVar[int] = 5

    session: bytes
    participant: int
    sealed: dict[int, bytes]  # by sender


@dataclass(frozen=True, slots=True)
class Masked(Record):
    """From a participant: its vector and the masks, modulo 2^k."""

    KIND: ClassVar[int] = 6

    session: bytes
    participant: int
    context: bytes  # of the roster and of the senders of shares: masks of other ones would not cancel out
    numbers: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Survivors(Record):
    """To all whose masked vectors arrived: who they are."""

    KIND: ClassVar[int] = 7

    session: bytes
    participants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revealed(Record):
    """From a survivor: a share of the own mask of every survivor, and of the masking key of everybody else."""

    KIND: ClassVar[int] = 8

    session: bytes
    participant: int
    seeds: dict[int, bytes] = field(repr=False)
    keys: dict[int, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Secrets(Record):
    """What a participant keeps between two messages. To itself: in a file that nobody else can read."""

    KIND: ClassVar[int] = 9

    session: Session
    participant: int
    done: int  # the last step that it took
    cipher_key: bytes = field(default=b"", repr=False)  # deleted with the next two once the vector is masked
    masking_key: bytes = field(default=b"", repr=False)
    seed: bytes = field(default=b"", repr=False)
    public: dict[int, PublicKeys] = field(default_factory=dict)  # from SHARE on
    key_shares: dict[int, bytes] = field(default_factory=dict, repr=False)  # by owner; before MASK only of its own key
    seed_shares: dict[int, bytes] = field(default_factory=dict, repr=False)
    survivors: tuple[int, ...] = ()  # of UNMASK

    def __post_init__(self) -> None:
        if self.done not in list(Step):
            raise DataError(f"secure sum {self.session.name!r}: stored secrets after an unknown step, {self.done}")
