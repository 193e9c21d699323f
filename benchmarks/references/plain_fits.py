"""Fits as loops over homes: what the time of every method's fit is compared with.

Where the same method exists in plain code, that code; for any other method the simplest fit there is, counting the
homes of each typed rule with dictionaries. The first says how many times faster a method is than a loop over homes, the
second how long it takes in a unit that depends on the machine, and not on the method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from baselines.registry import build
from benchmarks.references.rule_features import (
    PlainPaths,
    PlainSimilarity,
    TypedRule,
    agreeing_rules,
    plain_homes,
    plain_rules,
)
from datasets.homes import Homes
from datasets.valid import ValidRules
from fedrule.training.examples import Examples, ExampleSampler

if TYPE_CHECKING:
    from fedrule.methods.features.recrules import RecRules
    from fedrule.methods.features.takg import TaKG

COUNTING = "homes of each typed rule, counted with dictionaries"


class PlainFit(NamedTuple):
    """A fit of `homes` homes takes the time of `work` so many `times`."""

    about: str
    homes: int
    work: Callable[[], object]
    times: float = 1


def plain_fit(name: str, homes: Homes, sample: int) -> PlainFit:
    """The plain fit of a method with its defaults, for the first `sample` of these homes, which should be few.

    What other homes say to them is prepared, and its time not counted.
    """
    if name in OF_FEATURES:
        return OF_FEATURES[name](name, homes, sample)
    few = homes.subset(np.arange(min(sample, homes.n_homes)))
    return OF_ROUNDS[name](name, few) if name in OF_ROUNDS else PlainFit(COUNTING, sample, lambda: homes_of_rules(few))


def homes_of_rules(homes: Homes) -> dict[TypedRule, set[int]]:
    """What `popularity` counts: the homes of each typed rule."""
    found: dict[TypedRule, set[int]] = defaultdict(set)
    for number, home in enumerate(plain_homes(homes)):
        for rule in home.rules:
            found[rule.typed].add(number)
    return found


def _network(name: str, homes: Homes) -> PlainFit:
    """Rounds of training, one small graph after the other."""
    import torch

    from benchmarks.references.home_by_home import HomeByHome, home_graphs
    from fedrule.methods.graphrule import GraphRule
    from fedrule.network.encoders import Sizes
    from fedrule.network.network import Network
    from fedrule.network.score import Scorer

    method = build(name)
    assert isinstance(method, GraphRule)
    valid = ValidRules.of(homes)
    scorer = Scorer(Network(Sizes(len(homes.types), len(homes.relations))), valid)
    examples = ExampleSampler.of(homes, valid).draw(np.random.default_rng(0))
    slow, sample = HomeByHome(scorer.initial(torch.Generator().manual_seed(0))), home_graphs(examples, homes.n_homes)
    optimizer = torch.optim.Adam(slow.parameters(), lr=0.1)

    def one_round() -> None:
        loss = slow.loss(sample)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()

    return PlainFit("rounds of training, home by home", len(sample), one_round, method.rounds)


def _federated(name: str, homes: Homes) -> PlainFit:
    """Rounds of FedAvg or of Algorithm 2, one client after the other."""
    import torch

    from benchmarks.references.home_by_home import ClientByClient, home_graphs
    from fedrule.methods.federated import Federated

    method = build(name)
    assert isinstance(method, Federated)
    prepared = method.prepare(homes, np.random.default_rng(0))
    initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
    examples = ExampleSampler.of(homes, ValidRules.of(homes)).draw(np.random.default_rng(0))
    corrects = method.ALGORITHM not in ("fedavg", "fedprox")  # the proximal term is left out
    sample = home_graphs(examples, homes.n_homes)
    loop = ClientByClient(initial, sample, steps=method.local_steps, rate=method.learning_rate, correct=corrects)
    about = "Algorithm 2" if corrects else "FedAvg"
    return PlainFit(f"rounds of {about}, client by client", len(sample), loop.round, method.rounds)


def _paths(name: str, homes: Homes, sample: int) -> PlainFit:
    """Features of all training candidates; growing the trees is not even counted."""
    from fedrule.evidence.rule_paths import PATHS
    from fedrule.methods.features.recrules import RecRules

    method = build(name)
    assert isinstance(method, RecRules)
    drawn = _examples(homes, sample, hidden=method.hidden_rules, non_rules=method.non_rules)
    graph = PlainPaths(homes)

    def features() -> None:
        candidates = plain_rules(drawn.context, drawn.candidates)
        start = np.searchsorted(drawn.candidates.home, np.arange(drawn.context.n_homes + 1)).tolist()
        for number, home in enumerate(plain_homes(drawn.context)):
            if some := candidates[start[number] : start[number + 1]]:
                graph.features(home, some, PATHS)

    return PlainFit(
        "paths to all training candidates, home by home", drawn.context.n_homes, features, _draws(method, homes)
    )


def _knowledge_graph(name: str, homes: Homes, sample: int) -> PlainFit:
    """Features of all training candidates, without the home frequencies; growing the trees is not even counted."""
    from fedrule.evidence.rule_paths import COLLABORATIVE
    from fedrule.methods.features.takg import OPPOSITE, REPEAT, SIMILAR, TaKG

    method = build(name)
    assert isinstance(method, TaKG)
    drawn = _examples(homes, sample, hidden=method.hidden_rules, non_rules=method.non_rules)
    similarity, paths = PlainSimilarity(homes), PlainPaths(homes)

    def features() -> None:
        candidates = plain_rules(drawn.context, drawn.candidates)
        start = np.searchsorted(drawn.candidates.home, np.arange(drawn.context.n_homes + 1)).tolist()
        for number, home in enumerate(plain_homes(drawn.context)):
            some = candidates[start[number] : start[number + 1]]
            paths.features(home, some, [COLLABORATIVE])
            for candidate in some:
                for half, pattern in SIMILAR:
                    similarity.largest(home, candidate, half, pattern)
                for pattern in REPEAT:
                    agreeing_rules(home, candidate, pattern)
                for turned, patterns in OPPOSITE.items():
                    for pattern in patterns:
                        agreeing_rules(home, candidate, pattern, opposite=turned)

    return PlainFit(
        "features of all training candidates, one by one", drawn.context.n_homes, features, _draws(method, homes)
    )


def _draws(method: RecRules | TaKG, homes: Homes) -> float:
    """Draws of a home, mean over all homes: less than one where examples are not drawn of all."""
    return method.examples.n_drawn(homes.n_homes) / max(homes.n_homes, 1)


def _examples(homes: Homes, sample: int, *, hidden: float, non_rules: int) -> Examples:
    """Training candidates of the first homes, among the rules of all."""
    few = homes.subset(np.arange(min(sample, homes.n_homes)))
    valid = ValidRules.of(homes)
    sampler = ExampleSampler.of(few, valid, hidden=hidden, non_rules="feasible", per_rule=non_rules)
    return sampler.draw(np.random.default_rng(0))


# By the name of the method: what makes its plain fit.
OF_ROUNDS: dict[str, Callable[[str, Homes], PlainFit]] = {
    "graphrule": _network,
    "fedgnn": _federated,
    "fedprox": _federated,
    "fedrule": _federated,
    "fedgate": _federated,
    "scaffold": _federated,
}
OF_FEATURES: dict[str, Callable[[str, Homes, int], PlainFit]] = {"recrules": _paths, "takg": _knowledge_graph}
