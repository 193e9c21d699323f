"""Generating, reading and splitting homes and drawing negatives, up to published sizes, against plain loops.

Every loop is measured in the same run, on a sample.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from benchmarks.conftest import Peak
from benchmarks.references.data import generate_home_by_home, negatives_loop, read_row_by_row, split_loop
from benchmarks.speed.measure import note_ratio, seconds
from datasets.homes import Homes, Rules
from datasets.negatives import KINDS, sample
from datasets.readers.wyze import read_wyze, write_wyze
from datasets.splits import SPLITS, split
from datasets.synthetic.catalogue import catalogue
from datasets.synthetic.wyze import PRESETS
from datasets.valid import ValidRules

ROUNDS = 3  # of either, the fastest counts
SAMPLE = 2_000  # homes that the loops make or go through
ROWS = {"smoke": 4_000, "default": 20_000, "paper": 40_000}  # that the loop reads, devices and rules mixed as in all
# Presets and how many of their homes are generated; None is all of them.
GENERATED: dict[str, tuple[tuple[str, int | None], ...]] = {
    "smoke": (("paper", 10_000),),
    "default": (("paper", None), ("public", 50_000)),
    "paper": (("paper", None), ("public", None)),
}
READ = {"smoke": 5_000, "default": 50_000, "paper": 272_664}  # homes; the last are all of the public data
SPLIT = {"smoke": 10_000, "default": 76_218, "paper": 76_218}  # homes; the last have 201,940 rules


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    scale = metafunc.config.getoption("scale")
    if "name" in metafunc.fixturenames:
        metafunc.parametrize(("name", "n_homes"), GENERATED[scale])
    elif "n_homes" in metafunc.fixturenames:
        metafunc.parametrize("n_homes", [READ[scale]])


def test_generate(benchmark: BenchmarkFixture, peak: Peak, name: str, n_homes: int | None) -> None:
    options = {"preset": name, "homes": n_homes}
    homes: Homes = benchmark.pedantic(datasets.load, args=("wyze-synthetic",), kwargs=options, rounds=ROUNDS)
    preset = PRESETS[name]
    offered = catalogue(preset.types, preset.n_relations, preset.n_typed, every_feature=preset.seen_often > 0)
    reference = seconds(lambda: generate_home_by_home(preset, offered, SAMPLE), repeats=ROUNDS) / SAMPLE
    program = f"import datasets\ndatasets.load('wyze-synthetic', **{options})"
    note_ratio(benchmark, homes.n_homes, reference, **peak(program))


def test_load_csv_pair(benchmark: BenchmarkFixture, peak: Peak, tmp_path: Path, scale: str, n_homes: int) -> None:
    """All homes of the public data are 852,072 rules and 1,354,098 devices."""
    folder = tmp_path / "tables"
    write_wyze(datasets.load("wyze-synthetic", preset="public", homes=n_homes), folder)
    homes: Homes = benchmark.pedantic(read_wyze, args=(folder,), rounds=ROUNDS)
    lines = {kind: homes.provenance.counts[f"{kind} rows"] for kind in ("device", "rule")}
    rows = sum(lines.values())
    # A rule takes the loop longer than a device: in equal numbers they would flatter the ratio.
    devices, rules = (
        pd.read_csv(folder / f"train_{kind}.csv", nrows=round(ROWS[scale] * count / rows))
        for kind, count in lines.items()
    )
    reference = seconds(lambda: read_row_by_row(devices, rules), repeats=ROUNDS) / (len(devices) + len(rules))
    program = f"from pathlib import Path\nfrom datasets.readers.wyze import read_wyze\nread_wyze(Path({str(folder)!r}))"
    note_ratio(benchmark, rows, reference, **peak(program))


@pytest.fixture(scope="module")
def homes(scale: str) -> Homes:
    """Homes of the paper's kind."""
    return datasets.load("wyze-synthetic", preset="paper", homes=SPLIT[scale])


@pytest.fixture(scope="module")
def some(homes: Homes) -> Homes:
    """A random sample of them."""
    return homes.subset(np.random.default_rng(0).choice(homes.n_homes, SAMPLE, replace=False))


@pytest.mark.parametrize("how", sorted(SPLITS))
def test_split(benchmark: BenchmarkFixture, homes: Homes, some: Homes, how: str) -> None:
    benchmark.pedantic(split, args=(homes, how), rounds=ROUNDS)
    note_ratio(benchmark, homes.n_homes, seconds(lambda: split_loop(some, how), repeats=ROUNDS) / SAMPLE)


@pytest.mark.parametrize("kind", KINDS)
def test_negatives(benchmark: BenchmarkFixture, homes: Homes, some: Homes, kind: str) -> None:
    """As many as there are training rules, none of them hidden."""
    made = split(homes)
    valid = ValidRules.of(made.train)

    def draw() -> Rules:
        rng = np.random.default_rng(0)
        return sample(kind, made.train, made.train.rules, rng=rng, forbidden=made.forbidden, valid=valid)

    benchmark.pedantic(draw, rounds=ROUNDS)
    small = split(some)
    reference = seconds(lambda: negatives_loop(kind, small, valid), repeats=ROUNDS)
    note_ratio(benchmark, homes.n_homes, reference / SAMPLE)
