"""The methods of the clients, written as steps, with their docstrings; one module per resource."""

from calibrant.client.calls import (
    aliases,
    batches,
    catalogue,
    distributions,
    evaluate,
    jobs,
    maps,
    monitor_alarms,
    monitor_rows,
    monitors,
    pictures,
)

__all__ = [
    "aliases",
    "batches",
    "catalogue",
    "distributions",
    "evaluate",
    "jobs",
    "maps",
    "monitor_alarms",
    "monitor_rows",
    "monitors",
    "pictures",
]
