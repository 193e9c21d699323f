"""Runs with numbers that a test chooses, kept in a folder as the harness keeps them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.key import Key
from benchmarks.results import Result, Store

HOMES = 40


def key_of(
    method,
    *,
    seed=0,
    protocol="ranking",
    data="wyze-synthetic",
    parameters=None,
    options=None,
    fingerprint="f" * 16,
    curves=0,
):
    """The key of a run by a method that nobody need know."""
    return Key(
        method=method,
        parameters=parameters or {},
        data=data,
        data_options=options or {},
        fingerprint=fingerprint,
        track="types",
        split={"split": "holdout", "fraction": 0.2, "seed": seed},
        protocol=protocol,
        seed=seed,
        curves=curves,
    )


def keep(folder: Path, method, by_home, *, summary=None, circumstances=None, **key):
    """A finished run: `by_home` has a value for each home of each metric, every home hides one rule."""
    homes = pd.DataFrame({"user": range(HOMES), "n_hidden": 1} | by_home)
    means = {name: float(homes[name].mean()) for name in by_home} | {"hidden": HOMES, "unanswered": 0.0}
    about = {"counts": {"homes": HOMES}, "written": "2024-05-06T07:08:09+00:00", "commit": "0" * 40}
    about |= {"seconds": {"fit": 1.5}, "memory": {"fit": 100.0}, "versions": {"python": "3.11.1"}}
    result = Result(key_of(method, **key), summary=means | (summary or {}), **about | (circumstances or {}))
    return Store(folder).save(result, homes, homes[["user"]])


def keep_failure(folder: Path, method, error, **key):
    """A run that ended with an error."""
    return Store(folder).fail(Result(key_of(method, **key), error=error))


def texts(table):
    """The rows as people read them."""
    return [[cell.text for cell in row] for row in table.rows]


def column(table, name):
    """The cells of a column."""
    return [row[table.columns.index(name)] for row in table.rows]
