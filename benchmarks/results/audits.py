"""Audits of leakage among the results: audit/<data>-<hash>.json, written by `python -m fedrule audit`.

A file has one row for each attack and defence, in plain numbers. What a row says in words is written here, once for the
terminal and the report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.results.records import hash_of, read_records, write_record

AUDITS = "audit"  # folder of the results
AUDIT_FORMAT = 2  # goes up when a row of the same attack would look different
LEAVES = {
    "update": "update of a round",
    "counts": "counts before training",
    "model": "the trained model",
}
BASELINE = "most common rules"  # the attack that looks at nothing that leaves a home
TWO_SUMS = "difference of two sums"  # of which the home is in one
# What an attack finds, by a value that it has. Of several attacks with the same, that with the highest value is the
# strongest; cells of a single home are what other attacks start from, and no attack by themselves.
QUESTIONS = {"top": "its rules", "auc": "whether it took part", "homes read": "homes with a rule that nobody else has"}


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One attack against one defence; the fields are those of `fedrule.audit.findings.Finding`."""

    method: str
    leaves: str  # update, counts or model
    attack: str
    knows: str  # what the attacker knows besides the protocol, the model and the vocabulary
    defence: str
    values: dict[str, float]
    homes: int
    trials: int
    cohort: int = 1
    epsilon: float = 0.0
    noise_multiplier: float = 0.0
    round: int = 0
    local_steps: int = 0

    @property
    def thing(self) -> str:
        """What leaves a home, whenever it does."""
        return f"{self.leaves} of {self.method}"

    @property
    def what(self) -> str:
        """What leaves a home, and when."""
        when = ""
        if self.leaves == "update":
            steps = f"{self.local_steps} local step{'s' if self.local_steps > 1 else ''}"
            when = f", {'first' if not self.round else f'after {self.round}'}, {steps}"
        return f"{LEAVES.get(self.leaves, self.leaves)}{when}"

    @property
    def viewers(self) -> str:
        """Who sees it."""
        if self.leaves == "model":
            return "whoever has the model"
        return "the server and all homes" if self.leaves == "counts" and self.cohort > 1 else "the server"

    @property
    def seen_by(self) -> str:
        """Who sees it, and in which form."""
        if self.leaves == "model":
            return self.viewers
        if self.cohort > 1:
            two = " with it, and the same without it" if self.attack == TWO_SUMS else ""
            return f"{self.viewers}: the sum of {self.cohort:,} homes{two}"
        return f"{self.viewers}: each home's own"

    @property
    def strength(self) -> str:
        """Of the defence: homes in a sum, and epsilon."""
        homes = [f"{self.cohort:,} homes"] if self.defence.startswith("secure sum") else []
        return ", ".join([*homes, *([f"epsilon {self.epsilon:g}"] if self.epsilon else [])])

    @property
    def defended_by(self) -> str:
        """The defence with its strength."""
        return f"{self.defence} ({self.strength})" if self.strength else self.defence

    @property
    def measure(self) -> str:
        """The value that says how much it finds, a key of QUESTIONS; empty where it is no attack."""
        return "" if self.attack == BASELINE else next((name for name in QUESTIONS if name in self.values), "")

    @property
    def advantage(self) -> float:
        """How much better the guess is than one without what left the home."""
        return self.values[self.measure] - (0.5 if self.measure == "auc" else self.values.get("control", 0.0))

    @property
    def disclosure(self) -> str:
        """What can be told from it."""
        v = self.values
        if "auc" in v:
            return (
                f"whether a home is in it: AUC {v['auc']:.2f}, {v['found at 1 % false alarms']:.0%} of members at 1 % "
                "false alarms"
            )
        if "cells" in v:
            cells = f"{v['cells of one home']:,.0f} of {v['cells']:,.0f} cells are of one home"
            return f"{cells}, {percentage(v['homes with such a cell'])} of homes have such a cell"
        if "homes read" in v:
            return f"all rules of {percentage(v['homes read'])} of homes, {percentage(v['rules read'])} of all rules"
        return (
            f"{v['recall']:.0%} of a home's rules, {v['precision']:.0%} of claims right, {v['exact']:.0%} of homes in "
            f"full; of as many guesses as rules {v['top']:.0%} right, {v['control']:.0%} if the home is not in it"
        )

    @property
    def sentence(self) -> str:
        """The same for people who know no more than that homes have rules."""
        v = self.values
        if self.measure == "auc":
            found = f"{v['found at 1 % false alarms']:.0%} of members are recognized at 1% false alarms"
            return f"whether a home took part: AUC {v['auc']:.2f} (0.50 is chance), {found}"
        if self.measure == "homes read":
            return f"all rules of {percentage(v['homes read'])} of homes, since nobody else has one of them"
        guesses = f"{v['top']:.0%} of guesses at its rules are right, {v['control']:.0%} if it is not there"
        return f"all rules of {v['exact']:.0%} of homes ({guesses})" if v["exact"] >= 0.005 else guesses


def percentage(value: float) -> str:
    """A share in words that hide neither few nor none."""
    if 0 < value < 0.001:
        return "less than 0.1 %"
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}".replace(".0%", "%")


@dataclass(frozen=True, slots=True)
class Exposure:
    """What can be told of one thing that leaves a home behind one defence: the strongest attack for each strength."""

    rows: tuple[AuditRow, ...]  # the strongest defence last

    @property
    def question(self) -> str:
        """What is found."""
        return QUESTIONS[self.rows[0].measure]

    @property
    def worst(self) -> AuditRow:
        """The row of which the most can be told."""
        return max(self.rows, key=lambda row: (row.values[row.measure], row.values.get("exact", 0.0)))


def exposures(rows: Iterable[AuditRow]) -> list[Exposure]:
    """By thing, question and defence; of several attacks, rounds and local steps the strongest."""
    found: dict[tuple[str, str, str, str], dict[tuple[float, int], AuditRow]] = {}
    for row in rows:
        if not row.measure:
            continue
        # A second sum is no weaker defence, but another thing to see.
        key = (row.thing, row.measure, row.defence, row.attack if row.attack == TWO_SUMS else "")
        same = found.setdefault(key, {})
        strength = (-row.epsilon, row.cohort if row.defence.startswith("secure sum") else 0)
        if strength not in same or _found(row) > _found(same[strength]):
            same[strength] = row
    return [Exposure(tuple(same[strength] for strength in sorted(same))) for same in found.values()]


def _found(row: AuditRow) -> tuple[float, float]:
    return row.values[row.measure], row.values.get("exact", 0.0)


def summary_lines(rows: Sequence[AuditRow]) -> list[str]:
    """Of each thing that leaves a home the worst finding, undefended if it was run so, and what most privacy leaves."""
    by_thing: dict[str, list[Exposure]] = {}
    for each in exposures(rows):
        by_thing.setdefault(each.rows[0].thing, []).append(each)
    lines = []
    for thing, found in by_thing.items():
        by_harm = sorted((each.worst for each in found), key=lambda row: (row.defence != "none", -row.advantage))
        worst, others = by_harm[0], by_harm[1:]
        defended = "" if worst.defence == "none" else f", {worst.defended_by}"
        lines.append(f"{thing}{defended}: {worst.viewers} can tell {worst.sentence}")
        lines += [
            f"    {row.seen_by.rpartition(': ')[2]}: {row.sentence}"
            for row in others
            if row.attack == TWO_SUMS or row.measure == "homes read"
        ]
        same = [row for each in found for row in each.rows if row.measure == worst.measure and row.attack != TWO_SUMS]
        most = min(same, key=lambda row: (row.epsilon or math.inf, -row.cohort))
        if most is not worst and most.defence != "none":
            lines.append(f"    with {most.defended_by}: {most.sentence}")
    return lines


@dataclass(frozen=True, slots=True)
class Audit:
    """All rows of one audit; all but the rows, the commit and the versions decides the name of its file."""

    data: str  # as it was given, with its options
    fingerprint: str  # of the homes
    homes: int
    seed: int
    methods: tuple[str, ...]
    parts: tuple[str, ...]  # updates, members, counts
    size: dict[str, object]  # how much was attacked
    rows: tuple[AuditRow, ...]
    commit: str = ""
    versions: dict[str, str] | None = None

    @property
    def file(self) -> str:
        """The name of its file."""
        about = {name: value for name, value in asdict(self).items() if name not in ("rows", "commit", "versions")}
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.data).strip("-").lower()[:40]
        return f"{readable}-{hash_of(about)}.json"


def write_audit(path: Path, audit: Audit) -> Path:
    """Store an audit; its file."""
    return write_record(path, audit, AUDIT_FORMAT)


def load_audits(results: Path) -> tuple[list[Audit], list[tuple[str, str]]]:
    """The audits among results by data and file; name and reason of each file that cannot be used."""
    found, problems = read_records(results / AUDITS, Audit, AUDIT_FORMAT)
    return sorted(found, key=lambda audit: (audit.data, audit.file)), problems
