"""Fits as loops over homes: what the time of every method's fit is compared with.

Where the same method exists in plain code, that code; for any other method the simplest fit there is, counting the
homes of each typed rule with dictionaries. The first says how many times faster a method is than a loop over homes, the
second how long it takes in a unit that depends on the machine, and not on the method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
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
    from fedrule.methods.graph_method import GraphMethod

COUNTING = "homes of each typed rule, counted with dictionaries"


class PlainFit(NamedTuple):
    """A fit of `homes` homes takes the time of `work` so many `times`."""

    about: str
    homes: int
    work: Callable[[], object]
    times: float = 1.0
    same: bool = True  # it does what the method does; else it is a unit of time


def plain_fit(name: str, homes: Homes, sample: int) -> PlainFit:
    """The plain fit of a method with its defaults, for the first `sample` of these homes, which should be few.

    What other homes say to them is prepared, and its time not counted.
    """
    if name in OF_FEATURES:
        return OF_FEATURES[name](name, homes, sample)
    few = homes.subset(np.arange(min(sample, homes.n_homes)))
    if name in OF_ROUNDS:
        return OF_ROUNDS[name](name, few, homes)
    return PlainFit(COUNTING, few.n_homes, lambda: homes_of_rules(few), same=name == "popularity")


def homes_of_rules(homes: Homes) -> dict[TypedRule, set[int]]:
    """What `popularity` counts: the homes of each typed rule."""
    found: dict[TypedRule, set[int]] = defaultdict(set)
    for number, home in enumerate(plain_homes(homes)):
        for rule in home.rules:
            found[rule.typed].add(number)
    return found


def _sage(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Rounds of training, one small graph after the other, by torch-geometric's layers."""
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

    return PlainFit("rounds of training, home by home", len(sample), one_round, method._rounds(train))


def _federated(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Rounds of FedAvg or of Algorithm 2, one client after the other."""
    del train  # all of its homes take part in every round
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


def _network(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Steps of training by the method's own network, loss and examples, a home at a time."""
    from fedrule.methods.federated import Federated
    from fedrule.methods.graphrule import GraphRule

    method = build(name)
    assert isinstance(method, Federated | GraphRule)
    if isinstance(method, Federated):
        times = method.rounds * method.local_steps * _in_a_round(method.cohort, train)
    else:
        times = method._rounds(train) * _in_a_round(method.homes_per_draw, train)
    about = "steps of training, home by home"
    return PlainFit(about, homes.n_homes, home_steps(method, homes), times)


def home_steps(method: GraphMethod, homes: Homes) -> Callable[[], object]:
    """The gradients of each home's own loss, one home after the other; drawing examples is not counted."""
    import torch

    from fedrule.training.loop import BatchLoss, TrainingBatch

    rng = np.random.default_rng(0)
    scorer = method.prepare(homes, rng).scorer
    options = method.sampling_options | ({"non_rules": "feasible"} if "hard" in method.non_rules else {})
    examples = ExampleSampler.of(homes, scorer.valid, hidden=method.hidden_rules, **options).draw(rng)
    some = np.unique(examples.candidates.home)
    batches = [TrainingBatch.of(scorer, examples.subset(np.array([home]))) for home in some]
    loss = BatchLoss(scorer, method.objective_function)
    parameters = {key: value.requires_grad_() for key, value in scorer.initial(torch.Generator()).items()}

    def steps() -> None:
        for batch in batches:
            torch.autograd.backward(loss(parameters, batch))

    return steps


def _in_a_round(most: int, train: Homes) -> float:
    """The share of homes that take part in a round with at most so many; 0: all."""
    return min(1.0, most / train.n_homes) if most else 1.0


def _triples(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Steps of torch-geometric's knowledge-graph models on the triples of each home and as many corrupted ones."""
    import torch
    from torch_geometric.nn import ComplEx, RotatE

    from baselines.items import Items
    from baselines.knowledge_graph.methods import KnowledgeGraph
    from fedrule.methods.fede import FedE

    method = build(name)
    assert isinstance(method, KnowledgeGraph | FedE)
    if isinstance(method, FedE):
        score, times = method.score, method.rounds * method.local_steps * _in_a_round(method.cohort, train)
    else:
        score, times = method.SCORE, method.schedule(int(Items.of(train).matrix(train).nnz))[0]
    model = (ComplEx if score == "complex" else RotatE)(
        len(homes.types), max(len(homes.relations), 1), method.dimension
    )
    trigger, relation, action = (torch.tensor(column) for column in homes.typed(homes.rules))
    start = np.searchsorted(homes.rules.home, np.arange(homes.n_homes + 1)).tolist()

    def steps() -> None:
        for first, last in pairwise(start):
            if last > first:
                own = slice(first, last)
                torch.autograd.backward(model.loss(trigger[own], relation[own], action[own]))

    return PlainFit("steps of torch-geometric's model, home by home", homes.n_homes, steps, times)


def _factors(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Rounds in which each home solves for its factors by a dense system and computes the gradient of all items."""
    from baselines.items import Items
    from fedrule.methods.user_item.fcf import FederatedCollaborativeFiltering

    method = build(name)
    assert isinstance(method, FederatedCollaborativeFiltering)
    items = Items.of(homes)
    have = items.matrix(homes).toarray().astype(np.float64)
    y = np.random.default_rng(0).standard_normal((len(items), method.factors))
    ridge = method.regularization * np.eye(method.factors)

    def one_round() -> None:
        gradient = np.zeros_like(y)
        for row in have:
            weight = 1 + (method.alpha - 1) * row
            x = np.linalg.solve((y * weight[:, None]).T @ y + ridge, y.T @ (weight * row))
            gradient += np.outer(weight * (y @ x - row), x)

    times = method.rounds * _in_a_round(method.cohort, train)
    return PlainFit("rounds of alternating least squares, home by home", homes.n_homes, one_round, times)


def _local_graphs(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Rounds of LightGCN on the graph of each home by torch's autograd, one non-rule beside each rule."""
    import torch

    from baselines.items import Items
    from fedrule.methods.user_item.fedlightgcn import FederatedLightGcn

    method = build(name)
    assert isinstance(method, FederatedLightGcn)
    items = Items.of(homes)
    own = [torch.from_numpy(row.nonzero()[0]) for row in items.matrix(homes).toarray()]
    table = torch.randn(max(len(items), 1), method.dimension, requires_grad=True)

    def one_round() -> None:
        for have in own:
            if not len(have):
                continue
            home, rows = torch.zeros(method.dimension, requires_grad=True), table[have]
            total, state = home, home
            for _ in range(method.layers):
                state, rows = rows.sum(dim=0) / len(have) ** 0.5, state.expand_as(rows) / len(have) ** 0.5
                total = total + state
            against = table[torch.randint(len(items), (len(have),))]
            loss = torch.nn.functional.softplus(-((table[have] - against) @ total)).mean()
            torch.autograd.backward(loss)

    times = method.rounds * _in_a_round(method.cohort, train)
    return PlainFit("rounds of LightGCN, home by home", homes.n_homes, one_round, times)


def pairs_of_rules(homes: Homes) -> dict[tuple[TypedRule, TypedRule], int]:
    """What `ease` and `itemknn` count: the homes that have both of two typed rules."""
    found: dict[tuple[TypedRule, TypedRule], int] = defaultdict(int)
    for home in plain_homes(homes):
        typed = {rule.typed for rule in home.rules}
        for one in typed:
            for other in typed:
                found[one, other] += 1
    return found


def _pairs(name: str, homes: Homes, train: Homes) -> PlainFit:
    """Counting alone; the model that follows from the counts is not even counted."""
    del name, train
    return PlainFit(
        "pairs of typed rules of each home, counted with dictionaries", homes.n_homes, lambda: pairs_of_rules(homes)
    )


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


# By the name of the method: what makes its plain fit, from the name, a few homes, and all training homes.
OF_ROUNDS: dict[str, Callable[[str, Homes, Homes], PlainFit]] = {
    "graphrule": _sage,
    **dict.fromkeys(("fedgnn", "fedprox", "fedrule", "fedgate", "scaffold"), _federated),
    **dict.fromkeys(("sagerank", "compgcn", "rgcn", "hetgnn", "graphrank", "fedcompgcn", "fedrank"), _network),
    **dict.fromkeys(("rotate", "complex", "fede"), _triples),
    **dict.fromkeys(("fcf", "fedmf"), _factors),
    "fedlightgcn": _local_graphs,
    **dict.fromkeys(("ease", "fedease", "itemknn"), _pairs),
}
OF_FEATURES: dict[str, Callable[[str, Homes, int], PlainFit]] = {"recrules": _paths, "takg": _knowledge_graph}
