"""What an audit found: a row for each attack and defence, and the arithmetic of precision and recall."""

from __future__ import annotations

from dataclasses import dataclass, field

from datasets.homes import Mask
from fedrule.audit.view import Guess, highest


@dataclass(frozen=True, slots=True)
class Finding:
    """One attack against one defence."""

    method: str
    leaves: str  # what leaves a home: update, counts, or model
    attack: str
    knows: str  # what the attacker knows besides the protocol, the model and the vocabulary
    defence: str
    values: dict[str, float]  # by name of the measure
    homes: int  # of the population
    trials: int  # homes, or homes and models, that were attacked
    cohort: int = 1  # homes in the sum that the attacker sees
    epsilon: float = 0.0  # of a whole run; 0: none
    noise_multiplier: float = 0.0
    round: int = 0  # rounds before
    local_steps: int = 0


@dataclass(slots=True)
class RuleScore:
    """Counts over homes of how well guesses match."""

    totals: dict[str, float] = field(default_factory=dict)
    homes: int = 0

    def add(self, guess: Guess, truth: Guess, control: Guess, *, anybody: Mask | None = None) -> None:
        """Count a guess; `control` is of the same attack on a view in which the home is not, and has to fail.

        `anybody` are the rules that some home of the cohort has; without it, the home is alone.
        """
        self.homes += 1
        for name in ("chosen", "relations", "types"):
            claimed, has = getattr(guess, name), getattr(truth, name)
            self._count(f"{name}, claimed", claimed)
            self._count(f"{name}, has", has)
            self._count(f"{name}, right", claimed & has)
        self._count("anybody's", guess.chosen & (truth.chosen if anybody is None else anybody))
        many = int(truth.chosen.sum())
        self._count("top", highest(guess.score, many) & truth.chosen)
        self._count("control", highest(control.score, many) & truth.chosen)
        self.totals["exact"] = self.totals.get("exact", 0) + float((guess.chosen == truth.chosen).all())

    def _count(self, name: str, which: Mask) -> None:
        self.totals[name] = self.totals.get(name, 0) + float(which.sum())

    @property
    def values(self) -> dict[str, float]:
        """Precision and recall of typed rules, relations and types over all homes; 0 where nothing was claimed.

        `top` is the share of a home's rules that are among as many of its highest scores, `control` the same for the
        control; `exact` is the share of homes whose typed rules are all found and none besides; `attribution` is, of
        the claimed rules that somebody in the cohort has, the share that the home itself has.
        """
        t, found = self.totals, {}
        for name, ending in (("chosen", ""), ("relations", " of relations"), ("types", " of types")):
            right = t[f"{name}, right"]
            found[f"precision{ending}"] = right / max(t[f"{name}, claimed"], 1)
            found[f"recall{ending}"] = right / max(t[f"{name}, has"], 1)
        rules = max(t["chosen, has"], 1)
        return {
            **found,
            "top": t["top"] / rules,
            "control": t["control"] / rules,
            "exact": t["exact"] / self.homes,
            "attribution": t["chosen, right"] / max(t["anybody's"], 1),
        }
