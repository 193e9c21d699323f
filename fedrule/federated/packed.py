"""Vectors of many clients in less memory, without losing a bit.

Most of what a client keeps is next to nothing: where its batch has no gradient, such as for units of the predictor that
none of its examples reaches, own_k is what rounding leaves of delta_k - delta_k. That is the same number for all
clients without a gradient there, mostly. So a vector is stored as the numbers in which it differs from a reference,
the vector of a client that never had a gradient, and a bit for each number that says whether it does. The rows of
relations that a client stores follow as they are, its tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from threading import Lock

import numpy as np

from datasets.homes import Array, runs
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.array_file import AnyArray
from fedrule.federated.trainers.state_loops import Bits, flag_words, pack_words, unpack_words
from fedrule.federated.vectors import FlatParameters, Vector, zeros

BLOCK = 1024  # clients whose numbers are in one array
ROOM = 32  # arrays whose length changes from round to round get this part more, so that they last
UNSAVED = {"saved": False}  # of fields that are no part of a state


@dataclass(frozen=True, slots=True, eq=False)
class PackedVectors:
    """A vector [size] and a tail of each of n clients, changed in place; clients of a block share a reference."""

    flags: Bits  # [n, size / 8]  a bit for each number that differs from the reference
    counts: Array  # [n]  how many do
    lengths: Array  # [n]  of the tails
    values: list[Vector]  # [n_blocks]  these numbers and the tail, client after client
    references: Vector  # [n_blocks, size]  of each block
    reference: Vector  # [size]  of blocks that are packed from now on
    memory: list[Vector] = field(default_factory=list, metadata=UNSAVED)  # [n_blocks]  `values` are the first of these
    locks: list[Lock] = field(default_factory=list, metadata=UNSAVED)  # [n_blocks]

    def __post_init__(self) -> None:
        self.memory.extend(self.values)
        self.locks.extend(Lock() for _ in self.values)

    @classmethod
    def zeros(cls, n: int, size: int) -> PackedVectors:
        """Without tails."""
        n_blocks, flags = -(-n // BLOCK), np.zeros((n, -(-size // 8)), dtype=np.uint8)
        counts, lengths = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        return cls(flags, counts, lengths, [zeros(0) for _ in range(n_blocks)], zeros((n_blocks, size)), zeros(size))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> PackedVectors:
        """Of the arrays of its fields by name; those of `values` are values.0, values.1 and so on."""
        references = arrays["references"]
        values = [arrays[f"values.{block}"] for block in range(len(references))]
        return cls(arrays["flags"], arrays["counts"], arrays["lengths"], values, references, arrays["reference"])

    @property
    def unpacked_bytes(self) -> int:
        return 4 * (len(self.counts) * len(self.reference) + int(self.lengths.sum()))

    def unpack(self, clients: Array, out: Vector, tails: Vector) -> None:
        """Write the vectors of some clients, which are sorted, to `out` [n, size], and their tails, one by one."""
        start = _starts(self.lengths[clients])
        for block, some in self._blocks(clients):
            with self.locks[block]:
                into = tails[start[some.start] : start[some.stop]]
                self._unpack(block, clients[some] - block * BLOCK, out[some], into)

    def pack(self, clients: Array, vectors: Vector, start: Array, tails: Vector) -> None:
        """Store vectors and tails of some clients, which are sorted; the tail of the i-th begins at start[i]."""
        for block, some in self._blocks(clients):
            of = slice(block * BLOCK, min((block + 1) * BLOCK, len(self.counts)))
            new, new_start, new_tails = vectors[some], start[some.start : some.stop + 1], tails
            with self.locks[block]:
                if len(new) < of.stop - of.start:
                    new, new_start, new_tails = self._together(
                        block, of, clients[some] - of.start, new, new_start, tails
                    )
                self.references[block] = self.reference
                self.lengths[of] = np.diff(new_start)
                words, reference = new.view(np.int32), self.reference.view(np.int32)
                flag_words(words, reference, self.flags[of], self.counts[of])
                places = _starts(self.counts[of] + self.lengths[of])
                end = int(places[-1])
                if len(self.memory[block]) <= end:  # as much as can be needed, tails aside
                    self.memory[block] = reserved(new.size + 2 * int(new_start[-1] - new_start[0]) + 1)
                memory = self.memory[block].view(np.int32)
                pack_words(words, reference, places, new_start, new_tails.view(np.int32), memory)
                self.values[block] = self.memory[block][:end]

    def _together(
        self, block: int, of: slice, which: Array, vectors: Vector, start: Array, tails: Vector
    ) -> tuple[Vector, Array, Vector]:
        """All vectors of a block, the start of their tails and these, with new ones of some clients."""
        everybody = np.arange(of.stop - of.start)
        old_start, all_vectors = _starts(self.lengths[of]), np.empty((len(everybody), vectors.shape[1]), np.float32)
        old_tails = np.empty(old_start[-1], dtype=np.float32)
        self._unpack(block, everybody, all_vectors, old_tails)
        all_vectors[which] = vectors
        lengths, others = self.lengths[of].copy(), np.delete(everybody, which)
        lengths[which] = np.diff(start)
        all_start = _starts(lengths)
        all_tails = np.empty(all_start[-1], dtype=np.float32)
        all_tails[runs(all_start, which)] = tails[start[0] : start[-1]]
        all_tails[runs(all_start, others)] = old_tails[runs(old_start, others)]
        return all_vectors, all_start, all_tails

    def advance(self, h: Hyperparameters, layout: FlatParameters, shared: Vector) -> None:
        """Make the reference that of a client without a gradient after a round in which shared_k is `shared`.

        As in the kernel, so that most numbers are equal; where they are not they take more memory, and stay right.
        """
        delta = self.reference - shared[: len(self.reference)]
        lam, u = layout.by_part(h.theta_lambda, h.phi_lambda)[: len(delta)].astype(np.float32), np.zeros_like(delta)
        for _ in range(h.steps):
            u -= lam * delta
        self.reference[:] = delta + np.float32(1 / h.steps) * u.astype(float)

    def _blocks(self, clients: Array) -> Iterator[tuple[int, slice]]:
        """The blocks of some clients, and which of these are in each."""
        first, last = clients[[0, -1]] // BLOCK if len(clients) else (0, -1)
        ends = np.searchsorted(clients, np.arange(first, last + 2) * BLOCK)
        yield from (
            (int(block), slice(*ends[i : i + 2]))
            for i, block in enumerate(range(first, last + 1))
            if ends[i] < ends[i + 1]
        )

    def _unpack(self, block: int, which: Array, out: Vector, tails: Vector) -> None:
        of = slice(block * BLOCK, (block + 1) * BLOCK)
        start, tail_start = _starts(self.counts[of] + self.lengths[of]), _starts(self.lengths[of][which])
        values, reference = self.values[block].view(np.int32), self.references[block].view(np.int32)
        words = out.view(np.int32), tail_start, tails.view(np.int32)
        unpack_words(which, reference, self.flags[of], start, values, *words)


def _starts(lengths: Array) -> Array:
    """[n + 1]: where each of several parts begins, one after the other."""
    return np.concatenate([[0], np.cumsum(lengths)])


def reserved(n: int) -> Vector:
    """Memory for n numbers; it takes only the pages that are written to, and gives them back at once."""
    return np.frombuffer(mmap(-1, 4 * n, flags=MAP_PRIVATE | MAP_ANONYMOUS), dtype=np.float32)


def resized(array: Vector, n: int) -> Vector:
    """The first n of the memory of an array, or of a new one if it is too short or much too long; not cleared."""
    whole = array if array.base is None else array.base
    if isinstance(whole, np.ndarray) and whole.shape[1:] == array.shape[1:] and n <= len(whole) <= n + n // 2:
        return whole[:n]
    return np.empty((n + n // ROOM, *array.shape[1:]), dtype=np.float32)[:n]
