"""Continuing the training of a saved model on new users' homes: quality for new and earlier users, and time.

A share of each home's rules is hidden once, for all models. One model is trained on the homes of the earlier users and
continued on those of the new users, a fifth of all; another is trained from scratch on all of them. Reported are means
over the seeds, each with other homes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
import fedrule
from benchmarks.evaluation import evaluate
from benchmarks.speed.measure import seconds
from datasets.homes import Homes
from datasets.splits import Split, split
from fedrule.inference import SavedModel
from fedrule.models.restore import restored

HOMES = {"smoke": 300, "default": 4_000, "paper": 20_000}
SEEDS = {"smoke": 1, "default": 3, "paper": 5}
SLOW = {"graphrank": 4}  # so many times fewer homes: it scores hundreds of candidates of each
OPTIONS: Mapping[str, Mapping[str, object]] = {"graphrule": {}, "fedrule": {}, "graphrank": {"rounds": 10}}
QUICK = {"rounds": 5}  # at the scale smoke
HIDDEN, NEW = 0.2, 0.2  # of the rules of each home, and of the homes


class Users(NamedTuple):
    """Homes with hidden rules, some of them of users who come later."""

    parts: Split
    later: set[int]  # the new ones

    @classmethod
    def of(cls, many: int, seed: int) -> Users:
        parts = split(datasets.load("wyze-synthetic", homes=many, seed=seed), "holdout", seed=seed, fraction=HIDDEN)
        users = parts.train.users
        new = np.random.default_rng(seed).permutation(len(users))[: round(NEW * len(users))]
        return cls(parts, set(users[new].tolist()))

    def homes(self, *, later: bool) -> Homes:
        """Those of the new users, or of the others, without their hidden rules."""
        train = self.parts.train
        return train.subset(np.array([(user in self.later) == later for user in train.users.tolist()]))

    def hidden_of_new(self) -> int:
        """The number of hidden rules of new users."""
        test = self.parts.test
        return int(np.isin(test.homes.users[test.rules.home], list(self.later)).sum())

    def metrics(self, model: SavedModel) -> dict[str, float]:
        """MRR and hit rate over the hidden rules of new and of earlier users, and mean AUC over their homes."""
        fitted, found = restored(model), {}
        ranking, paper = (evaluate(fitted, self.parts, protocol).homes for protocol in ("ranking", "paper"))
        for whose, later in (("new users", True), ("earlier users", False)):
            lists, sampled = (homes[homes["user"].isin(self.later) == later] for homes in (ranking, paper))
            for metric, name in (("mrr", "MRR"), ("hr@10", "HR@10")):
                found[f"{whose}: {name}"] = float(np.average(lists[metric], weights=lists["n_hidden"]))
            found[f"{whose}: AUC"] = float(sampled["auc"].mean())
        return found


@pytest.mark.parametrize("method", OPTIONS)
@pytest.mark.benchmark(group="continued training")
def test_continue_with_new_users(benchmark: BenchmarkFixture, scale: str, method: str) -> None:
    """The time from the model in memory to the next one with its card; the reference is training from scratch."""
    options = {**OPTIONS[method], **(QUICK if scale == "smoke" else {})}
    many = HOMES[scale] // SLOW.get(method, 1)
    everybody = [Users.of(many, seed) for seed in range(SEEDS[scale])]
    before = [fedrule.train(users.homes(later=False), method, options=options) for users in everybody]
    turns = iter(zip(everybody, before, strict=True))
    after: list[SavedModel] = []

    def next_turn() -> tuple[tuple[Homes, SavedModel], dict[str, object]]:
        users, model = next(turns)
        return (users.homes(later=True), model), {}

    def continue_training(homes: Homes, model: SavedModel) -> None:
        after.append(fedrule.train(homes, continue_from=model, evaluate=evaluate))

    benchmark.pedantic(continue_training, setup=next_turn, rounds=len(everybody))
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    scratch: list[SavedModel] = []

    def from_scratch(users: Users) -> None:
        scratch.append(fedrule.train(users.parts.train, method, options=options, evaluate=evaluate))

    reference = [seconds(lambda users=users: from_scratch(users)) for users in everybody]  # type: ignore[misc]
    benchmark.extra_info |= {
        "method": method,
        "homes": many,
        "seeds": len(everybody),
        "hidden rules": sum(len(users.parts.test) for users in everybody),
        "hidden rules of new users": sum(users.hidden_of_new() for users in everybody),
        "seconds": benchmark.stats["mean"],
        "seconds from scratch": float(np.mean(reference)),
        "ratio": float(np.mean(reference))
        / benchmark.stats["mean"],  # how many times as long training from scratch takes
    }
    models = {"before": before, "continued": after, "from scratch": scratch}
    found = {
        when: [users.metrics(model) for users, model in zip(everybody, each, strict=True)]
        for when, each in models.items()
    }
    for name in found["before"][0]:
        by_seed = {when: np.array([each[name] for each in of_seeds]) for when, of_seeds in found.items()}
        benchmark.extra_info |= {f"{when}, {name}": float(values.mean()) for when, values in by_seed.items()}
        for other in ("before", "from scratch") if len(everybody) > 1 else ():
            gain = by_seed["continued"] - by_seed[other]
            error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
            benchmark.extra_info[f"standard error of continued - {other}, {name}"] = error
