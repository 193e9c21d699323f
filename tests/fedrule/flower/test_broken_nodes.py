"""One node that answers nonsense is left out of the round; a node that is asked nonsense refuses in words."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
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


def without(name: str) -> Change:
    return lambda request: Message(request.kind, request.header, {n: a for n, a in request.arrays.items() if n != name})


def with_setup(**changed: object) -> Change:
    def change(request: Message) -> Message:
        setup = request.header["setup"]
        assert isinstance(setup, dict)
        return with_header(setup={**setup, **changed})(request)

    return change


REQUESTS: dict[str, tuple[Kind, Change]] = {
    "cells of two dimensions": (Kind.COUNTS, with_array("cell", np.zeros((2, 2), dtype=np.int64))),
    "cells twice": (Kind.COUNTS, with_array("cell", np.array([3, 3]))),
    "negative cells": (Kind.COUNTS, with_array("cell", np.array([-3, 3]))),
    "cells beyond the vocabulary": (Kind.COUNTS, with_array("cell", np.array([3, 10**9]))),
    "fractions of cells": (Kind.COUNTS, with_array("cell", np.array([0.5, 3.5]))),
    "no cells": (Kind.COUNTS, without("cell")),
    "few cells": (Kind.COUNTS, with_array("cell", np.array([3]))),
    "a method that is no JSON": (Kind.RULES, with_header(method="{")),
    "a method without a name": (Kind.RULES, with_header(method="{}")),
    "a method that is a list": (Kind.RULES, with_header(method="[]")),
    "a run of another kind": (Kind.RULES, with_header(run=3)),
    "a layout without names": (Kind.ROUND, with_setup(layout={})),
    "a layout that is no object": (Kind.ROUND, with_setup(layout=3)),
    "a first home in words": (Kind.ROUND, with_setup(first="one")),
    "another model": (Kind.ROUND, with_array("model", np.zeros(3, dtype=np.float32))),
    "a cohort of wrong length": (Kind.ROUND, with_array("cohort", np.zeros(9, dtype=np.uint8))),
    "no last rounds": (Kind.ROUND, without("last")),
    "no time": (Kind.ROUND, with_header(time="now")),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    """Nodes after a run of one round, and all that they were asked."""
    folder = tmp_path_factory.mktemp("finished")
    homes, method = population(5, n_homes=6), made("fedrank", rounds=1)
    transport = in_process(homes, SIZES, folder)
    federation(transport, method, homes, folder / "server").train()
    return transport


@pytest.mark.parametrize("what", REQUESTS)
def test_a_node_that_is_asked_nonsense_refuses_in_words(what: str, finished: InProcess, tmp_path: Path) -> None:
    kind, change = REQUESTS[what]
    number, earlier = next((n, r) for n, r in finished.requests if r.kind == kind)
    node, request = finished.members[number], earlier.at(time.time())
    # On a folder of its own: what one kind of nonsense leaves behind is not there for the next.
    state = shutil.copytree(node.options.state, tmp_path / "state")
    node = replace(node, options=replace(node.options, state=state))
    if kind == Kind.ROUND:  # as a node whose folder is new is asked
        (node.options.state / f"{request.text('run')}.setup").unlink(missing_ok=True)
    answer = node.answer(change(request))
    assert (answer.kind == Kind.REFUSED) == (what != "few cells")  # the server says which rules are valid
    if answer.kind == Kind.REFUSED:
        assert len(answer.text("reason")) > 20
        # It goes on afterwards.
        assert node.answer(request).kind == kind


def test_a_node_counts_what_its_method_uses_whatever_is_asked(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, made("fedgnn", rounds=1), homes, tmp_path / "server").train()
    number, request = transport.requests[0]
    counts = Message(Kind.COUNTS, {**request.header, "all_patterns": True}, {"cell": np.arange(3)})
    answer = transport.members[number].answer(counts)
    assert "counts over homes are asked for, which fedgnn does not use" in answer.text("reason")
    method = made("fedrank", rounds=1, evidence=4)
    other = in_process(homes, SIZES, tmp_path / "other")
    federation(other, method, homes, tmp_path / "other server").train()
    number, request = next((n, r) for n, r in other.requests if r.kind == Kind.COUNTS)
    for all_patterns in (True, False):
        answers = [
            other.members[number].answer(each(request)) for each in (with_header(all_patterns=all_patterns), same)
        ]
        assert answers[0].arrays.keys() == answers[1].arrays.keys()


def same(request: Message) -> Message:
    return request
