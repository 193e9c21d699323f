"""Splits: the rules of homes divided into train, validation and test.

The paper trains on 80 % of each home's rules and tests on the rest (section 4.1). Where rules come in groups (one
automation is its triggers x its actions) a group is hidden completely, since its other rules would leak it.

With `min_pair_count` only relations that `train` has at least so often are in the vocabulary, and rules of the others
are nowhere known. Hidden rules take no part in the decision; those of other relations stay hidden, and nobody can find
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from datasets.common.errors import DataError, unknown
from datasets.common.options import read_options
from datasets.common.random import Stream, generator
from datasets.homes import Array, Homes, Mask, Rules


def _no_rules() -> Rules:
    return Rules(*[np.zeros(0, dtype=np.int64)] * 4)


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """The rules that are known when predicting, and the hidden ones."""

    homes: Homes  # devices and known rules
    rules: Rules  # the hidden ones, sorted by home; homes and devices by their position in `homes`
    rare: Rules = field(default_factory=_no_rules)  # hidden as well, of relations outside of the vocabulary (-1)

    def __post_init__(self) -> None:
        sizes = self.homes.n_devices, len(self.homes.relations)
        if np.isin(self.rules.keys(*sizes), self.homes.rules.keys(*sizes)).any():
            raise DataError(f"{self.homes.name}: a rule is both known and hidden")

    def __len__(self) -> int:
        return len(self.rules) + len(self.rare)

    @property
    def every(self) -> Rules:
        """All hidden rules, sorted by home, whether they can be found or not."""
        return self.rules.joined(self.rare)

    def __repr__(self) -> str:
        return f"<{len(self):,} rules hidden of {self.homes!r}>"


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Homes divided into train, validation and test; a rule is in at most one of them (of a rare relation: in none).

    At validation time the rules of `train` are known, at test time those of validation as well: the same rules are
    hidden in `test` with or without a validation part. A model whose settings were chosen on validation is fitted again
    on `refit().train`, and then knows when tested what it was trained on.
    """

    name: str
    seed: int
    parameters: dict[str, float | bool]  # all that decides, besides the name and the seed, which rules are hidden
    train: Homes
    validation: Hidden  # empty unless requested
    test: Hidden
    source: Homes  # with all rules
    unseen_homes: bool  # the hidden rules are of homes that are not in `train`

    @property
    def key(self) -> dict[str, str | float | bool]:
        """What identifies the split in the key of a result."""
        return {"split": self.name, "seed": self.seed, **self.parameters}

    @property
    def forbidden(self) -> tuple[Rules, ...]:
        """Rules of the training homes that are hidden, which no negative may be; other homes' rules cannot be."""
        return () if self.unseen_homes else (self.validation.rules, self.test.rules)

    def __repr__(self) -> str:
        decided = ", ".join(f"{name}={value}" for name, value in self.key.items() if name != "split")
        sizes = (
            f"{self.train.n_rules:,} rules to train, {len(self.validation):,} to validate, {len(self.test):,} to test"
        )
        return f"<{self.name}({decided}) of {self.train.name}: {sizes}>"

    def refit(self) -> Split:
        """The same split with validation merged into train, as if there had been none."""
        return SPLITS[self.name](self.source, seed=self.seed, **self.parameters | {"validation": False})


def split(homes: Homes, how: str = "holdout", *, seed: int = 0, **options: object) -> Split:
    """Divide the rules of homes in one of the ways of SPLITS, by name; the options are those of its function."""
    if how not in SPLITS:
        raise unknown("split", how, SPLITS)
    return SPLITS[how](homes, **read_options(SPLITS[how], {"seed": seed, **options}, where=how))


def holdout(
    homes: Homes, *, seed: int = 0, fraction: float = 0.2, validation: bool = False, min_pair_count: int = 1
) -> Split:
    """The paper's: int(fraction * n) of the n rules of each home are hidden; homes too small for one still train.

    Groups are hidden in random order as long as their middle lies within the first int(fraction * n) rules: near the
    fraction on average, and exactly int(fraction * n) where no rules are grouped. No home loses all of its rules.
    """
    _check_fraction("holdout", fraction)

    def hide(known: Homes, rng: np.random.Generator) -> tuple[Homes, Hidden]:
        groups = _shuffled(known, rng)
        total = groups.rules_of_home
        middle = groups.before + groups.size / 2
        chosen = (middle <= (fraction * total).astype(np.int64)) & (groups.before + groups.size < total)
        hidden = _hide(known, chosen[groups.of_rule])
        return hidden.homes, hidden

    parameters = {"fraction": fraction, "validation": validation, "min_pair_count": min_pair_count}
    return _carve("holdout", homes, hide, seed=seed, parameters=parameters)


def leave_one_out(homes: Homes, *, seed: int = 0, validation: bool = False, min_pair_count: int = 1) -> Split:
    """One random rule (one group, where rules come in groups) of every home that keeps at least another."""

    def hide(known: Homes, rng: np.random.Generator) -> tuple[Homes, Hidden]:
        hidden = _hide_one(known, rng)
        return hidden.homes, hidden

    parameters: dict[str, float | bool] = {"validation": validation, "min_pair_count": min_pair_count}
    return _carve("leave_one_out", homes, hide, seed=seed, parameters=parameters)


def new_homes(
    homes: Homes, *, seed: int = 0, fraction: float = 0.2, validation: bool = False, min_pair_count: int = 1
) -> Split:
    """int(fraction * n) of the n homes with at least two rules (groups) are unseen in training.

    One rule (group) of each is hidden and the others are given as its context; validation homes are other unseen ones.
    """
    _check_fraction("new_homes", fraction)

    def hide(known: Homes, rng: np.random.Generator) -> tuple[Homes, Hidden]:
        groups = _shuffled(known, rng)
        able = np.unique(groups.home[groups.size < groups.rules_of_home])
        unseen = np.zeros(known.n_homes, dtype=np.bool_)
        unseen[rng.permutation(able)[: int(fraction * len(able))]] = True
        return known.subset(~unseen), _hide_one(known.subset(unseen), rng)

    parameters = {"fraction": fraction, "validation": validation, "min_pair_count": min_pair_count}
    return _carve("new_homes", homes, hide, seed=seed, parameters=parameters, unseen_homes=True)


SPLITS: dict[str, Callable[..., Split]] = {"holdout": holdout, "leave_one_out": leave_one_out, "new_homes": new_homes}


def _carve(
    name: str,
    homes: Homes,
    hide: Callable[[Homes, np.random.Generator], tuple[Homes, Hidden]],
    *,
    seed: int,
    parameters: dict[str, float | bool],
    unseen_homes: bool = False,
) -> Split:
    """Hide rules for test and, if requested, the same way for validation from the rest, with another random stream."""
    if seed < 0:
        raise DataError(f"{name}: seed must be at least 0, got {seed}")
    if not isinstance(parameters["validation"], bool):
        raise DataError(f"{name}: validation must be True or False, got {parameters['validation']}")
    if parameters["min_pair_count"] < 1:
        raise DataError(f"{name}: min_pair_count must be at least 1, got {parameters['min_pair_count']}")
    rest, test = hide(homes, generator(Stream.HIDE_TEST, seed))
    train, validation = rest, _nothing(rest)
    if parameters["validation"]:
        train, validation = hide(rest, generator(Stream.HIDE_VALIDATION, seed))
    made = Split(name, seed, parameters, train, validation, test, homes, unseen_homes)
    return made if parameters["min_pair_count"] == 1 else _keep_common_relations(made)


def _keep_common_relations(made: Split) -> Split:
    """The split without relations that its training rules have less than `min_pair_count` times."""
    vocabulary, least = made.train.relations, made.parameters["min_pair_count"]
    count = np.bincount(made.train.rules.relation, minlength=len(vocabulary))
    common = count >= least
    if not common.any():
        most = f"the commonest pair is seen {max(count, default=0)} times in training"
        raise DataError(f"{made.train.name}: min_pair_count={least} leaves no rule: {most}; choose less")
    relations = [relation for relation, kept in zip(vocabulary, common, strict=True) if kept]
    number = np.cumsum(common) - 1

    def known(homes: Homes) -> Homes:
        return homes.with_rules(common[homes.rules.relation]).with_vocabulary(homes.types, relations)

    def hidden(part: Hidden) -> Hidden:
        kept = common[part.rules.relation]
        rules, rare = part.rules.take(kept), part.rules.take(~kept)
        rules = replace(rules, relation=number[rules.relation])
        return Hidden(known(part.homes), rules, replace(rare, relation=np.full(len(rare), -1)))

    return replace(made, train=known(made.train), validation=hidden(made.validation), test=hidden(made.test))


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of rules, numbered home by home and in random order within each; a rule without group is its own."""

    of_rule: Array  # [n_rules]   the group of each rule
    home: Array  # [n_groups]
    size: Array  # [n_groups]  rules of the group
    before: Array  # [n_groups]  rules of the home in earlier groups
    rules_of_home: Array  # [n_groups]  rules of the home in all groups


def _shuffled(homes: Homes, rng: np.random.Generator) -> _Groups:
    rules = homes.rules
    number = np.arange(len(rules))
    if rules.group is not None:  # a group's number counts within its home only
        order = np.lexsort((rules.group, rules.home))
        first = (np.diff(rules.home[order], prepend=-1) != 0) | (np.diff(rules.group[order], prepend=0) != 0)
        number[order] = np.cumsum(first) - 1
    size = np.bincount(number)
    home = np.zeros_like(size)
    home[number] = rules.home
    order = np.lexsort((rng.random(len(size)), home))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    home, size = home[order], size[order]
    start = homes.rule_start
    before = np.cumsum(size) - size - start[home]
    return _Groups(place[number], home, size, before, np.diff(start)[home])


def _hide(homes: Homes, chosen: Mask) -> Hidden:
    return Hidden(homes.with_rules(~chosen), homes.rules.take(chosen))


def _hide_one(homes: Homes, rng: np.random.Generator) -> Hidden:
    groups = _shuffled(homes, rng)
    chosen = (groups.before == 0) & (groups.size < groups.rules_of_home)
    return _hide(homes, chosen[groups.of_rule])


def _nothing(homes: Homes) -> Hidden:
    none = np.zeros(0, dtype=np.int64)
    return Hidden(homes.subset(none), homes.rules.take(none))


def _check_fraction(name: str, fraction: float) -> None:
    if not 0 < fraction < 1:
        raise DataError(f"{name}: fraction must be in (0, 1), got {fraction}")
