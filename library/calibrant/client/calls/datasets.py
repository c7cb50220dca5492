"""Data sets that the service writes: batch scoring of files in a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.client.answers import JobAnswer, MapSummary, Mismatch, ScoredAnswer, decode
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.errors import unreadable
from calibrant.client.requests import read, with_fields
from calibrant.client.retries import Patience, send
from calibrant.client.rows import reference
from calibrant.client.steps import Steps


def calibrate_source(
    patience: Patience,
    map: str | MapSummary,
    source: Mapping[str, Any],
    target: Mapping[str, str],
    *,
    scale: str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Steps[ScoredAnswer]:
    """Apply a stored map to files of a source of the service, and write them with the calibrated columns.

    Parameters
    ----------
    map : str or MapSummary
        Id, name, ``name:version`` or ``name@alias``.
    source : mapping
        ``source``, ``path`` and ``columns`` with the ``predictions``; optionally ``where`` and ``format``.
    target : mapping
        ``source`` and ``path`` of a folder that does not exist yet.
    scale : {"probability", "percent", "logit"}, optional
        Scale of the predictions; by default that of the map.
    timeout : float, optional
        Seconds to wait for the job; by default there is no limit.
    progress : callable, optional
        Called with the job on every change.

    Returns
    -------
    ScoredAnswer
        The target, and the numbers of rows, files and bytes.

    Raises
    ------
    JobFailed
        If the job failed or was cancelled.
    JobTimeout
        If the job has not ended after ``timeout`` seconds.

    Examples
    --------
    >>> source = {"source": "scores", "path": "2026-11/*.parquet", "columns": {"predictions": "score"}}
    >>> client.calibrate_source("spam", source, {"source": "scores", "path": "scored"})  # doctest: +SKIP
    """
    fields = {"map": reference(map), "source": dict(source), "target": dict(target), "scale": scale}
    answer = yield from send(patience, with_fields("POST", "/datasets", fields))
    if answer.status != 202:
        return read(ScoredAnswer, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    try:
        return decode(ScoredAnswer, job.result)
    except Mismatch as error:
        raise unreadable(answer, error) from error
