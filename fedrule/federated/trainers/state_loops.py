"""Compiled loops over the vectors of clients: rows brought to a round and back, packed vectors, norms and exact sums.

Every function writes into arrays that it is given, calls no other, and releases the interpreter's lock.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from datasets.common.compiled import FUSED, entry_point
from datasets.homes import Array, Mask
from fedrule.federated.vectors import Vector

Bits = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int32]  # the bits of float32 numbers: NaN equals itself, and -0 is not 0


@entry_point()
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
    is_stored: Mask,
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
            is_stored[n], in_batch[n] = stored, asked
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


@entry_point()
def keep_rows(kept: Mask, start: Array, values: Vector, into_start: Array, into: Vector) -> None:
    """Write the rows that are `kept` [n_rows] to where into_start[i] says for client i."""
    width = values.shape[1]
    for i in range(len(start) - 1):
        n = into_start[i]
        for r in range(start[i], start[i + 1]):
            if kept[r]:
                for k in range(width):
                    into[n, k] = values[r, k]
                n += 1


@entry_point()
def copy_rows(clients: Array, start: Array, values: Vector, into_start: Array, into: Vector) -> None:
    """Copy the rows of some clients to their places in another array."""
    width = values.shape[1]
    for c in clients:
        for r in range(start[c + 1] - start[c]):
            for k in range(width):
                into[into_start[c] + r, k] = values[start[c] + r, k]


@entry_point()
def flag_words(vectors: Words, reference: Words, flags: Bits, counts: Array) -> None:
    """Bit i of flags[k] is set where vectors[k, i] is not reference[i]; counts[k] is how many are."""
    size = len(reference)
    differs = np.zeros(8 * flags.shape[1], np.uint8)
    eights = differs.view(np.uint64)
    for k in range(len(vectors)):
        for i in range(size):
            differs[i] = vectors[k, i] != reference[i]
        counts[k] = 0
        for i in range(size):
            counts[k] += differs[i]
        for byte in range(len(eights)):  # bit i of the highest byte of the product is byte i of the number
            flags[k, byte] = (eights[byte] * np.uint64(0x0102040810204080)) >> np.uint64(56)


@entry_point()
def pack_words(vectors: Words, reference: Words, start: Array, tail_start: Array, tails: Words, values: Words) -> None:
    """The numbers that differ from the reference and then the tail, vector after vector; `values` has one more."""
    for k in range(len(vectors)):
        vector, n = vectors[k], np.uint64(start[k])  # an unsigned index is not checked for being negative
        for i in range(len(reference)):
            word = vector[i]
            values[n] = word  # overwritten by the next one where it is not different
            n += np.uint64(word != reference[i])
        values[n : n + np.uint64(tail_start[k + 1] - tail_start[k])] = tails[tail_start[k] : tail_start[k + 1]]


@entry_point()
def unpack_words(
    which: Array,
    reference: Words,
    flags: Bits,
    start: Array,
    values: Words,
    out: Words,
    tail_start: Array,
    tails: Words,
) -> None:
    """Some vectors and their tails again; numbers that are not flagged are those of the reference."""
    size = len(reference)
    whole = size // 8
    for j in range(len(which)):
        k = which[j]
        vector, n = out[j], np.uint64(start[k])  # an unsigned index is not checked for being negative
        vector[:] = reference
        if start[k + 1] == start[k]:
            continue
        last = np.uint64(start[k + 1] - 1)
        for byte in range(whole):
            bits = np.int32(flags[k, byte])
            for i in range(8):
                flagged = (bits >> np.int32(i)) & np.int32(1)
                word = vector[8 * byte + i]
                vector[8 * byte + i] = word ^ ((word ^ values[min(n, last)]) & -flagged)
                n += np.uint64(flagged)
        for i in range(8 * whole, size):
            if flags[k, whole] >> (i - 8 * whole) & 1:
                vector[i] = values[n]
                n += np.uint64(1)
        tails[tail_start[j] : tail_start[j + 1]] = values[n : np.uint64(start[k + 1])]


@entry_point(fastmath=FUSED)
def squared_norms(vectors: npt.NDArray[np.floating], out: npt.NDArray[np.float64]) -> None:
    """Of each row, in float64; the last digits depend on the order, which `vectors.clip_factors` rounds away."""
    for k in range(len(vectors)):
        total = 0.0
        for i in range(vectors.shape[1]):
            total += np.float64(vectors[k, i]) * np.float64(vectors[k, i])
        out[k] = total


@entry_point()
def add_exactly(
    out: npt.NDArray[np.float64],  # [size]
    vectors: npt.NDArray[np.floating],  # [n, size]
    weight: npt.NDArray[np.float64],  # [n]
    round: float,  # `vectors.ROUND`
) -> None:
    """Add each vector times its weight, rounded as by `vectors.exact_addends`: the order does not matter."""
    for k in range(len(vectors)):
        for i in range(vectors.shape[1]):
            out[i] += (weight[k] * vectors[k, i] + round) - round
