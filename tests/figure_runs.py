"""Runs with numbers that a test of figures chooses, and what a drawing shows of them."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.colors import to_hex

from benchmarks.key import Key, as_json
from benchmarks.results import Result, Store
from benchmarks.settings import method_parameters
from datasets.errors import DataError
from reports.sheet import laid_out

HOMES = 40
RULES = pd.DataFrame({"user": ["a"]})


def run(method="toy", seed=0, *, data="wyze-synthetic", protocol="ranking", curves=0, fingerprint="f" * 16, **other):
    """A run of a method with its defaults; one that nobody knows has no settings."""
    try:
        parameters = {name: as_json(value, name) for name, value in method_parameters(method, {}).items()}
    except DataError:
        parameters = {}
    key = Key(
        method=method,
        parameters=parameters | other.pop("settings", {}),
        data=data,
        data_options={},
        fingerprint=fingerprint,
        track="types",
        split={"split": "holdout", "seed": seed, "fraction": 0.2, "validation": bool(curves)},
        protocol=protocol,
        seed=seed,
        curves=curves,
    )
    return Result(key, **{"counts": {"homes": HOMES}, "seconds": {"fit": 1.0}, "summary": {"mrr": 0.1}} | other)


def rounds(many, *, sends=100.0, clients=HOMES, first=None):
    """The history of a federated run; `first` stands in its first round."""
    history = [{"round": n + 1.0, "clients": float(clients), "sent_bytes": sends} for n in range(many)]
    history[0] |= first or {}
    return history


def keep(folder, method, mean, *, swing=0.02, **other):
    """A run in which every other home is above the mean and every other below it."""
    own = [mean + swing * (-1) ** home for home in range(HOMES)]
    homes = pd.DataFrame({"user": [f"home-{home}" for home in range(HOMES)], "n_hidden": 1, "mrr": own})
    Store(folder).save(run(method, summary={"mrr": mean}, **other), homes, RULES)


def panels(drawing):
    """The axes of a drawing, by title."""
    return {axes.get_title("left"): axes for axes in laid_out(drawing.sheet).axes}


def dots(axes):
    """Where the single markers are, with their look."""
    return {
        (round(float(line.get_xdata()[0]), 6), round(float(line.get_ydata()[0]), 6)): (
            line.get_marker(),
            to_hex(line.get_color()),
        )
        for line in axes.lines
        if len(line.get_xdata()) == 1
    }


def texts(axes):
    return [text.get_text() for text in axes.texts if text.get_text()]


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
