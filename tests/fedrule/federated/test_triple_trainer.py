"""Clients of knowledge-graph embeddings: gradients against autograd, rows against plain sets, chunks, secure sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import datasets
from baselines.items import Items
from datasets import DataError
from fedrule.federated.algorithm import ClientState, client_round
from fedrule.federated.cohort import Cohorts
from fedrule.federated.vectors import FlatParameters

torch = pytest.importorskip("torch", reason="needs the extra graph")
pytest.importorskip("numba", reason="needs the extra graph")

from baselines.knowledge_graph.gradients import Tables  # noqa: E402
from fedrule.federated.trainers import triples  # noqa: E402
from fedrule.methods.fede import FedE  # noqa: E402

SMALL = {"dimension": 2, "non_rules": 3, "rounds": 3, "cohort": 0, "decay": False}


def grouped_homes():
    """Twenty homes with many rules that they do not have; the first two rules of each are one automation."""
    homes = datasets.load("wyze-synthetic", homes=20)
    place = np.arange(homes.n_rules) - np.searchsorted(homes.rules.home, homes.rules.home)
    return replace(homes, rules=replace(homes.rules, group=np.maximum(place - 1, 0)))


class Clients:
    """A trainer of these homes, with a model in which no number is zero."""

    def __init__(self, **options):
        self.method = FedE(**{**SMALL, **options})
        self.homes = grouped_homes()
        self.items = Items.of(self.homes)
        self.tables = Tables(len(self.homes.types), len(self.homes.relations), 2, self.method.personal)
        self.trainer = self.method.trainer(self.homes, self.items, seed=5)
        shape = self.trainer.layout.n_rows, self.trainer.layout.row_length
        rows = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        rows[:, -1] = 0
        self.model = rows.reshape(-1)
        self.with_rules = np.flatnonzero(self.trainer.rule_counts)

    def sums(self, client, **options):
        """What the server learns where only this client takes part, with these options of training."""
        engine = replace(self.method, weighting="clients", **options).engine()
        state = engine.begin(self.trainer, self.model)
        return engine.train_clients(self.trainer, state.clients, state.broadcast(), np.array([client])).sums

    def gradient(self, client):
        """Its loss, and as a table the update of one local step of rate 1: the gradient."""
        sums = self.sums(client, local_steps=1, learning_rate=1.0, client_optimizer="sgd")
        return sums.loss, sums.update.reshape(self.trainer.layout.n_rows, -1)

    def play(self, rounds=3, **changes):
        engine = replace(self.method.engine(), **changes)
        state, reports = engine.begin(self.trainer, self.model), []
        for _ in range(rounds):
            state, report = engine.step(self.trainer, state, seed=3, rate=0.1)
            reports.append(report)
        return state, reports


def plain_loss(clients: Clients, work, client: int, x):
    """The loss of one client by the equations of the module, as a function of its table x, a tensor."""
    tables, method = clients.tables, clients.method
    trigger, action, relation = clients.items.valid.typed()
    own = slice(int(work.start[client]), int(work.start[client + 1]))
    candidate, is_drawn, rules = work.candidate[own], work.is_drawn[own], clients.trainer.rules
    automation, home = rules.automation[work.entry[own]], work.clients[client]
    owned = rules.owned[rules.owned_start[home] : rules.owned_start[home + 1]]

    def complex_row(row):
        return torch.complex(x[row, :2], x[row, 2:4])

    losses = []
    for i, rule in enumerate(candidate):
        u = torch.zeros(2, dtype=torch.complex128)
        if method.personal:
            others = [k for k in range(len(candidate)) if automation[k] != automation[i]]
            for item in candidate[others, 0]:
                v = complex_row(tables.rule_relation + relation[item])
                v = v + complex_row(tables.rule_trigger + trigger[item])
                v = v + complex_row(tables.rule_action + action[item])
                u = u + v / np.sqrt(len(others) + 1)
            for kind in owned:
                u = u + complex_row(tables.owned + kind) / len(owned)
        scores = []
        for item in rule[is_drawn[i]]:
            q, t = complex_row(trigger[item]) + u, complex_row(action[item])
            row = tables.relation + relation[item]
            if method.score == "rotate":
                r = torch.exp(1j * x[row, :2])
                scores.append(method.margin - (q * r - t).abs().square().sum().sqrt())
            else:
                scores.append((q * complex_row(row) * t.conj()).real.sum())
        scores = torch.stack(scores)
        share = torch.softmax(method.temperature * scores[1:].detach(), dim=0)
        softplus = torch.nn.functional.softplus
        losses.append(softplus(-scores[0]) + (share * softplus(scores[1:])).sum())
    _, held = work.rows(client, client + 1)
    return torch.stack(losses).mean() + method.regularization / 2 * x[held, :4].square().sum()


@pytest.mark.parametrize("personal", [True, False])
@pytest.mark.parametrize("score", ["rotate", "complex"])
def test_gradients_are_those_of_autograd_on_the_equations(score, personal):
    clients = Clients(score=score, personal=personal, regularization=0.05, temperature=0.7)
    work = clients.trainer.begin(0, clients.with_rules, clients.model)
    layout = clients.trainer.layout
    for place, client in enumerate(clients.with_rules):
        x = torch.tensor(clients.model.reshape(layout.n_rows, -1), dtype=torch.float64, requires_grad=True)
        expected = plain_loss(clients, work, place, x)
        expected.backward()
        loss, gradient = clients.gradient(client)
        assert loss == pytest.approx(expected.item(), rel=1e-5)
        np.testing.assert_allclose(gradient[:, :-1], x.grad.numpy()[:, :-1], rtol=1e-4, atol=1e-5)
        _, held = work.rows(place, place + 1)
        assert np.flatnonzero(gradient[:, -1]).tolist() == held.tolist()
        assert set(gradient[:, -1]) == {0.0, 1.0}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("score", ["rotate", "complex"])
def test_steps_of_a_client_are_those_of_the_algorithm(score, optimizer):
    clients = Clients(score=score, regularization=0.05)
    options = {"local_steps": 3, "learning_rate": 0.1, "client_optimizer": optimizer}
    h, layout = replace(clients.method, **options).hyperparameters(), clients.trainer.layout
    work = clients.trainer.begin(0, clients.with_rules, clients.model)

    def gradients(place):
        def at(models, step):  # noqa: ARG001  all steps have the same batch
            x = torch.tensor(models.reshape(layout.n_rows, -1), dtype=torch.float64, requires_grad=True)
            loss = plain_loss(clients, work, place, x)
            loss.backward()
            return np.array([loss.item()]), x.grad.numpy().reshape(1, -1).astype(np.float32)

        return at

    for place, client in enumerate(clients.with_rules[:6]):
        expected, _ = client_round(h, layout, clients.model, gradients(place), ClientState())
        found = clients.sums(client, **options)
        assert found.loss == pytest.approx(expected.loss[0], rel=1e-5)
        found, expected = (v.reshape(layout.n_rows, -1)[:, :-1] for v in (found.update, expected.update))
        # Adam divides by the size of a gradient: where it is nearly zero, so are the digits that agree.
        close = np.isclose(found, expected, rtol=1e-3, atol=1e-5)
        assert close.mean() > (0.999 if optimizer == "adam" else 0.999999)


@pytest.mark.parametrize("together", [1, 3, triples.MARKED_TOGETHER])
def test_a_home_holds_the_rows_of_its_rules_its_types_and_its_non_rules(together, monkeypatch):
    monkeypatch.setattr(triples, "MARKED_TOGETHER", together)  # clients whose rows are found at a time
    clients = Clients()
    work, tables = clients.trainer.begin(0, clients.with_rules, clients.model), clients.tables
    trigger, action, relation = clients.items.valid.typed()
    start, row = work.rows(0, len(clients.with_rules))
    for client, home in enumerate(clients.with_rules.tolist()):
        own = slice(int(work.start[client]), int(work.start[client + 1]))
        seen, rules = work.candidate[own][work.is_drawn[own]], work.candidate[own][:, 0]
        types = clients.homes.device_type[clients.homes.device_home == home]
        expected = {*trigger[seen], *action[seen], *(tables.relation + relation[seen])}
        expected |= {*(tables.rule_relation + relation[rules]), *(tables.rule_trigger + trigger[rules])}
        expected |= {*(tables.rule_action + action[rules]), *(tables.owned + types)}
        assert row[start[client] : start[client + 1]].tolist() == sorted(expected)


def test_a_row_is_averaged_over_the_homes_that_hold_it_and_others_stay():
    clients = Clients(server_optimizer="plain", local_steps=1, learning_rate=1.0, weighting="rules")
    work = clients.trainer.begin(0, clients.with_rules, clients.model)
    n, layout = len(clients.with_rules), clients.trainer.layout
    gradient = np.stack([clients.gradient(client)[1] for client in clients.with_rules])
    gradient[:, :, -1] = 0
    start, row = work.rows(0, n)
    # One local step of rate 1: an update is the gradient. The server moves by 0.1 of the mean.
    expected, weight = clients.model.reshape(layout.n_rows, -1).astype(float).copy(), clients.trainer.rule_counts
    for each in range(layout.n_rows):
        holders = [k for k in range(n) if each in row[start[k] : start[k + 1]]]
        if holders:
            weights = weight[clients.with_rules[holders]]
            expected[each] -= 0.1 * np.average(gradient[holders, each], axis=0, weights=weights)
    state, _ = clients.play(rounds=1)
    np.testing.assert_allclose(state.model.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
    never = np.setdiff1d(np.arange(layout.n_rows), row)  # e.g. of the relation that nobody uses
    assert len(never)
    assert (state.model.reshape(expected.shape)[never] == clients.model.reshape(expected.shape)[never]).all()
    assert not state.model.reshape(expected.shape)[:, -1].any()


def test_means_by_row_divide_by_the_last_number_of_a_row():
    layout = FlatParameters(("dense",), ((2,),), 0, 3, 3)
    total = np.array([4.0, 8.0, 6.0, 2.0, 2.0, 5.0, 5.0, 0.0, 1.0, 3.0, 4.0])
    # The dense part by the weight of all, 4; rows by 2, by nobody, and by 4; counts are no parameters.
    assert layout.means_by_row(total, 4.0).tolist() == [1, 2, 3, 1, 0, 0, 0, 0, 0.25, 0.75, 0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_neither_chunks_nor_other_clients_change_a_bit(optimizer):
    clients = Clients(client_optimizer=optimizer)
    whole, reports = clients.play()
    for size in (1, 7):
        state, others = clients.play(chunk_size=size)
        assert state.model.tobytes() == whole.model.tobytes()
        assert others == reports
    every = clients.trainer.begin(2, clients.with_rules, clients.model)
    some = clients.trainer.begin(2, clients.with_rules[3:5], clients.model)
    assert (some.candidate == every.candidate[every.start[3] : every.start[5]]).all()
    other_round = clients.trainer.begin(1, clients.with_rules[3:5], clients.model)
    assert (some.candidate != other_round.candidate).any()


def test_secure_sums_give_the_same_bits():
    pytest.importorskip("cryptography", reason="secure sums need the extra secure")
    clients = Clients()
    faults = Cohorts(drop_out=0.1, late=0.1, corrupted=0.1)
    plain, reports = clients.play(rounds=2, cohorts=faults)
    secure, others = clients.play(rounds=2, cohorts=faults, secure_threshold=0.51)
    assert secure.model.tobytes() == plain.model.tobytes()
    assert [each.loss for each in others] == [each.loss for each in reports]
    # Whole vectors, or the server would see which rows a home holds.
    assert others[0].sent_bytes > 8 * len(plain.model) > reports[0].sent_bytes


def test_clients_that_fail_are_left_out_of_the_means():
    clients = Clients(server_optimizer="plain")
    state, (report,) = clients.play(rounds=1, cohorts=Cohorts(drop_out=0.2, late=0.2, corrupted=0.2))
    assert min(report.dropped, report.late, report.corrupted, report.clients) > 0
    assert report.dropped + report.late + report.refused + report.clients == len(clients.with_rules)
    missing = np.flatnonzero(state.clients.last < 0)
    counted = np.setdiff1d(clients.with_rules, missing)
    assert len(counted) == report.clients
    alone = clients.method.engine().train_clients(
        clients.trainer, clients.play(rounds=0)[0].clients, clients.play(rounds=0)[0].broadcast(), counted
    )
    expected = clients.trainer.layout.means_by_row(alone.sums.update, alone.sums.weight)
    assert state.model.tobytes() == (clients.model - 0.1 * expected).astype(np.float32).tobytes()


def test_bytes_sent_are_those_of_the_rows_that_a_home_holds():
    clients = Clients()
    _, (report,) = clients.play(rounds=1)
    start, _ = clients.trainer.begin(0, clients.with_rules, clients.model).rows(0, len(clients.with_rules))
    # 4 numbers and the count of each row, and which row it is: 6 times 4 bytes.
    assert report.values()["sent_bytes"] == pytest.approx(24 * start[-1] / len(clients.with_rules))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"aggregation": "median", "weighting": "clients"},
            "aggregation 'median' would also change the weights",
        ),
        ({"norm_bound": 1.0}, "norm_bound 1.0 would also change the weights"),
        ({"clip": 1.0}, "clip 1.0 would also change the weights"),
    ],
)
def test_what_changes_the_counts_of_rows_is_refused(options, words):
    with pytest.raises(DataError, match=words):
        FedE(**options)
