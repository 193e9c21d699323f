"""The histories of many runs as one table: a row per run, round, part and metric, for figures and spreadsheets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

import pandas as pd

from benchmarks.results.leaderboard import labels_of
from benchmarks.results.store import Result

PARTS = ("train", "validation", "test")
METRICS = ("loss", "auc", "mr")
CURVES = frozenset(f"{part}_{metric}" for part in PARTS for metric in METRICS)  # what the harness measures by round
OWN = "method"  # the part of what the method itself reports, whatever it measured that on
COLUMNS = ("run", "label", "data", "seed", "round", "seconds", "part", "metric", "value")
RUN_COLUMNS = (
    *("run", "label", "method", "parameters", "data", "data_options", "fingerprint", "track", "split"),
    *("seed", "curves"),
)


def curves_table(results: Sequence[Result]) -> pd.DataFrame:
    """COLUMNS of every run that has a history."""
    rows = [
        (run, label, result.key.data, result.key.seed, int(row["round"]), row.get("seconds"), *_part(name), value)
        for run, label, result in _fits(results)
        for row in result.history
        for name, value in row.items()
        if name not in ("round", "seconds")
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def runs_table(results: Sequence[Result]) -> pd.DataFrame:
    """RUN_COLUMNS of the same runs: what each of them is, settings as JSON."""
    rows = []
    for run, label, result in _fits(results):
        key = {name: _text(value) if isinstance(value, dict) else value for name, value in asdict(result.key).items()}
        rows.append({**key, "run": run, "label": label})
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


def _fits(results: Sequence[Result]) -> list[tuple[str, str, Result]]:
    """Id, label and result of every fit with a history; one that several protocols evaluated is there once."""
    fits = {replace(result.key, protocol="").hash: result for result in reversed(results) if result.history}
    labels = labels_of(list(fits.values()))
    rows = [(run, label, result) for (run, result), label in zip(fits.items(), labels, strict=True)]
    return sorted(rows, key=lambda row: (row[2].key.data, row[1], row[2].key.seed, row[0]))


def _part(name: str) -> tuple[str, str]:
    """Part and metric of a column of a history."""
    part, _, metric = name.partition("_")
    return (part, metric) if name in CURVES else (OWN, name)


def _text(values: object) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False)
