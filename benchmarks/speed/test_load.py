"""Reading the Wyze layout, up to the size of the public data, against a row-by-row pandas loop of the same run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Homes
from datasets.readers.wyze import read_wyze, write_wyze

# Rows that the slow loop reads, devices and rules mixed as in the whole.
SAMPLE = {"smoke": 4_000, "default": 20_000, "paper": 40_000}
ROUNDS = 3  # of either, the fastest counts
PUBLIC = 272_664  # homes of the public data
SIZES = {"smoke": (5_000,), "default": (50_000,), "paper": (PUBLIC,)}  # homes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("n_homes", SIZES[metafunc.config.getoption("scale")])


def test_load_csv_pair(benchmark: BenchmarkFixture, peak: Peak, tmp_path: Path, scale: str, n_homes: int) -> None:
    """All homes of the public data are 852,072 rules and 1,354,098 devices."""
    folder = tmp_path / "tables"
    write_wyze(datasets.load("wyze-synthetic", preset="public", homes=n_homes), folder)
    homes: Homes = benchmark.pedantic(read_wyze, args=(folder,), rounds=ROUNDS)
    lines = {kind: homes.provenance.counts[f"{kind} rows"] for kind in ("device", "rule")}
    rows = sum(lines.values())
    # A rule takes the loop longer than a device: in equal numbers they would flatter the ratio.
    devices, rules = (
        pd.read_csv(folder / f"train_{kind}.csv", nrows=round(SAMPLE[scale] * count / rows))
        for kind, count in lines.items()
    )
    reference = seconds(lambda: row_by_row(devices, rules), repeats=ROUNDS) / (len(devices) + len(rules))
    program = f"from pathlib import Path\nfrom datasets.readers.wyze import read_wyze\nread_wyze(Path({str(folder)!r}))"
    note_ratio(benchmark, rows, reference, **peak(program))


def row_by_row(devices: pd.DataFrame, rules: pd.DataFrame) -> dict[int, tuple[dict[int, str], set[tuple[int, ...]]]]:
    """The same homes as dictionaries, one `iterrows` step per row; parsing the CSV is not even counted."""
    homes: dict[int, tuple[dict[int, str], set[tuple[int, ...]]]] = {}
    relations: dict[tuple[str, str], int] = {}
    for _, row in devices.iterrows():
        homes.setdefault(row["user_id"], ({}, set()))[0][row["device_id"]] = row["device_model"]
    for _, row in rules.iterrows():
        owned, known = homes.setdefault(row["user_id"], ({}, set()))
        owned.setdefault(row["trigger_device_id"], row["trigger_device"])
        owned.setdefault(row["action_device_id"], row["action_device"])
        relation = relations.setdefault((row["trigger_state"], row["action"]), len(relations))
        known.add((row["trigger_device_id"], row["action_device_id"], relation))
    return homes
