"""What leaves a home, who sees it, and what can be told from it: the rows of all audits."""

from __future__ import annotations

from benchmarks.results.audits import AUDITS, Audit, AuditRow
from reports.inputs import Inputs
from reports.outputs import About, Cell, Missing, Table
from reports.text.formats import counted

AUDIT = "python -m fedrule audit --full"
COLUMNS = (
    "data",
    "method",
    "what leaves a home",
    "who sees it",
    "defence",
    "attack",
    "the attacker also knows",
    "what can be told from it",
    "right guesses, or AUC",
    "without the home",
)


def leakage(inputs: Inputs) -> Table:
    """A row for each attack and defence, also where the attack succeeds."""
    if not inputs.audits:
        raise Missing("no audit was made", AUDIT)
    rows = [(audit, row) for audit in inputs.audits for row in audit.rows]
    sources = tuple(sorted(f"{AUDITS}/{audit.file}" for audit in inputs.audits))
    notes = (
        "The attacker is the server, honest but curious: it has the model, the vocabularies and the valid rules. "
        "Rules are typed rules of the attacked homes. Without the home: the same attack on a sum, or an update, in "
        "which the home is not; what it then finds it knows from other homes.",
        "Epsilon is of a whole run, of as many homes as the audit says; with noise in training, of the audited ones.",
    )
    about = About(_caption(rows), sources, AUDIT, notes)
    return Table(COLUMNS, tuple(_row(audit, row) for audit, row in rows), about, sortable=True)


def _row(audit: Audit, row: AuditRow) -> tuple[Cell, ...]:
    main, control = _measure(row), row.values.get("control")
    return (
        Cell(audit.data),
        Cell(row.method),
        Cell(row.what),
        Cell(row.seen_by),
        Cell(row.defended_by),
        Cell(row.attack),
        Cell(row.knows),
        Cell(row.told),
        Cell("" if main is None else f"{main:.2f}", "" if main is None else main),
        Cell("" if control is None else f"{control:.2f}", "" if control is None else control),
    )


def _measure(row: AuditRow) -> float | None:
    """The share of rules among as many guesses, or the AUC."""
    return row.values.get("top", row.values.get("auc"))


def _caption(rows: list[tuple[Audit, AuditRow]]) -> str:
    """The most that an attack finds of an update that nothing defends, and what is left under a secure sum."""
    said = [f"{counted(len(rows), 'attack')} on {counted(len({a.data for a, _ in rows}), 'data set')}."]
    updates = [(audit, row) for audit, row in rows if row.leaves == "update" and "exact" in row.values]
    plain = [each for each in updates if each[1].defence == "none"]
    if plain:
        audit, worst = max(plain, key=lambda each: each[1].values["exact"])
        said.append(
            f"Undefended, {worst.attack} finds all typed rules of {worst.values['exact']:.0%} of homes from one update "
            f"of {worst.method} on {audit.data}."
        )
    summed = [each for each in updates if each[1].defence == "secure sum"]
    if summed:
        audit, largest = max(summed, key=lambda each: (each[1].cohort, each[1].values["top"]))
        values = largest.values
        said.append(
            f"In a secure sum of {largest.cohort} homes {values['top']:.0%} of as many guesses as a home has rules are "
            f"right, and {values['control']:.0%} where the home is not in it ({largest.method}, {audit.data})."
        )
    return " ".join(said)
