"""What a tracker is sent of a result: names that every tracker takes, values as they are stored.

    params    method, data, track, split, protocol, seed, and their options as method.<name>, data.<name>, split.<name>
    metrics   the summary, slices as slices/<slice>/<metric>; seconds/, memory/ and counts/
    curves    rounds/<name>, the history: step is the round

Names have letters, digits and _-./ only, which every version of MLflow takes: `hr@10, all` is sent as `hr_at_10.all`,
and the metric mrr of the slice `devices >20` as `slices/devices_over_20/mrr`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.results.store import TABLES, Result
from datasets.common.errors import DataError


@dataclass(frozen=True, slots=True)
class Round:
    """What was measured in one round."""

    number: int
    time: float  # seconds since 1970
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A result as trackers store it."""

    hash: str  # of the key: one run of a tracker has it
    digest: str  # of the result's file: a tracker that has another one has an older result
    name: str
    failed: bool
    begin: float  # seconds since 1970
    end: float
    params: dict[str, bool | int | float | str]
    tags: dict[str, str]
    metrics: dict[str, float]
    curves: tuple[Round, ...]
    notes: str  # warnings and the error, a line each
    error: str  # with its traceback; empty unless it failed
    files: tuple[Path, ...]  # the JSON first

    @property
    def last_round(self) -> int:
        """The step of the metrics; 0 without a history."""
        return self.curves[-1].number if self.curves else 0


def tracked_run(result: Result) -> TrackedRun:
    """A stored result as trackers store it."""
    key, folder = result.key, result.folder
    if folder is None:
        raise DataError(f"{key}: not stored yet; only stored results are sent to trackers")
    failed = result.status == "failed"
    files = [folder / f"{key.hash}{'.failed' if failed else ''}.json"]
    if not failed:  # tables beside a failure are of an older run; published results have no table of rules
        files += [folder / f"{key.hash}.{table}.parquet" for table in TABLES if table in result.digests]
    taken = sum(result.seconds.values())
    end = _time(result.written, files[0])
    begin = end - taken
    return TrackedRun(
        hash=key.hash,
        digest=hashlib.sha256(files[0].read_bytes()).hexdigest()[:16],
        name=str(key),
        failed=failed,
        begin=begin,
        end=end,
        params=_params(result),
        tags=_tags(result),
        metrics=_metrics(result),
        curves=tuple(
            Round(int(row["round"]), begin + row.get("seconds", 0.0), _renamed(row, "rounds/", without=("round",)))
            for row in result.history
        ),
        notes="\n".join([*(each.text for each in result.warnings), *([result.failure] if failed else [])]),
        error=result.error,
        files=tuple(files),
    )


def _params(result: Result) -> dict[str, bool | int | float | str]:
    key = result.key
    found: dict[str, object] = {"method": key.method, "data": key.data, "fingerprint": key.fingerprint}
    found |= {"track": key.track, "split": key.split["split"], "protocol": key.protocol}
    found |= {"seed": key.seed, "curves": key.curves}
    split = {name: value for name, value in key.split.items() if name != "split"}
    for prefix, options in (("method", key.parameters), ("data", key.data_options), ("split", split)):
        found |= {f"{prefix}.{name}": value for name, value in options.items()}
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: object) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value, ensure_ascii=False)


def _tags(result: Result) -> dict[str, str]:
    found = {"hash": result.key.hash, "status": result.status, "suite": result.suite, "commit": result.commit}
    found |= {"code": result.code, "written": result.written, "threads": str(result.threads)}
    found |= {"calibrated": "yes" if result.calibrated else "no"}
    changed = {**result.overrides.parameters, **result.overrides.data_options, **result.overrides.split_options}
    found |= {"not_default": json.dumps(changed, sort_keys=True, ensure_ascii=False) if changed else ""}
    found |= {f"version.{name}": version for name, version in result.versions.items()}
    found |= {"warnings": "; ".join(each.text for each in result.warnings), "error": result.failure}
    return {f"fedrule.{name}": value for name, value in found.items() if value}


def _metrics(result: Result) -> dict[str, float]:
    if result.status == "failed":
        return {}
    found = _renamed(result.summary)
    for kind, values in (("seconds", result.seconds), ("memory", result.memory), ("counts", result.counts)):
        found |= _renamed(values, f"{kind}/")
    return found


def _renamed(values: Mapping[str, float], prefix: str = "", without: Iterable[str] = ()) -> dict[str, float]:
    """Values under names that trackers take; should two names become the same, the later one gets a number."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if name in without:
            continue
        new, number = prefix + tracker_name(name), 2
        while new in found:
            new, number = f"{prefix}{tracker_name(name)}_{number}", number + 1
        found[new] = float(value)
    return found


def tracker_name(metric: str) -> str:
    """The name of a metric in trackers."""
    part, colon, name = metric.rpartition(": ")
    name = f"slices/{part}/{name}" if colon else name  # not unseen/mrr: there is a metric unseen
    for old, new in (("@", "_at_"), (">", "over "), (", ", ".")):
        name = name.replace(old, new)
    return re.sub(r"[^A-Za-z0-9_./-]", "_", name)


def _time(written: str, file: Path) -> float:
    """When a result was written; that of its file where the result does not say."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return file.stat().st_mtime
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
