"""The top of a model's list for one home with one hidden rule, and the rank of that rule.

Candidates are as in `benchmarks.evaluation.ranking`: ordered pairs of devices x relations minus the known rules, with and without
the filter of typed rules seen in training; ties take the average rank, and what has no score is listed by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from baselines.method import Fitted, Scores
from benchmarks.evaluation.calibrate import Calibration
from benchmarks.results.readable import typed_rule
from benchmarks.evaluation.scoring import score
from datasets.candidates import Pairs, has_self_rules
from datasets.homes import Array, Homes, Mask, Rules
from datasets.splits import Hidden
from datasets.valid import ValidRules

LONGEST = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A recommended rule."""

    trigger_type: str
    trigger_id: int | str | None  # None for a type of which the home has no device
    trigger_state: str
    action: str
    action_type: str
    action_id: int | str | None
    probability: float
    owned: bool  # the home has the devices for it
    seen: bool  # some home has this typed rule in training
    hidden: bool  # it is the rule that was left out


@dataclass(frozen=True, slots=True)
class Listed:
    """A list: its top, how long it is, and where the hidden rule stands."""

    rank: float | None  # None where the hidden rule is not in the list or got no score
    candidates: int
    top: tuple[Entry, ...]  # 20, or fewer where fewer have a score


def list_of(
    fitted: Fitted, hidden: Hidden, *, valid: ValidRules, calibration: Calibration, all_types: bool
) -> tuple[Listed, Listed]:
    """Of the one home that has the hidden rule: the filtered list, and that of all candidates.

    With `all_types` the home is given a device of every type it lacks. Homes are of the track `types`.
    """
    (which,) = hidden.rules.home.tolist()
    self_pairs = has_self_rules(hidden.homes.rules, hidden.rules)
    home, rule = _alone(hidden.homes, hidden.rules, which)
    n_own = home.n_devices
    shown = with_every_type(home) if all_types else home
    pairs = Pairs.of(shown, self_pairs=self_pairs)
    _, trigger, action = pairs.devices(np.arange(pairs.start[-1]))
    scores = score(fitted, shown, trigger, action)
    candidate = np.ones(scores.shape, dtype=np.bool_)
    candidate[pairs.number(shown.rules), shown.rules.relation] = False
    types = shown.device_type
    relations = np.arange(len(shown.relations))
    seen = valid.contains(types[trigger][:, None], types[action][:, None], relations)
    target = int(pairs.number(rule)[0]), int(rule.relation[0])
    ids = [*home.device_ids.tolist(), *[None] * (shown.n_devices - n_own)]

    def entry(place: int) -> Entry:
        pair, relation = divmod(place, len(relations))
        begin, end = int(trigger[pair]), int(action[pair])
        words = typed_rule(shown, int(types[begin]), relation, int(types[end]))
        odds = float(calibration.apply(np.array([scores[pair, relation]], dtype=np.float64))[0])
        return Entry(
            words.trigger_type,
            ids[begin],
            words.trigger_state,
            words.action,
            words.action_type,
            ids[end],
            round(0.5 + 0.5 * float(np.tanh(odds / 2)), 6),  # the logistic function, which never overflows so
            max(begin, end) < n_own,
            bool(seen[pair, relation]),
            (pair, relation) == target,
        )

    def listed(among: Mask) -> Listed:
        rank = _rank(scores, among, target)
        return Listed(rank, int(among.sum()), tuple(entry(int(place)) for place in _top(scores, among)))

    return listed(candidate & seen), listed(candidate)


def with_every_type(home: Homes) -> Homes:
    """One home with a device more for every type it lacks, behind its own; the rules stay."""
    lacking = np.setdiff1d(np.arange(len(home.types)), home.device_type)
    n_devices = home.n_devices + len(lacking)
    return replace(
        home,
        device_home=np.zeros(n_devices, dtype=np.int64),
        device_type=np.concatenate([home.device_type, lacking]),
        device_ids=np.arange(n_devices),  # nobody asks: a user-item model knows types only
        provenance=home.provenance.derived(),
    )


def _alone(homes: Homes, rules: Rules, which: int) -> tuple[Homes, Rules]:
    """A home without its neighbours, and a rule of it that counts devices from its first."""
    first = homes.device_start[which]
    moved = Rules(rules.home - which, rules.trigger - first, rules.action - first, rules.relation)
    return homes.subset(np.array([which])), moved


def _rank(scores: Scores, among: Mask, target: tuple[int, int]) -> float | None:
    own = scores[target]
    if not among[target] or np.isnan(own):
        return None
    others = scores[among]
    return float(np.count_nonzero(others > own) + np.count_nonzero(others >= own) + 1) / 2


def _top(scores: Scores, among: Mask) -> Array:
    """Cells by falling score; of equal ones the first pair and relation first."""
    places = np.flatnonzero(among & ~np.isnan(scores))
    return places[np.argsort(-scores.ravel()[places], kind="stable")][:LONGEST]
