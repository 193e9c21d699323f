"""One home with one rule left out, and what several methods would recommend to it (the paper's qualitative comparison).

Every method learns from the rules of all homes but for the hidden one. A user-item model chooses from all items,
whether or not the home has the devices for them; so it is asked about a home with one device of every type and the
same rules. Any other method ranks the pairs of the home's own devices. Rules that the home has are never listed.

Home and rule are chosen without a look at any model. The home has 4 to 7 devices and 4 to 6 rules, or is as near to
that as there is one. The rule occurs in another home too and, where rules come in groups, stands alone in its group.
Of all such rules, in the order of how many homes have them, it is the one in the middle: neither easy nor rare.

Log-odds become probabilities by the logistic function. Other scores are calibrated: one more rule of every home is left
out, the method fitted again, and the rules left out stand against as many non-rules whose types would allow them. (The
non-rules of the protocol `paper` would not do: nearly all of them are no item, and what is left is nearly certain.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from baselines.items import Items, UserItemModel
from baselines.method import Fitted, Scores
from benchmarks.evaluation.paper import Calibration, sampled_rules
from benchmarks.evaluation.scoring import CHUNK, score
from benchmarks.results.store import (
    HomeRule,
    Owned,
    TypedRule,
    as_json,
    name_of,
    read_record,
    read_records,
    write_record,
)
from benchmarks.runs.experiment import Experiment, Source
from benchmarks.runs.run import fit, has_log_odds
from datasets.candidates import Pairs, has_self_rules
from datasets.common.errors import DataError
from datasets.common.progress import Progress, Silent
from datasets.homes import Array, Home, Homes, Mask, Rules
from datasets.splits import Hidden, split
from datasets.valid import ValidRules

# --- Homes that a page can show: a handful of devices and rules, and rules in words.

Window = tuple[int, int]  # from and to, both included


def beyond(homes: Homes, *, devices: Window, rules: Window) -> Array:
    """[n_homes]: by how many devices and rules each home is too small or too large for these windows; 0 is inside."""
    distance = np.zeros(homes.n_homes, dtype=np.int64)
    for many, (least, most) in ((np.diff(homes.device_start), devices), (np.diff(homes.rule_start), rules)):
        distance += np.maximum(least - many, 0) + np.maximum(many - most, 0)
    return distance


def owned(home: Home) -> tuple[Owned, ...]:
    """What a home has."""
    return tuple(Owned(device.id, device.type) for device in home.devices)


def in_words(home: Home) -> tuple[HomeRule, ...]:
    """What a home has automated."""
    return tuple(
        HomeRule(
            Owned(rule.trigger.id, rule.trigger.type),
            rule.relation.trigger,
            rule.relation.action,
            Owned(rule.action.id, rule.action.type),
        )
        for rule in home.rules
    )


def typed_rule(homes: Homes, trigger_type: int, relation: int, action_type: int) -> TypedRule:
    """A typed rule by its numbers."""
    words = homes.relations[relation]
    return TypedRule(homes.types[trigger_type], words.trigger, words.action, homes.types[action_type])


# --- The top of a model's list for one home with one hidden rule, and the rank of that rule.
#
# Candidates are as in `benchmarks.evaluation.ranking`: ordered pairs of devices x relations minus the known rules, with and without
# the filter of typed rules seen in training; ties take the average rank, and what has no score is listed by nobody.

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
    home, rule = _example_lists_alone(hidden.homes, hidden.rules, which)
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


def _example_lists_alone(homes: Homes, rules: Rules, which: int) -> tuple[Homes, Rules]:
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


FOLDER = "examples"  # of the results
FORMAT = 1  # goes up when an example by the same methods would look different
DEVICES, RULES = (4, 7), (4, 6)


@dataclass(frozen=True, slots=True)
class Asked:
    """An example to make: homes of the track `types`, and methods with their parameters."""

    source: Source
    methods: tuple[Experiment, ...]  # on this source, all with the same seed

    def __post_init__(self) -> None:
        if not self.methods:
            raise DataError(f"{self.source.data}: an example without a method; name at least one")
        if self.source.track != "types":
            raise DataError(f"{self.source.data}: an example is made in the track types, not {self.source.track}")

    @property
    def seed(self) -> int:
        return self.methods[0].seed

    @property
    def codes(self) -> dict[str, str]:
        """Method -> its code as it is now; an example by other code is made again."""
        return {asked.method: asked.code for asked in self.methods}

    @property
    def file(self) -> str:
        """The name of its file."""
        methods = [(asked.method, asked.parameters) for asked in self.methods]
        return _file(self.source.data, self.source.options, self.source.fingerprint(), self.seed, methods)

    def __str__(self) -> str:
        return f"example of {', '.join(asked.method for asked in self.methods)} on {self.source.data}"


@dataclass(frozen=True, slots=True)
class Recommended:
    """What one method recommends."""

    method: str
    parameters: dict[str, object]  # all of them
    formulation: str  # "items": from all items; "graph": between the home's own devices
    calibrated: bool  # probabilities were fitted on validation data, since the scores are not log-odds
    seen: Listed  # among typed rules that occur in training, the headline's list
    every: Listed  # among all candidates


@dataclass(frozen=True, slots=True)
class Example:
    """A home, the rule that was left out, and the lists of the methods."""

    data: str
    options: dict[str, object]  # all of them
    fingerprint: str  # of the homes in the track `types`
    seed: int
    codes: dict[str, str]  # of the methods
    user: int | str
    devices: tuple[Owned, ...]
    known: tuple[HomeRule, ...]
    hidden: HomeRule
    homes_with_hidden: int  # other homes that have the typed rule
    methods: tuple[Recommended, ...]

    @property
    def file(self) -> str:
        """The name of its file."""
        methods = [(each.method, each.parameters) for each in self.methods]
        return _file(self.data, self.options, self.fingerprint, self.seed, methods)


def make(asked: Asked, *, bar: Progress | None = None) -> Example:
    """Fit every method, here and now, and keep what it recommends."""
    bar = bar or Silent()
    homes = asked.source.load()
    left_out = choose(homes)
    mask = np.arange(homes.n_rules) == left_out
    train, hidden = homes.with_rules(~mask), homes.rules.take(mask)
    which = int(hidden.home[0])
    whole, known = homes.home(which), train.home(which)
    words = dict(zip(whole.rules, in_words(whole), strict=True))
    (rule,) = set(whole.rules) - set(known.rules)
    methods = []
    for experiment in asked.methods:
        bar.note(f"{experiment.method} on {asked.source.data}")
        methods.append(_recommended(experiment, train, Hidden(train, hidden)))
        bar.step()
    item = Items.of(homes).number(homes)
    return Example(
        data=asked.source.data,
        options={name: as_json(value, name) for name, value in asked.source.options.items()},
        fingerprint=asked.source.fingerprint(),
        seed=asked.seed,
        codes=asked.codes,
        user=whole.user,
        devices=owned(whole),
        known=tuple(words[each] for each in known.rules),
        hidden=words[rule],
        homes_with_hidden=int(np.count_nonzero(item == item[left_out])) - 1,
        methods=tuple(methods),
    )


def choose(homes: Homes) -> int:
    """The rule to leave out, by its position; see the top of this file."""
    item = Items.of(homes).number(homes)
    homes_with = np.bincount(item)[item]  # merged types: a home has a typed rule once
    size = beyond(homes, devices=DEVICES, rules=RULES)[homes.rules.home]
    able = np.flatnonzero((homes_with > 1) & _alone(homes) & (np.diff(homes.rule_start)[homes.rules.home] > 1))
    if not len(able):
        raise DataError(f"{homes.name}: no rule to leave out for an example: none occurs in two homes; give more homes")
    able = able[size[able] == size[able].min()]
    return int(able[np.argsort(homes_with[able], kind="stable")][len(able) // 2])


def save(example: Example, asked: Asked, results: Path) -> Path:
    """Keep an example among results; the file."""
    path = results / FOLDER / asked.file
    write_record(path, example, FORMAT)
    return path


def load_examples(results: Path) -> tuple[list[Example], list[tuple[str, str]]]:
    """The examples among results; name and reason of each file that is none, which is left alone."""
    return read_records(results / FOLDER, Example, FORMAT)


def is_current(asked: Asked, results: Path) -> bool:
    """Whether there is this example by the code of now."""
    path = results / FOLDER / asked.file
    if not path.exists():
        return False
    try:
        return read_record(path, Example, FORMAT).codes == asked.codes
    except ValueError:
        return False


def _alone(homes: Homes) -> Mask:
    """[n_rules]: whether a rule is the only one of its group."""
    if homes.rules.group is None:
        return np.ones(homes.n_rules, dtype=np.bool_)
    groups = np.stack([homes.rules.home, homes.rules.group])
    _, of_rule, size = np.unique(groups, axis=1, return_inverse=True, return_counts=True)
    return np.equal(size[of_rule.reshape(-1)], 1)


def _recommended(asked: Experiment, train: Homes, hidden: Hidden) -> Recommended:
    fitted, _ = fit(asked, train)
    calibration = Calibration() if has_log_odds(asked) else _calibration(asked, train)
    from_items = isinstance(fitted, UserItemModel)
    seen, every = list_of(fitted, hidden, valid=ValidRules.of(train), calibration=calibration, all_types=from_items)
    return Recommended(
        asked.method,
        {name: as_json(value, name) for name, value in asked.parameters.items()},
        "items" if from_items else "graph",
        calibration.rescales,
        seen,
        every,
    )


def _calibration(asked: Experiment, homes: Homes) -> Calibration:
    """From one rule of every home, by a fit that has not seen these; `homes` lack the rule of the example already.

    Rules that nobody else has are left aside: no list that is filtered has them, and their scores mean nothing.
    """
    parts = split(homes, "leave_one_out", seed=asked.seed)
    fitted, _ = fit(asked, parts.train)
    sampled = sampled_rules(fitted, parts, part="test", seed=asked.seed, chunk=CHUNK, kinds=("feasible",))
    trigger_type, relation, action_type = sampled.homes.typed(sampled.rules)
    seen = ValidRules.of(parts.train).contains(trigger_type, action_type, relation)
    return Calibration.of(sampled.score[seen], sampled.positive[seen])


def _file(
    data: str,
    options: Mapping[str, object],
    fingerprint: str,
    seed: int,
    methods: Sequence[tuple[str, Mapping[str, object]]],
) -> str:
    """What an example asks: its data, seed, and methods with their parameters."""
    return name_of(
        {
            "data": data,
            "options": dict(options),
            "fingerprint": fingerprint,
            "seed": seed,
            "methods": [[method, dict(parameters)] for method, parameters in methods],
        }
    )
