"""With secure sums the server learns sums over nodes only, and the model is still the simulation's, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the federated methods need the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from datasets.common.errors import DataError
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.flower.messages import Kind, Message
from fedrule.flower.server import rounds_of
from tests.fedrule.flower.test_federation import assert_equal, made, simulated
from tests.support.federation import federation, in_process
from tests.support.small_populations import population

SIZES = (1, 3, 1, 1)  # homes of the nodes


@pytest.mark.parametrize(
    "name", ["fedgnn", "fedgnn, partial", "fedrule, partial", "fedrule, adam", "scaffold", "fedrank"]
)
def test_secure_sums_give_the_model_of_the_simulation(name: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made(name)
    transport = in_process(homes, SIZES, tmp_path)
    trained = federation(transport, method, homes, tmp_path / "server", secure=True).train()
    assert_equal(trained, simulated(method, homes))


def test_no_single_sum_of_a_node_reaches_the_server(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedrank")
    transport = in_process(homes, SIZES, tmp_path)
    seen: list[Message] = []
    exchange = transport.exchange

    def watched(requests: dict[int, Message], *, seconds: float) -> dict[int, Message]:
        answers = dict(exchange(requests, seconds=seconds))
        seen.extend(answers.values())
        return answers

    transport.exchange = watched  # type: ignore[method-assign,assignment]
    federation(transport, method, homes, tmp_path / "server", secure=True).train()
    for answer in seen:
        secret = {"weight", "loss", "clients", "self_rules", "numbers", "cell", "count"}
        assert not secret & {*answer.header, *answer.arrays}
        assert set(answer.arrays) <= {"message", "counted", "with_rules"}


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("what", ["lost", "late"])
def test_a_node_that_is_gone_after_any_step_has_dropped_out(step: int, what: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedrule")
    transport = in_process(homes, SIZES, tmp_path)

    def silent(node: int, request: Message) -> bool:
        secure_step = request.kind in (Kind.ROUND, Kind.SECURE) and request.header.get("step") == step
        return node == 101 and secure_step and request.header.get("round") == 1

    setattr(transport, what, silent)
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    # In the last step its vector is in the sum already: the others' shares unmask it.
    expected = {} if step == 4 else {1: [1, 2, 3]}
    assert {done: clients.tolist() for done, clients in run.missing().items()} == expected
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


def test_a_request_that_comes_again_gets_the_same_answer(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedrule")
    transport = in_process(homes, SIZES, tmp_path)
    exchange = transport.exchange

    def twice(requests: dict[int, Message], *, seconds: float) -> dict[int, Message]:
        first = dict(exchange(requests, seconds=seconds))
        if any(request.kind == Kind.SECURE for request in requests.values()):
            second = exchange(requests, seconds=seconds)
            for node, answer in first.items():
                np.testing.assert_array_equal(answer.array("message"), second[node].array("message"))
        return first

    transport.exchange = twice  # type: ignore[method-assign,assignment]
    trained = federation(transport, method, homes, tmp_path / "server", secure=True).train()
    assert_equal(trained, simulated(method, homes))


def test_a_round_with_fewer_nodes_than_the_threshold_is_given_up_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)

    def silent(node: int, request: Message) -> bool:
        return node in (101, 102) and request.kind == Kind.ROUND and request.number("round") == 1

    transport.lost = silent
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    # 2 of 4 nodes stay, the threshold is floor(0.6 * 4) + 1 = 3.
    assert "2 of 4 participants sent keys, but the threshold is 3" in caplog.text
    assert "round 2: no update" in caplog.text
    assert [record["clients"] for record in rounds_of(tmp_path / "server")][1] == 0
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


def test_two_nodes_are_too_few(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    with pytest.raises(DataError, match="secure sums need at least 3 nodes, got 2: of two nodes each can take its own"):
        federation(in_process(homes, (3, 3), tmp_path), made("fedgnn"), homes, tmp_path / "server", secure=True)


@pytest.mark.parametrize("all_patterns", [True, False])
def test_counts_are_the_same_after_a_sum_of_integers(all_patterns: bool) -> None:
    homes = population(5, n_homes=6)
    valid = ValidRules.of(homes)
    parts = [homes.subset(np.arange(3)), homes.subset(np.arange(3, 6))]
    total = sum(Statistics.of(part, valid, all_patterns=all_patterns).integers() for part in parts)
    nobody = Statistics.of_nobody(homes.types, homes.relations, valid, all_patterns=all_patterns)
    found = nobody.with_integers(np.asarray(total)).arrays(all_patterns=all_patterns)
    expected = Statistics.of(homes, valid, all_patterns=all_patterns).arrays(all_patterns=all_patterns)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
