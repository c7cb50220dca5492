"""The metrics that every process tells alike, since they are read from the store when they are asked for."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import calibrant
from service.monitor_metrics import monitor_gauges, monitor_work
from storage.budget import Budget
from storage.census import Census
from storage.server.connection import UNAVAILABLE, kind_of

log = logging.getLogger(__name__)

_NOTHING = Census(queued={}, maps=0, workers=0, ended={})


class StoreMetrics(Collector):
    """What runs, and what the store holds over all tenants."""

    def __init__(self, census: Callable[[], Census], most_jobs: int, budget: Budget | None = None) -> None:
        self._census = census
        self._most_jobs = most_jobs
        self._budget = budget

    def describe(self) -> list[Metric]:
        """Every metric; the store is not asked for their numbers."""
        return [_build(), *self._limits(), *_of(_NOTHING)]

    def collect(self) -> Iterator[Metric]:
        """Every metric; while the store is away only that it is."""
        yield _build()
        yield from self._limits()
        try:
            census = self._census()
        except UNAVAILABLE as error:
            log.warning("metrics: store away: %s", kind_of(error))
            yield _up(0)
        else:
            yield from _of(census)

    def _limits(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("calibrant_jobs_limit", "Most jobs that may wait or run; 0: no bound.", self._most_jobs)
        allowed, used = (0, 0) if self._budget is None else (self._budget.bytes, self._budget.used)
        yield GaugeMetricFamily(
            "calibrant_store_budget_bytes", "Bytes of the store that requests may fill; 0: no budget.", allowed
        )
        yield GaugeMetricFamily("calibrant_store_used_bytes", "Bytes that the store holds.", used)


def _build() -> Metric:
    version = {"version": calibrant.__version__, "python": platform.python_version()}
    return InfoMetricFamily("calibrant_build", "The version that runs.", version)


def _up(value: int) -> Metric:
    return GaugeMetricFamily("calibrant_store_up", "Whether the store answers.", value)


def _of(census: Census) -> Iterator[Metric]:
    yield _up(1)
    yield GaugeMetricFamily("calibrant_maps", "Maps stored, of all tenants.", census.maps)
    yield GaugeMetricFamily("calibrant_workers", "Workers that are alive.", census.workers)
    queued = GaugeMetricFamily("calibrant_queue_jobs", "Jobs that wait in a queue.", labels=["queue"])
    for queue, jobs in census.queued.items():
        queued.add_metric([queue], jobs)
    yield queued
    yield GaugeMetricFamily("calibrant_jobs_unended", "Jobs that wait or run, of all tenants.", census.unended)
    throughput = GaugeMetricFamily(
        "calibrant_queue_throughput", "Jobs of a queue that end in a second while there is work.", labels=["queue"]
    )
    for queue, per_second in census.per_second.items():
        throughput.add_metric([queue], per_second)
    yield throughput
    labels = ["kind", "outcome"]
    ended = CounterMetricFamily("calibrant_jobs", "Jobs that ended.", labels=labels)
    seconds = HistogramMetricFamily(
        "calibrant_job_duration_seconds", "Time from a job's start to its end, queueing left out.", labels=labels
    )
    for of, of_kind in sorted(census.ended.items()):
        ended.add_metric(of, of_kind.number)
        seconds.add_metric(of, of_kind.seconds.cumulative(), of_kind.seconds.total)
    yield ended
    yield seconds
    yield from monitor_gauges(census.monitors)
    yield from monitor_work(census.chores, census.deliveries)
