"""The HTTP service under load: 32 connections that ask for many different homes without a pause.

The floor in the same run is /healthz, which is nothing but HTTP: the ratio says what share of its rate is left when
every request is a recommendation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
import fedrule
from datasets.common.files import Json
from fedrule.inference import AskedHome

# --- A real service in a process of its own, and a real load generator before it: wrk, over this machine's loopback.

COMMAND = [sys.executable, "-m", "fedrule", "serve"]
STARTS_WITHIN = 60.0  # seconds, also on a busy machine
ENDS_WITHIN = 15.0
# wrk goes through the bodies in turn; what it counted is its last line.
SCRIPT = """
local requests, at = {}, 0
function init(_)
  for body in io.lines("BODIES") do
    table.insert(requests, wrk.format("POST", nil, {["Content-Type"] = "application/json"}, body))
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
"""
TELL = """
function done(summary, latency, _)
  local wrong = summary.errors
  io.write(string.format(
    '\\n{"requests": %d, "seconds": %f, "failed": %d, "median": %f, "p99": %f}\\n',
    summary.requests, summary.duration / 1e6,
    wrong.connect + wrong.read + wrong.write + wrong.status + wrong.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


class Running(NamedTuple):
    """A service that answers."""

    url: str  # without a slash at its end
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def ended(self, *, within: float = 30.0) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(within)

    def processor_seconds(self) -> float:
        """What it has computed since it has started: on a busy machine this says more than the clock."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        """What it holds in memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1000 if found else float("nan")


class Load(NamedTuple):
    """What wrk has counted."""

    requests: int
    failed: int  # no answer, or another status than 2xx and 3xx
    seconds: float
    median_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


@contextmanager
def running(
    models: Sequence[Path], options: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A service of these models on a free port; it is stopped at the end."""
    command = [*COMMAND, *map(str, models), "--port", "0", *options]
    with tempfile.TemporaryDirectory(prefix="served") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment or dict(os.environ))
        try:
            port = _port(process, log)
            yield Running(f"http://127.0.0.1:{port}", port, process, log)
        finally:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """From the line that the service begins with."""
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)\n", log.read_text("utf-8")):
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"the service did not start: {log.read_text('utf-8')}")


def has_wrk() -> bool:
    """Debian has it in the package wrk."""
    return shutil.which("wrk") is not None


def load(url: str, *, seconds: int, connections: int, bodies: Sequence[Json] = ()) -> Load:
    """Ask as often as there are answers: POST each of the bodies in turn, or GET without any."""
    with tempfile.TemporaryDirectory(prefix="load") as folder:
        script = TELL
        if bodies:
            lines = Path(folder) / "bodies"
            lines.write_text("".join(f"{json.dumps(body)}\n" for body in bodies), "utf-8")
            script = SCRIPT.replace("BODIES", str(lines)) + TELL
        file = Path(folder) / "asked.lua"
        file.write_text(script, "utf-8")
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(file), url]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60)
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Load(told["requests"], told["failed"], told["seconds"], told["median"], told["p99"])


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
