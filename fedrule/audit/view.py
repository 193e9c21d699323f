"""What an attacker sees and knows, and what it guesses: an attack is a function from a view to a guess.

The attacker is the server, honest but curious: it follows the protocol and looks at all that it receives. It knows the
model that it sent, the hyperparameters of the clients, the vocabularies, the valid rules and, for fedrank, the sums of
counts. It does not know the seeds that clients draw non-rules and dropout with; where the seed is the federation's, as
in the simulation, it could in addition check any guess exactly by running the client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Mask
from datasets.valid import ValidRules
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.optimizers import Precise
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.network.score import Scorer


@dataclass(frozen=True, slots=True, eq=False)
class UpdateView:
    """All that an attack on an update may use."""

    scorer: Scorer  # the structure of the model, with the valid rules, and for fedrank the sums of counts
    layout: FlatParameters
    hyperparameters: Hyperparameters
    model: Vector  # [size]  sent to the clients of the round
    update: Precise  # [size]  what came back: the mean of the updates of `clients` clients
    prior: Precise  # [n_valid]  share of other homes that have each valid rule: public knowledge
    clients: int = 1
    noise: float = 0.0  # standard deviation of what was added to each number of `update`
    shared: Vector | None = None  # [size]  shared_k, which was sent with the model; None: zeros
    # [size]  own_k of the client, which follows from all its earlier updates (`next_own`); None: not known
    own: Vector | None = None
    types: Mask | None = None  # [n_types]  the types of the target's devices, from its inventory; None: not known

    def __post_init__(self) -> None:
        if self.hyperparameters.adam:
            raise DataError("the audit attacks clients with SGD; set client_optimizer to sgd")

    @property
    def gradient(self) -> Precise:
        """[size]: the mean of the clients' gradients over their local steps, without their corrections.

        SGD moves the model by eta tau times the mean corrected gradient, and g = g~ + lambda (own_k - shared_k).
        """
        h = self.hyperparameters
        found = self.update / (self.layout.by_part(h.theta_rate, h.phi_rate) * h.steps)
        strength = self.layout.by_part(h.theta_lambda, h.phi_lambda) if h.corrects else np.zeros(self.layout.size)
        if self.own is not None:
            found = found + strength * self.own
        if self.shared is not None:
            found = found - strength * self.shared
        return found

    @property
    def gradient_noise(self) -> Precise:
        """[size]: the standard deviation of what was added to each number of `gradient`."""
        h = self.hyperparameters
        return self.noise / (self.layout.by_part(h.theta_rate, h.phi_rate) * h.steps)

    @property
    def rounding(self) -> Precise:
        """[size]: how far rounding alone may move each number of `gradient`.

        A correction moves every weight in every step, in float32; without one, a weight that has no gradient stays.
        """
        h = self.hyperparameters
        if not h.corrects or (self.own is None and self.shared is None):
            return np.full(self.layout.size, 1e-12)
        moves = np.spacing(np.abs(self.model)).astype(np.float64) * (h.steps + 1)
        return 1e-12 + 2 * moves / (self.layout.by_part(h.theta_rate, h.phi_rate) * h.steps)

    def next_own(self) -> Precise:
        """own_k after this round, where the update is of one client: so a server that keeps updates knows it.

        With lambda 1 and SGD own_k is the mean gradient of the client's last round.
        """
        h = self.hyperparameters
        delta = np.zeros(self.layout.size) if self.own is None else np.asarray(self.own, dtype=np.float64)
        delta = delta if self.shared is None else delta - self.shared
        return delta + self.update / (self.layout.by_part(h.theta_rate, h.phi_rate) * h.steps)


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """What an attacker makes of a view: which typed rules, relations and device types the target has."""

    score: Precise  # [n_valid]  higher is likelier
    chosen: Mask  # [n_valid]  those that it claims
    relations: Mask  # [n_relations]
    types: Mask  # [n_types]


def popular(view: UpdateView) -> Guess:
    """The baseline, which does not look at the update: the most common rules between the types that are known.

    It claims as many as a home has on average.
    """
    trigger, action, _ = view.scorer.valid.typed()
    possible = np.ones(len(trigger), dtype=bool) if view.types is None else view.types[trigger] & view.types[action]
    score = np.where(possible, view.prior, -1.0)
    chosen = top(score, round(float(view.prior.sum()))) & possible
    return guess_of(view.scorer.valid, score, chosen, types=view.types)


def top(score: Precise, many: int) -> Mask:
    """[n]: the `many` highest, the first of equal ones."""
    chosen = np.zeros(len(score), dtype=bool)
    chosen[np.argsort(-score, kind="stable")[: max(many, 0)]] = True
    return chosen


def guess_of(
    valid: ValidRules, score: Precise, chosen: Mask, *, relations: Mask | None = None, types: Mask | None = None
) -> Guess:
    """A guess; relations and types are those of the chosen rules where nothing else says what they are."""
    trigger, action, relation = (column[chosen] for column in valid.typed())
    if relations is None:
        relations = np.zeros(valid.n_relations, dtype=bool)
        relations[relation] = True
    if types is None:
        types = np.zeros(valid.n_types, dtype=bool)
        types[trigger] = types[action] = True
    return Guess(score, chosen, relations, types)
