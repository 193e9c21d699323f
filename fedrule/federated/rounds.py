"""A round of federated training, the same for every algorithm: a pure step from one state to the next.

The server samples a cohort and the clients train (`Engine.train_clients`, with `algorithm.client_round`). Those that
dropped out, were late or sent NaN or infinite numbers are left out, and the mean of the other updates moves the model
(`Engine.finish_round`, with `algorithm.server_round`). The simulation runs both parts in one process; in a deployment
every node runs the first over its own homes and the server the second. Between them is a `RoundSum`.

Clients are trained in chunks, several at once where there are threads. Neither that nor the node that a client is on
changes a bit: random numbers are keyed by client, and sums are exact.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from datasets.common.errors import DataError, install_hint, unknown
from datasets.homes import Array, Mask
from fedrule.federated.algorithm import Hyperparameters, server_round
from fedrule.federated.cohort import Cohort, Cohorts, Purpose
from fedrule.federated.optimizers import Precise, ServerOptimizer
from fedrule.federated.private import Privacy, normals_of
from fedrule.federated.robustness.aggregation import Aggregation, SingleUpdates, TooFewClients
from fedrule.federated.states import Broadcast, ClientStates, NextRows, Scratch, ServerState, view_states, write_back
from fedrule.federated.trainers.trainer import ClientChunk, Round, Trainer
from fedrule.federated.vectors import LARGEST, STEP, FlatParameters, Vector, exact_addends, zeros

if TYPE_CHECKING:
    from fedrule.federated.robustness.attacks import Attackers

log = logging.getLogger(__name__)

Weighting: TypeAlias = Literal["clients", "rules", "roots"]
WEIGHT_POWER = {"clients": 0.0, "rules": 1.0, "roots": 0.5}  # of a client's number of rules
CHUNK_SIZE = 1024
PRIVATE = ("epsilon", "epsilon_server", "delta", "noise_multiplier")  # columns of a history that only private runs have
MOST_RULES = 16  # that raise a client's weight in private runs


class RoundReport(NamedTuple):
    """What happened in a round."""

    loss: float  # weighted mean over clients, of the model before the round; NaN: no update counted, or not released
    clients: int  # whose updates counted; 0 in a private run, where nobody is told
    dropped: int = 0  # dropped out during the round
    late: int = 0  # sent after the round
    refused: int = 0  # sent NaN or infinite numbers
    corrupted: int = 0  # of these, simulated faults
    diverged: int = 0  # 1 where training diverged in this round; the model is then the last good one
    sent_bytes: float = 0.0  # by a client, mean: its update, of the rows those in its batch
    received_bytes: float = 0.0  # by a client: the model, and shared_k
    state_bytes: float = 0.0  # of a client's state, mean over all clients
    epsilon: float = math.nan  # disclosed by the run so far; NaN: without differential privacy
    # The same to the server of secure sums, who knows who took part, for a home that took part in all rounds.
    epsilon_server: float = math.nan
    delta: float = math.nan  # at which epsilon is disclosed
    noise_multiplier: float = math.nan  # of a round

    @property
    def private(self) -> bool:
        return not math.isnan(self.epsilon)

    def values(self) -> dict[str, float]:
        """For a history: private runs have an epsilon, and nothing that depends on homes and has no noise."""
        left_out = ("loss", "clients", "refused", "corrupted", "state_bytes") if self.private else PRIVATE
        if math.isnan(self.epsilon_server):
            left_out = (*left_out, "epsilon_server")
        return {name: float(value) for name, value in self._asdict().items() if name not in left_out}


@dataclass(frozen=True, slots=True, eq=False)
class RoundSum:
    """All that the server learns of the clients of a round: exact sums, so that neither order nor grouping matters."""

    update: Precise  # [size]  of weight * (Delta_k - base): see `ClientChunk`
    mean_gradient: Precise  # [size or 0]  of weight * p_k, where it is sent
    base_weight: Precise  # [n_shared or 0]  of weights, by the shared vector that is shared_k, where a base is left out
    weight: float
    loss: float  # of weight * loss, of the model before the round
    clients: int  # whose updates counted
    refused: int  # whose update was NaN or infinite
    rows: int  # of relations in the batches of these
    state_bytes: int  # of the states of all clients, also of those that did not take part

    def __add__(self, other: RoundSum) -> RoundSum:
        return RoundSum(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def without_counts(self) -> RoundSum:
        """The vectors alone: all that leaves a home in a private run, since only they get noise."""
        return replace(self, weight=0.0, loss=0.0, clients=0, refused=0, rows=0, state_bytes=0)

    def integers(self) -> Array:
        """All of it as one vector of integers, in multiples of STEP where it is not a count: what a secure sum adds."""
        numbers = np.concatenate([self.update, self.mean_gradient, self.base_weight, [self.weight, self.loss]]) / STEP
        if not (np.abs(numbers) < 2.0**53).all():  # neither larger ones nor NaN are exact
            raise DataError(f"a sum of updates exceeds {2.0**53 * STEP:g}; the learning rates are likely too high")
        counts = [self.clients, self.refused, self.rows, self.state_bytes]
        return np.concatenate([numbers.astype(np.int64), np.array(counts, dtype=np.int64)])

    def lengths(self) -> dict[str, int]:
        """Of its parts, for `from_integers`."""
        parts = {"size": self.update, "n_mean_gradient": self.mean_gradient, "n_shared": self.base_weight}
        return {name: len(part) for name, part in parts.items()}

    @classmethod
    def from_integers(cls, integers: Array, *, size: int, n_mean_gradient: int, n_shared: int) -> RoundSum:
        """The sum in a vector of `integers`, whose parts have these lengths."""
        ends = np.cumsum([size, n_mean_gradient, n_shared, 1, 1])
        if len(integers) != ends[-1] + 4:
            raise DataError(f"a sum of a round has {ends[-1] + 4} numbers, got {len(integers)}")
        *vectors, (weight,), (loss,), counts = np.split(integers, ends)
        update, mean_gradient, base_weight = (vector.astype(np.float64) * STEP for vector in vectors)
        return cls(update, mean_gradient, base_weight, weight * STEP, loss * STEP, *map(int, counts))


class TrainedClients(NamedTuple):
    """What remains of a round at the clients."""

    sums: RoundSum
    states: ClientStates  # the next ones, if the server counts the sums
    counted: Array  # clients whose updates are in the sums
    corrupted: int = 0  # simulated faults
    # Of a secure sum: bytes that a client sends and receives, mean, without the model.
    sent_bytes: float | None = None
    received_bytes: float = 0.0


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
    privacy: Privacy = field(default_factory=Privacy)  # of each home
    # Clients that dropped out, by the number of rounds done before: to compute again what happened in a deployment.
    missing: Mapping[int, Array] = field(default_factory=dict)
    aggregation: Aggregation = field(default_factory=Aggregation)  # of the updates of a cohort
    attackers: Attackers | None = None  # simulated
    secure_threshold: float = 0.0  # share of a cohort that a secure sum needs at least, above 1/2; 0: sums are plain
    row_means: bool = False  # a row is averaged over the clients that sent it: `FlatParameters.means_by_row`

    def __post_init__(self) -> None:
        if self.privacy.clip and self.hyperparameters.corrects:
            raise DataError(
                f"clip bounds the update of a home, but in {self.hyperparameters.algorithm} the server also learns who "
                "took part last in which round, and homes carry what they were sent into later updates; differential "
                "privacy and clipping are for methods without corrections: fedgnn, fedprox, fedrank"
            )
        if self.privacy.noisy and not self.aggregation.is_mean:
            raise DataError(
                f"{self.aggregation.needs}: how much one home can change it is not bounded as in a sum, so that noise "
                "hides nobody; use aggregation mean with epsilon, where clip bounds every home"
            )
        if self.row_means and (self.privacy.clip or not self.aggregation.is_mean):
            raise DataError(
                f"{self.aggregation.needs or 'clip'} would change how many homes a row counts beside its numbers; rows "
                "are averaged over the homes that sent them, which needs aggregation mean without norm_bound and clip"
            )
        if self.weighting not in get_args(Weighting):
            raise unknown("weighting", self.weighting, get_args(Weighting))
        if self.secure_threshold and not 0.5 < self.secure_threshold <= 1:
            raise DataError(
                f"secure_threshold must be above 0.5, or else two halves of a cohort could be unmasked apart, and at "
                f"most 1, got {self.secure_threshold}; 0: plain sums"
            )
        if self.secure_threshold and importlib.util.find_spec("cryptography") is None:
            raise DataError(f"secure_threshold needs {install_hint('secure')}")
        if self.secure_threshold and self.single_updates:
            raise DataError(f"{self.single_updates} needs single updates, which a secure sum hides from the server")
        if self.aggregation.name != "mean" and self.weighting != "clients":
            raise DataError(
                f"aggregation {self.aggregation.name} counts every client once, since weights are claimed by clients; "
                f"weighting {self.weighting} has no effect, set it to clients"
            )
        if self.single_updates and self.hyperparameters.sends_mean_gradient:
            raise DataError(
                f"{self.single_updates}: with control gradients clients send a second vector, which it says nothing "
                "about; set control to updates"
            )

    @property
    def single_updates(self) -> str:
        """The options for which the server needs the updates one by one, for messages; empty where sums are enough."""
        attack = f"attack {self.attackers.attack}" if self.attackers and self.attackers.change_updates else ""
        return self.aggregation.needs or attack

    def begin(self, trainer: Trainer, model: Vector) -> ServerState:
        """The state before the first round of a simulation, with the states of all clients.

        An error where even a cohort without faults is too small for the aggregation.
        """
        try:
            self.aggregation.check_cohort(self.cohorts.count(int((trainer.rule_counts > 0).sum())))
        except TooFewClients as error:
            raise DataError(f"{self.name}: {error}") from None
        state = self.begin_server(trainer.layout, model, len(trainer.rule_counts))
        clients = ClientStates.initial(trainer.rule_counts, trainer.layout, self.hyperparameters)
        return replace(state, clients=clients)

    def begin_server(self, layout: FlatParameters, model: Vector, n_clients: int) -> ServerState:
        """The state before the first round at a server: of its clients it knows only when they last took part.

        A warning where noise would hide whatever a round learns.
        """
        h, size = self.hyperparameters, layout.size
        if self.privacy.noisy:
            self.privacy.warn_of_noise(
                self.name, size, n_clients=n_clients, sampling_rate=self.cohorts.fraction(n_clients)
            )
        n_shared = int(h.corrects and h.equations.one_shared)
        shared, shared_round = zeros((n_shared, size)), np.full(n_shared, -1)
        clients = ClientStates.nothing(n_clients, layout)
        return ServerState(0, model, self.server.initial(size), shared, shared_round, clients)

    def step(
        self, trainer: Trainer, state: ServerState, *, seed: int, rate: float = 1.0, donate: bool = False
    ) -> tuple[ServerState, RoundReport]:
        """The state after one more round, with this rate of the server's optimizer.

        With `donate` the new client states overwrite those of the old state, which must not be used any more; that
        halves the memory of a large population.
        """
        with_rules = np.flatnonzero(trainer.rule_counts)
        n_clients = self.n_clients(trainer.rule_counts)
        cohort = self.cohorts.of(with_rules, seed=seed, number=state.round, n_clients=n_clients)
        if state.round in self.missing:
            cohort = cohort.without(self.missing[state.round])
        # A round may be given up, and then clients keep their old states.
        may_end = bool(self.secure_threshold) or self.aggregation.may_refuse
        states = state.clients if donate and not may_end else state.clients.copy()
        try:
            if self.secure_threshold:
                from fedrule.federated.secure.rounds import train_securely  # with cryptography, an extra

                trained = train_securely(self, trainer, states, state, cohort, n_clients=n_clients, seed=seed)
            else:
                trained = self.train_clients(
                    trainer,
                    states,
                    state.broadcast(),
                    cohort.present,
                    faulty=cohort.corrupted,
                    single=bool(self.single_updates),
                )
        except TooFewClients as error:
            log.warning("%s: round %d is skipped: %s; the model stays", self.name, state.round + 1, error)
            after, report = self.give_up_round(state, trainer.layout, n_clients=n_clients)
            return after, self.log_faults(after.round, report, cohort, corrupted=0)
        after, report = self.finish_round(
            replace(state, clients=trained.states),
            trained.sums,
            trainer.layout,
            n_clients=n_clients,
            rate=rate,
            seed=seed,
        )
        if trained.sent_bytes is not None:
            report = report._replace(
                sent_bytes=trained.sent_bytes, received_bytes=report.received_bytes + trained.received_bytes
            )
        return after, self.log_faults(after.round, report, cohort, corrupted=trained.corrupted)

    def train_clients(
        self,
        trainer: Trainer,
        states: ClientStates,  # may be overwritten by the next ones
        broadcast: Broadcast,
        present: Array,  # clients of the cohort, sorted
        *,
        faulty: Mask | None = None,  # [n_present]  those whose update is made NaN: a simulated fault
        single: bool = False,  # these are all clients of the round, and the server sees each update
    ) -> TrainedClients:
        """The clients' part of a round: what those of a trainer send, summed, and their next states.

        With `single` the sum is the aggregate of the updates, with weight 1: no further one can be added to it.
        """
        if self.single_updates and not single:
            raise DataError(
                f"{self.name}: {self.single_updates} needs the updates of all homes one by one, but nodes and secure "
                "sums give the server sums only; use aggregation mean without norm_bound, or the simulation"
            )
        h, layout = self.hyperparameters, trainer.layout
        work = trainer.begin(broadcast.round, present, broadcast.model)
        clients, group = work.clients, broadcast.group(states.last[work.clients])
        faults = np.zeros(len(clients), dtype=bool) if faulty is None else faulty[np.isin(present, clients)]
        weight = self.weights(trainer.rule_counts[clients])
        rows = None  # that change
        if h.corrects and h.row_sparse:
            rows = states.next_rows(clients, *work.rows(0, len(clients)))
        if states.packed is not None and len(broadcast.shared):
            states.packed.advance(h, layout, broadcast.shared[-1])
        updates = self._single_updates(len(clients), layout.size) if single else None
        chunks = [*self._train(trainer, work, states, rows, broadcast, group, weight, faults, updates)]
        finite = np.concatenate([np.zeros(0, dtype=bool), *(chunk.finite for chunk in chunks)])
        loss = np.concatenate([np.zeros(0), *(chunk.loss for chunk in chunks)])[finite]
        states = states if rows is None else states.with_rows(rows, clients[~finite])
        nothing, counted = np.zeros(layout.size), weight[finite]
        base_weight: Precise = np.zeros(0)
        if h.corrects and h.row_sparse and len(broadcast.shared):
            known = finite & (group >= 0)
            base_weight = np.bincount(group[known], weight[known], minlength=len(broadcast.shared)).astype(np.float64)
        sums = RoundSum(
            update=sum((chunk.update for chunk in chunks), start=nothing),
            mean_gradient=sum(
                (c.mean_gradient for c in chunks), start=nothing if h.sends_mean_gradient else nothing[:0]
            ),
            base_weight=base_weight,
            weight=float(counted.sum()),
            loss=float(exact_addends(counted * loss).sum()),
            clients=int(finite.sum()),
            refused=int((~finite).sum()),
            rows=sum(chunk.n_rows for chunk in chunks),
            state_bytes=states.nbytes,
        )
        if updates is not None and sums.clients:
            # Single updates have their base.
            sums = replace(sums, update=updates.total(finite, counted), base_weight=np.zeros_like(base_weight))
        if self.privacy.noisy:
            sums = sums.without_counts()
        return TrainedClients(sums, states, clients[finite], int(faults.sum()))

    def secure_threshold_of(self, n: int) -> int:
        """How many of n participants a secure sum needs at least: more than the share `secure_threshold`."""
        from fedrule.federated.secure.messages import threshold_of  # with cryptography, an extra

        return threshold_of(n, self.secure_threshold)

    def nothing(self, layout: FlatParameters, n_shared: int) -> RoundSum:
        """The sum over no client, of a round with so many shared vectors."""
        h = self.hyperparameters
        mean_gradient = np.zeros(layout.size if h.sends_mean_gradient else 0)
        base_weight = np.zeros(n_shared if h.corrects and h.row_sparse else 0)
        return RoundSum(np.zeros(layout.size), mean_gradient, base_weight, 0.0, 0.0, 0, 0, 0, 0)

    def n_clients(self, rule_counts: Array) -> int:
        """How many clients a federation with so many rules has: those with rules.

        In private runs all, since how many have rules is a secret; those without take part by adding nothing.
        """
        return len(rule_counts) if self.privacy.noisy else int((rule_counts > 0).sum())

    def weights(self, rule_counts: Array) -> Precise:
        """Of the updates of clients with so many rules; in private runs at most 1, from MOST_RULES on."""
        counts = rule_counts.astype(float)
        if self.privacy.noisy:
            counts = np.minimum(counts, MOST_RULES) / MOST_RULES
        return exact_addends(counts ** WEIGHT_POWER[self.weighting])

    def _single_updates(self, n_clients: int, size: int) -> SingleUpdates:
        needed_by = f"{self.name}: {self.single_updates}"
        return SingleUpdates.of(
            n_clients, size, aggregation=self.aggregation, attackers=self.attackers, needed_by=needed_by
        )

    def finish_round(
        self,
        state: ServerState,  # in which `clients.last` says already who took part
        sums: RoundSum,
        layout: FlatParameters,
        *,
        n_clients: int,  # of the whole federation: see `n_clients`
        rate: float = 1.0,  # of the server's optimizer
        seed: int | None = None,  # of the noise of private runs, in simulations; None: nobody can predict the noise
    ) -> tuple[ServerState, RoundReport]:
        """The server's part of a round: from the sums to the model and the shared vectors of the next."""
        h, number = self.hyperparameters, state.round + 1
        report = self._report(sums, layout, len(state.clients.last))
        if self.privacy.noisy:
            fraction = self.cohorts.fraction(n_clients)
            normals = normals_of(seed, Purpose.ROUNDS, state.round)
            if self.secure_threshold:
                update = sums.update / (fraction * n_clients)  # the homes have added the noise, each a part of it
            else:
                update = self.privacy.noisy_mean(
                    sums.update, n_clients=n_clients, sampling_rate=fraction, normals=normals
                )
            report = self._with_account(report, n_clients, number)
            return server_round(h, layout, self.server, state, update, None, present=fraction, rate=rate), report
        if not sums.clients:
            return replace(state, round=number), report
        if np.abs(sums.update).max() > LARGEST:
            log.warning(
                "%s: round %d: the sum of updates exceeds %g, where its last digits depend on the order of clients; "
                "the learning rates are likely too high",
                self.name,
                number,
                LARGEST,
            )
        base = np.zeros(layout.size)
        for weight, shared in zip(sums.base_weight, state.shared, strict=False):  # a product of all may use threads
            base[layout.n_dense :] += weight * shared[layout.n_dense :].astype(float)
        base *= h.steps * h.phi_rate * h.phi_lambda
        total = sums.update + base
        update = layout.means_by_row(total, sums.weight) if self.row_means else total / sums.weight
        mean_gradient = sums.mean_gradient / sums.weight if h.sends_mean_gradient else None
        present = sums.clients / n_clients
        state = server_round(h, layout, self.server, state, update, mean_gradient, present=present, rate=rate)
        return state.without_unused() if h.corrects and not h.equations.one_shared else state, report

    def give_up_round(
        self, state: ServerState, layout: FlatParameters, *, n_clients: int
    ) -> tuple[ServerState, RoundReport]:
        """A round without a sum, which had too few clients: the model and all states stay."""
        number, report = state.round + 1, self._report(self.nothing(layout, 0), layout, len(state.clients.last))
        if self.privacy.noisy:  # nothing was disclosed; the account is one of planned rounds
            report = self._with_account(report, n_clients, number)
        return replace(state, round=number), report

    def _train(
        self,
        trainer: Trainer,
        work: Round,
        clients: ClientStates,
        rows: NextRows | None,
        broadcast: Broadcast,
        group: Array,
        weight: Precise,
        faulty: Mask,
        single: SingleUpdates | None,  # where each update is wanted: written, and not added up
    ) -> Iterator[ChunkResult]:
        """Train the round's clients, chunk by chunk, and store their states."""
        h, layout, scratch = self.hyperparameters, trainer.layout, Scratch()
        chunk_size = self.chunk_size if single is None else 1

        def train(first: int) -> ChunkResult:
            end = min(first + chunk_size, len(work.clients))
            chunk = ClientChunk(
                first=first,
                end=end,
                h=h,
                layout=layout,
                broadcast=broadcast,
                group=group[first:end],
                weight=weight[first:end],
                faulty=faulty[first:end],
                states=view_states(clients, rows, work.clients[first:end], *work.rows(first, end), h, scratch),
                update=np.zeros(layout.size),
                mean_gradient=np.zeros(layout.size if h.sends_mean_gradient else 0),
                loss=np.zeros(end - first, dtype=np.float32),
                finite=np.zeros(end - first, dtype=bool),
                clip=self.privacy.clip,
            )
            work.train(chunk)
            update = chunk.update
            if single is not None:
                chunk.finite[:] &= single.receive(chunk, int(work.clients[first]))
                update = np.zeros(1)  # not used
            write_back(clients, rows, chunk.states, chunk.finite, broadcast.round, scratch)
            return ChunkResult(update, chunk.mean_gradient, chunk.loss, chunk.finite, len(chunk.states.row))

        with ThreadPoolExecutor(max_workers=trainer.threads) as pool:
            yield from pool.map(train, range(0, len(work.clients), chunk_size))

    def log_faults(self, number: int, report: RoundReport, cohort: Cohort, *, corrupted: int) -> RoundReport:
        """Say which clients are missing in a round; the report with their numbers."""
        report = report._replace(dropped=cohort.dropped, late=cohort.late, corrupted=corrupted)
        if report.private:
            pass  # how many updates counted is known to nobody
        elif not report.clients:
            none = "%s: round %d: no update (%d clients dropped out, %d late, %d NaN or infinite); the model stays"
            log.warning(none, self.name, number, report.dropped, report.late, report.refused)
        elif report.refused:
            lost = "%s: round %d continues without %d clients whose updates are NaN or infinite"
            log.warning(lost, self.name, number, report.refused)
        if report.dropped or report.late:
            missing = "%s: round %d continues without %d clients that dropped out and %d that were late"
            log.info(missing, self.name, number, report.dropped, report.late)
        return report

    def _with_account(self, report: RoundReport, n_clients: int, rounds: int) -> RoundReport:
        """With what the account says after so many rounds."""
        account = self.privacy.account(n_clients, self.cohorts.fraction(n_clients))
        return report._replace(
            epsilon=account.after(rounds),
            epsilon_server=account.known_cohorts(rounds) if self.secure_threshold else math.nan,
            delta=account.delta,
            noise_multiplier=account.noise_multiplier,
        )

    def _report(self, sums: RoundSum, layout: FlatParameters, n_clients: int) -> RoundReport:
        h, trained = self.hyperparameters, sums.clients + sums.refused
        return RoundReport(
            sums.loss / sums.weight if sums.weight else float("nan"),
            sums.clients,
            refused=sums.refused,
            # Which rows a home touches is not for a private run to tell: they are all sent.
            sent_bytes=layout.sent_bytes(
                layout.n_rows if self.privacy.noisy else sums.rows / max(trained, 1),
                vectors=2 if h.sends_mean_gradient else 1,
            ),
            received_bytes=4.0 * layout.size * (2 if h.corrects else 1),
            state_bytes=sums.state_bytes / max(n_clients, 1),
        )
