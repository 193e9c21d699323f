"""The recommended graph method: GraphRule's options with other defaults."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import datasets
from baselines.contract import planted_homes
from baselines.registry import build, parameters
from benchmarks.evaluation import evaluate
from datasets.common.errors import DataError
from datasets.homes import Homes, Rules

pytest.importorskip("torch", reason="graphrank needs the extra graph")
pytest.importorskip("torch_geometric", reason="graphrank needs the extra graph")

from fedrule.methods.graphrank import GraphRank
from fedrule.methods.graphrule import GraphRule

QUICK = {"rounds": 10, "draws": 2, "candidates": 50}
BRIEF = {"rounds": 4, "least_steps": 0}  # where nothing has to be learned well


@pytest.fixture(scope="module")
def parts():
    homes = datasets.load("wyze-synthetic", homes=400).merged_types()
    return datasets.split(homes, "holdout", seed=100, validation=True)


def fitted(train, **more):
    return GraphRank(**{**QUICK, **more}).fit(train, rng=np.random.default_rng(3))


def test_it_is_graphrule_with_other_defaults():
    as_graphrule = GraphRule(**dataclasses.asdict(GraphRank()))
    assert as_graphrule.evidence == 64
    assert not GraphRank().log_odds  # its non-rules are feasible ones, the evaluation's are not
    assert not GraphRank().sees_answers  # rules that are asked for are hidden, so the whole contract is asked of it


@pytest.mark.parametrize("name", ["graphrank", "fedrank"])
def test_the_sizes_of_the_paper_do_not_replace_its_own(name):
    made = build(name)
    assert (made.preset, made.hidden, made.dropout, made.evidence) == ("paper-text", 0, 0.3, 64)
    assert build(name, evidence=0, bias="counts").dropout == 0  # nothing to drop


def test_every_parameter_says_what_it_means():
    assert all(parameter.meaning for parameter in parameters("graphrank"))


def test_it_finds_hidden_rules_better_than_popularity(parts):
    ours, popular = (
        evaluate(model, parts, "ranking", part="validation").summary["mrr"]
        for model in (fitted(parts.train), build("popularity").fit(parts.train, rng=np.random.default_rng(0)))
    )
    assert ours > popular


def test_the_network_can_be_brought_back(parts):
    with_network = fitted(parts.train, **BRIEF, hidden=16, direction="both", messages="relation", predictor_hidden=8)
    assert any(name.startswith("theta.") for name in with_network.parameters)
    assert not any(name.startswith(("theta.", "phi.")) for name in fitted(parts.train, **BRIEF).parameters)


def test_a_draw_asks_no_more_homes_than_it_may(parts):
    few, all_homes, again = (fitted(parts.train, **BRIEF, homes_per_draw=n) for n in (30, 0, 30))
    changed = any((few.parameters[name] != all_homes.parameters[name]).any() for name in few.parameters)
    assert changed
    assert all((few.parameters[name] == again.parameters[name]).all() for name in few.parameters)


def test_devices_of_one_type_are_told_apart_by_what_they_do():
    # Two sensors and two lamps in every home. Sensor 0 switches lamp 2 on and off, sensor 1 switches lamp 3 on.
    n = 40
    home = np.arange(n)
    column = np.array
    homes = Homes(
        "pairs",
        ("Sensor", "Lamp"),
        (("Open", "On"), ("Closed", "Off")),
        home,
        np.repeat(home, 4),
        np.tile(column([0, 0, 1, 1]), n),
        np.arange(4 * n),
        Rules(
            np.repeat(home, 3),
            (4 * home[:, None] + column([0, 0, 1])).ravel(),
            (4 * home[:, None] + column([2, 2, 3])).ravel(),
            np.tile(column([0, 1, 0]), n),
        ),
    )
    model = fitted(homes, rounds=40, batch_size=0)
    # Both lamps are switched on; which one will sensor 0 switch off?
    new = homes.subset(column([0])).with_rules(column([0, 2]))
    scores = model.score_pairs(new, column([0, 0]), column([2, 3]))
    assert scores[0, 1] > scores[1, 1]  # the lamp that the sensor already switches on, not the other of its type


@pytest.mark.parametrize(
    ("homes", "options", "expected"),
    [
        (261, {}, 82),  # 261 homes in batches of 24 are 11 steps a round: 900 / 11 = 81.8
        (52, {}, 300),  # 3 steps: 900 / 3
        (300, {}, 80),  # 13 steps: 900 / 13 = 69.2, and 80 rounds are more
        (3, {}, 900),  # 1 step
        (52, {"least_steps": 0}, 80),
        (52, {"batch_size": 0}, 900),  # all homes in 1 step
        (300, {"homes_per_draw": 100}, 180),  # 100 homes of a draw in 5 steps: 900 / 5
        (52, {"least_steps": 1000, "rounds": 10}, 334),  # 3 steps: 1000 / 3 = 333.3
    ],
)
def test_few_homes_have_more_rounds(homes, options, expected):
    owner = np.append(np.arange(homes), homes)  # the last home has no rule, and no step
    one = np.arange(homes)
    rules = Rules(one, one, one, np.zeros(homes, dtype=np.int64))
    train = Homes("few", ("Lamp",), (("On", "Off"),), owner, owner, np.zeros_like(owner), owner, rules)
    assert GraphRank(**options)._rounds(train) == expected


def test_a_patience_of_all_rounds_never_stops_however_many_rounds_few_homes_have(caplog):
    caplog.set_level("INFO")
    done = []
    options = {"rounds": 2, "least_steps": 9, "batch_size": 0, "learning_rate": 0.5, "decay": False}
    method = GraphRank(**options, validation=0.3, patience=2)
    method.fit(planted_homes(), rng=np.random.default_rng(0), on_round=lambda at, of, *_: done.append((at, of)))
    assert done == [(at, 9) for at in range(1, 10)]
    assert "graphrank: 9 rounds, to reach 9 steps (least_steps)" in caplog.messages


def test_options_of_the_network_are_refused_without_one():
    with pytest.raises(DataError, match="encoder is an option of the network, and with hidden 0 there is none"):
        GraphRank(encoder="gat")
