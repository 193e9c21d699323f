"""LightGCN in the homes, with the ways of hiding of FedGNN.

Wu, Wu, Cao, Huang and Xie (2021), "FedGNN: federated graph neural network for privacy-preserving recommendation",
arXiv:2102.04925: each user keeps the graph of its own interactions and trains a graph neural network on it. It sends
gradients of the network and of the items' embeddings. Which items are its own it hides by pseudo-interacted items,
sampled ones whose gradients are random with the distribution of the real ones, and gradients are clipped and get
Laplace noise at home. The equations are in fedrule/federated/trainers/local_graph.py.

A clash of names: the method `fedgnn` of this suite is that of the paper behind it, FedAvg with GraphRule's network on
graphs of devices. This one is the recommender of Wu et al., on graphs of homes and rules; it is named after its network
and its central twin, `lightgcn` (baselines/lightgcn.py).

This is inspired by theirs, written from the paper's description, and not compared with the authors' code
(github.com/wuch15/FedPerGNN). What differs:

- The network is LightGCN, which has no weights but embeddings; the loss is BPR in place of an error of ratings, which
  rules have none of.
- A home has no embedding of its own: layer 0 is a vector that all homes share, so that homes keep nothing from round to
  round, and new ones are scored as all others. A rule is predicted from the graph without its automation.
- Theirs expands the graph of a user by anonymous neighbours, by way of a third party that matches encrypted items.
  There is none here: what a home learns of others is in the embeddings alone, and a second layer did not help.
- Pseudo items have the mean and the standard deviation of the real gradients in each dimension, without covariances.

What the noise is worth: with bound b and scale c, one number that a home sends in one round is (2 b / c)-private. A
home sends hundreds of numbers in many rounds, and by basic composition the epsilon of all of them is the sum, far
beyond any useful one; which rows it sends is not even in it. It is noise, not a guarantee; for one see `fedrank`,
`ease` and docs/privacy.md. By default nothing is hidden: no pseudo items, no bound, no noise. Central noise (`epsilon`)
is refused for the reason in fedrule/methods/user_item/federated_items.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from baselines.items import Items, NonRules, UserItemModel, automations
from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError
from datasets.homes import Array, Homes
from fedrule.federated.rounds import Weighting
from fedrule.federated.trainers.local_graph import LocalGraph, LocalGraphTrainer, degrees
from fedrule.federated.vectors import Vector
from fedrule.methods.user_item.federated_items import ItemMethod
from fedrule.network.options import derived

INITIAL = 0.1  # standard deviation of the embeddings before the first round


def default_weighting(method: FederatedLightGcn) -> Weighting:
    """Aggregations other than the mean count all homes the same."""
    return "rules" if method.aggregation == "mean" else "clients"


@register("fedlightgcn")
@dataclass(frozen=True)
class FederatedLightGcn(ItemMethod):
    """LightGCN on the graph of each home; pseudo items and noise (Wu et al. 2021) are options, off by default."""

    NAME: ClassVar[str] = "fedlightgcn"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "dimension": ("choice", 16, 32, 64, 128),
        "layers": ("int", 1, 3),
        "non_rules": ("int", 1, 8),
        "regularization": ("log", 1e-5, 1.0),
        "server_rate": ("log", 0.005, 0.1),
        "rounds": ("int", 50, 300),
    }

    rounds: int = 150
    local_steps: int = derived(1)
    learning_rate: float = derived(1.0)  # of clients; with one local step and the server's Adam of no effect
    decay: bool = True
    weighting: Weighting = derived(default_weighting)  # by the number of rules: every rule counts the same
    dimension: int = 32  # size of the embeddings
    layers: int = 1  # K: how often embeddings are smoothed over the graph of a home
    non_rules: int = 2  # non-rules that each rule is ranked before, drawn anew each round
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    regularization: float = 0.01  # on the squared length of the embeddings that a step uses
    pseudo_items: int = 0  # items with random gradients that a home sends beside its own, at most all
    update_bound: float = 0.0  # each number of an update is clipped to it; 0: none
    laplace_noise: float = 0.0  # scale of the noise that a home adds to each number; 0: none

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 1", "dimension", "layers", "non_rules")
        check_range(self.NAME, self, "at least 0", "regularization", "pseudo_items", "update_bound", "laplace_noise")
        if self.laplace_noise and not self.update_bound:
            raise DataError(f"{self.NAME}: noise hides a number only if it is bounded; set update_bound, e.g. 0.1")

    def local_graph(self, seed: int) -> LocalGraph:
        return LocalGraph(
            dimension=self.dimension,
            layers=self.layers,
            regularization=self.regularization,
            non_rules=self.non_rules,
            pseudo_items=self.pseudo_items,
            bound=self.update_bound,
            noise=self.laplace_noise,
            seed=seed,
        )

    def trainer(self, train: Homes, items: Items, seed: int) -> LocalGraphTrainer:
        if self.pseudo_items > len(items):
            raise DataError(
                f"{self.NAME}: pseudo_items {self.pseudo_items} are more than the {len(items)} items of {train.name}, "
                "the typed rules that some home has; set at most as many"
            )
        non_rules = NonRules.of(train, items, owned=self.owned)
        return LocalGraphTrainer(items.matrix(train), automations(train, items), non_rules, self.local_graph(seed))

    def initial(self, items: Items, rng: np.random.Generator) -> Vector:
        return (INITIAL * rng.standard_normal((1 + len(items)) * self.dimension)).astype(np.float32)

    def model(self, train: Homes, items: Items, vector: Vector) -> LocalGraphModel:
        return LocalGraphModel(train, items, vector, self.local_graph(0))


class LocalGraphModel(UserItemModel):
    """The trained embeddings; every home is scored by its own graph, one without rules by the shared vector alone."""

    def __init__(self, train: Homes, items: Items, vector: Vector, task: LocalGraph) -> None:
        super().__init__(items, train)
        table = vector.reshape(-1, task.dimension).astype(np.float64)
        self.home, self.embeddings, self.task = table[0], table[1:], task
        self.degree = degrees(items.matrix(train))

    def score_items(self, homes: Homes, which: Array) -> npt.NDArray[np.floating]:
        """In float64: rounded to float32 the scores do not depend on which homes share a product."""
        have = self.items.matrix(homes)[which]
        of_homes = self.task.home_vectors(have, self.degree, self.home, self.embeddings)
        return np.asarray(of_homes @ self.embeddings.T) / (self.task.layers + 1)
