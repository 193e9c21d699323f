"""What the service counts, as Prometheus reads it at /metrics."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from fedrule.serving.model_store import Shelf

KIND = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OTHER = "other"  # paths that there are not: a label for each would fill the memory


class Measured:
    """Counters of one service. Labels have few values: routes, status codes, the models on the shelf."""

    def __init__(self) -> None:
        self.routes: frozenset[str] = frozenset()  # paths that have a label of their own
        registry = CollectorRegistry()
        self._registry = registry
        self._requests = Counter(
            "fedrule_requests", "Requests that were answered.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "fedrule_request_seconds", "From the headers to the answer.", ["route"], buckets=SECONDS, registry=registry
        )
        self._counters: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.in_flight = Gauge("fedrule_requests_in_flight", "Requests being answered.", registry=registry)
        self.homes = Counter("fedrule_homes", "Homes that were answered.", registry=registry)
        self.recommendations = Counter("fedrule_recommendations", "Rules that were recommended.", registry=registry)
        self._reloads = Counter("fedrule_reloads", "Models read again.", ["result"], registry=registry)
        self._models = Gauge("fedrule_model_info", "Models served.", ["name", "method", "digest"], registry=registry)
        for result in ("ok", "failed"):
            self._reloads.labels(result)
        begin = time.monotonic()
        uptime = Gauge("fedrule_uptime_seconds", "Since the service has started.", registry=registry)
        uptime.set_function(lambda: time.monotonic() - begin)
        ProcessCollector(registry=registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        route = path if path in self.routes else OTHER
        key = route, status
        if key not in self._counters:  # to look a label up takes longer than to count
            self._counters[key] = self._requests.labels(route, str(status)), self._seconds.labels(route)
        requests, duration = self._counters[key]
        requests.inc()
        duration.observe(seconds)

    def refused(self, status: int) -> None:
        """A connection that was ended before there was a request that a route could have seen."""
        self._requests.labels(OTHER, str(status)).inc()

    def reloaded(self, *, well: bool) -> None:
        self._reloads.labels("ok" if well else "failed").inc()

    def text(self, shelf: Shelf) -> bytes:
        """The page that Prometheus fetches."""
        self._models.clear()  # digests of former models
        for model in shelf.models:
            self._models.labels(model.name, model.recommender.method, model.recommender.digest).set(1)
        return generate_latest(self._registry)
