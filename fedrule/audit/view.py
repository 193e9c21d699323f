"""What an attacker sees and knows, and what it guesses.

The attacker is the server, honest but curious: it follows the protocol and looks at all that it receives. It knows the
model that it sent, the hyperparameters of the clients, the vocabularies, the valid rules and, for fedrank, the sums of
counts. It does not use the seeds that clients draw non-rules and dropout with; where the seed is the federation's, as
in the simulation, it could in addition check any guess exactly by running the client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Homes, Mask, Relation, Rules
from datasets.valid import ValidRules
from fedrule.federated.algorithm import Hyperparameters
from fedrule.federated.optimizers import Precise
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.network.score import Scorer


@dataclass(frozen=True, slots=True, eq=False)
class Public:
    """What the server, and every client, knows of a federation."""

    types: tuple[str, ...]
    relations: tuple[Relation, ...]
    scorer: Scorer  # the structure of the model, with the valid rules, and for fedrank the sums of counts
    layout: FlatParameters
    hyperparameters: Hyperparameters
    self_pairs: bool = False  # whether a device may act on itself

    def __post_init__(self) -> None:
        if self.hyperparameters.adam:
            raise DataError("the audit attacks clients with SGD; set client_optimizer to sgd")

    @property
    def valid(self) -> ValidRules:
        return self.scorer.valid

    @property
    def distance(self) -> Precise:
        """[size]: by how much a mean gradient of 1 moves the model in a round."""
        h = self.hyperparameters
        return self.layout.by_part(h.theta_rate, h.phi_rate) * h.steps

    def homes(self, device_type: Array, rules: Rules, n_homes: int) -> Homes:
        """Homes as an attacker imagines them, all with devices of these types, and with these rules."""
        return Homes(
            name="guess",
            types=self.types,
            relations=self.relations,
            users=np.arange(n_homes),
            device_home=np.repeat(np.arange(n_homes), len(device_type)),
            device_type=np.tile(device_type, n_homes),
            device_ids=np.arange(n_homes * len(device_type)),
            rules=rules,
        )


@dataclass(frozen=True, slots=True, eq=False)
class UpdateView:
    """All that an attack on an update may use: `fedrule.federated.rounds.RoundSum`, and what the server knows."""

    public: Public
    model: Vector  # [size]  sent to the clients of the round
    update: Precise  # [size]  what came back: the mean of (Delta_k - base) over `clients` clients
    prior: Precise  # [n_valid]  of other homes that own both types, the share that has the rule: public knowledge
    clients: int = 1
    noise: float = 0.0  # standard deviation of what was added to each number of `update`
    shared: Vector | None = None  # [size]  shared_k, which was sent with the model; None: zeros
    own: Precise | None = None  # [size]  own_k, which follows from all earlier updates (`next_own`); None: not known
    devices: Array | None = None  # [n_types]  how many devices of each type the target has; None: not known

    @property
    def types(self) -> Mask | None:
        """[n_types]: the types of the target's devices; None: not known."""
        return None if self.devices is None else self.devices > 0

    @property
    def gradient(self) -> Precise:
        """[size]: the mean of the clients' gradients over their local steps, without corrections that are known.

        SGD moves the model by eta tau times the mean corrected gradient, and g = g~ + lambda (own_k - shared_k). The
        base, which rounds leave out, is what shared_k does to the rows of relations.
        """
        h, layout = self.public.hyperparameters, self.public.layout
        found = self.update / self.public.distance
        if not h.corrects:
            return found
        strength = layout.by_part(h.theta_lambda, h.phi_lambda)
        if self.own is not None:
            found = found + strength * self.own
        if self.shared is not None:
            strength[layout.n_dense if h.row_sparse else layout.size :] = 0
            found = found - strength * self.shared
        return found

    @property
    def deviation(self) -> Precise:
        """[size]: the standard deviation of what was added to each number of `gradient`."""
        return self.noise / self.public.distance

    @property
    def rounding(self) -> Precise:
        """[size]: how far rounding alone may move each number of `gradient`.

        Clients compute in float32, and a correction moves weights in every step; without one, a weight that has no
        gradient stays where it is.
        """
        least = np.full(self.public.layout.size, 1e-12)
        if not self.public.hyperparameters.corrects or (self.own is None and self.shared is None):
            return least
        moves = np.spacing(np.abs(self.model)).astype(np.float64) * (self.public.hyperparameters.steps + 1)
        return least + 2 * moves / self.public.distance

    def next_own(self) -> Precise:
        """own_k after this round, where the update is of one client: a server that keeps updates knows it.

        With lambda 1 and SGD own_k is the mean gradient of the client's last round.
        """
        gradient, h, layout = self.gradient, self.public.hyperparameters, self.public.layout
        if (self.public.layout.by_part(h.theta_lambda, h.phi_lambda) != 1).any():
            raise DataError(
                "own_k is followed from updates for lambda 1 only; set gnn_lambda and predictor_lambda to 1"
            )
        touched = np.abs(gradient) > self.rounding
        touched[: layout.n_dense] = True
        return np.where(touched, gradient, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """What an attacker makes of what it sees: which typed rules, relations and device types the target has."""

    score: Precise  # [n_valid]  higher is likelier
    chosen: Mask  # [n_valid]  those that it claims
    relations: Mask  # [n_relations]
    types: Mask  # [n_types]


def popular_rules(view: UpdateView) -> Guess:
    """The baseline, which does not look at the update: the most common rules between the types that are known.

    It claims as many as a home with these types has on average.
    """
    valid = view.public.valid
    score = view.prior * possible_rules(view)
    return guess_of(valid, score, highest(score, round(float(score.sum()))), types=view.types)


def possible_rules(view: UpdateView) -> Mask:
    """[n_valid]: rules between types that the target owns; all where that is not known."""
    trigger, action, _ = view.public.valid.typed()
    return np.ones(len(trigger), dtype=bool) if view.types is None else view.types[trigger] & view.types[action]


def log_odds(share: Precise) -> Precise:
    """log(p / (1 - p)), of shares that are neither 0 nor 1."""
    return np.log(share / (1 - share))


def highest(score: Precise, many: int) -> Mask:
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


def truth_of(valid: ValidRules, has: Mask) -> Guess:
    """What an attacker claims that knows for certain which valid rules a home has."""
    return guess_of(valid, has.astype(np.float64), has)


def merged(guesses: list[Guess]) -> Guess:
    """Of several updates of one home: all that is claimed of any, and the highest score of each rule."""
    return Guess(
        np.max([guess.score for guess in guesses], axis=0),
        *(
            np.logical_or.reduce([getattr(guess, name) for guess in guesses])
            for name in ("chosen", "relations", "types")
        ),
    )
