"""Other tools on our harness: a split exported as tables, and the rank lists made from it evaluated as a result."""

from __future__ import annotations

import hashlib
import shlex
import time
from pathlib import Path

import pandas as pd

from baselines.registry import names
from baselines.scoring import allows_self_pairs, hidden_part, restrict_homes
from benchmarks.evaluation.rank_lists import COLUMNS, read_rank_lists
from benchmarks.results.store import Result, Store
from benchmarks.runs.experiment import Experiment, Source
from benchmarks.runs.history import HistoryRecorder
from benchmarks.runs.run import FittedRun, split_homes
from datasets.common.errors import DataError
from datasets.readers.tables import write_tables

README = """\
# {title}

- `train/devices.csv`, `train/rules.csv`: the homes and rules to fit on.
- `test/devices.csv`, `test/rules.csv`: the homes to rank rules for, with the rules that are known of each.
- `relations.csv`: every trigger state with every action that it goes with.
- `words.csv` in both, if there are any: which devices of a home share a word of their names, mostly a room.

Some rules of each of the {homes:,} test homes were hidden. The candidates of a home are all ordered pairs of its
devices{other} with every relation, without the rules known of it. The headline metrics only
count candidates whose device types and relation occur together in a training rule.

Write a CSV or Parquet table with the columns {columns}.
Rank 1 is the best; rules that are not in the table count as not found. Then run

    {command}
"""


def external_experiment(name: str, source: Source, *, split: tuple[str, dict[str, object]], seed: int) -> Experiment:
    """The run of a tool that we know by its name only; `split` is a name and all options."""
    if name in names():
        raise DataError(f"--name {name}: this is one of our methods; choose another name")
    if seed < 0:
        raise DataError(f"--seed must be 0 or more, got {seed}")
    return Experiment(name, {}, source, *split, seed, ("ranking",))


def export_split(experiment: Experiment, folder: Path, *, data: str) -> int:
    """Write the tables and a README; the number of test homes. `data` is the source as the command line names it."""
    parts = split_homes(experiment, experiment.source.load())
    hidden = hidden_part(parts, "test")
    test, _ = restrict_homes(hidden, hidden.rare)
    write_tables(parts.train, folder / "train")
    write_tables(test, folder / "test")
    pd.DataFrame(test.relations, columns=["trigger_state", "action"]).to_csv(folder / "relations.csv", index=False)
    options = ",".join(f"{name}={value}" for name, value in experiment.overrides.split_options.items())
    split = f"{experiment.split}:{options}" if options else experiment.split
    words = ["python", "-m", "benchmarks", "evaluate", "lists.csv", "--name", "TOOL", "--data", data]
    words += ["--track", experiment.source.track, "--split", split, "--seed", str(experiment.seed)]
    about = README.format(
        title=f"{data}, {experiment.source.track}, {split}, seed {experiment.seed}",
        homes=test.n_homes,
        other=" (a device may act on itself)" if allows_self_pairs(parts, "test") else "",
        columns=", ".join(COLUMNS),
        command=shlex.join(words),
    )
    (folder / "README.md").write_text(about, "utf-8")
    return test.n_homes


def evaluate_rank_lists(path: Path, experiment: Experiment, store: Store) -> Result:
    """The result of rank lists in a file, stored; another file under the same name replaces it."""
    homes = experiment.source.load()
    parts = split_homes(experiment, homes)
    trained = FittedRun(experiment, homes, parts, read_rank_lists(parts.test.homes, path), HistoryRecorder())
    begin = time.perf_counter()
    evaluation = trained.evaluate("ranking", None)
    seconds = {"evaluate": time.perf_counter() - begin}
    code = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    result = trained.result(evaluation, None, code=code, seconds=seconds)
    return store.save(result, evaluation.homes, evaluation.rules)
