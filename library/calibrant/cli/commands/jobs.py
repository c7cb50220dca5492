"""List, watch, cancel and delete the jobs on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from calibrant.cli.options import After, Before
from calibrant.cli.output import Json, progress_of, table, write_json, write_lines
from calibrant.cli.server_url import NeededServer, client_of
from calibrant.core.choices import FINAL, JobKind, JobStatus

if TYPE_CHECKING:
    from calibrant.client.answers import JobSummary

jobs = typer.Typer(no_args_is_help=True)

JobId = Annotated[str, typer.Argument(help="Id of the job.")]
_WHOSE = "jobs"


@jobs.command()
def watch(job_id: JobId, server: NeededServer = None) -> None:
    """Show the progress of a job until it ends; exit with 1 if it did not succeed."""
    with client_of(server, _WHOSE) as client, progress_of(stays=True) as bar:
        job, task = None, bar.add_task("", stage="queued", total=1.0)
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
    server: NeededServer = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help=f"Only jobs with this status: {', '.join(get_args(JobStatus))}."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help=f"Only jobs of this kind: {', '.join(get_args(JobKind))}."),
    ] = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Only jobs of the batch with this id.")] = None,
    after: After = None,
    before: Before = None,
    as_json: Json = False,
) -> None:
    """List the jobs, newest first."""
    with client_of(server, _WHOSE) as client:
        listed = list(client.jobs(status=status, kind=kind, batch=batch, created_after=after, created_before=before))
    if as_json:
        write_json([job.to_dict() for job in listed])
        return
    # A truncated id would be useless.
    shown = table("id", "kind", "method", "map", "status", "progress", "created", "by", left=8)
    shown.columns[0].min_width = 34
    for job in listed:
        about = (job.method or "", job.map or "")
        shown.add_row(job.id, job.kind, *about, job.status, _share(job), job.created_at, job.created_by or "")
    write_lines(shown)


@jobs.command()
def cancel(job_id: JobId, server: NeededServer = None) -> None:
    """Cancel a queued or running job; it leaves no result."""
    with client_of(server, _WHOSE) as client:
        typer.echo(f"{job_id} {client.cancel(job_id).status}")


@jobs.command()
def delete(job_id: JobId, server: NeededServer = None) -> None:
    """Delete an ended job with its result; a map that it stored is kept."""
    with client_of(server, _WHOSE) as client:
        client.delete_job(job_id)
    typer.echo(f"deleted {job_id}")


def _share(job: JobSummary) -> str:
    done, total = job.progress.done, job.progress.total
    return f"{100 * done // total} % {job.progress.stage}" if total else job.progress.stage
