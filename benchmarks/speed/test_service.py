"""The HTTP service under load, in a process of its own: wrk sends different homes over 32 connections without a pause.

The reference in the same run is /healthz, which is plain HTTP: the ratio is the share of its rate that remains when
every request is a recommendation. Two workers are compared with one process, in turns. Where wrk and other programs use
the same cores, the clock cannot show two times the rate; then the requests per processor second of the service show
whether a worker does as much as the one process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
import fedrule
from benchmarks.speed.service_process import Running, megabytes, running
from datasets.common.files import Json
from fedrule.inference import HomeRequest

SCRIPT = Path(__file__).with_name("requests.lua")  # of wrk


class Load(NamedTuple):
    """Counts of wrk."""

    requests: int
    failed: int  # no response, or a status other than 2xx and 3xx
    seconds: float
    median_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def load(url: str, *, seconds: int, connections: int, bodies: Sequence[Json] = ()) -> Load:
    """POST each of the bodies in turn, or GET without any, as fast as responses come."""
    with tempfile.NamedTemporaryFile("w", prefix="bodies", encoding="utf-8") as lines:
        lines.writelines(f"{json.dumps(body)}\n" for body in bodies)
        lines.flush()
        environment = {**os.environ, "BODIES": lines.name} if bodies else None
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(SCRIPT), url]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=seconds + 60, env=environment
        )
    return Load(**json.loads(done.stdout.strip().splitlines()[-1]))


pytestmark = [
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed (Debian: package wrk)"),
    pytest.mark.benchmark(group="service"),
]

TRAINED_ON = 2_000  # homes
QUERIED = 1_000  # different homes
CONNECTIONS = 32
SECONDS = {"smoke": 5, "default": 60, "paper": 60}
REFERENCE = {"smoke": 3, "default": 10, "paper": 10}  # seconds
WORKERS, TURN = 2, 3  # compared with one process, in turns of so many seconds: short, as other load comes and goes
TURNS = {"smoke": 4, "default": 12, "paper": 20}
SOAK, INTERVAL = 300, 10  # seconds: at the scale paper, and between two samples of the memory


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("graphrule", {"rounds": 5}, tmp_path_factory.mktemp("models"))


def trained(method: str, options: dict[str, int], folder: Path) -> Path:
    """A model after few rounds, which answers as fast as one after many."""
    homes = datasets.load("wyze-synthetic", homes=TRAINED_ON)
    path = folder / f"{method}.safetensors"
    fedrule.train(homes, method, options=options, patience=0).save(path)
    return path


@pytest.fixture(scope="module")
def service(model: Path) -> Iterator[Running]:
    with running([model]) as made:
        yield made


def requests(service: Running, seconds: int) -> dict[str, Any]:
    """Arguments of `load`: homes like those of the paper, not seen in training."""
    homes = datasets.load("wyze-synthetic", homes=TRAINED_ON + QUERIED)
    bodies = []
    for at in range(TRAINED_ON, TRAINED_ON + QUERIED):
        home = HomeRequest.from_home(homes.home(at))
        devices = [{"id": device.id, "type": device.type} for device in home.devices]
        bodies.append({"devices": devices, "rules": [rule._asdict() for rule in home.rules]})
    return {"url": f"{service.url}/v1/recommend", "seconds": seconds, "connections": CONNECTIONS, "bodies": bodies}


def test_requests_under_load(benchmark: BenchmarkFixture, service: Running, scale: str) -> None:
    before = service.resident_megabytes()
    reference = load(f"{service.url}/healthz", seconds=REFERENCE[scale], connections=CONNECTIONS)
    computed = service.processor_seconds()
    made: Load = benchmark.pedantic(load, kwargs=requests(service, SECONDS[scale]), rounds=1)
    assert (reference.failed, made.failed) == (0, 0)
    benchmark.extra_info |= {
        "requests per second": made.per_second,
        "median milliseconds": made.median_ms,
        "99th percentile milliseconds": made.p99_ms,
        "failed requests": made.failed,
        "processor milliseconds per request": (service.processor_seconds() - computed) / made.requests * 1000,
        "requests per second of the reference": reference.per_second,
        "ratio": made.per_second / reference.per_second,
        "resident megabytes first": before,
        "resident megabytes last": service.resident_megabytes(),
    }


def test_two_workers_against_one_process(
    benchmark: BenchmarkFixture, service: Running, model: Path, scale: str
) -> None:
    """Requests per second, by the clock and by processor time, and how much memory the second worker takes."""
    with running([model], ["--workers", str(WORKERS)]) as several:
        compare(benchmark, f"{WORKERS} workers", several, "one process", service, scale)
        workers = several.workers()
        shared = {f"megabytes of a worker, {kind}": megabytes(workers[0], kind) for kind in ("Rss", "Pss")}
        own = sum(megabytes(workers[0], f"Private_{kind}") for kind in ("Clean", "Dirty"))
    benchmark.extra_info |= {**shared, "megabytes of a worker, private": own}


def test_the_recommended_method_against_the_network(
    benchmark: BenchmarkFixture, service: Running, tmp_path: Path, scale: str
) -> None:
    """Requests per second of `graphrank` and of `graphrule`."""
    with running([trained("graphrank", {"rounds": 2, "least_steps": 0}, tmp_path)]) as evidence:
        compare(benchmark, "graphrank", evidence, "graphrule", service, scale)


def compare(benchmark: BenchmarkFixture, one: str, running: Running, other: str, beside: Running, scale: str) -> None:
    """Note the requests per second of two services, which are asked in turns, and their ratio."""
    both = {one: running, other: beside}
    loads: dict[str, list[Load]] = {name: [] for name in both}
    computed = dict.fromkeys(both, 0.0)
    for each in both.values():
        load(**requests(each, 2))

    def turn() -> None:
        for name, each in both.items():
            before = each.processor_seconds()
            loads[name].append(load(**requests(each, TURN)))
            computed[name] += each.processor_seconds() - before

    benchmark.pedantic(turn, rounds=TURNS[scale])
    assert not sum(made.failed for each in loads.values() for made in each)
    by_clock = {name: max(made.per_second for made in each) for name, each in loads.items()}
    by_processor = {name: sum(made.requests for made in each) / computed[name] for name, each in loads.items()}
    benchmark.extra_info |= {
        **{f"requests per second, {name}": rate for name, rate in by_clock.items()},
        **{f"requests per processor second, {name}": rate for name, rate in by_processor.items()},
        "ratio": by_clock[one] / by_clock[other],
        "ratio per processor second": by_processor[one] / by_processor[other],
        **{f"megabytes, {name}": each.resident_megabytes() for name, each in both.items()},
    }


def test_memory_stays_flat(benchmark: BenchmarkFixture, service: Running, scale: str) -> None:
    if scale != "paper":
        pytest.skip(f"takes {SOAK // 60} minutes; runs at the scale paper")
    # The pools of the allocator fill in the first seconds; only later growth is a leak.
    load(**requests(service, INTERVAL))
    sampled: list[float] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(INTERVAL):
            sampled.append(service.resident_megabytes())

    watcher = threading.Thread(target=sample)
    watcher.start()
    try:
        made: Load = benchmark.pedantic(load, kwargs=requests(service, SOAK), rounds=1)
    finally:
        done.set()
        watcher.join()
    assert made.failed == 0
    minutes = np.arange(len(sampled)) * INTERVAL / 60
    benchmark.extra_info |= {
        "requests per second": made.per_second,
        "failed requests": made.failed,
        "resident megabytes first": sampled[0],
        "resident megabytes last": sampled[-1],
        "resident megabytes most": max(sampled),
        "megabytes more per minute": float(np.polyfit(minutes, sampled, 1)[0]),
    }
