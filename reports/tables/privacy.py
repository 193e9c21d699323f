"""What leaves a home, who sees it, and what can be told from it; and what differential privacy costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.results.audits import AUDITS, LEAVES, Audit, AuditRow, Exposure, exposures, percentage
from benchmarks.results.leaderboard import interval_scope
from datasets.common.errors import counted
from reports.epsilons import EpsilonLine, PrivacyCost, epsilon_lines
from reports.inputs import Inputs
from reports.outputs import About, Cell, Missing, Table, run_files
from reports.text.formats import NONE, count_cell, interval_cell, join_names, number_cell, seed_count

AUDIT = "python -m fedrule audit --full"
COLUMNS = (
    "what leaves a home",
    "who sees it",
    "defence",
    "what can be told from it",
    "right, or AUC",
    "without it",
    "in full",
    "strongest attack",
)
DETAILS = (
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
SINGLES = "counts of 1: "  # begins the names of attacks that look at cells of a single home
READ = "rows of rules of one home"
COUNTS = (
    *("data", "homes", "typed rules of one home", "pairs of one home", "homes with such a pair"),
    *("homes read in full", "of all rules"),
)
MAX_STRENGTHS = 3  # of a defence, in a row
RUN_PRIVACY = "python -m benchmarks run privacy"


def leakage(inputs: Inputs) -> Table:
    """A row for each thing that leaves a home and each defence, with the strongest attack, also where it succeeds."""
    if not inputs.audits:
        raise Missing("no audit was made", AUDIT)
    every = [(audit, row) for audit in inputs.audits for row in audit.rows]
    data = list(dict.fromkeys(audit.data for audit in inputs.audits))
    largest = {name: _largest(inputs.audits, name) for name in data}
    shown = [(name, each) for name, rows in largest.items() for each in sorted(exposures(rows), key=_order)]
    notes = (
        "The attacker is the server, honest but curious: it has the model, the vocabularies and the valid rules. "
        "Right: the share of a home's typed rules among as many guesses; in full: homes whose rules are all found, and "
        "none besides. Without it: the same attack on a sum, or an update, in which the home is not; what it then "
        "finds it knows from other homes, and for an AUC 0.50 is chance.",
        "Several numbers are for the strengths of the defence, in the same order. A row is of the strongest of several "
        "attacks, rounds and local steps, and of the audit that attacked most homes; the CSV file has every attack and "
        "every strength.",
        "Epsilon is of a whole run, of as many homes as the audit says; with noise in training, of the audited ones.",
    )
    sources = tuple(sorted(f"{AUDITS}/{audit.file}" for audit in inputs.audits))
    about = About(_caption(largest, len(every)), sources, AUDIT, notes)
    rows = tuple(_exposure(each, "" if len(data) == 1 else f" ({name})") for name, each in shown)
    details = Table(DETAILS, tuple(_row(audit, row) for audit, row in every), about)
    return Table(COLUMNS, rows, about, sortable=True, details=details)


def _largest(audits: Sequence[Audit], data: str) -> list[AuditRow]:
    """The rows on one data set, of each thing those of the audit that attacked it most often."""
    found: dict[str, list[AuditRow]] = {}
    for audit in audits:
        if audit.data == data:
            things: dict[str, list[AuditRow]] = {}
            for row in audit.rows:
                things.setdefault(row.thing, []).append(row)
            for thing, rows in things.items():
                found[thing] = max(found.get(thing, []), rows, key=lambda some: sum(row.trials for row in some))
    return [row for rows in found.values() for row in rows]


def _order(each: Exposure) -> tuple[int, str]:
    """Updates, counts, models; the other rows of a thing stay in the order of the audit."""
    first = each.rows[0]
    known = list(LEAVES)
    return known.index(first.leaves) if first.leaves in known else len(known), first.method


def _exposure(each: Exposure, where: str) -> tuple[Cell, ...]:
    rows, first = _few(each.rows), each.rows[0]
    measure = first.measure
    shares = [row.values[measure] for row in rows]
    control = [row.values.get("control", math.nan) for row in rows] if measure == "top" else []
    in_full = [row.values["exact" if measure == "top" else measure] for row in rows] if measure != "auc" else []
    strengths = _joined([row.strength for row in rows])
    attacks = list(dict.fromkeys(row.attack for row in rows))
    form = first.seen_by.rpartition(": ")[2] if len(rows) == 1 else "sums" if first.cohort > 1 else "each home's own"
    seen = first.viewers if first.leaves == "model" else f"{first.viewers}: {form}"
    return (
        Cell(first.thing + where),
        Cell(seen),
        Cell(f"{first.defence}: {strengths}" if strengths else first.defence),
        Cell(each.question),
        Cell("" if measure == "homes read" else _numbers(shares)),
        Cell("0.50" if measure == "auc" else _numbers(control)),
        Cell(" / ".join(map(percentage, in_full))),
        Cell(join_names(attacks)),
    )


def _few(rows: Sequence[AuditRow]) -> Sequence[AuditRow]:
    """The weakest defence, one in the middle, and the strongest."""
    return rows if len(rows) <= MAX_STRENGTHS else (rows[0], rows[len(rows) // 2], rows[-1])


def _joined(strengths: Sequence[str]) -> str:
    """2 / 8 / 64 homes; 64 homes, epsilon 64 / 4."""
    if len(strengths) < 2 or not all(strengths):
        return "".join(strengths)
    parts = [strength.split(", ") for strength in strengths]
    words = []
    for column in zip(*parts, strict=True):
        number_first = column[0][0].isdigit()
        numbers = [text.split()[0 if number_first else -1] for text in column]
        listed = " / ".join(numbers if len(set(numbers)) > 1 else numbers[:1])
        words.append(f"{listed} homes" if number_first else f"epsilon {listed}")
    return ", ".join(words)


def _numbers(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def _row(audit: Audit, row: AuditRow) -> tuple[Cell, ...]:
    main, control = row.values.get("top", row.values.get("auc")), row.values.get("control")
    return (
        Cell(audit.data),
        Cell(row.method),
        Cell(row.what),
        Cell(row.seen_by),
        Cell(row.defended_by),
        Cell(row.attack),
        Cell(row.knows),
        Cell(row.disclosure),
        Cell("" if main is None else f"{main:.2f}", "" if main is None else main),
        Cell("" if control is None else f"{control:.2f}", "" if control is None else control),
    )


def _caption(largest: Mapping[str, Sequence[AuditRow]], attacks: int) -> str:
    """The most that an attack finds of an update that nothing defends, and what is left under a secure sum."""
    said = [f"{counted(attacks, 'attack')} on {counted(len(largest), 'data set')}."]
    rows = [(data, row) for data, some in largest.items() for row in some]
    updates = [(data, row) for data, row in rows if row.leaves == "update" and row.measure == "top"]
    plain = [each for each in updates if each[1].defence == "none"]
    if plain:
        data, worst = max(plain, key=lambda each: each[1].values["exact"])
        said.append(
            f"Undefended, {worst.attack} finds all typed rules of {worst.values['exact']:.0%} of homes from one update "
            f"of {worst.method} on {data}."
        )
    summed = [each for each in updates if each[1].defence == "secure sum"]
    if summed:
        data, last = max(summed, key=lambda each: (each[1].cohort, each[1].advantage))
        values = last.values
        said.append(
            f"In a secure sum of {last.cohort} homes {values['top']:.0%} of as many guesses as a home has rules are "
            f"right, and {values['control']:.0%} where the home is not in it ({last.method}, {data})."
        )
    return " ".join(said)


def single_home_counts(inputs: Inputs) -> Table:
    """By data and number of homes: how many cells of a sum over all of them are of one home, and what these tell."""
    found: dict[tuple[str, int], dict[str, AuditRow]] = {}
    sources = set()
    for audit in inputs.audits:
        for row in audit.rows:
            if row.attack == READ or row.attack.startswith(SINGLES):
                found.setdefault((audit.data, row.homes), {})[row.attack.removeprefix(SINGLES)] = row
                sources.add(f"{AUDITS}/{audit.file}")
    if not found:
        raise Missing("no counts were audited", f"{AUDIT} --method fedrank --part counts")
    rows, most = [], (0.0, "")
    for (data, homes), by_attack in sorted(found.items()):
        rules, pairs, read = (by_attack.get(name) for name in ("typed rules", "pairs of typed rules", READ))
        shares = _value(pairs, "homes with such a cell"), _value(read, "homes read"), _value(read, "rules read")
        rows.append(
            (Cell(data), count_cell(homes), _single_cell(rules), _single_cell(pairs), *map(_share_cell, shares))
        )
        most = max(most, (shares[1], f"{data}, {homes:,} homes"))
    caption = f"All rules of up to {percentage(most[0])} of homes can be read ({most[1]})." if most[1] else ""
    note = "If only one home has a typed rule, the row of this rule in the table of pairs lists all rules of that home."
    return Table(COUNTS, tuple(rows), About(caption or "No rule can be read.", tuple(sorted(sources)), AUDIT, (note,)))


def _value(row: AuditRow | None, name: str) -> float:
    return row.values.get(name, math.nan) if row else math.nan


def _single_cell(row: AuditRow | None) -> Cell:
    """79 of 122."""
    single = _value(row, "cells of one home")
    return Cell(NONE, "") if math.isnan(single) else Cell(f"{single:,.0f} of {_value(row, 'cells'):,.0f}", single)


def _share_cell(value: float) -> Cell:
    return Cell(NONE, "") if math.isnan(value) else Cell(percentage(value), value)


def cost(inputs: Inputs) -> Table:
    """By method and number of homes: how much quality each epsilon costs, paired by home and seed."""
    found = epsilon_lines(inputs.runs)
    if not found:
        raise Missing("no method was run with several epsilon and without privacy", RUN_PRIVACY)
    epsilons = sorted({cost.epsilon for line in found for cost in line.costs}, reverse=True)
    rows, details = [], []
    for line in found:
        at = {cost.epsilon: cost for cost in line.costs}
        first = Cell(line.method), count_cell(line.homes), count_cell(line.seeds), number_cell(line.level, 3)
        rows.append((*first, *(_cost_cell(at.get(epsilon), line) for epsilon in epsilons)))
        for each in line.costs:
            difference = interval_cell(each.difference, each.low, each.high)
            numbers = number_cell(each.epsilon, 2), number_cell(each.quality), difference
            details.append((*first, *numbers, Cell(each.verdict(line.level))))
    columns = ("method", "homes", "seeds", "MRR, none", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    more = (*columns[:4], "epsilon", "MRR", "difference", "verdict")
    notes = [
        "Difference of the mean reciprocal rank from that without privacy in per cent of it, paired by home and seed, "
        f"with its 95 % interval {interval_scope(line.seeds for line in found)}. Bold: the whole interval is above "
        "-1 %, so that privacy costs less than that; underlined: the interval has 0 in it, so that a cost can neither "
        "be shown nor ruled out.",
        "An interval over homes only, of one seed, says nothing about what another training would give. The CSV file "
        "has the differences themselves.",
    ]
    runs = [run for line in found for run in line.runs]
    about = About(_cost_caption(found), run_files(runs), RUN_PRIVACY, tuple(notes))
    return Table(columns, tuple(rows), about, details=Table(more, tuple(details), about))


def _cost_cell(cost: PrivacyCost | None, line: EpsilonLine) -> Cell:
    if cost is None:
        return Cell("not run", "")
    shares = [100 * value / line.level if line.level else math.nan for value in (cost.difference, cost.low, cost.high)]
    if not math.isfinite(shares[0]):
        return Cell(NONE, "")
    text = f"{shares[0]:+.1f} %"
    text += f" [{shares[1]:+.1f}, {shares[2]:+.1f}]" if math.isfinite(shares[1]) else ""
    free = cost.is_free(line.level)
    return Cell(text, strong=free, underlined=not free and cost.low <= 0 <= cost.high)


def _cost_caption(found: Sequence[EpsilonLine]) -> str:
    """Which epsilon costs less than 1 % with the most homes."""
    largest = max(line.homes for line in found)
    said = []
    for line in found:
        if line.homes == largest:
            free = [cost for cost in line.costs if cost.is_free(line.level)]
            least = f"from epsilon {min(cost.epsilon for cost in free):g} on" if free else "at no epsilon that was run"
            said.append(f"{line.method} {least}")
    seeds = seed_count(line.seeds for line in found if line.homes == largest)
    return f"With {largest:,} homes privacy costs surely less than 1 % of MRR: {'; '.join(said)} ({seeds})."
