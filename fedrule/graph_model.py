"""A fitted graph method: a scorer, its parameters, and the vocabularies that its numbers stand for."""

from __future__ import annotations

from baselines.method import Scores
from datasets.errors import DataError
from datasets.homes import Array, Homes
from datasets.view import Relation
from fedrule.encoder import Parameters
from fedrule.scorer import Scorer


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
        if homes.types != self.types or homes.relations != self.relations:
            strange = [
                str(word) for word in (*homes.types, *homes.relations) if word not in {*self.types, *self.relations}
            ]
            beyond = f" It does not know {', '.join(strange[:3])}: train it with these too (datasets.align)."
            raise DataError(
                f"{homes.name}: entity types and relations are numbered otherwise than in the training of {self.name}; "
                f"give homes.with_vocabulary(model.types, model.relations).{beyond if strange else ''}"
            )
        return self.scorer.score_pairs(self.parameters, homes, trigger, action)
