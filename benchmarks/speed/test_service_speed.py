"""The HTTP service under load: 32 connections that ask for many different homes without a pause.

The floor in the same run is /healthz, which is nothing but HTTP: the ratio says what share of its rate is left when
every request is a recommendation.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
import fedrule
from benchmarks.speed.http_load import Load, Running, has_wrk, load, running
from datasets.common.files import Json
from fedrule.inference import AskedHome

pytestmark = [
    pytest.mark.skipif(not has_wrk(), reason="no load generator here (Debian: wrk)"),
    pytest.mark.benchmark(group="service"),
]

TRAINED_ON = 2_000  # homes
ASKED = 1_000  # different homes
CONNECTIONS = 32
SECONDS = {"smoke": 5, "default": 60, "paper": 60}
FLOOR = {"smoke": 3, "default": 10, "paper": 10}  # seconds
SOAK, SAMPLED = 300, 10  # seconds: at the scale paper, and between two looks at the memory


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("models") / "graphrule.safetensors"
    homes = datasets.load("wyze-synthetic", homes=TRAINED_ON)
    fedrule.train(homes, "graphrule", options={"rounds": 5}, patience=0).save(path)
    with running([path]) as made:
        yield made


def bodies() -> list[Json]:
    """Homes of the paper's kind that the model has not seen."""
    homes = datasets.load("wyze-synthetic", homes=TRAINED_ON + ASKED)
    asked = (AskedHome.of_home(homes.home(at)) for at in range(TRAINED_ON, TRAINED_ON + ASKED))
    return [
        {
            "devices": [{"id": device.id, "type": device.type} for device in home.devices],
            "rules": [rule._asdict() for rule in home.rules],
        }
        for home in asked
    ]


def test_requests_under_load(benchmark: BenchmarkFixture, service: Running, scale: str) -> None:
    before = service.resident_megabytes()
    floor = load(f"{service.url}/healthz", seconds=FLOOR[scale], connections=CONNECTIONS)
    computed = service.processor_seconds()
    made: Load = benchmark.pedantic(
        load,
        args=(f"{service.url}/v1/recommend",),
        kwargs={"seconds": SECONDS[scale], "connections": CONNECTIONS, "bodies": bodies()},
        rounds=1,
    )
    assert (floor.failed, made.failed) == (0, 0)
    benchmark.extra_info |= {
        "requests per second": made.per_second,
        "median milliseconds": made.median_ms,
        "99th percentile milliseconds": made.p99_ms,
        "failed requests": made.failed,
        "processor milliseconds per request": (service.processor_seconds() - computed) / made.requests * 1000,
        "requests per second of the reference": floor.per_second,
        "ratio": made.per_second / floor.per_second,
        "resident megabytes first": before,
        "resident megabytes last": service.resident_megabytes(),
    }


def test_memory_stays_flat(benchmark: BenchmarkFixture, service: Running, scale: str) -> None:
    if scale != "paper":
        pytest.skip(f"takes {SOAK // 60} minutes; runs at the scale paper")
    # The pools of the allocator fill in the first seconds; what comes after that is what would grow for ever.
    load(f"{service.url}/v1/recommend", seconds=SAMPLED, connections=CONNECTIONS, bodies=bodies())
    sampled: list[float] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLED):
            sampled.append(service.resident_megabytes())

    watcher = threading.Thread(target=sample)
    watcher.start()
    try:
        made: Load = benchmark.pedantic(
            load,
            args=(f"{service.url}/v1/recommend",),
            kwargs={"seconds": SOAK, "connections": CONNECTIONS, "bodies": bodies()},
            rounds=1,
        )
    finally:
        done.set()
        watcher.join()
    assert made.failed == 0
    minutes = np.arange(len(sampled)) * SAMPLED / 60
    benchmark.extra_info |= {
        "requests per second": made.per_second,
        "failed requests": made.failed,
        "resident megabytes first": sampled[0],
        "resident megabytes last": sampled[-1],
        "resident megabytes most": max(sampled),
        "megabytes more per minute": float(np.polyfit(minutes, sampled, 1)[0]),
    }
