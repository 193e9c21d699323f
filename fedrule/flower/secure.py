"""Sums of nodes that the server cannot look into: the four steps of `fedrule.federated.secure_sum` as messages.

A node's vector is the sum over its homes. In the first step it computes the vector, which stays in its folder, and
sends keys; in the last one the server learns the sum of those that stayed to the end. All nodes of the run are asked,
also those without a client in the cohort, which add zeros.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array
from fedrule.federated.secure.messages import (
    Keys,
    Masked,
    Outbox,
    Record,
    Revealed,
    Session,
    Step,
)
from fedrule.federated.secure_sum import add_masked, collect_keys, recover_sum, route_shares
from fedrule.flower.messages import Kind, Message
from fedrule.flower.node import SESSION

log = logging.getLogger(__name__)

BOUND = 2**40  # of a node's numbers, in multiples of STEP: sums below 1,024

R = TypeVar("R", bound=Record)
Ask = Callable[[Mapping[str, Message]], Mapping[str, Message]]  # requests by node; the answers that came


class SecureTotal(NamedTuple):
    """What the server learns."""

    total: Array
    answers: dict[str, Message]  # the first ones, without their vectors, of the nodes in the sum
    sent: dict[str, int]  # bytes in all four steps, by node


def secure_total(
    nodes: Sequence[str], requests: Mapping[str, Message], *, size: int, name: str, threshold: int, ask: Ask
) -> SecureTotal:
    """The sum of the vectors that the nodes compute for these requests.

    Nodes that do not answer in some step are left out; an error where fewer than the threshold stay.
    """
    number = {node: at for at, node in enumerate(nodes)}
    members = tuple(range(len(nodes)))
    token = secrets.token_hex(8)  # a sum that is begun anew is another session
    session = Session(f"{name}.{token}", members, threshold, size, BOUND)
    place, sent = np.frombuffer(session.digest, dtype=np.uint8), dict.fromkeys(nodes, 0)

    def step(number_of: Step, to: Mapping[str, Message], messages: Mapping[str, bytes]) -> dict[str, Message]:
        made = {}
        for node, request in to.items():
            arrays = {**request.arrays, SESSION: place, "message": np.frombuffer(messages[node], dtype=np.uint8)}
            header = {**request.header, "step": int(number_of), "participant": number[node]}
            kind = request.kind if number_of == Step.ADVERTISE else Kind.SECURE
            made[node] = Message(kind, header, arrays)
        answers = dict(ask(made))
        for node, answer in answers.items():
            sent[node] += answer.array("message").nbytes
        return answers

    first = step(Step.ADVERTISE, requests, dict.fromkeys(requests, session.to_bytes()))
    roster = collect_keys(session, read(first.values(), Keys))
    bare = {node: Message(Kind.SECURE, requests[node].header) for node in first}
    outboxes = step(Step.SHARE, bare, dict.fromkeys(bare, roster.to_bytes()))
    inboxes = route_shares(session, roster, messages=read(outboxes.values(), Outbox))
    senders = {nodes[at]: inbox.to_bytes() for at, inbox in inboxes.items()}
    masked_answers = step(Step.MASK, {node: bare[node] for node in senders}, senders)
    masked = add_masked(session, roster, senders=tuple(inboxes), messages=read(masked_answers.values(), Masked))
    survivors = [nodes[at] for at in masked.survivors]
    question = masked.question(session).to_bytes()
    revealed = step(Step.UNMASK, {node: bare[node] for node in survivors}, dict.fromkeys(survivors, question))
    recovered = recover_sum(session, roster, masked=masked, messages=read(revealed.values(), Revealed))
    for at in recovered.wrong:
        log.warning("node %s sent wrong shares of masks, which the sum could do without", nodes[at])
    return SecureTotal(recovered.total, {node: first[node] for node in survivors}, sent)


def read(answers: Iterable[Message], kind: type[R]) -> list[R]:
    """The messages of a step; one that cannot be read is left out."""
    found = []
    for answer in answers:
        try:
            found.append(kind.from_bytes(answer.array("message").tobytes()))
        except DataError as error:
            log.warning("a message of a secure sum is left out: %s", error)
    return found
