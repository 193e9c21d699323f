"""Metrics of the service, served to Prometheus at /metrics.

Workers count in files that all of them map (the multiprocess mode of prometheus_client), so that each can serve the
sums over all, those of workers that ended included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from fedrule.serving.model_store import ModelStore

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OTHER = "other"  # all unknown paths: a label for each would fill the memory


class Families(Collector):
    """Metrics that are known when they are collected."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


class Metrics:
    """Counters of one service. Labels have few values: routes, status codes, model names."""

    def __init__(self, begin: float | None = None) -> None:
        self._begin = time.monotonic() if begin is None else begin
        self.routes: frozenset[str] = frozenset()  # paths with a label of their own
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("fedrule_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "fedrule_request_seconds", "Time to respond.", ["route"], buckets=SECONDS, registry=registry
        )
        self._counters: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        in_flight = "fedrule_requests_in_flight", "Requests in flight."
        self.in_flight = Gauge(*in_flight, registry=registry, multiprocess_mode="livesum")
        self.homes = Counter("fedrule_homes", "Homes answered.", registry=registry)
        self.recommendations = Counter("fedrule_recommendations", "Rules recommended.", registry=registry)
        self.reloads = Counter("fedrule_reloads", "Reloads of the models.", ["result"], registry=registry)
        for result in ("ok", "failed"):
            self.reloads.labels(result)

    def request(self, path: str, status: int, seconds: float) -> None:
        route = path if path in self.routes else OTHER
        key = route, status
        if key not in self._counters:  # looking up a label takes longer than counting
            self._counters[key] = self._requests.labels(route, str(status)), self._seconds.labels(route)
        requests, duration = self._counters[key]
        requests.inc()
        duration.observe(seconds)

    def connection_refused(self, status: int) -> None:
        """Count a connection that was closed before a route saw its request."""
        self._requests.labels(OTHER, str(status)).inc()

    def text(self, store: ModelStore) -> bytes:
        """All metrics in the text format of Prometheus."""
        models = GaugeMetricFamily("fedrule_model_info", "Models served.", labels=["name", "method", "digest"])
        for model in store.models:
            models.add_metric(list(model.summary.values()), 1)
        uptime = GaugeMetricFamily("fedrule_uptime_seconds", "Time since the service started.")
        uptime.add_metric([], time.monotonic() - self._begin)
        registry = CollectorRegistry()
        registry.register(Families([*self._counted(), models, uptime, *self._processes()]))
        return generate_latest(registry)

    def _counted(self) -> Iterable[Metric]:
        return self._registry.collect()

    def _processes(self) -> Iterable[Metric]:
        return ProcessCollector(registry=None).collect()


class WorkerMetrics(Metrics):
    """Counters of all workers of a service; `pids` are those of its living processes."""

    def __init__(self, begin: float, folder: Path, pids: Callable[[], Sequence[int]]) -> None:
        super().__init__(begin)
        self._folder, self._pids = str(folder), pids

    def _counted(self) -> Iterable[Metric]:
        counted: Iterable[Metric] = MultiProcessCollector(None, self._folder).collect()  # type: ignore[no-untyped-call]
        return counted

    def _processes(self) -> Iterable[Metric]:
        """Sums over the processes; the start is that of the first. Shared memory counts in each of them."""
        whole: dict[str, Metric] = {}
        for pid in self._pids():
            for family in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                first, more = whole.setdefault(family.name, family).samples[0], family.samples[0]
                if whole[family.name] is not family:
                    both = (first.value, more.value)
                    value = min(both) if family.name == "process_start_time_seconds" else sum(both)
                    whole[family.name].samples = [first._replace(value=value)]
        return whole.values()
