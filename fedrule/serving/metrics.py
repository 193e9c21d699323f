"""Metrics of the service, served to Prometheus at /metrics."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from fedrule.serving.model_store import ModelStore

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OTHER = "other"  # all unknown paths: a label for each would fill the memory


class Metrics:
    """Counters of one service. Labels have few values: routes, status codes, model names."""

    def __init__(self) -> None:
        self.routes: frozenset[str] = frozenset()  # paths with a label of their own
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("fedrule_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "fedrule_request_seconds", "Time to respond.", ["route"], buckets=SECONDS, registry=registry
        )
        self._counters: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.in_flight = Gauge("fedrule_requests_in_flight", "Requests in flight.", registry=registry)
        self.homes = Counter("fedrule_homes", "Homes answered.", registry=registry)
        self.recommendations = Counter("fedrule_recommendations", "Rules recommended.", registry=registry)
        self.reloads = Counter("fedrule_reloads", "Reloads of the models.", ["result"], registry=registry)
        self._models = Gauge("fedrule_model_info", "Models served.", ["name", "method", "digest"], registry=registry)
        for result in ("ok", "failed"):
            self.reloads.labels(result)
        begin = time.monotonic()
        uptime = Gauge("fedrule_uptime_seconds", "Time since the service started.", registry=registry)
        uptime.set_function(lambda: time.monotonic() - begin)
        ProcessCollector(registry=registry)

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
        self._models.clear()  # digests of previous models
        for model in store.models:
            self._models.labels(*model.summary.values()).set(1)
        return generate_latest(self._registry)
