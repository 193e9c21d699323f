"""The evaluation against plain loops, on random homes and scores with ties and missing answers."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from baselines.calibration import Calibration, calibrate
from baselines.method import Scores
from baselines.scoring import STREAMS
from benchmarks.evaluation import evaluate, ranking
from benchmarks.results.compare import OVER_HOMES
from benchmarks.runs.history import PARTS
from datasets import DataError, Homes, Rules
from datasets.common.random import Stream, generator
from datasets.homes import Array
from datasets.splits import SPLITS, Hidden, Split, holdout, split
from tests.support.plain_evaluation import Plain
from tests.support.strategies import homes, triples

VALUES = st.lists(st.sampled_from([-1.5, 0.0, 0.25, 2.0, float("nan")]), min_size=1, max_size=13)
CHUNKS = st.sampled_from([1, 5, 40, 10**6])
FEWER = settings(max_examples=settings.default.max_examples // 2, deadline=None)  # an example is a whole evaluation


@dataclass(frozen=True)
class Drawn:
    """Scores from a short list of values, by user, devices and relation, whichever homes are shown together."""

    users: tuple[object, ...]
    values: tuple[float, ...]

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        number = np.array([self.users.index(user) for user in homes.users.tolist()], dtype=np.int64)
        home = homes.device_home[trigger]
        first = homes.device_start[home]
        pair = number[home] * 1009 + (trigger - first) * 37 + (action - first) * 11
        cell = pair[:, None] + np.arange(len(homes.relations)) * 5
        return np.array(self.values, dtype=np.float32)[cell * 7919 % 104729 % len(self.values)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Drawn, Split, str]:
    """A model, a split in one of the three ways and a part of it that hides something."""
    some = draw(homes(min_homes=1, max_homes=6, max_rules=14, bare=False))
    how = draw(st.sampled_from(sorted(SPLITS)))
    options: dict[str, object] = {"seed": draw(st.integers(0, 99))}
    options |= {} if how == "leave_one_out" else {"fraction": draw(st.sampled_from([0.3, 0.6, 0.9]))}
    most = np.bincount(split(some, how, validation=True, **options).train.rules.relation).max(initial=0)
    options["min_pair_count"] = draw(st.sampled_from([1, 1, min(2, max(most, 1))]))
    made = split(some, how, validation=draw(st.booleans()), **options)
    part = draw(st.sampled_from(["test", "validation"]))
    if draw(st.booleans()) and part == "test":
        made = made.refit()
    assume(len(getattr(made, part).rules) > 0)
    return Drawn(tuple(some.users.tolist()), tuple(draw(VALUES))), made, part


def same(found: dict[str, float], expected: dict[str, float]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name


@FEWER
@given(cases(), CHUNKS, st.sampled_from([1, 2, 128]), st.sampled_from([1, 5, 1 << 18]))
def test_ranking_equals_plain_loops(case, chunk, whole, cached):
    fitted, made, part = case
    with patch.object(ranking, "KEPT_CHUNKS", whole), patch.object(ranking, "CHECKED_AT_ONCE", cached):
        found = evaluate(fitted, made, "ranking", part=part, chunk=chunk)
    same(found.summary, Plain(fitted, made, part).ranking())


@FEWER
@given(cases(), CHUNKS, st.integers(0, 9))
def test_paper_equals_plain_loops(case, chunk, seed):
    fitted, made, part = case
    found = evaluate(fitted, made, "paper", part=part, chunk=chunk, seed=seed)
    same(found.summary, Plain(fitted, made, part).paper(seed))


@FEWER
@given(cases(), st.sampled_from(["ranking", "paper"]), st.sampled_from([1, 2, 128]), st.sampled_from([1, 5, 1 << 18]))
def test_the_chunk_changes_no_number(case, protocol, whole, cached):
    fitted, made, part = case
    once = evaluate(fitted, made, protocol, part=part)
    with patch.object(ranking, "KEPT_CHUNKS", whole), patch.object(ranking, "CHECKED_AT_ONCE", cached):
        for chunk in (1, 7, 60):
            again = evaluate(fitted, made, protocol, part=part, chunk=chunk)
            pd.testing.assert_series_equal(pd.Series(again.summary), pd.Series(once.summary), check_exact=True)
            pd.testing.assert_frame_equal(again.rules, once.rules, check_exact=True)
            pd.testing.assert_frame_equal(again.homes, once.homes, check_exact=True)


@FEWER
@given(cases(), st.sampled_from(["ranking", "paper"]))
def test_the_summary_is_the_weighted_mean_of_homes(case, protocol):
    fitted, made, part = case
    found = evaluate(fitted, made, protocol, part=part)
    metrics = [name for name in found.homes.columns if "@" in name or name.startswith(("mr", "map", "loss", "auc"))]
    assert len(metrics) == (3 * (8 + 2 + 4) if protocol == "ranking" else 5)
    for name in metrics:
        values = found.homes[name].to_numpy()
        there = ~np.isnan(values)
        hidden = found.homes["n_hidden, closed" if "closed" in name else "n_hidden"].to_numpy()
        weight = np.ones(len(values)) if name.partition(",")[0] in OVER_HOMES else hidden
        expected = np.average(values[there], weights=weight[there]) if there.any() else np.nan
        assert found.summary[name] == pytest.approx(expected, nan_ok=True), name
    assert found.homes["n_hidden"].sum() == len(found.rules) == found.summary["hidden"]


@FEWER
@given(cases())
def test_homes_tell_how_long_their_lists_are(case):
    fitted, made, part = case
    found, plain = evaluate(fitted, made, part=part, chunk=30), Plain(fitted, made, part)
    hidden = sorted({rule[0] for rule in plain.rules})
    assert found.homes["user"].tolist() == plain.homes.users[hidden].tolist()
    for column, kind in (("candidates", ""), ("candidates, all", "all"), ("candidates, closed", "closed")):
        assert found.homes[column].tolist() == [len(plain.candidates(home, kind)) for home in hidden]


@FEWER
@given(cases(), st.integers(0, 9))
def test_non_rules_are_rules_of_no_part(case, seed):
    made, plain = case[1], Plain(*case)
    taken = plain.known | {rule[1:] for rule in plain.rules}
    if not made.unseen_homes:
        taken |= {rule[1:] for hidden in (made.validation, made.test) for rule in triples(hidden.rules)}
    assert not taken & {rule[1:] for rule in triples(plain.non_rules(seed))}


def lamp_and_switch() -> Split:
    """Two homes with a switch (0) and a lamp (1); both have relation 0, the first hides 1 and the second hides 2."""
    known = Homes(
        name="two homes",
        types=("Switch", "Lamp"),
        relations=(("On", "Light"), ("Off", "Dark"), ("Hold", "Dim")),
        users=np.array([7, 8]),
        device_home=np.array([0, 0, 1, 1]),
        device_type=np.array([0, 1, 0, 1]),
        device_ids=np.array([1, 2, 1, 2]),
        rules=Rules(np.array([0, 1]), np.array([0, 2]), np.array([1, 3]), np.array([0, 0])),
    )
    hidden = Rules(np.array([0, 1]), np.array([0, 2]), np.array([1, 3]), np.array([1, 2]))
    # The model has learnt relations 0 and 1 from switch to lamp, and 0 from lamp to switch.
    trained = Rules(np.array([0, 1, 1]), np.array([0, 2, 3]), np.array([1, 3, 2]), np.array([0, 1, 0]))
    train = replace(known, rules=trained)
    nothing = Hidden(known.subset(np.zeros(0, dtype=np.int64)), known.rules.take(np.zeros(0, dtype=np.int64)))
    return Split("by hand", 0, {}, train, nothing, Hidden(known, hidden), train, unseen_homes=True)


class Fixed:
    """Switch to lamp 3, 1 and 0 for the three relations; lamp to switch 2, 1 and no answer."""

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:  # noqa: ARG002
        return np.array([[3, 1, 0], [2, 1, np.nan]], dtype=np.float32)[homes.device_type[trigger]]


def test_ranks_of_two_homes_by_hand():
    # Both lists: switch -> lamp 1 (1.0), 2 (0.0); lamp -> switch 0 (2.0), 1 (1.0), 2 (NaN). Switch -> lamp 0 is known.
    # Home 7 hides the 1.0: below 2.0, level with another 1.0: rank 2.5. Valid are only it and the 2.0: rank 2.
    # Home 8 hides the 0.0: above only NaN, rank 4. Its triple was never trained on: not found under the filter.
    found = evaluate(Fixed(), lamp_and_switch())
    assert found.rules[["above, all", "tied, all"]].to_numpy().tolist() == [[1, 2], [3, 1]]
    assert found.rules[["above", "tied"]].to_numpy().tolist() == [[1, 1], [0, 0]]
    assert found.summary["mrr"] == (1 / 2 + 0) / 2
    assert found.summary["mrr, all"] == (1 / 2.5 + 1 / 4) / 2
    assert found.summary["seen: mrr"] == 1 / 2
    assert found.summary["unseen: mrr"] == 0
    assert found.summary["unseen"] == 1
    assert found.homes["candidates, all"].tolist() == [5, 5]
    assert found.homes["candidates"].tolist() == [2, 2]


def test_mean_rank_of_two_homes_by_hand():
    # On the pair switch -> lamp: scores 3, 1, 0. Home 7 hides the 1 (rank 2), home 8 the 0 (rank 3): MR 2.5.
    # Without the known 3 they are ranks 1 and 2: MR(RT) 1.5.
    found = evaluate(Fixed(), lamp_and_switch(), "paper")
    assert (found.summary["mr"], found.summary["mr_rt"], found.summary["mr_paper"]) == (2.5, 1.5, 1.5)


def test_a_model_that_cannot_answer_is_counted_and_last():
    class Mute:
        def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:  # noqa: ARG002
            return np.full((len(trigger), len(homes.relations)), np.nan, dtype=np.float32)

    found = evaluate(Mute(), lamp_and_switch())
    assert (found.summary["unanswered"], found.summary["hr@50, all"], found.summary["mrr"]) == (2, 0, 0)
    # All is level: AUC 1/2, the loss is log 2 and the rank in the middle of 3 relations is 2.
    found = evaluate(Mute(), lamp_and_switch(), "paper")
    assert (found.summary["unanswered"], found.summary["auc"], found.summary["mr"]) == (2, 0.5, 2)
    assert found.summary["loss"] == pytest.approx(np.log(2))


@FEWER
@given(cases(), st.integers(0, 9))
def test_calibration_changes_the_loss_only(case, seed):
    fitted, made, part = case
    plain = evaluate(fitted, made, "paper", part=part, seed=seed).summary
    turned = evaluate(fitted, made, "paper", part=part, seed=seed, calibration=Calibration(-2.0, 1.0)).summary
    assert turned["calibrated"] == 1
    for name in plain.keys() - {"loss", "calibrated"}:
        assert turned[name] == pytest.approx(plain[name], rel=0, abs=0, nan_ok=True), name


@FEWER
@given(cases())
def test_calibration_is_fitted_on_validation_rules(case):
    fitted, made, _ = case
    if not len(made.validation.rules):
        remedy = "give homes with more rules" if made.parameters["validation"] else "split with validation=True"
        remedy = "choose a smaller min_pair_count" if len(made.validation.rare) else remedy
        with pytest.raises(DataError, match=f"hides no rule in its validation part; {remedy}"):
            calibrate(fitted, made)
        return
    plain = Plain(fitted, made, "validation")
    examples = [(*rule, True) for rule in plain.rules] + [(*rule, False) for rule in triples(plain.non_rules(3))]
    score = np.array([plain.score((t, a, r)) for _, t, a, r, _ in examples])
    expected = Calibration.of(score, np.array([positive for *_, positive in examples]))
    assert astuple(calibrate(fitted, made, seed=3)) == pytest.approx(astuple(expected), abs=1e-6)


@settings(FEWER, suppress_health_check=[HealthCheck.filter_too_much])  # many splits have no validation part
@given(cases())
def test_log_odds_keep_their_scores_and_learn_what_no_score_means(case):
    fitted, made, _ = case
    assume(len(made.validation.rules))
    kept, rescaled = calibrate(fitted, made, log_odds=True), calibrate(fitted, made)
    assert (kept.slope, kept.offset, kept.rescales) == (1.0, 0.0, False)
    assert kept.unanswered == rescaled.unanswered


def test_a_home_of_two_has_an_area_against_what_its_devices_could_do():
    # Valid are switch -> lamp 0 and 1, lamp -> switch 0; known is the first. The one feasible non-rule of home 7, which
    # hides switch -> lamp 1 (1.0), is lamp -> switch 0 (2.0): area 0. Home 8
    # hides the 0.0, which is below both that it could have.
    found = evaluate(Fixed(), lamp_and_switch(), "paper")
    assert found.homes["auc_feasible"].tolist() == [0.0, 0.0]
    assert found.summary["auc_feasible"] == 0.0
    assert (found.summary["feasible"], found.summary["unanswered_feasible"]) == (2, 0)


def test_no_two_purposes_draw_the_same_numbers():
    seeds = range(8)
    keys = [
        (seed, int(stream)) for seed in seeds for stream in (Stream.HIDE_TEST, Stream.HIDE_VALIDATION, Stream.FITTING)
    ]
    with_split = [stream for stream in Stream if stream > Stream.FITTING]
    keys += [(seed, other, int(stream)) for seed in seeds for other in seeds for stream in with_split]
    first = {np.random.default_rng(list(key)).integers(2**63) for key in keys}
    assert len(first) == len(keys)
    assert {*STREAMS.values(), *PARTS.values()} == set(with_split)


def test_the_non_rules_of_each_part_and_kind_come_from_their_own_stream():
    drawn = {place: int(stream) for place, stream in STREAMS.items()}
    assert drawn == {
        ("test", "paper"): 3,
        ("validation", "paper"): 4,
        ("test", "feasible"): 5,
        ("validation", "feasible"): 6,
        ("train", "paper"): 8,
        ("train", "feasible"): 9,
    }
    expected = np.random.default_rng([9, 1, 3]).integers(2**63)
    assert generator(Stream.TEST_NON_RULES, 9, 1).integers(2**63) == expected


def test_a_model_never_sees_its_scores_changed():
    class Kept(Fixed):
        table = np.zeros((6, 3), dtype=np.float32)

        def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:  # noqa: ARG002
            return self.table[: len(trigger)]

    for protocol in ("ranking", "paper"):
        evaluate(Kept(), lamp_and_switch(), protocol)
    assert not Kept.table.any()


def test_what_is_asked_wrongly_is_answered_with_what_would_be_right():
    made = lamp_and_switch()
    with pytest.raises(DataError, match="did you mean 'ranking'"):
        evaluate(Fixed(), made, "rankin")
    with pytest.raises(DataError, match="did you mean 'test'"):
        evaluate(Fixed(), made, part="tests")
    with pytest.raises(DataError, match="at least 1"):
        evaluate(Fixed(), made, chunk=0)
    with pytest.raises(DataError, match="hides no rule in its test part; give homes with more rules"):
        evaluate(Fixed(), holdout(made.test.homes))

    class Short(Fixed):
        def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
            return super().score_pairs(homes, trigger, action)[:, :2]

    with pytest.raises(DataError, match=r"Short.score_pairs returned shape \(4, 2\) instead of \[4 pairs, 3"):
        evaluate(Short(), made)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])  # the last is infinite as a float32
@pytest.mark.parametrize("protocol", ["ranking", "paper"])
def test_an_infinite_score_is_refused(protocol, value):
    class Infinite(Fixed):
        def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
            return np.where(np.arange(3) == 1, value, super().score_pairs(homes, trigger, action).astype(float))

    with pytest.raises(
        DataError, match=r"Infinite.score_pairs returned an infinite score; scores must be finite or NaN"
    ):
        evaluate(Infinite(), lamp_and_switch(), protocol)


def test_scores_that_are_no_array_are_held_to_their_shape_too():
    class Forgot(Fixed):
        def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
            super().score_pairs(homes, trigger, action)  # and no return

    with pytest.raises(DataError, match=r"Forgot.score_pairs returned shape \(\) instead of \[4 pairs, 3 relations"):
        evaluate(Forgot(), lamp_and_switch())
