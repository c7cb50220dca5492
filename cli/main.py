"""The commands. Each imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.telemetry.logs import FORMATS, LEVELS, configure
from cli.backup import backup, restore
from cli.calibrate import calibrate
from cli.diagram import diagram
from cli.evaluate import evaluate
from cli.exits import EXIT_CODES
from cli.fit import fit
from cli.jobs import jobs
from cli.keys import keys
from cli.maps import maps
from cli.monitors import monitors
from cli.report import report
from cli.sample import sample
from cli.settings import with_settings
from cli.store_url import needed_store_url, store_url

app = typer.Typer(
    name="calibrant",
    help="Is a classifier calibrated, and if not, what would make it so.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


app.command()(evaluate)
app.command()(fit)
app.command()(calibrate)
app.command()(report)
app.command()(diagram)
app.command()(sample)
app.add_typer(maps, name="maps")
app.add_typer(jobs, name="jobs")
app.add_typer(monitors, name="monitors")


def _option(flag: str, help_text: str) -> typer.models.OptionInfo:
    """An option whose setting is CALIBRANT_ and its name."""
    variable = "CALIBRANT_" + flag.removeprefix("--").replace("-", "_").upper()
    option: typer.models.OptionInfo = typer.Option(flag, envvar=variable, help=help_text)
    return option


Host = Annotated[str, _option("--host", "Address to listen on; any but loopback needs an API key.")]
Port = Annotated[int, _option("--port", "Port to listen on; 0 for a free one.")]
Data = Annotated[Path, _option("--data", "Folder of the embedded store.")]
RedisUrl = Annotated[
    str | None,
    _option(
        "--redis-url",
        "Redis to use, redis://, rediss://, unix:// or redis+sentinel://; it must not evict and should persist. "
        "By default serve starts an embedded one; api and worker need it. A password is refused in the flag.",
    ),
]
RedisUrlFile = Annotated[
    Path | None,
    _option("--redis-url-file", "File that holds the URL, such as a secret that is mounted; instead of --redis-url."),
]
Device = Annotated[str, _option("--device", "Device of the fits: cpu, cuda, or auto.")]
Queues = Annotated[
    str | None,
    _option(
        "--queues",
        "Queues to work on, separated by commas: fits, evaluations, fits-gpu. "
        "By default fits,evaluations, with CUDA fits-gpu before them.",
    ),
]
Processes = Annotated[int, typer.Option("--processes", envvar="CALIBRANT_PROCESSES", min=1, help="Worker processes.")]
Warm = Annotated[
    bool,
    typer.Option(
        "--warm",
        envvar="CALIBRANT_WARM",
        help="Do jobs in the worker processes themselves, as with CUDA, rather than in work-horses: fewer processes, "
        "and a job that does not stop when told ends its worker.",
    ),
]
DrainSeconds = Annotated[
    float,
    typer.Option(
        "--drain-seconds",
        envvar="CALIBRANT_DRAIN_SECONDS",
        min=0,
        help="Seconds that jobs under way have to end after SIGTERM; one that takes longer goes back to its queue.",
    ),
]
LogLevel = Annotated[str, _option("--log-level", "debug, info, warning or error.")]
LogFormat = Annotated[str, _option("--log-format", "json, text, or auto for text on a terminal and JSON elsewhere.")]
OtlpEndpoint = Annotated[
    str | None,
    _option(
        "--otlp-endpoint",
        "OpenTelemetry collector to send traces to, such as http://localhost:4318; needs the extra telemetry.",
    ),
]
WebhookHosts = Annotated[
    str,
    _option(
        "--webhook-hosts", "Hosts that webhooks of monitors may be sent to, as the API is told them; none by default."
    ),
]
WebhookPrivateAddresses = Annotated[
    str,
    _option(
        "--webhook-private-addresses",
        "Networks of addresses that are not public and that webhooks may be sent to all the same, as the API is told.",
    ),
]
QuotaMaps = Annotated[
    int,
    typer.Option(
        "--quota-maps",
        envvar="CALIBRANT_QUOTA_MAPS",
        min=0,
        help="Maps that a tenant may keep, as the API is told: no alarm makes one more; 0: no quota.",
    ),
]
Socket = Annotated[int | None, typer.Option("--socket-fd", hidden=True)]


def _version(asked: bool) -> None:
    if asked:
        from calibrant import __version__

        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Read the options that stand before the command."""


def _log(level: str, form: str = "auto") -> None:
    if level.lower() not in LEVELS:
        raise typer.BadParameter(f"must be {_any_of(LEVELS)}", param_hint="--log-level")
    if form not in FORMATS:
        raise typer.BadParameter(f"must be {_any_of(FORMATS)}", param_hint="--log-format")
    configure(level, form)


def _any_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


@app.command()
@with_settings
def api(
    settings: dict[str, Any],
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
    socket_fd: Socket = None,
) -> None:
    """Run the API alone, on a Redis that is there already."""
    _log(log_level, log_format)
    from cli.api import run_api
    from service.settings import Settings

    url = needed_store_url(redis_url, redis_url_file)
    run_api(Settings(redis_url=url, **settings), host=host, port=port, socket_fd=socket_fd)


@app.command()
def worker(
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
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
) -> None:
    """Run workers under one supervisor, on a Redis that is there already."""
    _log(log_level, log_format)
    from backend.monitors.webhook_targets import InvalidTargets
    from backend.store.errors import UnsuitableStore
    from backend.telemetry.tracing import MissingTelemetry
    from workers.supervisor import Plan, supervise

    if device not in ("cpu", "cuda", "auto"):
        raise typer.BadParameter("must be cpu, cuda or auto", param_hint="--device")
    asked = None if queues is None else _queues(queues)
    plan = Plan(
        needed_store_url(redis_url, redis_url_file),
        asked,
        device,
        processes,
        warm,
        drain_seconds,
        otlp_endpoint,
        webhook_hosts,
        webhook_private_addresses,
        quota_maps,
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
        raise typer.BadParameter(f"must be of {_any_of(QUEUES)}, separated by commas", param_hint="--queues")
    return names


@app.command()
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    data: Data = Path(".calibrant"),
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    device: Device = "cpu",
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
) -> None:
    """Run everything: the store, a worker and the API. Ctrl-C stops all of it.

    Every setting of ``api`` and ``worker`` is taken from its variable as well.
    """
    _log(log_level, log_format)
    from cli.serve import serve_all

    serve_all(
        host=host,
        port=port,
        data=data,
        redis_url=store_url(redis_url, redis_url_file),
        device=device,
        level=log_level,
        log_format=log_format,
    )


@app.command()
def demo() -> None:
    """Show the whole job: evaluate two real classifiers, fit maps, apply them, evaluate again."""
    _log("warning")
    from cli.demo import run_demo

    run_demo()


app.command()(backup)
app.command()(restore)
app.add_typer(keys, name="keys")
