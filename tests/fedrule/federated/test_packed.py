"""Packed client states: less memory, and not a bit of difference."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

from hypothesis import given
from hypothesis import strategies as st

from datasets.common.errors import DataError
from fedrule.federated import packed as packed_module
from fedrule.federated import states as states_module
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.cohort import Cohorts
from fedrule.federated.packed import PackedVectors
from fedrule.federated.rounds import Engine
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer
from fedrule.federated.vectors import FlatParameters
from tests.support.small_populations import Setting, population

TRAINERS = pytest.mark.parametrize("trainer", [TorchTrainer, KernelTrainer], ids=lambda t: t.__name__)
ODD = [0.0, -0.0, 1.0, np.nan, np.inf, 1e-45]
SIZE = 11  # more than a byte of flags, and no whole number of bytes
N_CLIENTS = 7

vector = st.lists(st.sampled_from(ODD), min_size=SIZE, max_size=SIZE)
tail = st.lists(st.sampled_from(ODD), max_size=3)
change = st.tuples(st.dictionaries(st.integers(0, N_CLIENTS - 1), st.tuples(vector, tail), min_size=1), vector)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 3 clients, of which the last one is not full, and everything packed."""
    monkeypatch.setattr(packed_module, "BLOCK", 3)
    monkeypatch.setattr(states_module, "PACK_FROM", -1)


@given(st.lists(change, max_size=4))
def test_vectors_and_tails_come_back_bit_for_bit(changes):
    """Against a plain dictionary: clients are packed in turn, each time with another reference."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(packed_module, "BLOCK", 3)
        packed = PackedVectors.zeros(N_CLIENTS, SIZE)
        expected = {k: ([0.0] * SIZE, []) for k in range(N_CLIENTS)}
        for new, reference in changes:
            clients = np.array(sorted(new))
            packed.reference[:] = reference
            vectors = np.array([new[k][0] for k in clients], dtype=np.float32)
            tails = [new[k][1] for k in clients]
            start = np.cumsum([0, *map(len, tails)])
            packed.pack(clients, vectors, start, np.array([*chain(*tails)], dtype=np.float32))
            expected |= new
            for some in (np.arange(N_CLIENTS), clients):
                out = np.full((len(some), SIZE), 9, dtype=np.float32)
                ends = np.full(sum(len(expected[k][1]) for k in some), 9, dtype=np.float32)
                packed.unpack(some, out, ends)
                assert out.tobytes() == np.array([expected[k][0] for k in some], dtype=np.float32).tobytes()
                assert ends.tobytes() == np.array([*chain(*(expected[k][1] for k in some))], dtype=np.float32).tobytes()


def test_only_numbers_that_differ_from_the_reference_are_stored():
    packed = PackedVectors.zeros(2, SIZE)
    packed.reference[:] = np.arange(SIZE)
    vectors = np.stack([packed.reference, packed.reference])
    vectors[1, [0, 8]] = 7, 9  # client 1 differs in two numbers, and has a tail of one
    packed.pack(np.arange(2), vectors, np.array([0, 0, 1]), np.array([5], dtype=np.float32))
    assert packed.values[0].tolist() == [7, 9, 5]
    assert packed.flags.tolist() == [[0, 0], [1, 1]]  # numbers 0 and 8 are the first of their bytes
    assert packed.unpacked_bytes == 4 * (2 * SIZE + 1)


def played(trainer, engine, *, rounds=4):
    setting = Setting(population(4, n_homes=7), engine)
    return setting, *setting.played(trainer(setting.homes, setting.task), rounds)


def unpacked(state: ServerState) -> dict[str, bytes]:
    """The arrays of a state with packed client states, as they would be without."""
    arrays = {name: array for name, array in state.arrays().items() if ".packed." not in name}
    packed = state.clients.packed
    assert packed is not None
    n, width = len(state.clients.last), state.clients.own.rows.shape[1]
    arrays["clients.own.dense"] = np.empty((n, len(packed.reference)), dtype=np.float32)
    arrays["clients.own.rows"] = np.empty((len(state.clients.row), width), dtype=np.float32)
    packed.unpack(np.arange(n), arrays["clients.own.dense"], arrays["clients.own.rows"].reshape(-1))
    return {name: array.tobytes() for name, array in arrays.items()}


ENGINES = {
    "fedrule": Engine(Hyperparameters(algorithm="fedrule")),
    "GNN less": Engine(Hyperparameters(algorithm="fedrule", theta_lambda=0.6)),
    "partial": Engine(Hyperparameters(algorithm="fedgate"), cohorts=Cohorts(0.5)),
    "scaffold": Engine(Hyperparameters(algorithm="scaffold"), cohorts=Cohorts(0.7, drop_out=0.2)),
    "corrupted": Engine(Hyperparameters(algorithm="fedrule"), cohorts=Cohorts(corrupted=0.4)),
}


@TRAINERS
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("chunk_size", [1000, 2])
def test_packing_changes_no_bit(trainer, engine, chunk_size, request):
    engine = replace(engine, chunk_size=chunk_size)
    _, plain, reports = played(trainer, engine)
    assert plain.clients.packed is None
    request.getfixturevalue("small_blocks")
    _, packed, packed_reports = played(trainer, engine)
    assert packed_reports == reports
    assert unpacked(packed) == {name: array.tobytes() for name, array in plain.arrays().items()}


@pytest.mark.usefixtures("small_blocks")
def test_a_run_with_packed_states_resumes_from_a_checkpoint_as_if_nothing_had_been(tmp_path):
    setting, whole, _ = played(KernelTrainer, ENGINES["partial"])
    _, halfway, _ = played(KernelTrainer, ENGINES["partial"], rounds=2)
    trainer = KernelTrainer(setting.homes, setting.task)
    checkpoint = Checkpoint(tmp_path / "run.npz")
    checkpoint.save(halfway, last=True)
    state = checkpoint.load(setting.engine.begin(trainer, setting.start))
    for _ in range(2):
        state, _ = setting.engine.step(trainer, state, seed=3, rate=setting.rate)
    assert {name: array.tobytes() for name, array in state.arrays().items()} == {
        name: array.tobytes() for name, array in whole.arrays().items()
    }


@pytest.mark.usefixtures("small_blocks")
def test_clients_without_a_gradient_somewhere_store_nothing_there():
    """After one round own_k is the mean gradient, which is zero for types that a home does not own."""
    _, state, _ = played(KernelTrainer, ENGINES["fedrule"], rounds=1)
    _, later, _ = played(KernelTrainer, ENGINES["fedrule"], rounds=4)
    for each in (state, later):
        packed = each.clients.packed
        dense = np.frombuffer(unpacked(each)["clients.own.dense"], dtype=np.float32)
        assert packed.counts.sum() < dense.size
    first = np.frombuffer(unpacked(state)["clients.own.dense"], dtype=np.float32)
    assert state.clients.packed.counts.sum() == np.count_nonzero(first)


def test_the_memory_that_is_asked_for_is_that_of_packed_states(monkeypatch):
    # 3 numbers of 4 bytes of a million clients are 12 MB, packed 0.75 of it; its 2 rows of 2 numbers 16 MB, and twice
    # that where they are not packed.
    layout = FlatParameters(("theta.x", "phi.y"), ((1,), (2,)), n_theta=1, n_rows=4, row_length=2)
    rules, h = np.ones(1_000_000, dtype=np.int64), Hyperparameters(algorithm="fedrule")
    monkeypatch.setattr(states_module, "PACK_FROM", 11_999_999)
    monkeypatch.setattr(states_module, "free_bytes", lambda: 0)
    with pytest.raises(DataError, match=r"states of 1,000,000 clients need 0\.025 GB"):
        states_module.check_memory(rules, layout, h)
    monkeypatch.setattr(states_module, "PACK_FROM", 12_000_000)
    with pytest.raises(DataError, match=r"states of 1,000,000 clients need 0\.044 GB"):
        states_module.check_memory(rules, layout, h)
