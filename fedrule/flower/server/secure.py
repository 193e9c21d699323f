"""Sums of nodes that the server cannot look into: the four steps of `fedrule.federated.secure_sum` as messages.

A node's vector is the sum over its homes. In the first step it computes the vector, which stays in its folder, and
sends keys; in the last one the server learns the sum of those that stayed to the end. All nodes of the run are asked,
also those without a client in the cohort, which add zeros. They do not count towards the threshold: a sum of too few
others is given up before anybody reveals shares of masks.

A sum is kept as soon as it is known (`kept_total`): a server that crashes afterwards takes it from its folder. Asked
for a second one of other nodes, from which the difference would tell what one of them has sent, nodes refuse
(`fedrule.flower.node_secure`).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array
from fedrule.federated.secure.messages import (
    BelowThreshold,
    Keys,
    Masked,
    Outbox,
    Record,
    Rejected,
    Revealed,
    Session,
    Step,
    largest_bound,
)
from fedrule.federated.secure_sum import add_masked, collect_keys, recover_sum, route_shares
from fedrule.flower.messages import NAMES, SESSION, Kind, Message
from fedrule.flower.server.folder import ServerFolder

log = logging.getLogger(__name__)

EXACT = 2**53  # bound of the numbers of a node, in multiples of STEP: see `RoundSum.integers`
R = TypeVar("R", bound=Record)
T = TypeVar("T")
Ask = Callable[[Mapping[str, Message]], Mapping[str, Message]]  # requests by node; the answers that came


KEPT = ("corrupted", "ready", "seconds")  # entries of first answers that are kept with a sum


class SecureTotal(NamedTuple):
    """What the server learns."""

    total: Array
    answers: dict[str, Message]  # the first ones, without their vectors, of the nodes in the sum
    sent: dict[str, int]  # bytes in all four steps, by node


def kept_total(
    folder: ServerFolder, run: str, what: str, compute: Callable[[], SecureTotal], *, key: str = ""
) -> SecureTotal:
    """A secure sum of this run, from the folder where it is known already; `key` says what it depends on."""
    file = f"sum-{what}.npz"
    if (found := folder.read(file, run)) is not None and found[0]["key"] == key:
        about, arrays = found
        log.info("the secure sum of %s of this run is known already; no node is asked", what)
        answers = {
            node: Message(Kind(kind), header, {"counted": arrays[f"counted.{node}"]} if kind == Kind.ROUND else {})
            for node, (kind, header) in about["answers"].items()
        }
        return SecureTotal(arrays["total"], answers, about["sent"])
    sums = compute()
    counted = {f"counted.{n}": a.array("counted") for n, a in sums.answers.items() if a.kind == Kind.ROUND}
    headers = {
        node: (str(answer.kind), {name: answer.header[name] for name in KEPT if name in answer.header})
        for node, answer in sums.answers.items()
    }
    folder.write(file, run, {"total": sums.total, **counted}, key=key, answers=headers, sent=sums.sent)
    return sums


def secure_total(
    nodes: Sequence[str],
    requests: Mapping[str, Message],
    *,
    size: int,
    name: str,
    threshold: int,
    ask: Ask,
    contributors: Collection[str] | None = None,  # those that do not add zeros; None: all
    check: Callable[[str, Message], object] = lambda _node, _answer: None,  # of the first answers: may refuse one
) -> SecureTotal:
    """The sum of the vectors that the nodes compute for these requests.

    Nodes that do not answer in some step are left out; an error where fewer contributors than the threshold stay.
    """
    number = {node: at for at, node in enumerate(nodes)}
    members = tuple(range(len(nodes)))
    token = secrets.token_hex(8)  # a sum that is begun anew is another session
    bound = min(EXACT, largest_bound(len(nodes)))
    session = Session(f"{name}.{token}", members, threshold, size, bound)
    place, sent = np.frombuffer(session.digest, dtype=np.uint8), dict.fromkeys(nodes, 0)

    def step(number_of: Step, to: Mapping[str, Message], messages: Mapping[str, bytes]) -> dict[str, Message]:
        made = {}
        for node, request in to.items():
            arrays = {**request.arrays, SESSION: place, "message": np.frombuffer(messages[node], dtype=np.uint8)}
            header = {**request.header, "step": int(number_of), "participant": number[node]}
            if number_of == Step.ADVERTISE:
                header[NAMES] = [*nodes]
            kind = request.kind if number_of == Step.ADVERTISE else Kind.SECURE
            made[node] = Message(kind, header, arrays)
        answers = {}
        for node, answer in ask(made).items():
            try:
                sent[node] += answer.array("message").nbytes
                if number_of == Step.ADVERTISE:
                    check(node, answer)
                answers[node] = answer
            except (DataError, ValueError, TypeError, LookupError) as error:
                log.warning("node %s is left out of a secure sum: %s", node, error)
        return answers

    def read(answers: Mapping[str, Message], kind: type[R]) -> list[R]:
        return records(answers, kind, number=number)

    first = step(Step.ADVERTISE, requests, dict.fromkeys(requests, session.to_bytes()))
    roster = without_rejected(lambda keys: collect_keys(session, keys), read(first, Keys))
    bare = {nodes[at]: Message(Kind.SECURE, requests[nodes[at]].header) for at in roster.public}
    outboxes = step(Step.SHARE, bare, dict.fromkeys(bare, roster.to_bytes()))
    inboxes = without_rejected(lambda found: route_shares(session, roster, messages=found), read(outboxes, Outbox))
    senders = {nodes[at]: inbox.to_bytes() for at, inbox in inboxes.items()}
    masked_answers = step(Step.MASK, {node: bare[node] for node in senders}, senders)
    masked = without_rejected(
        lambda found: add_masked(session, roster, senders=tuple(inboxes), messages=found), read(masked_answers, Masked)
    )
    survivors = [nodes[at] for at in masked.survivors]
    adding = [node for node in survivors if contributors is None or node in contributors]
    if len(adding) < threshold:
        raise BelowThreshold(
            f"secure sum {name!r}: {len(adding)} nodes with homes in the cohort sent a masked vector, but the "
            f"threshold is {threshold}: this sum is given up, nobody's vector is known"
        )
    question = masked.question(session).to_bytes()
    revealed = step(Step.UNMASK, {node: bare[node] for node in survivors}, dict.fromkeys(survivors, question))
    recovered = without_rejected(
        lambda found: recover_sum(session, roster, masked=masked, messages=found), read(revealed, Revealed)
    )
    for at in recovered.wrong:
        log.warning("node %s sent wrong shares of masks, which the sum could do without", nodes[at])
    return SecureTotal(recovered.total, {node: first[node] for node in survivors}, sent)


def records(answers: Mapping[str, Message], kind: type[R], *, number: Mapping[str, int]) -> list[R]:
    """The messages of a step; one that cannot be read, or is in the name of another node, is left out."""
    found = []
    for node, answer in answers.items():
        try:
            record = kind.from_bytes(answer.array("message").tobytes())
            if getattr(record, "participant", None) != number[node]:
                raise DataError("it is in the name of another participant")
            found.append(record)
        except (DataError, ValueError, OverflowError) as error:
            log.warning("node %s: its message of a secure sum is left out: %s", node, error)
    return found


def without_rejected(take: Callable[[Sequence[R]], T], messages: Sequence[R]) -> T:
    """What the server makes of the messages of a step, without those that it cannot use."""
    while True:
        try:
            return take(messages)
        except Rejected as error:
            others = [message for message in messages if getattr(message, "participant", None) != error.participant]
            if len(others) == len(messages):
                raise
            log.warning("%s", error)
            messages = others
