"""SageRank, inspired by the second place of the Wyze Rule Recommendation challenge (2023): GraphSAGE on edge sums.

Its code and configuration are at github.com/conti748/wyze-rule-recommendation; there is no paper. A device's input is
its one-hot type, the sum of an embedding of the trigger state over the rules that it triggers, and the sum of an
embedding of the action over the rules that act on it (4 numbers each). Two GraphSAGE layers of 256 and 128 units, and a
perceptron scores the relations of a device pair. In every epoch one rule of each home is left out of its graph and is
the positive, beside one negative; binary cross entropy, Adam with 0.001, batches of 1,024 homes, no dropout.

This is written anew. Where it differs from theirs:

- The second layer's units, the numbers of a state, dropout, the rate and five negatives were chosen by tuning.
- Theirs has a ReLU after the second layer too; here embeddings have none.
- Theirs sends messages along rules; here also against them (`direction`), each with weights of its own. Both are means.
- One automation is left out: all of its rules, where a data set has automations of several (home-assistant). Theirs
  drops users with fewer than two rules from training; here a home with one rule has an empty graph.
- The negative is a rule that the home lacks and that some training home has between these types; all others get no
  score (NaN). Theirs is uniform over all pairs and relations.
- Theirs keeps relations of at least 20 rules; small data sets would lose most of theirs, so `min_count` is lower. Rules
  of rarer relations are left out of all graphs and have no score (NaN). What is counted are homes, once for each pair
  of types between which they have the relation.
- Theirs halves the rate after 4 epochs without a lower validation loss, on a tenth of the users, and returns to the
  best of at most 100 epochs. Here the rate stays, there are 80 epochs, more where few homes would make few steps
  (`least_steps`), and the last is the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from baselines.method import check_range
from baselines.registry import register
from datasets.common.errors import DataError
from datasets.homes import Homes
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.methods.graphrule import GraphRule
from fedrule.network.edge_sage import EdgeSageNetwork, RelationHalves
from fedrule.network.network import Network
from fedrule.network.options import NETWORK, PAPERS_PRESETS, Direction, one_encoder
from fedrule.network.score import Scorer
from fedrule.training.examples import ExampleSampler, Hide, NonRules


@register("sagerank")
@dataclass(frozen=True)
class SageRank(GraphRule):
    """GraphSAGE on what the rules of a device do, one rule of each home left out; inspired by a challenge entry."""

    NAME: ClassVar[str] = "sagerank"
    SPACE: ClassVar[dict[str, tuple[object, ...]]] = {
        "hidden": ("choice", 32, 64, 128),
        "first_hidden": ("choice", 64, 128, 256),
        "edge_embedding": ("choice", 4, 8, 16),
        "dropout": ("float", 0.0, 0.6),
        "learning_rate": ("log", 0.0003, 0.01),
        "per_rule": ("choice", 1, 5, 20),
    }
    UNAVAILABLE: ClassVar[dict[str, str]] = (
        PAPERS_PRESETS
        | one_encoder("sage")
        | dict.fromkeys(("bias", "context", "evidence", "words"), "is a term of the score of other graph methods")
    )

    hidden: int = 32  # size of embeddings, the second layer's units
    first_hidden: int = field(default=256, metadata=NETWORK)  # units of the first layer
    edge_embedding: int = field(default=8, metadata=NETWORK)  # length of a state's embedding, and of an action's
    dropout: float = 0.43  # of hidden states
    predictor_hidden: int = 128  # units in the predictor
    direction: Direction = "both"
    min_count: int = field(default=5, metadata=NETWORK)  # homes that a relation needs, added up over pairs of types
    non_rules: NonRules = "feasible"
    per_rule: int = 5  # non-rules beside each rule
    hidden_rules: float = 0.0  # chance that an automation is left out, instead of one of each home; 0: one of each
    rounds: int = 80  # epochs, more where these would be fewer steps than `least_steps`
    learning_rate: float = 0.00083  # of Adam; theirs is 0.001
    weight_decay: float = 0.0
    batch_size: int = 1024
    least_steps: int = 400  # more rounds where few homes would have fewer steps; 0: never

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.NAME, self, "at least 1", "hidden", "first_hidden", "edge_embedding")
        check_range(self.NAME, self, "at least 0", "min_count")

    @property
    def sees_answers(self) -> bool:
        """Never: what is to be found is left out of the graph."""
        return False

    @property
    def counts_homes(self) -> bool:
        """Always: which relations are learned depends on how many homes have them."""
        return True

    def scorer(self, valid: ValidRules, counts: Statistics | None = None) -> Scorer:
        """Its valid rules are those of relations that are learned."""
        if counts is None:
            raise DataError(f"{self.NAME}: which relations it learns depends on counts over homes; pass counts=")
        seen = np.bincount(valid.relation, counts.with_rule, minlength=valid.n_relations)
        halves = RelationHalves.of(counts.reader, seen >= self.min_count)
        learned = ValidRules.of_cells(valid.n_types, valid.n_relations, valid.cell[halves.learned[valid.relation]])
        plain = super().network(valid.n_types, valid.n_relations)
        assert isinstance(plain, Network)
        network = EdgeSageNetwork(
            plain.sizes,
            predictor_hidden=self.predictor_hidden,
            halves=halves,
            first_hidden=self.first_hidden,
            edge_embedding=self.edge_embedding,
        )
        return Scorer(network, learned, answers_unseen=self.answers_unseen)

    def sampler(self, train: Homes, scorer: Scorer, *, self_pairs: bool) -> ExampleSampler:
        """One automation of each home, or with `hidden_rules` each with that chance."""
        assert isinstance(scorer.network, EdgeSageNetwork)
        learned = train.with_rules(scorer.network.halves.learned[train.rules.relation])
        hide: Hide = "share" if self.hidden_rules else "one"
        options = self.sampling_options
        return ExampleSampler.of(
            learned, scorer.valid, hidden=self.hidden_rules, hide=hide, self_pairs=self_pairs, **options
        )
