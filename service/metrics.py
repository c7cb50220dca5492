"""The metrics of one API process, and those of the store that it serves, for Prometheus."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import calibrant
from storage.census import Census
from storage.connection import UNAVAILABLE
from storage.tally import BUCKETS

log = logging.getLogger(__name__)

#: Where the metrics are read.
METRICS_PATH = "/metrics"
#: The label of every request that no route takes: paths are the callers' own words, and without end.
UNMATCHED = "unmatched"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BYTES = tuple(float(4**power) for power in range(3, 16, 2))


class _OfRoute(NamedTuple):
    """The metrics of one route and method; ``requests`` by status."""

    seconds: Histogram
    sent: Histogram
    answered: Histogram
    requests: dict[int, Counter]


class Metrics:
    """A registry of its own for each application: nothing is shared between two in one process."""

    def __init__(self, census: Callable[[], Census]) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        of = ("route", "method")
        self._requests = Counter("calibrant_http_requests", "Requests answered.", (*of, "status"), registry=registry)
        self._seconds = Histogram(
            "calibrant_http_request_duration_seconds",
            "Time from a request's head to the last byte of its answer.",
            of,
            buckets=_SECONDS,
            registry=registry,
        )
        self._sent = Histogram(
            "calibrant_http_request_body_bytes",
            "Bytes of request bodies, as read.",
            of,
            buckets=_BYTES,
            registry=registry,
        )
        self._answered = Histogram(
            "calibrant_http_response_body_bytes", "Bytes of response bodies.", of, buckets=_BYTES, registry=registry
        )
        self._rows = Counter(
            "calibrant_rows",
            "Rows worked on, of bodies and of the batches that they name.",
            ("route",),
            registry=registry,
        )
        self._children = cache(self._of)
        self._rows_of = cache(self._rows.labels)
        ProcessCollector(registry=self.registry)
        self.registry.register(_OfStore(census))

    def count(self, route: str, method: str, status: int, seconds: float, sent: int, answered: int, rows: int) -> None:
        """Count one request."""
        known = method if method in _METHODS else "other"
        of = self._children(route, known)
        if status not in of.requests:
            of.requests[status] = self._requests.labels(route, known, str(status))
        of.requests[status].inc()
        of.seconds.observe(seconds)
        of.sent.observe(sent)
        of.answered.observe(answered)
        if rows:
            self._rows_of(route).inc(rows)

    def text(self) -> bytes:
        """All metrics in the text format; asks the store, so it may wait."""
        return generate_latest(_WithoutCreated(self.registry))

    def _of(self, route: str, method: str) -> _OfRoute:
        labels = (route, method)
        return _OfRoute(
            self._seconds.labels(*labels),
            self._sent.labels(*labels),
            self._answered.labels(*labels),
            {},
        )


class _WithoutCreated(Collector):
    """A registry without the moments at which its counts began, which the text format has no place for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Every metric."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _OfStore(Collector):
    """What every process tells alike, since it is read from the store when it is asked for."""

    def __init__(self, census: Callable[[], Census]) -> None:
        self._census = census

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: the store is not asked when the application is built."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The store's metrics; while it is away only that it is."""
        yield InfoMetricFamily(
            "calibrant_build",
            "The version that runs.",
            {"version": calibrant.__version__, "python": platform.python_version()},
        )
        try:
            census = self._census()
        except UNAVAILABLE as error:
            log.warning("metrics: store away: %s", type(error).__name__)
            yield GaugeMetricFamily("calibrant_store_up", "Whether the store answers.", 0)
            return
        yield GaugeMetricFamily("calibrant_store_up", "Whether the store answers.", 1)
        yield GaugeMetricFamily("calibrant_maps", "Maps stored, of all tenants.", census.maps)
        yield GaugeMetricFamily("calibrant_workers", "Workers that are alive.", census.workers)
        queued = GaugeMetricFamily("calibrant_queue_jobs", "Jobs that wait in a queue.", labels=["queue"])
        for queue, jobs in census.queued.items():
            queued.add_metric([queue], jobs)
        yield queued
        yield from _of_jobs(census)


def _of_jobs(census: Census) -> Iterator[Metric]:
    labels = ["kind", "outcome"]
    ended = CounterMetricFamily("calibrant_jobs", "Jobs that ended.", labels=labels)
    seconds = HistogramMetricFamily(
        "calibrant_job_duration_seconds", "Time from a job's start to its end, queueing left out.", labels=labels
    )
    ends = [*map(str, BUCKETS), "+Inf"]
    for of, counted in sorted(census.ended.items()):
        ended.add_metric(list(of), counted.jobs)
        seconds.add_metric(list(of), list(zip(ends, accumulate(counted.buckets), strict=True)), counted.seconds)
    yield ended
    yield seconds
