"""The vocabulary of a federation, a file of its app: what the numbers of types and relations mean for everybody.

It is public, also in a private run: take it from homes whose names are no secret, or write it by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from datasets.common.errors import DataError
from datasets.common.files import Json, write_json
from datasets.homes import Homes, Relation
from fedrule.flower.messages import vocabulary_fingerprint

FILE = "vocabulary.json"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Entity types and relations in their order."""

    types: tuple[str, ...]
    relations: tuple[Relation, ...]
    words: bool = False  # whether names of devices have words, such as rooms; a private run counts rooms only then

    @classmethod
    def of(cls, homes: Homes) -> Vocabulary:
        return cls(homes.types, homes.relations, homes.words is not None)

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """From a file that `write` wrote, or that somebody wrote by hand."""
        try:
            content = json.loads(path.read_text("utf-8"))
            types, relations, words = content["types"], content["relations"], content.get("words", False)
            if not isinstance(words, bool):
                raise ValueError("words must be true or false")
            if not all(isinstance(name, str) for name in types) or not all(len(pair) == 2 for pair in relations):
                raise ValueError("types must be texts and relations pairs of texts")
        except OSError as error:
            raise DataError(
                f"{path}: cannot read the vocabulary ({error.strerror}); `deploy init` writes one"
            ) from None
        except (ValueError, LookupError, TypeError) as error:
            raise DataError(f'{path}: not a vocabulary, {{"types": [...], "relations": [[...]]}} ({error})') from None
        if len(set(types)) < len(types) or len({tuple(pair) for pair in relations}) < len(relations):
            raise DataError(f"{path}: a type or a relation comes twice; its number would be ambiguous")
        return cls(tuple(types), tuple(Relation(*pair) for pair in relations), words)

    def write(self, path: Path) -> None:
        relations: Json = [[*pair] for pair in self.relations]
        write_json(path, {"types": [*self.types], "relations": relations, "words": self.words})

    @property
    def fingerprint(self) -> str:
        return vocabulary_fingerprint(self.types, self.relations, words=self.words)
