"""One round of federated training, for every algorithm: a pure step from one state to the next.

The server samples a cohort, clients train (see `plan`), whoever vanished, was late or sent something that is no number
is left out, and the mean of the others' updates moves the global model. Clients are trained in chunks, several at once
where there are threads for it. Neither changes a number: draws are keyed by client, and sums are made on a grid.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from datasets.common.errors import unknown
from datasets.homes import Array, Mask
from fedrule.federated.algorithm import Plan, Precise, ServerOptimizer
from fedrule.federated.checkpoint import GuardBeside, Remembers
from fedrule.federated.cohort import Cohorts
from fedrule.federated.protocols import Round, Told, Trainer, Work
from fedrule.federated.states import Kept, Memories, ServerState, align, put_back
from fedrule.federated.vectors import LARGEST, Vector, zeros
from fedrule.training.loop import DivergenceGuard

log = logging.getLogger(__name__)

Weighting: TypeAlias = Literal["clients", "rules", "roots"]
POWER = {"clients": 0.0, "rules": 1.0, "roots": 0.5}  # of a client's number of rules
CLIENTS_AT_ONCE = 1024


class Report(NamedTuple):
    """What happened in a round."""

    loss: float  # weighted mean over clients, of the model before the round; NaN where nobody's update came
    clients: int  # whose updates came and were counted
    dropped: int = 0  # vanished in mid-round
    late: int = 0  # sent when the round was over
    refused: int = 0  # sent something that is no number
    broken: int = 0  # and were made to, a fault to try
    diverged: int = 0  # 1 where training diverged in this round; the model is then the last good one
    sent_bytes: float = 0.0  # by a client to the server, mean: its update, of rows those that it touched
    received_bytes: float = 0.0  # by a client from the server: the model, and what corrections share
    memory_bytes: float = 0.0  # that a client keeps, mean over all


class Chunk(NamedTuple):
    """What came of some clients."""

    update: Precise
    progress: Precise
    loss: Vector
    finite: Mask
    n_rows: int  # that they were asked about


@dataclass(frozen=True, slots=True)
class Engine:
    """An algorithm: what clients do, who takes part, how updates are weighed, and what the server does with them."""

    plan: Plan
    server: ServerOptimizer = field(default_factory=ServerOptimizer)
    cohorts: Cohorts = field(default_factory=Cohorts)
    weighting: Weighting = "clients"  # each update counts alike, or as the client's number of rules or its root
    at_once: int = CLIENTS_AT_ONCE  # clients of a chunk
    name: str = "federated"  # of the method, for what has to be said

    def __post_init__(self) -> None:
        if self.weighting not in get_args(Weighting):
            raise unknown("weighting", self.weighting, get_args(Weighting))

    def begin(self, trainer: Trainer, model: Vector) -> ServerState:
        """The state before the first round."""
        layout = trainer.layout
        n_shared = int(self.plan.corrects and self.plan.correction == "scaffold")
        return ServerState(
            0,
            model,
            self.server.initial(layout.size),
            zeros((n_shared, layout.size)),
            np.full(n_shared, -1),
            Memories.empty(trainer.rules, layout, self.plan),
        )

    def step(
        self, trainer: Trainer, state: ServerState, *, seed: int, rate: float = 1.0, donate: bool = False
    ) -> tuple[ServerState, Report]:
        """The state after one more round, at this rate of the server's optimizer.

        `donate` gives the memories of the clients away: the new state is written over the old one's, which must not be
        used any more. It halves what a large population needs.
        """
        cohort = self.cohorts.of(np.flatnonzero(trainer.rules), seed=seed, number=state.round)
        work = trainer.begin(state.round, cohort.present, state.model)
        broken = cohort.broken[np.isin(cohort.present, work.clients)]
        clients = state.clients if donate else state.clients.copy()
        weight = trainer.rules[work.clients].astype(float) ** POWER[self.weighting]
        told = Told(state.model, state.shared, self._group(state, work.clients))
        chunks, moved_rows = [], []
        for chunk, rows in self._train(trainer, work, clients, told, weight, broken, state.round):
            chunks.append(chunk)
            moved_rows += [] if rows is None else [rows]
        clients = clients.with_rows(moved_rows)
        finite = np.concatenate([np.zeros(0, dtype=bool), *(chunk.finite for chunk in chunks)])
        faults = {"dropped": cohort.dropped, "late": cohort.late, "broken": int(broken.sum())}
        report = self._report(trainer, clients, chunks, weight)._replace(**faults)
        self._say(state.round + 1, report)
        if not finite.any():
            return replace(state, round=state.round + 1, clients=clients), report
        total, nothing = float(weight[finite].sum()), np.zeros(trainer.layout.size)
        update = sum((chunk.update for chunk in chunks), start=nothing)
        if np.abs(update).max() > LARGEST:
            log.warning(
                "%s: round %d: the sum of updates is beyond %g, where it depends on the order of clients in its last "
                "digits; the rates are likely too high",
                self.name,
                state.round + 1,
                LARGEST,
            )
        update = (update + self._base(trainer, told, weight * finite)) / total
        model, moved = self.server.step(state.model, update, state.moved, rate)
        state = replace(state, round=state.round + 1, model=model, moved=moved, clients=clients)
        if not self.plan.corrects:
            return state, report
        progress = update / (trainer.layout.by_part(self.plan.theta_rate, self.plan.phi_rate) * self.plan.steps)
        if self.plan.sends_progress:
            progress = sum((chunk.progress for chunk in chunks), start=nothing) / total
        return self._share(state, progress, int(finite.sum()) / int((trainer.rules > 0).sum())), report

    def _train(
        self, trainer: Trainer, work: Round, clients: Memories, told: Told, weight: Precise, broken: Mask, number: int
    ) -> Iterator[tuple[Chunk, Kept | None]]:
        """Chunks of the round's clients, trained; what they remember is written down, but for rows that changed."""
        size = trainer.layout.size

        def train(first: int) -> tuple[Chunk, Kept | None]:
            end = min(first + self.at_once, len(work.clients))
            chunk = Work(
                first=first,
                end=end,
                plan=self.plan,
                told=told,
                weight=weight[first:end],
                broken=broken[first:end],
                memory=align(clients, work.clients[first:end], *work.rows(first, end), self.plan),
                update=np.zeros(size),
                progress=np.zeros(size if self.plan.sends_progress else 0),
                loss=np.zeros(end - first, dtype=np.float32),
                finite=np.zeros(end - first, dtype=bool),
            )
            work.train(chunk)
            rows = put_back(clients, chunk.memory, chunk.finite, number)
            return Chunk(chunk.update, chunk.progress, chunk.loss, chunk.finite, len(chunk.memory.row)), rows

        with ThreadPoolExecutor(max_workers=trainer.threads) as pool:
            yield from pool.map(train, range(0, len(work.clients), self.at_once))

    def _say(self, number: int, report: Report) -> None:
        """Who is missing in a round."""
        if not report.clients:
            nobody = "%s: round %d: no update came in (%d vanished, %d late, %d sent no number); the model stays"
            log.warning(nobody, self.name, number, report.dropped, report.late, report.refused)
        elif report.refused:
            lost = "%s: round %d goes on without %d clients: what they sent is no number"
            log.warning(lost, self.name, number, report.refused)
        if report.dropped or report.late:
            missing = "%s: round %d goes on without %d clients that vanished and %d that were late"
            log.info(missing, self.name, number, report.dropped, report.late)

    def _group(self, state: ServerState, clients: Array) -> Array:
        """[n]: which shared vector corrects each client."""
        if self.plan.correction == "scaffold":
            return np.zeros(len(clients), dtype=np.int64) if len(state.shared) else np.full(len(clients), -1)
        last = state.clients.last[clients]
        place = np.searchsorted(state.shared_round, last)  # sorted, as rounds came
        return np.where((last >= 0) & (len(state.shared_round) > 0), place, -1)

    def _base(self, trainer: Trainer, told: Told, weight: Precise) -> Precise:
        """The sum of the clients' bases: see `fedrule.federated.protocols.Round`."""
        layout, plan = trainer.layout, self.plan
        base = np.zeros(layout.size)
        if plan.corrects and plan.row_sparse and len(told.shared):
            of_group = np.bincount(told.group[told.group >= 0], weight[told.group >= 0], minlength=len(told.shared))
            moved = plan.steps * plan.phi_rate * plan.phi_lambda
            for group, shared in zip(of_group, told.shared, strict=True):  # one by one: a product may use threads
                base[layout.n_dense :] += group * shared[layout.n_dense :].astype(float)
            base *= moved
        return base

    def _share(self, state: ServerState, progress: Precise, present: float) -> ServerState:
        """The state with what corrections share after this round; `present` is the share of clients that counted."""
        if self.plan.correction == "scaffold":
            return replace(state, shared=(state.shared + present * (progress - state.shared)).astype(np.float32))
        shared = np.concatenate([state.shared, progress[None].astype(np.float32)])
        number = np.append(state.shared_round, state.round - 1)
        needed = np.isin(number, state.clients.last)
        return replace(state, shared=shared[needed], shared_round=number[needed])

    def _report(self, trainer: Trainer, clients: Memories, chunks: list[Chunk], weight: Precise) -> Report:
        layout = trainer.layout
        finite = np.concatenate([np.zeros(0, dtype=bool), *(chunk.finite for chunk in chunks)])
        loss = np.concatenate([np.zeros(0), *(chunk.loss for chunk in chunks)])[finite]
        rows = sum(chunk.n_rows for chunk in chunks) / max(len(finite), 1)
        vectors = 2 if self.plan.sends_progress else 1
        return Report(
            float(np.average(loss, weights=weight[finite])) if finite.any() else float("nan"),
            int(finite.sum()),
            refused=int((~finite).sum()),
            sent_bytes=4.0 * vectors * (layout.n_dense + rows * (layout.row_length + 1)),  # a row and its number
            received_bytes=4.0 * layout.size * (2 if self.plan.corrects else 1),
            memory_bytes=clients.nbytes / max(len(clients.last), 1),
        )


# --- Rounds one after the other: told to whoever listens, kept in checkpoints, stopped before they run away.

Watched: TypeAlias = Callable[[int, Vector, Report], bool]  # the round, its model and report; whether to stop


class Saves(Protocol):
    """Where states are kept so that a run that was killed goes on."""

    def of(self, configuration: Mapping[str, object], beside: Mapping[str, Remembers]) -> Saves:
        """The same for a run of this configuration, keeping also what others remember beside the state."""

    def load(self, begun: ServerState) -> ServerState | None:
        """The last state that was saved, of a run that would begin with this one; None where there is none."""

    def save(self, state: ServerState, *, last: bool) -> None:
        """Told every state; keeps those that are due."""


@dataclass(frozen=True, slots=True)
class Run:
    """How long, how fast, and by which seed."""

    name: str  # of the method
    rounds: int
    seed: int
    rate: float = 1.0  # of the server's optimizer
    decay: bool = False  # the rate falls to zero along half a cosine
    client_rate: float = 0.1  # to name when it was too high

    @property
    def rates(self) -> dict[str, float]:
        """To name when one was too high."""
        return {"learning_rate": self.client_rate, "server_rate": self.rate}

    def at(self, done: int) -> float:
        """The server's rate when so many rounds are over."""
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * done / self.rounds)) if self.decay else self.rate


def train(
    engine: Engine, trainer: Trainer, run: Run, state: ServerState, told: Watched, saves: Saves | None = None
) -> Vector:
    """The model after the last round; `told` every round, it may stop.

    Where the loss runs away, or most clients send what is no number, training stops with a warning and the last model
    whose loss was in bounds is the result. Where that is the one it began with nothing has been learned: an error.
    """
    guard = DivergenceGuard(run.name, run.rounds, run.rates, state.model, state.round)
    if saves is not None:
        saves = saves.of({}, {"good": GuardBeside(guard)})
        state = saves.load(state) or state
        if state.round:
            log.info("%s: goes on after round %d", run.name, state.round)
    while state.round < run.rounds:
        before = state.model
        state, report = engine.step(trainer, state, seed=run.seed, rate=run.at(state.round), donate=True)
        losses = [report.loss] if report.clients else []
        if report.refused - report.broken > report.clients:  # most are NaN or infinite, not by a simulated fault
            losses = [math.nan]
        if guard.diverged(state.round, before, losses, finite=bool(np.isfinite(state.model).all())):
            told(state.round, guard.model, report._replace(diverged=1))
            return guard.model
        if told(state.round, state.model, report):
            break
        if saves is not None:
            saves.save(state, last=state.round == run.rounds)
    return state.model
