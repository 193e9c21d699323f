"""Sessions of a secure sum step by step, so that a test can change what is sent in between."""

from __future__ import annotations

import numpy as np

from fedrule.federated.secure.messages import Roster, Session, threshold_of
from fedrule.federated.secure_sum import (
    add_masked,
    advertise,
    collect_keys,
    mask,
    recover_sum,
    route_shares,
    share,
    unmask,
)

BOUND = 1_000


def vectors_of(n: int, *, size: int = 5, bound: int = BOUND) -> dict[int, np.ndarray]:
    """Numbers within the bound, of participants 3, 13, 23, ..."""
    rng = np.random.default_rng(n)
    return {3 + 10 * i: rng.integers(-bound, bound, size, endpoint=True) for i in range(n)}


def session_of(vectors: dict[int, np.ndarray], *, threshold: int = 0, bound: int = BOUND, name: str = "s") -> Session:
    members = tuple(vectors)
    return Session(name, members, threshold or threshold_of(len(members)), len(vectors[members[0]]), bound)


class Run:
    """One session."""

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
