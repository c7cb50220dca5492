"""The calls of a client as steps, with the docstrings that users read: one module for each noun."""

from calibrant.client.calls import (
    aliases,
    batches,
    catalogue,
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
    "evaluate",
    "jobs",
    "maps",
    "monitor_alarms",
    "monitor_rows",
    "monitors",
    "pictures",
]
