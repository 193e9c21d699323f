"""Empty rounds, nothing to train on, clients that fail, training that diverges, and wrong options."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated engine needs the extra graph")
pytest.importorskip("torch_geometric", reason="the federated engine needs the extra graph")
pytest.importorskip("numba", reason="the federated engine needs the extra graph")

from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.contract import ToyHome, all_pairs, planted_homes, toy_homes
from baselines.registry import build
from datasets import DataError
from fedrule.federated import states as states_module
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts
from fedrule.federated.loop import ServerSchedule, train
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.rounds import Engine
from fedrule.federated.states import ServerState
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer
from tests.support.small_populations import Setting, control, population, populations, whole
from tests.support.valleys import LAYOUT, Valleys

METHODS = ["fedgnn", "fedprox", "fedrule", "fedgate", "scaffold"]
TRAINERS = [TorchTrainer, KernelTrainer]
PLANTED = planted_homes()
HYPERPARAMETERS = {
    "sparse": Hyperparameters(2, 0.2, 0.3, algorithm="fedgate"),
    "dense": Hyperparameters(2, 0.2, 0.3, algorithm="fedrule", phi_lambda=0.5),
    "scaffold": Hyperparameters(2, 0.2, 0.3, algorithm="scaffold"),
    "kept": Hyperparameters(2, 0.02, 0.03, "kept-adam", algorithm="fedgate", control="gradients"),
    "fedavg": Hyperparameters(2, 0.2, 0.3),
}


def trainers(function):
    return pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.__name__)(function)


def all_hyperparameters(function):
    return pytest.mark.parametrize("h", HYPERPARAMETERS.values(), ids=HYPERPARAMETERS)(function)


def finite(state: ServerState) -> bool:
    return all(np.isfinite(array).all() for array in state.arrays().values())


def fitted(method: str, homes=PLANTED, **options):
    short = {"rounds": 4, "hidden": 4, "predictor_hidden": 5}
    return build(method, **(short | options)).fit(homes, rng=np.random.default_rng(1))


# Empty rounds, or nothing to train on


@trainers
@all_hyperparameters
def test_an_empty_round_leaves_the_model_and_says_which_it_was(trainer, h, caplog):
    setting = Setting(population(1), Engine(h, cohorts=Cohorts(1e-9, "poisson")))
    clients = trainer(setting.homes, setting.task)
    before = setting.engine.begin(clients, setting.start)
    with caplog.at_level(logging.WARNING):
        state, _ = setting.engine.step(clients, before, seed=3)
        state, report = setting.engine.step(clients, state, seed=3)
    assert state.model.tobytes() == setting.start.tobytes()
    assert (state.round, report.clients, np.isnan(report.loss)) == (2, 0, True)
    assert "round 2: no update (0 clients dropped out, 0 late, 0 NaN or infinite); the model stays" in caplog.text
    assert {name for name, a in state.arrays().items() if a.tobytes() != before.arrays()[name].tobytes()} == {"round"}


def test_empty_rounds_between_others_change_nothing_but_their_number():
    setting = Setting(population(1), Engine(HYPERPARAMETERS["sparse"], cohorts=Cohorts(0.15, "poisson")))
    _, reports = setting.played(KernelTrainer(setting.homes, setting.task), 12)
    assert {report.clients > 0 for report in reports} == {True, False}
    server, losses = setting.expected(12)
    state, _ = setting.played(TorchTrainer(setting.homes, setting.task), 12)
    np.testing.assert_allclose(state.model, setting.task.layout.flat(server.x), rtol=0, atol=1e-5)
    np.testing.assert_allclose([report.loss for report in reports], losses, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("participation", [1.0, 0.1])
def test_a_population_of_one_is_trained(method, participation):
    one = PLANTED.subset(np.array([3]))
    assert one.n_rules
    scores = fitted(method, one, participation=participation).score_pairs(PLANTED, *all_pairs(PLANTED))
    assert np.isfinite(scores).all()


@trainers
def test_homes_without_rules_never_take_part(trainer):
    homes = population(2, n_homes=6)
    homes = homes.with_rules(np.isin(homes.rules.home, [1, 4]))
    for participation in (1.0, 0.5):
        setting = Setting(homes, Engine(HYPERPARAMETERS["sparse"], cohorts=Cohorts(participation)))
        state, reports = setting.played(trainer(homes, setting.task), 4)
        assert set(np.flatnonzero(state.clients.last >= 0)) <= {1, 4}
        assert all(report.clients == round(2 * participation) for report in reports)
        assert not state.clients.own.dense[[0, 2, 3, 5]].any()


@pytest.mark.parametrize("method", METHODS)
def test_without_a_single_rule_all_scores_are_zero_and_it_says_so(method, caplog):
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light")), ToyHome(2, ())])
    with caplog.at_level(logging.WARNING):
        assert not fitted(method, homes).score_pairs(homes, *all_pairs(homes)).any()
    assert f"{method}: toy homes has no rule to learn from; all scores are 0" in caplog.text


# Clients that fail


@trainers
@all_hyperparameters
def test_clients_that_fail_are_counted_and_left_out_and_keep_their_state(trainer, h):
    homes = population(5, n_homes=25, bare=False)
    clean = Setting(homes, Engine(h))
    clients = trainer(homes, clean.task)
    before, _ = clean.played(clients, 1)
    faulty = replace(clean.engine, cohorts=Cohorts(drop_out=0.3, late=0.1, corrupted=0.1))
    after, report = faulty.step(clients, before, seed=3)
    cohort = faulty.cohorts.of(np.arange(25), seed=3, number=1)
    assert (report.dropped, report.late, report.refused) == (cohort.dropped, cohort.late, int(cohort.corrupted.sum()))
    assert min(report.dropped, report.late, report.refused) > 0
    assert report.clients + report.dropped + report.late + report.refused == 25
    good = cohort.present[~cohort.corrupted]
    assert after.clients.last.tolist() == [1 if k in good else 0 for k in range(25)]
    assert finite(after)
    if h.corrects:
        same = [
            whole(before, clean.task.layout, k).tobytes() == whole(after, clean.task.layout, k).tobytes()
            for k in range(25)
        ]
        assert same == [k not in good for k in range(25)]
        same_control = [
            control(before, clean.task.layout, k, h.algorithm).tobytes()
            == control(after, clean.task.layout, k, h.algorithm).tobytes()
            for k in range(25)
            if k not in good
        ]
        assert all(same_control)
    if h.optimizer == "kept-adam":
        moved = (before.clients.second.dense != after.clients.second.dense).any(axis=1)
        assert moved.tolist() == [k in good for k in range(25)]
        assert after.clients.steps.tolist() == [4 if k in good else 2 for k in range(25)]


@trainers
def test_a_round_goes_on_as_if_those_who_failed_had_not_been_there(trainer, caplog):
    homes = population(5, n_homes=12, bare=False)
    faulty = Setting(homes, Engine(HYPERPARAMETERS["sparse"], cohorts=Cohorts(drop_out=0.3, late=0.1, corrupted=0.2)))
    with caplog.at_level(logging.WARNING):
        state, reports = faulty.played(trainer(homes, faulty.task), 3)
    server, _ = faulty.expected(3)  # asks only those that are there and whole
    np.testing.assert_allclose(state.model, faulty.task.layout.flat(server.x), rtol=0, atol=1e-5)
    number, report = next((n, r) for n, r in enumerate(reports, 1) if r.refused)
    assert f"round {number} continues without {report.refused} clients whose updates are NaN or infinite" in caplog.text


SHARES = st.tuples(*[st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0])] * 3).filter(lambda shares: sum(shares) <= 1)


@settings(max_examples=15)
@given(
    populations(),
    st.sampled_from(list(HYPERPARAMETERS)),
    SHARES,
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([0.3, 1e30]),
)
def test_nan_and_infinite_numbers_never_reach_the_model_or_a_client_state(homes, h, shares, participation, rate):
    h = replace(HYPERPARAMETERS[h], theta_rate=rate, phi_rate=rate)
    setting = Setting(homes, Engine(h, cohorts=Cohorts(participation, "uniform", *shares)))
    for trainer in TRAINERS:
        clients = trainer(homes, setting.task)
        state = setting.engine.begin(clients, setting.start)
        for _ in range(3):
            state, report = setting.engine.step(clients, state, seed=3)
            assert finite(state)
            assert report.clients + report.refused + report.dropped + report.late <= homes.n_homes


# Gradients of a million times what float32 can square, and of nearly all that it can hold.
@pytest.mark.parametrize("curvature", [1e25, 3e38])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "kept-adam"])
@pytest.mark.parametrize("measured", ["updates", "gradients"])
def test_numbers_too_large_to_work_with_are_refused_as_well(curvature, optimizer, measured):
    h = Hyperparameters(2, 1e-3, 1e-3, optimizer, "fedrule", theta_lambda=0.01, phi_lambda=0.01, control=measured)
    valleys = Valleys.of([curvature, -curvature, 1], [1, 1, 1])
    engine = Engine(h)
    state = engine.begin(valleys, np.full(LAYOUT.size, 1e-6, dtype=np.float32))
    for _ in range(4):
        state, _ = engine.step(valleys, state, seed=0)
        assert finite(state)


# Divergence


def diverging(
    server: str = "plain", rate: float = 1.0, rounds: int = 40, cohorts: Cohorts | None = None, a: float = 30.0
):
    """A quadratic whose steps grow by 1 - eta a = -2: 30 times the loss in five rounds of one step."""
    engine = Engine(Hyperparameters(1, 0.1, 0.1), ServerOptimizer(server), cohorts or Cohorts())
    valleys, models = Valleys.of([a, a], [1.0, 1.0]), []
    state = engine.begin(valleys, np.zeros(LAYOUT.size, dtype=np.float32))

    def on_round(done, model, report):
        models.append((done, model, report))
        return False

    return train(engine, valleys, ServerSchedule("fedtest", rounds, 1, rate, client_rate=0.1), state, on_round), models


def test_a_rate_that_diverges_stops_with_the_method_and_the_round_and_the_last_good_model(caplog):
    # The loss grows by (1 - 0.1 * 30)^2 = 4 a round; it is 5 * 30 / 2 = 75 first and may be 75e4: 4^7 = 16,384, so that
    # round 8 is the first to find the model before it out of bounds, and the one before that was in them.
    with caplog.at_level(logging.WARNING):
        model, models = diverging()
    assert "fedtest: training diverged in round 8 of 40 (loss 1.229e+06)" in caplog.text
    assert "the model after round 6 is kept. learning_rate 0.1 or server_rate" in caplog.text
    assert model.tobytes() == models[5][1].tobytes()
    assert [done for done, _, _ in models] == list(range(1, 9))
    assert models[-1][1].tobytes() == model.tobytes()


def test_where_nothing_was_learned_divergence_is_an_error():
    # 1 - 0.1 * 3e4: the loss grows by nine million in the first round.
    with pytest.raises(
        DataError, match=r"fedtest: training diverged in round 2 of 40 .* had learned nothing before; learn"
    ):
        diverging(a=3e4)


def test_a_loss_diverges_also_after_an_empty_first_round(caplog):
    # Found by the loss, before it is infinite: nobody is there in the first round of this seed.
    cohorts = Cohorts(0.4, "poisson")
    assert not len(cohorts.of(np.arange(2), seed=1, number=0).present)
    with caplog.at_level(logging.WARNING):
        model, _ = diverging(cohorts=cohorts)
    assert "training diverged" in caplog.text
    assert np.abs(model).max() < 1e4


def test_a_round_in_which_all_were_made_to_fail_is_no_divergence(caplog):
    cohorts = Cohorts(0.5, corrupted=0.3)  # one client a round
    with caplog.at_level(logging.WARNING):
        _, models = diverging(a=1.0, cohorts=cohorts)
    assert len(models) == 40
    assert any(report.refused and not report.clients for _, _, report in models)
    assert "diverged" not in caplog.text


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_diverge_say_so_in_their_own_name(method):
    plain = {"server_optimizer": "plain", "server_rate": 1.0}
    with pytest.raises(
        DataError, match=rf"{method}: training diverged in round \d of 4 .*learning_rate 1e\+20 or server_rate"
    ):
        fitted(method, learning_rate=1e20, **plain)


def test_a_server_that_diverges_is_stopped_and_the_last_good_model_answers(caplog):
    # Updates are small and a step of the server is 100,000 times as long.
    options = {"rounds": 20, "server_optimizer": "momentum", "server_rate": 1e5, "local_steps": 1}
    with caplog.at_level(logging.WARNING):
        model = fitted("fedgnn", learning_rate=0.001, **options)
    assert "fedgnn: training diverged in round" in caplog.text
    assert np.isfinite(model.score_pairs(PLANTED, *all_pairs(PLANTED))).all()


# What would not fit


def test_client_states_that_do_not_fit_are_an_error_before_the_first_round(monkeypatch):
    monkeypatch.setattr(states_module, "free_bytes", lambda: 10_000)
    fitted("fedgnn")
    with pytest.raises(
        DataError, match=r"the states of 30 clients need [\d.e-]+ GB \(\d+ kB each\), 1e-05 GB are free"
    ):
        fitted("fedrule", predictor_lambda=0.5)


# Options that are wrong


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"client_optimizer": "sdg"}, r"unknown value of {method}.client_optimizer 'sdg'; did you mean 'sgd'\?"),
        ({"client_optimizer": "kept_adam"}, r"{method}.client_optimizer 'kept_adam'; did you mean 'kept-adam'\?"),
        ({"server_optimizer": "adm"}, r"unknown value of {method}.server_optimizer 'adm'; did you mean 'adam'\?"),
        ({"sampling": "poison"}, r"unknown value of {method}.sampling 'poison'; did you mean 'poisson'\?"),
        ({"weighting": "client"}, r"unknown value of {method}.weighting 'client'; did you mean 'clients'\?"),
        ({"learning_rate": -0.1}, r"learning_rate must be above 0, got -0\.1"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"predictor_rate": -1.0}, r"predictor_rate must be at least 0, got -1\.0"),
        ({"server_rate": 0.0}, r"server_rate must be above 0, got 0\.0"),
        ({"server_epsilon": 0.0}, r"server epsilon must be positive, got 0\.0"),
        ({"local_steps": 0}, "local_steps must be at least 1, got 0"),
        ({"participation": 0.0}, r"participation must be in \(0, 1\], got 0\.0"),
        ({"participation": 1.5}, r"participation must be in \(0, 1\], got 1\.5"),
        ({"participation": float("nan")}, "participation must be in .* got nan"),
        ({"drop_out": -0.1}, r"drop_out must be in \[0, 1\], got -0\.1"),
        ({"late": 1.1}, r"late must be in \[0, 1\], got 1\.1"),
        (
            {"drop_out": 0.5, "late": 0.3, "corrupted": 0.3},
            r"drop_out 0\.5, late 0\.3 and corrupted 0\.3 add up to more than 1",
        ),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("method", ["fedgnn", "fedrule"])
def test_wrong_options_are_named_with_the_method(method, wrong, message):
    expected = message.replace("{method}", method) if "{method}" in message else f"{method}: {message}"
    with pytest.raises(DataError, match=expected):
        build(method, **wrong)


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        ("fedrule", {"gnn_lambda": -0.5}, r"fedrule: gnn_lambda must be non-negative and finite, got -0\.5"),
        (
            "fedrule",
            {"predictor_lambda": float("nan")},
            "fedrule: predictor_lambda must be non-negative and finite, got nan",
        ),
        ("fedrule", {"control": "gradients"}, "fedrule: control 'gradients' has an effect only with client Adam"),
        (
            "fedrule",
            {"control": "gradients", "client_optimizer": "adam", "gnn_lambda": 0.0, "predictor_lambda": 0.0},
            "fedrule: control 'gradients' has an effect only with client Adam",
        ),
        (
            "fedgnn",
            {"server_optimizer": "plain", "server_epsilon": 0.1},
            "fedgnn: server_epsilon has no effect with server_optimizer plain",
        ),
        ("fedgnn", {"learning_rate": float("inf")}, "fedgnn: learning_rate must be non-negative and finite, got inf"),
        ("fedrule", {"control": "update"}, r"unknown value of fedrule.control 'update'; did you mean 'updates'\?"),
        ("fedprox", {"proximal": 0.0}, r"fedprox: proximal must be above 0, got 0\.0"),
        ("fedgnn", {"sampling": "poisson"}, "fedgnn: sampling 'poisson' has no effect where all homes take part; set"),
        (
            "fedrule",
            {"hidden": 0, "bias": "learned", "gnn_lambda": 0.5},
            "fedrule: predictor_rate and gnn_lambda tell the GNN from the rest, and with hidden 0 there is none",
        ),
        (
            "scaffold",
            {"hidden": 0, "bias": "learned", "predictor_rate": 0.5},
            "with hidden 0 there is none; set learning",
        ),
        (
            "fedrank",
            {"preset": "paper"},
            "fedrank: preset 'paper' is for the paper's methods, e.g. graphrule",
        ),
        ("graphrank", {"preset": "authors-code"}, "graphrank: preset 'authors-code' is for the paper's methods"),
        ("fedgate", {"predictor_rate": 0.2}, r"fedgate: predictor_rate 0\.2 differs from learning_rate 0\.01"),
        ("scaffold", {"control": "gradient"}, r"scaffold.control 'gradient'; did you mean 'gradients'\?"),
    ],
)
def test_wrong_options_of_one_method_are_named(method, wrong, message):
    with pytest.raises(DataError, match=message):
        build(method, **wrong)
