"""What went wrong in a training that still gave a model, from what the method reported by round.

A method reports by the `values` of `on_round` (baselines/method.py):

- diverged: 1 in the round in which training diverged; the model is then the last good one.
- loss: NaN or infinite where training went wrong unnoticed; in a round without clients it is NaN as well.
- clients, refused, corrupted: updates that counted, updates that did not since they were NaN or infinite, and simulated
  faults among the latter.
- early_stop: 1 in the round after which early stopping ended training.

A training that reports fewer rounds than it announced was stopped, whatever the method says.

Refused updates are many where a round lost more than one of them and more than MANY of its updates, simulated faults
aside. Training that works refuses none. A single one may be a fault of that home; several of one model in one round are
a fault of the model, and the mean over the other homes is no longer that of the cohort. The exact share matters little:
training that diverges goes from no refused update to nearly all within a few rounds (1, 1, then 17 of 20 homes with
clients' rate 100). The engine stops where more than half are refused (fedrule/federated/rounds.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["diverged", "non-finite", "refused", "few refused", "stopped", "early stopping"]
MANY = 0.1  # of a round's updates
FAILED: frozenset[Kind] = frozenset({"diverged", "non-finite", "refused"})  # the model is not what was asked for
UNMARKED: frozenset[Kind] = frozenset({"few refused"})  # counted, but the number needs no sign


@dataclass(frozen=True, slots=True)
class TrainingWarning:
    """One thing that went wrong."""

    kind: Kind
    round: int  # in which it happened first; the last one that was run where training stopped
    count: int  # refused updates in all rounds, or rounds that were not run; 1 for others
    text: str  # a sentence without its stop, e.g. "training diverged in round 41 of 100; ..."

    @property
    def marked(self) -> bool:
        """Whether numbers of this training get a sign."""
        return self.kind not in UNMARKED


def training_warnings(history: Sequence[Mapping[str, float]], rounds: int) -> list[TrainingWarning]:
    """The warnings of a training of so many rounds; `history` has the values of each round with its number."""
    found = [*_divergence(history, rounds), *_refused(history)]
    last = int(history[-1]["round"]) if history else rounds
    if last < rounds and not any(warning.kind == "diverged" for warning in found):
        early = bool(history[-1].get("early_stop"))
        why = "early stopping ended training" if early else "training ended, without a reason given,"
        text = f"{why} after round {last} of {rounds}"
        found.append(TrainingWarning("early stopping" if early else "stopped", last, rounds - last, text))
    return found


def _divergence(history: Sequence[Mapping[str, float]], rounds: int) -> list[TrainingWarning]:
    for row in history:
        done = int(row["round"])
        if row.get("diverged"):
            text = f"training diverged in round {done} of {rounds}; the model is its last good one"
            return [TrainingWarning("diverged", done, 1, text)]
        if row.get("clients", 1) and not math.isfinite(row.get("loss", 0.0)):
            text = f"the loss is NaN or infinite in round {done} of {rounds}"
            return [TrainingWarning("non-finite", done, 1, text)]
    return []


def _refused(history: Sequence[Mapping[str, float]]) -> list[TrainingWarning]:
    lossy = [row for row in history if row.get("refused")]
    if not lossy:
        return []
    refused, corrupted = (int(sum(row.get(name, 0) for row in lossy)) for name in ("refused", "corrupted"))
    sent = refused + int(sum(row.get("clients", 0) for row in history))
    text = f"{refused:,} of {sent:,} updates were NaN or infinite and refused"
    text += f", {corrupted:,} of them simulated faults" if corrupted else ""
    many = [row for row in lossy if _is_many(row)]
    if many:
        worst = max(many, key=lambda row: row["refused"] - row.get("corrupted", 0))
        text += f", {worst['refused']:,.0f} of {_sent(worst):,.0f} in round {worst['round']:.0f}"
        return [TrainingWarning("refused", int(many[0]["round"]), refused, text)]
    return [TrainingWarning("few refused", int(lossy[0]["round"]), refused, text)]


def _is_many(row: Mapping[str, float]) -> bool:
    lost = row["refused"] - row.get("corrupted", 0)
    return lost > 1 and lost > MANY * _sent(row)


def _sent(row: Mapping[str, float]) -> float:
    return row["refused"] + row.get("clients", 0)
