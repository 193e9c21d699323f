"""Compiled loops over the states of clients: rows brought to a round and back, and packed vectors.

Every function writes into arrays that it is given, calls no other, and releases the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from datasets.homes import Array, Mask
from fedrule.federated.vectors import Vector

F = TypeVar("F", bound=Callable[..., object])
Bits = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int32]  # the bits of float32 numbers: NaN equals itself, and -0 is not 0


def compiled(function: F) -> F:
    made: F = njit(nogil=True, cache=True)(function)
    return made


@compiled
def merge_rows(
    clients: Array,
    stored_start: Array,  # of all clients
    stored_row: Array,
    stored_values: Vector,
    start: Array,  # of these clients
    row: Array,
    out_start: Array,  # [n + 1]
    out_row: Array,  # long enough
    out_values: Vector,
    in_batch: Mask,
) -> int:
    """The rows that are stored for some clients or in their batch, sorted: which, their values or zero; how many."""
    width, n = stored_values.shape[1], 0
    out_start[0] = 0
    for i in range(len(clients)):
        a, a_end = stored_start[clients[i]], stored_start[clients[i] + 1]
        b, b_end = start[i], start[i + 1]
        while a < a_end or b < b_end:
            stored = a < a_end and (b == b_end or stored_row[a] <= row[b])
            asked = b < b_end and (a == a_end or row[b] <= stored_row[a])
            out_row[n] = stored_row[a] if stored else row[b]
            in_batch[n] = asked
            if stored:
                for k in range(width):
                    out_values[n, k] = stored_values[a, k]
                a += 1
            else:
                for k in range(width):
                    out_values[n, k] = np.float32(0)
            b += int(asked)
            n += 1
        out_start[i + 1] = n
    return n


@compiled
def keep_rows(
    clients: Array, kept: Mask, start: Array, in_batch: Mask, values: Vector, into_start: Array, into: Vector
) -> None:
    """Write the rows that are in the batch of the clients that are `kept` to their places among those of all clients."""
    width = values.shape[1]
    for i in range(len(clients)):
        if kept[i]:
            n = into_start[clients[i]]
            for r in range(start[i], start[i + 1]):
                if in_batch[r]:
                    for k in range(width):
                        into[n, k] = values[r, k]
                    n += 1


@compiled
def copy_rows(clients: Array, start: Array, values: Vector, into_start: Array, into: Vector) -> None:
    """Copy the rows of some clients to their places in another array."""
    width = values.shape[1]
    for c in clients:
        for r in range(start[c + 1] - start[c]):
            for k in range(width):
                into[into_start[c] + r, k] = values[start[c] + r, k]


@compiled
def flag_words(vectors: Words, reference: Words, flags: Bits, counts: Array) -> None:
    """Bit i of flags[k] is set where vectors[k, i] is not reference[i]; counts[k] is how many are."""
    size = len(reference)
    for k in range(len(vectors)):
        n = 0
        for byte in range(flags.shape[1]):
            bits = 0
            for i in range(8 * byte, min(8 * byte + 8, size)):
                bits |= int(vectors[k, i] != reference[i]) << (i - 8 * byte)
            flags[k, byte] = bits
            for i in range(8):
                n += bits >> i & 1
        counts[k] = n


@compiled
def pack_words(vectors: Words, flags: Bits, start: Array, values: Words) -> None:
    """The numbers that are flagged, vector after vector."""
    for k in range(len(vectors)):
        n = start[k]
        for byte in range(flags.shape[1]):
            bits = flags[k, byte]
            if bits:
                for i in range(8):
                    if bits >> i & 1:
                        values[n] = vectors[k, 8 * byte + i]
                        n += 1


@compiled
def unpack_words(which: Array, reference: Words, flags: Bits, start: Array, values: Words, out: Words) -> None:
    """Some vectors again: the numbers that are flagged, and those of the reference elsewhere."""
    size = len(reference)
    for j in range(len(which)):
        k = which[j]
        n = start[k]
        for i in range(size):
            out[j, i] = reference[i]
        for byte in range(flags.shape[1]):
            bits = flags[k, byte]
            if bits:
                for i in range(8):
                    if bits >> i & 1:
                        out[j, 8 * byte + i] = values[n]
                        n += 1
