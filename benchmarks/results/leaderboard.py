"""The methods on one data set, best first, in groups without significant differences.

The best method leads group 1. Going down the list, a method that differs from its group's leader (paired test over
homes and seeds, Holm over all pairs of the list, p < ALPHA) leads the next group. One leaderboard is one family of
comparisons.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from benchmarks.results.compare import (
    ALPHA,
    Comparison,
    Panel,
    base_name,
    compare,
    holm,
    lower_is_better,
    metrics_of,
)
from benchmarks.results.status import SIGN, refused_count, status_of
from benchmarks.results.store import Result
from datasets.common.errors import DataError

HEADLINE = {"ranking": "mrr{list}", "paper": "auc"}  # protocol, preferred ones first -> metric, see `Board.metric`
COLUMNS = {
    "ranking": (
        *("mrr{list}", "hr@10{list}", "mrr_first{list}", "recall@10{list}", "ndcg@10{list}", "map{list}", "mrr{raw}"),
        *("mrr", "mrr, all", "mrr, closed"),
    ),
    "paper": ("auc", "auc_feasible", "loss", "mr", "mr_rt", "mr_paper", "auc_pooled"),
}

SPLIT_TITLES = {"leave_one_out": "one automation hidden", "new_homes": "homes not seen in training"}

Pairs = dict[tuple[str, str], Comparison]  # the better method of each pair first; without pairs of no common seed


def changed_options(result: Result) -> dict[str, object]:
    """The options of the data that are not the defaults, except the number of homes, which is shown anyway."""
    return {name: value for name, value in result.overrides.data_options.items() if name != "homes"}


def labels_of(runs: Sequence[Result]) -> list[str]:
    """The method of each run with the parameters that are not the defaults.

    Runs of one method that differ in defaults only, those of two versions of it, get the differing parameters as well.
    """
    usual: dict[str, list[Mapping[str, object]]] = {}
    for run in runs:
        usual.setdefault(_named(run), []).append(run.key.parameters)
    labels = []
    for run in runs:
        own, named = run.key.parameters, dict(run.overrides.parameters)
        others = usual[_named(run)]
        for name in sorted({name for other in others for name in other} - named.keys()):
            if name not in own:
                named[f"without {name}"] = None
            elif any(name not in other or other[name] != own[name] for other in others):
                named[name] = own[name]
        labels.append(_with(run.key.method, named))
    return labels


def _named(run: Result) -> str:
    return _with(run.key.method, run.overrides.parameters)


def _with(name: str, settings: Mapping[str, object]) -> str:
    """mf (factors=64, solver=bpr)."""
    shown = [each if each.startswith("without ") else f"{each}={value}" for each, value in settings.items()]
    return f"{name} ({', '.join(shown)})" if shown else name


@dataclass(frozen=True, slots=True)
class Board:
    """Runs of one leaderboard: the same data, track, split and protocol, any method and seed."""

    title: str  # what was measured on what, e.g. "wyze-synthetic, 500 homes, types, holdout, ranking"
    protocol: str
    runs: tuple[tuple[str, Result], ...]  # labelled
    mark: str = ""  # ends the title where another board has the same, e.g. ", data 0123456789abcdef"

    @property
    def data(self) -> str:
        """The data set with the options that are not the defaults."""
        result = self.runs[0][1]
        return _with(result.key.data, changed_options(result))

    @property
    def split(self) -> str:
        """How rules are hidden, with the options of the split that are not the defaults."""
        return _with(SPLIT_TITLES.get(self.split_name, self.split_name), self.runs[0][1].overrides.split_options)

    @property
    def split_name(self) -> str:
        """As `datasets.split` knows it."""
        return str(self.runs[0][1].key.split["split"])

    def describe(self) -> str:
        """Data, size, track, split and protocol, with the options of data and split that are not the defaults."""
        result, key = self.runs[0][1], self.runs[0][1].key
        size = f"{result.counts['homes']:,} homes" if "homes" in result.counts else key.fingerprint
        curves = f", fitted without validation rules for curves every {key.curves}" if key.curves else ""
        return f"{self.data}, {size}, {key.track}, {self.split}, {key.protocol}{curves}"

    def methods(self) -> list[str]:
        """The labels, each once."""
        return list(dict.fromkeys(label for label, _ in self.runs))

    def metric(self, name: str) -> str:
        """A metric by name; {list} stands for the list that the headline is of, {raw} for the same, not filtered."""
        suffix = self.runs[0][1].suffix
        return name.format(list=suffix, raw=f"{suffix or ','} raw")

    @property
    def headline(self) -> str:
        """The metric that it is sorted by."""
        return self.metric(HEADLINE[self.protocol])

    def has(self, metric: str) -> bool:
        """Whether its methods can be compared by this metric."""
        return base_name(metric) in metrics_of(self.runs[0][1])

    def find_metric(self, name: str) -> str | None:
        """This metric, else the same of the headline's list; None where its methods can't be compared by either."""
        return next(filter(self.has, (name, self.metric(f"{name}{{list}}"))), None)

    def label(self, name: str) -> str | None:
        """The label that a name stands for: itself, else the only one of the method; None where there is none.

        A bare name is the row of the method's defaults, if there is one.
        """
        if name in self.methods():
            return name
        same = sorted({label for label, result in self.runs if result.key.method == name})
        if len(same) > 1:
            listed = ", ".join(map(shlex.quote, same))
            raise DataError(f"{self.title}: {name} was run with several settings; name one of: {listed}")
        return same[0] if same else None

    def warnings(self) -> list[str]:
        """What a reader should know before trusting the leaderboard."""
        return [*self._environment(), *self._seeds(), *self._unscored(), *self._refused()]

    def status(self, label: str) -> str:
        """What went wrong in the training of a row, counted over its seeds; empty where nothing did."""
        return status_of([result for each, result in self.runs if each == label])

    def status_notes(self) -> list[str]:
        """A note for each row with the sign."""
        return [f"{SIGN} {label}: {status}" for label in self.methods() if (status := self.status(label))]

    def _refused(self) -> list[str]:
        """Where updates were refused, but so few, or simulated, that the row has no sign."""
        counts = [(label, refused_count(run for each, run in self.runs if each == label)) for label in self.methods()]
        found = ", ".join(f"{label} {count:,}" for label, count in counts if count)
        return [f"updates that were NaN or infinite and refused, few or simulated: {found}"] if found else []

    def _environment(self) -> list[str]:
        """Where its runs were made by different commits or versions of packages."""
        found: dict[str, set[str]] = {"commit": {result.commit for _, result in self.runs}}
        for _, result in self.runs:
            for package, version in result.versions.items():  # of packages that the run imported
                found.setdefault(package, set()).add(version)
        return [
            f"the runs differ in {name}: {', '.join(sorted(map(_shown, values)))}"
            + ("; `python -m benchmarks reproduce` tells whether that matters" if name == "commit" else "")
            for name, values in found.items()
            if len(values) > 1
        ]

    def _seeds(self) -> list[str]:
        """Where its rows are means over different seeds, which are different hidden rules."""
        rows: dict[tuple[int, ...], list[str]] = {}
        for label in self.methods():
            seeds = sorted(result.key.seed for each, result in self.runs if each == label)
            rows.setdefault(tuple(seeds), []).append(label)
        listed = "; ".join(
            f"{', '.join(map(str, seeds))}: {', '.join(sorted(labels))}" for seeds, labels in sorted(rows.items())
        )
        return [f"the rows are of different seeds ({listed})"] if len(rows) > 1 else []

    def _unscored(self) -> list[str]:
        """Where a method has no scores."""
        found = []
        none = [m for m in sorted(self.methods()) if self._unanswered(m, "unanswered", "hidden") == 1]
        if none:
            found.append(f"answered none of the hidden rules: {', '.join(none)}")
        few = [m for m in sorted(self.methods()) if self._unanswered(m, "unanswered_non_rules", "non_rules") > 1 / 2]
        if few and self.protocol == "paper":
            found.append(
                f"more than half of the non-rules are unanswered by {', '.join(few)}: "
                "auc then says mostly which triples a method knows; see auc_feasible"
            )
        return found

    def _unanswered(self, label: str, part: str, whole: str) -> float:
        return _mean(_share(result, part, whole) for each, result in self.runs if each == label)


def boards(results: Sequence[Result]) -> list[Board]:
    """The leaderboards of results, one for each data set (by content), track, split and protocol."""
    found: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        key = result.key
        split = {name: value for name, value in key.split.items() if name != "seed"}
        place = key.data, _text(result.overrides.data_options), key.track, _text(split), key.protocol, key.fingerprint
        found.setdefault((*place, str(key.curves)), []).append(result)
    listed = [
        Board("", runs[0].key.protocol, tuple(zip(labels_of(runs), runs, strict=True)))
        for _, runs in sorted(found.items())
    ]
    titles = [board.describe() for board in listed]
    for i, title in enumerate(titles):
        mark = f", data {listed[i].runs[0][1].key.fingerprint}" if titles.count(title) > 1 else ""
        listed[i] = replace(listed[i], title=title + mark, mark=mark)
    return listed


def interval_scope(seeds: Iterable[int]) -> str:
    """What the intervals of rows with so many seeds are over."""
    counts = set(seeds)
    if counts == {1}:
        return "over homes only: one seed"
    return "over homes and seeds" + (" (over homes only in rows of one seed)" if 1 in counts else "")


def leaderboard(board: Board, metric: str) -> pd.DataFrame:
    """A row per method, best first: tie group, the metric's mean over seeds with its interval, and more."""
    return ranked(board, metric)[0]


def ranked(board: Board, metric: str) -> tuple[pd.DataFrame, Pairs, Panel]:
    """The leaderboard, the comparisons of all pairs that its groups come from, and the panel that both are of."""
    panel = Panel.of(board.runs, metric)
    rows = []
    for method in board.methods():
        found = panel.estimate(list(panel.columns(method).values()))
        runs = [result for label, result in board.runs if label == method]
        low, high = np.clip(found.interval(), 0, np.inf if lower_is_better(metric) else 1)  # where no metric can be
        row: dict[str, object] = {"method": method, metric: found.value, "low": low, "high": high}
        row["sd over seeds"] = found.spread
        names = dict.fromkeys(map(board.metric, COLUMNS[board.protocol]))
        row |= {name: _mean(r.summary.get(name) for r in runs) for name in names if name != metric}
        row["unanswered"] = _mean(result.summary.get("unanswered") for result in runs)
        row["hidden"] = _mean(result.summary.get("hidden") for result in runs)
        if board.protocol == "paper":
            row["non-rules unanswered"] = _mean(_share(result, "unanswered_non_rules", "non_rules") for result in runs)
        row["fit s"] = _median(result.seconds.get("fit") for result in runs)  # the first may include compiling
        row["fit MB"] = _mean(result.memory.get("fit") for result in runs)
        row["seeds"] = len(runs)
        row["calibrated"] = any(result.calibrated for result in runs)
        row["status"] = status_of(runs)
        rows.append(row)
    table = pd.DataFrame(rows).sort_values(metric, ascending=lower_is_better(metric), kind="stable")
    ordered = table["method"].tolist()
    pairs = all_pairs(panel, ordered)
    table.insert(0, "group", tie_groups(pairs, ordered))
    if board.protocol == "ranking":
        table = table.drop(columns="calibrated")
    return table.reset_index(drop=True), pairs, panel


def all_pairs(panel: Panel, ordered: Sequence[str]) -> Pairs:
    """Every method, given best first, against every one below it that it has a seed in common with."""
    return {
        pair: compare(panel, *pair)
        for pair in combinations(ordered, 2)
        if panel.columns(pair[0]).keys() & panel.columns(pair[1]).keys()
    }


def adjusted_p(pairs: Pairs) -> dict[tuple[str, str], float]:
    """The p value of each pair, as one of all pairs of the list."""
    return dict(zip(pairs, holm([each.p for each in pairs.values()]), strict=True))


def tie_groups(pairs: Pairs, ordered: Sequence[str]) -> list[int]:
    """The group of each method, given best first; two methods without a common seed are tied."""
    adjusted = adjusted_p(pairs)
    groups: list[int] = []
    leader = ordered[0] if ordered else ""
    for method in ordered:
        if adjusted.get((leader, method), 1.0) < ALPHA:
            leader = method
            groups.append(groups[-1] + 1)
        else:
            groups.append(groups[-1] if groups else 1)
    return groups


def _share(result: Result, part: str, whole: str) -> float | None:
    number = result.summary.get(whole)
    return result.summary.get(part, float("nan")) / number if number else None


def _mean(values: Iterable[float | None]) -> float:
    """Mean of what was measured; infinite where one is: the others alone would look too good."""
    there = [value for value in values if value is not None and not math.isnan(value)]
    return float(np.mean(there)) if there else float("nan")


def _shown(value: str) -> str:
    """A version, or a commit with the first digits of its hash only."""
    return re.sub(r"\b([0-9a-f]{10})[0-9a-f]{30}\b", r"\1", value) or "unknown"


def _median(values: Iterable[float | None]) -> float:
    there = [value for value in values if value is not None]
    return float(np.median(there)) if there else float("nan")


def _text(values: Mapping[str, object]) -> str:
    return json.dumps(values, sort_keys=True)
