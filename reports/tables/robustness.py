"""Attacks against defences of federated training, and faults: the boards of the suites `robustness` and `faults`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from benchmarks.results.status import SIGN
from benchmarks.results.store import Result
from datasets.common.errors import counted
from datasets.common.training_warnings import FAILED
from reports.inputs import Inputs, group_runs
from reports.outputs import About, Cell, Missing, Table, run_files
from reports.sweeps import ATTACKS, FAULTS, sweeps
from reports.text.formats import (
    NONE,
    count_cell,
    failure_notes,
    format_number,
    join_names,
    number_cell,
    seed_count,
)

RUN_SUITE = "python -m benchmarks run robustness"
RUN_FAULTS = "python -m benchmarks run faults"
LEAST_MRR, LEAST_RANK = 0.9, 0.5  # of that of the mean without attackers; chosen before the first run
BOUNDED, NOT_BOUNDED, UNKNOWN = "bounded", "not bounded", "not known"
ATTACK_ORDER = ("sign-flip", "scale", "noise", "label-flip", "promote")
DEFENCE_ORDER = ("mean", "norm bound", "median", "trimmed-mean", "krum", "multi-krum")
CRITERION = (
    f"Bounded: MRR is at least {LEAST_MRR:.0%} of that of the mean without attackers and, for attack promote, the mean "
    f"rank of the promoted rule is at least {LEAST_RANK:.0%} of that of the mean without attackers, for the largest "
    "share of attackers and all smaller ones; up to: for smaller shares only. A defence that has less without "
    "attackers bounds nothing. The criterion was chosen before the first run."
)
MEANS = (
    "MRR is that of the leaderboard, AUC that of protocol paper on the test rules; both are over all homes, with the "
    "rules that they really have. Rank: mean place of the promoted rule in the lists of honest homes that own devices "
    "of its two types and lack it; lower is better for the attacker."
)
FAULT_COLUMNS = (
    *("method", "data", "homes", "faults", "seeds", "hidden rules"),
    *("without", "with", "difference", "of single seeds"),
)
MAX_FALL = 0.01  # of AUC by faults: the goal
Where: TypeAlias = tuple[str, str, str, float]  # method, defence, attack and share of attackers


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over the seeds of one entry."""

    mrr: float
    auc: float
    rank: float  # of the promoted rule
    seeds: int
    went_wrong: bool  # training diverged in some run

    @classmethod
    def of(cls, runs: Sequence[Result]) -> Measured:
        def mean(value: Callable[[Result], float]) -> float:
            return sum(map(value, runs)) / len(runs)

        return cls(
            mean(lambda run: run.summary.get(f"mrr{run.suffix}", math.nan)),
            mean(lambda run: last(run, "test_auc")),
            mean(lambda run: last(run, "promoted_rank")),
            len({run.key.seed for run in runs}),
            any(warning.kind in FAILED for run in runs for warning in run.warnings),
        )


def last(run: Result, name: str) -> float:
    """The value of the last round that has it."""
    return next((values[name] for values in reversed(run.history) if name in values), math.nan)


@dataclass(frozen=True, eq=False)
class AttackBoard:
    """All entries, by method, defence, attack and share of attackers."""

    runs: list[Result]
    measured: dict[Where, Measured]

    @classmethod
    def of(cls, inputs: Inputs) -> AttackBoard:
        runs = _runs(inputs)
        found: dict[Where, list[Result]] = {}
        for run in runs:
            found.setdefault(_where(run), []).append(run)
        board = cls(runs, {where: Measured.of(some) for where, some in found.items()})
        if not board.methods or len(board.shares) < 2:
            raise Missing("no attack was run beside the mean without attackers", RUN_SUITE)
        return board

    @cached_property
    def shares(self) -> list[float]:
        """Of attackers; the first is 0."""
        return sorted({share for *_, share in self.measured} | {0.0})

    @cached_property
    def methods(self) -> list[str]:
        """Those that were run with the mean and without attackers."""
        return sorted({method for method, *_ in self.measured if (method, "mean", "none", 0.0) in self.measured})

    @cached_property
    def defences(self) -> list[str]:
        """Of any method."""
        return _ordered((defence for _, defence, _, _ in self.measured), DEFENCE_ORDER)

    def attacks(self, method: str) -> list[str]:
        """That the method was run with."""
        return _ordered((a for m, _, a, _ in self.measured if m == method and a != "none"), ATTACK_ORDER)

    def normal(self, method: str) -> Measured:
        """The mean without attackers."""
        return self.measured[method, "mean", "none", 0.0]

    def entries(self, method: str, defence: str, attack: str) -> list[Measured | None]:
        """By share of attackers; None where it was not run."""
        return [self.measured.get((method, defence, attack if share else "none", share)) for share in self.shares]

    def verdict(self, method: str, defence: str, attack: str) -> str:
        """Up to which share of attackers it is bounded."""
        return _verdict(self.entries(method, defence, attack), self.shares, self.normal(method), attack)

    def about(self, inputs: Inputs, caption: str, notes: Sequence[str]) -> About:
        """Where the runs come from and what the numbers mean."""
        first = self.runs[0]
        where = f"{first.key.data}, {counted(first.counts.get('homes', 0), 'home')}, track {first.key.track}"
        seeds = seed_count(each.seeds for each in self.measured.values())
        said = [*notes, MEANS, f"{where}; {seeds}.", *_settings(self.runs)]
        if any(each.went_wrong for each in self.measured.values()):
            said.append(f"{SIGN}: training diverged, and the last good model is measured.")
        said.append("The CSV file has a row for each attack and defence, with MRR, AUC and rank.")
        failed = [run for run in inputs.failed if run.key.parameters.get("promoted") and run.key.protocol == "ranking"]
        return About(caption, run_files(self.runs), RUN_SUITE, (*said, *failure_notes(failed)))

    def details(self, about: About) -> Table:
        """A row for each attack on a method and each defence, with the shares of attackers side by side."""
        rows = []
        for method in self.methods:
            for attack in self.attacks(method):
                for defence in self.defences:
                    entries = self.entries(method, defence, attack)
                    if any(entries[1:]):
                        verdict = Cell(self.verdict(method, defence, attack))
                        rows.append((Cell(method), Cell(attack), Cell(defence), *_cells(entries), verdict))
        titles = [f"{name} {share:.0%}" for name in ("MRR", "AUC", "rank") for share in self.shares]
        return Table(("method", "attack", "defence", *titles, "bounded"), tuple(rows), about)


def attacks(inputs: Inputs) -> Table:
    """A row for each attack on a method, a column for each defence: MRR by share of attackers, and the verdict."""
    board = AttackBoard.of(inputs)
    shares = " / ".join(f"{share:.0%}" for share in board.shares[1:])
    rows, bounded, total = [], Counter[str](), Counter[str]()
    for method in board.methods:
        alone = [board.measured.get((method, defence, "none", 0.0)) for defence in board.defences]
        rows.append((Cell(method), Cell("none"), *(_values_cell([each], "mrr", 3) for each in alone)))
        for attack in board.attacks(method):
            cells = []
            for defence in board.defences:
                entries = board.entries(method, defence, attack)[1:]
                if not any(entries):
                    cells.append(Cell(NONE, ""))
                    continue
                verdict = board.verdict(method, defence, attack)
                text = _series(entries, "mrr", 3)
                text += f"; rank {_series(entries, 'rank', 0)}" if attack == "promote" else ""
                cells.append(Cell(f"{verdict}: {text}", strong=verdict == BOUNDED))
                bounded[method] += verdict == BOUNDED
                total[method] += 1
            rows.append((Cell(method), Cell(attack), *cells))
    verdicts = [f"{bounded[m]} of {total[m]} attacks on {m}" for m in board.methods]
    usual = [(method, board.normal(method)) for method in board.methods]
    normals = [f"{method} has MRR {each.mrr:.3f} (promoted rule: rank {each.rank:.0f})" for method, each in usual]
    caption = (
        f"MRR with {shares} attackers, and whether the attack is bounded: in bold where it is, up to "
        f"{board.shares[-1]:.0%} attackers. The defences bound {join_names(verdicts)}. Without attackers and with the "
        f"mean {join_names(normals)}."
    )
    about = board.about(inputs, caption, [CRITERION])
    return Table(("method", "attack", *board.defences), tuple(rows), about, details=board.details(about))


def auc_and_rank(inputs: Inputs) -> Table:
    """The same for AUC and the mean rank of the promoted rule."""
    board = AttackBoard.of(inputs)
    rows = []
    for method in board.methods:
        for attack in ("none", *board.attacks(method)):
            for title, name, digits in (("AUC", "auc", 3), ("rank", "rank", 0)):
                cells = []
                for defence in board.defences:
                    entries = board.entries(method, defence, attack)
                    cells.append(_values_cell(entries[:1] if attack == "none" else entries[1:], name, digits))
                rows.append((Cell(method), Cell(attack), Cell(title), *cells))
    shares = " / ".join(f"{share:.0%}" for share in board.shares[1:])
    usual = [(method, board.normal(method)) for method in board.methods]
    normals = [f"{method} has AUC {each.auc:.3f} and rank {each.rank:.0f}" for method, each in usual]
    caption = (
        f"AUC, and the mean rank of the promoted rule, with {shares} attackers. Without attackers and with the mean "
        f"{join_names(normals)}."
    )
    about = board.about(inputs, caption, [])
    return Table(("method", "attack", "measure", *board.defences), tuple(rows), about, details=board.details(about))


def faults(inputs: Inputs) -> Table:
    """AUC with and without simulated faults, by method and data, on the seeds that both have."""
    rows, used, worst = [], [], []
    for sweep in sweeps([run for run in inputs.runs if run.key.protocol == "paper"], FAULTS):
        plain = {run.key.seed: run for run in sweep.without}
        cases: dict[str, dict[int, Result]] = {}
        for run in sweep.runs:
            if run not in sweep.without and run.key.seed in plain:
                cases.setdefault(_faults(run), {})[run.key.seed] = run
        for case, faulty in cases.items():
            pairs = [(_auc(plain[seed]), _auc(faulty[seed])) for seed in sorted(faulty)]
            without, with_ = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
            falls = [after - before for before, after in pairs]
            hidden = sum(run.summary.get("hidden", math.nan) for run in faulty.values()) / len(faulty)
            first, within = sweep.runs[0], with_ - without >= -MAX_FALL
            others = {k: v for k, v in first.overrides.parameters.items() if k not in FAULTS.options}
            label = f"{sweep.method} ({', '.join(f'{k}={v}' for k, v in others.items())})" if others else sweep.method
            rows.append(
                (
                    Cell(label),
                    Cell(first.key.data),
                    count_cell(sweep.homes),
                    Cell(case),
                    count_cell(len(pairs)),
                    number_cell(hidden, 0),
                    number_cell(without, 4),
                    number_cell(with_, 4),
                    Cell(f"{with_ - without:+.4f}", with_ - without, strong=not within),
                    Cell(f"{min(falls):+.3f} to {max(falls):+.3f}"),
                )
            )
            worst.append((with_ - without, f"{label} on {first.key.data}, {sweep.homes:,} homes"))
            used += [*faulty.values(), *(plain[seed] for seed in faulty)]
    if not rows:
        raise Missing("no method was run with and without simulated faults", RUN_FAULTS)
    fall, where = min(worst)
    inside = sum(each >= -MAX_FALL for each, _ in worst)
    caption = (
        f"{inside} of {len(rows)} are within the goal, an AUC that falls by at most {MAX_FALL}; in bold those that are "
        f"not. The largest change downwards is {fall:+.4f} ({where})."
    )
    notes = ("AUC of protocol paper, mean over seeds; each seed hides other rules and draws other faults.",)
    return Table(FAULT_COLUMNS, tuple(sorted(rows, key=_order)), About(caption, run_files(used), RUN_FAULTS, notes))


def _auc(run: Result) -> float:
    return run.summary.get("auc", math.nan)


def _order(row: tuple[Cell, ...]) -> tuple[str, ...]:
    return tuple(cell.text for cell in row)


def _faults(run: Result) -> str:
    """30% drop out, 10% are late, 10% send NaN."""
    words = {"drop_out": "drop out", "late": "are late", "corrupted": "send NaN"}
    shares = {name: float(str(run.key.parameters.get(name, 0.0))) for name in words}
    return ", ".join(f"{share:.0%} {words[name]}" for name, share in shares.items() if share)


def _runs(inputs: Inputs) -> list[Result]:
    """Rankings with a promoted rule on the data that has most of them, of each method with its usual other options."""
    of_attacks = [r for r in inputs.runs if r.key.parameters.get("promoted") and r.key.protocol == "ranking"]
    groups = group_runs([run for run in of_attacks if run.key.curves])
    if not groups:
        raise Missing("no attack was run", RUN_SUITE)
    runs = max(groups, key=lambda group: len(group.runs)).runs
    usual = {}
    for method in {run.key.method for run in runs}:
        usual[method] = Counter(_others(run) for run in runs if run.key.method == method).most_common(1)[0][0]
    return _same_seeds([run for run in runs if _others(run) == usual[run.key.method]])


def _same_seeds(runs: Sequence[Result]) -> list[Result]:
    """Without seeds that some entry of a method lacks: entries are compared, and seeds differ by more than attacks."""
    kept = []
    for method in sorted({run.key.method for run in runs}):
        seeds: dict[Where, set[int]] = {}
        for run in runs:
            if run.key.method == method:
                seeds.setdefault(_where(run), set()).add(run.key.seed)
        of_all = set.intersection(*seeds.values()) or set.union(*seeds.values())
        kept += [run for run in runs if run.key.method == method and run.key.seed in of_all]
    return kept


def _others(run: Result) -> str:
    others = {name: value for name, value in run.key.parameters.items() if name not in ATTACKS.options}
    return json.dumps(others, sort_keys=True)


def _where(run: Result) -> Where:
    options = run.key.parameters
    aggregation, bound = str(options["aggregation"]), bool(options["norm_bound"])
    defence = {(False, "mean"): "mean", (True, "mean"): "norm bound"}.get((bound, aggregation), aggregation)
    defence += ", norm bound" if bound and aggregation != "mean" else ""
    return run.key.method, defence, str(options["attack"]), float(str(options["attackers"]))


def _ordered(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """Each once, those of `order` first."""
    return sorted(set(names), key=lambda name: (order.index(name) if name in order else len(order), name))


def _breaks(entry: Measured, normal: Measured, attack: str) -> bool:
    """Whether MRR or rank is outside of the criterion; NaN is."""
    low_rank = attack == "promote" and not entry.rank >= LEAST_RANK * normal.rank
    return low_rank or not entry.mrr >= LEAST_MRR * normal.mrr


def _verdict(entries: Sequence[Measured | None], shares: Sequence[float], normal: Measured, attack: str) -> str:
    """Up to which share of attackers it is bounded; the first share is 0.

    A defence that without attackers already costs more than the criterion allows bounds nothing.
    """
    alone = entries[0]
    if alone is not None and _breaks(alone, normal, "none"):
        return NOT_BOUNDED
    up_to = 0.0
    for share, entry in zip(shares[1:], entries[1:], strict=True):
        if entry is None:
            return UNKNOWN
        if _breaks(entry, normal, attack):
            break
        up_to = share
    if up_to == shares[-1]:
        return BOUNDED
    return f"up to {up_to:.0%}" if up_to else NOT_BOUNDED


def _cells(entries: Sequence[Measured | None]) -> list[Cell]:
    return [
        _values_cell([entry], name, digits)
        for name, digits in (("mrr", 3), ("auc", 3), ("rank", 0))
        for entry in entries
    ]


def _values_cell(entries: Sequence[Measured | None], name: str, digits: int) -> Cell:
    """One value, or several as text."""
    if not any(entries):
        return Cell(NONE, "")
    only = entries[0]
    if len(entries) == 1 and only is not None:
        return number_cell(getattr(only, name), digits, sign=SIGN if only.went_wrong else "")
    return Cell(_series(entries, name, digits))


def _series(entries: Sequence[Measured | None], name: str, digits: int) -> str:
    """0.322 / 0.316 / 0.306."""
    return " / ".join(
        NONE if each is None else format_number(getattr(each, name), digits) + (SIGN if each.went_wrong else "")
        for each in entries
    )


def _settings(runs: Sequence[Result]) -> list[str]:
    """What the defences and the attacks were run with."""
    said = []
    for name, of in (("trim", "trimmed-mean"), ("assumed_attackers", "krum"), ("assumed_attackers", "multi-krum")):
        values = {run.key.parameters[name] for run in runs if run.key.parameters["aggregation"] == of}
        said += [f"{of}: {name} {value:g}" for value in sorted(values, key=str) if isinstance(value, float)]
    bounds = {(r.key.parameters["norm_bound"], r.key.parameters["norm_relative"]) for r in runs}
    for bound, relative in sorted(bounds, key=str):
        if bound:
            said.append(f"norm bound: {bound:g}{' times the median norm of the cohort' if relative else ''}")
    scales = {
        r.key.parameters["attack_scale"] for r in runs if r.key.parameters["attack"] not in ("none", "label-flip")
    }
    said += [f"attackers send {value:g} times what they learned" for value in sorted(scales, key=str)]
    text = "; ".join(said)
    return [f"{text[0].upper()}{text[1:]}."] if text else []
