"""Rules as triples of a knowledge graph, (trigger type, relation, action type): RotatE and ComplEx.

Z. Sun, Z. Deng, J. Nie and J. Tang, RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space, ICLR
2019, https://arxiv.org/abs/1902.10197. T. Trouillon, J. Welbl, S. Riedel, E. Gaussier and G. Bouchard, Complex
Embeddings for Simple Link Prediction, ICML 2016, https://arxiv.org/abs/1606.06357. Entity types and relations have
vectors h, r, t in C^d, and a triple has the score

    RotatE:   gamma - |h r - t|, where r only rotates: |r_k| = 1 in every dimension k,
    ComplEx:  Re(sum over k of h_k r_k conj(t_k)).

The models are torch-geometric's. Both are trained with the self-adversarial loss of Sun et al. (equations 5 and 6): for
a rule with score s and sampled non-rules with scores s_i,

    -log sigmoid(s) - sum over i of p_i log sigmoid(-s_i),    p = softmax(alpha s_i), taken as constant.

Three things differ from the papers. A triple counts once for each home that has it, so that common rules score higher.
Non-rules are rules that the home could have but has not (`corrupted` is the papers' way: another trigger or action
type). And a home has a vector u, which is added to h: what a type does as a trigger in this home. With learned vectors
v_i = a_r + b_h + c_t, of the relation and the two types of each of its n rules, and o of the types that it owns,

    u = sum of v_i over its rules / sqrt(n + 1) + mean of o over its types.

In training the automation that is predicted is left out of u, or the model would learn to repeat its input. Homes have
no weights of their own, so homes never seen in training are folded in by what they have and own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import embedding_bag, softplus
from torch_geometric.nn.kge import ComplEx, KGEModel, RotatE

from baselines.items import Items, NonRules, automations
from baselines.knowledge_graph.model import Embeddings, KnowledgeGraphModel, Vectors, owned_types
from baselines.method import OnRound, check_range, ignore
from baselines.registry import register
from datasets.common.errors import DataError
from datasets.homes import Array, Homes, runs


class Triples(NamedTuple):
    """Trigger type, relation and action type of candidates, all of one shape."""

    head: Tensor
    relation: Tensor
    tail: Tensor


class Network(nn.Module):
    """A model of torch-geometric and the vectors that those of homes are made of, zero at first."""

    def __init__(self, graph: KGEModel, *, personal: bool) -> None:
        super().__init__()
        self.graph, self.personal = graph, personal
        n_types, width = (graph.num_nodes if personal else 0), 2 * graph.hidden_channels
        self.rule_relation = nn.Parameter(torch.zeros(graph.num_relations if personal else 0, width))
        self.rule_trigger = nn.Parameter(torch.zeros(n_types, width))
        self.rule_action = nn.Parameter(torch.zeros(n_types, width))
        self.owned = nn.Parameter(torch.zeros(n_types, width))

    def home_vectors(self, batch: Batch, items: Triples) -> Tensor:
        """u of the home of each rule in the batch, without the rule's automation: [n, 2 d]."""
        head, relation, tail = items
        of_types = self.rule_trigger.index_select(0, head) + self.rule_action.index_select(0, tail)
        rules = self.rule_relation.index_select(0, relation) + of_types
        of_rules = embedding_bag(batch.others, rules, batch.others_start, mode="sum")
        counts = torch.diff(batch.others_start, append=torch.tensor([len(batch.others)]))
        of_owned = embedding_bag(batch.owned, self.owned, batch.owned_start, mode="mean")
        return of_rules * (counts + 1).rsqrt()[:, None] + of_owned

    def scores(self, triples: Triples, home: Tensor | None) -> Tensor:
        """[n, n_candidates] of as many triples, with a vector [n, 2 d] for each row's home; None: homes have none."""
        flat = Triples(*(part.reshape(-1) for part in triples))
        if home is None:
            return torch.as_tensor(self.graph(*flat)).reshape(triples.head.shape)
        # Heads in the context of their home become entities of their own, behind those that there are.
        weights = dict(self.graph.named_parameters())
        repeated = home.repeat_interleave(triples.head.shape[1], dim=0).chunk(2, dim=1)
        for name, part in zip(("node_emb.weight", "node_emb_im.weight"), repeated, strict=True):
            weights[name] = torch.cat([weights[name], weights[name].index_select(0, flat.head) + part])
        heads = self.graph.num_nodes + torch.arange(len(flat.head))
        found: Tensor = functional_call(self.graph, weights, (heads, flat.relation, flat.tail))
        return found.reshape(triples.head.shape)

    def embeddings(self) -> Embeddings:
        """A copy in float64."""
        graph, rotates = self.graph, isinstance(self.graph, RotatE)

        def precise(*parts: Tensor) -> Vectors:
            values: Vectors = torch.cat(parts, dim=1).detach().double().numpy()
            return values.copy()

        relation = graph.rel_emb.weight.detach().double()  # the angles of RotatE, the real parts of ComplEx
        return Embeddings(
            "rotate" if rotates else "complex",
            float(getattr(graph, "margin", 0.0)),
            precise(graph.node_emb.weight, graph.node_emb_im.weight),
            precise(relation.cos(), relation.sin()) if rotates else precise(relation, graph.rel_emb_im.weight),
            *(
                map(precise, (self.rule_relation, self.rule_trigger, self.rule_action, self.owned))
                if self.personal
                else ()
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rules of homes, sampled non-rules, and of what the vector of each home is made."""

    triples: Triples  # [n, 1 + n_non_rules]  the rule first
    is_drawn: Tensor  # [n, n_non_rules]  whether there is a non-rule
    others: Tensor  # items of the home's other automations, rule after rule
    others_start: Tensor  # [n]
    owned: Tensor  # types that the home owns, rule after rule
    owned_start: Tensor  # [n]


def self_adversarial(scores: Tensor, is_drawn: Tensor, temperature: float) -> Tensor:
    """The mean over rules of the loss above, of scores [n, 1 + n_non_rules]; a rule without non-rules has its own."""
    rule, others = scores[:, 0], scores[:, 1:]
    share = torch.softmax((temperature * others.detach()).masked_fill(~is_drawn, -torch.inf), dim=1)
    share = share.masked_fill(~is_drawn, 0.0)  # of a rule without any, the softmax is NaN
    return (softplus(-rule) + (share * softplus(others)).sum(dim=1)).mean()


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """Draws batches from the rules of homes."""

    items: Items
    known: csr_array  # [n_homes, n_items]
    home: Array  # [n_rules]  of each entry of `known`
    automation: Array  # [n_rules]
    owned: csr_array  # [n_homes, n_types]
    non_rules: NonRules
    n_non_rules: int
    corrupted: bool

    @classmethod
    def of(cls, train: Homes, items: Items, method: KnowledgeGraph) -> Sampler:
        known = items.matrix(train)
        return cls(
            items,
            known,
            np.repeat(np.arange(train.n_homes), np.diff(known.indptr)),
            automations(train, items),
            owned_types(train),
            NonRules.of(train, items, owned=method.owned),
            method.non_rules,
            method.corrupted,
        )

    def epoch(self, batch_size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """All rules once, in random order, in batches of about this size."""
        n_batches = math.ceil(len(self.home) / batch_size)
        for some in np.array_split(rng.permutation(len(self.home)), n_batches):
            yield self.batch(some, rng)

    def batch(self, some: Array, rng: np.random.Generator) -> Batch:
        """Of these entries of `known`."""
        home, item = self.home[some], self.known.indices[some].astype(np.int64)
        triples, is_drawn = (self._corrupt if self.corrupted else self._draw)(home, item, rng)
        count = np.diff(self.known.indptr)[home]
        entry = runs(self.known.indptr.astype(np.int64), home)
        other = self.automation[entry] != np.repeat(self.automation[some], count)
        n_others = np.bincount(np.repeat(np.arange(len(some)), count)[other], minlength=len(some))
        n_owned = np.diff(self.owned.indptr)[home]
        owned = self.owned.indices[runs(self.owned.indptr.astype(np.int64), home)]
        return Batch(
            triples,
            torch.from_numpy(is_drawn),
            torch.from_numpy(self.known.indices[entry[other]].astype(np.int64)),
            torch.from_numpy(np.cumsum(n_others) - n_others),
            torch.from_numpy(owned.astype(np.int64)),
            torch.from_numpy(np.cumsum(n_owned) - n_owned),
        )

    def _draw(self, home: Array, item: Array, rng: np.random.Generator) -> tuple[Triples, npt.NDArray[np.bool_]]:
        """Rules that the homes do not have; a draw that hits a rule of the home is none."""
        repeated = np.repeat(home, self.n_non_rules)
        place, drawn = self.non_rules.draw(repeated, rng)
        others, is_drawn = np.repeat(item, self.n_non_rules), np.zeros(len(repeated), dtype=np.bool_)
        others[place], is_drawn[place] = drawn, True
        both = np.column_stack([item, others.reshape(len(item), -1)])
        trigger, action, relation = (torch.from_numpy(column[both]) for column in self.items.valid.typed())
        return Triples(trigger, relation, action), is_drawn.reshape(len(item), -1)

    def _corrupt(self, home: Array, item: Array, rng: np.random.Generator) -> tuple[Triples, npt.NDArray[np.bool_]]:  # noqa: ARG002
        """The rules with another trigger or action type; one that some home has is none."""
        shape = len(item), self.n_non_rules
        trigger, action, relation = (
            np.repeat(column[item, None], shape[1], axis=1) for column in self.items.valid.typed()
        )
        other, replaces_head = rng.integers(0, self.items.valid.n_types, shape), rng.random(shape) < 0.5
        head, tail = np.where(replaces_head, other, trigger), np.where(replaces_head, action, other)
        is_drawn = ~self.items.valid.contains(head, tail, relation)
        columns = ((trigger, head), (relation, relation), (action, tail))
        return Triples(*(torch.from_numpy(np.column_stack([rule[:, 0], others])) for rule, others in columns)), is_drawn


@dataclass(frozen=True)
class KnowledgeGraph(ABC):
    """A knowledge-graph model of typed rules, in which a home has a vector made of what it has and owns."""

    NAME: ClassVar[str]
    log_odds: ClassVar[bool] = False  # its non-rules are those a home could have, not the evaluation's
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "dimension": ("choice", 8, 16, 32, 64),
        "non_rules": ("choice", 4, 8, 16, 32),
        "temperature": ("float", 0.0, 2.0),
        "learning_rate": ("log", 0.002, 0.05),
        "weight_decay": ("log", 0.03, 10.0),
        "least_steps": ("int", 300, 1500),
    }

    dimension: int = 16  # d: complex numbers in a vector
    personal: bool = True  # homes have a vector; without, all homes get the same scores
    non_rules: int = 16  # sampled for each rule, anew in each epoch
    corrupted: bool = False  # non-rules have another trigger or action type, and no home has them: the papers' way
    owned: bool = True  # draw non-rules only among rules whose entity types the home owns
    temperature: float = 1.0  # alpha: how much more high-scoring non-rules count; 0: all the same
    epochs: int = 10  # passes over all rules
    least_steps: int = 600  # more epochs where so few rules are trained on that they would be fewer steps; 0: never
    batch_size: int = 512  # rules in a step
    learning_rate: float = 0.01  # of Adam; it falls to zero along half a cosine
    weight_decay: float = 1.0  # of Adam, decoupled: pull of all weights towards zero, times the learning rate

    def __post_init__(self) -> None:
        check_range(self.NAME, self, "at least 1", "dimension", "non_rules", "epochs", "batch_size")
        check_range(self.NAME, self, "at least 0", "temperature", "least_steps", "weight_decay")
        check_range(self.NAME, self, "above 0", "learning_rate")
        if self.corrupted and not self.owned:
            raise DataError(f"{self.NAME}: owned False has no effect with corrupted; leave it at True")

    @abstractmethod
    def graph(self, n_types: int, n_relations: int) -> KGEModel:
        """The model of torch-geometric; its weights may come from torch's global random state."""

    def fit(self, train: Homes, *, rng: np.random.Generator, on_round: OnRound = ignore) -> KnowledgeGraphModel:
        """Adam on batches of rules; a round is an epoch."""
        items = Items.of(train)
        with torch.random.fork_rng(devices=[]):  # torch-geometric draws from torch's global random state
            torch.manual_seed(int(rng.integers(2**63)))
            graph = self.graph(len(train.types), len(train.relations))
        network = Network(graph, personal=self.personal)
        if not len(items):
            return KnowledgeGraphModel(items, train, network.embeddings())
        sampler = Sampler.of(train, items, self)
        trigger, action, relation = (torch.from_numpy(np.array(column)) for column in items.valid.typed())
        steps = math.ceil(len(sampler.home) / self.batch_size)  # of an epoch
        epochs = max(self.epochs, math.ceil(self.least_steps / steps))
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * epochs)
        for epoch in range(epochs):
            total = 0.0
            for batch in sampler.epoch(self.batch_size, rng):
                home = network.home_vectors(batch, Triples(trigger, relation, action)) if self.personal else None
                loss = self_adversarial(network.scores(batch.triples, home), batch.is_drawn, self.temperature)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                decay.step()
                total += loss.item()
            if on_round is not ignore:
                model = KnowledgeGraphModel(items, train, network.embeddings())
                on_round(epoch + 1, epochs, model, {"loss": total / steps})
        return KnowledgeGraphModel(items, train, network.embeddings())


@register("rotate")
@dataclass(frozen=True)
class RotateMethod(KnowledgeGraph):
    """Rules as triples of a knowledge graph: a relation rotates trigger type to action type (Sun et al. 2019)."""

    NAME: ClassVar[str] = "rotate"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = KnowledgeGraph.SPACE | {"margin": ("float", 1.0, 12.0)}

    dimension: int = 32
    weight_decay: float = 0.3
    margin: float = 4.0  # gamma: the score of a triple that fits exactly

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "above 0", "margin")

    def graph(self, n_types: int, n_relations: int) -> RotatE:
        return RotatE(n_types, n_relations, self.dimension, margin=self.margin)


@register("complex")
@dataclass(frozen=True)
class ComplexMethod(KnowledgeGraph):
    """Rules as triples of a knowledge graph with complex bilinear scores (Trouillon et al. 2016)."""

    NAME: ClassVar[str] = "complex"

    weight_decay: float = 2.0

    def graph(self, n_types: int, n_relations: int) -> ComplEx:
        return ComplEx(n_types, n_relations, self.dimension)
