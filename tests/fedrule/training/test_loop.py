"""Training lowers the loss, repeats, stops early on validation rules, and survives divergence."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace

import numpy as np
import pytest

from baselines.contract import planted_homes
from datasets import DataError
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.evidence.evidence import Evidence  # noqa: E402
from fedrule.methods.graph_method import split_validation  # noqa: E402
from fedrule.network.encoders import Sizes  # noqa: E402
from fedrule.network.network import Network  # noqa: E402
from fedrule.network.score import Scorer  # noqa: E402
from fedrule.network.terms import EvidenceNetwork, LearnedBias, Rooms  # noqa: E402
from fedrule.training import loop as training  # noqa: E402
from fedrule.training.examples import ExampleSampler  # noqa: E402
from fedrule.training.loop import Adam, Batches, PlainAdam, Schedule, TrainingBatch, adam_of, optimize  # noqa: E402
from fedrule.training.losses import bce  # noqa: E402
from tests.support.rooms import room_homes  # noqa: E402

HOMES = planted_homes()
VALID = ValidRules.of(HOMES)
SCORER = Scorer(Network(Sizes(len(HOMES.types), len(HOMES.relations), hidden=4)), VALID, (LearnedBias(VALID),))
BY_CANDIDATE = Scorer(None, VALID, (LearnedBias(VALID),))

PAPER = {"non_rules": "paper", "per_rule": 1, "candidates": 0}


class Heard(list):
    """What training reported: the round, the parameters and the values."""

    def __call__(self, done, parameters, values):
        self.append((done, parameters, values))

    @property
    def losses(self):
        return [values["loss"] for _, _, values in self]


def fit(
    rounds=20,
    learning_rate=0.05,
    *,
    scorer=SCORER,
    objective=bce,
    validation=None,
    on_round=None,
    drawn=None,
    **options,
):
    rng = np.random.default_rng(3)
    sampler = ExampleSampler.of(HOMES, VALID)

    def draw(parameters):
        if drawn is not None:
            drawn.append(parameters)
        return sampler.draw(rng)

    schedule = Schedule(rounds, learning_rate, **options)
    return optimize(
        scorer, objective, schedule, draw, name="some method", rng=rng, validation=validation, on_round=on_round
    )


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one | other)


def test_the_loss_goes_down_and_every_round_is_reported():
    heard = Heard()
    found = fit(on_round=heard)
    assert [done for done, _, _ in heard] == list(range(1, 21))
    assert heard.losses[-1] < 0.5 * heard.losses[0]
    assert same(found, heard[-1][1])


def test_the_same_numbers_come_out_again_and_whoever_listens_changes_nothing():
    assert same(fit(), fit(on_round=Heard()))
    for draws in (0, 3):
        options = {"batch_size": 4, "draws": draws, "decay": True}
        assert same(fit(**options), fit(**options, on_round=Heard()))


@pytest.mark.parametrize(("draws", "expected"), [(1, 1), (3, 3), (9, 5), (0, 5)])
def test_rounds_take_turns_with_so_many_draws_and_each_is_made_when_it_is_first_needed(draws, expected):
    drawn = []
    fit(5, drawn=drawn, draws=draws)
    assert len(drawn) == expected
    assert all(not same(drawn[0], later) for later in drawn[1:])  # given the parameters as they are


def taken_batches(monkeypatch, **options):
    """The batches of each of five rounds with two draws, which take turns."""
    taken, step = [], training._steps
    monkeypatch.setattr(training, "_steps", lambda *given: taken.append(given[3]) or step(*given))
    fit(5, draws=2, batch_size=8, **options)
    assert len(taken[0]) > 1
    return taken


def test_a_draw_comes_back_with_its_batches_when_its_turn_does(monkeypatch):
    assert not SCORER.by_candidate
    first, second, *later = ({id(batch) for batch in batches} for batches in taken_batches(monkeypatch))
    assert not first & second
    assert later == [first, second, first]


def test_a_draw_is_divided_anew_in_every_round_where_no_network_looks_at_a_home(monkeypatch):
    assert BY_CANDIDATE.by_candidate
    taken = taken_batches(monkeypatch, scorer=BY_CANDIDATE)
    candidates = [{row for batch in batches for row in rows(batch.query)} for batches in taken]
    assert candidates[0] == candidates[2] == candidates[4] != candidates[1] == candidates[3]
    divided = [
        {frozenset(HOMES.device_home[batch.query.trigger.numpy()].tolist()) for batch in batches} for batches in taken
    ]
    assert len(set(map(frozenset, divided))) == 5


def rows(query):
    """The candidates of a query."""
    return list(zip(query.trigger.tolist(), query.action.tolist(), query.relation.tolist(), strict=True))


@pytest.mark.parametrize("scorer", [SCORER, BY_CANDIDATE], ids=["network", "by candidate"])
@pytest.mark.parametrize("batch_size", [0, 1, 8, 1000])
def test_every_home_with_candidates_is_in_one_batch_of_a_round(monkeypatch, scorer, batch_size):
    divided, parts = [], training._parts
    monkeypatch.setattr(training, "_parts", lambda *given: divided.append(parts(*given)) or divided[-1])
    rng = np.random.default_rng(1)
    examples = ExampleSampler.of(HOMES, VALID).draw(rng)
    homes = sorted(set(examples.candidates.home.tolist()))
    assert len(homes) < HOMES.n_homes
    batches = Batches.of(scorer, examples, batch_size, rng)
    for _ in range(2):
        found = batches.shuffled(rng)
        together = divided[-1] if divided else [np.array(homes)]
        assert sorted(np.concatenate(together).tolist()) == homes
        assert sorted(batch.weight for batch in found) == sorted(len(part) for part in together)
        assert all(len(part) <= (batch_size or len(homes)) for part in together)
        assert sum(len(batch.positive) for batch in found) == len(examples.candidates)
        assert sum(int(batch.positive.sum()) for batch in found) == examples.positive.sum()
        if scorer is BY_CANDIDATE:  # devices keep their numbers
            every = [HOMES.device_home[np.unique(batch.query.trigger.numpy())] for batch in found]
            assert sorted(h for some in every for h in np.unique(some).tolist()) == homes


def test_part_of_a_batch_is_the_batch_of_these_homes():
    homes = room_homes()
    valid = ValidRules.of(homes)
    terms = LearnedBias(valid), Rooms(valid), EvidenceNetwork(Evidence.of(homes), hidden=4)
    scorer = Scorer(None, valid, terms)
    rng = np.random.default_rng(2)
    examples = ExampleSampler.of(homes, valid, hidden=0.3, non_rules="feasible", candidates=3).draw(rng)
    with_candidates = np.unique(examples.candidates.home)
    whole = Batches.of(scorer, examples, 5, rng)
    generator = torch.Generator().manual_seed(4)
    parameters = {
        name: torch.randn(value.shape, generator=generator) for name, value in scorer.initial(generator).items()
    }
    for part in (with_candidates[::3], with_candidates[[4, 1, 7]], with_candidates):
        ours = whole.whole.subset(torch.from_numpy(part), whole.start)
        theirs = TrainingBatch.of(scorer, examples.subset(part))
        for name in ("positive", "home", "stands_for"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
        assert ours.weight == theirs.weight == len(part)
        for one, other in zip(ours.query.observed, theirs.query.observed, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)
        logits = (scorer.logits_of(parameters, batch.query) for batch in (ours, theirs))
        assert torch.equal(*logits)


def test_the_learning_rate_falls_to_zero_along_half_a_cosine():
    steady, falling = Schedule(10, 0.2), Schedule(10, 0.2, decay=True)
    assert [steady.rate(over) for over in (0, 0.5, 1)] == [0.2] * 3
    # 0.2 (1 + cos(pi x)) / 2 at x = 0, 1/3, 1/2 and 1, where the cosine is 1, 1/2, 0 and -1
    assert [falling.rate(over) for over in (0, 1 / 3, 0.5, 1)] == pytest.approx([0.2, 0.15, 0.1, 0])


def test_every_step_has_its_own_rate(monkeypatch):
    rates, step = [], training._steps
    monkeypatch.setattr(training, "_steps", lambda *given: rates.append(given[4]) or step(*given))
    fit(4, 0.1, batch_size=15, decay=True)
    flat = [rate for some in rates for rate in some]
    expected = [0.05 * (1 + math.cos(math.pi * number / len(flat))) for number in range(len(flat))]
    assert len(rates[0]) > 1
    assert flat == pytest.approx(expected)


def test_homes_in_small_batches_learn_as_well():
    heard = Heard()
    fit(5, on_round=heard, batch_size=4)
    alone = Heard()
    fit(5, on_round=alone)
    assert heard.losses[-1] < alone.losses[-1]  # several steps a round
    all_at_once = fit(5, batch_size=HOMES.n_homes)
    assert same(all_at_once, fit(5))


def test_it_stops_without_a_better_loss_on_validation_rules_and_goes_back_to_the_best():
    _, validation = split_validation(HOMES, 0.4, PAPER, rng=np.random.default_rng(0))
    heard = Heard()
    found = fit(200, 0.1, validation=validation, on_round=heard, patience=4)
    losses = [values["validation_loss"] for _, _, values in heard]
    best = int(np.argmin(losses))
    assert len(heard) == best + 1 + 4 < 200
    assert same(found, heard[best][1])
    without_patience = Heard()
    fit(len(heard), 0.1, validation=validation, on_round=without_patience)
    assert without_patience.losses == heard.losses


def spoiled(after):
    """An objective that is NaN from the call `after` on."""
    calls = []

    def objective(logits, positive, home, n_homes):
        calls.append(None)
        loss = bce(logits, positive, home, n_homes)
        return loss * math.nan if len(calls) >= after else loss

    return objective


def test_a_run_that_goes_wrong_keeps_the_last_good_parameters_and_says_where(caplog):
    heard, well = Heard(), Heard()
    fit(on_round=well)
    with caplog.at_level(logging.WARNING):
        found = fit(objective=spoiled(after=8), on_round=heard)
    # The loss of round 8 is that of the parameters after round 7, which it condemns: those of round 6 are the last
    # whose loss was good, measured in round 7.
    assert "some method: training diverged in round 8 of 20 (loss nan); the model after round 6 is kept" in caplog.text
    assert "learning_rate 0.05 is too high, try 0.005" in caplog.text
    assert same(found, well[5][1])
    assert heard[-1][0] == 8
    assert heard[-1][2] == {"loss": well.losses[6], "diverged": 1.0}


@pytest.mark.parametrize(("rate", "round_"), [(math.inf, 1), (1e12, 2), (100.0, 2)])
def test_a_run_that_never_went_well_is_an_error(rate, round_):
    with pytest.raises(DataError, match=rf"some method: training diverged in round {round_} of 20 .* try 0\.01"):
        fit(learning_rate=rate)


def test_validation_rules_are_neither_trained_on_nor_non_rules():
    rng = np.random.default_rng(0)
    for non_rules, candidates in (("paper", 0), ("feasible", 0), ("hard", 3)):
        sampling = {"non_rules": non_rules, "per_rule": 2, "candidates": candidates}
        known, validation = split_validation(HOMES, 0.4, sampling, rng=rng)
        sizes = HOMES.n_devices, len(HOMES.relations)
        keys = validation.candidates.keys(*sizes)
        assert known.n_rules + validation.positive.sum() == HOMES.n_rules
        assert np.isin(keys[validation.positive], HOMES.rules.keys(*sizes)).all()
        assert not np.isin(keys[~validation.positive], HOMES.rules.keys(*sizes)).any()
        assert not np.isin(keys, known.rules.keys(*sizes)).any()
        assert (~validation.positive).any() or non_rules != "paper"  # a home may have all that is feasible


def test_homes_too_small_for_a_validation_rule_train_on_all():
    known, validation = split_validation(HOMES, 0.1, PAPER, rng=np.random.default_rng(0))
    assert validation is None
    assert known is HOMES


def test_many_steps_in_the_first_round_do_not_hide_that_it_diverged():
    # The loss of the first step is about log 2; of the last ones of the round it is beyond all bounds.
    with pytest.raises(DataError, match="diverged in round 1"):
        fit(rounds=5, learning_rate=1e6, batch_size=1)


@pytest.mark.parametrize(("made", "atol"), [(Adam, 0), (PlainAdam, 1e-7)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_adam_is_that_of_torch_bit_for_bit_and_the_plain_one_up_to_rounding(weight_decay, made, atol):
    def initial():
        values = torch.rand(40, generator=torch.Generator().manual_seed(0))
        return {name: part.clone().requires_grad_() for name, part in zip("abc", values.split([30, 7, 3]), strict=True)}

    ours, theirs = initial(), initial()
    adam = made.of(ours, weight_decay=weight_decay)
    reference = torch.optim.Adam(theirs.values(), weight_decay=weight_decay, fused=True)
    for step in range(5):
        rate = 0.1 / (step + 1)
        for parameters in (ours, theirs):  # b has a gradient in every other step only, c in none
            loss = (parameters["a"] ** 3).sum() + (0 if step % 2 else parameters["b"].sin().sum())
            torch.autograd.backward(loss)
        adam.step(rate)
        reference.param_groups[0]["lr"] = rate
        reference.step()
        reference.zero_grad()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=atol)
    assert all(value.grad is None for value in ours.values())


def test_where_torch_has_no_fused_adam_the_public_one_takes_its_place(monkeypatch):
    parameters = {"a": torch.ones(1, requires_grad=True)}
    assert isinstance(adam_of(parameters), Adam)
    monkeypatch.setattr(training, "torch", SimpleNamespace(optim=torch.optim))
    assert isinstance(adam_of(parameters), PlainAdam)
