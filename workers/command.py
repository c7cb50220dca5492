"""``calibrant worker``: run workers with a supervisor."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from backend.command_options import (
    Device,
    LogFormat,
    LogLevel,
    ServiceRedisUrl,
    ServiceRedisUrlFile,
    any_of,
    needed_store_url,
    option,
    start_log,
)

Queues = Annotated[
    str | None,
    option(
        "--queues",
        "Queues to process, separated by commas: fits, evaluations, fits-gpu. "
        "Default: fits,evaluations; with CUDA fits-gpu,fits,evaluations.",
    ),
]
Processes = Annotated[
    int, typer.Option("--processes", envvar="CALIBRANT_PROCESSES", min=1, help="Number of worker processes.")
]
Warm = Annotated[
    bool,
    typer.Option(
        "--warm",
        envvar="CALIBRANT_WARM",
        help="Run jobs in the worker processes instead of in forked child processes; always on with CUDA. This needs "
        "fewer processes. If a cancelled job does not stop, its worker is killed and restarted.",
    ),
]
DrainSeconds = Annotated[
    float,
    typer.Option(
        "--drain-seconds",
        envvar="CALIBRANT_DRAIN_SECONDS",
        min=0,
        help="Time limit in seconds for running jobs to finish after SIGTERM; a job that takes longer returns to its "
        "queue.",
    ),
]
OtlpEndpoint = Annotated[
    str | None,
    option(
        "--otlp-endpoint",
        "OpenTelemetry collector that receives traces, such as http://localhost:4318; needs the extra telemetry of "
        "calibrant-server.",
    ),
]
WebhookHosts = Annotated[
    str,
    option("--webhook-hosts", "Hosts that webhooks may be sent to; use the same value as for the API. Default: none."),
]
WebhookPrivateAddresses = Annotated[
    str,
    option(
        "--webhook-private-addresses",
        "Networks of private addresses that webhooks may be sent to; use the same value as for the API. Default: none.",
    ),
]
QuotaMaps = Annotated[
    int,
    typer.Option(
        "--quota-maps",
        envvar="CALIBRANT_QUOTA_MAPS",
        min=0,
        help="Maximum number of maps of a tenant; use the same value as for the API. The worker applies it when it "
        "stores a map that it fitted after an alarm. 0: no quota.",
    ),
]
PublicUrl = Annotated[
    str,
    option(
        "--public-url",
        "Address at which users reach the web page, such as https://calibrant.example.com, for links in webhooks. "
        "Default: no links.",
    ),
]


def worker(
    redis_url: ServiceRedisUrl = None,
    redis_url_file: ServiceRedisUrlFile = None,
    queues: Queues = None,
    device: Device = "cpu",
    processes: Processes = 1,
    warm: Warm = False,
    drain_seconds: DrainSeconds = 10.0,
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
    otlp_endpoint: OtlpEndpoint = None,
    webhook_hosts: WebhookHosts = "",
    webhook_private_addresses: WebhookPrivateAddresses = "",
    quota_maps: QuotaMaps = 100_000,
    public_url: PublicUrl = "",
) -> None:
    """Run supervised workers that use an existing Redis."""
    start_log(log_level, log_format)
    gc.disable()  # importing creates no garbage; saves a quarter of the start-up time
    from backend.monitors.webhook_targets import InvalidTargets
    from backend.store.errors import UnsuitableStore
    from backend.telemetry.tracing import MissingTelemetry
    from workers.supervisor import SupervisorOptions, supervise

    if device not in ("cpu", "cuda", "auto"):
        raise typer.BadParameter("must be cpu, cuda or auto", param_hint="--device")
    if public_url and not public_url.startswith(("https://", "http://")):
        raise typer.BadParameter("must start with https:// or http://", param_hint="--public-url")
    plan = SupervisorOptions(
        needed_store_url(redis_url, redis_url_file),
        None if queues is None else _queues(queues),
        device,
        processes,
        warm,
        drain_seconds,
        otlp_endpoint,
        webhook_hosts,
        webhook_private_addresses,
        quota_maps,
        public_url,
    )
    try:
        supervise(plan)
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error
    except InvalidTargets as error:
        raise typer.BadParameter(str(error)) from None
    except UnsuitableStore as error:
        typer.echo(f"calibrant: {error.detail}", err=True)
        raise typer.Exit(2) from error


def _queues(text: str) -> tuple[str, ...]:
    from backend.store.jobs.queues import QUEUES

    names = tuple(name.strip() for name in text.split(","))
    if not set(names) <= set(QUEUES):
        raise typer.BadParameter(f"must be one or more of {any_of(QUEUES)}, separated by commas", param_hint="--queues")
    return names
