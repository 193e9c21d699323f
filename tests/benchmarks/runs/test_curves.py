"""Curves: the model as it stands after a round, measured on train, validation and test."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import benchmarks.runs.run
import datasets
from baselines.calibration import calibrate
from baselines.registry import build, register
from baselines.scoring import Examples
from benchmarks.evaluation import evaluate
from benchmarks.results.curves import CURVES, METRICS
from benchmarks.results.store import load_results
from benchmarks.runs import history as module
from benchmarks.runs.experiment import make_experiment, make_source
from benchmarks.runs.history import PARTS, Curves, HistoryRecorder, sample_homes
from benchmarks.runs.suite import read_suite
from datasets import DataError, Homes, Rules
from datasets.splits import SPLITS, Hidden, Split, split
from tests.support.single_run import run
from tests.support.toy_methods import ByRelation
from tests.support.toys import toys

assert toys  # a fixture

DATA = {"data": "wyze-synthetic", "data_options": {"homes": 80}}
EVERY = {"every": 4, "seed": 3, "log_odds": True}


@dataclass(frozen=True)
class Steps:
    """A model that is another one each round, and may stop early or not tell its rounds at all."""

    rounds: int = 10
    stops: int = 10
    tells: bool = True
    infinite: int = 0  # a round whose scores are beyond measure
    log_odds: bool = True

    def fit(self, train, *, rng, on_round):
        score = rng.normal(size=(self.rounds, len(train.relations)))
        for done in range(1, self.stops + 1) if self.tells else ():
            now = np.full(len(train.relations), np.inf) if done == self.infinite else score[done - 1]
            on_round(done, self.rounds, ByRelation(now), {"loss": float(done), "validation_loss": -1.0})
        return ByRelation(score[self.stops - 1])


@pytest.fixture
def steps(own_registry):  # noqa: ARG001
    register("toy-steps")(Steps)


@pytest.fixture(scope="module")
def homes():
    return datasets.load("wyze-synthetic", homes=80).merged_types()


def scores(homes, seed=0):
    return ByRelation(np.random.default_rng(seed).normal(size=len(homes.relations)))


def measured(result):
    """The rounds that have curves."""
    return [row for row in result.history if CURVES & row.keys()]


def seen(row):
    """A round without its seconds."""
    return {name: value for name, value in row.items() if name != "seconds"}


@pytest.mark.parametrize("how", sorted(SPLITS))
def test_a_curve_is_what_evaluate_says_on_the_same_part(homes, how):
    parts = split(homes, how, seed=1, validation=True)
    found = Curves.of(parts, **EVERY).measure(scores(homes))
    assert found.keys() == CURVES
    for part in PARTS:
        expected = evaluate(scores(homes), parts, "paper", part=part, seed=3).summary
        assert {metric: found[f"{part}_{metric}"] for metric in METRICS} == {m: expected[m] for m in METRICS}


def lamp_and_switch() -> Split:
    """A home with a switch (0) and a lamp (1): it has relations 0 and 1, validation hides 2 and test hides 3."""
    rule = np.array([0])
    home = Homes(
        name="a home",
        types=("Switch", "Lamp"),
        relations=tuple(("On", name) for name in "abcde"),
        users=np.array([7]),
        device_home=np.array([0, 0]),
        device_type=np.array([0, 1]),
        device_ids=np.array([1, 2]),
        rules=Rules(np.array([0, 0]), np.array([0, 0]), np.array([1, 1]), np.array([0, 1])),
    )
    both = replace(home, rules=Rules(np.zeros(3, int), np.zeros(3, int), np.ones(3, int), np.arange(3)))
    validation = Hidden(home, Rules(rule, rule, rule + 1, rule + 2))
    test = Hidden(both, Rules(rule, rule, rule + 1, rule + 3))
    return Split("by hand", 0, {"validation": True}, home, validation, test, both, unseen_homes=False)


def test_training_rules_are_ranked_among_all_relations_of_their_pair_although_they_are_known():
    # Scores of the five relations: 1, 4, 3, 2, 5. The training rules 0 and 1 are 5th and 2nd: mean 3.5. Validation
    # asks for relation 2, which is 3rd, and test for relation 3, which is 4th.
    fitted = ByRelation(np.array([1.0, 4.0, 3.0, 2.0, 5.0]))
    found = Curves.of(lamp_and_switch(), **EVERY).measure(fitted)
    assert (found["train_mr"], found["validation_mr"], found["test_mr"]) == (3.5, 3.0, 4.0)
    # Non-rules of train: one apart, lamp -> switch, with any relation; one on the pair, which leaves relation 4 only.
    examples = Examples.of(lamp_and_switch(), part="train", seed=3)
    negative = examples.rules.take(examples.kind == 1)
    on_pair = negative.trigger == 0
    assert negative.relation[on_pair].tolist() == [4]
    (apart,) = fitted.score[negative.relation[~on_pair]]
    by_hand = [math.log1p(math.exp(-1)), math.log1p(math.exp(-4)), math.log1p(math.exp(5)), math.log1p(math.exp(apart))]
    assert found["train_loss"] == pytest.approx(sum(by_hand) / 4)
    above = [(own > other) + (own == other) / 2 for own in (1, 4) for other in (5, apart)]
    assert found["train_auc"] == pytest.approx(sum(above) / 4)


def test_what_is_left_when_known_rules_are_removed_has_no_meaning_for_known_rules(homes):
    parts = split(homes, "holdout", seed=1, validation=True)
    found = evaluate(scores(homes), parts, "paper", part="train")
    assert math.isnan(found.summary["mr_rt"])
    assert found.rules["rank_rt"].isna().all()
    assert found.summary["hidden"] == parts.train.n_rules
    with pytest.raises(DataError, match="unknown part of a split 'train'"):
        evaluate(scores(homes), parts, "ranking", part="train")


def test_the_first_every_so_many_and_the_last_round_are_measured(homes):
    curves = Curves.of(split(homes, "holdout", validation=True), **EVERY)
    assert [done for done in range(1, 11) if curves.due(done, 10)] == [1, 4, 8, 10]


@pytest.mark.usefixtures("steps")
def test_the_history_holds_every_round_and_the_curves_where_they_are_due(tmp_path, homes):
    (result,) = run("toy-steps", **DATA, seed=3, curves=4, protocols=["paper"], store=tmp_path, isolate=False)
    assert [row["round"] for row in result.history] == list(range(1, 11))
    assert [row["round"] for row in measured(result)] == [1, 4, 8, 10]
    assert [row["loss"] for row in result.history] == list(range(1, 11))
    # What a method calls by the name of a curve is its own affair.
    assert {row["own_validation_loss"] for row in result.history} == {-1.0}
    parts = split(homes, "holdout", seed=3, validation=True)
    drawn = np.random.default_rng([3, 2]).normal(size=(10, len(homes.relations)))
    for row in measured(result):
        fitted = ByRelation(drawn[int(row["round"]) - 1])
        assert row["validation_auc"] == evaluate(fitted, parts, "paper", part="validation", seed=3).summary["auc"]
    # All homes are asked about, so the last round of test is the number reported.
    assert result.history[-1]["test_loss"] == pytest.approx(result.summary["loss"])
    assert result.seconds.keys() >= {"fit", "curves", "evaluate"}
    assert (
        result.counts["train rules"] + result.counts["validation rules"] + result.counts["hidden rules"]
        == (result.counts["rules"])
    )


@pytest.mark.parametrize(
    ("given", "rounds"),
    [({"stops": 6}, [1, 4, 6]), ({"stops": 8}, [1, 4, 8]), ({"tells": False}, [1]), ({"rounds": 1, "stops": 1}, [1])],
)
@pytest.mark.usefixtures("steps")
def test_the_last_round_is_measured_however_a_fit_ends(tmp_path, homes, given, rounds):
    asked = {"parameters": given, "curves": 4, "protocols": ["ranking"], "isolate": False}
    (result,) = run("toy-steps", **DATA, **asked, store=tmp_path)
    assert [row["round"] for row in measured(result)] == rounds
    own = Steps(**given)
    drawn = np.random.default_rng([0, 2]).normal(size=(own.rounds, len(homes.relations)))
    expected = Curves.of(split(homes, "holdout", validation=True), every=4, seed=0, log_odds=True)
    assert expected.measure(ByRelation(drawn[own.stops - 1])).items() <= result.history[-1].items()


@pytest.mark.usefixtures("steps")
def test_a_round_that_cannot_be_measured_is_said_and_ends_no_fit(tmp_path, caplog):
    asked = {"parameters": {"infinite": 4}, "curves": 4, "protocols": ["ranking"], "isolate": False}
    (result,) = run("toy-steps", **DATA, **asked, store=tmp_path)
    assert result.status == "done"
    assert [row["round"] for row in measured(result)] == [1, 8, 10]
    assert "round 4 is not measured: ByRelation.score_pairs returned an infinite score" in caplog.text


@pytest.mark.parametrize(("method", "loss"), [("toy-log-odds", True), ("toy-count", False)])
@pytest.mark.usefixtures("toys")
def test_a_loss_is_there_only_for_log_odds(tmp_path, method, loss):
    (result,) = run(method, **DATA, curves=1, protocols=["ranking"], store=tmp_path, isolate=False)
    names = {name for name in CURVES if loss or not name.endswith("loss")}
    assert all(CURVES & row.keys() == names for row in result.history)


def test_a_loss_is_there_only_where_everything_has_a_score(homes):
    curves = Curves.of(split(homes, "holdout", seed=1, validation=True), **EVERY)
    some = np.where(np.arange(len(homes.relations)) % 2, np.nan, 1.0)
    assert curves.measure(ByRelation(some)).keys() == {name for name in CURVES if not name.endswith("loss")}


def test_a_large_part_is_measured_on_some_homes_the_same_ones_every_time(monkeypatch):
    homes = datasets.load("wyze-synthetic", homes=400).merged_types()
    parts = split(homes, "holdout", seed=1, validation=True)
    all_homes = {part: sample_homes(parts, part, 3) for part in PARTS}
    monkeypatch.setattr(module, "HOMES", 6)
    chosen = {part: sample_homes(parts, part, 3) for part in PARTS}
    for part in PARTS:
        assert len(all_homes[part]) > len(chosen[part]) == 6
        assert set(chosen[part]) < set(all_homes[part])
        assert chosen[part].tolist() == sample_homes(parts, part, 3).tolist()
        assert chosen[part].tolist() != sample_homes(parts, part, 4).tolist()
        # They are asked exactly what an evaluation of all homes asks them.
        found = Curves.of(parts, **EVERY).measure(scores(homes))
        rows = evaluate(scores(homes), parts, "paper", part=part, seed=3).homes
        source = parts.train if part == "train" else getattr(parts, part).homes
        rows = rows[rows["user"].isin(source.users[chosen[part]])]
        assert len(rows) == 6
        assert found[f"{part}_loss"] == pytest.approx(rows["loss"].mean())
        assert found[f"{part}_auc"] == pytest.approx(rows["auc"].mean())
        assert found[f"{part}_mr"] == pytest.approx(np.average(rows["mr"], weights=rows["n_hidden"]))


def test_a_part_without_rules_is_an_error_that_names_it(homes):
    parts = split(homes, "holdout", validation=True)
    bare = replace(parts, train=parts.train.with_rules(np.zeros(0, dtype=np.int64)))
    with pytest.raises(DataError, match="leaves no rule to train on"):
        Curves.of(bare, **EVERY)
    with pytest.raises(DataError, match="hides no rule in its validation part; split with validation=True"):
        Curves.of(parts.refit(), **EVERY)


@pytest.mark.usefixtures("toys")
def test_a_run_with_curves_is_fitted_once_on_train_only_and_listening_changes_no_number(tmp_path, homes, monkeypatch):
    fits = []
    original = benchmarks.runs.run.fit
    monkeypatch.setattr(benchmarks.runs.run, "fit", lambda *given: fits.append(1) or original(*given))
    ranking, paper = run("toy-count", **DATA, seed=3, curves=2, store=tmp_path, isolate=False)
    assert len(fits) == 1
    parts = split(homes, "holdout", seed=3, validation=True)
    fitted = build("toy-count").fit(parts.train, rng=np.random.default_rng([3, 2]))
    assert ranking.summary == pytest.approx(evaluate(fitted, parts, "ranking").summary, nan_ok=True)
    calibrated = calibrate(fitted, parts, seed=3)
    expected = evaluate(fitted, parts, "paper", seed=3, calibration=calibrated).summary
    assert paper.summary == pytest.approx(expected, nan_ok=True)
    assert paper.calibrated


@pytest.mark.usefixtures("toys")
def test_curves_are_part_of_the_key(tmp_path, homes):
    given = {"parameters": {}, "options": {}, "protocols": ["paper"]}
    asked = [
        make_experiment("toy-count", make_source("wyze-synthetic", options={}), **given, curves=n) for n in (0, 2, 3)
    ]
    keys = [each.keys("f")["paper"] for each in asked]
    assert len({key.hash for key in keys}) == 3
    assert [key.split["validation"] for key in keys] == [False, True, True]
    assert [str(key).partition("seed 0")[2] for key in keys] == ["", ", curves every 2", ", curves every 3"]
    (result,) = run("toy-count", **DATA, curves=2, seed=1, protocols=["ranking"], store=tmp_path, isolate=False)
    assert result.key.split == split(homes, "holdout", seed=1, validation=True).key


@pytest.mark.usefixtures("toys")
def test_a_finished_run_with_curves_is_read_and_not_made_again(tmp_path):
    asked = {**DATA, "protocols": ["ranking"]}
    first = run("toy-count", **asked, curves=2, store=tmp_path)[0]  # in a process of its own
    again = run("toy-count", **asked, curves=2, store=tmp_path, isolate=False)[0]
    assert (first.status, again.written) == ("done", first.written)
    here = run("toy-count", **asked, curves=2, store=tmp_path / "here", isolate=False)[0]
    assert list(map(seen, here.history)) == list(map(seen, first.history))
    assert [len(measured(result)) for result in (first, again, here)] == [3, 3, 3]
    run("toy-count", **asked, store=tmp_path, isolate=False)
    run("toy-count", **asked, curves=3, store=tmp_path, isolate=False)
    assert sorted(result.key.curves for result in load_results(tmp_path)) == [0, 2, 3]


@pytest.mark.parametrize("wrong", [-1, True, 2.0, "5"])
@pytest.mark.usefixtures("toys")
def test_curves_that_are_no_number_of_rounds_are_refused(tmp_path, wrong):
    with pytest.raises(DataError, match=r"curves must be a number of rounds .*, got"):
        run("toy-count", **DATA, curves=wrong, store=tmp_path, isolate=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("toys")
def test_a_suite_asks_for_curves_of_all_or_of_one_data_set(tmp_path):
    path = tmp_path / "mine.toml"
    data = "[[data]]\nname = 'ifttt-synthetic'\n[[data]]\nname = 'wyze-synthetic'\n"
    path.write_text(f"methods = ['toy-count']\nseeds = 1\ncurves = 10\n{data}curves = 0\n")
    assert [asked.curves for asked in read_suite(str(path))] == [10, 0]
    assert [asked.curves for asked in read_suite(str(path), curves=3)] == [3, 3]
    assert [asked.curves for asked in read_suite(str(path), curves=0)] == [0, 0]
    path.write_text(f"methods = ['toy-count']\n{data}curves = -1\n")
    with pytest.raises(DataError, match=r"curves must be a number of rounds .*, got -1"):
        read_suite(str(path))
    path.write_text(f"methods = ['toy-count']\n{data}curves = 'often'\n")
    with pytest.raises(DataError, match="curves='often': expected int"):
        read_suite(str(path))


def test_nobody_has_to_listen():
    rounds = HistoryRecorder()
    rounds(1, 2, ByRelation(np.zeros(3)), {"loss": 1.0})
    rounds.end(ByRelation(np.zeros(3)))
    assert list(map(seen, rounds.history)) == [{"round": 1.0, "loss": 1.0}]
