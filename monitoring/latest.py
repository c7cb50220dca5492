"""The latest values of a monitor, as a look leaves them for Prometheus: nothing is computed when they are asked for."""

from __future__ import annotations

from typing import Any

from monitoring.counting import counts_of
from monitoring.thresholds import Meter
from schemas.monitor_alarms import Standing
from schemas.monitors import MonitorRecord
from storage.monitors.ledger import Ledger


def latest_values(record: MonitorRecord, ledger: Ledger, meter: Meter, standing: Standing) -> dict[str, Any]:
    """The name, the counts, of each window the labelled rows and the measures, of each rule whether it is raised."""
    windows = {}
    for window in record.windows:
        rows, measures = meter.values(window.name)
        windows[window.name] = {"rows": rows, "measures": measures}
    return {
        "name": record.name,
        "counts": counts_of(ledger.totals()).model_dump(),
        "windows": windows,
        "alarms": {rule: state.status == "alarm" for rule, state in standing.rules.items()},
    }
