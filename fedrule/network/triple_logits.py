"""The logits of single triples by the paper's predictor, and their gradient, in chunks that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

CELLS = 1 << 18  # triples times hidden units at a time: 1 MB of float32, in the cache with what is made of it


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
