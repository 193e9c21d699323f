"""A federation by way of nodes gives the simulation's model, bit for bit, whatever happens to nodes and server."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the federated methods need the extra graph")

from baselines.registry import build
from datasets import Homes
from datasets.common.errors import DataError
from fedrule.evidence.statistics import Statistics
from fedrule.federated.rounds import RoundReport
from fedrule.federated.vectors import FlatParameters
from fedrule.flower import messages
from fedrule.flower.local_run import status_text
from fedrule.flower.messages import Kind, Message
from fedrule.flower.method import federated_method, method_text
from fedrule.flower.node import Node
from fedrule.flower.node_files import NodeFolder
from fedrule.flower.server import membership
from fedrule.flower.server.folder import rounds_of, status_of
from fedrule.flower.server.membership import Member, assign_numbers
from fedrule.flower.server.rounds import RoundTraffic
from fedrule.flower.vocabulary import Vocabulary
from fedrule.methods.federated import Federated
from fedrule.network.score import GraphModel
from tests.support.federation import federation, in_process
from tests.support.small_populations import population

SIZES = (1, 3, 2)  # homes of the nodes
METHODS: dict[str, dict[str, object]] = {
    "fedgnn": {},
    "fedgnn, partial": {"participation": 0.5, "weighting": "rules", "corrupted": 0.2, "drop_out": 0.2, "late": 0.1},
    "fedgnn, gat": {"encoder": "gat", "hidden": 4},
    "fedgnn, paper": {"preset": "paper"},
    "fedprox": {},
    "fedrule": {},
    "fedrule, partial": {"participation": 0.5, "weighting": "roots"},
    "fedrule, dense": {"predictor_lambda": 0.5, "participation": 0.6},
    "fedrule, adam": {"client_optimizer": "adam"},
    "fedgate": {"participation": 0.7, "corrupted": 0.3},
    "scaffold": {"participation": 0.7},
    "fedrank": {"cohort": 3, "candidates": 20},
    "fedrank, draws": {"draws": 2, "decay": False, "hidden_rules": 0.5, "cohort": 0, "candidates": 20},
}


def made(name: str, **more: object) -> Federated:
    method = build(name.partition(",")[0], **{"rounds": 4, **METHODS[name], **more})
    assert isinstance(method, Federated)
    return method


def simulated(method: Federated, homes: Homes, **more: object) -> GraphModel:
    return method.fit(homes, rng=np.random.default_rng(0), **more)  # type: ignore[arg-type]


def assert_equal(one: GraphModel, other: GraphModel) -> None:
    assert one.parameters.keys() == other.parameters.keys()
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value.numpy(), other.parameters[name].numpy(), err_msg=name)


@pytest.mark.parametrize("name", METHODS)
def test_nodes_and_server_give_the_model_of_the_simulation(name: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made(name)
    trained = federation(in_process(homes, SIZES, tmp_path), method, homes, tmp_path / "server").train()
    assert_equal(trained, simulated(method, homes))


STATEFUL = ("fedgnn", "fedrule, partial", "fedrule, dense", "fedgate", "scaffold", "fedgnn, paper", "fedrank")


class Stopped(Exception):
    """The server is killed."""


def of_round(request: Message, number: int) -> bool:
    return request.kind == Kind.ROUND and request.number("round") == number


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("what", ["lost", "late"])
def test_a_node_that_does_not_answer_in_time_has_dropped_out_as_in_a_simulation(
    name: str, what: str, tmp_path: Path
) -> None:
    homes, method = population(5, n_homes=6), made(name)
    transport = in_process(homes, SIZES, tmp_path)

    def silent(node: int, request: Message) -> bool:
        return (node == 101 and of_round(request, 1)) or (node == 102 and of_round(request, 2))

    setattr(transport, what, silent)  # the request never came, or the node trained in vain
    run = federation(transport, method, homes, tmp_path / "server")
    trained, missing = run.train(), run.missing()
    assert set(missing) <= {1, 2}  # fewer where no client of the node is in the cohort
    assert all(set(clients) <= {1, 2, 3} for done, clients in missing.items() if done == 1)
    assert_equal(trained, simulated(method, homes, missing=missing))
    if name == "fedgnn":  # everybody with a rule takes part, which home 4 has not; that they are missing tells
        assert {done: clients.tolist() for done, clients in missing.items()} == {1: [1, 2, 3], 2: [5]}
        with pytest.raises(AssertionError):
            assert_equal(trained, simulated(method, homes))


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("answered", [True, False])
def test_a_server_that_was_killed_resumes_with_the_same_bits(name: str, answered: bool, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made(name)
    transport = in_process(homes, SIZES, tmp_path)
    killed = False

    def kill(node: int, request: Message) -> bool:
        nonlocal killed
        if not killed and node == 101 and request.kind == Kind.ROUND and request.number("round") >= 2:
            killed = True
            raise Stopped
        return False

    # Killed when the answer of one node, or also that of the next, is there: their states stay pending.
    setattr(transport, "late" if answered else "lost", kill)
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server").train()
    transport.members = {node + 7: member for node, member in transport.members.items()}  # Flower numbers them anew
    trained = federation(transport, method, homes, tmp_path / "server").train()
    assert_equal(trained, simulated(method, homes))


def test_a_finished_run_gives_its_model_again(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedrule")
    transport = in_process(homes, SIZES, tmp_path)
    first = federation(transport, method, homes, tmp_path / "server").train()
    before = len(transport.requests)
    assert_equal(federation(transport, method, homes, tmp_path / "server").train(), first)
    assert {request.kind for _, request in transport.requests[before:]} == {Kind.JOIN}


def test_a_run_with_other_parameters_does_not_resume(tmp_path: Path) -> None:
    homes, transport = population(5, n_homes=6), in_process(population(5, n_homes=6), SIZES, tmp_path)
    federation(transport, made("fedgnn"), homes, tmp_path / "server").train()
    with pytest.raises(DataError, match=r"run.json: of another run, with another parameters; choose another folder"):
        federation(transport, made("fedgnn", learning_rate=0.2), homes, tmp_path / "server")
    with pytest.raises(DataError, match="with another seed"):
        federation(transport, made("fedgnn"), homes, tmp_path / "server", seed=1)


def test_two_runs_after_each_other_do_not_mix_their_states(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedrule")
    transport = in_process(homes, SIZES, tmp_path)
    federation(transport, method, homes, tmp_path / "one", seed=1).train()
    second = federation(transport, method, homes, tmp_path / "two").train()
    assert_equal(second, simulated(method, homes))


@pytest.mark.parametrize("name", ["fedgnn", "fedrank"])
def test_a_node_whose_folder_is_new_joins_again_where_the_method_keeps_no_states(name: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made(name)
    transport = in_process(homes, SIZES, tmp_path)

    wiped = False

    def wipe(node: int, request: Message) -> bool:
        nonlocal wiped
        if node == 101 and request.kind == Kind.ROUND and request.number("round") >= 2 and not wiped:
            wiped = True
            for file in (tmp_path / "state-1").glob("[!n]*"):  # all but node.json
                file.unlink()
        return False

    transport.lost = wipe
    assert_equal(federation(transport, method, homes, tmp_path / "server").train(), simulated(method, homes))
    assert wiped


def test_a_node_that_lost_its_states_is_refused_and_drops_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    homes, method = population(5, n_homes=6), made("fedrule")
    transport = in_process(homes, SIZES, tmp_path)

    def lose(node: int, request: Message) -> bool:
        if node == 101 and of_round(request, 2):
            next((tmp_path / "state-1").glob("*.states")).unlink()
        return False

    transport.lost = lose
    run = federation(transport, method, homes, tmp_path / "server")
    trained = run.train()
    assert "no such file, but the server counts on the states of 3 clients of this node; restore" in caplog.text
    assert {done: clients.tolist() for done, clients in run.missing().items()} == {2: [1, 2, 3], 3: [1, 2, 3]}
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


def test_the_server_numbers_homes_where_nodes_do_not_and_keeps_the_numbers(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path, fixed=False)
    run = federation(transport, method, homes, tmp_path / "server")
    trained = run.train()
    names = [member.node for member in run.membership.members]
    place = {NodeFolder(node.options.state).name: node.options.homes for node in transport.members.values()}
    order = [int(place[name].stem[-1]) for name in names]
    assert sorted(names) == names
    bounds = np.cumsum([0, *SIZES])
    renumbered = homes.subset(np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in order]))
    assert_equal(trained, simulated(method, renumbered))
    again = federation(transport, method, homes, tmp_path / "server")
    again.train()
    assert again.membership.members == run.membership.members


@pytest.mark.parametrize("name", ["fedgnn", "fedprox", "fedrule", "scaffold", "fedgate", "fedrank", "fedgnn, gat"])
def test_a_node_with_one_home_sends_the_bytes_that_the_simulation_predicts(name: str, tmp_path: Path) -> None:
    homes = population(5, n_homes=4, bare=False)
    everybody = {"cohort": 0} if name == "fedrank" else {"participation": 1.0, "corrupted": 0.0}
    method = made(name, **everybody)
    found: list[tuple[RoundReport, RoundTraffic]] = []
    run = federation(in_process(homes, (1, 1, 1, 1), tmp_path), method, homes, tmp_path / "server")
    run.train(lambda _, report, traffic: found.append((report, traffic)))
    reports: list[dict[str, float]] = []
    simulated(method, homes, on_round=lambda *given: reports.append(given[3]))
    for done, ((report, traffic), expected) in enumerate(zip(found, reports, strict=True)):
        values = report.values()
        assert {name: expected[name] for name in values} == pytest.approx(values, nan_ok=True)
        # The mean over clients is what the simulation reports; each node has one.
        assert np.mean([*traffic.sent.values()]) == expected["sent_bytes"]
        has_shared = done > 0 or name == "scaffold"  # no round was anybody's last before the first one
        if has_shared or not method.hyperparameters().corrects:
            assert set(traffic.received.values()) == {expected["received_bytes"]}


@pytest.mark.parametrize("name", ["fedgnn", "fedrule", "fedrank", "fedrule, adam"])
def test_bytes_of_nodes_with_many_homes_follow_from_layout_and_rows(name: str, tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made(name)
    found: list[RoundTraffic] = []
    run = federation(in_process(homes, SIZES, tmp_path), method, homes, tmp_path / "server")
    trained = run.train(lambda _, __, traffic: found.append(traffic))
    layout = FlatParameters.of(trained.parameters)
    vectors = 2 if method.hyperparameters().sends_mean_gradient else 1
    for traffic in found:
        assert traffic.sent == traffic.predicted_sent
        assert traffic.received == traffic.predicted_received
        # Four bytes for each number, and for the number of each row.
        assert max(traffic.sent.values()) <= 4 * (vectors * layout.size + layout.n_rows)
        assert all(sent % 4 == 0 and sent >= 4 * vectors * layout.n_dense for sent in traffic.sent.values())
        assert {received % (4 * layout.size) for received in traffic.received.values()} == {0}


def test_a_node_of_another_version_is_left_out_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)
    run = federation(transport, method, homes, tmp_path / "server")
    answer = Node.answer

    def older(self: Node, request: Message) -> Message:
        if self.options.homes.stem == "node-1":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(messages, "package_version", lambda: "0.2.0")
                return answer(self, request)
        return answer(self, request)

    monkeypatch.setattr(Node, "answer", older)
    wanted = r"2 of 3 nodes joined within 1 s.*the server runs fedrule \S+, this node 0\.2\.0; install fedrule \S+ here"
    with pytest.raises(DataError, match=wanted):
        run.train()


def test_a_node_with_another_vocabulary_is_left_out_in_words(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)
    other = Vocabulary((*homes.types, "Toaster"), homes.relations)
    transport.members[101] = replace(transport.members[101], vocabulary=other)
    with pytest.raises(DataError, match=r"the server has the vocabulary \w+, this node \w+: .*use the app folder"):
        federation(transport, method, homes, tmp_path / "server").train()


@pytest.mark.parametrize(("off", "words"), [(-3600, "behind"), (3600, "ahead")])
def test_a_node_whose_clock_is_wrong_is_refused(
    off: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)
    answer, now = Node.answer, time.time

    def elsewhen(self: Node, request: Message) -> Message:
        if self.options.homes.stem == "node-1":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(time, "time", lambda: now() + off)
                return answer(self, request)
        return answer(self, request)

    monkeypatch.setattr(Node, "answer", elsewhen)
    with pytest.raises(
        DataError, match=f"the clock of this node is [0-9,]+ seconds {words} .* 120 are allowed; set it"
    ):
        federation(transport, method, homes, tmp_path / "server").train()


def test_nodes_whose_numbers_overlap_are_refused() -> None:
    assert assign_numbers([("b", 3, None), ("c", 2, 0), ("a", 1, None)]) == [
        Member("c", 0, 2),
        Member("a", 2, 1),
        Member("b", 3, 3),
    ]
    with pytest.raises(DataError, match="node b has homes 1 to 3, node a 0 to 1; set first="):
        assign_numbers([("a", 2, 0), ("b", 3, 1)])


def test_options_that_need_all_rules_at_the_server_are_refused(tmp_path: Path) -> None:
    homes, transport = population(5, n_homes=6), in_process(population(5, n_homes=6), SIZES, tmp_path)
    with pytest.raises(DataError, match=r"fedgnn: validation 0\.2 needs rules that no home may show; set it to 0"):
        federation(transport, made("fedgnn", validation=0.2), homes, tmp_path / "server")
    with pytest.raises(DataError, match="needs single updates, and nodes send sums"):
        federation(transport, made("fedgnn", aggregation="median"), homes, tmp_path / "server")
    with pytest.raises(DataError, match="popularity is not trained in the homes"):
        federated_method(method_text("popularity", {}))


def test_a_node_that_was_refused_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)
    right = transport.members[101]
    transport.members[101] = replace(right, vocabulary=Vocabulary((*homes.types, "Toaster"), homes.relations))
    monkeypatch.setattr(membership, "AGAIN", 0.1)
    run = federation(transport, method, homes, tmp_path / "server", wait=60.0)

    def mend(_node: int, _request: Message) -> bool:
        if len(transport.requests) > 5:
            transport.members[101] = right
        return False

    transport.lost = mend
    assert_equal(run.train(), simulated(method, homes))
    assert run.membership.refused == {}


def test_a_node_that_is_refused_is_named_at_once_and_again_after_ever_longer_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, (6,), tmp_path)
    other = Vocabulary((*homes.types, "Toaster"), homes.relations, words=True)
    transport.members[100] = replace(transport.members[100], vocabulary=other)
    # A clock that goes on half a second each time the server waits. It speaks at 0 s, when it hears of the refusal, and
    # after 15, then 30 more and 60 more seconds; the node is asked again every 30 s, and its reason is not new then.
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    caplog.set_level("INFO")
    with pytest.raises(DataError, match=r"0 of 1 node joined within 120 seconds; .*; node 100: it refuses: the server"):
        federation(transport, method, homes, tmp_path / "server", wait=120.0).train()
    notes = [record.getMessage() for record in caplog.records if "joined; the server waits" in record.getMessage()]
    assert [int(re.findall(r"up to (\d+) s", note)[0]) for note in notes] == [120, 105, 75, 15]
    assert all("node 100: it refuses: the server has the vocabulary" in note for note in notes)
    assert caplog.text.count("node 100 is left out") == 1
    assert len(transport.requests) == 5  # at 0, 30, 60, 90 and 120 s
    status = status_of(tmp_path / "server")
    assert (status["joined"], status["wanted"], [*status["refused"]]) == ([], 1, ["100"])  # type: ignore[misc]
    assert "0 of 1 node joined; node 100 was refused: it refuses: the server has the" in status_text(status)


def test_a_resumed_server_begins_with_as_many_nodes_as_it_is_to_wait_for(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn")
    transport = in_process(homes, SIZES, tmp_path)

    def kill(_node: int, request: Message) -> bool:
        if of_round(request, 2):
            raise Stopped
        return False

    transport.lost = kill
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server").train()
    transport.lost = lambda node, _request: node == 101
    del transport.members[101]
    run = federation(transport, method, homes, tmp_path / "server", nodes=2)
    trained = run.train()
    assert {done: clients.tolist() for done, clients in run.missing().items()} == {2: [1, 2, 3], 3: [1, 2, 3]}
    assert_equal(trained, simulated(method, homes, missing=run.missing()))


def test_a_last_line_of_the_record_that_was_not_written_to_its_end_is_left_out(tmp_path: Path) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn", rounds=2)
    transport = in_process(homes, SIZES, tmp_path)

    def kill(_node: int, request: Message) -> bool:
        if of_round(request, 1):
            with (tmp_path / "server" / "rounds.jsonl").open("a") as file:
                file.write('{"round": 2, "mis')
            raise Stopped
        return False

    transport.lost = kill
    with pytest.raises(Stopped):
        federation(transport, method, homes, tmp_path / "server").train()
    assert [record["round"] for record in rounds_of(tmp_path / "server")] == [1]
    transport.lost = lambda _node, _request: False
    federation(transport, method, homes, tmp_path / "server").train()
    assert [record["round"] for record in rounds_of(tmp_path / "server")] == [1, 2]


def test_a_copied_folder_does_not_replace_the_node_that_it_was_copied_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    homes, method = population(5, n_homes=6), made("fedgnn", rounds=2)
    transport = in_process(homes, SIZES, tmp_path)
    clone = transport.members[101]

    def appear(_node: int, request: Message) -> bool:
        if of_round(request, 0):
            transport.members[200] = clone
        return False

    transport.lost = appear
    run = federation(transport, method, homes, tmp_path / "server")
    trained = run.train()
    assert "is connected already, by another key" in caplog.text
    assert 200 not in run.membership.connected.values()
    assert_equal(trained, simulated(method, homes))


@pytest.mark.parametrize("name", ["fedgnn", "fedrule", "fedrank"])
def test_the_model_of_a_federation_recommends_rules(name: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="models are saved with the extra graph")
    from fedrule.inference.recommender import Recommender
    from fedrule.models.file import SavedModel
    from fedrule.models.restore import restored

    homes, method = population(5, n_homes=6), made(name)
    trained = federation(in_process(homes, SIZES, tmp_path), method, homes, tmp_path / "server").train()
    saved = SavedModel.load(tmp_path / "server" / "model.safetensors")
    assert Recommender(saved) is not None
    assert_equal(restored(saved), trained)
    (training,) = saved.card.trainings
    assert (training.data, training.homes, training.rounds) == ("federation", 6, 4)
    expected = Statistics.of(homes, trained.scorer.valid).arrays(all_patterns=True)
    # Methods that count nothing know of their rules how many homes have them, and nothing of types owned together.
    known = expected if name == "fedrank" else {each: expected[each] for each in ("homes", "have", "self_rules")}
    for each, array in known.items():
        np.testing.assert_array_equal(saved.arrays[f"counts.{each}"], array, err_msg=each)
    assert expected["self_rules"].any()
    assert training.rules == expected["have"].sum()


@pytest.mark.parametrize("secure", [False, True])
def test_a_deployed_model_recommends_what_a_trained_one_does(secure: bool, tmp_path: Path) -> None:
    # Also rules of a device with itself, where homes have them: device 0 has type 1, as some with such rules.
    pytest.importorskip("safetensors", reason="models are saved with the extra graph")
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    from fedrule.inference.recommender import Recommender
    from fedrule.models.file import SavedModel
    from fedrule.models.restore import saved_model

    homes, method = population(5, n_homes=6), made("fedgnn")
    trained = federation(in_process(homes, SIZES, tmp_path), method, homes, tmp_path / "server", secure=secure).train()
    counts = Statistics.of(homes, trained.scorer.valid, all_patterns=False)
    saved_model(trained, method, counts).save(tmp_path / "trained.safetensors")
    deployed = Recommender(SavedModel.load(tmp_path / "server" / "model.safetensors"))
    central = Recommender(SavedModel.load(tmp_path / "trained.safetensors"))
    home = {"devices": [{"id": 0, "type": "type 1"}, {"id": 1, "type": "type 2"}], "rules": []}
    found, expected = (each.recommend(home, 100).rules for each in (deployed, central))
    places = [(rule.trigger, rule.action_device, rule.trigger_state, rule.probability) for rule in found]
    assert places == [(rule.trigger, rule.action_device, rule.trigger_state, rule.probability) for rule in expected]
    assert any(rule.trigger == rule.action_device for rule in found)
    assert all(
        rule.why.homes_with_rule == other.why.homes_with_rule for rule, other in zip(found, expected, strict=True)
    )
    assert re.fullmatch(r"homes that it learned from and that have this rule: \d", found[0].why.text)


def test_the_folder_of_a_server_is_its_owners_alone(tmp_path: Path) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    (tmp_path / "server").mkdir(mode=0o755)
    federation(transport, made("fedgnn", rounds=1), homes, tmp_path / "server").train()
    assert (tmp_path / "server").stat().st_mode & 0o777 == 0o700
    for name in ("run.json", "setup.npz", "rounds.jsonl", "status.json", "weights.npz"):
        assert (tmp_path / "server" / name).stat().st_mode & 0o777 == 0o600, name
    (tmp_path / "server").chmod(0o750)  # whoever opens it afterwards has chosen so
    federation(transport, made("fedgnn", rounds=1), homes, tmp_path / "server").train()
    assert (tmp_path / "server").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("options", "parameters", "words"),
    [
        ({"require_secure": True}, {}, "takes part in runs with secure sums only .* set secure_threshold"),
        ({"require_secure": True}, {"secure_threshold": 0.6}, ""),
        ({"max_epsilon": 4.0}, {}, "an epsilon of at most 4 .* this one has no epsilon"),
        ({"max_epsilon": 4.0}, {"epsilon": 8.0, "clip": 1.0}, "an epsilon of at most 4 .* this one has epsilon 8"),
        ({"max_epsilon": 4.0}, {"noise_multiplier": 9.0, "clip": 1.0}, "this one has no epsilon"),
        ({"max_epsilon": 4.0}, {"epsilon": 4.0, "clip": 1.0, "delta": 0.9}, "delta 0.9: every home may be disclosed"),
        ({"max_epsilon": 4.0}, {"epsilon": 4.0, "clip": 1.0}, ""),
    ],
)
def test_a_node_joins_only_runs_that_protect_its_homes_as_its_owner_wants(
    options: dict[str, object],
    parameters: dict[str, object],
    words: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    transport.members = {
        n: replace(node, options=replace(node.options, **options))  # type: ignore[arg-type]
        for n, node in transport.members.items()
    }
    method = build("fedgnn", rounds=40, **parameters)
    assert isinstance(method, Federated)
    identity = messages.Identity("run1", Vocabulary.of(homes).fingerprint, method_text("fedgnn", asdict(method)))
    request = Message(Kind.JOIN, identity.header(limit=10.0, clock=10.0))
    with caplog.at_level("INFO"):
        answer = transport.members[100].answer(request)
    if words:
        assert re.search(words, answer.text("reason"))
        assert not [*(tmp_path / "state-0").glob("run1.*")]
        return
    assert answer.kind == Kind.JOIN
    promise = "no noise" if "require_secure" in options else "epsilon 4 at delta 1 / homes^1.1"
    sums = "secure sums of more than 0.6 of the nodes" if "require_secure" in options else "sums of this node that"
    assert f"run run1: fedgnn, {promise} over 40 rounds, {sums}" in caplog.text


def test_a_node_that_answers_for_another_run_or_clients_is_left_out_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    exchange = transport.exchange

    def mixed_up(requests: dict[int, Message], *, seconds: float) -> dict[int, Message]:
        answers = dict(exchange(requests, seconds=seconds))
        for node, answer in answers.items():
            if node == 101 and answer.kind == Kind.ROUND:
                answers[node] = Message(answer.kind, {**answer.header, "run": "other"}, answer.arrays)
            if node == 102 and answer.kind == Kind.ROUND:  # its fifth home has no rule
                answers[node] = Message(
                    answer.kind, answer.header, answer.arrays | {"counted": np.full(1, 255, np.uint8)}
                )
        return answers

    transport.exchange = mixed_up  # type: ignore[method-assign,assignment]
    federation(transport, made("fedgnn", rounds=1), homes, tmp_path / "server").train()
    assert re.search("an answer of run other, this is .*; it came too late, or two servers use", caplog.text)
    assert "it counts clients that are not in the cohort: its homes, or its version" in caplog.text


def test_a_refusal_tells_the_server_nothing_of_the_homes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    homes = population(5, n_homes=6)
    transport = in_process(homes, SIZES, tmp_path)
    home = tmp_path / "anna.json"
    lamp = {"id": "Anna bedroom lamp", "type": "Toaster"}
    home.write_text(json.dumps({"devices": [lamp], "rules": []}))
    node = replace(transport.members[100], options=replace(transport.members[100].options, homes=home))
    method = build("fedgnn", rounds=1)
    assert isinstance(method, Federated)
    identity = messages.Identity("run1", Vocabulary.of(homes).fingerprint, method_text("fedgnn", asdict(method)))
    answer = node.answer(Message(Kind.JOIN, identity.header(limit=10.0, clock=10.0)))
    assert answer.text("reason") == "its homes, or its own files, cannot be used; its log says which and why"
    assert "Toaster" in caplog.text
