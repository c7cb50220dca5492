"""Backfills of monitors: rows, predictions or labels of files in a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.client.answers import BackfillAnswer, JobAnswer, Mismatch, decode
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.errors import unreadable
from calibrant.client.requests import path_of, read, with_fields
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps


def backfill(
    patience: Patience,
    monitor: str,
    source: Mapping[str, Any],
    *,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Steps[BackfillAnswer]:
    """Let a monitor ingest files of a source of the service: rows, predictions or labels.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    source : mapping
        ``source``, ``path`` and ``columns``; optionally ``where`` and ``format``. With the columns ``predictions`` and
        ``labels``, labelled rows; with one of them, and ``ids``, predictions or labels. ``timestamps`` and ``groups``
        are optional.
    timeout : float, optional
        Seconds to wait for the job; by default there is no limit.
    progress : callable, optional
        Called with the job on every change.

    Returns
    -------
    BackfillAnswer
        Numbers of rows, files and bytes, and of rows by outcome.

    Raises
    ------
    JobFailed
        If the job failed or was cancelled. What it had counted stays counted: another job counts rows with ids only
        once.
    JobTimeout
        If the job has not ended after ``timeout`` seconds.

    Examples
    --------
    >>> columns = {"ids": "request", "predictions": "score", "labels": "outcome"}
    >>> source = {"source": "scores", "path": "2026-11/*.parquet", "columns": columns}
    >>> client.backfill("inbox", source).accepted  # doctest: +SKIP
    """
    answer = yield from send(
        patience, with_fields("POST", path_of("monitors", monitor, "backfill"), {"source": dict(source)})
    )
    if answer.status != 202:
        return read(BackfillAnswer, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    try:
        return decode(BackfillAnswer, job.result)
    except Mismatch as error:
        raise unreadable(answer, error) from error
