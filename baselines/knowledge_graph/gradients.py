"""Loss and gradients of knowledge-graph embeddings, home after home in compiled loops: for `methods`, and for `fede`.

With q = h + u and y = t conj(r), a candidate has the score s = q . y (ComplEx) or gamma - |q - y| (RotatE), and a rule
the loss of `methods`,

    softplus(-s) + sum over non-rules i of p_i softplus(s_i),    p = softmax(alpha s_i), taken as constant.

What depends on the candidate alone, y or h - y, is computed once for all rules of a home, and its gradient is added up
before the chain rule leads it on to h, r and t. No home depends on those before it in the loop.

Loops are written so that they are vectorised: an innermost loop starts at 0 and writes one or two arrays. A name `d_x`
is the gradient of the loss with respect to x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from baselines.knowledge_graph.model import Embeddings, ScoreFunction, Vectors
from datasets.common.compiled import entry_point, in_any_order, inlined
from datasets.homes import Array, Homes, Mask
from datasets.private_counts import owned_types

Rows: TypeAlias = npt.NDArray[np.float32]
f32 = np.float32  # numbers are made so: a bare 0.5 is a float64, and so becomes all that it touches


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the rows of each table begin, of 2 d numbers: entities, relations, and what vectors of homes are made of.

    Relations have d angles with RotatE, the other half unused.
    """

    n_types: int
    n_relations: int
    dimension: int  # d
    personal: bool  # whether homes have a vector

    @property
    def relation(self) -> int:
        """Entities are the first rows."""
        return self.n_types

    @property
    def rule_relation(self) -> int:
        return self.relation + self.n_relations

    @property
    def rule_trigger(self) -> int:
        return self.rule_relation + self.n_relations

    @property
    def rule_action(self) -> int:
        return self.rule_trigger + self.n_types

    @property
    def owned(self) -> int:
        return self.rule_action + self.n_types

    @property
    def n_rows(self) -> int:
        return self.owned + self.n_types if self.personal else self.rule_relation

    @property
    def offsets(self) -> tuple[int, int, int, int, int]:
        """Of all tables but the first."""
        return self.relation, self.rule_relation, self.rule_trigger, self.rule_action, self.owned

    def initial(self, score: ScoreFunction, rng: np.random.Generator) -> Rows:
        """As torch-geometric's models begin: uniform, angles over the circle; zero for what vectors of homes need."""
        d = self.dimension
        rows = np.zeros((self.n_rows, 2 * d))
        entity, relation = rows[: self.relation], rows[self.relation : self.rule_relation]
        for table in (entity, relation):
            bound = math.sqrt(6 / (len(table) + d))
            table[:] = rng.uniform(-bound, bound, table.shape)
        if score == "rotate":
            relation[:, :d] = rng.uniform(0, 2 * math.pi, relation[:, :d].shape)
            relation[:, d:] = 0.0
        return rows.astype(np.float32)

    def embeddings(self, rows: Rows, score: ScoreFunction, margin: float) -> Embeddings:
        """The vectors in these rows, copied."""
        precise: Vectors = rows.astype(np.float64)
        entity, relation, *of_homes = np.split(precise, self.offsets if self.personal else self.offsets[:1])
        if score == "rotate":
            angle = relation[:, : self.dimension]
            relation = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        return Embeddings(score, margin, entity, relation, *of_homes)


class Loss(NamedTuple):
    """Options of the score and the loss."""

    rotates: bool  # RotatE; otherwise ComplEx
    margin: float  # gamma
    temperature: float  # alpha
    personal: bool  # whether homes have a vector


class Typed(NamedTuple):
    """Candidates by number."""

    trigger: Array  # [n_candidates]  type
    relation: Array  # [n_candidates]
    action: Array  # [n_candidates]  type


class KnownRules(NamedTuple):
    """What homes have and own; each `*_start` [n_homes + 1] says where they begin."""

    start: Array
    item: Array  # [n_rules]
    automation: Array  # [n_rules]
    owned_start: Array
    owned: Array  # types

    @classmethod
    def of(cls, homes: Homes, known: csr_array, automation: Array) -> KnownRules:
        """Of the matrix [n_homes, n_items] of rules, and the automation of each of its entries."""
        owned = owned_types(homes)
        columns = known.indptr, known.indices, automation, owned.indptr, owned.indices
        return cls(*(np.ascontiguousarray(column, dtype=np.int64) for column in columns))


class Buffers(NamedTuple):
    """Intermediate results of a gradient."""

    rotation: Rows  # [n_relations, 2 d]  relations as complex numbers
    d_rotation: Rows  # zeros between gradients
    has_rotation: Mask  # [n_relations]  whether `rotation` has that of the model
    is_listed: Mask  # [n_candidates]  false between homes
    listed: Array  # [n_candidates]  those of a home, each once
    point: Rows  # [n_candidates, 2 d]  h - y of RotatE, y of ComplEx
    d_point: Rows
    base: Rows  # [n_candidates]  h . y of ComplEx
    d_base: Rows


@entry_point()
def batch_gradient(
    x: Rows,  # [n_rows, 2 d]
    offsets: tuple[int, int, int, int, int],
    loss: Loss,
    typed: Typed,
    rules: KnownRules,
    home: Array,  # [n]  of the rules of the batch, sorted
    entry: Array,  # [n]  of each among all rules
    candidate: Array,  # [n, 1 + n_non_rules]  the rule first
    is_drawn: Mask,  # [n, 1 + n_non_rules]
    gradient: Rows,  # [n_rows, 2 d]  zeros; written
) -> float:
    """The mean loss of a batch of rules, and its gradient."""
    buffers = make_buffers(offsets, len(typed.trigger), x.shape[1])
    total, first = 0.0, 0
    while first < len(home):
        end = first
        while end < len(home) and home[end] == home[first]:
            end += 1
        some = slice(first, end)
        total += add_home(
            x, gradient, offsets, loss, typed, rules, home[first], entry[some], candidate[some], is_drawn[some],
            1 / len(home), buffers,
        )  # fmt: skip
        first = end
    for r in range(len(buffers.rotation)):
        if buffers.has_rotation[r]:
            add_rotation_gradient(gradient, offsets[0] + r, buffers.rotation, buffers.d_rotation, r, loss.rotates)
    return total


@in_any_order
def make_buffers(offsets: tuple[int, int, int, int, int], n_candidates: int, width: int) -> Buffers:
    n_relations = offsets[1] - offsets[0]
    return Buffers(
        np.empty((n_relations, width), f32),
        np.zeros((n_relations, width), f32),
        np.zeros(n_relations, np.bool_),
        np.zeros(n_candidates, np.bool_),
        np.empty(n_candidates, np.int64),
        np.empty((n_candidates, width), f32),
        np.empty((n_candidates, width), f32),
        np.empty(n_candidates, f32),
        np.empty(n_candidates, f32),
    )


@in_any_order
def add_home(
    x: Rows,
    gradient: Rows,
    offsets: tuple[int, int, int, int, int],
    loss: Loss,
    typed: Typed,
    rules: KnownRules,
    home: int,
    entry: Array,  # [n]  of some of its rules among all
    candidate: Array,  # [n, 1 + n_non_rules]
    is_drawn: Mask,  # [n, 1 + n_non_rules]
    weight: float,
    buffers: Buffers,
) -> float:
    """Add weight times the gradient of the sum of the losses of these rules, and return weight times that sum.

    Gradients of relations are added to `buffers.d_rotation`, and are passed on by `add_rotation_gradient`.
    """
    own = rules.item[rules.start[home] : rules.start[home + 1]]
    automation = rules.automation[rules.start[home] : rules.start[home + 1]]
    types = rules.owned[rules.owned_start[home] : rules.owned_start[home + 1]]
    n_listed = list_candidates(x, offsets, loss, typed, candidate, is_drawn, buffers)
    vectors = home_vectors(x, offsets, loss, typed, own, types)
    d_vectors = np.zeros((len(own) + 2, x.shape[1]), f32)
    value = add_losses(
        loss, automation, rules.automation, entry, candidate, is_drawn, weight, buffers, vectors, d_vectors
    )
    backpropagate_candidates(x, gradient, loss, typed, n_listed, buffers)
    if loss.personal:
        backpropagate_home(gradient, offsets, typed, own, types, d_vectors)
    return value


@inlined
def list_candidates(
    x: Rows,
    offsets: tuple[int, int, int, int, int],
    loss: Loss,
    typed: Typed,
    candidate: Array,
    is_drawn: Mask,
    buffers: Buffers,
) -> int:
    """Compute what depends on the candidate alone, and list each candidate once; returns how many these are."""
    trigger, relation, action = typed
    rotation, _, has_rotation, is_listed, listed, point, d_point, base, d_base = buffers
    n_listed = 0
    for i in range(candidate.shape[0]):
        for j in range(candidate.shape[1]):
            c = candidate[i, j]
            if not is_drawn[i, j] or is_listed[c]:
                continue
            is_listed[c] = True
            listed[n_listed] = c
            n_listed += 1
            r = relation[c]
            if not has_rotation[r]:
                has_rotation[r] = True
                make_rotation(rotation, r, x, offsets[0] + r, loss.rotates)
            multiply_conjugate(point, c, x, action[c], rotation, r)
            if loss.rotates:
                subtract_from(point, c, x, trigger[c])
            base[c] = f32(0) if loss.rotates else dot(x, trigger[c], point, c)
            d_base[c] = f32(0)
            clear(d_point, c)
    return n_listed


@inlined
def home_vectors(
    x: Rows, offsets: tuple[int, int, int, int, int], loss: Loss, typed: Typed, own: Array, types: Array
) -> Rows:
    """[n_own + 2, 2 d]: v of each rule of the home, their sum, and the mean of o over the types that it owns."""
    _, at_rule_relation, at_rule_trigger, at_rule_action, at_owned = offsets
    trigger, relation, action = typed
    vectors = np.zeros((len(own) + 2, x.shape[1]), f32)
    if loss.personal:
        for i in range(len(own)):
            add(vectors, i, f32(1), x, at_rule_relation + relation[own[i]])
            add(vectors, i, f32(1), x, at_rule_trigger + trigger[own[i]])
            add(vectors, i, f32(1), x, at_rule_action + action[own[i]])
            add(vectors, len(own), f32(1), vectors, i)
        for kind in types:
            add(vectors, len(own) + 1, f32(1 / len(types)), x, at_owned + kind)
    return vectors


@inlined
def add_losses(
    loss: Loss,
    automation: Array,  # [n_own]  of the rules of the home
    all_automation: Array,  # of the rules of all homes
    entry: Array,  # [n]  of the rules that are predicted among these
    candidate: Array,
    is_drawn: Mask,
    weight: float,
    buffers: Buffers,
    vectors: Rows,  # of the home
    d_vectors: Rows,
) -> float:
    """Weight times the sum of the losses; gradients are added to those of the candidates and of `vectors`."""
    rotates, margin, temperature, personal = loss
    _, _, _, _, _, point, d_point, base, d_base = buffers
    n_own, n_candidates, width = len(automation), candidate.shape[1], vectors.shape[1]
    total, mean = n_own, n_own + 1
    u, d_u = np.zeros((1, width), f32), np.zeros((1, width), f32)
    value, scores, d_scores = 0.0, np.zeros(n_candidates), np.zeros(n_candidates)
    for i in range(len(entry)):
        # u without the rule's automation.
        others, scale = n_own, f32(1)
        clear(u, 0)
        if personal:
            add(u, 0, f32(1), vectors, total)
            for k in range(n_own):
                if automation[k] == all_automation[entry[i]]:
                    others -= 1
                    add(u, 0, f32(-1), vectors, k)
            scale = f32(1 / math.sqrt(others + 1))
            scale_and_add(u, 0, scale, vectors, mean)
        for j in range(n_candidates):
            if is_drawn[i, j]:
                c = candidate[i, j]
                scores[j] = margin - distance(point, c, u) if rotates else base[c] + dot(point, c, u, 0)
        value += weight * adversarial(scores, is_drawn[i], temperature, d_scores)
        clear(d_u, 0)
        for j in range(n_candidates):
            if is_drawn[i, j]:
                c, d_s = candidate[i, j], f32(weight * d_scores[j])
                if rotates:
                    length = f32(margin - scores[j])
                    add_both(d_u, d_point, c, -d_s / length if length > 0 else f32(0), u, point)
                else:
                    d_base[c] += d_s
                    add(d_point, c, d_s, u, 0)
                    add(d_u, 0, d_s, point, c)
        if personal:
            add(d_vectors, mean, f32(1), d_u, 0)
            add(d_vectors, total, scale, d_u, 0)
            for k in range(n_own):
                if automation[k] == all_automation[entry[i]]:
                    add(d_vectors, k, -scale, d_u, 0)
    return value


@inlined
def backpropagate_candidates(
    x: Rows, gradient: Rows, loss: Loss, typed: Typed, n_listed: int, buffers: Buffers
) -> None:
    """Add the gradients of h, r and t, given those of the listed candidates, which are listed no more."""
    trigger, relation, action = typed
    rotation, d_rotation, _, is_listed, listed, point, d_point, _, d_base = buffers
    for place in range(n_listed):
        c = listed[place]
        is_listed[c] = False
        h, r = trigger[c], relation[c]
        if loss.rotates:  # h - y
            add(gradient, h, f32(1), d_point, c)
            negate(d_point, c)
        else:  # h . y and y
            add(gradient, h, d_base[c], point, c)
            add(d_point, c, d_base[c], x, h)
        add_product_gradients(gradient, action[c], d_rotation, r, x, rotation, d_point, c)


@inlined
def backpropagate_home(
    gradient: Rows, offsets: tuple[int, int, int, int, int], typed: Typed, own: Array, types: Array, d_vectors: Rows
) -> None:
    """Add the gradients of what `home_vectors` read."""
    _, at_rule_relation, at_rule_trigger, at_rule_action, at_owned = offsets
    trigger, relation, action = typed
    total, mean = len(own), len(own) + 1
    for i in range(len(own)):
        add(d_vectors, i, f32(1), d_vectors, total)
        add(gradient, at_rule_relation + relation[own[i]], f32(1), d_vectors, i)
        add(gradient, at_rule_trigger + trigger[own[i]], f32(1), d_vectors, i)
        add(gradient, at_rule_action + action[own[i]], f32(1), d_vectors, i)
    for kind in types:
        add(gradient, at_owned + kind, f32(1 / len(types)), d_vectors, mean)


@in_any_order
def adversarial(scores: Vectors, is_drawn: Mask, temperature: float, d_scores: Vectors) -> float:
    """The loss of one rule, whose score is the first; gradients are written where there is a non-rule."""
    largest, total, of_others = -np.inf, 0.0, 0.0
    for j in range(1, len(scores)):
        if is_drawn[j] and not temperature * scores[j] <= largest:  # NaN stays NaN
            largest = temperature * scores[j]
    for j in range(1, len(scores)):
        if is_drawn[j]:
            share = math.exp(temperature * scores[j] - largest)
            small = math.exp(-abs(scores[j]))
            total += share
            of_others += share * ((scores[j] if scores[j] > 0 else 0.0) + math.log1p(small))
            d_scores[j] = share * (1.0 if scores[j] > 0 else small) / (1 + small)
    for j in range(1, len(scores)):
        if is_drawn[j]:
            d_scores[j] /= total
    small = math.exp(-abs(scores[0]))
    d_scores[0] = -(small if scores[0] > 0 else 1.0) / (1 + small)
    own = (0.0 if scores[0] > 0 else -scores[0]) + math.log1p(small)
    return own + of_others / total if total != 0 else own


@in_any_order
def make_rotation(rotation: Rows, r: int, x: Rows, row: int, rotates: bool) -> None:
    """A relation as complex numbers, of angles with RotatE."""
    d = rotation.shape[1] // 2
    for k in range(d):
        rotation[r, k] = math.cos(x[row, k]) if rotates else x[row, k]
        rotation[r, d + k] = math.sin(x[row, k]) if rotates else x[row, d + k]


@in_any_order
def add_rotation_gradient(gradient: Rows, row: int, rotation: Rows, d_rotation: Rows, r: int, rotates: bool) -> None:
    """Add the gradient of what `make_rotation` read; that of what it wrote becomes 0."""
    d = rotation.shape[1] // 2
    for k in range(d):
        if rotates:
            gradient[row, k] += rotation[r, k] * d_rotation[r, d + k] - rotation[r, d + k] * d_rotation[r, k]
        else:
            gradient[row, k] += d_rotation[r, k]
            gradient[row, d + k] += d_rotation[r, d + k]
    clear(d_rotation, r)


@in_any_order
def multiply_conjugate(out: Rows, i: int, x: Rows, t: int, rotation: Rows, r: int) -> None:
    """t conj(r)."""
    d = out.shape[1] // 2
    for k in range(d):
        out[i, k] = x[t, k] * rotation[r, k] + x[t, d + k] * rotation[r, d + k]
        out[i, d + k] = x[t, d + k] * rotation[r, k] - x[t, k] * rotation[r, d + k]


@in_any_order
def add_product_gradients(
    gradient: Rows, t: int, d_rotation: Rows, r: int, x: Rows, rotation: Rows, d_y: Rows, i: int
) -> None:
    """Add the gradients of t and r, given that of t conj(r)."""
    d = d_y.shape[1] // 2
    for k in range(d):
        gradient[t, k] += rotation[r, k] * d_y[i, k] - rotation[r, d + k] * d_y[i, d + k]
        gradient[t, d + k] += rotation[r, d + k] * d_y[i, k] + rotation[r, k] * d_y[i, d + k]
    for k in range(d):
        d_rotation[r, k] += x[t, k] * d_y[i, k] + x[t, d + k] * d_y[i, d + k]
        d_rotation[r, d + k] += x[t, d + k] * d_y[i, k] - x[t, k] * d_y[i, d + k]


@in_any_order
def clear(out: Rows, i: int) -> None:
    for k in range(out.shape[1]):
        out[i, k] = f32(0)


@in_any_order
def negate(out: Rows, i: int) -> None:
    for k in range(out.shape[1]):
        out[i, k] = -out[i, k]


@in_any_order
def add(out: Rows, i: int, factor: np.float32, rows: Rows, j: int) -> None:
    for k in range(out.shape[1]):
        out[i, k] += factor * rows[j, k]


@in_any_order
def subtract_from(out: Rows, i: int, rows: Rows, j: int) -> None:
    """Row j minus row i, written over the latter."""
    for k in range(out.shape[1]):
        out[i, k] = rows[j, k] - out[i, k]


@in_any_order
def scale_and_add(out: Rows, i: int, factor: np.float32, rows: Rows, j: int) -> None:
    for k in range(out.shape[1]):
        out[i, k] = out[i, k] * factor + rows[j, k]


@in_any_order
def add_both(d_u: Rows, d_point: Rows, c: int, factor: np.float32, u: Rows, point: Rows) -> None:
    """Add factor times u + point c to both gradients."""
    for k in range(d_u.shape[1]):
        each = factor * (u[0, k] + point[c, k])
        d_u[0, k] += each
        d_point[c, k] += each


@in_any_order
def dot(a: Rows, i: int, b: Rows, j: int) -> np.float32:
    total = f32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[j, k]
    return total


@in_any_order
def distance(point: Rows, c: int, u: Rows) -> float:
    """|point c + u|."""
    total = f32(0)
    for k in range(point.shape[1]):
        each = point[c, k] + u[0, k]
        total += each * each
    return math.sqrt(total)
