"""The methods on one data set, best first, in groups that the data cannot tell apart.

The best method leads group 1. Going down the list, a method that differs from its group's leader (paired bootstrap over
homes, Holm over all pairs of the list, p < 0.05) leads the next group. One list is one family of comparisons.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from benchmarks.compare import Floats, Panel, compare, holm, interval, mean_over_seeds, refuse_mixed
from benchmarks.results import Result
from benchmarks.whole_files import Json

ALPHA = 0.05
LOWER_IS_BETTER = frozenset({"loss", "mr", "mr_rt"})
COLUMNS = {
    "ranking": ("mrr", "hr@1", "hr@10", "ndcg@10", "mrr, all", "hr@10, all"),
    "paper": ("auc", "loss", "mr", "mr_rt", "mr_paper", "auc_pooled"),
}


@dataclass(frozen=True, slots=True)
class Board:
    """Runs that may stand in one list: the same data, track, split and protocol, whatever the method and the seed."""

    data: str
    options: str
    track: str
    split: str
    protocol: str
    runs: tuple[tuple[str, Result], ...]  # labelled

    @property
    def title(self) -> str:
        """What was measured on what, e.g. "wyze-synthetic, 500 homes, types, holdout, ranking"."""
        first = self.runs[0][1]
        size = f"{first.counts['homes']:,} homes" if "homes" in first.counts else first.key.fingerprint
        return f"{self.data}, {size}, {self.track}, {self.split}, {self.protocol}"

    def methods(self) -> list[str]:
        """The labels, each once."""
        return list(dict.fromkeys(label for label, _ in self.runs))


def boards(results: Sequence[Result]) -> list[Board]:
    """Results sorted into lists; an error where one list would mix different data."""
    found: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        key = result.key
        split = {name: value for name, value in key.split.items() if name != "seed"}
        place = key.data, _text(key.data_options), key.track, _text(split), key.protocol
        found.setdefault(place, []).append(result)
    listed = []
    for (data, options, track, split_text, protocol), runs in sorted(found.items()):
        refuse_mixed(runs)
        how = json.loads(split_text)["split"]
        listed.append(Board(data, options, track, how, protocol, tuple(zip(_labels(runs), runs, strict=True))))
    return listed


def leaderboard(board: Board, metric: str, *, seed: int = 0) -> pd.DataFrame:
    """A row per method, best first: tie group, the metric's mean over seeds with its interval over homes, and more."""
    panel = Panel.of(board.runs, metric)
    draws = panel.resampled(seed=seed)
    values = panel.values()
    rows = []
    for method in board.methods():
        columns = list(panel.columns(method).values())
        runs = [result for label, result in board.runs if label == method]
        low, high = interval(mean_over_seeds(draws[:, columns]))
        row: dict[str, object] = {"method": method, metric: float(values[columns].mean()), "low": low, "high": high}
        row |= {name: _mean(r.summary.get(name) for r in runs) for name in COLUMNS[board.protocol] if name != metric}
        row["unanswered"] = _mean(result.summary.get("unanswered") for result in runs)
        row["fit s"] = _mean(result.seconds.get("fit") for result in runs)
        row["fit MB"] = _mean(result.memory.get("fit") for result in runs)
        row["seeds"] = len(runs)
        row["calibrated"] = any(result.calibrated for result in runs)
        rows.append(row)
    table = pd.DataFrame(rows).sort_values(metric, ascending=metric in LOWER_IS_BETTER, kind="stable")
    table.insert(0, "group", tie_groups(panel, draws, table["method"].tolist()))
    if board.protocol == "ranking":
        table = table.drop(columns="calibrated")
    return table.reset_index(drop=True)


def tie_groups(panel: Panel, draws: Floats, ordered: Sequence[str]) -> list[int]:
    """The group of each method, given best first; two methods without a common seed are not told apart."""
    pairs = [pair for pair in combinations(ordered, 2) if panel.columns(pair[0]).keys() & panel.columns(pair[1]).keys()]
    p = holm([compare(panel, *pair, resampled=draws).p_bootstrap for pair in pairs])
    adjusted = dict(zip(pairs, p, strict=True))
    groups: list[int] = []
    leader = ordered[0] if ordered else ""
    for method in ordered:
        if adjusted.get((leader, method), 1.0) < ALPHA:
            leader = method
            groups.append(groups[-1] + 1)
        else:
            groups.append(groups[-1] if groups else 1)
    return groups


def _labels(runs: Sequence[Result]) -> list[str]:
    """The method of each run, with those of its parameters that differ between the runs of this method."""
    sets: dict[str, list[Mapping[str, Json]]] = {}
    for run in runs:
        sets.setdefault(run.key.method, []).append(run.key.parameters)
    labels = []
    for run in runs:
        others = sets[run.key.method]
        differing = [
            f"{name}={value}"
            for name, value in run.key.parameters.items()
            if any(name not in other or other[name] != value for other in others)
        ]
        labels.append(f"{run.key.method} ({', '.join(differing)})" if differing else run.key.method)
    return labels


def _mean(values: object) -> float:
    there = [value for value in values if value is not None and np.isfinite(value)]  # type: ignore[attr-defined]
    return float(np.mean(there)) if there else float("nan")


def _text(values: Mapping[str, Json]) -> str:
    return json.dumps(values, sort_keys=True)
