"""With secure sums the server learns sums over nodes only, and the model is still the simulation's, bit for bit."""

from __future__ import annotations

import shutil
import time
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
from fedrule.federated.array_file import AnyArray
from fedrule.federated.secure.messages import Session
from fedrule.flower.messages import SESSION, Kind, Message
from fedrule.flower.server.folder import ServerFolder, rounds_of
from tests.fedrule.flower.test_federation import assert_equal, made, simulated
from tests.support.federation import InProcess, federation, in_process
from tests.support.small_populations import population

SIZES = (1, 3, 1, 1)  # homes of the nodes


@pytest.mark.parametrize(
    "name", ["fedgnn", "fedgnn, partial", "fedrule, partial", "fedrule, adam", "scaffold", "fedrank"]
)
def test_secure_sums_give_the_model_of_the_simulation(name: str, tmp_path: Path) -> None:
    more = {"cohort": 8} if name == "fedrank" else {"participation": 0.7} if "partial" in name else {}
    homes, method = population(5, n_homes=12), made(name, **more)
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    assert len(run.missing()) < 4  # rounds: in some all of the cohort counted
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


@pytest.mark.parametrize("n_silent", [0, 2])
def test_a_sum_of_too_few_nodes_with_homes_in_the_cohort_is_given_up(
    n_silent: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Nine homes on a node each, of which a secure sum needs floor(0.51 * 9) + 1 = 5. A cohort of 5 of the 8 homes that
    # have rules: where two of its nodes fall silent, 3 of 7 nodes that stay would not add zeros.
    homes, method = population(5, n_homes=9), made("fedgnn", participation=0.6, rounds=1, secure_threshold=0.51)
    transport = in_process(homes, (1,) * 9, tmp_path)
    silent: list[int] = []

    def lost(node: int, request: Message) -> bool:
        if request.kind == Kind.ROUND and request.array("cohort").any() and len(silent) < n_silent:
            silent.append(node)
        return request.header.get("round") == 0 and request.header.get("step") == 3 and node in silent

    transport.lost = lost
    federation(transport, method, homes, tmp_path / "server").train()
    unmasked = [
        request for _, request in transport.requests if request.header.get("step") == 4 and "round" in request.header
    ]
    (record,) = rounds_of(tmp_path / "server")
    n_with_rules = len(np.unique(homes.rules.home))
    n_cohort = round(0.6 * n_with_rules)
    assert n_cohort == 5
    assert record["clients"] == (0 if n_silent else n_cohort)
    assert bool(unmasked) == (not n_silent)
    assert ("3 nodes with homes in the cohort sent a masked vector, but the threshold is 5" in caplog.text) == bool(
        n_silent
    )


def test_a_round_whose_cohort_is_on_too_few_nodes_asks_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Ten of the twelve homes are on one node: in some round a cohort of three is on fewer than three nodes.
    homes, method = population(5, n_homes=12), made("fedgnn", participation=0.35)
    transport = in_process(homes, (10, 1, 1), tmp_path)
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    given_up = [done for done, record in enumerate(rounds_of(tmp_path / "server")) if not record["clients"]]
    assert given_up
    assert "is given up, and no node is asked" in caplog.text
    assert not [r for _, r in transport.requests if r.kind == Kind.ROUND and r.header.get("round") in given_up]
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


def test_cohorts_of_two_homes_are_refused_before_the_run(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, (2, 2, 2), tmp_path)
    with pytest.raises(DataError, match="a cohort of 2 homes is too small for secure sums of 3 nodes"):
        federation(transport, made("fedrank", cohort=2), homes, tmp_path / "server", secure=True)
    run = federation(transport, made("fedgnn", participation=0.3), homes, tmp_path / "server", secure=True)
    with pytest.raises(DataError, match="a cohort of 2 homes is too small for secure sums of 3 nodes"):
        run.train()


def test_no_single_sum_of_a_node_reaches_the_server(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedrank")
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, method, homes, tmp_path / "server", secure=True).train()
    assert transport.answers
    for answer in transport.answers:
        secret = {"weight", "loss", "clients", "self_rules", "numbers", "cell", "count"}
        assert not secret & {*answer.header, *answer.arrays}
        assert set(answer.arrays) <= {"message", "counted", "with_rules"}


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("what", ["lost", "late"])
def test_a_node_that_is_gone_after_any_step_has_dropped_out(step: int, what: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=12), made("fedrule", rounds=3)  # before, without and again with the node
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)

    def silent(node: int, request: Message) -> bool:
        secure_step = request.kind in (Kind.ROUND, Kind.SECURE) and request.header.get("step") == step
        return node == 101 and secure_step and request.header.get("round") == 1

    setattr(transport, what, silent)
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    # In the last step its vector is in the sum already: the others' shares unmask it.
    expected = {} if step == 4 else {1: [client for client in (3, 4, 5) if client in homes.rules.home]}
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


def not_over(_node: int, request: Message) -> bool:
    """Nodes do not hear that the run is over, and keep its secrets."""
    return request.kind == Kind.END


def last_request(requests: list[tuple[int, Message]], **header: object) -> tuple[int, Message]:
    return [(n, r) for n, r in requests if all(r.header.get(name) == value for name, value in header.items())][-1]


def test_a_late_duplicate_of_an_earlier_step_changes_nothing(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    transport.lost = not_over
    federation(transport, made("fedgnn", rounds=1), homes, tmp_path / "server", secure=True).train()
    for step in (1, 2, 3):
        node, request = last_request(transport.requests, round=0, step=step)
        folder = transport.members[node].options.state
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        answer = transport.members[node].answer(request)
        assert answer.kind == Kind.REFUSED
        assert f"step {step} of a secure sum came after step 4" in answer.text("reason")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_late_request_of_an_older_sum_does_not_replace_the_secrets_of_the_current_one(tmp_path: Path) -> None:
    # A request of the first round arrives once more while the second one is between its first and second step.
    homes = population(5, n_homes=6)
    transport, seen = in_process(homes, SIZES, tmp_path), []

    def late(node: int, request: Message) -> bool:
        if node == 101 and request.header.get("round") == 1 and request.header.get("step") == 2 and not seen:
            _, old = last_request([each for each in transport.requests if each[0] == 101], round=0, step=1)
            seen.append(transport.members[101].answer(old))
        return False

    transport.lost = late
    run = federation(transport, made("fedgnn", rounds=2), homes, tmp_path / "server", secure=True)
    trained = run.train()
    (answer,) = seen
    assert "a secure sum that was begun before the last one of this node" in answer.text("reason")
    assert not run.missing()
    assert_equal(trained, simulated(made("fedgnn", rounds=2), homes))


def test_a_node_that_deals_wrong_shares_is_left_out_of_the_next_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # From the second round on the second node deals shares of other secrets than it has advertised. That round is lost;
    # the next ones have a sum of the three others, whose threshold is 3.
    from fedrule.federated import secure_sum

    homes, method = population(5, n_homes=12), made("fedgnn")
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    deal, guilty = secure_sum.deal, []

    def lost(node: int, request: Message) -> bool:
        guilty[:] = [node == 101 and request.header.get("round") in (1, 2, 3)]
        return False

    def wrong(secret: int, points: list[int], *, threshold: int) -> list[int]:
        return deal(secret ^ 1 if guilty == [True] else secret, points, threshold=threshold)

    monkeypatch.setattr(secure_sum, "deal", wrong)
    transport.lost = lost
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    name = next(member.node for member in run.membership.members if member.first == 3)
    assert "it dealt wrong shares, or too many survivors sent wrong ones" in caplog.text
    assert f"node {name} is left out from here on" in caplog.text
    clients = [record["clients"] for record in rounds_of(tmp_path / "server")]
    with_rules = set(np.unique(homes.rules.home).tolist())
    assert clients == [len(with_rules), 0, len(with_rules - {3, 4, 5}), len(with_rules - {3, 4, 5})]
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


def test_a_node_refuses_a_server_that_asks_for_plain_sums_or_a_lower_threshold(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, (1, 1, 1, 3), tmp_path)
    method = made("fedrank", rounds=1, cohort=0, secure_threshold=0.8)
    federation(transport, method, homes, tmp_path / "server").train()
    for kind in (Kind.RULES, Kind.COUNTS, Kind.ROUND):
        node, request = [(n, r) for n, r in transport.requests if r.kind == kind][-1]
        bare = {name: array for name, array in request.arrays.items() if name != SESSION}
        answer = transport.members[node].answer(Message(kind, request.header, bare))
        assert "promises secure sums, but a plain sum is asked for" in answer.text("reason")
        asked = Session.from_bytes(request.array("message").tobytes())
        session = Session("weak", asked.members, 3, asked.size, asked.bound)
        message = {"message": np.frombuffer(session.to_bytes(), dtype=np.uint8)}
        place = {SESSION: np.frombuffer(session.digest, dtype=np.uint8)}
        answer = transport.members[node].answer(Message(kind, request.header, request.arrays | message | place))
        # Of 4 nodes: floor(0.8 * 4) + 1 = 4.
        assert "a threshold of 3, the method of this run promises 4" in answer.text("reason")
        answer = transport.members[node].answer(Message(kind, request.header, request.arrays | message))
        assert "whose session is not the one in its message" in answer.text("reason")


def test_requests_of_a_sum_have_the_time_at_which_they_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every exchange takes 100 s, so that the last of four steps begins 300 s after the first; nodes allow 1 s.
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    now, exchange = [1e9], transport.exchange
    monkeypatch.setattr("time.time", lambda: now[0])

    def slow(requests: dict[int, Message], *, seconds: float) -> dict[int, Message]:
        answers = dict(exchange(requests, seconds=seconds))
        now[0] += 100
        return answers

    transport.exchange = slow  # type: ignore[method-assign,assignment]
    run = federation(
        transport, made("fedgnn", rounds=2), homes, tmp_path / "server", secure=True, clock=1.0, limit=120.0
    )
    run.train()
    assert not run.missing()


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


def test_sums_of_nodes_with_many_homes_and_large_weights_fit(tmp_path: Path) -> None:
    # The sum of weights of a node with 3,000 homes of weight 1, in multiples of 2^-30, is beyond 2^41.
    from fedrule.flower.server.secure import EXACT

    homes = population(5, n_homes=12)
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    federation(transport, made("fedgnn", rounds=1), homes, tmp_path / "server", secure=True).train()
    _, request = last_request(transport.requests, round=0, step=1)
    session = Session.from_bytes(request.array("message").tobytes())
    assert 3000 * 2**30 < session.bound == EXACT
    assert 4 * session.bound < 2**63


class Stopped(Exception):
    """The server is killed."""


def killed_before(monkeypatch: pytest.MonkeyPatch, file: str, *, times: int = 0) -> None:
    """Kill the server when it is about to write a file, once, after so many times."""
    write, seen = ServerFolder.write, []

    def stopping(self: ServerFolder, name: str, run: str, arrays: dict[str, AnyArray], **about: object) -> None:
        if name == file:
            seen.append(name)
            if len(seen) == times + 1:
                raise Stopped
        write(self, name, run, arrays, **about)

    monkeypatch.setattr(ServerFolder, "write", stopping)


def of_round(transport: InProcess, number: int) -> list[Message]:
    return [request for _, request in transport.requests if request.header.get("round") == number]


@pytest.mark.parametrize("name", ["fedgnn", "fedrule, partial", "fedrule, adam"])
def test_a_sum_that_was_known_before_a_crash_is_not_asked_for_again(name: str, tmp_path: Path) -> None:
    # The server is killed between the sum of the second round and its checkpoint, and a node is gone when it resumes. A
    # second sum, without that node, would differ from the first by what the node has sent.
    more = {"participation": 0.8} if "partial" in name else {}
    homes, method = population(5, n_homes=12), made(name, **more)
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)

    def kill(done: int, _report: object, _traffic: object) -> None:
        if done == 2:
            raise Stopped

    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server", secure=True).train(kill)
    before = len(of_round(transport, 1))
    transport.lost = lambda node, request: node == 101 and request.kind != Kind.JOIN
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained, missing = run.train(), run.missing()
    assert len(of_round(transport, 1)) == before
    assert not {0, 1} & missing.keys()
    assert {client for clients in missing.values() for client in clients.tolist()} <= {3, 4, 5}
    assert_equal(trained, simulated(method, homes, missing=missing))
    assert not [*(tmp_path / "server").glob("sum-*")]  # the run is over


@pytest.mark.parametrize("gone", [True, False])
def test_nodes_unmask_the_sum_of_a_round_once_or_with_the_same_nodes(
    gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # The server is killed when all nodes have revealed their shares of the second round, before it keeps the sum.
    homes, method = population(5, n_homes=12), made("fedrule")
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    killed_before(monkeypatch, "sum-round.npz", times=1)
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server", secure=True).train()
    transport.lost = lambda node, request: gone and node == 101 and request.header.get("round") == 1
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    trained = run.train()
    words = "this node has unmasked the sum of round 2 before, with other nodes"
    assert caplog.text.count(f"it refuses: {words}") == (3 if gone else 0)
    with_rules = np.unique(homes.rules.home).tolist()
    clients = [record["clients"] for record in rounds_of(tmp_path / "server")]
    assert clients == [len(with_rules), 0 if gone else len(with_rules), len(with_rules), len(with_rules)]
    assert {done: found.tolist() for done, found in run.missing().items()} == ({1: with_rules} if gone else {})
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


@pytest.mark.parametrize("what", ["rules", "counts"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_setup_that_is_done_again_is_one_of_the_same_nodes(
    what: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four nodes joined where three are wanted; killed before a sum is kept, or before the setup is, and one is gone.
    homes, method = population(5, n_homes=12), made("fedrank", cohort=0, rounds=1)
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    following = {"rules": "sum-counts.npz", "counts": "setup.npz"}[what] if kept else f"sum-{what}.npz"
    killed_before(monkeypatch, following)
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server", secure=True, nodes=3).train()
    everybody, asked = transport.members, [r.kind for _, r in transport.requests].count(Kind(what))
    transport.members = {node: member for node, member in everybody.items() if node != 103}
    with pytest.raises(DataError, match=r"3 of 4 nodes joined.*start a new run in an empty folder"):
        federation(transport, method, homes, tmp_path / "server", secure=True, nodes=3, wait=0.1).train()
    transport.members = everybody
    trained = federation(transport, method, homes, tmp_path / "server", secure=True, nodes=3).train()
    assert [r.kind for _, r in transport.requests].count(Kind(what)) == (asked if kept else 2 * asked)
    assert_equal(trained, simulated(method, homes))


def test_nodes_do_not_count_again_for_a_server_that_lost_what_it_knew(tmp_path: Path) -> None:
    # Of its folder the name of the run is left: it numbers nodes anew, without one that is gone.
    homes, method = population(5, n_homes=12), made("fedgnn")
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)
    transport.lost = lambda _node, request: request.kind in (Kind.ROUND, Kind.END)
    federation(transport, method, homes, tmp_path / "server", secure=True).train()
    for path in (tmp_path / "server").iterdir():
        if path.name != "run.json":
            path.unlink()
    del transport.members[103]
    with pytest.raises(DataError, match="this node has unmasked the sum of rules before, with other nodes"):
        federation(transport, method, homes, tmp_path / "server", secure=True).train()


@pytest.mark.parametrize("gone", [True, False])
def test_a_server_with_an_older_folder_gets_the_same_sums_or_none(
    gone: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    homes, method = population(5, n_homes=12), made("fedgnn")
    transport = in_process(homes, (3, 3, 3, 3), tmp_path)

    def copy(done: int, _report: object, _traffic: object) -> None:
        if done == 2:  # with the checkpoint after the first round
            shutil.copytree(tmp_path / "server", tmp_path / "older")
        if done == 4:
            raise Stopped

    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server", secure=True).train(copy)
    (tmp_path / "older" / "sum-round.npz").unlink()
    transport.lost = lambda node, request: gone and node == 101 and request.header.get("round") == 1
    run = federation(transport, method, homes, tmp_path / "older", secure=True)
    trained = run.train()
    if not gone:
        assert not run.missing()
        assert_equal(trained, simulated(method, homes))
        return
    # The second round cannot be had again; with another model, nor can the third and the fourth.
    assert [record["clients"] for record in rounds_of(tmp_path / "older")][-3:] == [0, 0, 0]
    assert "this node has taken part in the sum of round 3, and is asked for another one" in caplog.text
    assert "this node has taken part in the sum of round 4, and is asked for another one" in caplog.text


def test_a_node_refuses_a_sum_in_which_it_has_another_name(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    transport.lost = not_over
    federation(transport, made("fedgnn", rounds=2), homes, tmp_path / "server", secure=True).train()
    node, request = last_request(transport.requests, round=1, step=1)
    asked = Session.from_bytes(request.array("message").tobytes())
    session = Session("again", asked.members, asked.threshold, asked.size, asked.bound)
    arrays = {
        "message": np.frombuffer(session.to_bytes(), dtype=np.uint8),
        SESSION: np.frombuffer(session.digest, dtype=np.uint8),
    }
    names = request.header["names"]
    assert isinstance(names, list)
    for changed, words in (
        (names[::-1], "a secure sum in which this node has another name"),
        (names[1:], "a secure sum of 4 nodes that are not named"),
        ([names[0]] * 4, "a secure sum of 4 nodes that are not named"),
    ):
        header = {**request.header, "names": changed, "time": time.time()}
        answer = transport.members[node].answer(Message(Kind.ROUND, header, request.arrays | arrays))
        assert words in answer.text("reason")


def test_when_a_run_is_over_nodes_forget_its_secrets_and_give_nothing_more(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, made("fedrank", rounds=2, cohort=0), homes, tmp_path / "server", secure=True).train()
    for node in transport.members.values():
        kept = {path.suffix for path in node.options.state.iterdir()}
        assert kept == {".homes", ".json", ".method", ".setup", ".states", ".sums", ""}  # the last is the lock
    for kind in (Kind.RULES, Kind.COUNTS, Kind.ROUND):
        number, request = next((n, r) for n, r in transport.requests if r.kind == kind)
        answer = transport.members[number].answer(request.at(time.time()))
        assert "this run is over, and this node has deleted its secrets of it" in answer.text("reason")
