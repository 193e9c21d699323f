"""Many homes as one graph: their devices and rules in a few tensors, so that nothing loops over homes.

Homes share no device, so the joint graph consists of theirs, and whatever a layer does for one home it does for all of
them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from datasets.homes import Array, Homes, Rules
from fedrule.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """One message from a device to another for each rule."""

    sender: Tensor  # [n_rules]
    receiver: Tensor  # [n_rules]
    relation: Tensor  # [n_rules]
    weight: Tensor  # [n_rules, 1]  1 / how many messages the receiver gets, float64
    n_devices: int

    @classmethod
    def of(cls, sender: Tensor, receiver: Tensor, relation: Tensor, n_devices: int) -> Edges:
        degree = torch.bincount(receiver, minlength=n_devices)[receiver]
        return cls(sender, receiver, relation, (1 / degree.double())[:, None], n_devices)

    def mean(self, message: Tensor) -> Tensor:
        """[n_devices, dim]: the mean of the messages [n_rules, dim] to each device; zeros where there are none."""
        weighted = message * self.weight.to(message.dtype)
        receiver = self.receiver.unsqueeze(-1).expand_as(weighted)
        none = weighted.new_zeros(*weighted.shape[:-2], self.n_devices, weighted.shape[-1])
        return none.scatter_add_(-2, receiver, weighted)


@dataclass(frozen=True, slots=True, eq=False)
class GraphBatch:
    """Homes as the network sees them: their devices, and the rules that send messages."""

    n_homes: int
    home: Tensor  # [n_devices]
    type: Tensor  # [n_devices]
    place: Tensor  # [n_devices]  how many devices of the same type come before it in its home
    incoming: Edges  # from a rule's trigger to its action
    outgoing: Edges  # from a rule's action to its trigger

    @classmethod
    def of(cls, homes: Homes, rules: Rules | None = None) -> GraphBatch:
        """The devices of these homes, with messages along `rules`, by default all that the homes have."""
        rules = homes.rules if rules is None else rules
        # Copies: tensors cannot be read-only, and the columns of homes are.
        trigger, action, relation = (torch.tensor(c) for c in (rules.trigger, rules.action, rules.relation))
        return cls(
            homes.n_homes,
            torch.tensor(homes.device_home),
            torch.tensor(homes.device_type),
            torch.from_numpy(_place(homes)),
            Edges.of(trigger, action, relation, homes.n_devices),
            Edges.of(action, trigger, relation, homes.n_devices),
        )

    @property
    def n_devices(self) -> int:
        return len(self.type)


def _place(homes: Homes) -> Array:
    """The number of each device among those of its type in its home, from 0."""
    key = homes.device_home * len(homes.types) + homes.device_type
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    place = np.empty(len(key), dtype=np.int64)
    place[order] = np.arange(len(key)) - np.searchsorted(ordered, ordered)
    return place
