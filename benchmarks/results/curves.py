"""The histories of many runs as one table: a row per run, round, part and metric, for figures and spreadsheets."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd

from benchmarks.results.store import Key, Result

PARTS = ("train", "validation", "test")
METRICS = ("loss", "auc", "mr")
CURVES = frozenset(f"{part}_{metric}" for part in PARTS for metric in METRICS)  # what the harness measures by round
OWN = "method"  # the part of what the method itself reports, whatever it measured that on
COLUMNS = (
    *("data", "data_options", "fingerprint", "track", "split", "method", "parameters", "seed", "curves"),
    *("round", "seconds", "part", "metric", "value"),
)


def curves_table(results: Sequence[Result]) -> pd.DataFrame:
    """COLUMNS of every run that has a history. A fit that was evaluated by several protocols is there once."""
    fits = {_fit(result.key): result for result in reversed(results)}
    rows = [row for fit, result in sorted(fits.items()) for row in _rows(fit, result)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(fit: tuple[str | int, ...], result: Result) -> list[tuple[object, ...]]:
    return [
        (*fit, int(row["round"]), row.get("seconds"), *_part(name), value)
        for row in result.history
        for name, value in row.items()
        if name not in ("round", "seconds")
    ]


def _fit(key: Key) -> tuple[str | int, ...]:
    """What a fit is: the key without the protocol."""
    options, split, parameters = map(_text, (key.data_options, key.split, key.parameters))
    return key.data, options, key.fingerprint, key.track, split, key.method, parameters, key.seed, key.curves


def _part(name: str) -> tuple[str, str]:
    """Part and metric of a column of a history."""
    part, _, metric = name.partition("_")
    return (part, metric) if name in CURVES else (OWN, name)


def _text(values: object) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False)
