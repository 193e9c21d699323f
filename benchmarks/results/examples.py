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
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from baselines.items import Items, UserItemModel
from benchmarks.evaluation.calibrate import Calibration
from benchmarks.results.example_lists import Listed, list_of
from benchmarks.runs.experiment import Experiment, Source
from benchmarks.results.key import as_json
from benchmarks.runs.perform import fit, has_log_odds
from benchmarks.results.readable import beyond, in_words, owned
from benchmarks.results.records import HomeRule, Owned, name_of, read_record, read_records, write_record
from benchmarks.evaluation.sampled import sampled_rules
from benchmarks.evaluation.scoring import CHUNK
from datasets import Homes
from datasets.common.errors import DataError
from datasets.homes import Mask
from datasets.splits import Hidden, split
from datasets.valid import ValidRules
from datasets.common.progress import Progress, Silent

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
