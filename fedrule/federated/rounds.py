"""Rounds of federated training, the same for every algorithm: a pure step from one state to the next, and their loop.

The server samples a cohort and the clients train (`algorithm.client_round`). Those that dropped out, were late or sent
NaN or infinite numbers are left out, and the mean of the other updates moves the model (`algorithm.server_round`).
Clients are trained in chunks, several at once where there are threads. Neither changes a bit: random numbers are keyed
by client, and sums are exact.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from datasets.common.errors import unknown
from datasets.homes import Array, Mask
from fedrule.federated.algorithm import Hyperparameters, server_round
from fedrule.federated.checkpoint import Checkpoint, GuardExtra
from fedrule.federated.cohort import Cohorts
from fedrule.federated.optimizers import Precise, ServerOptimizer
from fedrule.federated.states import ClientStates, NextRows, Scratch, ServerState, view_states, write_back
from fedrule.federated.trainers.trainer import Broadcast, ClientChunk, Round, Trainer
from fedrule.federated.vectors import LARGEST, Vector, zeros
from fedrule.training.loop import DivergenceGuard

log = logging.getLogger(__name__)

Weighting: TypeAlias = Literal["clients", "rules", "roots"]
POWER = {"clients": 0.0, "rules": 1.0, "roots": 0.5}  # of a client's number of rules
CHUNK_SIZE = 1024


class RoundReport(NamedTuple):
    """What happened in a round."""

    loss: float  # weighted mean over clients, of the model before the round; NaN where no update counted
    clients: int  # whose updates counted
    dropped: int = 0  # dropped out during the round
    late: int = 0  # sent after the round
    refused: int = 0  # sent NaN or infinite numbers
    corrupted: int = 0  # of these, simulated faults
    diverged: int = 0  # 1 where training diverged in this round; the model is then the last good one
    sent_bytes: float = 0.0  # by a client, mean: its update, of the rows those in its batch
    received_bytes: float = 0.0  # by a client: the model, and shared_k
    state_bytes: float = 0.0  # of a client's state, mean over all clients


class ChunkResult(NamedTuple):
    """What remains of a chunk."""

    update: Precise
    mean_gradient: Precise
    loss: Vector
    finite: Mask
    n_rows: int


@dataclass(frozen=True, slots=True)
class Engine:
    """A round: local training, who takes part, how updates are weighted, and the server's optimizer."""

    hyperparameters: Hyperparameters
    server: ServerOptimizer = field(default_factory=ServerOptimizer)
    cohorts: Cohorts = field(default_factory=Cohorts)
    weighting: Weighting = "clients"  # all updates count the same, or by the client's number of rules or its root
    chunk_size: int = CHUNK_SIZE  # clients
    name: str = "federated"  # of the method, for messages

    def __post_init__(self) -> None:
        if self.weighting not in get_args(Weighting):
            raise unknown("weighting", self.weighting, get_args(Weighting))

    def begin(self, trainer: Trainer, model: Vector) -> ServerState:
        """The state before the first round."""
        h, size = self.hyperparameters, trainer.layout.size
        n_shared = int(h.corrects and h.equations.one_shared)
        shared, shared_round = zeros((n_shared, size)), np.full(n_shared, -1)
        clients = ClientStates.initial(trainer.rule_counts, trainer.layout, h)
        return ServerState(0, model, self.server.initial(size), shared, shared_round, clients)

    def step(
        self, trainer: Trainer, state: ServerState, *, seed: int, rate: float = 1.0, donate: bool = False
    ) -> tuple[ServerState, RoundReport]:
        """The state after one more round, with this rate of the server's optimizer.

        With `donate` the new client states overwrite those of the old state, which must not be used any more; that
        halves the memory of a large population.
        """
        h, layout, number = self.hyperparameters, trainer.layout, state.round + 1
        cohort = self.cohorts.of(np.flatnonzero(trainer.rule_counts), seed=seed, number=state.round)
        work = trainer.begin(state.round, cohort.present, state.model)
        faulty = cohort.corrupted[np.isin(cohort.present, work.clients)]
        clients = state.clients if donate else state.clients.copy()
        weight = trainer.rule_counts[work.clients].astype(float) ** POWER[self.weighting]
        broadcast = Broadcast(state.model, state.shared, self._group(state, work.clients))
        rows = None  # that change
        if h.corrects and h.row_sparse:
            rows = clients.next_rows(work.clients, *work.rows(0, len(work.clients)))
        if clients.packed is not None and len(state.shared):
            clients.packed.advance(h, layout, state.shared[-1])
        chunks = [*self._train(trainer, work, clients, rows, broadcast, weight, faulty, state.round)]
        finite = np.concatenate([np.zeros(0, dtype=bool), *(chunk.finite for chunk in chunks)])
        clients = clients if rows is None else clients.with_rows(rows, work.clients[~finite])
        faults = {"dropped": cohort.dropped, "late": cohort.late, "corrupted": int(faulty.sum())}
        report = self._report(trainer, clients, chunks, weight)._replace(**faults)
        self._log(number, report)
        state = replace(state, clients=clients)
        if not finite.any():
            return replace(state, round=number), report
        total, nothing = float(weight[finite].sum()), np.zeros(layout.size)
        update = sum((chunk.update for chunk in chunks), start=nothing)
        if np.abs(update).max() > LARGEST:
            log.warning(
                "%s: round %d: the sum of updates exceeds %g, where its last digits depend on the order of clients; "
                "the learning rates are likely too high",
                self.name,
                number,
                LARGEST,
            )
        update = (update + self._base(trainer, broadcast, weight * finite)) / total
        mean_gradient = None
        if h.sends_mean_gradient:
            mean_gradient = sum((chunk.mean_gradient for chunk in chunks), start=nothing) / total
        present = int(finite.sum()) / int((trainer.rule_counts > 0).sum())
        state = server_round(h, layout, self.server, state, update, mean_gradient, present=present, rate=rate)
        return state.without_unused() if h.corrects and not h.equations.one_shared else state, report

    def _train(
        self,
        trainer: Trainer,
        work: Round,
        clients: ClientStates,
        rows: NextRows | None,
        broadcast: Broadcast,
        weight: Precise,
        faulty: Mask,
        number: int,
    ) -> Iterator[ChunkResult]:
        """Train the round's clients, chunk by chunk, and store their states."""
        h, layout, scratch = self.hyperparameters, trainer.layout, Scratch()

        def train(first: int) -> ChunkResult:
            end = min(first + self.chunk_size, len(work.clients))
            chunk = ClientChunk(
                first=first,
                end=end,
                h=h,
                layout=layout,
                broadcast=broadcast,
                weight=weight[first:end],
                faulty=faulty[first:end],
                states=view_states(clients, rows, work.clients[first:end], *work.rows(first, end), h, scratch),
                update=np.zeros(layout.size),
                mean_gradient=np.zeros(layout.size if h.sends_mean_gradient else 0),
                loss=np.zeros(end - first, dtype=np.float32),
                finite=np.zeros(end - first, dtype=bool),
            )
            work.train(chunk)
            write_back(clients, rows, chunk.states, chunk.finite, number, scratch)
            return ChunkResult(chunk.update, chunk.mean_gradient, chunk.loss, chunk.finite, len(chunk.states.row))

        with ThreadPoolExecutor(max_workers=trainer.threads) as pool:
            yield from pool.map(train, range(0, len(work.clients), self.chunk_size))

    def _log(self, number: int, report: RoundReport) -> None:
        """Which clients are missing in a round."""
        if not report.clients:
            none = "%s: round %d: no update (%d clients dropped out, %d late, %d NaN or infinite); the model stays"
            log.warning(none, self.name, number, report.dropped, report.late, report.refused)
        elif report.refused:
            lost = "%s: round %d continues without %d clients whose updates are NaN or infinite"
            log.warning(lost, self.name, number, report.refused)
        if report.dropped or report.late:
            missing = "%s: round %d continues without %d clients that dropped out and %d that were late"
            log.info(missing, self.name, number, report.dropped, report.late)

    def _group(self, state: ServerState, clients: Array) -> Array:
        """[n]: which of the shared vectors is shared_k; see `Broadcast`."""
        if not len(state.shared):
            return np.full(len(clients), -1)
        if self.hyperparameters.equations.one_shared:
            return np.zeros(len(clients), dtype=np.int64)
        last = state.clients.last[clients]
        return np.where(last >= 0, np.searchsorted(state.shared_round, last), -1)

    def _base(self, trainer: Trainer, broadcast: Broadcast, weight: Precise) -> Precise:
        """The sum of the base of all clients: see `ClientChunk`."""
        h, layout, base = self.hyperparameters, trainer.layout, np.zeros(trainer.layout.size)
        if h.corrects and h.row_sparse and len(broadcast.shared):
            known = broadcast.group >= 0
            of_group = np.bincount(broadcast.group[known], weight[known], minlength=len(broadcast.shared))
            for group, shared in zip(of_group, broadcast.shared, strict=True):  # one by one: a product may use threads
                base[layout.n_dense :] += group * shared[layout.n_dense :].astype(float)
            base *= h.steps * h.phi_rate * h.phi_lambda
        return base

    def _report(
        self, trainer: Trainer, clients: ClientStates, chunks: list[ChunkResult], weight: Precise
    ) -> RoundReport:
        layout, h = trainer.layout, self.hyperparameters
        finite = np.concatenate([np.zeros(0, dtype=bool), *(chunk.finite for chunk in chunks)])
        loss = np.concatenate([np.zeros(0), *(chunk.loss for chunk in chunks)])[finite]
        rows = sum(chunk.n_rows for chunk in chunks) / max(len(finite), 1)
        vectors = 2 if h.sends_mean_gradient else 1
        return RoundReport(
            float(np.average(loss, weights=weight[finite])) if finite.any() else float("nan"),
            int(finite.sum()),
            refused=int((~finite).sum()),
            sent_bytes=4.0 * vectors * (layout.n_dense + rows * (layout.row_length + 1)),  # a row and its number
            received_bytes=4.0 * layout.size * (2 if h.corrects else 1),
            state_bytes=clients.nbytes / max(len(clients.last), 1),
        )


OnServerRound: TypeAlias = Callable[[int, Vector, RoundReport], bool]  # round, model and report; whether to stop


@dataclass(frozen=True, slots=True)
class ServerSchedule:
    """How long, how fast, and with which seed."""

    name: str  # of the method
    rounds: int
    seed: int
    rate: float = 1.0  # of the server's optimizer
    decay: bool = False  # whether it falls to zero along half a cosine
    client_rate: float = 0.1  # for messages

    def rate_after(self, done: int) -> float:
        """The server's rate after so many rounds."""
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * done / self.rounds)) if self.decay else self.rate


def train(
    engine: Engine,
    trainer: Trainer,
    schedule: ServerSchedule,
    state: ServerState,
    on_round: OnServerRound,
    checkpoint: Checkpoint | None = None,
) -> Vector:
    """The model after the last round; `on_round` is called after each and may stop.

    Training that diverges, or in which most clients send NaN or infinite numbers, stops with a warning and returns the
    last model whose loss was in bounds. Where that is the initial one, nothing has been learned: an error.
    """
    rates = {"learning_rate": schedule.client_rate, "server_rate": schedule.rate}
    guard = DivergenceGuard(schedule.name, schedule.rounds, rates, state.model, state.round)
    if checkpoint is not None:
        checkpoint = checkpoint.extended({}, {"good": GuardExtra(guard)})
        state = checkpoint.load(state) or state
        if state.round:
            log.info("%s: resumes after round %d", schedule.name, state.round)
    while state.round < schedule.rounds:
        before = state.model
        state, report = engine.step(
            trainer, state, seed=schedule.seed, rate=schedule.rate_after(state.round), donate=True
        )
        losses = [report.loss] if report.clients else []
        if report.refused - report.corrupted > report.clients:  # most are NaN or infinite, simulated faults aside
            losses = [math.nan]
        if guard.diverged(state.round, before, losses, finite=bool(np.isfinite(state.model).all())):
            on_round(state.round, guard.model, report._replace(diverged=1))
            return guard.model
        if on_round(state.round, state.model, report):
            break
        if checkpoint is not None:
            checkpoint.save(state, last=state.round == schedule.rounds)
    return state.model
