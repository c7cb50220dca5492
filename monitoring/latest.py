"""The latest values of a monitor, as a look leaves them for Prometheus: nothing is computed when they are asked for."""

from __future__ import annotations

from typing import Any

from calibrant.measures.measure import MeasureRequest
from monitoring.counting import counts_of
from monitoring.readable import read_measures
from monitoring.thresholds import Meter
from schemas.monitor_alarms import Standing
from schemas.monitors import MonitorRecord
from storage.monitors.ledger import Ledger

#: Families of measures that are errors of calibration in the unit of probability: 0 is none, and 1 the largest.
_ERRORS = (
    "Binned calibration errors",
    "Cumulative calibration errors",
    "Smooth calibration errors",
    "Fit on the test data",
)


def latest_values(
    record: MonitorRecord, ledger: Ledger, meter: Meter, standing: Standing, now: float
) -> dict[str, Any]:
    """The name, the counts, of each window its rows, coverage and measures, of each rule whether it is raised.

    All as of ``now``. ``errors`` are the keys of the measures that are calibration errors in the unit of probability.
    """
    windows = {}
    for window in record.windows:
        rows, measures = meter.values(window.name)
        windows[window.name] = {"rows": rows, "coverage": meter.coverage(window.name), "measures": measures}
    asked = read_measures(record.measures, record.reduction or "binary")
    return {
        "name": record.name,
        "looked_at": now,
        "counts": counts_of(ledger.totals()).model_dump(),
        "windows": windows,
        "errors": [request.key for request in asked if is_error(request)],
        "alarms": {rule: state.status == "alarm" for rule, state in standing.rules.items()},
    }


def is_error(request: MeasureRequest) -> bool:
    """Whether a measure is a calibration error in the unit of probability, as a mean of squares is not."""
    measure = request.measure
    ranged = (measure.lowest, measure.highest) == (0.0, 1.0) and measure.better == "smaller"
    return ranged and measure.family in _ERRORS and request.options.get("norm") != 2
