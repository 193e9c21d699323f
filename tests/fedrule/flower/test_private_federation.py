"""A private federation by way of nodes: without its noise it gives the simulation's model bit for bit."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the federated methods need the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")
pytest.importorskip("opacus", reason="the account needs the extra private")

import datasets.common.gaussian_mechanism
from baselines.registry import build
from datasets.homes import Words
from datasets.valid import ValidRules
from fedrule.evidence.counts import ROOMS
from fedrule.evidence.private_statistics import BOUNDS, BoundedSums, multipliers
from fedrule.federated import private
from fedrule.federated.array_file import AnyArray, read_arrays
from fedrule.federated.secure.messages import Session
from fedrule.federated.vectors import FlatParameters
from fedrule.flower.messages import SESSION, Kind, Message
from fedrule.flower.node import Node
from fedrule.flower.server.federation import Federation
from fedrule.flower.server.folder import ServerFolder, rounds_of
from fedrule.flower.server.membership import ServerOptions
from fedrule.flower.vocabulary import Vocabulary
from fedrule.methods.federated import Federated
from tests.support.federation import federation, in_process
from tests.support.small_populations import population

SIZES = (10, 30, 20)  # homes of the nodes
METHODS: dict[str, dict[str, object]] = {
    "fedgnn": {"participation": 0.5},
    "fedrank": {"cohort": 30, "candidates": 20, "evidence": 4, "draws": 2},
}


@pytest.fixture(autouse=True)
def _repeatable_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other cohorts and noise in every run of a test, and the same ones whenever the test is run."""
    monkeypatch.setattr("secrets.randbits", random.Random(1).getrandbits)
    normals = np.random.default_rng(0).standard_normal
    monkeypatch.setattr(datasets.common.gaussian_mechanism, "secret_normals", normals)
    monkeypatch.setattr(private, "secret_normals", normals)


def made(name: str) -> Federated:
    method = build(name, epsilon=30.0, clip=0.1, rounds=3, **METHODS[name])
    assert isinstance(method, Federated)
    return method


@pytest.mark.parametrize(("name", "secure"), [(name, secure) for name in METHODS for secure in (False, True)])
def test_without_the_noise_nodes_and_server_give_the_model_of_the_simulation(
    name: str, secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.common.gaussian_mechanism, "secret_normals", np.zeros)
    monkeypatch.setattr(private, "secret_normals", np.zeros)
    monkeypatch.setattr(private, "seeded_normals", lambda *_key: np.zeros)
    # A deployment draws the seed of training first; a simulation that of the counts before it.
    monkeypatch.setattr(Federated, "noise_seed", lambda _self, _rng: 0)
    # Its cohorts are drawn by a secret seed; here by that of the simulation.
    monkeypatch.setattr("secrets.randbits", lambda _bits: int(np.random.default_rng(0).integers(2**62)))
    homes, method = population(5, n_homes=60), made(name)
    transport = in_process(homes, SIZES, tmp_path)
    trained = federation(transport, method, homes, tmp_path / "server", secure=secure).train()
    alone = method.fit(homes, rng=np.random.default_rng(0))
    assert np.array_equal(trained.scorer.valid.cell, alone.scorer.valid.cell)
    for parameter, value in alone.parameters.items():
        np.testing.assert_array_equal(trained.parameters[parameter].numpy(), value.numpy(), err_msg=parameter)


@pytest.mark.parametrize("name", METHODS)
def test_the_noise_of_a_deployment_never_repeats_and_epsilon_is_reported_after_each_round(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.randbits", lambda _bits: 1)  # the same cohorts: models differ by their noise
    homes, method, told = population(5, n_homes=60), made(name), []
    models = []
    for turn in range(2):
        made_federation = federation(
            in_process(homes, SIZES, tmp_path / f"{turn}"), method, homes, tmp_path / f"s{turn}"
        )
        models.append(made_federation.train(lambda done, report, _traffic: told.append((done, report.epsilon))))
    one, other = (model.parameters for model in models)
    same = [one[p].shape == other[p].shape and np.array_equal(one[p].numpy(), other[p].numpy()) for p in one]
    assert not all(same)
    assert [done for done, _ in told] == [1, 2, 3, 1, 2, 3]
    spent = [epsilon for _, epsilon in told[:3]]
    assert spent == sorted(spent)
    assert 29 < spent[-1] <= 30 * (1 + 1e-9)


def test_with_secure_sums_every_node_adds_its_share_of_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of random noise, none and then one standard deviation s in every number: each of three nodes adds
    # s / sqrt(3), the threshold being at least 3, and the server adds none. It divides by the expected number of
    # homes, 0.5 * 60, and moves the model against the mean.
    homes = population(5, n_homes=60)
    method = build("fedgnn", epsilon=30.0, clip=1.0, rounds=1, server_optimizer="plain", **METHODS["fedgnn"])
    assert isinstance(method, Federated)
    models = []
    monkeypatch.setattr("secrets.randbits", lambda _bits: 1)  # the same cohorts
    for turn, normals in enumerate((np.zeros, np.ones)):
        monkeypatch.setattr(private, "secret_normals", normals)
        transport = in_process(homes, SIZES, tmp_path / f"{turn}")
        models.append(federation(transport, method, homes, tmp_path / f"server {turn}", secure=True).train())
    without, noisy = (model.parameters for model in models)
    size = sum(value.numel() for value in noisy.values())
    scale = method.privacy.account(60, 0.5).noise_multiplier * method.privacy.sensitivity(size)
    expected = 3 * scale / np.sqrt(3) / (0.5 * 60)
    assert expected > 0.01
    for name, value in noisy.items():
        np.testing.assert_allclose((without[name] - value).numpy(), expected, rtol=0, atol=1e-6, err_msg=name)


def test_with_secure_sums_every_node_adds_its_share_of_the_noise_of_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As above: each of three nodes adds s / sqrt(3), s being what a trusted server would add. Up to three times half a
    # step of 2^-30 is lost by rounding.
    homes, method, released = population(5, n_homes=60), made("fedrank"), []
    for turn, normals in enumerate((np.zeros, np.ones)):
        monkeypatch.setattr(private, "secret_normals", normals)
        folder = tmp_path / f"server {turn}"
        federation(in_process(homes, SIZES, tmp_path / f"{turn}"), method, homes, folder, secure=True).train()
        released.append(read_arrays(folder / "released.npz", what="released", remedy=""))
    (about, without), (_, noisy) = released
    s = multipliers(method.privacy.account(60, 0.5).counts)["rules"] * BOUNDS["rules"]
    np.testing.assert_allclose(noisy["rules"] - without["rules"], 3 * s / np.sqrt(3), rtol=0, atol=1.5 * 2.0**-30)
    assert about["deviation"] == pytest.approx(s)  # of three members at a threshold of three


def test_noisy_counts_are_given_to_a_secure_sum_once_and_for_one_number_of_homes(tmp_path: Path) -> None:
    homes = population(5, n_homes=60)
    transport = in_process(homes, SIZES, tmp_path)
    transport.lost = lambda _node, asked: asked.kind == Kind.END  # nodes would forget what they gave
    federation(transport, made("fedrank"), homes, tmp_path / "server", secure=True).train()
    for kind in (Kind.RULES, Kind.COUNTS):
        number, request = next((n, r) for n, r in transport.requests if r.kind == kind)
        node = transport.members[number]

        def kept(name: str, node: Node = node) -> bytes:
            (path,) = node.options.state.glob(f"*.{name}")
            return read_arrays(path, what=name, remedy="")[1]["vector"].tobytes()

        given, size = kept(f"noisy_{kind}"), len(kept(f"noisy_{kind}")) // 8
        header = {**request.header, "time": time.time()}
        session = in_session(Session(f"again {kind}", (0, 1, 2), 3, size, 2**53))
        assert node.answer(Message(kind, header, request.arrays | session)).kind == kind
        assert kept("secure") == given
        fewer = in_session(Session(f"fewer {kind}", (0, 1, 2), 3, size, 2**53))
        answer = node.answer(Message(kind, {**header, "n_clients": 2}, request.arrays | fewer))
        assert "the server changed what the noise of this node is scaled by (n_clients)" in answer.text("reason")
    others = in_session(Session("others", (0, 1, 2), 3, size, 2**53)) | {"cell": request.array("cell")[1:]}
    answer = node.answer(Message(kind, header, request.arrays | others))
    assert "is asked for others, which are not in the account" in answer.text("reason")


def test_a_node_refuses_to_send_exact_counts_where_the_method_promises_noise(tmp_path: Path) -> None:
    homes = population(5, n_homes=60)
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, made("fedrank"), homes, tmp_path / "server").train()
    asked = {request.kind: (node, request) for node, request in transport.requests}
    for kind in (Kind.RULES, Kind.COUNTS):
        node, request = asked[kind]
        header = {name: value for name, value in request.header.items() if name != "private"}
        answer = transport.members[node].answer(Message(kind, header, request.arrays))
        assert "promises noise, but exact counts are asked for" in answer.text("reason")


def test_a_server_cannot_lift_the_protection_by_another_method_in_the_same_run(tmp_path: Path) -> None:
    # With noise taken out of the method the node would see no promise that exact counts break.
    homes = population(5, n_homes=60)
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, made("fedrank"), homes, tmp_path / "server").train()
    node, request = next((n, r) for n, r in transport.requests if r.kind == Kind.RULES)
    method = json.loads(request.text("method"))
    method["parameters"] |= {"epsilon": 0.0, "clip": 0.0, "counts_share": 0.0, "sampling": "uniform"}
    header = {**request.header, "method": json.dumps(method, sort_keys=True), "private": False}
    answer = transport.members[node].answer(Message(Kind.RULES, header, request.arrays))
    assert "the server changed the method of this run" in answer.text("reason")


class Stopped(Exception):
    """The server is killed."""


def test_a_round_that_is_done_again_has_the_same_noise(tmp_path: Path) -> None:
    # The server is killed when all nodes have sent their first step of the second round. They must not draw noise
    # anew: the difference of two noisy sums of the same homes would be noise only, their mean has less of it.
    homes = population(5, n_homes=60)
    method = build("fedgnn", epsilon=30.0, clip=1.0, rounds=2, **METHODS["fedgnn"])
    assert isinstance(method, Federated)
    transport = in_process(homes, SIZES, tmp_path)
    killed: list[bool] = []

    def kill(_node: int, request: Message) -> bool:
        if not killed and request.header.get("round") == 1 and request.header.get("step") == 2:
            killed.append(True)
            raise Stopped
        return request.kind == Kind.END  # nodes would forget what they gave

    def vectors() -> list[bytes]:
        kept = [sorted(node.options.state.glob("*.secure")) for node in transport.members.values()]
        return [read_arrays(path, what="secure", remedy="")[1]["vector"].tobytes() for (path,) in kept]

    transport.lost = kill
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server", secure=True).train()
    before = vectors()
    run = federation(transport, method, homes, tmp_path / "server", secure=True)
    run.train()
    assert vectors() == before
    # The same round for another cohort is a second release.
    node, request = [(n, r) for n, r in transport.requests if r.kind == Kind.ROUND and r.header.get("round") == 1][-1]
    session = Session("again", (0, 1, 2), 3, 10, 10)
    changed = {"cohort": 255 - request.array("cohort"), **in_session(session)}
    answer = transport.members[node].answer(Message(Kind.ROUND, request.header, {**request.arrays, **changed}))
    assert "this node has given its noisy sum of round 2" in answer.text("reason")


def test_private_counts_are_released_once_where_the_setup_is_repeated(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=60), made("fedrank")
    transport = in_process(homes, SIZES, tmp_path)
    asked: list[Message] = []

    def kill(_node: int, request: Message) -> bool:
        if request.kind == Kind.COUNTS:
            asked.append(request)
            if len(asked) == 1:
                raise Stopped
        return False

    transport.lost = kill
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server").train()
    n_rules = sum(request.kind == Kind.RULES for _, request in transport.requests)
    federation(transport, method, homes, tmp_path / "server").train()
    assert sum(request.kind == Kind.RULES for _, request in transport.requests) == n_rules == 3
    np.testing.assert_array_equal(asked[0].array("cell"), asked[1].array("cell"))


def test_the_seed_of_private_cohorts_is_kept_by_the_server_alone(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=60), made("fedgnn")
    cohorts = []
    for turn in range(2):
        transport = in_process(homes, SIZES, tmp_path / f"{turn}")
        run = federation(transport, method, homes, tmp_path / f"server {turn}")
        run.train()
        kept = tmp_path / f"server {turn}" / "run.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert run.sampling_seed == json.loads(kept.read_text())["sampling_seed"]
        assert all(str(run.sampling_seed) not in json.dumps(request.header) for _, request in transport.requests)
        assert run.sampling_seed == federation(transport, method, homes, tmp_path / f"server {turn}").sampling_seed
        cohorts.append([r.array("cohort").tobytes() for _, r in transport.requests if r.kind == Kind.ROUND])
    assert cohorts[0] != cohorts[1]


def test_a_server_cannot_lower_the_noise_of_a_node_by_another_number_of_homes_or_nodes(tmp_path: Path) -> None:
    # With epsilon and participation given, more homes mean a smaller delta and more noise, fewer of them less. A cohort
    # of many more nodes would make the share of each smaller.
    homes = population(5, n_homes=60)
    method = build("fedgnn", epsilon=30.0, clip=1.0, rounds=1, **METHODS["fedgnn"])
    assert isinstance(method, Federated)
    transport = in_process(homes, SIZES, tmp_path)
    transport.lost = lambda _node, asked: asked.kind == Kind.END
    method = replace(method, rounds=2)
    federation(transport, method, homes, tmp_path / "server", secure=True).train()
    node, request = next((n, r) for n, r in transport.requests if r.kind == Kind.ROUND)
    setup = request.header["setup"]
    assert isinstance(setup, dict)
    assert (setup["n_clients"], setup["nodes"]) == (60, 3)
    for name in ("n_clients", "nodes", "seed", "first"):
        changed = {**request.header, "setup": {**setup, name: 1}, "round": 1, "time": time.time()}
        session = Session(f"again {name}", (0, 1, 2), 3, 10, 10)
        answer = transport.members[node].answer(Message(Kind.ROUND, changed, request.arrays | in_session(session)))
        assert f"the server changed the setup of this run ({name})" in answer.text("reason")
    many = Session("many", tuple(range(30)), 19, 10, 10)
    plain = {name: value for name, value in request.header.items() if name != "setup"}
    answer = transport.members[node].answer(
        Message(Kind.ROUND, {**plain, "round": 1, "time": time.time()}, request.arrays | in_session(many))
    )
    assert "a secure sum of 30 nodes, this run has 3" in answer.text("reason")


def in_session(session: Session) -> dict[str, AnyArray]:
    return {
        "message": np.frombuffer(session.to_bytes(), dtype=np.uint8),
        SESSION: np.frombuffer(session.digest, dtype=np.uint8),
    }


def test_rooms_are_counted_only_where_the_vocabulary_declares_words(tmp_path: Path) -> None:
    # Noise alone would look like homes that keep rules in one room; and whether any home has words is not released.
    homes, method = population(5, n_homes=60), made("fedrank")
    assert homes.words is not None
    for words in (False, True):
        transport = in_process(homes, SIZES, tmp_path / f"{words}")
        vocabulary = replace(Vocabulary.of(homes), words=words)
        transport.members = {n: replace(node, vocabulary=vocabulary) for n, node in transport.members.items()}
        folder = tmp_path / f"{words}" / "server"
        Federation(transport, method, vocabulary, ServerOptions(folder, nodes=3, wait=1.0)).train()
        _, arrays = read_arrays(folder / "setup.npz", what="setup", remedy="")
        assert any(arrays[f"rooms.{name}"].any() for name in ROOMS) == words


def test_nodes_whose_homes_have_no_words_add_nothing_to_the_counts_of_rooms() -> None:
    homes = population(5, n_homes=20)
    valid = ValidRules.of(homes)
    bare = replace(homes, words=None)
    found = BoundedSums.of(bare, valid, always_rooms=True)
    n_types = len(homes.types)
    assert found.parts["rooms"].shape == (2 * (n_types**2 + len(valid)),)
    assert not found.parts["rooms"].any()
    worded = replace(homes, words=Words(np.arange(homes.n_devices), np.zeros(homes.n_devices, dtype=np.int64)))
    for both in (found + BoundedSums.of(worded, valid), BoundedSums.of(worded, valid) + found):
        np.testing.assert_array_equal(both.parts["rooms"], BoundedSums.of(worded, valid).parts["rooms"])


def test_a_node_without_words_trains_with_one_that_has_them(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=60), made("fedrank")
    worded = replace(homes, words=Words(np.arange(homes.n_devices), np.zeros(homes.n_devices, dtype=np.int64)))
    transport, other = in_process(homes, SIZES, tmp_path), in_process(worded, SIZES, tmp_path / "other")
    transport.members[101] = other.members[101]
    federation(transport, method, homes, tmp_path / "server").train()
    _, arrays = read_arrays(tmp_path / "server" / "setup.npz", what="setup", remedy="")
    assert arrays["rooms.named_types"].any()


@pytest.mark.parametrize("name", METHODS)
def test_the_card_of_a_private_model_names_neither_seed_nor_homes(name: str, tmp_path: Path) -> None:
    from fedrule.inference.recommender import Recommender
    from fedrule.models.file import SavedModel

    homes = population(5, n_homes=60)
    run = federation(in_process(homes, SIZES, tmp_path), made(name), homes, tmp_path / "server", seed=7)
    run.train()
    saved = SavedModel.load(tmp_path / "server" / "model.safetensors")
    assert Recommender(saved) is not None
    (training,) = saved.card.trainings
    assert (training.fingerprint, training.seed, training.rules) == (None, None, None)
    assert str(run.sampling_seed) not in saved.card.json()


@pytest.mark.parametrize("file", ["sum-round.npz", "checkpoint"])
def test_a_noisy_sum_that_is_known_is_not_made_again_without_a_node(
    file: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The server is killed in the second round, when the sum is unmasked and before or after it is kept; a node is gone
    # when it resumes. The difference of two sums would be the vector of that node with its share of the noise alone.
    homes = population(5, n_homes=60)
    method = build("fedgnn", epsilon=30.0, clip=1.0, rounds=3, **METHODS["fedgnn"])
    assert isinstance(method, Federated)
    transport = in_process(homes, (10, 20, 20, 10), tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        write = ServerFolder.write

        def stopping(self: ServerFolder, name: str, run: str, arrays: dict[str, AnyArray], **about: object) -> None:
            if name == file and transport.requests[-1][1].header.get("round") == 1:
                raise Stopped
            write(self, name, run, arrays, **about)

        patch.setattr(ServerFolder, "write", stopping)

        def kill(done: int, _report: object, _traffic: object) -> None:
            if done == 2:
                raise Stopped

        with pytest.raises(Stopped):
            federation(transport, method, homes, tmp_path / "server", secure=True).train(kill)
    before = len(transport.requests)
    transport.lost = lambda node, request: node == 101 and request.header.get("round") == 1
    federation(transport, method, homes, tmp_path / "server", secure=True).train()
    again = [request for _, request in transport.requests[before:] if request.header.get("round") == 1]
    refused = caplog.text.count("it refuses: this node has unmasked the sum of round 2 before, with other nodes")
    assert (bool(again), refused) == ((False, 0) if file == "checkpoint" else (True, 3))


@pytest.mark.parametrize("secure", [False, True])
def test_only_what_has_noise_leaves_a_node(secure: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # In an exact run a node also tells how many homes counted, which rows they touched and how long training took.
    homes, method = population(5, n_homes=60), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)
    transport.lost = lambda _node, request: request.kind == Kind.END
    model = federation(transport, method, homes, tmp_path / "server", secure=secure).train()
    seen = [answer for answer in transport.answers if answer.kind == Kind.ROUND]
    size = sum(value.numel() for value in model.parameters.values())
    if secure:
        for node in transport.members.values():
            (path,) = node.options.state.glob("*.secure")
            vector = read_arrays(path, what="secure", remedy="")[1]["vector"]
            assert len(vector) == size + 6
            assert vector[:size].any()
            assert not vector[size:].any()  # weight, loss, clients, refused, rows, bytes of states
    else:
        layout = FlatParameters.of(model.parameters)
        for answer in seen:
            assert answer.array("row").tolist() == [*range(layout.n_rows)]
            names = ("weight", "loss", "clients", "refused", "rows", "state_bytes")
            assert [answer.header[name] for name in names] == [0] * 6
    assert len(seen) == 9
    assert not any({"seconds", "ready"} & answer.header.keys() for answer in seen)
    for record in rounds_of(tmp_path / "server"):
        assert record["seconds"] == record["ready"] == {}
        assert not {"clients", "refused", "loss", "state_bytes"} & record.keys()
        if not secure:
            assert len({*record["sent"].values()}) == 1  # type: ignore[union-attr]
    assert "no update" not in caplog.text


def test_a_private_run_without_counts_gives_no_rules(tmp_path: Path) -> None:
    # All of its epsilon is for rounds: of rules or counts with noise nothing is in the account.
    homes = population(5, n_homes=60)
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, made("fedgnn"), homes, tmp_path / "server").train()
    assert {request.kind for _, request in transport.requests} == {Kind.JOIN, Kind.ROUND, Kind.END}
    node, request = transport.requests[0]
    header = {**request.header, "private": True, "n_clients": 60}
    answer = transport.members[node].answer(Message(Kind.RULES, header))
    assert "rules are asked for, which this run has no part of its epsilon for" in answer.text("reason")
    answer = transport.members[node].answer(Message(Kind.COUNTS, header, {"cell": np.arange(3)}))
    assert "counts over homes are asked for, which fedgnn does not use" in answer.text("reason")


@pytest.mark.parametrize("secure", [False, True])
def test_a_node_answers_no_more_rounds_than_its_account_has(secure: bool, tmp_path: Path) -> None:
    homes = population(5, n_homes=60)
    transport = in_process(homes, SIZES, tmp_path)
    transport.lost = lambda _node, asked: asked.kind == Kind.END
    federation(transport, made("fedgnn"), homes, tmp_path / "server", secure=secure).train()
    node, request = [(n, r) for n, r in transport.requests if r.kind == Kind.ROUND][-1]
    assert request.header["round"] == 2
    more = in_session(Session("more", (0, 1, 2), 3, 10, 10)) if secure else {}
    for number in (3, 1000, -1):
        header = {**request.header, "round": number, "time": time.time()}
        answer = transport.members[node].answer(Message(Kind.ROUND, header, request.arrays | more))
        assert f"round {number + 1} is asked for, but this run has 3" in answer.text("reason")
