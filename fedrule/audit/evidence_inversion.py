"""Gradient inversion for fedrank, whose update is of the few weights of the evidence network.

With the ranking loss a home's gradient is, over the rules i that were hidden in this round's batch,

    sum of w_i (a - a_i),    w_i = sigmoid(margin of i) / number of rules > 0,

where a_i is the gradient of the logit of i with respect to the weights, and a is its mean over the non-rules with the
softmax of their logits. The server knows the weights and the sums of counts, so that it computes a_i for every typed
rule of a home with a device of each type, given the rules guessed so far, and a over all its typed rules. The weights
w_i follow by non-negative least squares. Dropout, which the server does not know, is taken at its mean.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from datasets.homes import Array, Homes, Mask, Relation, Rules
from fedrule.audit.rows import SIGMAS
from fedrule.audit.view import Guess, UpdateView, guess_of
from fedrule.federated.optimizers import Precise
from fedrule.network.terms import EvidenceNetwork

PASSES = 2
PART = 0.1  # a rule is claimed from this part of the largest weight on
DIRECT = 1.0


def invert_evidence(view: UpdateView) -> Guess:
    """For models that are the evidence network alone."""
    valid = view.scorer.valid
    trigger, action, _ = valid.typed()
    types = np.ones(valid.n_types, dtype=bool) if view.types is None else view.types
    possible = np.flatnonzero(types[trigger] & types[action])
    weight, chosen = np.zeros(len(valid)), np.zeros(len(valid), dtype=bool)
    if len(possible):
        gradient, noise = view.gradient, view.gradient_noise[-1]
        for _ in range(PASSES if view.clients == 1 else 1):
            logit, slope = logit_gradients(view, possible, chosen)
            others = np.exp(logit - logit.max()) * ~chosen[possible]
            mean = others @ slope / max(others.sum(), 1e-300)
            weight[possible] = non_negative((mean - slope).T, gradient)
            chosen = (weight > PART * weight.max()) & (weight > SIGMAS * noise)
    score = np.where(chosen, 2.0, 0.0) + weight / max(weight.max(), 1e-300) + view.prior / 2
    return guess_of(valid, score, chosen, types=view.types)


def non_negative(atoms: Precise, target: Precise) -> Precise:
    """x >= 0 with the least |atoms x - target|; solved in the space of the atoms, which are fewer than the numbers."""
    q, r = np.linalg.qr(atoms)
    found: Precise = nnls(r, q.T @ target, maxiter=30 * atoms.shape[1])[0]
    return found


def logit_gradients(view: UpdateView, candidates: Array, rules: Mask) -> tuple[Precise, Precise]:
    """Logits [n] of valid rules, and their gradients [n, size], in a home that has them and other valid rules.

    Each is a candidate in a home of its own, in which it is hidden and all of `rules` but itself are known. A home has
    a device of each of the types, and a second one for rules between two devices of one type.
    """
    (term,) = view.scorer.terms
    assert isinstance(term, EvidenceNetwork)
    homes, full, own = _homes(view, candidates, rules)
    features = term.observe(homes, own, leave_out=full)["features"].numpy().astype(np.float64)
    weights = {name.removeprefix("evidence."): v.numpy() for name, v in view.layout.parameters(view.model).items()}
    before = features @ weights["first"] + weights["first_bias"]
    hidden, open_ = np.maximum(before, 0), (before > 0) * weights["last"]
    n = len(features)
    parts = (features, (features[:, :, None] * open_[:, None, :]).reshape(n, -1), open_, hidden)
    return features @ weights["direct"] + hidden @ weights["last"], np.concatenate(parts, axis=1)


def _homes(view: UpdateView, candidates: Array, rules: Mask) -> tuple[Homes, Homes, Rules]:
    """A home for each candidate with `rules` except itself, the same with itself, and the candidates."""
    valid = view.scorer.valid
    trigger, action, relation = valid.typed()
    used = np.concatenate([candidates, np.flatnonzero(rules)])
    owned = np.unique(np.concatenate([trigger[used], action[used]]))
    twins = np.unique(trigger[used][trigger[used] == action[used]])
    device_type = np.concatenate([owned, twins])
    n, devices = len(candidates), len(device_type)

    def placed(home: Array, rule: Array) -> Rules:
        first = np.searchsorted(owned, trigger[rule])
        twin = len(owned) + np.searchsorted(twins, trigger[rule])
        second = np.where(trigger[rule] == action[rule], twin, np.searchsorted(owned, action[rule]))
        return Rules(home, first + home * devices, second + home * devices, relation[rule])

    home = np.arange(n)
    others, rule = np.repeat(home, int(rules.sum())), np.tile(np.flatnonzero(rules), n)
    apart = rule != candidates[others]
    own, known = placed(home, candidates), placed(others[apart], rule[apart])

    def homes(some: Rules) -> Homes:
        return Homes(
            name="guess",
            types=view.types_named,
            relations=view.relations_named,
            users=home,
            device_home=np.repeat(home, devices),
            device_type=np.tile(device_type, n),
            device_ids=np.arange(n * devices),
            rules=some,
        )

    return homes(known), homes(known.joined(own)), own
