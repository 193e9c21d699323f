"""What server and nodes send each other: a header in JSON and arrays, without code; and how many bytes that are.

A sum over the clients of a node consists of multiples of 2^-30 (`fedrule.federated.vectors`). It is sent in the
narrowest type that holds it exactly, of the rows of relations only those that a client has touched, with their
numbers (`FlatParameters.sent_bytes` says how many bytes). The header says who sends it and what it belongs to. Whoever
receives a message of another format, version or vocabulary, or of a machine whose clock is wrong, refuses it in words.
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

import numpy as np

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.homes import Mask
from fedrule.federated.array_file import AnyArray
from fedrule.federated.optimizers import Precise
from fedrule.federated.rounds import RoundSum
from fedrule.federated.vectors import STEP, FlatParameters

FORMAT = 1  # goes up when messages of earlier versions would be misread
SETUP = "setup."  # how the names of arrays begin that nodes keep for all rounds
SESSION = "session"  # the array that names a secure sum
NAMES = "names"  # the entry of its first request with the names of its nodes, in the order of their numbers
CLOCK_TOLERANCE = 120.0  # seconds
CLOCK_REMEDY = "set it (NTP): a wrong clock breaks the validity of certificates and the time limits of rounds"


# What reading an odd message may end in: one of another version, or of somebody who tries what happens.
BROKEN = (DataError, ValueError, TypeError, LookupError, AttributeError, OverflowError)


class Kind(StrEnum):
    """Of requests, in their order; an answer has the kind of its request, or says that it is refused."""

    JOIN = "join"  # how many homes a node holds, and which of them have rules
    RULES = "rules"  # in how many homes each typed rule occurs: what is not zero are the valid rules
    COUNTS = "counts"  # what else is counted over homes (fedrule.evidence.statistics)
    ROUND = "round"  # train the clients of a cohort; the first one brings what all clients have to know
    END = "end"  # the last round counted
    SECURE = "secure"  # a further step of a sum that the server cannot look into
    REFUSED = "refused"


class Refusal(DataError):
    """A request that a node does not answer, or an answer that the server does not take; the message says why."""

    def __init__(self, message: str, *, needs: Kind | None = None) -> None:
        super().__init__(message)
        self.needs = needs  # the request that has to come before


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

    def at(self, time: float) -> Message:
        """The same, sent at this time."""
        return Message(self.kind, {**self.header, "time": time}, self.arrays)

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
    needs = error.needs if isinstance(error, Refusal) else None
    header: dict[str, Json] = {
        "format": FORMAT,
        "version": package_version(),
        "time": time.time(),
        "reason": str(error),
        "request": str(request.kind),
        "needs": needs and str(needs),
    }
    return Message(Kind.REFUSED, header)


def vocabulary_fingerprint(types: Sequence[str], relations: Sequence[tuple[str, str]], *, words: bool) -> str:
    """Of names in their order, and of whether devices have words."""
    names = json.dumps([[*types], [[*pair] for pair in relations], words], ensure_ascii=False)
    return hashlib.sha256(names.encode()).hexdigest()[:16]


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


def pack_sums(
    sums: RoundSum, layout: FlatParameters, *, all_rows: bool = False
) -> tuple[dict[str, Json], dict[str, AnyArray]]:
    """The sums of a node's clients as header and arrays: all numbers in one type, of the rows those that are not zero.

    A row of relations is zero where no client of the node has touched it, and, rarely, where their updates are. Which
    they are says much of the homes: with `all_rows`, as in private runs, all are sent.
    """
    vectors = [vector for vector in (sums.update, sums.mean_gradient) if len(vector)]
    rows = [vector[layout.n_dense :].reshape(layout.n_rows, -1 if layout.n_rows else 0) for vector in vectors]
    touched = np.flatnonzero(np.logical_or.reduce([part.any(axis=1) for part in rows]))
    touched = np.arange(layout.n_rows) if all_rows else touched
    parts = [(vector[: layout.n_dense], part[touched].reshape(-1)) for vector, part in zip(vectors, rows, strict=True)]
    header: dict[str, Json] = {
        "weight": sums.weight,
        "loss": sums.loss,
        "base_weight": sums.base_weight.tolist(),
        "clients": sums.clients,
        "refused": sums.refused,
        "rows": sums.rows,
        "state_bytes": sums.state_bytes,
    }
    numbers = narrowest(np.concatenate([each for part in parts for each in part]))
    return header, {"numbers": numbers, "row": touched.astype(np.int32)}


def unpack_sums(answer: Message, layout: FlatParameters, *, vectors: int, n_shared: int) -> RoundSum:
    """The sums in an answer; refused where they do not fit the model."""
    row, numbers = answer.array("row"), restored(answer.array("numbers"))
    if row.ndim != 1 or not np.issubdtype(row.dtype, np.integer):
        raise Refusal(f"numbers of rows of type {row.dtype} and shape {row.shape}; the sender has another version")
    if len(row) and not (row.min() >= 0 and row.max() < layout.n_rows and (np.diff(row) > 0).all()):
        raise Refusal(f"numbers of rows must be ascending and below {layout.n_rows}; the sender has another model")
    length = layout.n_dense + len(row) * layout.row_length
    if numbers.shape != (vectors * length,) or not np.isfinite(numbers).all():
        raise Refusal(f"{numbers.size} finite numbers expected of {vectors * length}; the sender has another model")
    found = []
    for part in numbers.reshape(vectors, length):
        vector = np.zeros(layout.size)
        vector[: layout.n_dense] = part[: layout.n_dense]
        if len(row):
            vector[layout.in_rows(row)] = part[layout.n_dense :].reshape(len(row), layout.row_length)
        found.append(vector)
    base = answer.value("base_weight")
    if not isinstance(base, list) or len(base) not in (0, n_shared):
        raise Refusal(f"weights of {base} shared vectors, {n_shared} were sent")
    if not all(isinstance(each, int | float) and 0 <= each < math.inf for each in base):
        raise Refusal(f"weights {base} of shared vectors; they must be finite and not negative")
    if not 0 <= answer.real("weight") < math.inf or not math.isfinite(answer.real("loss")):
        raise Refusal(f"a weight of {answer.real('weight')} and a loss of {answer.real('loss')}; they must be finite")
    for name in ("clients", "refused", "rows", "state_bytes"):
        if answer.number(name) < 0:
            raise Refusal(f"{name} must not be negative, got {answer.number(name)}")
    return RoundSum(
        update=found[0],
        mean_gradient=found[1] if vectors == 2 else np.zeros(0),
        base_weight=np.array(base, dtype=np.float64),
        weight=answer.real("weight"),
        loss=answer.real("loss"),
        clients=answer.number("clients"),
        refused=answer.number("refused"),
        rows=answer.number("rows"),
        state_bytes=answer.number("state_bytes"),
    )


def pack_mask(mask: Mask) -> AnyArray:
    """One bit for each client."""
    return np.packbits(mask)


def unpack_mask(bits: AnyArray, n: int) -> Mask:
    if bits.dtype != np.uint8 or bits.shape != ((n + 7) // 8,):
        raise Refusal(f"{bits.size} bytes of bits for {n} clients; the sender holds other homes")
    return np.unpackbits(bits, count=n).astype(bool)
