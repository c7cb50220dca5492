"""The gauges of monitors, as the last look at each left them: a bounded number, of names that callers chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

#: The counts that are gauges of their own.
_COUNTS: Mapping[str, str] = {
    "predictions": "Predictions that a monitor has taken.",
    "labels": "Labels that a monitor has taken.",
    "joined": "Predictions that have a label.",
    "expired": "Predictions whose label did not come before the horizon.",
    "pending": "Predictions that wait for their label.",
    "waiting": "Labels that wait for their prediction.",
    "unmatched": "Labels whose prediction did not come before the horizon.",
    "contradicted": "Rows that said another label than the one that is known.",
    "refused": "Rows that were not counted.",
}
_OF = ("tenant", "monitor")


def monitor_gauges(latest: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterable[Metric]:
    """The gauges of monitors by tenant and uid."""
    told = [(tenant, values) for (tenant, _), values in sorted(latest.items()) if "name" in values]
    yield from _counts(told)
    yield from _windows(told)
    alarms = GaugeMetricFamily(
        "calibrant_monitor_alarm", "Whether the alarm of a rule is raised.", labels=[*_OF, "rule"]
    )
    for tenant, values in told:
        for rule, raised in values["alarms"].items():
            alarms.add_metric([tenant, values["name"], rule], int(raised))
    yield alarms
    looked = GaugeMetricFamily(
        "calibrant_monitor_looked_timestamp_seconds", "When a monitor was looked at last, since 1970.", labels=_OF
    )
    for tenant, values in told:
        if "looked_at" in values:
            looked.add_metric([tenant, values["name"]], values["looked_at"])
    yield looked


def _counts(told: list[tuple[str, Mapping[str, Any]]]) -> Iterable[Metric]:
    for count, meaning in _COUNTS.items():
        gauge = GaugeMetricFamily(f"calibrant_monitor_{count}", meaning, labels=_OF)
        for tenant, values in told:
            gauge.add_metric([tenant, values["name"]], values["counts"].get(count, 0))
        yield gauge


def _windows(told: list[tuple[str, Mapping[str, Any]]]) -> Iterable[Metric]:
    by_measure = [*_OF, "measure", "window"]
    errors = GaugeMetricFamily(
        "calibrant_calibration_error_ratio", "A calibration error of a window, from 0 to 1.", labels=by_measure
    )
    others = GaugeMetricFamily(
        "calibrant_measure", "A measure of a window that is no calibration error from 0 to 1.", labels=by_measure
    )
    covered = GaugeMetricFamily(
        "calibrant_monitor_coverage_ratio", "Labelled rows a prediction of a window.", labels=[*_OF, "window"]
    )
    for tenant, values in told:
        name, of_errors = values["name"], frozenset(values.get("errors", ()))
        for window, read in values["windows"].items():
            if read.get("coverage") is not None:
                covered.add_metric([tenant, name, window], read["coverage"])
            for measure, value in read["measures"].items():
                if value is not None:
                    (errors if measure in of_errors else others).add_metric([tenant, name, measure, window], value)
    return errors, others, covered
