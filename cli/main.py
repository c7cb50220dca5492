"""The commands. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.backup import backup, restore
from cli.keys import keys
from cli.settings import with_settings
from telemetry.logs import FORMATS, LEVELS, configure

app = typer.Typer(
    name="calibrant",
    help="Is a classifier calibrated, and if not, what would make it so.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(keys, name="keys")


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
        "Redis to use, redis://, rediss:// or unix://; it must not evict and should persist. "
        "By default serve starts an embedded one; api and worker need it.",
    ),
]
Device = Annotated[str, _option("--device", "Device of the fits: cpu, cuda, or auto.")]
Queues = Annotated[str, _option("--queues", "Queues to work on, separated by commas.")]
LogLevel = Annotated[str, _option("--log-level", "debug, info, warning or error.")]
LogFormat = Annotated[str, _option("--log-format", "json, text, or auto for text on a terminal and JSON elsewhere.")]
OtlpEndpoint = Annotated[
    str | None,
    _option(
        "--otlp-endpoint",
        "OpenTelemetry collector to send traces to, such as http://localhost:4318; needs the extra telemetry.",
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


def _any_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


@app.command()
@with_settings
def api(
    settings: dict[str, Any],
    redis_url: RedisUrl = None,
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

    run_api(Settings(redis_url=_needed(redis_url), **settings), host=host, port=port, socket_fd=socket_fd)


@app.command()
def worker(
    redis_url: RedisUrl = None,
    queues: Queues = "fits",
    device: Device = "cpu",
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
    otlp_endpoint: OtlpEndpoint = None,
) -> None:
    """Run one worker, on a Redis that is there already."""
    _log(log_level, log_format)
    from telemetry.tracing import MissingTelemetry
    from workers.worker import run

    if device not in ("cpu", "cuda", "auto"):
        raise typer.BadParameter("must be cpu, cuda or auto", param_hint="--device")
    try:
        run(_needed(redis_url), queues=tuple(queues.split(",")), device=device, otlp_endpoint=otlp_endpoint)
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error


@app.command()
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    data: Data = Path(".calibrant"),
    redis_url: RedisUrl = None,
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
        redis_url=redis_url,
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


def _needed(redis_url: str | None) -> str:
    if redis_url is None:
        raise typer.BadParameter("needs --redis-url or CALIBRANT_REDIS_URL", param_hint="--redis-url")
    return redis_url
