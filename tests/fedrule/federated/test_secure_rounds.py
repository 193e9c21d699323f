"""Rounds by secure sums: the simulation's bits, with drop-outs, aborts, noise in shares and bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from datasets.common.errors import DataError
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import ServerOptimizer
from fedrule.federated.private import Privacy
from fedrule.federated.robustness.aggregation import Aggregation
from fedrule.federated.rounds import Engine
from fedrule.federated.trainers.kernel import KernelTrainer
from tests.support.small_populations import Setting, population

ENGINES = {
    "fedavg": Engine(Hyperparameters(), ServerOptimizer("adam"), weighting="roots"),
    "drop-outs": Engine(Hyperparameters(), cohorts=Cohorts(drop_out=0.15, late=0.1, corrupted=0.2)),
    "fedrule": Engine(Hyperparameters(algorithm="fedrule"), cohorts=Cohorts(0.6)),
    "gradients": Engine(Hyperparameters(algorithm="fedrule", optimizer="adam", control="gradients")),
}


def played(engine: Engine, rounds: int = 3, n_homes: int = 12):
    setting = Setting(population(5, n_homes=n_homes, bare=False), engine)
    return setting.played(KernelTrainer(setting.homes, setting.task), rounds)


@pytest.mark.parametrize("name", ENGINES)
def test_a_model_trained_by_secure_sums_is_that_of_plain_sums_bit_for_bit(name):
    plain, plain_reports = played(ENGINES[name])
    secure, reports = played(replace(ENGINES[name], secure_threshold=0.51))
    assert secure.model.tobytes() == plain.model.tobytes()
    assert secure.shared.tobytes() == plain.shared.tobytes()
    assert secure.clients.last.tolist() == plain.clients.last.tolist()
    assert secure.clients.own.rows.tobytes() == plain.clients.own.rows.tobytes()
    for one, other in zip(reports, plain_reports, strict=True):
        same = ("loss", "clients", "dropped", "late", "refused", "corrupted", "state_bytes")
        assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]


def test_homes_send_whole_vectors_and_what_secures_them():
    _, (plain, *_) = played(ENGINES["fedavg"])
    state, (report, *_) = played(replace(ENGINES["fedavg"], secure_threshold=0.51))
    # 8 bytes for each number of the model and for weight, loss and 4 counts; keys and shares come on top.
    assert report.sent_bytes > 8 * (len(state.model) + 6) > plain.sent_bytes
    assert report.received_bytes > plain.received_bytes == 4 * len(state.model)


def test_a_round_with_too_few_homes_left_is_given_up_and_changes_nothing(caplog):
    # Half of twelve homes drop out in the mean; a threshold of 1 needs all of them.
    engine = Engine(Hyperparameters(algorithm="fedrule"), cohorts=Cohorts(drop_out=0.5), secure_threshold=1.0)
    state, reports = played(engine, rounds=2)
    assert [report.clients for report in reports] == [0, 0]
    assert state.model.tobytes() == Setting(population(5, n_homes=12, bare=False), engine).start.tobytes()
    assert state.clients.last.tolist() == [-1] * 12
    assert not state.clients.own.dense.any()
    assert "the threshold is 12" in caplog.text
    assert "the model stays" in caplog.text


@pytest.mark.parametrize("private", [False, True])
def test_a_cohort_of_two_is_too_small_for_a_secure_sum_and_changes_nothing(private, caplog):
    # Poisson sampling of a cohort of 0.2 in the mean draws three or more of twelve homes in one of 800 rounds, and with
    # this seed never: 12 * 11 * 10 / 6 * (0.2 / 12)^3 = 0.001.
    privacy = Privacy(clip=0.1, noise_multiplier=1.0, rounds=2) if private else Privacy()
    cohorts = Cohorts(0.2 / 12, sampling="poisson") if private else Cohorts(size=2)
    engine = Engine(Hyperparameters(), ServerOptimizer("adam"), cohorts, secure_threshold=0.6, privacy=privacy)
    state, reports = played(engine, rounds=2)
    start = Setting(population(5, n_homes=12, bare=False), engine).start
    assert state.model.tobytes() == start.tobytes()
    assert [report.clients for report in reports] == [0, 0]
    assert caplog.text.count("homes are too few for a secure sum") == 2
    assert [report.private for report in reports] == [private] * 2


def test_noise_in_shares_is_that_of_the_server_or_more():
    # Of 12 homes, threshold floor(0.51 * 12) + 1 = 7: each adds variance s^2 / 7, all 12 together 12 / 7 s^2, where the
    # server would add s^2. With updates clipped to nearly nothing the model moves by noise alone; its numbers estimate
    # a ratio of standard deviations of sqrt(12 / 7) = 1.31 with an error of 1 / sqrt(2 * 149) = 6 %.
    private = Privacy(clip=1e-6, noise_multiplier=1.0, rounds=1)
    engine = Engine(Hyperparameters(), privacy=private)
    start = Setting(population(5, n_homes=12, bare=False), engine).start
    by_server, by_homes = (
        np.std((played(each, rounds=1)[0].model - start).astype(float))
        for each in (engine, replace(engine, secure_threshold=0.51))
    )
    assert 1.0 < by_homes / by_server < 1.31 * 1.25
    again = played(replace(engine, secure_threshold=0.51), rounds=1)[0]
    assert again.model.tobytes() == played(replace(engine, secure_threshold=0.51), rounds=1)[0].model.tobytes()


def test_thresholds_that_protect_nobody_and_servers_that_need_single_updates_are_refused():
    for threshold in (0.5, 0.2, 1.2, -1.0):
        with pytest.raises(DataError, match=r"secure_threshold must be above 0\.5"):
            Engine(Hyperparameters(), secure_threshold=threshold)
    with pytest.raises(DataError, match="aggregation median needs single updates, which a secure sum hides"):
        Engine(Hyperparameters(), secure_threshold=0.67, aggregation=Aggregation("median"))
