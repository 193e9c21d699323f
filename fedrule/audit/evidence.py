"""Rules of a home from an update of fedrank's evidence network, which has few weights and no rows.

With the ranking loss a home's gradient is, over the rules i that were hidden in this round's batch,

    sum of w_i (a - a_i),    w_i = sigmoid(margin of i) / number of rules > 0,

where a_i is the gradient of the logit of i with respect to the weights, and a its mean over the non-rules, weighted by
the softmax of their logits. For the direct weights a_i are just the features of i. Those that are counted over homes
are the same in any home, and the server has the sums: it computes the features of every typed rule in a home with the
target's devices and no rules, and a over all of them. Then it finds the few rules that explain the update by matching
pursuit (Mallat and Zhang 1993). Least squares over all typed rules at once explains the same update by many others.
Rules are ranked by how common they are and how much of the update each explains by itself, as if all of it but that
were noise.

The attacker needs the number of devices of each type, since the mean over non-rules depends on it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import nnls

from datasets.common.errors import DataError
from datasets.homes import Array, Rules
from fedrule.audit.view import Guess, Public, UpdateView, guess_of, log_odds
from fedrule.federated.optimizers import Precise
from fedrule.network.terms import EvidenceNetwork

MOST = 3  # rules that are looked for in one update; of 2 or 3 rules of a home 0.3 are hidden
ENOUGH = 0.05  # part of the update's square that may stay unexplained
GAIN = 0.3  # part of what was unexplained that another rule has to explain
SIGMAS = 3.0  # an update whose square is within so many standard deviations of pure noise is taken for noise


def invert_evidence(view: UpdateView) -> Guess:
    """Claims the typed rules that explain the gradient of the direct weights."""
    valid, devices = view.public.valid, view.devices
    if devices is None:
        raise DataError("to invert an update of the evidence network, the attacker has to know the home's devices")
    trigger, action, _ = valid.typed()
    alone = (trigger == action) & (not view.public.self_pairs)
    pairs = devices[trigger] * (devices[action] - alone)  # of devices that could have each rule
    possible = np.flatnonzero(pairs > 0)
    score, chosen = np.full(len(valid), -np.inf), np.zeros(len(valid), dtype=bool)
    if len(possible):
        as_rule, as_non_rule, logit = typed_features(view, possible)
        target = view.gradient[: as_rule.shape[1]]
        softmax = pairs[possible] * np.exp(logit - logit.max())
        atoms = softmax @ as_non_rule / softmax.sum() - as_rule
        along = np.maximum(atoms @ target, 0) ** 2 / np.maximum((atoms**2).sum(axis=1), 1e-300)
        square, chance = float(target @ target), view.deviation[0] ** 2
        score[possible] = log_odds(view.prior[possible]) + along / 2 / max(chance, square / len(target), 1e-300)
        if square > chance * (len(target) + SIGMAS * np.sqrt(2 * len(target))):
            chosen[possible[pursue(atoms, target, least=max(ENOUGH * square, chance * len(target)))]] = True
    return guess_of(valid, score, chosen, types=view.types)


def pursue(atoms: Precise, target: Precise, *, least: float) -> Array:
    """The atoms [n, size] that a target is a sum of with positive weights, best first, until `least` is unexplained."""
    chosen: list[int] = []
    rest, residual = target, float(target @ target)
    size = np.sqrt(np.maximum((atoms**2).sum(axis=1), 1e-300))
    while len(chosen) < MOST and residual > least:
        fit = atoms @ rest / size
        fit[chosen] = -np.inf
        best = int(fit.argmax())
        if fit[best] <= 0:
            break
        weight, norm = nnls(atoms[[*chosen, best]].T, target)
        if chosen and norm**2 > (1 - GAIN) * residual:
            break
        chosen.append(best)
        rest, residual = target - weight @ atoms[chosen], float(norm**2)
    return np.array(chosen, dtype=np.int64)


def typed_features(view: UpdateView, rules: Array) -> tuple[Precise, Precise, Precise]:
    """[n, n_features] of valid rules as the hidden rule of a home, and as non-rules; and the logits [n] of non-rules.

    Each is in a home of its own with the target's devices and no other rule, between the first two devices that it can
    be between. They differ in the counts over homes, in which a home is left out where it has what is counted.
    """
    assert view.devices is not None
    as_rule, as_non_rule = _features(view.public, tuple(view.devices.tolist()), tuple(rules.tolist()))
    weights = {name: value.numpy() for name, value in view.public.layout.parameters(view.model).items()}
    hidden = np.maximum(as_non_rule @ weights["evidence.first"] + weights["evidence.first_bias"], 0)
    return as_rule, as_non_rule, as_non_rule @ weights["evidence.direct"] + hidden @ weights["evidence.last"]


@lru_cache(maxsize=256)  # many views are of one home, and features do not depend on the model
def _features(public: Public, devices: tuple[int, ...], rules: tuple[int, ...]) -> tuple[Precise, Precise]:
    (term,) = public.scorer.terms
    assert isinstance(term, EvidenceNetwork)
    trigger, action, relation = (column[np.array(rules)] for column in public.valid.typed())
    device_type = np.repeat(np.arange(len(devices)), devices)
    home, begin = np.arange(len(rules)), np.arange(len(rules)) * len(device_type)
    twins = (trigger == action) & (np.array(devices)[action] > 1)
    first = np.searchsorted(device_type, trigger) + begin
    second = np.searchsorted(device_type, action) + twins + begin
    own, nothing = Rules(home, first, second, relation), np.zeros(0, dtype=np.int64)
    bare = public.homes(device_type, Rules(*[nothing] * 4), len(rules))
    full = public.homes(device_type, own, len(rules))
    as_rule, as_non_rule = (term.observe(bare, own, leave_out=each)["features"].numpy() for each in (full, bare))
    return as_rule.astype(np.float64), as_non_rule.astype(np.float64)
