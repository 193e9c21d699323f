"""The paper's network: a graph neural network embeds devices, a predictor scores relations between two of them.

Algorithm 1, with h_v^0 = x_v the one-hot entity type of device v and N(v) the devices whose rules act on v:

    h_v^1 = ReLU(theta^1 [h_v^0 ; mean of h_n^0 over N(v)]),      z_v = theta^2 [h_v^1 ; mean of h_n^1 over N(v)]

and the predictor (section 3.2), one probability for each relation: p_ij = sigmoid(phi^2 ReLU(phi^1 [z_i ; z_j])).

The network is a value, its parameters are a dict of tensors, and every function is pure: centralized training, a
federated client and inference call the same code with parameters of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import relu

from datasets.common.errors import DataError, unknown
from fedrule.network.batch import GraphBatch
from fedrule.network.encoders import Dropout, Encoder, Gat, Gcn, Parameters, Sage, Sizes, uniform

CELLS = 1 << 18  # triples times hidden units at a time: 1 MB of float32, in the cache with what is made of it

ENCODERS: dict[str, Callable[[Sizes], Encoder]] = {"sage": Sage, "gcn": Gcn, "gat": Gat}


@dataclass(frozen=True, slots=True)
class Network:
    """The shape of a network: what its parameters are and how they turn homes into logits."""

    sizes: Sizes
    encoder: str = "sage"  # sage, gcn or gat
    # Units between the predictor's two layers; 0: as many as relations, as in the paper, and no fewer than `hidden`.
    predictor_hidden: int = 0

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise unknown("encoder", self.encoder, ENCODERS)
        if self.predictor_hidden < 0:
            raise DataError(f"predictor_hidden must be at least 0 (as many as relations), got {self.predictor_hidden}")
        ENCODERS[self.encoder](self.sizes)  # refuses sizes that it cannot be built with, before any training

    @property
    def is_papers(self) -> bool:
        """Whether it is Algorithm 1 and the paper's predictor in whatever sizes: every option has its default."""
        sizes = Sizes(self.sizes.n_types, self.sizes.n_relations, hidden=self.sizes.hidden)
        return self == Network(sizes, predictor_hidden=self.predictor_hidden)

    @property
    def _encoder(self) -> Encoder:
        return ENCODERS[self.encoder](self.sizes)

    def initial(self, generator: torch.Generator) -> Parameters:
        """Initial parameters; those of the encoder begin with `theta.`, those of the predictor with `phi.`."""
        embedding, relations = self.sizes.hidden, self.sizes.n_relations
        # Four ReLUs for four relations fail on toy homes at every third seed, 16 at 1 of 200; real data has over 100.
        hidden = self.predictor_hidden or max(relations, embedding)
        return {
            **{f"theta.{name}": value for name, value in self._encoder.initial(generator).items()},
            "phi.trigger": uniform(embedding, hidden, fan_in=2 * embedding, generator=generator),
            "phi.action": uniform(embedding, hidden, fan_in=2 * embedding, generator=generator),
            "phi.hidden_bias": uniform(hidden, fan_in=2 * embedding, generator=generator),
            "phi.relation": uniform(relations, hidden, fan_in=hidden, generator=generator),
            "phi.relation_bias": uniform(relations, fan_in=hidden, generator=generator),
        }

    def embed(self, parameters: Parameters, homes: GraphBatch, dropout: Dropout | None = None) -> Tensor:
        """z [n_devices, hidden]; `dropout` is for training, without it nothing is dropped."""
        theta = {name.removeprefix("theta."): v for name, v in parameters.items() if name.startswith("theta.")}
        return self._encoder.embed(theta, homes, dropout)

    def logits(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor) -> Tensor:
        """[n_pairs, n_relations].

        phi^1 [z_i ; z_j] = A z_i + B z_j: the products are made once for each device and not for each pair.
        """
        as_trigger = torch.addmm(parameters["phi.hidden_bias"], z, parameters["phi.trigger"])
        as_action = z @ parameters["phi.action"]
        hidden = relu(as_trigger.index_select(0, trigger) + as_action.index_select(0, action))
        return torch.addmm(parameters["phi.relation_bias"], hidden, parameters["phi.relation"].T)

    def logits_of(self, parameters: Parameters, z: Tensor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
        """[n_rules]: of one relation for each pair, without computing the others."""
        first = torch.cat([parameters["phi.trigger"], parameters["phi.action"]])
        names = ("phi.hidden_bias", "phi.relation", "phi.relation_bias")
        predictor = Predictor(z, first, *(parameters[name] for name in names))
        return triple_logits(predictor, trigger, action, relation)


class Predictor(NamedTuple):
    """The two layers, and the embeddings that they read."""

    z: Tensor  # [n_devices, dim]
    first: Tensor  # [2 dim, hidden]  for [z_i ; z_j]
    first_bias: Tensor  # [hidden]
    relation: Tensor  # [n_relations, hidden]
    relation_bias: Tensor  # [n_relations]


class Chunk(NamedTuple):
    """Triples (trigger device, action device, relation) with neighbouring relations, and their hidden units."""

    place: Tensor  # [n]  positions of these triples among all
    inputs: Tensor  # [n, 2 dim]
    hidden: Tensor  # [n, hidden]  after the ReLU
    rows: slice  # from the smallest relation to after the largest
    column: Tensor  # [n, 1]  the relation of each, counted from the smallest


def triple_logits(predictor: Predictor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
    """[n_triples]: y = w_r . ReLU(phi^1 [z_i ; z_j] + b) + b_r; gradients reach all five parts of the predictor.

    In the paper's sizes a triple has 163 hidden units, so those of 76,218 homes are 230 MB that plain tensor operations
    write and read a dozen times, gradients included. Here triples go through in chunks that stay in the cache, and the
    hidden units are computed again for the gradient instead of being kept. Triples are taken in the order of their
    relations: the few rows w_r of a chunk are then next to each other, and all that is left are products of small
    matrices. Nothing is approximated; the order of sums depends on the triples only.
    """
    order = torch.argsort(relation, stable=True)
    logits: Tensor = TripleLogits.apply(*predictor, trigger, action, relation, order)  # type: ignore[no-untyped-call]
    return logits


class TripleLogits(torch.autograd.Function):
    """The logits and their gradient; cannot be differentiated twice."""

    @staticmethod
    def forward(*tensors: Tensor) -> Tensor:
        predictor = Predictor(*tensors[:5])
        logits = predictor.z.new_empty(len(tensors[5]))
        for chunk in _chunks(predictor, *tensors[5:]):
            product = chunk.hidden @ predictor.relation[chunk.rows].T
            logits[chunk.place] = product.gather(1, chunk.column)[:, 0]
        return logits.add_(predictor.relation_bias.index_select(0, tensors[7]))

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        tensors: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        predictor = Predictor(*tensors[:5])
        found = Predictor(*(torch.zeros_like(part) for part in predictor))
        at_inputs = upstream.new_empty(len(upstream), len(predictor.first))
        space = _space(predictor, len(upstream))
        for chunk in _chunks(predictor, *tensors[5:]):
            # [n, rows]: the slope of each triple in the column of its relation. Products with it replace gathering and
            # adding rows one by one.
            slope = upstream.new_zeros(len(chunk.place), chunk.rows.stop - chunk.rows.start)
            slope.scatter_(1, chunk.column, upstream.index_select(0, chunk.place)[:, None])
            found.relation[chunk.rows].addmm_(slope.T, chunk.hidden)
            found.relation_bias[chunk.rows].add_(slope.sum(dim=0))
            # Into the same memory for all chunks: allocating anew costs more than the products.
            at_hidden = torch.mm(slope, predictor.relation[chunk.rows], out=space[: len(slope)])
            at_hidden.mul_(chunk.hidden.sign_())  # nothing where the ReLU is 0
            found.first.addmm_(chunk.inputs.T, at_hidden)
            found.first_bias.add_(at_hidden.sum(dim=0))
            at_inputs[chunk.place] = at_hidden @ predictor.first.T
        # At once: every call passes over all devices.
        device = torch.stack(tensors[5:7], dim=1).view(-1)
        found.z.index_add_(0, device, at_inputs.view(len(device), found.z.shape[1]))
        return (*found, None, None, None, None)


def _chunks(predictor: Predictor, trigger: Tensor, action: Tensor, relation: Tensor, order: Tensor) -> Iterator[Chunk]:
    """All triples in `order`; the next chunk overwrites the hidden units of this one."""
    space = _space(predictor, len(order))
    for begin in range(0, len(order), max(len(space), 1)):
        place = order[begin : begin + len(space)]
        device = torch.stack([trigger.index_select(0, place), action.index_select(0, place)], dim=1).view(-1)
        inputs = predictor.z.index_select(0, device).view(len(place), -1)
        hidden = torch.addmm(predictor.first_bias, inputs, predictor.first, out=space[: len(place)]).relu_()
        relations = relation.index_select(0, place)
        smallest, largest = int(relations[0]), int(relations[-1])
        yield Chunk(place, inputs, hidden, slice(smallest, largest + 1), (relations - smallest)[:, None])


def _space(predictor: Predictor, n_triples: int) -> Tensor:
    """Room for the hidden units of one chunk."""
    units = len(predictor.first_bias)
    return predictor.first_bias.new_empty(min(max(CELLS // max(units, 1), 1), n_triples), units)
