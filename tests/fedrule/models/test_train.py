"""`fedrule.train`: what is kept back stays unseen, training stops in time, and the card says what happened."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import datasets
import fedrule
from baselines import registry
from baselines.contract import ToyHome, planted_homes, toy_homes
from baselines.method import ignore
from benchmarks.evaluation import evaluate
from datasets import DataError
from datasets.homes import Relation
from datasets.splits import split
from datasets.valid import ValidRules

pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.evidence.statistics import Statistics
from fedrule.federated import Checkpoint
from fedrule.methods.graph_method import GraphMethod
from fedrule.methods.graphrule import GraphRule
from fedrule.models.card import Scale
from fedrule.models.restore import counts_of, restored
from fedrule.training.loop import WarmStart

HOMES = datasets.load("wyze-synthetic", homes=200, seed=4)
QUICK = {"rounds": 12, "hidden": 4, "predictor_hidden": 8}
EVIDENCE = {"rounds": 2, "least_steps": 0, "candidates": 20, "homes_per_draw": 40}


@pytest.fixture(scope="module")
def quick():
    return fedrule.train(HOMES, options=QUICK, patience=3, evaluate=evaluate)


def told_rounds(**arguments):
    """The watched losses by round, and the model."""
    losses = []

    def told(done, of, fitted, values):  # noqa: ARG001
        losses.append(values["validation_loss"])

    return losses, fedrule.train(HOMES, on_round=told, **arguments)


def test_the_card_says_what_it_was_trained_on_and_how_well_it_does(quick):
    card, training = quick.card, quick.card.trainings[0]
    assert (card.method, len(card.trainings)) == ("graphrule", 1)
    assert (card.types, card.relations) == (HOMES.types, HOMES.relations)
    assert (training.data, training.fingerprint) == ("wyze-synthetic", HOMES.fingerprint)
    assert (training.homes, training.rules, training.seed) == (HOMES.n_homes, HOMES.n_rules, 0)
    assert {"fedrule", "python", "torch", "numpy"} <= card.versions.keys()
    shown = {"mrr", "hr@1", "hr@5", "hr@10", "mrr, closed", "ndcg@10", "hidden", "homes"}
    assert set(card.metrics["ranking"]) == shown
    assert set(card.metrics["paper"]) == {"loss", "auc", "mr", "mr_rt", "hidden"}


def test_without_an_evaluation_the_model_is_the_same_and_has_no_test_metrics(quick):
    plain = fedrule.train(HOMES, options=QUICK, patience=3)
    assert plain.card.metrics == {}
    assert plain.card.scale == quick.card.scale
    assert {name: array.tobytes() for name, array in plain.arrays.items()} == {
        name: array.tobytes() for name, array in quick.arrays.items()
    }


class Killed(Exception):
    """Stands for a process that is killed."""


@pytest.mark.parametrize("patience", [0, 6])
@pytest.mark.parametrize(
    ("method", "options"), [("fedrule", {"hidden": 4}), ("fedrank", {"candidates": 20, "cohort": 0})]
)
def test_a_killed_training_resumes_from_its_checkpoint_with_the_same_result(method, options, patience, tmp_path):
    options = options | {"rounds": 7, "participation": 0.5}
    homes = HOMES.subset(np.arange(60))
    whole = fedrule.train(homes, method, options=options, patience=patience)
    checkpoint = Checkpoint(tmp_path / "run.npz", every=2)
    rounds = []

    def kill(done, of, fitted, values):  # noqa: ARG001
        rounds.append(done)
        if done == 5:
            raise Killed

    arguments = {"options": options, "patience": patience, "checkpoint": checkpoint}
    with pytest.raises(Killed):
        fedrule.train(homes, method, on_round=kill, **arguments)
    resumed = fedrule.train(homes, method, on_round=lambda *given: rounds.append(given[0]), **arguments)
    assert rounds[:6] == [1, 2, 3, 4, 5, 5]  # rounds 1 to 4 were not trained again
    assert resumed.card.trainings[0].rounds == whole.card.trainings[0].rounds
    assert {name: array.tobytes() for name, array in resumed.arrays.items()} == {
        name: array.tobytes() for name, array in whole.arrays.items()
    }


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    checkpoint, options = Checkpoint(tmp_path / "run.npz", every=1), {"rounds": 1, "hidden": 4}
    first = fedrule.train(HOMES, "fedgnn", options=options, checkpoint=checkpoint)
    with pytest.raises(DataError, match=r"run\.npz: checkpoint of another run"):
        fedrule.train(HOMES, "fedgnn", options=options | {"rounds": 2}, checkpoint=checkpoint)
    others = HOMES.subset(np.arange(HOMES.n_homes - 1))
    with pytest.raises(DataError, match=r"run\.npz: checkpoint of another run"):
        fedrule.train(others, continue_from=first, options={"rounds": 1}, checkpoint=checkpoint)


def test_a_central_method_with_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(DataError, match="graphrule cannot resume from checkpoints; only federated methods can"):
        fedrule.train(HOMES, options=QUICK, checkpoint=Checkpoint(tmp_path / "run.npz"))


def test_the_metrics_are_those_of_the_benchmark_on_the_rules_kept_for_the_test(quick):
    parts = split(HOMES, "holdout", seed=0, fraction=0.2, validation=True)
    expected = evaluate(restored(quick), parts, "ranking").summary
    assert quick.card.metrics["ranking"]["mrr"] == expected["mrr"]
    assert quick.card.metrics["ranking"]["hidden"] == len(parts.test)


def test_rules_kept_for_the_test_or_to_watch_are_in_no_count():
    model = fedrule.train(HOMES, "graphrank", options=EVIDENCE)
    parts = split(HOMES, "holdout", seed=0, fraction=0.2, validation=True)
    expected = Statistics.of(parts.train, ValidRules.of(parts.train))
    found = counts_of(model)
    assert found.with_rule.sum() < Statistics.of(HOMES, ValidRules.of(HOMES)).with_rule.sum()
    assert found.valid.cell.tolist() == expected.valid.cell.tolist()
    assert [have.tolist() for have in found.have] == [have.tolist() for have in expected.have]


def test_a_model_does_not_depend_on_the_rules_kept_for_the_test():
    # The same homes without the rules kept for the test, split so that the same rules are watched, give the same model.
    parts = split(HOMES, "holdout", seed=0, fraction=0.2, validation=True)
    method = GraphRule(**QUICK, validation=0.2, patience=3)
    alone = method.fit(
        parts.train, rng=np.random.default_rng([0, 2]), warm_start=WarmStart(validation=parts.validation)
    )
    model = fedrule.train(HOMES, options=QUICK, patience=3)
    for name, value in alone.parameters.items():
        assert value.float().numpy().tobytes() == model.weights[name].tobytes()


def test_the_same_seed_gives_the_same_numbers_and_another_one_others(quick):
    again, other = (fedrule.train(HOMES, options=QUICK, patience=3, seed=seed, evaluate=evaluate) for seed in (0, 1))
    assert all(array.tobytes() == again.arrays[name].tobytes() for name, array in quick.arrays.items())
    assert quick.weights["phi.relation"].tobytes() != other.weights["phi.relation"].tobytes()


@pytest.mark.parametrize(
    ("method", "options"),
    [("graphrule", {"learning_rate": 0.3, "rounds": 60}), ("fedrule", {"server_rate": 0.3, "rounds": 60})],
)
def test_it_stops_when_the_validation_loss_has_not_become_better_and_goes_back_to_the_best(method, options):
    losses, model = told_rounds(method=method, options={"hidden": 4, "predictor_hidden": 8, **options}, patience=4)
    best = int(np.argmin(losses)) + 1
    assert len(losses) == best + 4 < 60
    assert model.card.trainings[0].rounds == best


def test_without_patience_it_trains_all_rounds_and_keeps_the_last():
    losses, model = told_rounds(options={**QUICK, "rounds": 6}, patience=0)
    assert (len(losses), model.card.trainings[0].rounds) == (6, 6)
    assert model.card.scale.slope != 1  # nobody stopped it, so that its scores are turned into log-odds


def test_a_rate_that_falls_to_zero_is_never_stopped_and_the_best_round_is_kept():
    losses, model = told_rounds(method="graphrank", options={**EVIDENCE, "rounds": 5})
    assert len(losses) == 5
    assert model.card.trainings[0].rounds == int(np.argmin(losses)) + 1
    assert model.card.scale.slope != 1  # a ranking's scores are no log-odds


def test_homes_too_small_to_hold_anything_out_still_make_a_model(caplog):
    rule = ("ContactSensor", 0, "Light")
    homes = toy_homes([ToyHome(user, ("ContactSensor", "Light"), (rule,)) for user in range(5)])
    with caplog.at_level(logging.WARNING):
        model = fedrule.train(homes, options={"rounds": 3})
    assert "too few rules to hold any out for the test; the model has no test metrics" in caplog.text
    assert "for validation; all rounds are trained" in caplog.text
    assert (model.card.metrics, model.card.trainings[0].rounds) == ({}, 3)
    assert len(model.valid) == 1


def test_homes_without_a_rule_are_refused():
    homes = toy_homes([ToyHome(1, ("Light",))])
    with pytest.raises(DataError, match="toy homes: no rules to learn from"):
        fedrule.train(homes)


def test_rules_of_few_homes_are_not_in_the_model():
    model = fedrule.train(HOMES, options=QUICK, patience=3, min_homes=3)
    homes_of: dict[tuple[str, Relation, str], set[int]] = {}
    for number, home in enumerate(HOMES):
        for rule in home.rules:
            homes_of.setdefault((rule.trigger.type, rule.relation, rule.action.type), set()).add(number)
    common = {typed for typed, homes in homes_of.items() if len(homes) >= 3}
    types, relations = model.card.types, model.card.relations
    cells = zip(*(part.tolist() for part in model.valid.typed()), strict=True)
    known = {(types[trigger], relations[relation], types[action]) for trigger, action, relation in cells}
    assert known
    assert known <= common < homes_of.keys()
    assert set(relations) == {relation for _, relation, _ in common}


def test_devices_of_one_type_are_merged_on_demand():
    model = fedrule.train(HOMES, options=QUICK, patience=3, merge_types=True)
    training = model.card.trainings[0]
    assert training.rules == HOMES.merged_types().n_rules < HOMES.n_rules
    assert training.fingerprint == HOMES.fingerprint  # of the homes as they were given


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "mf"}, "is not a graph method"),
        ({"method": "graphfeatures"}, "is not a graph method"),
        ({"method": "graphrul"}, "did you mean 'graphrule'"),
        ({"options": {"hiden": 3}}, "did you mean 'hidden'"),
        ({"options": {"rounds": "many"}}, "rounds"),
        ({"options": {"validation": 0.1}}, "use `test` and `patience`"),
        ({"test": 0.0}, r"test must be in \(0, 1\), e.g. 0.2, got 0.0"),
        ({"test": 1.0}, r"test must be in \(0, 1\), e.g. 0.2, got 1.0"),
        ({"patience": -1}, "patience"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments_are_refused(arguments, says):
    with pytest.raises(DataError, match=says):
        fedrule.train(planted_homes(), **arguments)


@pytest.fixture
def own_methods(own_registry):  # noqa: ARG001
    return registry.register


@dataclass(frozen=True)
class Backwards(GraphMethod):
    """Somebody's own graph method, neither centralized nor federated as ours: it scores the wrong way round."""

    NAME: ClassVar[str] = "backwards"

    def fit(self, train, *, rng, on_round=ignore, warm_start=None):
        learned = GraphRule(rounds=30, hidden=self.hidden).fit(
            train, rng=rng, warm_start=WarmStart(counts=warm_start.counts)
        )
        turned = {
            name: -value if name.startswith("phi.relation") else value for name, value in learned.parameters.items()
        }
        fitted = self.prepare(train, rng, warm_start=warm_start).model(turned)
        on_round(1, 1, fitted, {"loss": 0.0})
        return fitted


def test_any_graph_method_whose_fit_takes_a_start_is_trained(own_methods):
    own_methods("backwards")(Backwards)
    model = fedrule.train(HOMES, "backwards", patience=0, evaluate=evaluate)
    assert (model.card.method, model.card.trainings[0].rounds) == ("backwards", 1)
    again = fedrule.train(HOMES.subset(np.arange(HOMES.n_homes - 1)), continue_from=model, patience=0)
    assert len(again.card.trainings) == 2


def test_probabilities_never_rise_down_the_list(own_methods):
    own_methods("backwards")(Backwards)
    model = fedrule.train(HOMES, "backwards", patience=0, evaluate=evaluate)
    assert model.card.metrics["paper"]["auc"] < 0.5
    assert model.card.scale == Scale(0.0, 0.0)  # a slope below 0 would fit best
    assert model.card.metrics["paper"]["loss"] == pytest.approx(np.log(2))  # all are as likely as not


def test_a_graph_method_whose_fit_takes_no_start_is_refused_with_what_it_needs(own_methods):
    @own_methods("closed")
    @dataclass(frozen=True)
    class Closed(GraphMethod):
        NAME: ClassVar[str] = "closed"

        def fit(self, train, *, rng, on_round=ignore):  # noqa: ARG002
            raise AssertionError("not to be called")

    with pytest.raises(DataError, match="closed: Closed needs a `fit` that takes `warm_start`"):
        fedrule.train(HOMES, "closed")


def test_a_start_with_rules_of_other_homes_is_refused():
    parts = split(HOMES, "holdout", validation=True)
    other = replace(parts.train, users=parts.train.users + 1)
    with pytest.raises(DataError, match="the validation rules are not hidden from these homes"):
        GraphRule(rounds=1).fit(other, rng=np.random.default_rng(0), warm_start=WarmStart(validation=parts.validation))


def test_importing_the_package_loads_no_torch():
    code = "import sys, fedrule; assert 'torch' not in sys.modules; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="trian"):
        _ = fedrule.trian
