"""Training goes down, repeats itself, stops when told to by rules kept back, and keeps its head when it runs away."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest

from baselines.toy_homes import planted_homes
from datasets import DataError
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.bias import LearnedBias  # noqa: E402
from fedrule.encoder import Sizes  # noqa: E402
from fedrule.held_back import hold_back  # noqa: E402
from fedrule.model import Network  # noqa: E402
from fedrule.objective import bce  # noqa: E402
from fedrule.practice import Practices  # noqa: E402
from fedrule.scorer import Scorer  # noqa: E402
from fedrule.training import Schedule, learn  # noqa: E402

HOMES = planted_homes()
VALID = ValidRules.of(HOMES)
SCORER = Scorer(Network(Sizes(len(HOMES.types), len(HOMES.relations), hidden=4)), VALID, (LearnedBias(VALID),))


class Heard(list):
    """What training told: the round, the parameters and the values."""

    def __call__(self, done, parameters, values):
        self.append((done, parameters, values))

    @property
    def losses(self):
        return [values["loss"] for _, _, values in self]


def teach(rounds=20, learning_rate=0.05, *, objective=bce, watched=None, told=None, draws=None, **options):
    rng = np.random.default_rng(3)
    practices = Practices.of(HOMES, VALID)

    def draw(parameters):
        if draws is not None:
            draws.append(parameters)
        return practices.draw(rng)

    schedule = Schedule(rounds, learning_rate, **options)
    return learn(SCORER, objective, schedule, draw, name="some method", rng=rng, watched=watched, told=told)


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one | other)


def test_the_loss_goes_down_and_every_round_is_told():
    heard = Heard()
    found = teach(told=heard)
    assert [done for done, _, _ in heard] == list(range(1, 21))
    assert heard.losses[-1] < 0.5 * heard.losses[0]
    assert same(found, heard[-1][1])


def test_the_same_numbers_come_out_again_and_whoever_listens_changes_nothing():
    assert same(teach(), teach(told=Heard()))
    assert same(teach(homes_at_once=4, redraw=True), teach(homes_at_once=4, redraw=True, told=Heard()))


def test_non_rules_are_drawn_once_or_every_round():
    once, often = [], []
    teach(5, draws=once)
    teach(5, draws=often, redraw=True)
    assert (len(once), len(often)) == (1, 5)
    assert not same(often[0], often[4])  # given the parameters as they are


def test_homes_in_small_batches_learn_as_well():
    heard = Heard()
    teach(5, told=heard, homes_at_once=4)
    alone = Heard()
    teach(5, told=alone)
    assert heard.losses[-1] < alone.losses[-1]  # several steps a round
    all_at_once = teach(5, homes_at_once=HOMES.n_homes)
    assert same(all_at_once, teach(5))


def test_it_stops_without_a_better_loss_on_rules_kept_back_and_goes_back_to_the_best():
    _, watched = hold_back(HOMES, 0.4, non_rules="paper", per_rule=1, candidates=0, rng=np.random.default_rng(0))
    heard = Heard()
    found = teach(200, 0.1, watched=watched, told=heard, patience=4)
    looked = [values["validation_loss"] for _, _, values in heard]
    best = int(np.argmin(looked))
    assert len(heard) == best + 1 + 4 < 200
    assert same(found, heard[best][1])
    watching_only = Heard()
    teach(len(heard), 0.1, watched=watched, told=watching_only)
    assert watching_only.losses == heard.losses


def spoiled(after):
    """An objective that is no number from the call `after` on."""
    calls = []

    def objective(logits, positive, home, n_homes):
        calls.append(None)
        loss = bce(logits, positive, home, n_homes)
        return loss * math.nan if len(calls) >= after else loss

    return objective


def test_a_run_that_goes_wrong_keeps_the_last_good_parameters_and_says_where(caplog):
    heard, well = Heard(), Heard()
    teach(told=well)
    with caplog.at_level(logging.WARNING):
        found = teach(objective=spoiled(after=8), told=heard)
    # The loss of round 8 is that of the parameters after round 7, which it condemns: those of round 6 are the last
    # whose loss was good, measured in round 7.
    assert "some method: training ran away in round 8 of 20 (loss nan); the model after round 6 is kept" in caplog.text
    assert "learning_rate 0.05 is too high, try 0.005" in caplog.text
    assert same(found, well[5][1])
    assert heard[-1][0] == 8
    assert heard[-1][2] == {"loss": well.losses[6], "diverged": 1.0}


@pytest.mark.parametrize(("rate", "round_"), [(math.inf, 1), (1e12, 2), (100.0, 2)])
def test_a_run_that_never_went_well_is_an_error(rate, round_):
    with pytest.raises(DataError, match=rf"some method: training ran away in round {round_} of 20 .* try 0\.01"):
        teach(learning_rate=rate)


def test_rules_kept_back_are_neither_trained_on_nor_non_rules():
    rng = np.random.default_rng(0)
    for non_rules, candidates in (("paper", 0), ("feasible", 0), ("hard", 3)):
        known, watched = hold_back(HOMES, 0.4, non_rules=non_rules, per_rule=2, candidates=candidates, rng=rng)
        sizes = HOMES.n_devices, len(HOMES.relations)
        asked = watched.candidates.keys(*sizes)
        assert known.n_rules + watched.positive.sum() == HOMES.n_rules
        assert np.isin(asked[watched.positive], HOMES.rules.keys(*sizes)).all()
        assert not np.isin(asked[~watched.positive], HOMES.rules.keys(*sizes)).any()
        assert not np.isin(asked, known.rules.keys(*sizes)).any()
        assert (~watched.positive).any() or non_rules != "paper"  # a home may have all that is feasible


def test_homes_too_small_to_keep_a_rule_back_train_on_all():
    known, watched = hold_back(HOMES, 0.1, non_rules="paper", per_rule=1, candidates=0, rng=np.random.default_rng(0))
    assert watched is None
    assert known is HOMES
