"""Clients of user-item models: their updates against the papers' formulas, and no bit depends on who else trains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

from baselines.contract import planted_homes  # noqa: E402
from baselines.items import Items  # noqa: E402
from baselines.registry import build  # noqa: E402
from datasets import DataError  # noqa: E402
from fedrule.federated.checkpoint import Checkpoint  # noqa: E402
from fedrule.federated.trainers.factors import FactorTrainer, LeastSquares  # noqa: E402
from fedrule.federated.trainers.local_graph import LocalGraph, gradients, laplace  # noqa: E402
from fedrule.federated.vectors import STEP  # noqa: E402
from tests.support.small_populations import population  # noqa: E402

HOMES = population(5, n_homes=12, n_types=4, n_relations=3)
METHODS = {
    "fcf": {"factors": 5},
    "fedmf": {"factors": 5, "home_steps": 4},
    "fedlightgcn": {"dimension": 5, "non_rules": 2},
    "fedlightgcn that hides": {
        "dimension": 5,
        "pseudo_items": 3,
        "update_bound": 0.1,
        "laplace_noise": 0.01,
        "local_steps": 2,
    },
}


def method(name, **options):
    return build(name.partition(" ")[0], **({"rounds": 4} | METHODS[name] | options))


def played(name, rounds=3, chunk_size=1024, engine_options=None, homes=HOMES, **options):
    """The states after each round, and the reports."""
    made, items = method(name, **options), Items.of(homes)
    engine = replace(made.engine(), chunk_size=chunk_size, **(engine_options or {}))
    trainer = made.trainer(homes, items, 3)
    state = engine.begin(trainer, made.initial(items, np.random.default_rng(0)))
    states, reports = [state], []
    for _ in range(rounds):
        state, report = engine.step(trainer, state, seed=3, rate=made.server_rate)
        states.append(state)
        reports.append(report)
    return states, reports


# Against the formulas


def plain_round(have, y, *, alpha, penalty, steps):
    """Mean over homes of the gradient for Y by loops, as in Ammad-ud-din et al. 2019."""
    n_items, f = y.shape
    total, losses = np.zeros_like(y), []
    homes = [row for row in have if row.any()]
    for p in homes:
        c = np.where(p > 0, alpha, 1.0)
        curvature = y.T @ np.diag(c) @ y + penalty * np.eye(f)
        if steps:
            own = y[p > 0]
            gram = y.T @ y + penalty * np.eye(f)
            bound = np.linalg.norm(gram, 2) + (alpha - 1) * (own**2).sum()
            x = np.zeros(f)
            for _ in range(steps):
                x = x - (curvature @ x - y.T @ (c * p)) / bound
        else:
            x = np.linalg.inv(curvature) @ y.T @ (c * p)
        for i in range(n_items):
            total[i] += -2 * c[i] * (p[i] - x @ y[i]) * x + 2 * penalty / len(homes) * y[i]
        losses.append((c * (p - y @ x) ** 2).sum() + penalty * (x @ x) + penalty / len(homes) * (y**2).sum())
    return total / len(homes), float(np.mean(losses))


@pytest.mark.parametrize("name", ["fcf", "fedmf"])
def test_a_round_of_matrix_factorization_is_the_mean_of_the_gradients_of_the_paper(name):
    options = {"server_optimizer": "plain", "server_rate": 1.0, "decay": False, "learning_rate": 0.1, "alpha": 7.0}
    (before, after), (report,) = played(name, rounds=1, regularization=0.3, **options)
    items = Items.of(HOMES)
    have = items.matrix(HOMES).toarray()
    y = before.model.reshape(-1, 5).astype(float)
    # lambda is the option times the root of homes x items
    penalty = 0.3 * np.sqrt(HOMES.n_homes * len(items))
    gradient, loss = plain_round(have, y, alpha=7.0, penalty=penalty, steps=4 if name == "fedmf" else 0)
    np.testing.assert_allclose(after.model.reshape(-1, 5), y - 0.1 * gradient, rtol=1e-5, atol=1e-6)
    assert report.loss == pytest.approx(loss, rel=1e-6)


def test_the_gradient_is_that_of_the_loss_with_the_homes_factors_at_their_best():
    """F(Y) = sum over homes of min over x: its gradient is the partial one, so finite differences of F are equal."""
    have = Items.of(HOMES).matrix(HOMES)
    trained = np.diff(have.indptr) > 0
    task = LeastSquares(alpha=5.0, regularization=2.0, share=1 / trained.sum())
    y = np.random.default_rng(0).normal(size=(have.shape[1], 3))

    def total(table):
        x = task.solver(table)(have)
        c = 1 + 4.0 * have.toarray()
        fit = (c * (have.toarray() - x @ table.T) ** 2)[trained].sum()
        return fit + 2.0 * ((x**2).sum() + (table**2).sum())

    options = {"server_optimizer": "plain", "server_rate": 1.0, "decay": False, "learning_rate": 1.0, "factors": 3}
    engine = method("fcf", **options).engine()
    trainer = FactorTrainer(have, task, 3)
    state = engine.begin(trainer, y.astype(np.float32).ravel())
    y = state.model.reshape(-1, 3).astype(float)
    after, _ = engine.step(trainer, state, seed=0)
    found = (state.model.astype(float) - after.model).reshape(-1, 3) * trained.sum()
    for i, f in [(0, 0), (1, 2), (3, 1)]:
        step = np.zeros_like(y)
        step[i, f] = 1e-5
        assert found[i, f] == pytest.approx((total(y + step) - total(y - step)) / 2e-5, rel=1e-3)


def test_many_gradient_steps_at_home_lead_to_the_closed_form():
    have = Items.of(HOMES).matrix(HOMES)
    y = np.random.default_rng(1).normal(size=(have.shape[1], 4))
    exact, steps = (LeastSquares(5.0, 2.0, 0.1, steps=n).solver(y)(have) for n in (0, 3000))
    np.testing.assert_allclose(steps, exact, atol=1e-8)
    assert (exact[np.diff(have.indptr) == 0] == 0).all()


def star_vector(rules, degree, h, e, layers):
    """The mean over layers of the home's node, by powers of the normalised adjacency of the star."""
    m = len(rules)
    adjacency = torch.zeros(m + 1, m + 1, dtype=torch.float64)
    for place, item in enumerate(rules):
        adjacency[0, place + 1] = adjacency[place + 1, 0] = 1 / np.sqrt(m * degree[item])
    nodes = torch.cat([h[None], e[rules]]) if m else h[None]
    found = [nodes]
    for _ in range(layers):
        found.append(adjacency @ found[-1])
    return torch.stack(found).mean(dim=0)[0]


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize("automations", [False, True])  # of two rules each, one after the other
def test_gradients_of_a_local_graph_are_those_of_autograd_on_the_star_without_the_automation(layers, automations):
    made = build("fedlightgcn", dimension=3, layers=layers, non_rules=2, regularization=0.3)
    group = np.arange(HOMES.n_rules) // 2 if automations else None
    homes = replace(HOMES, rules=replace(HOMES.rules, group=group))
    items = Items.of(homes)
    automation = {}
    for number, (home, item) in enumerate(zip(homes.rules.home.tolist(), items.number(homes).tolist(), strict=True)):
        automation.setdefault((home, item), number if group is None else int(group[number]))
    trainer = made.trainer(homes, items, 1)
    clients = np.flatnonzero(trainer.rule_counts)
    work = trainer.begin(0, clients, made.initial(items, np.random.default_rng(0)))
    batches, degree = work.batches, trainer.degree
    rng = np.random.default_rng(2)
    home, rows = rng.normal(size=(len(work.clients), 3)), rng.normal(size=(len(batches.row), 3))
    loss, of_home, of_rows = gradients(trainer.task, batches, degree, home, rows)
    checked = 0
    for k in range(len(work.clients)):
        here = slice(batches.row_start[k], batches.row_start[k + 1])
        item_of = {int(row): int(item) for row, item in enumerate(batches.row[here])}
        e = torch.zeros(len(items), 3, dtype=torch.float64)
        e[batches.row[here]] = torch.tensor(rows[here])
        e.requires_grad_()
        h = torch.tensor(home[k], requires_grad=True)
        own = [item_of[int(r - here.start)] for r in batches.rule[batches.rule_start[k] : batches.rule_start[k + 1]]]
        assert own == trainer.have[[work.clients[k]]].indices.tolist()
        terms = []
        for t in range(batches.triple_start[k], batches.triple_start[k + 1]):
            target = own[batches.target[t] - batches.rule_start[k]]
            other = item_of[int(batches.other[t] - here.start)]
            assert other not in own
            client = int(work.clients[k])
            left = [i for i in own if automation[client, i] != automation[client, target]]
            u = star_vector(left, degree, h, e, layers)
            margin = u @ (e[target] - e[other]) / (layers + 1)
            penalty = (h**2).sum() + (e[target] ** 2).sum() + (e[other] ** 2).sum()
            terms.append(torch.nn.functional.softplus(-margin) + 0.15 * penalty)
        expected = torch.stack(terms).mean()
        expected.backward()
        assert loss[k] == pytest.approx(expected.item(), rel=1e-9)
        np.testing.assert_allclose(of_home[k], h.grad, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(of_rows[here], e.grad[batches.row[here]], rtol=1e-8, atol=1e-12)
        checked += 1
    assert checked > 3


def test_a_home_is_scored_by_its_whole_star():
    task = LocalGraph(3, 3, 0.0, 1, 0, 0.0, 0.0, 0)
    items = Items.of(HOMES)
    have = items.matrix(HOMES)
    degree = np.maximum(np.asarray(have.sum(axis=0)).ravel(), 1)
    rng = np.random.default_rng(4)
    h, e = rng.normal(size=3), rng.normal(size=(len(items), 3))
    found = task.home_vectors(have, degree, h, e)
    for k in range(HOMES.n_homes):
        expected = star_vector(have[[k]].indices.tolist(), degree, torch.tensor(h), torch.tensor(e), 3)
        np.testing.assert_allclose(found[k], expected, rtol=1e-10)


# What hides a home


def test_a_home_that_hides_sends_rows_of_pseudo_items_and_numbers_within_the_bound():
    made = method("fedlightgcn that hides", laplace_noise=0.0, pseudo_items=6)
    items = Items.of(HOMES)
    trainer = made.trainer(HOMES, items, 3)
    work = trainer.begin(0, np.flatnonzero(trainer.rule_counts), made.initial(items, np.random.default_rng(0)))
    real, pseudo = work.batches.real.sum(), (~work.batches.real).sum()
    assert pseudo > 0
    states, (report,) = played("fedlightgcn that hides", rounds=1, laplace_noise=0.0, pseudo_items=6)
    # h and, for each row, 5 numbers of 4 bytes and the 4 bytes of its own number; all homes together
    assert report.sent_bytes == pytest.approx(4 * 5 + (real + pseudo) / len(work.clients) * (4 * 5 + 4))
    plain = {"server_optimizer": "plain", "server_rate": 1.0, "learning_rate": 100.0}
    states, _ = played("fedlightgcn that hides", rounds=1, laplace_noise=0.0, pseudo_items=6, **plain)
    assert np.abs(states[0].model - states[1].model).max() <= 0.1 + 1e-6


def test_a_home_cannot_send_more_pseudo_items_than_there_are_items():
    n_items = len(Items.of(HOMES))
    played("fedlightgcn that hides", rounds=1, pseudo_items=n_items)
    words = f"fedlightgcn: pseudo_items {n_items + 1} are more than the {n_items} items of {HOMES.name}"
    with pytest.raises(DataError, match=words):
        played("fedlightgcn that hides", rounds=1, pseudo_items=n_items + 1)


def test_laplace_noise_has_its_distribution():
    # Of scale 1 the mean absolute value is 1, and half of the numbers are within log 2.
    drawn = laplace((np.arange(100_000) + 0.5) / 100_000)
    assert np.abs(drawn).mean() == pytest.approx(1.0, abs=1e-3)
    assert (np.abs(drawn) < np.log(2)).mean() == pytest.approx(0.5, abs=1e-3)
    assert np.isfinite(laplace(np.array([0.0, 1 - 2.0**-53]))).all()


# No bit depends on who else trains


@pytest.mark.parametrize("name", METHODS)
def test_chunks_change_no_bit(name):
    whole, reports = played(name)
    for chunk_size in (1, 5):
        states, again = played(name, chunk_size=chunk_size)
        assert states[-1].model.tobytes() == whole[-1].model.tobytes()
        assert again == reports
    assert whole[-1].model.tobytes() != whole[0].model.tobytes()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_secure_sums_change_no_bit(name, clip):
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    plain, _ = played(name, rounds=2, clip=clip)
    secure, reports = played(name, rounds=2, clip=clip, secure_threshold=0.67)
    assert secure[-1].model.tobytes() == plain[-1].model.tobytes()
    size = 4.0 * len(plain[0].model)
    assert all(report.sent_bytes > size for report in reports)


@pytest.mark.parametrize("name", METHODS)
def test_clip_bounds_what_one_home_can_change(name):
    plain = {"server_optimizer": "plain", "server_rate": 1.0, "decay": False, "learning_rate": 100.0}
    states, _ = played(name, rounds=1, clip=0.25, **plain)
    # A mean of vectors of at most 0.25, rounded to steps of 2^-30
    length = np.linalg.norm(states[1].model.astype(float) - states[0].model)
    assert 0 < length <= 0.25 + STEP * len(states[0].model)


@pytest.mark.parametrize("name", METHODS)
def test_faults_leave_homes_out_and_the_model_finite(name):
    _, whole = played(name)
    states, reports = played(name, drop_out=0.2, late=0.2, corrupted=0.2)
    assert sum(report.dropped for report in reports) > 0
    assert sum(report.late for report in reports) > 0
    assert sum(report.corrupted for report in reports) > 0
    assert all(report.clients < full.clients for report, full in zip(reports, whole, strict=True))
    assert np.isfinite(states[-1].model).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_cohort_of_the_server_equals_these_homes_alone(name):
    """What a home sends depends on itself: the update of a round is that of its cohort trained one by one."""
    states, (report,) = played(name, rounds=1, cohort=4)
    assert 0 < report.clients <= 4  # one that could draw no item to rank before is left out
    made, items = method(name, cohort=4), Items.of(HOMES)
    trainer, engine = made.trainer(HOMES, items, 3), made.engine()
    present = engine.cohorts.of(np.flatnonzero(trainer.rule_counts), seed=3, number=0).present
    alone = [
        engine.train_clients(trainer, states[0].clients, states[0].broadcast(), np.array([client])).sums
        for client in present
    ]
    together = engine.train_clients(trainer, states[0].clients, states[0].broadcast(), present).sums
    assert sum(each.update for each in alone).tobytes() == together.update.tobytes()


class Killed(Exception):
    """Stands for a run that ends in the middle."""


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_fit_equals_one_that_was_not_interrupted_bit_for_bit(name, tmp_path):
    homes, made = planted_homes(), method(name, rounds=6)

    def stop(done, *_):
        if done == 4:
            raise Killed

    whole = made.fit(homes, rng=np.random.default_rng(1))
    kept = Checkpoint(tmp_path / "run.npz", every=1)
    with pytest.raises(Killed):
        made.fit(homes, rng=np.random.default_rng(1), on_round=stop, checkpoint=kept)
    rounds = []
    again = made.fit(
        homes,
        rng=np.random.default_rng(1),
        on_round=lambda done, *_: rounds.append(done),
        checkpoint=Checkpoint(tmp_path / "run.npz", every=1),
    )
    assert rounds[0] > 1
    every = np.arange(homes.n_homes)
    assert again.score_items(homes, every).tobytes() == whole.score_items(homes, every).tobytes()


# Options


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("fcf", {"epsilon": 4.0, "clip": 0.1}, "is refused: the list of items"),
        ("fedmf", {"epsilon": 4.0}, "epsilon 4.0 is refused: the list of items"),
        ("fedmf", {"delta": 1e-5}, "delta 1e-05 is refused: the list of items"),
        ("fedlightgcn", {"noise_multiplier": 1.0, "clip": 0.1}, "is refused: the list of items"),
        (
            "fcf",
            {"local_steps": 3},
            r"local_steps 3 has no effect: a home sends one gradient in a round \(leave it at 1\)",
        ),
        (
            "fedmf",
            {"client_optimizer": "adam"},
            r"client_optimizer 'adam' has no effect: clients take plain steps \(leave it at 'sgd'\)",
        ),
        ("fcf", {"factors": 0}, "factors must be at least 1, got 0"),
        ("fcf", {"alpha": 0.5}, "alpha must be at least 1, got 0.5"),
        ("fcf", {"regularization": 0.0}, "regularization must be above 0, got 0.0"),
        ("fedmf", {"home_steps": 0}, "home_steps must be at least 1, got 0"),
        ("fedlightgcn", {"layers": 0}, "layers must be at least 1, got 0"),
        ("fedlightgcn", {"laplace_noise": 0.2}, "set update_bound, e.g. 0.1"),
    ],
)
def test_wrong_options_say_what_would_be_right(name, options, words):
    with pytest.raises(DataError, match=f"{name}: .*{words}"):
        build(name, **options)
