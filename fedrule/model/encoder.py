"""What graph neural networks that embed the devices of homes have in common: sizes, inputs and dropout."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol, TypeAlias, get_args

import torch
from torch import Tensor

from datasets.common.errors import DataError, unknown
from fedrule.model.batch import Packed

Parameters: TypeAlias = dict[str, Tensor]
Direction = Literal["in", "out", "both", "none"]
Messages = Literal["type", "relation"]

MOST_PLACES = 32  # devices of one type in a home that a node embedding tells apart; all further ones share the last


@dataclass(frozen=True, slots=True)
class Sizes:
    """What all encoders have in common."""

    n_types: int
    n_relations: int
    hidden: int = 16  # size of the hidden state and of the embedding
    dropout: float = 0.0  # share of the hidden state that training drops, before the ReLU
    direction: Direction = "in"  # messages come from triggers that act on a device, from its actions, both or nobody
    messages: Messages = "type"  # what a message says: the neighbour's state, or also the relation of the rule
    node_embedding: int = 0  # size of an embedding that tells devices of one type apart by their number; 0: none
    self_loops: bool = False  # gcn, gat: a device hears itself too; without, one that no rule reaches has the bias only
    heads: int = 1  # gat: parts of the hidden state, each with an attention of its own

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise DataError(f"dropout = {self.dropout}: give a share from 0 to below 1")
        for name, least in (("hidden", 1), ("node_embedding", 0), ("heads", 1)):
            if getattr(self, name) < least:
                raise DataError(f"{name} = {getattr(self, name)}: give at least {least}")
        for name, known in (("direction", get_args(Direction)), ("messages", get_args(Messages))):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.direction == "none" and self.messages != "type":
            raise DataError(f"messages = {self.messages!r}: direction 'none' sends none; leave messages at 'type'")

    @property
    def n_features(self) -> int:
        """Length of a device's input: its one-hot type, and the embedding of its number."""
        return self.n_types + self.node_embedding


class Encoder(Protocol):
    """Parameters in, embeddings out. Names of its parameters are its own; the network puts `theta.` before them."""

    def initial(self, chance: torch.Generator) -> Parameters: ...

    def embed(self, theta: Parameters, homes: Packed, chance: torch.Generator | None) -> Tensor:
        """[n_devices, hidden]."""


def refuse(encoder: str, sizes: Sizes, *names: str) -> None:
    """An error for what an encoder has no use for, where it is not left at its default."""
    for field in fields(sizes):
        value = getattr(sizes, field.name)
        if field.name in names and value != field.default:
            raise DataError(f"encoder {encoder!r} knows no {field.name} = {value!r}; leave it at {field.default!r}")


def first_product(theta: Parameters, matrix: Tensor, homes: Packed, n_types: int) -> Tensor:
    """x times a matrix [n_features, dim] for inputs x = [one-hot type ; embedding of the number]."""
    product = matrix[:n_types].index_select(0, homes.type)
    if "place" in theta:
        by_place = theta["place"] @ matrix[n_types:]
        product = product + by_place.index_select(0, homes.place.clamp(max=MOST_PLACES - 1))
    return product


def dropped(hidden: Tensor, share: float, chance: torch.Generator | None) -> Tensor:
    """Dropout from a generator of its own, so that it repeats; none without a generator."""
    if chance is None or not share:
        return hidden
    kept = torch.rand(hidden.shape, generator=chance) >= share
    return hidden * kept / (1 - share)
