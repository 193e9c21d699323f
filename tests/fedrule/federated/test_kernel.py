"""The compiled kernel against autograd and a plain statement of local training; its sums, its faults, its borders."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the kernel is compared with torch, of the extra graph")
pytest.importorskip("torch_geometric", reason="the network needs the extra graph")
pytest.importorskip("numba", reason="the kernel needs the extra graph")

import torch

from datasets import DataError, Homes, Rules
from datasets.homes import Mask, runs, starts
from datasets.valid import ValidRules
from fedrule.federated.trainers.kernel import Clients, Correction, Moments, Outcome, Shape, Training, train_shard
from fedrule.federated.vectors import FlatParameters, exact_addends
from fedrule.network.encoders import Sizes
from fedrule.network.network import Network
from fedrule.network.score import Scorer
from fedrule.training.losses import bce
from tests.support.strategies import every_candidate, homes

HIDDEN, UNITS = 5, 7  # not multiples of what is worked out at a time
close = partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)
Vector = np.ndarray
Gradient = Callable[[Vector], tuple[float, Vector]]


@dataclass(frozen=True)
class Population:
    """Homes and their candidates."""

    homes: Homes
    candidates: Rules
    positive: Mask

    @property
    def shape(self) -> Shape:
        return Shape(len(self.homes.types), HIDDEN, UNITS, len(self.homes.relations))

    @property
    def scorer(self) -> Scorer:
        sizes = Sizes(len(self.homes.types), len(self.homes.relations), hidden=HIDDEN)
        return Scorer(Network(sizes, predictor_hidden=UNITS), ValidRules.of(self.homes))

    @property
    def layout(self) -> FlatParameters:
        return FlatParameters.of(self.scorer.initial(torch.Generator()))

    def clients(self, weight: Vector, *, all_rows: bool = False) -> Clients:
        n, n_relations = self.homes.n_homes, len(self.homes.relations)
        rules, candidates, first = self.homes.rules, self.candidates, self.homes.device_start
        touched = np.unique(candidates.home * n_relations + candidates.relation)
        row = np.arange(n * n_relations) if all_rows else touched
        row_start = starts(row // n_relations, n)
        return Clients(
            first,
            self.homes.device_type,
            starts(rules.home, n),
            rules.trigger - first[rules.home],
            rules.action - first[rules.home],
            starts(candidates.home, n),
            candidates.trigger - first[candidates.home],
            candidates.action - first[candidates.home],
            candidates.relation,
            self.positive.astype(np.float32),
            row_start,
            row % n_relations,
            weight,
        )

    def gradient(self, home: int) -> Gradient:
        """The loss of one home and its gradient by autograd, in float64."""
        scorer, layout, of_home = self.scorer, self.layout, self.candidates.home == home
        some, candidates = self.homes.subset([home]), self.candidates.take(of_home)
        first = self.homes.device_start[home]
        moved = Rules(
            np.zeros_like(candidates.home), candidates.trigger - first, candidates.action - first, candidates.relation
        )
        question, positive = scorer.query(some, moved), torch.tensor(self.positive[of_home])

        def at(x: Vector) -> tuple[float, Vector]:
            whole = torch.tensor(x, requires_grad=True)
            logits = scorer.logits_of(split(whole, layout), question)
            loss = bce(logits, positive, torch.zeros(len(logits), dtype=torch.int64), torch.ones(1))
            (found,) = torch.autograd.grad(loss, whole)
            return loss.item(), found.numpy()

        return at


def split(whole: torch.Tensor, layout: FlatParameters) -> dict[str, torch.Tensor]:
    """The parameters that a vector is made of, in its number type."""
    dense, rows = whole[: layout.n_dense], whole[layout.n_dense :].reshape(layout.n_rows, layout.row_length)
    parts = dense.split([int(np.prod(shape)) for shape in layout.shapes])
    found = {name: part.reshape(shape) for name, part, shape in zip(layout.names, parts, layout.shapes, strict=True)}
    return found | {"phi.relation": rows[:, :-1], "phi.relation_bias": rows[:, -1]}


@st.composite
def populations(draw: st.DrawFn, *, max_homes: int = 3) -> Population:
    """Also homes without devices, rules or candidates, devices that no rule names, self rules, several of a pair."""
    some = draw(homes(min_homes=1, max_homes=max_homes, max_devices=4, max_relations=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    every = every_candidate(some)
    candidates = every.take(rng.random(len(every)) < draw(st.sampled_from([0.1, 0.5])))
    return Population(some, candidates, rng.random(len(candidates)) < 0.5)


def neighbours(n_homes: int = 2) -> Population:
    """Homes of a sensor and two lamps: the sensor has a rule with a lamp, which has one with itself.

    Each has three candidates, two of them rules; home k of the relations k, k + 1 and k + 2 of four.
    """
    of_rule, of_candidate = np.repeat(np.arange(n_homes), 2), np.repeat(np.arange(n_homes), 3)
    trigger, action, relation = (np.tile(column, n_homes) for column in ([0, 1], [1, 1], [0, 2]))
    some = Homes(
        name="neighbours",
        types=("Lamp", "Sensor"),
        relations=tuple(("Open", state) for state in ("On", "Off", "Dim", "Red")),
        users=np.arange(n_homes),
        device_home=of_candidate,
        device_type=np.tile([1, 0, 0], n_homes),
        device_ids=np.arange(3 * n_homes),
        rules=Rules(of_rule, 3 * of_rule + trigger, 3 * of_rule + action, relation),
    )
    trigger, action, step = (np.tile(column, n_homes) for column in ([0, 1, 2], [1, 2, 2], [0, 1, 2]))
    candidates = Rules(of_candidate, 3 * of_candidate + trigger, 3 * of_candidate + action, (of_candidate + step) % 4)
    return Population(some, candidates, np.tile([True, False, True], n_homes))


def model_of(population: Population, rng: np.random.Generator) -> Vector:
    return rng.normal(0, 0.5, population.shape.size).astype(np.float32)


def outcome_of(population: Population, *, mean_gradient: bool = False) -> Outcome:
    n, size = population.homes.n_homes, population.shape.size
    sums = np.zeros(size), np.zeros(size if mean_gradient else 0)
    return Outcome(*sums, np.full(n, np.nan, dtype=np.float32), np.zeros(n, dtype=bool))


def correction_of(
    population: Population, clients: Clients, rng: np.random.Generator, *, theta: float = 1.0, phi: float = 1.0
) -> Correction:
    """Random client states and shared vectors; some clients have none."""
    n, shape = population.homes.n_homes, population.shape
    sizes = (n, shape.n_dense), (len(clients.row), UNITS + 1), (2, shape.size)
    own_dense, own_rows, shared = (rng.normal(0, 0.3, size).astype(np.float32) for size in sizes)
    return Correction(True, theta, phi, own_dense, own_rows, shared, rng.integers(-1, 2, n))


def moments_of(population: Population, clients: Clients) -> Moments:
    n = population.homes.n_homes
    sizes = (n, population.shape.n_dense), (len(clients.row), UNITS + 1)
    dense, rows = (np.zeros(size, dtype=np.float32) for size in sizes)
    return Moments(dense, rows, dense.copy(), rows.copy(), np.zeros(n, dtype=np.int64))


def rows_of(vector: Vector, population: Population) -> Vector:
    """[n_relations, units + 1]: a view of the rows."""
    return vector[population.shape.n_dense :].reshape(-1, UNITS + 1)


def whole(dense: Vector, rows: Vector, clients: Clients, k: int, shape: Shape) -> Vector:
    """A client's vector with zeros for the rows that it does not have."""
    here = slice(clients.row_start[k], clients.row_start[k + 1])
    table = np.zeros((shape.n_relations, UNITS + 1))
    table[clients.row[here]] = rows[here]
    return np.concatenate([dense[k].astype(float), table.ravel()])


@dataclass
class Plain:
    """One client in float64, after the equations of `fedrule.federated.algorithm`."""

    gradient: Gradient
    own: Vector
    first: Vector
    second: Vector
    steps: int = 0

    def train(
        self, x0: Vector, training: Training, shared: Vector, rate: Vector, lam: Vector
    ) -> tuple[float, Vector, Vector]:
        """The loss, Delta and p."""
        delta, x, gradients = self.own - shared, x0.astype(float), []
        first, second = (self.first, self.second) if training.kept else (0 * self.first, 0 * self.second)
        steps = self.steps if training.kept else 0
        losses = []
        for _ in range(training.steps):
            loss, g = self.gradient(x)
            g = g + training.proximal * (x - x0) - lam * delta
            losses.append(loss)
            gradients.append(g)
            if training.adam:
                steps += 1
                first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
                g = first / (1 - 0.9**steps) / (np.sqrt(second / (1 - 0.999**steps)) + 1e-8)
            x = x - rate * g
        p = np.mean(gradients, axis=0) if training.by_gradients else (x0 - x) / (rate * training.steps)
        self.own, self.first, self.second, self.steps = delta + p, first, second, steps
        return losses[0], x0 - x, p


@given(population=populations(), seed=st.integers(0, 2**32))
def test_one_step_is_the_gradient_of_autograd(population: Population, seed: int) -> None:
    # With lambda = 0 and no state own_k becomes p_k, which after one plain step is the gradient of each client.
    rng = np.random.default_rng(seed)
    clients, model = population.clients(np.ones(population.homes.n_homes)), model_of(population, rng)
    outcome, shape = outcome_of(population), population.shape
    correction = correction_of(population, clients, rng, theta=0, phi=0)
    correction.own_dense[:], correction.own_rows[:], correction.group[:] = 0, 0, -1
    train_shard(shape, model, clients, Training(1), outcome, correction=correction)
    assert outcome.finite.all()
    for k in range(population.homes.n_homes):
        loss, expected = population.gradient(k)(model.astype(float))
        close(outcome.loss[k], loss)
        close(whole(correction.own_dense, correction.own_rows, clients, k, shape), expected)


@given(
    population=populations(),
    seed=st.integers(0, 2**32),
    steps=st.integers(1, 4),
    optimizer=st.sampled_from(["sgd", "adam", "kept"]),
    proximal=st.sampled_from([0.0, 0.7]),
    by_gradients=st.booleans(),
    lambdas=st.sampled_from([(1.0, 1.0), (0.5, 1.0), (1.0, 0.3), (0.0, 0.0)]),
)
def test_rounds_are_those_of_the_equations(
    population: Population,
    seed: int,
    steps: int,
    optimizer: str,
    proximal: float,
    by_gradients: bool,
    lambdas: tuple[float, float],
) -> None:
    adam, rng = optimizer != "sgd", np.random.default_rng(seed)
    n, shape = population.homes.n_homes, population.shape
    # Only a client's own rows where others would move by their base alone.
    row_sparse = not adam and not proximal and lambdas[1] == 1
    clients = population.clients(rng.random(n) * 3, all_rows=not row_sparse)
    training = Training(steps, 0.05, 0.1, proximal, adam, optimizer == "kept", by_gradients, row_sparse)
    moments = moments_of(population, clients)
    n_theta = population.layout.n_theta
    parts = [n_theta, shape.size - n_theta]
    rate, lam = np.repeat([training.theta_rate, training.phi_rate], parts), np.repeat(lambdas, parts)
    zeros = np.zeros(shape.size)
    plain = [Plain(population.gradient(k), zeros, zeros, zeros) for k in range(n)]
    for _ in range(2):
        model, outcome = model_of(population, rng), outcome_of(population, mean_gradient=adam and by_gradients)
        # Other states than the last round's: these may be nearly zero, and steps of Adam still have full length.
        correction = correction_of(population, clients, rng, theta=lambdas[0], phi=lambdas[1])
        for k, client in enumerate(plain):
            client.own = whole(correction.own_dense, correction.own_rows, clients, k, shape)
        train_shard(shape, model, clients, training, outcome, correction=correction, moments=moments)
        update, mean_gradient = zeros.copy(), zeros.copy()
        for k, client in enumerate(plain):
            shared = correction.shared[correction.group[k]].astype(float) * (correction.group[k] >= 0)
            loss, delta, p = client.train(model, training, shared, rate, lam)
            base = np.where(np.arange(shape.size) < shape.n_dense, 0, steps * rate * lam * shared)
            update += clients.weight[k] * (delta - base * training.without_base)
            mean_gradient += clients.weight[k] * p
            close(outcome.loss[k], loss)
            close(whole(correction.own_dense, correction.own_rows, clients, k, shape), client.own)
            if training.kept:
                close(whole(moments.first_dense, moments.first_rows, clients, k, shape), client.first)
                close(whole(moments.second_dense, moments.second_rows, clients, k, shape), client.second)
                assert moments.steps[k] == client.steps
        assert outcome.finite.all()
        close(outcome.update, update)
        if len(outcome.mean_gradient):
            close(outcome.mean_gradient, mean_gradient)


def test_adam_without_corrections_is_that_of_torch() -> None:
    population, rng = neighbours(), np.random.default_rng(0)
    clients, model, outcome = (
        population.clients(np.array([1.0, 0.0])),
        model_of(population, rng),
        outcome_of(population),
    )
    train_shard(population.shape, model, clients, Training(5, 0.01, 0.01, adam=True), outcome)
    x, gradient = torch.tensor(model.astype(float), requires_grad=True), population.gradient(0)
    optimizer = torch.optim.Adam([x], lr=0.01)
    for _ in range(5):
        x.grad = torch.tensor(gradient(x.detach().numpy())[1])
        optimizer.step()
    close(outcome.update, model - x.detach().numpy())


def taken(clients: Clients, which: Vector) -> Clients:
    """These clients in this order."""
    columns = clients._asdict()
    owned = {
        "device_start": ("device_type",),
        "edge_start": ("sender", "receiver"),
        "triple_start": ("trigger", "action", "relation", "positive"),
        "row_start": ("row",),
    }
    for name, of_each in owned.items():
        start = columns[name]
        columns |= {column: columns[column][runs(start, which)] for column in of_each}
        columns[name] = np.concatenate([[0], np.cumsum((start[1:] - start[:-1])[which])])
    return Clients(**columns | {"weight": clients.weight[which]})


@settings(max_examples=30)
@given(population=populations(max_homes=6), seed=st.integers(0, 2**32), cut=st.integers(0, 6))
def test_neither_order_nor_shards_change_a_bit(population: Population, seed: int, cut: int) -> None:
    rng, n, shape = np.random.default_rng(seed), population.homes.n_homes, population.shape
    clients, model = population.clients(rng.random(n)), model_of(population, rng)
    before = correction_of(population, clients, rng)
    training, order = Training(2, without_base=True), rng.permutation(n)

    def trained(which: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        rows = runs(clients.row_start, which)
        columns = before.own_dense[which], before.own_rows[rows], before.shared, before.group[which]
        correction = Correction(True, 1.0, 1.0, *columns)
        n = len(which)
        outcome = Outcome(np.zeros(shape.size), np.zeros(0), np.zeros(n, dtype=np.float32), np.zeros(n, dtype=bool))
        train_shard(shape, model, taken(clients, which), training, outcome, correction=correction)
        return outcome.update, outcome.loss, correction.own_dense, correction.own_rows

    update, loss, dense, rows = trained(np.arange(n))
    shards = order[:cut], order[cut:]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(trained, shards))
    assert np.array_equal(found[0][0] + found[1][0], update)
    for which, (_, shard_loss, shard_dense, shard_rows) in zip(shards, found, strict=True):
        assert np.array_equal(shard_loss, loss[which])
        assert np.array_equal(shard_dense, dense[which])
        assert np.array_equal(shard_rows, rows[runs(clients.row_start, which)])


def test_addends_are_rounded_for_exact_sums() -> None:
    population, model = neighbours(), model_of(neighbours(), np.random.default_rng(1))
    sums = []
    for weight in (1 / 3, 1e-12):
        outcome = outcome_of(population)
        train_shard(population.shape, model, population.clients(np.full(2, weight)), Training(), outcome)
        sums.append(outcome.update)
    # Thirds are no multiples of 2^-30, which their sum is; 1e-12 of an update below 1 is less than half of 2^-30.
    assert sums[0].any()
    assert np.array_equal(sums[0] * 2**30, np.round(sums[0] * 2**30))
    assert np.array_equal(exact_addends(sums[0]), sums[0])
    assert not sums[1].any()


def test_small_rates_lose_no_digits() -> None:
    # A step of 1e-6 of a gradient of about 0.1 is no more than the last digit of parameters of about 1.
    population, model = neighbours(1), model_of(neighbours(1), np.random.default_rng(2)) + np.float32(2)
    outcome = outcome_of(population)
    train_shard(population.shape, model, population.clients(np.array([1e6])), Training(1, 1e-6, 1e-6), outcome)
    close(outcome.update, population.gradient(0)(model.astype(float))[1])


@pytest.mark.parametrize(("logit", "loss"), [(-1e4, 2e4 / 3), (1e4, 1e4 / 3)])
def test_losses_of_large_logits_are_finite(logit: float, loss: float) -> None:
    # All else is zero, so that logits are the biases of relations. Two of three candidates are rules: these cost 1e4
    # where the logit is -1e4, and the third does where it is 1e4.
    population = neighbours(1)
    model, outcome = np.zeros(population.shape.size, dtype=np.float32), outcome_of(population)
    rows_of(model, population)[:, -1] = logit
    train_shard(population.shape, model, population.clients(np.ones(1)), Training(), outcome)
    assert outcome.finite.all()
    assert outcome.loss.tolist() == pytest.approx([loss])


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("cause", ["model", "state", "weight"])
def test_a_client_that_is_not_finite_sends_nothing_and_keeps_its_state(cause: str, adam: bool) -> None:
    population, rng = neighbours(), np.random.default_rng(3)
    clients, model = population.clients(np.ones(2)), model_of(population, rng)
    correction, moments = correction_of(population, clients, rng), moments_of(population, clients)
    if cause == "model":
        rows_of(model, population)[3] = np.inf  # only the second home has candidates of relation 3
    elif cause == "state":
        correction.own_dense[1, 5] = np.nan
    else:
        clients.weight[1] = np.nan
    both, one = (outcome_of(population, mean_gradient=adam) for _ in range(2))
    training = Training(adam=adam, kept=adam, by_gradients=adam)
    before = [array.copy() for array in (*correction[3:5], *moments)]
    train_shard(population.shape, model, clients, training, both, correction=correction, moments=moments)
    after = [*correction[3:5], *moments]
    assert both.finite.tolist() == [True, False]
    for old, new in zip(before, after, strict=True):
        mine = clients.row_start[1] if len(new) == len(clients.row) else 1
        assert np.array_equal(new[mine:], old[mine:], equal_nan=True)

    # The first alone: the same sums, and the same states.
    own_dense, own_rows, *old_moments = before
    alone = taken(clients, np.array([0]))
    mine = len(alone.row)
    train_shard(
        population.shape,
        model,
        alone,
        training,
        one._replace(loss=one.loss[:1], finite=one.finite[:1]),
        correction=correction._replace(own_dense=own_dense[:1], own_rows=own_rows[:mine], group=correction.group[:1]),
        moments=Moments(*(part[: mine if len(part) == len(clients.row) else 1] for part in old_moments)),
    )
    assert np.array_equal(both.update, one.update)
    assert both.update.any()
    assert np.array_equal(both.mean_gradient, one.mean_gradient)
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(old, new, equal_nan=True)


@pytest.mark.parametrize("adam", [False, True])
def test_clients_whose_steps_diverge_send_nothing(adam: bool) -> None:
    population = neighbours()
    outcome, model = outcome_of(population), model_of(population, np.random.default_rng(9))
    train_shard(population.shape, model, population.clients(np.ones(2)), Training(3, 3e38, 3e38, adam=adam), outcome)
    assert outcome.finite.tolist() == [False, False]
    assert np.isfinite(outcome.loss).all()  # of the model that was sent
    assert not outcome.update.any()


def test_only_a_correction_moves_a_client_without_candidates() -> None:
    # 3 steps of 0.1 along -lambda (own - shared) = -(2 - 0.5) make Delta = -0.45; of rows the base, 3 * 0.1 * 0.5 =
    # 0.15, is left out. own becomes (own - shared) + Delta / (eta tau) = 1.5 - 1.5 = 0.
    population = neighbours(1)
    nothing = Population(population.homes, population.candidates.take(np.zeros(0, dtype=np.int64)), np.zeros(0, bool))
    clients, shape = nothing.clients(np.ones(1), all_rows=True), nothing.shape
    outcome, model = outcome_of(nothing), model_of(nothing, np.random.default_rng(4))
    sizes = (1, shape.n_dense), (len(clients.row), UNITS + 1)
    own = [np.full(size, 2, dtype=np.float32) for size in sizes]
    shared = np.full((1, shape.size), 0.5, dtype=np.float32)
    correction = Correction(True, 1, 1, *own, shared, np.array([0]))
    train_shard(shape, model, clients, Training(without_base=True), outcome, correction=correction)
    assert outcome.loss.tolist() == [0]
    close(outcome.update[: shape.n_dense], -0.45)
    close(outcome.update[shape.n_dense :], -0.6)
    close(correction.own_dense, 0)
    close(correction.own_rows, 0)


@given(population=populations(), seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_rows_that_a_client_does_not_have_move_by_their_base(population: Population, seed: int) -> None:
    # The same client with all rows, nothing left out, and with its own only: the others differ by tau eta shared.
    shape, updates = population.shape, []
    n = population.homes.n_homes
    for all_rows in (False, True):
        rng = np.random.default_rng(seed)
        model, shared = model_of(population, rng), rng.normal(size=(1, shape.size)).astype(np.float32)
        clients = population.clients(np.ones(n), all_rows=all_rows)
        sizes = (n, shape.n_dense), (len(clients.row), UNITS + 1)
        own = (np.zeros(size, dtype=np.float32) for size in sizes)
        correction, outcome = Correction(True, 1, 1, *own, shared, np.zeros(n, dtype=np.int64)), outcome_of(population)
        training = Training(3, without_base=not all_rows)
        train_shard(shape, model, clients, training, outcome, correction=correction)
        updates.append(outcome.update)
    base = np.where(np.arange(shape.size) < shape.n_dense, 0, n * 3 * 0.1 * shared[0].astype(float))
    close(updates[0] + base, updates[1])


def test_no_clients_are_no_sum() -> None:
    population = neighbours()
    nobody = taken(population.clients(np.ones(2)), np.zeros(0, dtype=np.int64))
    outcome = Outcome(np.zeros(population.shape.size), np.zeros(0), np.zeros(0, np.float32), np.zeros(0, bool))
    train_shard(population.shape, model_of(population, np.random.default_rng(5)), nobody, Training(), outcome)
    assert not outcome.update.any()


def test_the_shape_is_that_of_the_layout() -> None:
    population = neighbours()
    assert population.shape.n_dense == population.layout.n_dense
    assert population.shape.size == population.layout.size


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sender": np.array([0, 1, 0, 3])}, "sender"),
        ({"receiver": np.array([1, 1, 1, -1])}, "receiver"),
        ({"relation": np.array([0, 1, 2, 1, 2, 0])}, "relation"),
        ({"device_type": np.array([1, 0, 0, 1, 0, 2])}, "device_type"),
        ({"row": np.array([0, 1, 2, 1, 2, 4])}, "row"),
        ({"row_start": np.array([0, 3, 5])}, "row_start does not divide 6 values among 2 clients"),
        ({"positive": np.ones(6)}, "positive must be float32 .* got float64"),
        ({"weight": np.ones(3)}, r"loss must be float32 of shape \(3,\), got float32 of \(2,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Vector], message: str) -> None:
    population = neighbours()
    clients = population.clients(np.ones(2))._replace(**change)
    model = model_of(population, np.random.default_rng(6))
    with pytest.raises(DataError, match=message):
        train_shard(population.shape, model, clients, Training(), outcome_of(population))


def test_what_is_written_has_to_be_writable_and_steps_are_taken() -> None:
    population = neighbours()
    clients, model = population.clients(np.ones(2)), model_of(population, np.random.default_rng(7))
    outcome = outcome_of(population)
    with pytest.raises(DataError, match="local steps must be at least 1, got 0"):
        train_shard(population.shape, model, clients, Training(0), outcome)
    gaps = outcome._replace(update=np.zeros(2 * population.shape.size)[::2])
    with pytest.raises(DataError, match="update is written in place"):
        train_shard(population.shape, model, clients, Training(), gaps)
    correction = correction_of(population, clients, np.random.default_rng(8))._replace(group=np.array([0, 2]))
    with pytest.raises(DataError, match="group is out of range"):
        train_shard(population.shape, model, clients, Training(), outcome, correction=correction)
