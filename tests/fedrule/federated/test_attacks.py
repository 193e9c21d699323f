"""Homes that attack: who they are, what they send, what they train on, and where the rule that they promote ends up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.contract import ToyHome, planted_homes, toy_homes
from baselines.registry import build
from datasets.common.errors import DataError
from datasets.homes import Rules
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.client import ClientKey, draw_batch
from fedrule.federated.robustness.attacks import Attackers, AttackOptions, TypedRule, promoted_rule, rule_names
from fedrule.federated.rounds import Engine
from fedrule.federated.trainers.evidence import EvidenceTrainer
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.flower.method import federated_method, method_text
from tests.fedrule.federated.test_evidence_trainer import task_of
from tests.support.small_populations import Setting, population

PLANTED = planted_homes()
OPEN = "ContactSensor: Open -> Light: Power On"
MOTION = "MotionSensor: Motion -> Light: Power On"
SHORT = {"rounds": 3, "hidden": 4, "predictor_hidden": 5}


def attackers(
    attack: str, *, n: int = 9, who=(2,), scale: float = 10.0, promoted: TypedRule | None = None
) -> Attackers:
    return Attackers(attack, scale, 5, np.isin(np.arange(n), who), promoted)


# Who attacks


@given(st.integers(0, 2**62 - 1), st.sampled_from([0.05, 0.1, 0.2, 0.5, 1.0]))
def test_the_same_homes_attack_for_the_same_seed_and_all_of_them_have_rules(seed, share):
    homes = population(3, n_homes=40)
    options = AttackOptions("sign-flip", share, 10.0)
    found = options.begin(homes, seed).attacks
    assert found.tolist() == options.begin(homes, seed).attacks.tolist()
    with_rules = np.unique(homes.rules.home)
    assert found.sum() == round(share * len(with_rules))
    assert np.isin(np.flatnonzero(found), with_rules).all()


def test_more_attackers_of_a_seed_are_those_of_fewer_and_others():
    homes = population(3, n_homes=40, bare=False)
    few, many = (AttackOptions("noise", share, 10.0).begin(homes, 1).attacks for share in (0.1, 0.4))
    assert (many >= few).all()
    assert (few.sum(), many.sum()) == (4, 16)


# What they send


def test_attackers_send_what_the_definition_says_and_others_what_they_learned():
    update = np.array([3.0, -4.0])  # of length 5
    assert attackers("sign-flip").sent(update, 0, 2).tolist() == [-30, 40]
    assert attackers("scale").sent(update, 0, 2).tolist() == [30, -40]
    assert attackers("promote").sent(update, 0, 2).tolist() == [30, -40]
    assert attackers("label-flip").sent(update, 0, 2).tolist() == [3, -4]
    noise = attackers("noise")
    assert np.linalg.norm(noise.sent(update, 0, 2)) == pytest.approx(50)
    assert noise.sent(update, 0, 2).tolist() == noise.sent(update, 0, 2).tolist()
    assert noise.sent(update, 1, 2).tolist() != noise.sent(update, 0, 2).tolist()
    for attack in ("sign-flip", "scale", "noise", "label-flip", "promote"):
        assert attackers(attack).sent(update, 0, 1).tolist() == [3, -4]


@pytest.mark.parametrize("h", [Hyperparameters(), Hyperparameters(algorithm="fedrule")], ids=["fedavg", "fedrule"])
def test_the_mean_with_one_attacker_is_that_of_the_others_and_its_multiple(h):
    setting = Setting(population(4, n_homes=6, bare=False), Engine(h))
    engine, clients = setting.engine, KernelTrainer(setting.homes, setting.task)
    state, _ = setting.played(clients, 2)  # so that fedrule has corrections

    def sent(who) -> np.ndarray:
        """The sum of the updates of some clients, with the base of the rows."""
        trained = engine.train_clients(clients, state.clients.copy(), state.broadcast(), np.array(who))
        base = np.zeros(setting.task.layout.size)
        n_dense = setting.task.layout.n_dense
        for weight, shared in zip(trained.sums.base_weight, state.shared, strict=False):
            base[n_dense:] += weight * h.steps * h.phi_rate * shared[n_dense:]
        return trained.sums.update + base

    attacked = replace(engine, attackers=attackers("sign-flip", n=6, who=(2,)))
    after, _ = attacked.step(clients, state, seed=3)
    # Five honest ones, and -10 times what client 2 learned.
    expected = (sent([0, 1, 3, 4, 5]) - 10 * sent([2])) / 6
    np.testing.assert_allclose(state.model - after.model, expected, rtol=0, atol=2e-5)


def test_an_attack_that_is_too_large_to_be_sent_is_refused():
    setting = Setting(population(4, n_homes=6, bare=False), Engine(Hyperparameters()))
    engine = replace(setting.engine, attackers=attackers("scale", n=6, who=(2,), scale=1e200))
    _, reports = setting.played(KernelTrainer(setting.homes, setting.task), 1, engine)
    assert (reports[0].clients, reports[0].refused) == (5, 1)


def test_nodes_of_a_deployment_refuse_attacks():
    setting = Setting(population(4), Engine(Hyperparameters(), name="fedgnn", attackers=attackers("scale", n=5)))
    clients = KernelTrainer(setting.homes, setting.task)
    state = setting.engine.begin(clients, setting.start)
    with pytest.raises(DataError, match="fedgnn: attack scale needs the updates of all homes one by one"):
        setting.engine.train_clients(clients, state.clients, state.broadcast(), np.array([0]))


# What they train on


def test_label_flip_swaps_rules_and_non_rules_of_attackers_in_every_trainer():
    setting = Setting(population(4, n_homes=6, bare=False), Engine(Hyperparameters()))
    flips = replace(setting.task, flipped=np.array([1, 4]))
    everybody = np.arange(6)
    honest, flipped = (
        KernelTrainer(setting.homes, t).begin(0, everybody, setting.start) for t in (setting.task, flips)
    )
    client = np.repeat(everybody, np.diff(honest.homes.triple_start))
    expected = np.where(np.isin(client, [1, 4]), 1 - honest.homes.positive, honest.homes.positive)
    assert flipped.homes.positive.tolist() == expected.tolist()
    some = KernelTrainer(setting.homes, flips).begin(0, np.array([1, 2]), setting.start)
    assert some.homes.positive.tolist() == expected[np.isin(client, [1, 2])].tolist()
    for k in everybody.tolist():
        batch = draw_batch(flips, setting.start, setting.homes.subset([k]), ClientKey(0, k))
        assert batch.positive.tolist() == (expected[client == k] == 1).tolist()


def test_label_flip_swaps_rules_and_non_rules_of_attackers_of_fedrank():
    homes = population(7, n_homes=8, bare=False)
    task = task_of(homes, Hyperparameters(), dropout=0.0)
    model = np.zeros(task.layout.size, dtype=np.float32)
    honest, flipped = (
        EvidenceTrainer(homes, t).begin(0, np.arange(8), model).batches
        for t in (task, replace(task, flipped=np.array([3])))
    )
    first, n = honest.begin[3], honest.counts[3]
    changed = honest.positive != flipped.positive
    assert n > 0
    assert np.flatnonzero(changed).tolist() == list(range(first, first + n))


def test_promoters_have_the_rule_between_all_devices_of_its_types_and_other_homes_stay_as_they_are():
    homes = toy_homes(
        [
            ToyHome(1, ("ContactSensor", "Light", "Light"), (("ContactSensor", 0, "Light"),)),
            ToyHome(2, ("ContactSensor", "Light"), (("ContactSensor", 0, "Light"),)),
            ToyHome(3, ("Light",)),
        ]
    )
    rule = TypedRule(homes.types.index("ContactSensor"), homes.types.index("Light"), 1)
    everywhere = attackers("promote", n=3, who=(0, 2), promoted=rule).poisoned(homes)
    # Home 0: devices 0 to 2, its rule and the promoted one with both lights. Home 2 has no contact sensor.
    rules = everywhere.rules
    columns = np.stack([rules.home, rules.trigger, rules.action, rules.relation])
    assert sorted(map(tuple, columns.T.tolist())) == [(0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 2, 1), (1, 3, 4, 0)]
    again = attackers("promote", n=3, who=(0, 2), promoted=rule).poisoned(everywhere)
    assert again.n_rules == 4


def test_the_promoted_rule_is_an_automation_of_its_own():
    homes = toy_homes([ToyHome(1, ("ContactSensor", "Light"), (("ContactSensor", 0, "Light"),))])
    rules = homes.rules
    grouped = replace(homes, rules=Rules(rules.home, rules.trigger, rules.action, rules.relation, np.array([7])))
    rule = TypedRule(homes.types.index("ContactSensor"), homes.types.index("Light"), 1)
    assert attackers("promote", n=1, who=(0,), promoted=rule).poisoned(grouped).rules.group.tolist() == [7, 8]


def test_an_attacker_adds_at_most_one_to_every_count():
    valid = ValidRules.of(PLANTED)
    rule = promoted_rule(PLANTED, MOTION)
    chosen = attackers("promote", n=PLANTED.n_homes, who=(5,), promoted=rule)
    before, after = (Statistics.of(homes.subset([5]), valid) for homes in (PLANTED, chosen.poisoned(PLANTED)))
    assert max(int(have.max()) for have in after.have) == 1
    assert int(after.together.max()) == 1
    assert after.n_homes == before.n_homes == 1


# The promoted rule


def test_the_automatic_choice_is_rare_and_many_homes_could_have_it():
    # All homes have a motion sensor; No Motion -> Power Off with a plug is the rarest of the three rules.
    valid = ValidRules.of(PLANTED)
    rule = promoted_rule(PLANTED, "auto")
    names = rule_names(PLANTED, valid)
    number = int(valid.number(rule.trigger_type, rule.action_type, rule.relation))
    assert names[number] == "MotionSensor: No Motion -> Plug: Power Off"
    assert promoted_rule(PLANTED, OPEN) == promoted_rule(PLANTED, OPEN)
    with pytest.raises(
        DataError, match=r"unknown promoted rule 'ContactSensor: Open -> Light: Power Off'; did you mean"
    ):
        promoted_rule(PLANTED, "ContactSensor: Open -> Light: Power Off")


def test_the_rank_is_measured_in_honest_homes_that_could_have_the_rule_and_lack_it():
    homes = toy_homes(
        [
            ToyHome(1, ("ContactSensor", "Light", "MotionSensor"), (("MotionSensor", 1, "Light"),)),
            ToyHome(2, ("ContactSensor", "Light"), (("ContactSensor", 0, "Light"),)),  # has it
            ToyHome(3, ("ContactSensor", "Light")),
            ToyHome(4, ("Light", "MotionSensor")),  # could not have it
            ToyHome(5, ("ContactSensor", "Light")),  # an attacker
        ]
    )
    who = attackers("promote", n=5, who=(4,), promoted=promoted_rule(homes, OPEN))
    assert who.measured_homes(homes).tolist() == [0, 2]
    assert replace(who, promoted=None).measured_homes(homes).tolist() == []


# As options of methods


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({}, 0.0),
        ({"promoted": "auto"}, 0.0),
        ({"attack": "label-flip", "attackers": 0.1}, 1.0),  # the update as it was learned
        ({"attack": "scale", "attackers": 0.1}, 10.0),
        ({"attack": "noise", "attackers": 0.1, "attack_scale": 3.0}, 3.0),
    ],
)
def test_settings_show_the_scale_of_what_attackers_send_and_zero_without_any(options, scale):
    assert build("fedgnn", **options).attack_scale == scale


def history(method: str, **options) -> list[dict[str, float]]:
    rounds: list[dict[str, float]] = []
    model = build(method, **options)
    model.fit(PLANTED, rng=np.random.default_rng(1), on_round=lambda _done, _of, _model, values: rounds.append(values))
    return rounds


def test_measuring_the_rank_changes_nothing_else():
    plain, measured = history("fedgnn", **SHORT), history("fedgnn", **SHORT, promoted="auto")
    assert [v["loss"] for v in plain] == [v["loss"] for v in measured]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attack": "signflip", "attackers": 0.1},
            r"unknown value of fedgnn.attack 'signflip'; did you mean 'sign-flip'\?",
        ),
        ({"attack": "scale"}, "fedgnn: attack scale with attackers 0 has no effect; give both or neither"),
        ({"attackers": 0.1}, r"fedgnn: attack none with attackers 0\.1 has no effect; give both or neither"),
        ({"attack": "scale", "attackers": 1.5}, r"fedgnn: attackers must be in \[0, 1\], got 1\.5"),
        ({"attack": "scale", "attackers": 0.1, "attack_scale": 0.0}, "attack_scale must be positive and finite, got 0"),
        ({"attack_scale": 3.0}, "attack_scale has no effect with attack none"),
        (
            {"attack": "label-flip", "attackers": 0.1, "attack_scale": 3.0},
            "attack_scale has no effect with attack label",
        ),
        (
            {"attack": "promote", "attackers": 0.1, "promoted": ""},
            "attack promote needs the rule to promote; set promoted",
        ),
        ({"aggregation": "median", "weighting": "rules"}, "fedgnn: aggregation median counts every client once"),
        ({"trim": 0.1}, "fedgnn: trim has no effect with aggregation mean; use trimmed-mean"),
    ],
)
def test_wrong_options_are_named_with_the_method(options, message):
    with pytest.raises(DataError, match=message):
        build("fedgnn", **options)


def test_attacks_beside_a_second_vector_are_refused():
    options = {"client_optimizer": "adam", "attack": "scale", "attackers": 0.1}
    with pytest.raises(DataError, match="fedrule: attack scale changes one vector, and with control gradients two"):
        build("fedrule", **options)


def test_fedrank_weights_homes_by_roots_under_the_mean_and_equally_under_other_aggregations():
    assert build("fedrank").weighting == "roots"
    assert build("fedrank", aggregation="krum").weighting == "clients"
    with pytest.raises(DataError, match="fedrank: aggregation krum counts every client once"):
        build("fedrank", aggregation="krum", weighting="roots")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attack": "scale", "attackers": 0.1},
            "fedgnn: attack is for the simulation, where some homes are made attack",
        ),
        ({"attack": "scale"}, "fedgnn: attack is for the simulation"),
        ({"promoted": "auto"}, "fedgnn: promoted is for the simulation.* leave it out"),
        ({"norm_bound": 1.0}, "fedgnn: norm_bound needs single updates, and nodes send sums"),
        ({"aggregation": "krum"}, "fedgnn: aggregation krum needs single updates, and nodes send sums"),
    ],
)
def test_a_deployment_refuses_what_can_only_be_simulated(options, message):
    federated_method(method_text("fedgnn", {"drop_out": 0.1}))  # a trial has simulated faults, too
    with pytest.raises(DataError, match=message):
        federated_method(method_text("fedgnn", options))
