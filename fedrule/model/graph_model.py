"""A fitted graph method: a scorer, its parameters, and the vocabularies that its numbers stand for."""

from __future__ import annotations

from baselines.method import Scores
from datasets.homes import Array, Homes
from datasets.view import Relation
from fedrule.model.encoder import Parameters
from fedrule.model.narrowed import refuse_other_vocabulary, refuse_pairs_across_homes
from fedrule.model.scorer import Scorer


class GraphModel:
    """A scorer and its parameters."""

    def __init__(
        self,
        name: str,  # of the method
        scorer: Scorer,
        parameters: Parameters,
        types: tuple[str, ...],
        relations: tuple[Relation, ...],
    ) -> None:
        self.name, self.scorer, self.types, self.relations = name, scorer, types, relations
        # Answers in float64: in the float32 of scores it then does not matter which homes share a product.
        self.parameters = {key: value.double() for key, value in parameters.items()}

    def score_pairs(self, homes: Homes, trigger: Array, action: Array) -> Scores:
        """Logits for every relation; homes never seen in training are answered like any other."""
        refuse_other_vocabulary(self.name, homes, self.types, self.relations)
        refuse_pairs_across_homes(homes, trigger, action)
        return self.scorer.score_pairs(self.parameters, homes, trigger, action)
