"""Many clients at once, in one batch of models: the same as `TorchTrainer`, faster, and tested equal up to rounding.

In a local step every client has a model of its own, so that its products are of small matrices, and calling torch takes
longer than computing them. Here all tensors have a first dimension for the clients, and those of many are one call. For
that their homes have to be of one size: devices, messages and candidates are filled up to the sizes of a class, with
messages of weight zero and candidates that do not count. The class of a client depends on its own home and examples
only, and nothing is summed over clients, so that its update does not depend on who else is in the chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from datasets.common.random import output
from datasets.homes import Array, Mask, starts
from fedrule.federated.algorithm import Gradients, client_round
from fedrule.federated.client import LocalTraining
from fedrule.federated.optimizers import Precise
from fedrule.federated.trainers.trainer import ClientChunk, Population
from fedrule.federated.vectors import Vector
from fedrule.lazy import torch
from fedrule.network.batch import Edges, GraphBatch
from fedrule.network.complex_decoder import ComplexNetwork
from fedrule.network.encoders import DRAWN, Dropout, Parameters
from fedrule.network.network import Network
from fedrule.network.score import Scorer
from fedrule.network.terms import CountBias, LearnedBias, Rooms
from fedrule.training.examples import Examples
from fedrule.training.loop import TrainingBatch
from fedrule.training.losses import padded

if TYPE_CHECKING:
    from torch import Tensor

Padded: TypeAlias = "dict[str, Tensor]"  # each [n_clients, ...]

CLIENTS_PER_CALL = 128  # 10 MB of models of 20,000 numbers, and a few times as much beside
# Devices, messages and candidates of the smallest class; the next one has FACTOR times as many. Devices and messages
# grow together, which leaves fewer classes; how many candidates there are has little to do with the size of a home.
SMALLEST = {"devices": 8, "messages": 8, "candidates": 96}
SIZES = (("devices", "messages"), ("candidates",))
FACTOR = 3  # fewer classes are fewer calls, larger ones compute more that does not count
WITH_PLAIN_OPERATIONS = (LearnedBias, CountBias, Rooms)  # score terms
ENCODERS = ("sage", "compgcn")  # that take several models at once


def fits_batches(task: LocalTraining) -> bool:
    """Whether all that the task computes can be done for many clients at once."""
    network, terms = task.scorer.network, task.scorer.terms
    many = isinstance(network, ComplexNetwork) or (isinstance(network, Network) and network.encoder in ENCODERS)
    plain = all(isinstance(term, WITH_PLAIN_OPERATIONS) for term in terms)
    return many and plain and padded(task.objective) is not None


@dataclass(frozen=True, eq=False)
class BatchedTrainer(Population):
    """The training homes as clients."""

    @property
    def threads(self) -> int:
        return 1  # torch uses several itself

    def begin(self, number: int, clients: Array, model: Vector) -> BatchedRound:
        """Draw the batches of all clients; batches that are used again are drawn again, which is little work."""
        task, numbers = self.task, self.numbers_of(clients)
        sampler = task.sampler(self.homes.subset(clients))
        drawn = task.labelled(sampler.draw(task.key(number, numbers), score=task.score(model)), numbers)
        trained = np.unique(drawn.candidates.home)
        batches = ClientBatches.of(task.scorer, drawn.subset(trained))
        return BatchedRound(task, number, clients[trained], numbers[trained], batches)


@dataclass(frozen=True, slots=True, eq=False)
class BatchedRound:
    """A round of `BatchedTrainer`."""

    task: LocalTraining
    number: int
    clients: Array
    numbers: Array  # of these in the federation
    batches: ClientBatches

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        n_rows = self.task.layout.n_rows
        if not n_rows:
            return np.zeros(end - first + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        begin = self.batches.candidates
        relation = self.batches.batch.query.relation[begin[first] : begin[end]].numpy()
        owner = np.repeat(np.arange(end - first), np.diff(begin[first : end + 1]))
        rows = np.unique(owner * n_rows + relation)
        return starts(rows // n_rows, end - first), rows % n_rows

    def train(self, chunk: ClientChunk) -> None:
        for first in range(0, chunk.end - chunk.first, CLIENTS_PER_CALL):
            some = slice(first, min(first + CLIENTS_PER_CALL, chunk.end - chunk.first))
            found = client_round(
                chunk.h,
                chunk.layout,
                chunk.broadcast.model,
                self._gradients(np.arange(chunk.first + some.start, chunk.first + some.stop)),
                chunk.state(some),
                shared=chunk.shared(some),
                n=some.stop - some.start,
            )
            chunk.add(some, *found)

    def _gradients(self, which: Array) -> Gradients:
        """Of these of the round's clients, those of one class at once."""
        classes, of_client = np.unique(self.batches.size_class[which], axis=0, return_inverse=True)
        groups = [np.flatnonzero(of_client.reshape(-1) == each) for each in range(len(classes))]
        batches = [self.batches.padded(which[group]) for group in groups]
        seeds = self.task.dropout_seeds(self.number, self.numbers[which])

        def at(x: Vector, step: int) -> tuple[Precise, Vector]:
            loss, gradient = np.empty(len(which)), np.empty_like(x)
            for group, batch in zip(groups, batches, strict=True):
                kept = self._kept(seeds[step, group], batch["type"].shape[1])
                loss[group], gradient[group] = self._loss_and_gradient(x[group], batch | kept)
            return loss, gradient

        return at

    def _loss_and_gradient(self, models: Vector, batch: Padded) -> tuple[Vector, Vector]:
        """[n], [n, size]: of each client at its model."""
        layout, objective = self.task.layout, padded(self.task.objective)
        assert objective is not None
        # Leaves of their own: the gradient of a part of a vector would be a whole vector.
        split = layout.split(torch.from_numpy(models))
        parameters = {name: value.detach().requires_grad_() for name, value in split.items()}
        logits = _logits(self.task.scorer, parameters, batch)
        loss = objective(logits, batch["positive"], batch["counts"], batch["stands_for"])
        # A client's loss depends on its own model only, so that the gradient of the sum is that of each.
        torch.autograd.backward(loss.sum())
        found = {name: torch.zeros_like(v) if v.grad is None else v.grad for name, v in parameters.items()}
        return loss.detach().numpy(), layout.flat(found, (len(models),))

    def _kept(self, seeds: Array, n_devices: int) -> Padded:
        """The units of hidden states that dropout keeps, as `Dropout` draws them for each client; empty without it."""
        network = self.task.scorer.network
        assert isinstance(network, Network | ComplexNetwork)
        rate, hidden = network.sizes.dropout, network.sizes.hidden
        if not rate:
            return {}
        units = n_devices * hidden
        numbers = np.arange((units + 3) // 4, dtype=np.uint64)
        bits = output(seeds.view(np.uint64)[:, None], numbers).view("<u2")[:, :units]
        return {"kept": torch.from_numpy(bits >= math.ceil(rate * DRAWN)).reshape(-1, n_devices, hidden)}


@dataclass(frozen=True, slots=True, eq=False)
class ClientBatches:
    """The examples of clients one after the other, and how far each has to be filled up."""

    batch: TrainingBatch
    devices: Array  # [n_clients + 1]  where those of each client begin
    messages: Array  # [n_clients + 1]
    candidates: Array  # [n_clients + 1]
    size_class: Array  # [n_clients, 2]  of its home, and of its candidates: SIZES

    @classmethod
    def of(cls, scorer: Scorer, examples: Examples) -> ClientBatches:
        n = examples.full.n_homes
        begin = {
            "devices": examples.context.device_start,
            "messages": starts(examples.context.rules.home, n),
            "candidates": starts(examples.candidates.home, n),
        }
        size_class = np.zeros((n, len(SIZES)), dtype=np.int64)
        for number, parts in enumerate(SIZES):
            for part in parts:
                while (too_small := np.diff(begin[part]) > SMALLEST[part] * FACTOR ** size_class[:, number]).any():
                    size_class[:, number] += too_small
        return cls(TrainingBatch.of(scorer, examples), **begin, size_class=size_class)

    def padded(self, clients: Array) -> Padded:
        """The tensors of clients of one class; what follows a client's own is zero."""
        query = self.batch.query
        device, message, candidate = (
            Slots.of(getattr(self, part), clients, SMALLEST[part] * FACTOR ** int(self.size_class[clients[0], number]))
            for number, parts in enumerate(SIZES)
            for part in parts
        )
        first = self.devices[clients]
        found = {"type": device(query.homes.type), "place": device(query.homes.place)}
        for way, edges in (("in", query.homes.incoming), ("out", query.homes.outgoing)):
            found |= {
                f"sender_{way}": message(edges.sender, less=first),
                f"receiver_{way}": message(edges.receiver, less=first),
                f"weight_{way}": message(edges.weight),
            }
        found |= {
            "message": message(query.homes.incoming.relation),
            "trigger": candidate(query.trigger, less=first),
            "action": candidate(query.action, less=first),
            "relation": candidate(query.relation),
            "positive": candidate(self.batch.positive),
            "counts": torch.from_numpy(candidate.used),
            "stands_for": self.batch.stands_for[torch.from_numpy(clients)],
        }
        for number, observed in enumerate(query.observed):
            found |= {f"{number}.{name}": candidate(values) for name, values in observed.items()}
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Where the values of clients stand in a column, in rows of one length."""

    place: Array  # [n_clients, length]  0 where there is none
    used: Mask  # [n_clients, length]

    @classmethod
    def of(cls, start: Array, clients: Array, length: int) -> Slots:
        number = np.arange(length)
        used = number < (start[clients + 1] - start[clients])[:, None]
        return cls(np.where(used, start[clients][:, None] + number, 0), used)

    def __call__(self, column: Tensor, *, less: Array | None = None) -> Tensor:
        """[n_clients, length, ...]: the values of a column, minus `less` of the client; 0 where there is none."""
        if not len(column):
            return column.new_zeros(*self.place.shape, *column.shape[1:])
        values, used = column[torch.from_numpy(self.place)], torch.from_numpy(self.used)
        if less is not None:
            values = values - torch.from_numpy(less)[:, None]
        return values * used.reshape(*used.shape, *[1] * (values.ndim - 2))


@dataclass(slots=True, eq=False)
class DrawnDropout(Dropout):
    """Dropout whose units were drawn before."""

    units: Tensor | None = None  # [n_clients, n_devices, hidden]  those that are kept

    def kept(self, shape: tuple[int, ...], rate: float) -> Tensor | None:  # noqa: ARG002
        return self.units


def _logits(scorer: Scorer, parameters: Parameters, batch: Padded) -> Tensor:
    """[n_clients, n_candidates]: `Scorer.logits_of` for each client."""
    network, (n_clients, n_devices) = scorer.network, batch["type"].shape
    edges = [
        Edges(batch[f"sender_{w}"], batch[f"receiver_{w}"], batch["message"], batch[f"weight_{w}"], n_devices)
        for w in ("in", "out")
    ]
    home = GraphBatch(n_clients, torch.zeros_like(batch["type"]), batch["type"], batch["place"], *edges)
    assert isinstance(network, Network | ComplexNetwork)
    z = network.embed(parameters, home, DrawnDropout(0, units=batch["kept"]) if "kept" in batch else None)
    candidates = batch["trigger"], batch["action"], batch["relation"]
    logits_of = network.plain_logits_of if isinstance(network, Network) else network.logits_of
    logits = logits_of(parameters, z, *candidates)
    for number, term in enumerate(scorer.terms):
        own = {key.removeprefix(f"{term.name}."): v for key, v in parameters.items() if key.startswith(f"{term.name}.")}
        observed = {key.removeprefix(f"{number}."): v for key, v in batch.items() if key.startswith(f"{number}.")}
        logits = logits + term.logits_of(own, observed, None)
    return logits
