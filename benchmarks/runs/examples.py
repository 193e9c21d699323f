"""Make examples: one home with one rule left out, and what several methods recommend to it.

Every method is fitted on the rules of all homes except the hidden one. A user-item model chooses from all items,
whether or not the home has the devices for them, so it scores a home with one device of every type and the same rules.
Any other method ranks the pairs of the home's own devices. Rules that the home has are never listed.

Home and rule are chosen without a look at any model. The home has 4 to 7 devices and 4 to 6 rules, or is the nearest
to that. The rule occurs in another home too and, where rules come in groups, is the only one of its group. Of all such
rules, ordered by how many homes have them, it is the median: neither easy nor rare.

Log-odds become probabilities by the logistic function. Other scores are calibrated: one more rule of every home is left
out, the method is fitted again, and the rules left out are compared with as many non-rules whose types would allow
them. (The non-rules of protocol `paper` would not do: nearly all of them have no item, and what is left is certain.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from baselines.calibration import Calibration
from baselines.items import Items, UserItemModel
from baselines.method import Fitted, Scores
from baselines.scoring import CHUNK, score, score_examples
from benchmarks.results.records import (
    EXAMPLE_FORMAT,
    EXAMPLES,
    LONGEST_EXAMPLE,
    Entry,
    Example,
    HomeRule,
    MethodLists,
    OwnedDevice,
    RankedList,
    TypedRule,
    as_json,
    example_file,
    read_record,
    write_record,
)
from benchmarks.runs.experiment import Experiment, Source
from benchmarks.runs.run import fit, has_log_odds
from datasets.candidates import Pairs, has_self_rules
from datasets.common.errors import DataError
from datasets.common.progress import Progress
from datasets.homes import Array, Device, Home, Homes, Mask, Rules
from datasets.splits import Hidden, split
from datasets.valid import ValidRules

Window = tuple[int, int]  # from and to, both included
DEVICES, RULES = (4, 7), (4, 6)


@dataclass(frozen=True, slots=True)
class ExampleSpec:
    """An example to make: homes of the track `types`, and methods with their parameters."""

    source: Source
    methods: tuple[Experiment, ...]  # on this source, all with the same seed

    def __post_init__(self) -> None:
        if not self.methods:
            raise DataError(f"{self.source.data}: the example has no method; name at least one")
        if self.source.track != "types":
            raise DataError(f"{self.source.data}: examples need the track types, got {self.source.track}")

    @property
    def seed(self) -> int:
        return self.methods[0].seed

    @property
    def codes(self) -> dict[str, str]:
        """Method -> hash of its code now; an example by other code is made again."""
        return {each.method: each.code for each in self.methods}

    @property
    def file(self) -> str:
        """The name of its file."""
        methods = [(each.method, each.parameters) for each in self.methods]
        return example_file(self.source.data, self.source.options, self.source.fingerprint(), self.seed, methods)

    def is_current(self, results: Path) -> bool:
        """Whether results have this example, made by today's code."""
        try:
            return read_record(results / EXAMPLES / self.file, Example, EXAMPLE_FORMAT).codes == self.codes
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"example of {', '.join(each.method for each in self.methods)} on {self.source.data}"


def make_example(spec: ExampleSpec, *, bar: Progress | None = None) -> Example:
    """Fit every method in this process and collect its lists."""
    bar = bar or Progress()
    homes = spec.source.load()
    left_out = choose_rule(homes)
    mask = np.arange(homes.n_rules) == left_out
    train, hidden = homes.with_rules(~mask), homes.rules.take(mask)
    which = int(hidden.home[0])
    whole, known = homes.home(which), train.home(which)
    words = dict(zip(whole.rules, rules_in_words(whole), strict=True))
    (rule,) = set(whole.rules) - set(known.rules)
    methods = []
    for experiment in spec.methods:
        bar.note(f"{experiment.method} on {spec.source.data}")
        methods.append(_method_lists(experiment, train, Hidden(train, hidden)))
        bar.step()
    item = Items.of(homes).number(homes)
    return Example(
        data=spec.source.data,
        options={name: as_json(value, name) for name, value in spec.source.options.items()},
        fingerprint=spec.source.fingerprint(),
        seed=spec.seed,
        codes=spec.codes,
        user=whole.user,
        devices=owned_devices(whole),
        known=tuple(words[each] for each in known.rules),
        hidden=words[rule],
        homes_with_hidden=int(np.count_nonzero(item == item[left_out])) - 1,
        methods=tuple(methods),
    )


def save_example(example: Example, results: Path) -> Path:
    """Store an example among results; its file."""
    return write_record(results / EXAMPLES / example.file, example, EXAMPLE_FORMAT)


def choose_rule(homes: Homes) -> int:
    """The position of the rule to leave out, see the top of this file."""
    item = Items.of(homes).number(homes)
    homes_with = np.bincount(item)[item]  # merged types: a home has a typed rule once
    size = distance(homes, devices=DEVICES, rules=RULES)[homes.rules.home]
    able = np.flatnonzero((homes_with > 1) & _alone(homes) & (np.diff(homes.rule_start)[homes.rules.home] > 1))
    if not len(able):
        raise DataError(f"{homes.name}: no rule to leave out for an example: none occurs in two homes; give more homes")
    able = able[size[able] == size[able].min()]
    return int(able[np.argsort(homes_with[able], kind="stable")][len(able) // 2])


def _alone(homes: Homes) -> Mask:
    """[n_rules]: whether a rule is the only one of its group."""
    if homes.rules.group is None:
        return np.ones(homes.n_rules, dtype=np.bool_)
    groups = np.stack([homes.rules.home, homes.rules.group])
    _, of_rule, size = np.unique(groups, axis=1, return_inverse=True, return_counts=True)
    return np.equal(size[of_rule.reshape(-1)], 1)


def _method_lists(experiment: Experiment, train: Homes, hidden: Hidden) -> MethodLists:
    fitted, recorder = fit(experiment, train)
    calibration = Calibration() if has_log_odds(experiment) else _calibration(experiment, train)
    from_items = isinstance(fitted, UserItemModel)
    seen, every = ranked_lists(
        fitted, hidden, valid=ValidRules.of(train), calibration=calibration, all_types=from_items
    )
    parameters: dict[str, object] = {name: as_json(value, name) for name, value in experiment.parameters.items()}
    formulation = "items" if from_items else "graph"
    warnings = tuple(each.text for each in recorder.warnings if each.marked)
    return MethodLists(experiment.method, parameters, formulation, calibration.rescales, seen, every, warnings)


def _calibration(experiment: Experiment, homes: Homes) -> Calibration:
    """From one more rule of every home, by a fit without them.

    Rules that no other home has are left out: no filtered list has them, and their scores mean nothing.
    """
    parts = split(homes, "leave_one_out", seed=experiment.seed)
    fitted, _ = fit(experiment, parts.train)
    sampled = score_examples(fitted, parts, part="test", seed=experiment.seed, chunk=CHUNK, kinds=("feasible",))
    trigger_type, relation, action_type = sampled.homes.typed(sampled.rules)
    seen = ValidRules.of(parts.train).contains(trigger_type, action_type, relation)
    return Calibration.of(sampled.score[seen], sampled.positive[seen])


def ranked_lists(
    fitted: Fitted, hidden: Hidden, *, valid: ValidRules, calibration: Calibration, all_types: bool
) -> tuple[RankedList, RankedList]:
    """The lists of the home with the hidden rule: of typed rules seen in training, and of all candidates.

    Candidates and ties are as in `benchmarks.evaluation.ranking`; candidates without a score are not listed. With
    `all_types` the home gets a device of every type it lacks. Homes are of the track `types`.
    """
    (which,) = hidden.rules.home.tolist()
    self_pairs = has_self_rules(hidden.homes.rules)  # true if the hidden rule is one, since another home has it too
    first = hidden.homes.device_start[which]
    home, of = hidden.homes.subset(np.array([which])), hidden.rules
    rule = Rules(of.home - which, of.trigger - first, of.action - first, of.relation)
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

    def entry(cell: int) -> Entry:
        pair, relation = divmod(cell, len(relations))
        begin, end = int(trigger[pair]), int(action[pair])
        words = typed_rule(shown, int(types[begin]), relation, int(types[end]))
        odds = float(calibration.apply(np.array([scores[pair, relation]], dtype=np.float64))[0])
        probability = round(0.5 + 0.5 * float(np.tanh(odds / 2)), 6)  # the logistic function, without overflow
        flags = max(begin, end) < n_own, bool(seen[pair, relation]), (pair, relation) == target
        one, other = (words.trigger_type, ids[begin]), (words.action_type, ids[end])
        return Entry(*one, words.trigger_state, words.action, *other, probability, *flags)

    def listed(among: Mask) -> RankedList:
        cells = np.flatnonzero(among & ~np.isnan(scores))  # best first; ties in the order of pairs and relations
        top = cells[np.argsort(-scores.ravel()[cells], kind="stable")][:LONGEST_EXAMPLE]
        return RankedList(_rank(scores, among, target), int(among.sum()), tuple(entry(int(cell)) for cell in top))

    return listed(candidate & seen), listed(candidate)


def _rank(scores: Scores, among: Mask, target: tuple[int, int]) -> float | None:
    own = scores[target]
    if not among[target] or np.isnan(own):
        return None
    others = scores[among]
    return float(np.count_nonzero(others > own) + np.count_nonzero(others >= own) + 1) / 2


def with_every_type(home: Homes) -> Homes:
    """One home with an extra device for every type it lacks, after its own; the rules stay."""
    lacking = np.setdiff1d(np.arange(len(home.types)), home.device_type)
    n_devices = home.n_devices + len(lacking)
    return replace(
        home,
        device_home=np.zeros(n_devices, dtype=np.int64),
        device_type=np.concatenate([home.device_type, lacking]),
        device_ids=np.arange(n_devices),  # not used: a user-item model knows types only
        provenance=home.provenance.derived(),
    )


def distance(homes: Homes, *, devices: Window, rules: Window) -> Array:
    """[n_homes]: how many devices and rules each home has too few or too many for these windows; 0 is inside."""
    found = np.zeros(homes.n_homes, dtype=np.int64)
    for count, (least, most) in ((np.diff(homes.device_start), devices), (np.diff(homes.rule_start), rules)):
        found += np.maximum(least - count, 0) + np.maximum(count - most, 0)
    return found


def owned_devices(home: Home) -> tuple[OwnedDevice, ...]:
    """The devices of a home."""
    return tuple(map(_owned, home.devices))


def _owned(device: Device) -> OwnedDevice:
    return OwnedDevice(device.id, device.type)


def rules_in_words(home: Home) -> tuple[HomeRule, ...]:
    """The rules of a home."""
    return tuple(
        HomeRule(_owned(rule.trigger), rule.relation.trigger, rule.relation.action, _owned(rule.action))
        for rule in home.rules
    )


def typed_rule(homes: Homes, trigger_type: int, relation: int, action_type: int) -> TypedRule:
    """A typed rule by its numbers."""
    words = homes.relations[relation]
    return TypedRule(homes.types[trigger_type], words.trigger, words.action, homes.types[action_type])
