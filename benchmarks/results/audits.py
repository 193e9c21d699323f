"""Audits of leakage among the results: audit/<data>-<hash>.json, written by `python -m fedrule audit`.

A file has one row for each attack and defence, in plain numbers. What a row says in words is written here, once for the
terminal and the report.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.results.records import hash_of, read_records, write_record

AUDITS = "audit"  # folder of the results
AUDIT_FORMAT = 1  # goes up when a row of the same attack would look different
LEAVES = {
    "update": "update of a round",
    "counts": "counts before training",
    "model": "the trained model",
}


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
    def what(self) -> str:
        """What leaves a home, and when."""
        when = ""
        if self.leaves == "update":
            steps = f"{self.local_steps} local step{'s' if self.local_steps > 1 else ''}"
            when = f", {'first' if not self.round else f'after {self.round}'}, {steps}"
        return f"{LEAVES.get(self.leaves, self.leaves)}{when}"

    @property
    def seen_by(self) -> str:
        """Who sees it, and in which form."""
        if self.leaves == "model":
            return "whoever has the model"
        who = "the server" if self.leaves == "update" else "the server and all homes"
        if self.cohort > 1:
            return f"{who}: the sum of {self.cohort:,} homes"
        return "the server: each home's own"

    @property
    def defended_by(self) -> str:
        """The defence with its strength."""
        strength = []
        if self.defence.startswith("secure sum"):
            strength.append(f"{self.cohort:,} homes")
        if self.epsilon:
            strength.append(f"epsilon {self.epsilon:g}")
        return f"{self.defence} ({', '.join(strength)})" if strength else self.defence

    @property
    def told(self) -> str:
        """What can be told from it."""
        v = self.values
        if "auc" in v:
            return (
                f"whether a home is in it: AUC {v['auc']:.2f}, {v['found at 1 % false alarms']:.0%} of members at 1 % "
                "false alarms"
            )
        if "cells" in v:
            cells = f"{v['cells of one home']:,.0f} of {v['cells']:,.0f} cells are of one home"
            return f"{cells}, {_share(v['homes with such a cell'])} of homes have such a cell"
        if "homes read" in v:
            return f"all rules of {_share(v['homes read'])} of homes, {_share(v['rules read'])} of all rules"
        return (
            f"{v['recall']:.0%} of a home's rules, {v['precision']:.0%} of claims right, {v['exact']:.0%} of homes in "
            f"full; of as many guesses as rules {v['top']:.0%} right, {v['control']:.0%} if the home is not in it"
        )


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}" if value >= 0.001 else "less than 0.1 %"


@dataclass(frozen=True, slots=True)
class Audit:
    """All rows of one audit; all but the rows, the commit and the versions decides the name of its file."""

    data: str  # as it was given, with its options
    fingerprint: str  # of the homes
    homes: int
    seed: int
    methods: tuple[str, ...]
    parts: tuple[str, ...]  # updates, members, counts
    plan: dict[str, object]  # how much was attacked
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
