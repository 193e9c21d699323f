"""What a node keeps survives restarts, in two phases; what is damaged or of another run is refused with a remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="rounds need the extra graph")

from datasets.common.errors import DataError
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.states import ClientStates
from fedrule.federated.vectors import FlatParameters
from fedrule.flower.messages import Refusal
from fedrule.flower.node_files import NodeFolder
from tests.support.small_populations import population

LAYOUT = FlatParameters(("theta.a",), ((3,),), 3)
NEVER = np.array([-1, -1])


def initial(algorithm: str = "fedgate") -> ClientStates:
    return ClientStates.initial(np.array([1, 2]), LAYOUT, Hyperparameters(algorithm=algorithm))


def after(states: ClientStates, number: int, *, value: float, clients: tuple[int, ...] = (0, 1)) -> ClientStates:
    """The states after a round in which these clients counted."""
    states = states.copy()
    for client in clients:
        states.own.dense[client], states.last[client] = value, number
    return states


def test_a_pending_state_becomes_current_when_the_server_counted_its_round(tmp_path: Path) -> None:
    folder, first = NodeFolder(tmp_path), after(initial(), 0, value=1.0)
    folder.save_states("run", initial(), first)
    found = NodeFolder(tmp_path).states("run", initial(), np.array([0, 0]))
    np.testing.assert_array_equal(found.own.dense, np.ones((2, 3)))


def test_a_pending_state_is_forgotten_when_it_did_not(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    folder.save_states("run", initial(), after(initial(), 0, value=1.0))
    found = folder.states("run", initial(), NEVER)
    np.testing.assert_array_equal(found.own.dense, np.zeros((2, 3)))


def test_only_clients_that_counted_have_the_new_state(tmp_path: Path) -> None:
    # Round 0 counted for both; in round 3 client 1 alone took part and counted.
    folder, first = NodeFolder(tmp_path), after(initial(), 0, value=1.0)
    folder.save_states("run", first, after(first, 3, value=2.0, clients=(1,)))
    found = folder.states("run", initial(), np.array([0, 3]))
    np.testing.assert_array_equal(found.own.dense, [[1, 1, 1], [2, 2, 2]])
    back = folder.states("run", initial(), np.array([0, 0]))
    np.testing.assert_array_equal(back.own.dense, np.ones((2, 3)))


def test_states_that_the_server_counts_on_and_that_are_lost_are_refused(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    with pytest.raises(Refusal, match=r"run\.states: no such file, but the server counts on the states of 1 clients"):
        folder.states("run", initial(), np.array([0, -1]))
    folder.save_states("run", initial(), None)
    with pytest.raises(Refusal, match=r"not the states of the last rounds, but .* 2 clients of this node; restore"):
        folder.states("run", initial(), np.array([4, 4]))


def test_a_method_without_states_loses_nothing(tmp_path: Path) -> None:
    found = NodeFolder(tmp_path).states("run", initial("fedavg"), np.array([0, 4]))
    np.testing.assert_array_equal(found.last, [0, 4])


def test_states_of_other_homes_are_refused(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    folder.save_states("run", initial(), None)
    with pytest.raises(Refusal, match="states of 2 clients, the server counts 3; the homes of a node may not change"):
        folder.states("run", initial(), np.array([-1, -1, -1]))


@pytest.mark.parametrize("at", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_damaged_file_is_refused_with_the_remedy(tmp_path: Path, at: float) -> None:
    folder = NodeFolder(tmp_path)
    folder.save_states("run", initial(), after(initial(), 0, value=1.0))
    path = folder.file("run", "states")
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"run\.states: .*restore it from a copy, or delete it and start a new run"):
        folder.states("run", initial(), NEVER)


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    folder.save_states("run", after(initial(), 0, value=1.0), None)
    path = folder.file("run", "states")
    content = path.read_bytes()
    ones = np.ones(3, dtype=np.float32).tobytes()
    assert content.count(ones) >= 1
    path.write_bytes(content.replace(ones, np.full(3, 2, dtype=np.float32).tobytes()))
    with pytest.raises(DataError, match="is damaged; restore it from a copy"):
        folder.states("run", initial(), np.array([0, 0]))


def test_a_file_cut_off_or_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    folder.save_states("run", initial(), None)
    path = folder.file("run", "states")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataError, match="truncated, damaged or not a file of the states of this node's clients"):
        folder.states("run", initial(), NEVER)
    path.write_text("hello")
    with pytest.raises(DataError, match="truncated, damaged or not a file of the states of this node's clients"):
        folder.states("run", initial(), NEVER)


def test_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    folder.save_states("one", initial(), None)
    folder.file("one", "states").rename(folder.file("two", "states"))
    with pytest.raises(DataError, match=r"two\.states: of run one, not of two, which the server trains; give"):
        folder.states("two", initial(), NEVER)


def test_a_name_of_a_run_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="expected letters and digits"):
        NodeFolder(tmp_path).file("../other", "states")


@pytest.mark.parametrize("words", [True, False])
def test_homes_come_back_as_they_were(tmp_path: Path, words: bool) -> None:
    homes = population(3, n_homes=4)
    homes = homes if words else homes.without_words()
    folder = NodeFolder(tmp_path)
    assert folder.homes("run") is None
    folder.save_homes("run", homes)
    found = folder.homes("run")
    assert found is not None
    assert found.fingerprint == replace(homes, users=found.users, device_ids=found.device_ids).fingerprint
    assert (found.types, found.relations) == (homes.types, homes.relations)


def test_a_node_keeps_its_name(tmp_path: Path) -> None:
    name = NodeFolder(tmp_path).name
    assert NodeFolder(tmp_path).name == name
    assert NodeFolder(tmp_path / "other").name != name
    (tmp_path / "node.json").write_text("{")
    with pytest.raises(DataError, match=r"node\.json: damaged; restore it from a copy"):
        assert NodeFolder(tmp_path).name


def test_two_processes_do_not_use_one_folder_at_once(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    used = pytest.raises(Refusal, match="another process uses this node's folder; give every node")
    with folder.lock(seconds=1), used, NodeFolder(tmp_path).lock(seconds=0.2):
        pass
    with folder.lock(seconds=1):
        pass


def test_files_are_for_their_owner_alone_and_an_open_folder_is_refused(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path / "state")
    assert folder.name
    with folder.lock(seconds=1):
        folder.write("run1", "secure", {"secrets": np.zeros(3)})
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {
        "node.json": 0o600,
        ".lock": 0o600,
        "run1.secure": 0o600,
    }
    folder.path.chmod(0o750)
    with pytest.raises(DataError, match=r"others on this machine can read or write this folder.*chmod 700"):
        NodeFolder(folder.path)


def test_a_damaged_file_is_named_in_words(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    for what, words in {
        "method": "without it the method and the parameters that this node has agreed to are lost",
        "secure": "without it this node's secrets of the last secure sum are lost",
        "noisy_rules": "without it this node's numbers of rules with noise are lost",
    }.items():
        folder.file("run", what).write_text("hello")
        with pytest.raises(DataError, match=f"or delete it and start a new run: {words}"):
            folder.read("run", what)


@pytest.mark.parametrize(("last", "value"), [((3, 3), 2.0), ((0, 0), 1.0), ((7, 7), 1.0)])
def test_when_a_run_is_over_its_states_are_those_that_the_server_counted(
    tmp_path: Path, last: tuple[int, int], value: float
) -> None:
    folder, first = NodeFolder(tmp_path), after(initial(), 0, value=1.0)
    folder.settle_states("run", np.array(last))  # a node without states has nothing to keep
    assert not folder.file("run", "states").exists()
    folder.save_states("run", first, after(first, 3, value=2.0))
    folder.settle_states("run", np.array(last))
    _, arrays = folder.read("run", "states") or ({}, {})
    assert not any(name.startswith("pending.") for name in arrays)
    found = folder.states("run", initial(), np.array([3, 3] if value == 2 else [0, 0]))
    np.testing.assert_array_equal(found.own.dense, np.full((2, 3), value))
