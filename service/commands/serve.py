"""``calibrant serve`` and ``calibrant demo``: a complete service on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.command_options import (
    Device,
    LogFormat,
    LogLevel,
    ServiceRedisUrl,
    ServiceRedisUrlFile,
    option,
    start_log,
    store_url,
    with_settings,
)
from service.commands.api import Host, Port

Data = Annotated[Path, option("--data", "Folder of the embedded store.")]
RepairStore = Annotated[
    bool,
    typer.Option(
        "--repair-store",
        help="Before the start, remove the unreadable end of the embedded store's append-only file, as after a power "
        "failure, and keep it in another file in the folder.",
    ),
]


@with_settings(None, passed_to=("api", "worker"))
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    data: Data = Path(".calibrant"),
    redis_url: ServiceRedisUrl = None,
    redis_url_file: ServiceRedisUrlFile = None,
    device: Device = "cpu",
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
    repair_store: RepairStore = False,
) -> None:
    """Run everything: the store, a worker and the API. Press Ctrl-C to stop.

    Set other options of api and worker by their environment variables, or in a file with --config.
    """
    start_log(log_level, log_format)
    from service.stack import serve_all

    serve_all(
        host=host,
        port=port,
        data=data,
        redis_url=store_url(redis_url, redis_url_file),
        device=device,
        level=log_level,
        log_format=log_format,
        repair=repair_store,
    )


def demo() -> None:
    """Run a demo: evaluate two real classifiers, fit maps, apply them, and evaluate again."""
    start_log("warning")
    from service.commands.demo import run_demo

    run_demo()
