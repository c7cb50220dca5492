"""The calls of a client, each as its steps: one noun a module, what users read of each beside it."""

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
