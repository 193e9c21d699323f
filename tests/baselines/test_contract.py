"""Every registered method satisfies the contract, and the error for one that does not says which point."""

# ruff: noqa: ARG001, ARG002  (a broken method rarely looks at all that it is given)

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import ClassVar, get_args, get_type_hints

import numpy as np
import pytest

from baselines.contract import CLAUSES, PLANTED, RELATIONS, TYPES, all_pairs, check_method, planted_homes
from baselines.method import ignore
from baselines.popularity import Popularity
from baselines.registry import build, missing_extra, names
from datasets.common.errors import DataError

FEW = {"rounds": 10, "epochs": 10, "least_steps": 0, "trees": 10, "max_iter": 10}
ENOUGH = {"rounds": 100, "epochs": 100, "least_steps": 100, "trees": 50, "max_iter": 50}  # to find the planted rule


@pytest.fixture(params=names())
def name(request):
    """Every registered method that can be built here."""
    if extra := missing_extra(request.param):
        pytest.skip(f"{request.param} needs the extra {extra}")
    return request.param


def at_most(name, most):
    """The method with its defaults, but no longer training than this."""
    return build(name, **{o: v for o, v in most.items() if v < getattr(build(name), o, 0)})


def test_every_registered_method_keeps_the_contract(name):
    """How long a method trains matters to the last clause only; the others have few rounds."""
    *others, finds_the_planted_rule = CLAUSES
    brief = at_most(name, FEW)
    assert [finding for clause in others for finding in clause(brief)] == []
    assert list(finds_the_planted_rule(at_most(name, ENOUGH))) == []


@pytest.mark.slow
def test_every_registered_method_keeps_all_of_the_contract_with_its_defaults(name):
    assert check_method(name) == []


def test_the_defaults_of_every_registered_method_lie_within_the_ranges_that_are_tuned(name):
    method = build(name)
    for option, (kind, *bounds) in getattr(type(method), "SPACE", {}).items():
        value = getattr(method, option)
        assert value in bounds if kind == "choice" else bounds[0] <= value <= bounds[1], (option, value, bounds)


def test_every_registered_method_refuses_its_unavailable_options_with_the_reason(name):
    method = build(name)
    hints = get_type_hints(type(method))
    for option, reason in getattr(type(method), "UNAVAILABLE", {}).items():
        default = getattr(method, option)
        others = [value for value in get_args(hints[option]) if value != default] or [default + 1]
        for other in others:
            with pytest.raises(DataError, match=f"^{name}: {option} {re.escape(f'{other!r} {reason}')}"):
                type(method)(**{option: other})


@pytest.mark.parametrize("solver", ["bpr", "logistic"])
def test_every_solver_of_mf_keeps_the_contract(solver):
    pytest.importorskip("implicit", reason="mf needs the extra mf")
    # Short vectors: long ones only make the check slower.
    assert check_method(build("mf", solver=solver, factors=8, iterations=50)) == []


def test_every_other_home_with_the_devices_has_the_planted_rule():
    homes = planted_homes()
    trigger_type, relation, action_type = homes.typed()
    kind = np.stack([trigger_type, relation, action_type], axis=1)
    has = homes.rules.home[(kind == (TYPES.index(PLANTED[0]), PLANTED[1], TYPES.index(PLANTED[2]))).all(axis=1)]
    able = [n for n in range(homes.n_homes) if {"ContactSensor", "Light"} <= {d.type for d in homes.home(n).devices}]
    assert able[0] == 0
    assert has.tolist() == able[1:]


class Answer:
    """A fitted model made of one function."""

    def __init__(self, score):
        self.score = score

    def score_pairs(self, homes, trigger, action):
        return self.score(homes, trigger, action)


def zeros(homes, trigger, action):
    return np.zeros((len(trigger), len(homes.relations)), dtype=np.float32)


def popular(homes, trigger, action):
    """What popularity says of the toy homes: right in every point."""
    fitted = Popularity().fit(planted_homes(), rng=np.random.default_rng(0))
    return np.array(fitted.score_pairs(homes, trigger, action))


CLOCK = itertools.count()  # stands for whatever differs from one call to the next
SHARED: dict[str, int] = {}


@dataclass(frozen=True)
class Broken:
    """A method that is right in all points but those that a subclass overrides."""

    learns: ClassVar[bool] = False

    def fit(self, train, *, rng, on_round=ignore):
        return Answer(self.model(train, rng, on_round))

    def model(self, train, rng, on_round):
        return zeros


@dataclass(frozen=True)
class WrongShape(Broken):
    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action)[:, 1:]


@dataclass(frozen=True)
class Doubles(Broken):
    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action).astype(np.float64)


@dataclass(frozen=True)
class Infinite(Broken):
    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action) - np.float32(np.inf)


@dataclass(frozen=True)
class Silent(Broken):
    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action) * np.float32(np.nan)


@dataclass(frozen=True)
class FailsOnNothing(Broken):
    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action)[: max(len(trigger), 1)] + trigger.max()


@dataclass(frozen=True)
class OwnRandomness(Broken):
    def model(self, train, rng, on_round):
        luck = np.float32(next(CLOCK))
        return lambda homes, trigger, action: zeros(homes, trigger, action) + luck


@dataclass(frozen=True)
class ListenersChangeIt(Broken):
    def model(self, train, rng, on_round):
        heard = np.float32(on_round is not ignore)
        return lambda homes, trigger, action: zeros(homes, trigger, action) + heard


@dataclass(frozen=True)
class Remembers(Broken):
    """Adds to what it learned before, as a model does that is kept and fitted again."""

    seen: dict[str, int] = field(default_factory=dict, repr=False)

    def model(self, train, rng, on_round):
        self.seen[train.fingerprint] = 1
        known = np.float32(len(self.seen))
        return lambda homes, trigger, action: zeros(homes, trigger, action) + known


@dataclass(frozen=True)
class SharesItsModel(Broken):
    """All of its models answer from one place, which the last fit has written."""

    def model(self, train, rng, on_round):
        SHARED["rules"] = train.n_rules
        return lambda homes, trigger, action: zeros(homes, trigger, action) + np.float32(SHARED["rules"])


@dataclass(frozen=True)
class KeepsParameters(Broken):
    rules: int = 0

    def model(self, train, rng, on_round):
        object.__setattr__(self, "rules", train.n_rules)
        return zeros


@dataclass(frozen=True)
class WritesWhileFitting(Broken):
    def model(self, train, rng, on_round):
        relation = train.rules.relation
        relation.flags.writeable = True  # read-only keeps off accidents, not intent
        relation[-1:] = 0
        relation.flags.writeable = False
        return zeros


@dataclass(frozen=True)
class WritesIntoPairs(Broken):
    def model(self, train, rng, on_round):
        def score(homes, trigger, action):
            if trigger.flags.writeable:
                trigger[:] = 0
            return zeros(homes, trigger, action)

        return score


@dataclass(frozen=True)
class ComparesHomes(Broken):
    """Normalizes over all homes that it is shown."""

    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action) + np.float32(homes.n_homes)


@dataclass(frozen=True)
class ComparesPairs(Broken):
    """Normalizes over all pairs that are asked."""

    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: zeros(homes, trigger, action) + np.float32(len(trigger))


@dataclass(frozen=True)
class CountsPairs(Broken):
    """Scores by the place in the question."""

    def model(self, train, rng, on_round):
        def score(homes, trigger, action):
            return zeros(homes, trigger, action) + np.arange(len(trigger), dtype=np.float32)[:, None]

        return score


@dataclass(frozen=True)
class NeedsManyHomes(Broken):
    def model(self, train, rng, on_round):
        if train.n_homes == 1:
            raise ValueError("cannot split one home into batches")
        return zeros


@dataclass(frozen=True)
class NeedsManyRules(Broken):
    def model(self, train, rng, on_round):
        if train.n_rules == 1:
            raise ValueError("standard deviation of one number")
        return zeros


@dataclass(frozen=True)
class NeedsRules(Broken):
    def model(self, train, rng, on_round):
        if train.n_rules == 0:
            raise ZeroDivisionError("mean of nothing")
        return zeros


@dataclass(frozen=True)
class NeedsNumbers(Broken):
    def model(self, train, rng, on_round):
        train.users.astype(np.int64)
        return zeros


@dataclass(frozen=True)
class KnowsOnlyTrainingHomes(Broken):
    def model(self, train, rng, on_round):
        row = {user: n for n, user in enumerate(train.users.tolist())}

        def score(homes, trigger, action):
            [row[user] for user in homes.users.tolist()]
            return zeros(homes, trigger, action)

        return score


@dataclass(frozen=True)
class KnowsOnlySeenTypes(Broken):
    def model(self, train, rng, on_round):
        bound = np.concatenate([train.device_type, [0]]).max()

        def score(homes, trigger, action):
            if homes.device_type.max(initial=0) > max(bound, 3):
                raise IndexError("index 4 is out of bounds")
            return zeros(homes, trigger, action)

        return score


@dataclass(frozen=True)
class Upside(Broken):
    learns: ClassVar[bool] = True

    def model(self, train, rng, on_round):
        return lambda homes, trigger, action: -popular(homes, trigger, action)


@dataclass(frozen=True)
class CannotSay(Broken):
    learns: ClassVar[bool] = True

    def model(self, train, rng, on_round):
        def score(homes, trigger, action):
            scores = zeros(homes, trigger, action)
            scores[:, PLANTED[1]] = np.nan
            return scores

        return score


@dataclass(frozen=True)
class WrongSpace(Broken):
    factors: int = 8

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "factor": ("int", 1, 8),
        "factors": ("integer", 1, 8),
    }


@dataclass(frozen=True)
class WrongUnavailable(Broken):
    UNAVAILABLE: ClassVar[dict[str, str]] = {"epsilon": "is no option of it"}


@dataclass(frozen=True)
class EmptyRange(Broken):
    factors: int = 8

    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {"factors": ("int", 8, 1)}


@dataclass
class Thawed:
    """Not frozen, else in order."""

    learns: ClassVar[bool] = False

    def fit(self, train, *, rng, on_round=ignore):
        return Answer(zeros)


BROKEN = [
    (Thawed(), "is not a frozen dataclass"),
    (WrongSpace(), "SPACE has 'factor', which is not a parameter"),
    (WrongSpace(), "SPACE has 'integer' for factors"),
    (WrongUnavailable(), "UNAVAILABLE has 'epsilon', which is not a parameter"),
    (EmptyRange(), "give the lowest and the highest value"),
    (WrongShape(), "training homes: scores have shape"),
    (Doubles(), "scores are float64; give float32"),
    (Infinite(), "a score is infinite"),
    (Silent(), "everything is NaN"),
    (FailsOnNothing(), "finite or NaN: raised ValueError"),
    (OwnRandomness(), "the same seed gave different scores"),
    (ListenersChangeIt(), "because on_round was given"),
    (Remembers(), "fitted to A, to B and to A again"),
    (SharesItsModel(), "a fitted model changed its scores"),
    (KeepsParameters(), "fitting changed its parameters"),
    (WritesWhileFitting(), "fit changed the homes"),
    (WritesIntoPairs(), "score_pairs changed the pairs"),
    (ComparesHomes(), "which other homes are scored"),
    (ComparesPairs(), "which other pairs are scored"),
    (CountsPairs(), "the order of pairs"),
    (NeedsManyHomes(), "one home: raised ValueError"),
    (NeedsManyRules(), "one rule among them: raised ValueError"),
    (NeedsRules(), "without a rule: raised ZeroDivisionError"),
    (NeedsNumbers(), "whose users are text: raised"),
    (
        KnowsOnlyTrainingHomes(),
        "not in the training data: with rules, without, and with a type that no rule has: raised KeyError",
    ),
    (KnowsOnlySeenTypes(), "with a type that no rule has: raised IndexError"),
    (Upside(), "score no lower than the one that every other home has"),
    (CannotSay(), "no score for the rule that every other home"),
]


@pytest.mark.parametrize(("method", "words"), BROKEN, ids=lambda value: type(value).__name__)
def test_a_broken_method_is_told_what_is_wrong(method, words):
    assert any(words in finding for finding in check_method(method)), check_method(method)


def test_a_method_that_is_right_but_learns_nothing_passes_only_if_it_says_so():
    assert check_method(Broken()) == []

    @dataclass(frozen=True)
    class Claims(Broken):
        learns: ClassVar[bool] = True

    (finding,) = check_method(Claims())
    assert "score no lower than the one that every other home has" in finding


def test_a_method_that_sees_answers_in_training_need_not_find_what_a_home_does_not_show():
    @dataclass(frozen=True)
    class Learner(Broken):
        learns: ClassVar[bool] = True
        sees_answers: bool = True  # as built: a field or a property will do

    assert check_method(Learner()) == []
    (finding,) = check_method(Learner(sees_answers=False))
    assert "score no lower than the one that every other home has" in finding


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
def test_every_clause_is_broken_by_a_method_above(clause):
    def broken(method):
        try:
            return bool(list(clause(method)))
        except (ValueError, ZeroDivisionError, LookupError):
            return True

    assert any(broken(method) for method, _ in BROKEN)


def test_pairs_of_toy_homes_join_two_devices_of_one_home():
    homes = planted_homes()
    trigger, action = all_pairs(homes)
    devices = np.diff(homes.device_start)
    assert len(trigger) == (devices * (devices - 1)).sum()
    assert (homes.device_home[trigger] == homes.device_home[action]).all()
    assert len(RELATIONS) == len(homes.relations)
