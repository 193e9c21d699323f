"""Runs with numbers that a test of reports chooses, alone or kept in a folder as the harness keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from benchmarks.results.records import as_json
from benchmarks.results.store import Key, Overrides, Result, Store
from benchmarks.runs.experiment import data_options, method_parameters, split_options
from datasets.common.errors import DataError

HOMES = 40  # an even number, so that swings cancel
RULES = pd.DataFrame({"user": ["a"]})
KEYS = ("data", "track", "protocol", "fingerprint", "curves")


def run(method="toy", seed=0, *, parameters=None, options=None, split=None, **other) -> Result:
    """A run of a method with its defaults but for `parameters`; one that nobody knows has these alone.

    `other` are fields of its key or of the result.
    """
    where = {"data": "wyze-synthetic", "track": "types", "protocol": "ranking", "fingerprint": "f" * 16, "curves": 0}
    where |= {name: other.pop(name) for name in KEYS if name in other}
    carved = {"split": "holdout", "seed": seed, "fraction": 0.2, "validation": bool(where["curves"])}
    key = Key(
        method=method,
        parameters=_defaults(method_parameters, method) | (parameters or {}),
        data_options=options or {},
        split=carved | (split or {}),
        seed=seed,
        **where,
    )
    about = {"summary": {"mrr": 0.1}, "counts": {"homes": HOMES}, "seconds": {"fit": 1.5}, "memory": {"fit": 100.0}}
    about |= {"versions": {"python": "3.11.7", "numpy": "2.4.6"}, "commit": "0123456789abcdef"}
    about |= {"written": f"2026-11-1{seed % 10}T10:00:00+00:00"}
    about |= {"overrides": _overrides(key), "warnings": ()}
    return Result(key, **about | other)


def _overrides(key):
    """What differs from the defaults of now; an unknown method has its defaults."""
    split = {name: value for name, value in key.split.items() if name not in ("split", "seed", "validation")}
    return Overrides(
        _differing(key.parameters, _defaults(method_parameters, key.method) or key.parameters),
        _differing(key.data_options, _defaults(data_options, key.data)),
        _differing(split, _defaults(split_options, key.split["split"])),
    )


def _differing(values, defaults):
    return {name: value for name, value in values.items() if defaults.get(name, ...) != value}


def _defaults(options, name):
    try:
        return {name: as_json(value, name) for name, value in options(name, {}).items()}
    except DataError:
        return {}


def keep(folder: Path, method, values, *, seeds=(0, 1), swing=0.02, metric="mrr", **other) -> list[Result]:
    """Finished runs, one for each seed; every home hides one rule.

    `values` has a number for each home of each metric, and the summary has nothing else. Or it is a mean of `metric`:
    home 0, 1, 2, ... has mean + swing, mean - swing, mean + swing, ... and the summary has all that a list shows. Two
    methods of the same swing differ by the same in every home, which no resampling changes; of opposite swings they
    differ the one way in even homes and the other way in odd ones, and cannot be told apart.
    """
    if isinstance(values, Mapping):
        by_home, summary = values, {}
    else:
        by_home = {metric: [values + swing * (-1) ** home for home in range(HOMES)]}
        summary = {metric: values} | (_ranking(values) if other.get("protocol", "ranking") == "ranking" else {})
    homes = pd.DataFrame({"user": [f"home-{home}" for home in range(HOMES)], "n_hidden": 1} | dict(by_home))
    means = {name: float(homes[name].mean()) for name in by_home} | {"hidden": float(HOMES), "unanswered": 0.0}
    summary = means | summary | other.pop("summary", {})
    return [Store(folder).save(run(method, seed, summary=summary, **other), homes, RULES) for seed in seeds]


def _ranking(mean):
    found = {f"hr@{n}": min(1.0, mean * n**0.3) for n in range(1, 51)}
    return found | {"ndcg@10": mean, "mrr, all": mean / 2, "hr@10, all": mean}


def keep_failure(folder: Path, method, error, **other) -> Result:
    """A run that ended with an error."""
    return Store(folder).fail(replace(run(method, **other), summary={}, error=error))


def small_results(folder: Path) -> Path:
    """Two data sets, several methods each, a run that failed and a file that cannot be read."""
    methods = {"graphrank": 0.30, "fedrank": 0.27, "ease": 0.25, "popularity": 0.20, "graphrule": 0.15}
    for method, mean in methods.items():
        keep(folder, method, mean)
    for method, mean in {"ease": 0.35, "popularity": 0.28, "their-<b>own</b>": 0.31}.items():
        keep(folder, method, mean, data="ifttt-synthetic")
    keep_failure(folder, "gcmc", "Traceback\n  line 3\nMemoryError: 12 GB are not there\n")
    (folder / "broken.json").write_text("{")
    return folder


def rounds(many, *, sends=100.0, clients=HOMES, first=None):
    """The history of a federated run; `first` stands in its first round."""
    history = [{"round": n + 1.0, "clients": float(clients), "sent_bytes": sends} for n in range(many)]
    history[0] |= first or {}
    return history


def sliced(method, seed=0, *, small=(10, 0.5), large=(0, math.nan), seen=(8, 0.6), unseen=(2, 0.1), silent=0.0):
    """A ranking with (hidden rules, reciprocal rank) of each slice."""
    summary = {"mrr": 0.5}
    for name, (hidden, value), metric in (
        ("devices 1-2", small, "mrr"),
        ("devices >20", large, "mrr"),
        ("seen", seen, "mrr, all"),
        ("unseen", unseen, "mrr, all"),
    ):
        summary |= {f"{name}: hidden": float(hidden), f"{name}: unanswered": 0.0, f"{name}: {metric}": value}
    return run(method, seed, summary=summary | {"unseen: unanswered": silent})
