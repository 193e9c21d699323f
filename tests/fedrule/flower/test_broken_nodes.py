"""One node that answers nonsense is left out of the round; the others go on as if it had dropped out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the federated methods need the extra graph")

from fedrule.federated.array_file import AnyArray
from fedrule.flower.messages import Kind, Message
from tests.fedrule.flower.test_federation import assert_equal, made, simulated
from tests.support.federation import InProcess, federation, in_process
from tests.support.small_populations import population

Change = Callable[[Message], Message]
SIZES = (1, 3, 1, 1)


def with_header(**changed: object) -> Change:
    return lambda answer: Message(answer.kind, {**answer.header, **changed}, answer.arrays)  # type: ignore[dict-item]


def with_array(name: str, array: AnyArray) -> Change:
    return lambda answer: Message(answer.kind, answer.header, {**answer.arrays, name: array})


CHANGES: dict[str, Change] = {
    "counted of wrong length": with_array("counted", np.zeros(9, dtype=np.uint8)),
    "counted of all homes": with_array("counted", np.array([0b11111111], dtype=np.uint8)),
    "counted of two dimensions": with_array("counted", np.zeros((1, 1), dtype=np.uint8)),
    "corrupted in words": with_header(corrupted="none"),
    "negative corrupted": with_header(corrupted=-1),
    "weight NaN": with_header(weight=float("nan")),
    "negative weight": with_header(weight=-1.0),
    "loss NaN": with_header(loss=float("nan")),
    "weights of shared vectors in words": with_header(base_weight=["a"]),
    "negative clients": with_header(clients=-5),
    "rows as fractions": with_array("row", np.array([0.5])),
    "numbers of two dimensions": with_array("numbers", np.zeros((2, 2))),
}


def breaking(transport: InProcess, change: Change, *, step: int | None = None) -> None:
    """Change what node 101 answers in the second round."""
    exchange = transport.exchange

    def broken(requests: dict[int, Message], *, seconds: float) -> dict[int, Message]:
        answers = dict(exchange(requests, seconds=seconds))
        for node, request in requests.items():
            asked = request.kind in (Kind.ROUND, Kind.SECURE) and request.header.get("step") == step
            if node == 101 and asked and request.header.get("round") == 1 and node in answers:
                answers[node] = change(answers[node])
        return answers

    transport.exchange = broken  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("what", CHANGES)
def test_a_node_whose_answer_is_nonsense_has_dropped_out_of_the_round(what: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn", rounds=3, participation=0.99, drop_out=0.2)
    transport = in_process(homes, SIZES, tmp_path)
    breaking(transport, CHANGES[what])
    run = federation(transport, method, homes, tmp_path / "server")
    trained, missing = run.train(), run.missing()
    assert set(missing) == {1}
    assert set(missing[1].tolist()) <= {1, 2, 3}
    assert_equal(trained, simulated(method, homes, missing=missing))


def spoiled(answer: Message) -> Message:
    message = answer.array("message").copy()
    message[-1] ^= 1
    return with_array("message", message)(answer)


def in_another_name(answer: Message) -> Message:
    from fedrule.federated.secure.messages import Keys

    keys = Keys.from_bytes(answer.array("message").tobytes())
    other = Keys(keys.session, 0, keys.public).to_bytes()
    return with_array("message", np.frombuffer(other, dtype=np.uint8))(answer)


def of_another_session(answer: Message) -> Message:
    from fedrule.federated.secure.messages import Keys

    keys = Keys.from_bytes(answer.array("message").tobytes())
    other = Keys(bytes(32), keys.participant, keys.public).to_bytes()
    return with_array("message", np.frombuffer(other, dtype=np.uint8))(answer)


def without_message(answer: Message) -> Message:
    return Message(answer.kind, answer.header, {n: a for n, a in answer.arrays.items() if n != "message"})


SECURE: dict[str, tuple[int, Change]] = {
    "no message": (1, without_message),
    "keys in another name": (1, in_another_name),
    "keys of another session": (1, of_another_session),
    "counted of wrong length": (1, CHANGES["counted of wrong length"]),
    "corrupted in words": (1, CHANGES["corrupted in words"]),
    "shares damaged": (2, spoiled),
    "vector damaged": (3, spoiled),
}


@pytest.mark.parametrize("what", SECURE)
def test_a_secure_sum_goes_on_without_a_node_that_sends_nonsense(what: str, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    homes, method = population(5, n_homes=12), made("fedgnn", rounds=2)
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    step, change = SECURE[what]
    breaking(transport, change, step=step)
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    with_rules = set(np.unique(homes.rules.home).tolist())
    assert {done: set(clients.tolist()) for done, clients in run.missing().items()} == {1: {3, 4, 5} & with_rules}
    assert_equal(trained, simulated(method, homes, missing=run.missing()))
