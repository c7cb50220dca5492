"""Prometheus metrics of one API process, of the store and of monitors."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import calibrant
from backend.store.budget import Budget
from backend.store.census import Census
from backend.store.server.connection import UNAVAILABLE, error_name

# --- Gauges of monitors as of their last check, and counters of the work for all monitors
#
# The number of gauges is bounded, although callers choose the names.

#: Counts that are exported as gauges.
_COUNTS: Mapping[str, str] = {
    "predictions": "Predictions ingested by a monitor.",
    "labels": "Labels ingested by a monitor.",
    "joined": "Predictions with a label.",
    "expired": "Predictions whose label did not arrive before the horizon.",
    "pending": "Predictions waiting for their label.",
    "waiting": "Labels waiting for their prediction.",
    "unmatched": "Labels whose prediction did not arrive before the horizon.",
    "contradicted": "Rows whose label contradicts the stored label.",
    "refused": "Rows that were refused.",
}
_OF = ("tenant", "monitor")
#: Smaller weights of experts are not exported.
_LEAST_WEIGHT = 0.01
#: Class frequencies of monitors with more classes are not exported.
_MOST_CLASSES = 100


def monitor_gauges(latest: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterable[Metric]:
    """Gauges of monitors, by tenant and uid."""
    named = [(tenant, values) for (tenant, _), values in sorted(latest.items()) if "name" in values]
    yield from _counts(named)
    yield from _windows(named)
    alarms = GaugeMetricFamily(
        "calibrant_monitor_alarm", "Whether the alarm of a rule is raised.", labels=[*_OF, "rule"]
    )
    for tenant, values in named:
        for rule, raised in values["alarms"].items():
            alarms.add_metric([tenant, values["name"], rule], int(raised))
    yield alarms
    yield from _changes(named)
    yield from _online(named)
    looked = GaugeMetricFamily(
        "calibrant_monitor_looked_timestamp_seconds",
        "Time of the last check of a monitor, in seconds since 1970.",
        labels=_OF,
    )
    for tenant, values in named:
        if "looked_at" in values:
            looked.add_metric([tenant, values["name"]], values["looked_at"])
    yield looked


def monitor_work(chores: Mapping[tuple[str, str], int], deliveries: Mapping[str, int]) -> Iterable[Metric]:
    """Counters of background tasks by kind and outcome, and of deliveries by outcome, over all tenants."""
    done = CounterMetricFamily(
        "calibrant_chores", "Background tasks of monitors that were attempted.", labels=["kind", "outcome"]
    )
    for of, number in sorted(chores.items()):
        done.add_metric(of, number)
    ended = CounterMetricFamily("calibrant_deliveries", "Webhook deliveries that ended.", labels=["outcome"])
    for outcome, number in sorted(deliveries.items()):
        ended.add_metric([outcome], number)
    return done, ended


def _counts(named: list[tuple[str, Mapping[str, Any]]]) -> Iterable[Metric]:
    for count, meaning in _COUNTS.items():
        gauge = GaugeMetricFamily(f"calibrant_monitor_{count}", meaning, labels=_OF)
        for tenant, values in named:
            gauge.add_metric([tenant, values["name"]], values["counts"].get(count, 0))
        yield gauge


def _changes(named: list[tuple[str, Mapping[str, Any]]]) -> Iterable[Metric]:
    changed = GaugeMetricFamily(
        "calibrant_monitor_changed_timestamp_seconds",
        "Estimated time when calibration changed, of a raised alarm of evidence, in seconds since 1970.",
        labels=[*_OF, "rule"],
    )
    for tenant, values in named:
        for rule, moment in values.get("changed", {}).items():
            changed.add_metric([tenant, values["name"], rule], moment)
    return (changed,)


def _online(named: list[tuple[str, Mapping[str, Any]]]) -> Iterable[Metric]:
    evidence = GaugeMetricFamily(
        "calibrant_monitor_online_evidence",
        "Logarithm of the e-value against the map in force, compared with the online map.",
        labels=_OF,
    )
    written = GaugeMetricFamily(
        "calibrant_monitor_online_version_timestamp_seconds",
        "Time of the last version of an online map, or of its start, in seconds since 1970.",
        labels=_OF,
    )
    weights = GaugeMetricFamily(
        "calibrant_monitor_online_weight_ratio",
        "Weight of an expert in the next version of an online map, if it is at least 0.01.",
        labels=[*_OF, "expert"],
    )
    for tenant, values in named:
        online, of = values.get("online"), [tenant, values["name"]]
        if online is not None:
            evidence.add_metric(of, online["log_e"])
            written.add_metric(of, online["written_at"])
            for expert, weight in online["weights"].items():
                if weight >= _LEAST_WEIGHT:
                    weights.add_metric([*of, expert], weight)
    return evidence, written, weights


def _windows(named: list[tuple[str, Mapping[str, Any]]]) -> Iterable[Metric]:
    by_measure = [*_OF, "measure", "window"]
    errors = GaugeMetricFamily(
        "calibrant_calibration_error_ratio", "Calibration error of a window, from 0 to 1.", labels=by_measure
    )
    others = GaugeMetricFamily(
        "calibrant_measure", "Measure of a window other than a calibration error from 0 to 1.", labels=by_measure
    )
    covered = GaugeMetricFamily(
        "calibrant_monitor_coverage_ratio",
        "Fraction of the predictions of a window that have a label.",
        labels=[*_OF, "window"],
    )
    by_figure = [*_OF, "figure", "window"]
    estimated = GaugeMetricFamily(
        "calibrant_monitor_estimate", "Figure of a window, estimated without labels.", labels=by_figure
    )
    realised = GaugeMetricFamily(
        "calibrant_monitor_realised", "Figure of the labelled rows of a window.", labels=by_figure
    )
    drift = GaugeMetricFamily(
        "calibrant_monitor_drift_evidence",
        "Logarithm of the e-value that a window's predictions are distributed differently than in the reference.",
        labels=[*_OF, "window"],
    )
    shifted = GaugeMetricFamily(
        "calibrant_monitor_event_frequency_ratio",
        "Frequency of the event in a window, estimated without labels under label shift.",
        labels=[*_OF, "window"],
    )
    of_classes = GaugeMetricFamily(
        "calibrant_monitor_class_frequency_ratio",
        "Frequency of a class in a window, estimated without labels under label shift; of at most 100 classes.",
        labels=[*_OF, "window", "class"],
    )
    for tenant, values in named:
        name, of_errors = values["name"], frozenset(values.get("errors", ()))
        for window, read in values["windows"].items():
            if read.get("coverage") is not None:
                covered.add_metric([tenant, name, window], read["coverage"])
            for measure, value in read["measures"].items():
                if value is not None:
                    (errors if measure in of_errors else others).add_metric([tenant, name, measure, window], value)
            for family, figures in ((estimated, "estimated"), (realised, "realised")):
                for figure, value in read.get(figures, {}).items():
                    family.add_metric([tenant, name, figure, window], value)
            if read.get("drift") is not None:
                drift.add_metric([tenant, name, window], read["drift"])
            if read.get("event_frequency") is not None:
                shifted.add_metric([tenant, name, window], read["event_frequency"])
            frequencies = read.get("class_frequencies") or []
            if len(frequencies) <= _MOST_CLASSES:
                for k, frequency in enumerate(frequencies):
                    of_classes.add_metric([tenant, name, window, str(k)], frequency)
    return errors, others, covered, estimated, realised, drift, shifted, of_classes


# --- Metrics of the whole store, equal in every process; read from the store at each scrape

log = logging.getLogger(__name__)

_NOTHING = Census(queued={}, maps=0, workers=0, ended={})


class StoreMetrics(Collector):
    """Metrics of jobs and workers, and of the stored data of all tenants."""

    def __init__(self, census: Callable[[], Census], most_jobs: int = 0, budget: Budget | None = None) -> None:
        self._census = census
        self._most_jobs = most_jobs
        self._budget = budget

    def describe(self) -> list[Metric]:
        """Every metric without values; does not read the store."""
        return [_build(), *self._limits(), *_of(_NOTHING)]

    def collect(self) -> Iterator[Metric]:
        """Every metric; while the store is unavailable, only the limits and ``calibrant_store_up``."""
        yield _build()
        yield from self._limits()
        try:
            census = self._census()
        except UNAVAILABLE as error:
            log.warning("metrics: store unavailable: %s", error_name(error))
            yield _up(0)
        else:
            yield from _of(census)

    def _limits(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "calibrant_jobs_limit", "Maximum queued and running jobs; 0: no limit.", self._most_jobs
        )
        allowed, used = (0, 0) if self._budget is None else (self._budget.bytes, self._budget.used)
        yield GaugeMetricFamily(
            "calibrant_store_budget_bytes", "Bytes of the store that requests may fill; 0: no budget.", allowed
        )
        yield GaugeMetricFamily("calibrant_store_used_bytes", "Bytes used by the store.", used)
        yield GaugeMetricFamily(
            "calibrant_store_volume_ratio",
            "Fraction of the volume of the store that is used, or needed to rewrite its append-only file; 0: unknown.",
            0.0 if self._budget is None else self._budget.volume_ratio,
        )


def _build() -> Metric:
    version = {"version": calibrant.__version__, "python": platform.python_version()}
    return InfoMetricFamily("calibrant_build", "Version of Calibrant and Python.", version)


def _up(value: int) -> Metric:
    return GaugeMetricFamily("calibrant_store_up", "Whether the store responds.", value)


def _of(census: Census) -> Iterator[Metric]:
    yield _up(1)
    yield GaugeMetricFamily("calibrant_maps", "Stored maps of all tenants.", census.maps)
    yield GaugeMetricFamily("calibrant_workers", "Running workers.", census.workers)
    queued = GaugeMetricFamily("calibrant_queue_jobs", "Jobs waiting in a queue.", labels=["queue"])
    for queue, jobs in census.queued.items():
        queued.add_metric([queue], jobs)
    yield queued
    yield GaugeMetricFamily("calibrant_jobs_unended", "Queued and running jobs of all tenants.", census.unended)
    throughput = GaugeMetricFamily(
        "calibrant_queue_throughput", "Jobs of a queue completed per second while there is work.", labels=["queue"]
    )
    for queue, per_second in census.per_second.items():
        throughput.add_metric([queue], per_second)
    yield throughput
    labels = ["kind", "outcome"]
    ended = CounterMetricFamily("calibrant_jobs", "Jobs that ended.", labels=labels)
    seconds = HistogramMetricFamily(
        "calibrant_job_duration_seconds", "Time from the start of a job to its end, without queueing.", labels=labels
    )
    for of, of_kind in sorted(census.ended.items()):
        ended.add_metric(of, of_kind.number)
        seconds.add_metric(of, of_kind.seconds.cumulative(), of_kind.seconds.total)
    yield ended
    yield seconds
    yield from monitor_gauges(census.monitors)
    yield from monitor_work(census.chores, census.deliveries)


# --- The registry of a process
