"""Clients of LightGCN, each on the graph of its own home and rules, many at once.

The graph of a home is a star: the home, and an edge to each of its m items, with weight w_i = 1 / sqrt(m d_i), where
d_i is the number of homes with item i. Propagation (He et al. 2020) starts with a vector h that all homes share and the
items' vectors e_i. Layer k + 1 of the home is the sum of w_i times layer k of its items, layer k + 1 of an item is w_i
times layer k of the home. With s = sum_i w_i e_i and q = sum_i w_i^2 the layers 0, 1, 2, ... of the home are

    h, s, q h, q s, q^2 h, ...    and their mean over K + 1 layers is    u = (a h + b s) / (K + 1)

with a = 1 + q + q^2 + ... over the even layers, and b likewise over the odd ones. An item outside of the graph, such as
one that may be recommended, gets no messages: its layers are e_i, 0, 0, ..., and their mean e_i / (K + 1).

The loss of a home is that of BPR (Rendle et al. 2009), the mean over its items t and sampled items j that it lacks, of

    softplus(-u_t (e_t - e_j) / (K + 1)) + regularization / 2 (|h|^2 + |e_t|^2 + |e_j|^2)

where u_t is the home's vector in the graph without the automation of t: t itself and, where one automation gave several
rules, the others. So in training an item is outside of the graph, as it is when it is recommended. With it in the
graph, every item would find itself.

A home changes the rows of its items and of sampled ones only. It hides which are which as Wu et al. (2021) do: among
the rows that it sends are those of `pseudo_items`, with random numbers of the mean and the standard deviation that its
other rows have in each dimension; all numbers are clipped to [-bound, bound] and get Laplace noise.

Random numbers are keyed by (seed, round, client), and all sums are over the triples of one client in their order: no
client depends on the others that it is trained with.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit, ndtri

from baselines.items import Factors, NonRules
from datasets.common.environment import thread_count
from datasets.common.random import KeyedRandom
from datasets.homes import Array, distinct
from fedrule.federated.optimizers import Precise
from fedrule.federated.trainers.trainer import ClientChunk
from fedrule.federated.vectors import FlatParameters, Vector, clip_factors, exact_addends


class Purpose(IntEnum):
    """Streams of random numbers of a round, beside those of `fedrule.federated.cohort`."""

    NON_RULES = 300
    PSEUDO_ITEMS = 301
    PSEUDO_NUMBERS = 302
    LAPLACE = 303


@dataclass(frozen=True, slots=True)
class LocalGraph:
    """What all homes know: how they train and what they hide."""

    dimension: int
    layers: int  # K
    regularization: float
    non_rules: int  # beside each rule
    pseudo_items: int  # rows of random numbers that a home sends beside its own
    bound: float  # of each number of an update; 0: any
    noise: float  # scale of the Laplace noise of each number; 0: none
    seed: int

    def weights(self, q: Precise) -> tuple[Precise, Precise]:
        """a and b of homes: how much of h and of s is in their vector, 1 / (K + 1) included."""
        powers = q[:, None] ** np.arange(self.layers // 2 + 1)
        even, odd = self.layers // 2 + 1, (self.layers + 1) // 2
        return powers[:, :even].sum(axis=1) / (self.layers + 1), powers[:, :odd].sum(axis=1) / (self.layers + 1)

    def home_vectors(self, have: csr_array, degree: Precise, home: Factors, items: Factors) -> Factors:
        """[n_homes, dimension]: u of homes with these items; `home` is h, `items` are e."""
        m = np.maximum(np.diff(have.indptr), 1)
        a, b = self.weights((have @ (1 / degree)) / m)
        s = (have @ (items / np.sqrt(degree)[:, None])) / np.sqrt(m)[:, None]
        return a[:, None] * home + b[:, None] * s


def degrees(have: csr_array) -> Precise:
    """[n_items]: homes with each item, at least 1."""
    return np.maximum(np.bincount(have.indices, minlength=have.shape[1]), 1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LocalGraphTrainer:
    """The training homes as clients."""

    have: csr_array  # [n_homes, n_items]  1 where a home has the item
    automation: Array  # [n_entries of `have`]  its number, those of a home one after the other
    non_rules: NonRules
    task: LocalGraph

    @property
    def layout(self) -> FlatParameters:
        """h, then a row for each item: homes send the rows in their batch."""
        d = self.task.dimension
        return FlatParameters(("home",), ((d,),), 0, self.have.shape[1], d)

    @property
    def rule_counts(self) -> Array:
        return np.diff(self.have.indptr).astype(np.int64)

    @property
    def degree(self) -> Precise:
        """The server knows them from the sum that gave the items."""
        return degrees(self.have)

    @property
    def threads(self) -> int:
        return thread_count()

    def begin(self, number: int, clients: Array, model: Vector) -> LocalGraphRound:  # noqa: ARG002  no draw depends on it
        """Draw the batches of clients; one that has nothing but rules for its devices has none and is left out."""
        task, (n_homes, n_items) = self.task, self.have.shape
        key = KeyedRandom(task.seed, number, np.arange(n_homes))
        own = self.have[clients]
        rule_home, rule_item = np.repeat(clients, np.diff(own.indptr)), own.indices.astype(np.int64)
        entry = np.arange(len(rule_home)) + np.repeat(self.have.indptr[clients] - own.indptr[:-1], np.diff(own.indptr))
        repeated = np.repeat(np.arange(len(rule_home)), task.non_rules)
        place, other = self.non_rules.draw(rule_home[repeated], key.stream(Purpose.NON_RULES))
        rule = repeated[place]
        trained = distinct(rule_home[rule])
        kept = np.isin(rule_home, trained)
        # Numbers of homes and rules among those that are trained.
        row, new = np.searchsorted(trained, rule_home[kept]), np.cumsum(kept) - 1
        items, home = rule_item[kept], np.searchsorted(trained, rule_home[rule])
        pseudo_home = np.repeat(trained, task.pseudo_items)
        pseudo = key.stream(Purpose.PSEUDO_ITEMS).below(pseudo_home, np.full(len(pseudo_home), n_items))
        pseudo = np.searchsorted(trained, pseudo_home) * n_items + pseudo
        real = distinct(np.concatenate([row * n_items + items, home * n_items + other]))
        touched = distinct(np.concatenate([real, pseudo]))
        ends = np.arange(len(trained) + 1)
        batches = Batches(
            row_start=np.searchsorted(touched, ends * n_items),
            row=touched % n_items,
            real=np.isin(touched, real),
            rule_start=np.searchsorted(row, ends),
            rule=np.searchsorted(touched, row * n_items + items),
            automation=self.automation[entry[kept]],
            triple_start=np.searchsorted(home, ends),
            target=new[rule],
            other=np.searchsorted(touched, home * n_items + other),
        )
        return LocalGraphRound(trained, batches, self.degree, KeyedRandom(task.seed, number, trained), task)


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Rows, rules and triples of clients, client after client, each with where those of a client begin."""

    row_start: Array  # [n_clients + 1]
    row: Array  # [n_rows]  items, sorted within a client
    real: npt.NDArray[np.bool_]  # [n_rows]  not of a pseudo item
    rule_start: Array  # [n_clients + 1]
    rule: Array  # [n_rules]  the row of each
    automation: Array  # [n_rules]  its number; only rules of one client share one
    triple_start: Array  # [n_clients + 1]
    target: Array  # [n_triples]  the rule of each
    other: Array  # [n_triples]  the row of the sampled item

    def part(self, first: int, end: int) -> Batches:
        """Of some clients, counted from the first of them."""
        row, rule, triple = (
            (start[first], start[end]) for start in (self.row_start, self.rule_start, self.triple_start)
        )
        some = slice(first, end + 1)
        return Batches(
            row_start=self.row_start[some] - row[0],
            row=self.row[slice(*row)],
            real=self.real[slice(*row)],
            rule_start=self.rule_start[some] - rule[0],
            rule=self.rule[slice(*rule)] - row[0],
            automation=self.automation[slice(*rule)],
            triple_start=self.triple_start[some] - triple[0],
            target=self.target[slice(*triple)] - rule[0],
            other=self.other[slice(*triple)] - row[0],
        )


@dataclass(frozen=True, slots=True, eq=False)
class LocalGraphRound:
    """A round of `LocalGraphTrainer`."""

    clients: Array
    batches: Batches
    degree: Precise  # [n_items]
    key: KeyedRandom  # of the clients
    task: LocalGraph

    def rows(self, first: int, end: int) -> tuple[Array, Array]:
        start = self.batches.row_start[first : end + 1]
        return start - start[0], self.batches.row[start[0] : start[-1]]

    @np.errstate(over="ignore", invalid="ignore")  # updates that are not finite are left out of the sums
    def train(self, chunk: ClientChunk) -> None:
        """Local steps of the clients on their own rows and on h, then what hides them, then the sum."""
        task, d, h = self.task, self.task.dimension, chunk.h
        batches = self.batches.part(chunk.first, chunk.end)
        model = chunk.broadcast.model.astype(np.float64)
        n = chunk.end - chunk.first
        before_home, before_rows = np.tile(model[:d], (n, 1)), model[d:].reshape(-1, d)[batches.row]
        home, rows = before_home, before_rows
        for step in range(h.steps):
            loss, home_gradient, row_gradient = gradients(task, batches, self.degree, home, rows)
            if step == 0:
                chunk.loss[:] = loss
            home, rows = home - h.phi_rate * home_gradient, rows - h.phi_rate * row_gradient
        of_home, of_rows = self._hidden(chunk, batches, before_home - home, before_rows - rows)
        owner = np.repeat(np.arange(n), np.diff(batches.row_start))
        squares = (of_home**2).sum(axis=1) + np.bincount(owner, (of_rows**2).sum(axis=1), minlength=n)
        chunk.finite[:] = np.isfinite(chunk.loss) & np.isfinite(squares) & ~chunk.faulty
        weight = chunk.weight.copy()
        if chunk.clip:
            weight *= clip_factors(np.where(chunk.finite, weight * np.sqrt(squares), 0.0), chunk.clip)
        good = chunk.finite[owner]
        chunk.update[:d] += exact_addends(weight[:, None] * of_home)[chunk.finite].sum(axis=0)
        total = chunk.update[d:].reshape(-1, d)
        np.add.at(total, batches.row[good], exact_addends(weight[owner, None] * of_rows)[good])

    def _hidden(self, chunk: ClientChunk, batches: Batches, home: Factors, rows: Factors) -> tuple[Factors, Factors]:
        """What clients send: with rows of pseudo items, clipped, and with noise."""
        task, d, n = self.task, self.task.dimension, len(home)
        owner = np.repeat(np.arange(n), np.diff(batches.row_start))
        in_round = np.arange(chunk.first, chunk.end)
        if task.pseudo_items:
            of_client = sums(batches.row_start, batches.real)
            many = np.maximum(of_client.sum(axis=1), 1)[:, None]
            mean = (of_client @ rows) / many
            deviation = np.sqrt(np.maximum((of_client @ rows**2) / many - mean**2, 0.0))
            made = ~batches.real
            drawn = self.key.stream(Purpose.PSEUDO_NUMBERS).random(np.repeat(in_round[owner[made]], d)).reshape(-1, d)
            normal = ndtri(np.clip(drawn, 2.0**-53, None))
            rows[made] = mean[owner[made]] + deviation[owner[made]] * normal
        if task.bound:
            home, rows = np.clip(home, -task.bound, task.bound), np.clip(rows, -task.bound, task.bound)
        if task.noise:
            place = np.concatenate([np.repeat(np.arange(n), d), np.repeat(owner, d)])
            order = np.argsort(place, kind="stable")
            uniform = np.empty(len(place))
            uniform[order] = self.key.stream(Purpose.LAPLACE).random(in_round[place[order]])
            noise = laplace(uniform) * task.noise
            home, rows = home + noise[: n * d].reshape(n, d), rows + noise[n * d :].reshape(-1, d)
        return home, rows


def sums(start: Array, counted: npt.NDArray[np.bool_] | None = None) -> csr_array:
    """[n_clients, n]: times a table with rows of each client it gives their sums, of those that are counted."""
    n = int(start[-1])
    data = np.ones(n) if counted is None else counted.astype(np.float64)
    return csr_array((data, np.arange(n), start), shape=(len(start) - 1, n))


def sums_within(group: Array) -> csr_array:
    """[n, n]: times a table with rows it gives each row the sum of all rows of its group."""
    number = np.unique(group, return_inverse=True)[1]
    belongs = csr_array((np.ones(len(group)), (number, np.arange(len(group)))))
    return csr_array(belongs.T @ belongs)


def laplace(uniform: Precise) -> Precise:
    """Laplace noise of scale 1 from uniform numbers in [0, 1)."""
    centred = np.clip(uniform, 2.0**-53, None) - 0.5
    return np.asarray(-np.sign(centred) * np.log1p(-2 * np.abs(centred)))


def gradients(
    task: LocalGraph, batches: Batches, degree: Precise, home: Factors, rows: Factors
) -> tuple[Precise, Factors, Factors]:
    """Losses [n], gradients of h [n, dimension] and of the rows [n_rows, dimension], at the clients' own vectors."""
    n, scale = len(home), 1 / (task.layers + 1)
    rule_owner = np.repeat(np.arange(n), np.diff(batches.rule_start))
    owner = np.repeat(np.arange(n), np.diff(batches.triple_start))
    sum_rules, sum_triples = sums(batches.rule_start), sums(batches.triple_start)
    of_automation = sums_within(batches.automation)
    root = 1 / np.sqrt(degree[batches.row[batches.rule]])[:, None]  # 1 / sqrt(d_i) of each rule
    e = rows[batches.rule] * root
    size = np.diff(of_automation.indptr)  # rules in the automation of each
    m = np.diff(batches.rule_start)[rule_owner] - size  # edges in the graph without them
    others = np.maximum(m, 1)[:, None]
    s = np.where(m[:, None] > 0, ((sum_rules @ e)[rule_owner] - of_automation @ e) / np.sqrt(others), 0.0)
    q = np.where(m > 0, ((sum_rules @ root**2)[rule_owner] - of_automation @ root**2)[:, 0] / others[:, 0], 0.0)
    a, b = (weight[:, None] for weight in task.weights(np.maximum(q, 0.0)))

    target, at, other = batches.target, batches.rule[batches.target], batches.other
    u = a[target] * home[owner] + b[target] * s[target]
    difference = rows[at] - rows[other]
    margin = scale * (u * difference).sum(axis=1)
    many = np.maximum(np.diff(batches.triple_start), 1)
    share = (1 / many)[owner][:, None]
    penalty = (home[owner] ** 2 + rows[at] ** 2 + rows[other] ** 2).sum(axis=1)
    loss = (sum_triples @ (np.logaddexp(0, -margin) + task.regularization / 2 * penalty)) / many

    pull = -scale * expit(-margin)[:, None] * share  # of the loss by u (e_t - e_j)
    of_u = pull * difference
    shrink = task.regularization * share
    of_home = sum_triples @ (a[target] * of_u + shrink * home[owner])
    of_rows = np.zeros_like(rows)
    np.add.at(of_rows, at, pull * u + shrink * rows[at])
    np.add.at(of_rows, other, -pull * u + shrink * rows[other])
    of_s = np.zeros_like(e)  # by s of each rule's graph, divided by sqrt(m)
    np.add.at(of_s, target, b[target] * of_u / np.sqrt(others[target]))
    of_s[m == 0] = 0
    np.add.at(of_rows, batches.rule, root * ((sum_rules @ of_s)[rule_owner] - of_automation @ of_s))
    return loss, of_home, of_rows
