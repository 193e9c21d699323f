"""The engine equals the papers' pseudocode, client by client, and neither chunks nor threads change a bit of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrule.federated import optimizers
from fedrule.federated.algorithm import ClientState, Hyperparameters
from fedrule.federated.client import ClientKey, draw_batch, train_client
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.rounds import Engine, RoundReport
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.batched import BatchedTrainer
from fedrule.federated.trainers.kernel import KernelTrainer, fits_kernel
from fedrule.federated.trainers.trainer import TorchTrainer
from fedrule.federated.vectors import exact_addends
from fedrule.methods.federated import trainer_of
from tests.support.added_algorithm import PULLED
from tests.support.plain_federated import Server
from tests.support.small_populations import Setting, control, population, populations, whole

TRAINERS = [TorchTrainer, KernelTrainer]
ALGORITHMS = {
    "fedavg": {},
    "fedprox": {"algorithm": "fedprox", "proximal": 0.5},
    "fedgate": {"algorithm": "fedgate"},
    "fedrule, GNN less": {"algorithm": "fedrule", "theta_lambda": 0.6},
    "fedrule, predictor less": {"algorithm": "fedrule", "theta_lambda": 0.7, "phi_lambda": 0.4},
    "fedrule and a pull": {"algorithm": PULLED, "proximal": 0.3},
    "scaffold": {"algorithm": "scaffold"},
}
VARIANTS = ("fedrule, GNN less", "fedrule and a pull")  # with one server's optimizer only
OPTIMIZERS = [
    ("sgd", "updates"),
    ("adam", "updates"),
    ("adam", "gradients"),
    ("kept-adam", "updates"),
    ("kept-adam", "gradients"),
]
SERVERS = ["plain", "momentum", "adam", "yogi"]
# With this the server's Adam does not blow the last digit of a small update up to a whole step.
EPSILON = 1e-3


def hyperparameters_of(
    algorithm: str, optimizer: str = "sgd", measured: str = "updates", steps: int = 2
) -> Hyperparameters:
    rates = (0.2, 0.3) if optimizer == "sgd" else (0.02, 0.03)
    return Hyperparameters(steps, *rates, optimizer, control=measured, **ALGORITHMS[algorithm])


def engine_of(
    h: Hyperparameters, server: str = "plain", participation: float = 0.6, weighting: str = "clients"
) -> Engine:
    return Engine(h, ServerOptimizer(server, epsilon=EPSILON), Cohorts(participation), weighting)


def rate_of(server: str) -> float:
    return {"plain": 1.0, "momentum": 0.7, "adam": 0.02, "yogi": 0.02}[server]


def assert_equal(
    setting: Setting, expected: tuple[Server, list[float]], got: tuple[ServerState, list[RoundReport]]
) -> None:
    """The same model, losses and control parameters, as far as float32 goes."""
    (server, losses), (state, reports), layout = expected, got, setting.task.layout
    np.testing.assert_allclose([report.loss for report in reports], losses, rtol=0, atol=1e-5)
    assert_near(setting.hyperparameters, state.model, layout.flat(server.x), 1e-5)
    if not setting.hyperparameters.corrects:
        assert not state.clients.own.dense.size
        return
    assert set(np.flatnonzero(state.clients.last >= 0)) == set(server.clients)
    # Control parameters measured in updates are those over eta tau, which is below 0.1 with Adam.
    close = 1e-4 if setting.hyperparameters.adam else 1e-5
    for k, expects in server.clients.items():
        assert_near(
            setting.hyperparameters,
            control(state, layout, k, setting.hyperparameters.algorithm),
            layout.flat(expects.control),
            close,
        )
    if setting.hyperparameters.algorithm == "scaffold":
        assert_near(setting.hyperparameters, state.shared[0], layout.flat(server.c), close)


def assert_near(h: Hyperparameters, found: np.ndarray, wanted: np.ndarray, close: float) -> None:
    """Every number, or with Adam all but one in fifty: where a corrected gradient is zero but for its last digit, Adam
    makes a step of the digit.
    """
    wrong = ~np.isclose(found, wanted, rtol=0, atol=close)
    assert wrong.mean() <= (0.02 if h.adam else 0), (found[wrong], wanted[wrong])


# The papers' pseudocode


def rounds_of(h: Hyperparameters) -> int:
    """Rounds to compare. From the third on much of what Adam does is rounding: two control parameters of Adam's size
    cancel, and Adam makes whole steps of what is left.
    """
    return 2 if h.adam else 3


@cache
def case(algorithm: str, optimizer: str, measured: str, server: str) -> tuple[Setting, tuple[Server, list[float]]]:
    """A population of four homes of whom half take part in a round."""
    number = (list(ALGORITHMS).index(algorithm) * 4 + SERVERS.index(server)) % 7
    weighting, h = ["clients", "roots", "rules"][number % 3], hyperparameters_of(algorithm, optimizer, measured)
    homes = population(number, n_homes=4, bare=not h.adam and number % 3 == 2)
    draws = 1 if h.adam else number % 2
    setting = Setting(homes, engine_of(h, server, 0.6, weighting), number, draws, rate=rate_of(server))
    return setting, setting.expected(rounds_of(h))


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize(
    ("algorithm", "optimizer", "measured", "server"),
    [
        (algorithm, *optimizer, server)
        for algorithm, optimizer, server in product(ALGORITHMS, OPTIMIZERS, SERVERS)
        if (hyperparameters_of(algorithm).corrects or optimizer[1] == "updates")
        and (algorithm not in VARIANTS or server == "plain")
    ],
)
def test_every_algorithm_with_every_optimizer_is_its_pseudocode(trainer, algorithm, optimizer, measured, server):
    setting, expected = case(algorithm, optimizer, measured, server)
    assert_equal(
        setting, expected, setting.played(trainer(setting.homes, setting.task), rounds_of(setting.hyperparameters))
    )


CORRECTED = ["fedgate", "fedrule, predictor less", "scaffold"]


@pytest.mark.parametrize(("algorithm", "optimizer"), [*product(CORRECTED, OPTIMIZERS[1:])])
def test_with_an_adam_that_ignores_rounding_also_later_rounds_are_the_pseudocode(monkeypatch, algorithm, optimizer):
    monkeypatch.setattr(optimizers, "EPSILON", EPSILON)
    setting = Setting(population(2), engine_of(hyperparameters_of(algorithm, *optimizer), weighting="roots"))
    expected = setting.expected(4, EPSILON)
    assert_equal(setting, expected, setting.played(TorchTrainer(setting.homes, setting.task), 4))


@settings(max_examples=15)
@given(
    populations(),
    st.sampled_from(list(ALGORITHMS)),
    st.sampled_from(SERVERS),
    st.sampled_from([0.3, 0.6, 1.0]),
    st.sampled_from(["uniform", "poisson"]),
    st.sampled_from(["clients", "rules", "roots"]),
    st.sampled_from([0, 1]),
    st.sampled_from([0.0, 0.5]),
    st.integers(1, 3),
)
def test_random_populations_are_trained_as_the_pseudocode_says(
    homes, algorithm, server, participation, sampling, weighting, draws, hidden_rules, steps
):
    engine = replace(
        engine_of(hyperparameters_of(algorithm, steps=steps), server, weighting=weighting),
        cohorts=Cohorts(participation, sampling),
    )
    setting = Setting(homes, engine, draws=draws, hidden_rules=hidden_rules, rate=rate_of(server))
    expected = setting.expected(4)
    for trainer in TRAINERS:
        assert_equal(setting, expected, setting.played(trainer(homes, setting.task), 4))


def test_plain_steps_with_a_whole_correction_remember_only_rows_that_were_asked_about():
    setting = Setting(population(1), engine_of(hyperparameters_of("fedgate"), participation=1.0))
    (sparse, _), layout = setting.played(TorchTrainer(setting.homes, setting.task), 3), setting.task.layout
    dense_setting = Setting(population(1), engine_of(hyperparameters_of("fedrule, predictor less"), participation=1.0))
    dense, _ = dense_setting.played(TorchTrainer(setting.homes, dense_setting.task), 3)
    homes, relations = setting.homes.n_homes, len(setting.homes.relations)
    assert dense.clients.row.tolist() == list(range(relations)) * homes
    assert 0 < len(sparse.clients.row) < homes * relations
    examples = setting.task.sampler(setting.homes).draw(setting.task.key(2, np.arange(homes)))
    for k in range(homes):
        asked = np.unique(examples.candidates.relation[examples.candidates.home == k])
        _, kept = sparse.clients.rows_of(np.array([k]))
        assert kept.tolist() == asked.tolist()
        assert whole(sparse, layout, k)[layout.in_rows(kept)].any() == bool(len(kept))


@settings(max_examples=15)
@given(populations(), st.sampled_from(list(ALGORITHMS)), st.sampled_from([0.5, 1.0]))
def test_the_kernel_is_client_round(homes, algorithm, participation):
    setting = Setting(homes, engine_of(hyperparameters_of(algorithm), participation=participation))
    (kernel, reports), (reference, expected) = (
        setting.played(trainer(homes, setting.task), 3) for trainer in (KernelTrainer, TorchTrainer)
    )
    for name, array in reference.arrays().items():
        np.testing.assert_allclose(kernel.arrays()[name], array, rtol=0, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(reports, expected, atol=1e-5)


# Nothing but the key decides


def same(one: ServerState, other: ServerState) -> bool:
    """To the last bit."""
    left, right = one.arrays(), other.arrays()
    return all(left[name].tobytes() == right[name].tobytes() for name in left)


BITS = [("fedgate", "sgd"), ("fedrule, predictor less", "sgd"), ("scaffold", "kept-adam"), ("fedavg", "adam")]


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize(("algorithm", "optimizer"), BITS)
@pytest.mark.parametrize("participation", [0.6, 1.0])
def test_the_size_of_chunks_changes_no_bit(trainer, algorithm, optimizer, participation):
    setting = Setting(population(4), engine_of(hyperparameters_of(algorithm, optimizer), "adam", participation))
    first, *others = (
        setting.played(trainer(setting.homes, setting.task), 3, replace(setting.engine, chunk_size=at_once))
        for at_once in (1000, 1, 2)
    )
    assert all(same(first[0], other) and reports == first[1] for other, reports in others)


@pytest.fixture
def threads():
    """Sets how many; one again afterwards."""
    yield torch.set_num_threads
    torch.set_num_threads(1)


class SeveralAtOnce(TorchTrainer):
    """Chunks trained in several threads."""

    @property
    def threads(self) -> int:
        return 3


@pytest.mark.parametrize(("algorithm", "optimizer"), BITS)
def test_the_number_of_threads_changes_no_bit(threads, algorithm, optimizer):
    setting = Setting(population(5, n_homes=6), engine_of(hyperparameters_of(algorithm, optimizer), "yogi", 0.8))
    by_one = replace(setting.engine, chunk_size=1)
    for one, several in ((KernelTrainer, KernelTrainer), (TorchTrainer, SeveralAtOnce)):
        alone, _ = setting.played(one(setting.homes, setting.task), 3, by_one)
        if several is KernelTrainer:
            threads(2)
        together, _ = setting.played(several(setting.homes, setting.task), 3, by_one)
        threads(1)
        assert same(alone, together)


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize(("algorithm", "optimizer"), BITS)
def test_a_step_changes_nothing_that_it_was_given_and_repeats_itself(trainer, algorithm, optimizer):
    setting = Setting(population(4), engine_of(hyperparameters_of(algorithm, optimizer), "momentum"))
    clients = trainer(setting.homes, setting.task)
    before, _ = setting.played(clients, 2)
    kept = {name: array.copy() for name, array in before.arrays().items()}
    first, _ = setting.engine.step(clients, before, seed=3)
    again, _ = setting.engine.step(clients, before, seed=3)
    other, _ = setting.engine.step(clients, before, seed=4)
    assert all(array.tobytes() == kept[name].tobytes() for name, array in before.arrays().items())
    assert same(first, again)
    assert not same(first, other)
    given_away, _ = setting.engine.step(clients, before, seed=3, donate=True)
    assert same(first, given_away)


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize(("algorithm", "optimizer"), BITS)
def test_a_state_of_arrays_goes_on_as_if_nothing_had_been(trainer, algorithm, optimizer):
    setting = Setting(population(4), engine_of(hyperparameters_of(algorithm, optimizer), "adam"), rate=0.02)
    whole_run, _ = setting.played(trainer(setting.homes, setting.task), 4)
    halfway, _ = setting.played(trainer(setting.homes, setting.task), 2)
    state = ServerState.from_arrays({name: array.copy() for name, array in halfway.arrays().items()})
    for _ in range(2):
        state, _ = setting.engine.step(trainer(setting.homes, setting.task), state, seed=3, rate=0.02)
    assert same(whole_run, state)


# The client's part


def test_the_clients_part_alone_is_what_the_engine_does_with_it_among_others():
    setting = Setting(population(4, n_homes=6), engine_of(hyperparameters_of("fedgate"), participation=1.0))
    trainer, layout, task = TorchTrainer(setting.homes, setting.task), setting.task.layout, setting.task
    state, _ = setting.played(trainer, 2)
    after, _ = setting.engine.step(trainer, state, seed=3)
    update = np.zeros(layout.size)
    clients = np.flatnonzero(setting.rule_counts).tolist()
    for k in clients:
        shared = state.shared[list(state.shared_round).index(state.clients.last[k])]
        home, memory = setting.homes.subset(np.array([k])), ClientState(whole(state, layout, k)[None])
        batch = draw_batch(task, state.model, home, ClientKey(2, k))
        assert batch is not None
        sent, next_state = train_client(task, state.model, batch, memory, shared=shared[None], key=ClientKey(2, k))
        assert next_state.own is not None
        own = next_state.own[0]
        rows = after.clients.rows_of(np.array([k]))[1]
        touched = np.concatenate([np.arange(layout.n_dense), layout.in_rows(rows).reshape(-1)])
        assert own[touched].tobytes() == whole(after, layout, k)[touched].tobytes()
        # What is not kept is zero but for rounding.
        np.testing.assert_allclose(own, whole(after, layout, k), rtol=0, atol=1e-7)
        update += exact_addends(sent.update[0])
    np.testing.assert_allclose(after.model, state.model - update / len(clients), rtol=0, atol=1e-6)


def test_a_client_with_nothing_to_learn_from_sends_nothing():
    homes = population(4)
    setting = Setting(homes.with_rules(homes.rules.home > 0), engine_of(hyperparameters_of("fedgate")))
    home = setting.homes.subset(np.array([0]))
    assert draw_batch(setting.task, setting.start, home, ClientKey(0, 0)) is None


def test_the_kernel_is_used_for_the_papers_network_and_for_no_other():
    setting = Setting(population(0), engine_of(hyperparameters_of("fedgate")))
    assert isinstance(trainer_of(setting.homes, setting.task), KernelTrainer)
    added = replace(setting.task, hyperparameters=hyperparameters_of("fedrule and a pull"))
    assert isinstance(trainer_of(setting.homes, added), BatchedTrainer)
    for other in (replace(setting.task, objective=lambda *_: torch.zeros(())), _with(setting, encoder="gcn")):
        assert not fits_kernel(other)
        assert isinstance(trainer_of(setting.homes, other), TorchTrainer)
    for sizes in ({"direction": "both"}, {"messages": "relation"}, {"node_embedding": 2}, {"dropout": 0.5}):
        network = setting.task.scorer.network
        assert not fits_kernel(_with(setting, sizes=replace(network.sizes, **sizes)))


def _with(setting, **changes):
    scorer = setting.task.scorer
    return replace(setting.task, scorer=replace(scorer, network=replace(scorer.network, **changes)))
