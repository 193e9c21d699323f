"""What server and nodes send each other: a header in JSON and arrays, without code; and how many bytes that are.

A sum over the clients of a node consists of multiples of 2^-30 (`fedrule.federated.vectors`). It is sent in the
narrowest type that holds it exactly, of the rows of relations only those that a client has touched, with their numbers.
The header says who sends it and what it belongs to. Whoever receives a message of another format, version, vocabulary or
run, or of a machine whose clock is wrong, answers with a refusal in words instead of numbers that look right.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.common.files import Json

AnyArray: TypeAlias = npt.NDArray[Any]
Precise: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = npt.NDArray[np.integer]

FORMAT = 1  # goes up when messages of earlier versions would be misread
STEP = 2.0**-30  # of fedrule.federated.vectors, which is tested to be equal
CLOCK_TOLERANCE = 120.0  # seconds
CLOCK_REMEDY = "set it (NTP): a wrong clock breaks the validity of certificates and the time limits of rounds"


class Refusal(DataError):
    """A request that a node does not answer, or an answer that the server does not take; the message says why."""


class Kind(StrEnum):
    """Of requests, in their order; an answer has the kind of its request, or says that it is refused."""

    JOIN = "join"  # how many homes a node holds, and which of them have rules
    RULES = "rules"  # in how many homes each typed rule occurs: what is not zero are the valid rules
    COUNTS = "counts"  # what else is counted over homes (fedrule.evidence.statistics)
    SETUP = "setup"  # what all clients have to know before the first round
    ROUND = "round"  # train the clients of a cohort
    END = "end"  # the last round counted
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A request of the server or the answer of a node."""

    kind: Kind
    header: Mapping[str, Json]
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)

    @property
    def payload_bytes(self) -> int:
        """Of the arrays, without their names and types."""
        return sum(array.nbytes for array in self.arrays.values())

    def value(self, name: str) -> Json:
        """An entry of the header; an error where it is missing."""
        if name not in self.header:
            raise Refusal(f"message {self.kind} has no {name}; the sender has another version of fedrule")
        return self.header[name]

    def number(self, name: str) -> int:
        """A whole number of the header."""
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refusal(f"message {self.kind}: {name} must be a whole number, got {value!r}")
        return value

    def real(self, name: str) -> float:
        """A number of the header."""
        value = self.value(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Refusal(f"message {self.kind}: {name} must be a number, got {value!r}")
        return float(value)

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise Refusal(f"message {self.kind}: {name} must be a text, got {value!r}")
        return value

    def array(self, name: str) -> AnyArray:
        if name not in self.arrays:
            raise Refusal(f"message {self.kind} has no array {name}; the sender has another version of fedrule")
        return self.arrays[name]


@cache
def package_version() -> str:
    """Of this package, as installed."""
    from importlib.metadata import version  # slow to import

    return version("fedrule")


@dataclass(frozen=True, slots=True)
class Identity:
    """What must be equal on both sides of a message."""

    run: str  # drawn by the server when training begins, kept when it resumes
    vocabulary: str  # fingerprint of types and relations
    method: str  # name and all parameters, as JSON
    version: str = field(default_factory=package_version)
    format: int = FORMAT

    def header(self, **more: Json) -> dict[str, Json]:
        return {
            "format": self.format,
            "version": self.version,
            "run": self.run,
            "vocabulary": self.vocabulary,
            "method": self.method,
            "time": time.time(),
            **more,
        }


def check_sender(message: Message, *, here: str, there: str, vocabulary: str | None = None) -> None:
    """Refuse a message of another format, version or vocabulary, in the words of the side that has to act.

    `here` and `there` name the two sides, e.g. "this node" and "the server".
    """
    if message.header.get("format") != FORMAT:
        raise Refusal(
            f"{there} sends messages of format {message.header.get('format')}, {here} reads {FORMAT}; "
            "install the same version of fedrule on both"
        )
    if (theirs := message.text("version")) != package_version():
        raise Refusal(
            f"{there} runs fedrule {theirs}, {here} {package_version()}; install fedrule {theirs} here, or the "
            "other one there: versions may compute other numbers"
        )
    if vocabulary is not None and (theirs := message.text("vocabulary")) != vocabulary:
        raise Refusal(
            f"{there} has the vocabulary {theirs}, {here} {vocabulary}: their types and relations have other numbers; "
            "use the app folder of the federation"
        )


def check_clock(sent: float, *, earliest: float, latest: float, whose: str, tolerance: float = CLOCK_TOLERANCE) -> None:
    """Refuse a time outside of when the message must have been sent, by a clock that is right here."""
    if not math.isfinite(sent) or sent < earliest - tolerance:
        off = f"{earliest - sent:,.0f} seconds behind"
    elif sent > latest + tolerance:
        off = f"{sent - latest:,.0f} seconds ahead"
    else:
        return
    raise Refusal(f"the clock of {whose} is {off} of the other side's, {tolerance:g} are allowed; {CLOCK_REMEDY}")


def refusal(request: Message, error: Exception) -> Message:
    """The answer to a request that is refused."""
    header = {"format": FORMAT, "version": package_version(), "time": time.time(), "reason": str(error)}
    return Message(Kind.REFUSED, {**header, "request": str(request.kind)})


def vocabulary_fingerprint(types: Sequence[str], relations: Sequence[tuple[str, str]]) -> str:
    """Of names in their order."""
    names = json.dumps([[*types], [[*pair] for pair in relations]], ensure_ascii=False)
    return hashlib.sha256(names.encode()).hexdigest()[:16]


class Layout(Protocol):
    """What is needed of `fedrule.federated.vectors.FlatParameters`."""

    @property
    def n_dense(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def row_length(self) -> int: ...


def narrowest(values: Precise) -> AnyArray:
    """Multiples of STEP, in the narrowest type that loses nothing: int32 counts of STEP, float32, or float64.

    An int32 holds sums below 2, of as many clients as there are; a float32 larger ones that have 24 bits.
    """
    values = np.asarray(values, dtype=np.float64)
    steps = values / STEP  # a power of two: exact
    if not np.all(np.abs(steps) < 2**31):  # also NaN
        narrow = values.astype(np.float32)
        return narrow if np.array_equal(narrow.astype(np.float64), values) else values
    whole = steps.astype(np.int32)
    if not np.array_equal(whole, steps):
        raise ValueError("not a sum of multiples of STEP")
    return whole


def restored(array: AnyArray) -> Precise:
    """The values of `narrowest`."""
    if array.dtype == np.int32:
        return array * STEP
    if array.dtype in (np.float32, np.float64):
        return array.astype(np.float64)
    raise Refusal(f"a sum of type {array.dtype}; known are int32, float32 and float64")


def pack_vector(name: str, vector: Precise, layout: Layout) -> dict[str, AnyArray]:
    """A sum of vectors as arrays: the dense part, and the rows that are not zero with their numbers."""
    if not len(vector):
        return {}
    arrays = {f"{name}.dense": narrowest(vector[: layout.n_dense])}
    if layout.n_rows:
        rows = vector[layout.n_dense :].reshape(layout.n_rows, layout.row_length)
        touched = np.flatnonzero(rows.any(axis=1))
        arrays |= {f"{name}.row": touched.astype(np.int32), f"{name}.rows": narrowest(rows[touched])}
    return arrays


def unpack_vector(name: str, arrays: Mapping[str, AnyArray], layout: Layout) -> Precise:
    """The sum of vectors in some arrays; empty where none was sent, refused where it does not fit the model."""
    if f"{name}.dense" not in arrays:
        return np.zeros(0)
    dense = restored(arrays[f"{name}.dense"])
    vector = np.zeros(layout.n_dense + layout.n_rows * layout.row_length)
    if dense.shape != (layout.n_dense,):
        raise Refusal(f"{name}: {dense.shape} numbers, the model has {layout.n_dense}; the sender has another model")
    vector[: layout.n_dense] = dense
    if layout.n_rows:
        row, rows = arrays.get(f"{name}.row"), arrays.get(f"{name}.rows")
        if row is None or rows is None or rows.shape != (len(row), layout.row_length):
            raise Refusal(f"{name}: rows do not fit the model; the sender has another model")
        if len(row) and not (0 <= row.min() and row.max() < layout.n_rows and (np.diff(row) > 0).all()):
            raise Refusal(f"{name}: numbers of rows must be ascending and below {layout.n_rows}")
        vector[layout.n_dense :].reshape(layout.n_rows, layout.row_length)[row] = restored(rows)
    return vector


def sum_bytes(layout: Layout, *, rows: int, vectors: int = 1, dense_width: int = 4, row_width: int = 4) -> int:
    """Payload of the sum of a node's clients, which touch `rows` different rows; widths are bytes of a number.

    For a node with one home it is `RoundReport.sent_bytes`, as long as four bytes hold the numbers.
    """
    return vectors * (dense_width * layout.n_dense + rows * (row_width * layout.row_length + 4))


def broadcast_bytes(layout: Layout, *, shared: int) -> int:
    """Payload of a request of a round: the model, and the shared vectors that the node's clients need."""
    return 4 * (1 + shared) * (layout.n_dense + layout.n_rows * layout.row_length)


def pack_mask(mask: npt.NDArray[np.bool_]) -> AnyArray:
    """One bit for each client."""
    return np.packbits(mask)


def unpack_mask(bits: AnyArray, n: int) -> npt.NDArray[np.bool_]:
    if bits.dtype != np.uint8 or len(bits) != (n + 7) // 8:
        raise Refusal(f"{len(bits)} bytes of bits for {n} clients; the sender holds other homes")
    return np.unpackbits(bits, count=n).astype(bool)
