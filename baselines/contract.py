"""The contract of methods, as a check that anyone can run on theirs.

    from baselines.contract import check_method
    assert check_method("my-method") == []

Optional attributes of a method say what cannot be seen from outside; those that depend on parameters are properties:

- `learns = False`: it does not learn from rules at all and need not find the planted one.
- `log_odds = True`: its scores are the log-odds of a rule against a sampled non-rule, as many of each, so that their
  loss needs no calibration.
- `sees_answers = True`: in training its target rules are part of its input. That a rule is missing there is then
  evidence against it, so it need not find the planted one.
- `SPACE`: the ranges in which its parameters are tuned.
- `UNAVAILABLE`: inherited parameters that it refuses unless they are left at their default, and why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from baselines.method import Fitted, Method, OnRound, Scores, ignore
from baselines.registry import build
from datasets.homes import Array, Homes, Relation, Rules

TYPES = ("ContactSensor", "Light", "MotionSensor", "Plug", "Siren")
RELATIONS = (
    Relation("Open", "Power On"),
    Relation("Motion", "Power On"),
    Relation("No Motion", "Power Off"),
    Relation("Open", "Ring"),  # no home uses it
)
CONTACT_LIGHT = ("ContactSensor", "Light")
MOTION_LIGHT = ("MotionSensor", "Light")
MOTION_RULE = ("MotionSensor", 1, "Light")
PLANTED = ("ContactSensor", 0, "Light")
N_HOMES = 30
SEED = 7
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # float32 sums in another order differ by less

Typed = tuple[str, int, str]  # trigger type, relation, action type
Findings: TypeAlias = Iterator[str]


class ToyHome(NamedTuple):
    """The devices and rules of one home; a rule joins the first devices of its types."""

    user: int | str
    owned: tuple[str, ...]
    rules: tuple[Typed, ...] = ()


def toy_homes(homes: Sequence[ToyHome]) -> Homes:
    """These homes as flat arrays, all with the same vocabularies."""
    device_home: list[int] = []
    device_type: list[int] = []
    device_ids: list[int] = []
    rules: list[tuple[int, int, int, int]] = []
    for number, home in enumerate(homes):
        first = len(device_home)
        device_home += [number] * len(home.owned)
        device_type += [TYPES.index(name) for name in home.owned]
        device_ids += range(len(home.owned))
        for trigger, relation, action in home.rules:
            rules.append((number, first + home.owned.index(trigger), first + home.owned.index(action), relation))
    columns = np.array(rules, dtype=np.int64).reshape(-1, 4).T
    users = [home.user for home in homes]
    return Homes(
        name="toy homes",
        types=TYPES,
        relations=RELATIONS,
        users=np.array(users) if users else np.zeros(0, dtype=np.int64),
        device_home=np.array(device_home, dtype=np.int64),
        device_type=np.array(device_type, dtype=np.int64),
        device_ids=np.array(device_ids, dtype=np.int64),
        rules=Rules(*columns),
    )


def planted_homes() -> Homes:
    """Every home with a ContactSensor and a Light has Open -> Power On between them, except the first home.

    All with a MotionSensor and a Light have Motion -> Power On, the first home too; of the homes with a Plug, every
    other one has No Motion -> Power Off. Nobody owns a Siren, and nobody uses Open -> Ring.
    """
    return toy_homes([_home(number, planted=number > 0, motion=True) for number in range(N_HOMES)])


def other_homes() -> Homes:
    """The same homes with other rules, to detect a method that keeps something of an earlier fit."""
    return toy_homes([_home(number, planted=False, motion=number % 2 == 0) for number in range(N_HOMES)])


def _home(number: int, *, planted: bool, motion: bool) -> ToyHome:
    contact, light, plug = number % 5 != 4, number % 7 != 6, number % 3 == 0
    twin = number == 1  # one home has two lights, which differ in their rules
    owned = ("ContactSensor",) * contact + ("Light",) * (light + twin) + ("MotionSensor",) + ("Plug",) * plug
    rules: list[Typed] = []
    if planted and contact and light:
        rules.append(PLANTED)
    if motion and light:
        rules.append(("MotionSensor", 1, "Light"))
    if plug and number % 2:
        rules.append(("MotionSensor", 2, "Plug"))
    return ToyHome(1000 + number, owned, tuple(rules))


def all_pairs(homes: Homes) -> tuple[Array, Array]:
    """Trigger and action of every ordered pair of two devices of a home, in the order of homes; read-only."""
    trigger, action = np.nonzero(homes.device_home[:, None] == homes.device_home)
    other = trigger != action
    trigger, action = trigger[other], action[other]
    trigger.flags.writeable = action.flags.writeable = False
    return trigger, action


def check_method(method: str | Method) -> list[str]:
    """How a method (or the one registered under a name, with its defaults) violates the contract.

    One sentence for each violation; empty if there is none.
    """
    method = build(method) if isinstance(method, str) else method
    findings: list[str] = []
    for clause in CLAUSES:
        try:
            findings += clause(method)
        except Exception as error:  # any error is the method's; the other clauses still run
            findings.append(f"{(clause.__doc__ or '').rstrip('.')}: raised {type(error).__name__}: {error}")
    return findings


def _is_its_parameters(method: Method) -> Findings:
    """A method is a frozen dataclass of its hyperparameters."""
    if not (dataclasses.is_dataclass(method) and type(method).__dataclass_params__.frozen):
        yield f"{type(method).__name__} is not a frozen dataclass of its hyperparameters"
        return
    known = {field.name for field in dataclasses.fields(method)}
    for name in getattr(type(method), "UNAVAILABLE", {}):
        if name not in known:
            yield f"UNAVAILABLE has {name!r}, which is not a parameter; there are: {', '.join(sorted(known))}"
    for name, (kind, *bounds) in getattr(type(method), "SPACE", {}).items():
        if name not in known:
            yield f"SPACE has {name!r}, which is not a parameter; there are: {', '.join(sorted(known))}"
        elif kind not in ("int", "float", "log", "choice"):
            yield f"SPACE has {kind!r} for {name}; use int, float, log or choice"
        elif kind != "choice" and not (len(bounds) == 2 and bounds[0] < bounds[1]):
            yield f"SPACE has {bounds} for {name}; give the lowest and the highest value"


def _scores_are_well_formed(method: Method) -> Findings:
    """Scores are float32 [n_pairs, n_relations], finite or NaN."""
    train = planted_homes()
    fitted = _fit(method, train)
    yield from _malformed(_scores(fitted, train), train, "training homes")
    if np.isnan(_scores(fitted, train)).all():
        yield "it has no score for the homes that it was trained on: everything is NaN"
    none = np.zeros(0, dtype=np.int64)
    nothing = fitted.score_pairs(train, none, none)
    if nothing.shape != (0, len(train.relations)):
        yield f"for no pairs, scores have shape {nothing.shape} instead of {(0, len(train.relations))}"


def _same_seed_same_bits(method: Method) -> Findings:
    """The same seed gives the same bits."""
    train = planted_homes()
    first = _scores(_fit(method, train), train)
    if not _same(first, _scores(_fit(method, train), train)):
        yield "the same seed gave different scores: all randomness must come from rng, and threads must not race"
    elif not _same(first, _scores(_fit(method, train, on_round=_use_model), train)):
        yield "scores changed because on_round was given"


def _fits_do_not_leak(method: Method) -> Findings:
    """Nothing fitted stays on the method."""
    train, other = planted_homes(), other_homes()
    before = repr(method)
    first = _fit(method, train)
    scores = _scores(first, train)
    _scores(_fit(method, other), other)
    if repr(method) != before:
        yield f"fitting changed its parameters from {before} to {method!r}"
    if not _same(scores, _scores(first, train)):
        yield "a fitted model changed its scores when the method was fitted to other homes"
    if not _same(scores, _scores(_fit(method, train), train)):
        yield "fitted to A, to B and to A again, it scores A differently: something of a fit was kept"


def _keeps_its_input(method: Method) -> Findings:
    """Homes and pairs are never changed."""
    train = planted_homes()
    print_before = train.fingerprint
    fitted = _fit(method, train)
    if train.fingerprint != print_before:
        yield "fit changed the homes that it was given"
    homes, (trigger, action) = planted_homes(), all_pairs(train)
    trigger, action = trigger.copy(), action.copy()
    fitted.score_pairs(homes, trigger, action)
    if homes.fingerprint != print_before:
        yield "score_pairs changed the homes that it was given"
    if not all(np.array_equal(now, then) for now, then in zip((trigger, action), all_pairs(train), strict=True)):
        yield "score_pairs changed the pairs that it was given"


def _scores_are_independent(method: Method) -> Findings:
    """A score does not depend on what else is scored in the same call."""
    train = planted_homes()
    fitted = _fit(method, train)
    together = _scores(fitted, train)
    trigger, action = all_pairs(train)
    home = train.device_home[trigger]
    alone = np.concatenate([_scores(fitted, train.subset(np.array([h]))) for h in np.unique(home)])
    if not np.allclose(together, alone, equal_nan=True, **CLOSE):
        yield "the scores of a home depend on which other homes are scored with it"
    backwards = fitted.score_pairs(train, trigger[::-1], action[::-1])[::-1]
    if not np.allclose(together, backwards, equal_nan=True, **CLOSE):
        yield "the scores of a pair depend on the order of pairs"
    few = np.arange(0, len(trigger), 3)
    if not np.allclose(together[few], fitted.score_pairs(train, trigger[few], action[few]), equal_nan=True, **CLOSE):
        yield "the scores of a pair depend on which other pairs are scored in the same call"


def _works_on(words: str, what: str, homes: Sequence[ToyHome]) -> Callable[[Method], Findings]:
    """The clause that a method fits and scores these homes."""

    def clause(method: Method) -> Findings:
        toys = toy_homes(homes)
        yield from _malformed(_scores(_fit(method, toys), toys), toys, words)

    clause.__doc__ = f"Fits and scores {what}."
    return clause


def _scores_new_homes(method: Method) -> Findings:
    """Scores homes that were not in the training data: with rules, without, and with a type that no rule has."""
    fitted = _fit(method, planted_homes())
    for home, words in (
        (ToyHome(1, (*CONTACT_LIGHT, "MotionSensor"), (MOTION_RULE,)), "a new home"),
        (ToyHome(1, CONTACT_LIGHT), "a new home without a rule"),
        (ToyHome(1, (*MOTION_LIGHT, "Siren"), (MOTION_RULE,)), "a home with a type that no training rule has"),
        (ToyHome(1, ("Siren", "Light"), (("Siren", 3, "Light"),)), "a home whose only rule was never seen"),
        (ToyHome(1000, CONTACT_LIGHT, (PLANTED,)), "a home of the training data with another rule"),
    ):
        homes = toy_homes([home])
        yield from _malformed(_scores(fitted, homes), homes, words)


def _finds_the_planted_rule(method: Method) -> Findings:
    """Ranks what everybody has above what nobody has."""
    if not getattr(type(method), "learns", True) or getattr(method, "sees_answers", False):
        return
    train = planted_homes()
    homes = train.subset(np.array([0]))
    scores = _scores(_fit(method, train), homes)
    trigger, action = all_pairs(homes)
    of_pair = np.stack([homes.device_type[trigger], homes.device_type[action]], axis=1)
    used = np.stack(train.typed(), axis=1)[:, [0, 2, 1]]
    unused = np.ones(scores.shape, dtype=np.bool_)
    for trigger_type, action_type, relation in np.unique(used, axis=0):
        unused[(of_pair == (trigger_type, action_type)).all(axis=1), relation] = False
    planted_pair = (of_pair == (TYPES.index(PLANTED[0]), TYPES.index(PLANTED[2]))).all(axis=1)
    (planted,) = scores[planted_pair, PLANTED[1]]
    if np.isnan(planted):
        yield "it has no score for the rule that every other home with the same devices has"
    elif (above := int(np.count_nonzero(scores[unused] >= planted))) > 0:
        yield f"{above} of {unused.sum()} rules that no home has score no lower than the one that every other home has"


CLAUSES: tuple[Callable[[Method], Findings], ...] = (
    _is_its_parameters,
    _scores_are_well_formed,
    _same_seed_same_bits,
    _fits_do_not_leak,
    _keeps_its_input,
    _scores_are_independent,
    _works_on("no home", "no home at all", []),
    _works_on("one home", "one home", [ToyHome(1, (*CONTACT_LIGHT, "MotionSensor"), (PLANTED, MOTION_RULE))]),
    _works_on(
        "one rule", "homes with one rule among them", [ToyHome(1, CONTACT_LIGHT, (PLANTED,)), ToyHome(2, CONTACT_LIGHT)]
    ),
    _works_on("no rule", "homes without a rule", [ToyHome(1, CONTACT_LIGHT), ToyHome(2, MOTION_LIGHT), ToyHome(3, ())]),
    _works_on(
        "users as text",
        "homes whose users are text",
        [ToyHome(name, CONTACT_LIGHT, (PLANTED,)) for name in ("anna", "ben")],
    ),
    _scores_new_homes,
    _finds_the_planted_rule,
)


def _fit(method: Method, train: Homes, on_round: OnRound = ignore) -> Fitted:
    return method.fit(train, rng=np.random.default_rng(SEED), on_round=on_round)


def _scores(fitted: Fitted, homes: Homes) -> Scores:
    """All pairs of all homes; a copy, to detect a model that returns the same array twice."""
    return np.array(fitted.score_pairs(homes, *all_pairs(homes)))


def _malformed(scores: Scores, homes: Homes, words: str) -> Findings:
    shape = (len(all_pairs(homes)[0]), len(homes.relations))
    if scores.dtype != np.float32:
        yield f"{words}: scores are {scores.dtype}; give float32"
    if scores.shape != shape:
        yield f"{words}: scores have shape {scores.shape} instead of {shape}, [n_pairs, n_relations]"
    if np.isinf(scores).any():
        yield f"{words}: a score is infinite; give a finite one, or NaN for no score"


def _same(one: Scores, other: Scores) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _use_model(done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:
    """An `on_round` that uses the model of each round."""
    if not 0 < done <= of:
        raise ValueError(f"on_round was called with round {done} of {of}")
    _scores(fitted, planted_homes())
    dict(values)
