"""The metrics of one API process, and those of the store that it serves, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.store_metrics import StoreMetrics
from storage.budget import Budget
from storage.census import Census
from telemetry.spread import Spread

#: Where the metrics are read.
METRICS_PATH = "/metrics"
#: The label of every request that no route takes: paths are the callers' own words, and without end.
UNMATCHED = "unmatched"
#: The methods that are labels; any other word is ``other``.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BYTES = tuple(float(4**power) for power in range(3, 16, 2))


class Metrics:
    """A registry of its own for each application: nothing is shared between two in one process."""

    def __init__(self, census: Callable[[], Census], most_jobs: int = 0, budget: Budget | None = None) -> None:
        self.requests = RequestMetrics()
        self.registry = CollectorRegistry()
        self.registry.register(self.requests)
        self.registry.register(StoreMetrics(census, most_jobs, budget))
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """All metrics in the text format; asks the store, so it may wait."""
        return generate_latest(self.registry)


class _OfRoute:
    """The counts of one route and method."""

    __slots__ = ("answered", "received", "rows", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = Spread(_SECONDS)
        self.received = Spread(_BYTES)
        self.answered = Spread(_BYTES)
        self.rows = 0


class RequestMetrics(Collector):
    """The requests that this process answered.

    They are counted on the event loop alone, so without the locks that the client's own counters take; a
    scrape in another thread may see a request in one metric a moment before it does in the next.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], _OfRoute] = {}

    def count(
        self, route: str, method: str, status: int, *, seconds: float, received: int, answered: int, rows: int
    ) -> None:
        """Count one request."""
        key = (route, method if method in _METHODS else "other")
        of = self._routes.get(key)
        if of is None:
            of = self._routes[key] = _OfRoute()
        of.statuses[status] = of.statuses.get(status, 0) + 1
        of.seconds.add(seconds)
        of.received.add(received)
        of.answered.add(answered)
        of.rows += rows

    def describe(self) -> list[Metric]:
        """Every metric, without a number."""
        return list(_families())

    def collect(self) -> Iterable[Metric]:
        """Every metric, with a number for each route and method."""
        requests, seconds, received, answered, rows = families = _families()
        worked: dict[str, int] = {}
        for (route, method), of in list(self._routes.items()):
            for status, number in list(of.statuses.items()):
                requests.add_metric([route, method, str(status)], number)
            seconds.add_metric([route, method], of.seconds.cumulative(), of.seconds.total)
            received.add_metric([route, method], of.received.cumulative(), of.received.total)
            answered.add_metric([route, method], of.answered.cumulative(), of.answered.total)
            worked[route] = worked.get(route, 0) + of.rows
        for route, number in worked.items():
            if number:
                rows.add_metric([route], number)
        return families


_Families = tuple[
    CounterMetricFamily, HistogramMetricFamily, HistogramMetricFamily, HistogramMetricFamily, CounterMetricFamily
]


def _families() -> _Families:
    of = ("route", "method")
    return (
        CounterMetricFamily("calibrant_http_requests", "Requests answered.", labels=[*of, "status"]),
        HistogramMetricFamily(
            "calibrant_http_request_duration_seconds",
            "Time from a request's head to the last byte of its answer.",
            labels=of,
        ),
        HistogramMetricFamily("calibrant_http_request_body_bytes", "Bytes of request bodies, as read.", labels=of),
        HistogramMetricFamily("calibrant_http_response_body_bytes", "Bytes of response bodies.", labels=of),
        CounterMetricFamily(
            "calibrant_rows", "Rows worked on, of bodies and of the batches that they name.", labels=["route"]
        ),
    )
