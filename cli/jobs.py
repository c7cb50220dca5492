"""``calibrant jobs``: the jobs of a server, and how far they are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from calibrant_client import Calibrant
from calibrant_client.errors import ProblemResponse
from schemas.jobs import FINAL, JobSummary

jobs = typer.Typer(help="List, watch and cancel the jobs of a server.", no_args_is_help=True)

Server = Annotated[str, typer.Option("--server", envvar="CALIBRANT_SERVER", help="URL of the server.")]
JobId = Annotated[str, typer.Argument(help="Id of the job.")]
_WIDE = 160
_SERVER = "http://127.0.0.1:8000"
#: The key of the server: never a flag, which others could read.
_KEY_VARIABLE = "CALIBRANT_API_KEY"


@jobs.command()
def watch(job_id: JobId, server: Server = _SERVER) -> None:
    """Show a job's progress until it has ended; exits with 1 where it did not succeed."""
    with _client(server) as client, _bar() as (bar, task):
        job = None
        for event in client.events(job_id):
            job = event.job
            total = max(job.progress.total, 1)
            bar.update(task, completed=job.progress.done, total=total, stage=job.progress.stage or job.status)
        ended = client.job(job_id) if job is None or job.status not in FINAL else job
    typer.echo(f"{job_id} {ended.status}")
    if ended.status != "succeeded":
        if ended.problem is not None:
            typer.echo(f"{ended.problem.title}: {ended.problem.detail}", err=True)
        raise typer.Exit(1)


@jobs.command(name="list")
def list_jobs(
    server: Server = _SERVER,
    status: Annotated[str | None, typer.Option(help="queued, running, succeeded, failed or cancelled.")] = None,
) -> None:
    """List the jobs, newest first."""
    # An id that is cut is none.
    table = Table(Column("id", no_wrap=True, min_width=34), "kind", "status", "progress", "created")
    with _client(server) as client:
        for job in client.jobs(status=status):
            table.add_row(job.id, job.kind, job.status, _share(job), job.created_at)
    console = Console()
    # What is no terminal gets the table as wide as it is.
    (console if console.is_terminal else Console(width=_WIDE)).print(table)


@jobs.command()
def cancel(job_id: JobId, server: Server = _SERVER) -> None:
    """End a job that waits or runs; nothing of it is kept."""
    with _client(server) as client:
        typer.echo(f"{job_id} {client.cancel(job_id).status}")


def _share(job: JobSummary) -> str:
    done, total = job.progress.done, job.progress.total
    return f"{100 * done // total} % {job.progress.stage}" if total else job.progress.stage


@contextlib.contextmanager
def _client(server: str) -> Iterator[Calibrant]:
    """The client, whose errors are told in a line."""
    try:
        with Calibrant(server, api_key=os.environ.get(_KEY_VARIABLE)) as client:
            yield client
    except ProblemResponse as error:
        typer.echo(f"calibrant: {error.problem.title}: {error.problem.detail}", err=True)
        raise typer.Exit(1) from error
    except httpx.TransportError as error:
        typer.echo(f"calibrant: {server} does not answer ({type(error).__name__})", err=True)
        raise typer.Exit(1) from error


@contextlib.contextmanager
def _bar() -> Iterator[tuple[Progress, TaskID]]:
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[stage]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        yield bar, bar.add_task("", stage="queued", total=1.0)
