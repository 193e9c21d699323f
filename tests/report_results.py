"""Results made by hand for tests of reports: few homes, and differences between methods that can be worked out."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.key import Key, as_json
from benchmarks.results import Result, Store
from benchmarks.settings import method_parameters
from datasets.errors import DataError

HOMES = 40  # an even number, so that swings cancel
RULES = pd.DataFrame({"user": ["a"]})


def key_of(method: str, seed: int = 0, *, data: str = "wyze-synthetic", protocol: str = "ranking", **others) -> Key:
    """The key of a run with the method's defaults but for `changed`; of a method that nobody knows, without any."""
    try:
        parameters = {name: as_json(value, name) for name, value in method_parameters(method, {}).items()}
    except DataError:
        parameters = {}
    parameters |= others.pop("changed", {})
    values = {"fingerprint": f"{len(data):016x}", "track": "types", "curves": 0, "data_options": {}} | others
    split = {"split": "holdout", "seed": seed, "fraction": 0.2, "validation": False}
    return Key(method=method, parameters=parameters, data=data, split=split, protocol=protocol, seed=seed, **values)


def keep(folder: Path, method: str, mean: float, *, seeds=(0, 1), swing=0.02, metric="mrr", **key) -> None:
    """Runs in which home 0, 1, 2, ... has mean + swing, mean - swing, mean + swing, ... of the metric.

    Two methods of the same swing differ by the same in every home, which no resampling changes; of opposite swings
    they differ the one way in even homes and the other way in odd ones, and cannot be told apart.
    """
    own = [mean + swing * (-1) ** home for home in range(HOMES)]
    homes = pd.DataFrame({"user": [f"home-{home}" for home in range(HOMES)], "n_hidden": 1, metric: own})
    for seed in seeds:
        summary = {metric: mean, "hidden": float(HOMES), "unanswered": 0.0}
        if key.get("protocol", "ranking") == "ranking":
            summary |= {f"hr@{n}": min(1.0, mean * n**0.3) for n in range(1, 51)} | {"ndcg@10": mean}
            summary |= {"mrr, all": mean / 2, "hr@10, all": mean}
        result = Result(
            key_of(method, seed, **key),
            summary=summary,
            seconds={"fit": 1.5},
            memory={"fit": 200.0},
            counts={"homes": HOMES},
            versions={"python": "3.11.7", "numpy": "2.4.6"},
            commit="0123456789abcdef",
            written=f"2026-11-1{seed}T10:00:00+00:00",
        )
        Store(folder).save(result, homes, RULES)


def small_results(folder: Path) -> Path:
    """Two data sets, several methods each, a run that failed and a file that cannot be read."""
    methods = {"graphrank": 0.30, "fedrank": 0.27, "ease": 0.25, "popularity": 0.20, "graphrule": 0.15}
    for method, mean in methods.items():
        keep(folder, method, mean)
    for method, mean in {"ease": 0.35, "popularity": 0.28, "their-<b>own</b>": 0.31}.items():
        keep(folder, method, mean, data="ifttt-synthetic")
    Store(folder).fail(Result(key_of("gcmc"), error="Traceback\n  line 3\nMemoryError: 12 GB are not there\n"))
    (folder / "broken.json").write_text("{")
    return folder
