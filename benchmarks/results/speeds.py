"""Measurements of `pytest benchmarks/`: the saved runs of pytest-benchmark, read for reports.

    <results>/speed/<machine>/<number>_<scale>.json

Of several runs the newest measurement of each benchmark at each scale on each machine counts. Other files, and
incomplete ones, are reported with the reason and left alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from benchmarks.results.store import results_folder
from datasets.common.files import Json

SPEED = "speed"  # the folder within that of the results

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Speed:
    """One measurement."""

    name: str  # of the benchmark with its parameters, e.g. "test_fit[1000-ease]"
    fullname: str  # with its file
    group: str  # empty where it has none
    params: dict[str, Json]
    seconds_min: float
    seconds_median: float
    rounds: int
    extra_info: dict[str, Json]  # as noted by the benchmark: ratio, homes, peak_megabytes, metrics, ...
    file: str  # below the folder of saved runs
    made: str  # date and time, as ISO 8601 with the zone
    machine: str  # in words
    commit: str  # marked if files differed from it; empty outside of git

    @property
    def scale(self) -> str:
        """smoke, default or paper; empty where it was not noted."""
        return str(self.extra_info.get("scale", ""))


def load_speeds(folder: Path | str | None = None) -> tuple[list[Speed], list[tuple[str, str]]]:
    """The newest measurements by name, scale and machine, and the files that could not be read with the reason."""
    root = results_folder(folder) / SPEED
    newest: dict[tuple[str, str, str], tuple[datetime, Speed]] = {}
    unreadable: list[tuple[str, str]] = []
    for path in sorted(root.rglob("*.json")):
        file = path.relative_to(root).as_posix()
        try:
            content = json.loads(path.read_text("utf-8"))
            made = _time(_entry(content, "datetime", str))
            speeds = _speeds(content, file, made)
        except (ValueError, OSError, RecursionError) as error:
            unreadable.append((f"{SPEED}/{file}", f"not a saved run of pytest-benchmark: {error}"))
            continue
        for speed in speeds:
            place = speed.fullname, speed.scale, speed.machine
            if place not in newest or newest[place][0] <= made:
                newest[place] = made, speed
    return [newest[place][1] for place in sorted(newest)], unreadable


def _speeds(content: object, file: str, made: datetime) -> list[Speed]:
    machine, commit = _machine(_entry(content, "machine_info", dict)), _commit(_entry(content, "commit_info", dict))
    found = []
    for entry in _entry(content, "benchmarks", list):
        stats = _entry(entry, "stats", dict)
        found.append(
            Speed(
                name=_entry(entry, "name", str),
                fullname=_entry(entry, "fullname", str),
                group=_entry(entry, "group", str, ""),
                params=_entry(entry, "params", dict, {}),
                seconds_min=_seconds(stats, "min"),
                seconds_median=_seconds(stats, "median"),
                rounds=_entry(stats, "rounds", int),
                extra_info=_entry(entry, "extra_info", dict, {}),
                file=file,
                made=made.isoformat(timespec="seconds"),
                machine=machine,
                commit=commit,
            )
        )
    return found


def _entry(table: object, name: str, kind: type[T], otherwise: T | None = None) -> T:
    """An entry of a JSON object; with `otherwise` it may be missing or null."""
    if not isinstance(table, dict):
        raise ValueError(f"{type(table).__name__} where a table with {name!r} should be")
    value = table.get(name)
    if value is None and otherwise is not None:
        return otherwise
    if not isinstance(value, kind):
        raise ValueError(f"{name!r} is missing" if value is None else f"{name!r} is {value!r:.50}")
    return value


def _seconds(stats: Mapping[str, object], name: str) -> float:
    value = stats.get(name)
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{name!r} of the seconds is {value!r:.50}")
    return float(value)


def _time(text: str) -> datetime:
    """When a run was saved; without a zone it is taken for UTC, which older versions of pytest-benchmark wrote."""
    made = datetime.fromisoformat(text)
    return made if made.tzinfo else made.replace(tzinfo=UTC)


def _machine(info: Mapping[str, object]) -> str:
    """Processor, cores, system and Python, as far as they are known; not the name of the machine."""
    cpu = info.get("cpu")
    about = cpu if isinstance(cpu, dict) else {}
    brand, cores = about.get("brand_raw") or info.get("processor") or info.get("machine"), about.get("count")
    python = f"{info.get('python_implementation') or 'Python'} {info.get('python_version') or ''}".strip()
    said = (brand, f"{cores} cores" if cores else "", f"{info.get('system') or ''} {info.get('machine') or ''}".strip())
    return ", ".join(str(part) for part in (*said, python) if part)


def _commit(info: Mapping[str, object]) -> str:
    commit = str(info.get("id") or "").replace("unversioned", "")
    return f"{commit} with changes" if commit and info.get("dirty") else commit
