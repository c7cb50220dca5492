"""``calibrant worker``: run workers with a supervisor."""

from __future__ import annotations

import gc
from typing import Any

import typer

from backend.command_options import (
    Device,
    LogFormat,
    LogLevel,
    ServiceRedisUrl,
    ServiceRedisUrlFile,
    needed_store_url,
    start_log,
    with_settings,
)
from workers.settings import WorkerSettings


@with_settings(WorkerSettings)
def worker(
    settings: dict[str, Any],
    redis_url: ServiceRedisUrl = None,
    redis_url_file: ServiceRedisUrlFile = None,
    device: Device = "cpu",
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
) -> None:
    """Run supervised workers that use an existing Redis."""
    start_log(log_level, log_format)
    gc.disable()  # importing creates no garbage; saves a quarter of the start-up time
    from backend.monitors.webhook_targets import InvalidTargets
    from backend.store.errors import UnsuitableStore
    from backend.telemetry.tracing import MissingTelemetry
    from workers.supervisor import supervise

    plan = WorkerSettings(needed_store_url(redis_url, redis_url_file), device=device, **settings)
    if device not in ("cpu", "cuda", "auto"):
        raise typer.BadParameter("must be cpu, cuda or auto", param_hint="--device")
    try:
        supervise(plan)
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error
    except InvalidTargets as error:
        raise typer.BadParameter(str(error)) from None
    except UnsuitableStore as error:
        typer.echo(f"calibrant: {error.detail}", err=True)
        raise typer.Exit(2) from error
