"""Attacks against defences of federated training: the board of the suite `robustness`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.results.status import SIGN
from benchmarks.results.store import Result
from datasets.common.training_warnings import FAILED
from reports.inputs import Inputs, group_runs
from reports.outputs import About, Cell, Missing, Table, run_files
from reports.text.formats import NONE, counted, failure_notes, join_names, number_cell, seed_count

RUN_SUITE = "python -m benchmarks run robustness"
ATTACK = ("attack", "attackers", "attack_scale")
DEFENCE = ("aggregation", "trim", "assumed_attackers", "norm_bound", "norm_relative")  # all else has to be equal
LEAST_MRR, LEAST_RANK = 0.9, 0.5  # of that of the mean without attackers; chosen before the first run
COSTS = "not even without attackers"
ATTACKS = ("sign-flip", "scale", "noise", "label-flip", "promote")
DEFENCES = ("mean", "norm bound", "median", "trimmed-mean", "krum", "multi-krum")
NOTE = (
    f"Bounded: MRR is at least {LEAST_MRR:.0%} of that of the mean without attackers and, for attack promote, the mean "
    f"rank of the promoted rule is at least {LEAST_RANK:.0%} of that of the mean without attackers, for this share of "
    "attackers and all smaller ones. The criterion was chosen before the first run. Bold: outside of it."
)
MEANS = (
    "MRR is that of the leaderboard, AUC that of protocol paper on the test rules; both are over all homes, with the "
    "rules that they really have. Rank: mean place of the promoted rule in the lists of honest homes that own devices "
    "of its two types and lack it; lower is better for the attacker."
)
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


def attacks(inputs: Inputs) -> Table:
    """A row for each attack on a method and each defence, with the shares of attackers side by side."""
    runs = _runs(inputs)
    found: dict[Where, list[Result]] = {}
    for run in runs:
        found.setdefault(_where(run), []).append(run)
    measured = {where: Measured.of(some) for where, some in found.items()}
    shares = sorted({share for *_, share in measured})
    methods = sorted({method for method, *_ in measured if (method, "mean", "none", 0.0) in measured})
    if not methods or len(shares) < 2:
        raise Missing("no attack was run beside the mean without attackers", RUN_SUITE)
    rows, bounded = [], Counter[str]()
    for method in methods:
        normal = measured[method, "mean", "none", 0.0]
        for attack in _ordered((a for m, _, a, _ in measured if m == method and a != "none"), ATTACKS):
            for defence in _ordered((d for m, d, a, _ in measured if m == method and a == attack), DEFENCES):
                entries = [measured.get((method, defence, attack if s else "none", s)) for s in shares]
                verdict, holds = _verdict(entries, shares, normal, attack)
                bounded[method] += holds
                rows.append(
                    (Cell(method), Cell(attack), Cell(defence), *_cells(entries, normal, attack), Cell(verdict))
                )
    titles = [f"{name} {share:.0%}" for name in ("MRR", "AUC", "rank") for share in shares]
    total = Counter(row[0].text for row in rows)
    verdicts = [f"{bounded[m]} of {total[m]} attacks on {m}" for m in methods]
    normals = [(m, measured[m, "mean", "none", 0.0]) for m in methods]
    caption = (
        f"Up to {shares[-1]:.0%} attackers the defences bound {join_names(verdicts)}. Without attackers and with the "
        "mean " + join_names([f"{m} has MRR {n.mrr:.3f} (promoted rule: rank {n.rank:.0f})" for m, n in normals]) + "."
    )
    first = runs[0]
    where = f"{first.key.data}, {counted(first.counts.get('homes', 0), 'home')}, track {first.key.track}"
    seeds = seed_count(each.seeds for each in measured.values())
    notes = [NOTE, MEANS, f"{where}; {seeds}.", *_settings(runs)]
    if any(each.went_wrong for each in measured.values()):
        notes.append(f"{SIGN}: training diverged, and the last good model is measured.")
    failed = [run for run in inputs.failed if run.key.parameters.get("promoted") and run.key.protocol == "ranking"]
    about = About(caption, run_files(runs), RUN_SUITE, (*notes, *failure_notes(failed)))
    return Table(("method", "attack", "defence", *titles, "bounded"), tuple(rows), about, sortable=True)


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
    others = {name: value for name, value in run.key.parameters.items() if name not in (*ATTACK, *DEFENCE)}
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


def _breaks(entry: Measured, normal: Measured, attack: str) -> tuple[bool, bool]:
    """Whether MRR and rank are outside of the criterion; NaN is."""
    return not entry.mrr >= LEAST_MRR * normal.mrr, attack == "promote" and not entry.rank >= LEAST_RANK * normal.rank


def _verdict(
    entries: Sequence[Measured | None], shares: Sequence[float], normal: Measured, attack: str
) -> tuple[str, bool]:
    """Up to which share of attackers it is bounded, and whether up to the largest.

    A defence that without attackers already costs more than the criterion allows bounds nothing.
    """
    attacked = [(share, entry) for share, entry in zip(shares, entries, strict=True) if share > 0]
    if any(entry is None for _, entry in attacked):
        return NONE, False
    alone = entries[0]
    if alone is not None and _breaks(alone, normal, "none")[0]:
        return COSTS, False
    up_to = 0.0
    for share, entry in attacked:
        assert entry is not None
        if any(_breaks(entry, normal, attack)):
            break
        up_to = share
    return (f"up to {up_to:.0%}" if up_to else "no"), up_to == shares[-1]


def _cells(entries: Sequence[Measured | None], normal: Measured, attack: str) -> list[Cell]:
    cells = []
    for name, digits in (("mrr", 3), ("auc", 3), ("rank", 0)):
        for entry in entries:
            if entry is None:
                cells.append(Cell(NONE, ""))
                continue
            low_mrr, low_rank = _breaks(entry, normal, attack)
            strong = {"mrr": low_mrr, "auc": False, "rank": low_rank}[name]
            sign = SIGN if entry.went_wrong else ""
            cells.append(number_cell(getattr(entry, name), digits, strong=strong, sign=sign))
    return cells


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
