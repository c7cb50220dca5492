"""Evaluation of rows or stored batches, comparison of maps, and HTML reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

from calibrant.client.answers import (
    BatchRecord,
    JobAnswer,
    MapSummary,
    Mismatch,
    ReportAnswer,
    ReportsAnswer,
    decode,
)
from calibrant.client.answers.evaluations import Correction
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.calls.maps import class_names_of, reference
from calibrant.client.errors import unreadable
from calibrant.client.frames import ArrayLike, RowArguments, by_number, split_rows, with_positional
from calibrant.client.requests import T, get, path_of, read, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Answer, Steps

#: A name of a catalogue; or names, or mappings with ``name``, options and ``as``.
Requested: TypeAlias = str | Sequence[str | Mapping[str, Any]]

HTML = "text/html"


def evaluate(
    patience: Patience,
    batch: str | BatchRecord | ArrayLike | None = None,
    *own_labels: ArrayLike,
    measures: Requested | None = None,
    diagrams: Requested | None = None,
    reduction: str | None = None,
    classes: Sequence[int | str] | None = None,
    by_group: bool | None = None,
    map: str | MapSummary | None = None,
    interval: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[RowArguments],
) -> Steps[ReportAnswer]:
    """Measure the calibration of a stored batch or of rows; with ``map``, before and after it.

    If a measure or diagram runs as a job, this waits for it.

    Parameters
    ----------
    batch : str, BatchRecord or array_like, optional
        A stored batch or its id, or predictions.
    *own_labels : array_like
        Labels of predictions that are given as the first argument.
    measures : sequence of str or mapping, optional
        Names of measures, or mappings with ``name``, options and ``as``, the key of the result; see ``measures()``.
    diagrams : sequence of str or mapping, optional
        Names of diagrams, or mappings as for measures; see ``diagrams()``.
    reduction : str, optional
        What is measured, such as ``binary``, ``confidence`` or ``classwise``.
    classes : sequence of int or str, optional
        Classes to which the predictions are restricted; rows of other classes are left out.
    by_group : bool, optional
        Whether to measure each group.
    map : str or MapSummary, optional
        Map that is applied: its record, id, name, ``name:version`` or ``name@alias``.
    interval : float, optional
        Level of the confidence intervals, in (0, 1); by default there are none.
    resamples : int, optional
        Number of resamples for the intervals.
    seed : int, optional
        Random seed.
    timeout : float, optional
        Seconds to wait for a job; by default there is no limit.
    progress : callable, optional
        Called with the job on every change.
    **rows
        ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, instead of a stored batch.

    Returns
    -------
    ReportAnswer
        The report.

    Raises
    ------
    JobFailed
        If the job failed or was cancelled.
    JobTimeout
        If the job has not ended after ``timeout`` seconds.

    Examples
    --------
    >>> report = client.evaluate(predictions=p, labels=y, measures=["ece", "brier"], interval=0.95)
    >>> list(report.measures), report.measures["ece"].interval is not None
    (['ece', 'brier'], True)
    """
    batch_id, given = with_positional(evaluate, batch, own_labels, rows)
    fields: dict[str, Any] = {
        "batch": batch_id,
        "measures": measures,
        "diagrams": diagrams,
        "reduction": reduction,
        "classes": classes,
        "by_group": by_group,
    }
    fields |= {"map": map, "interval": interval, "resamples": resamples, "seed": seed}
    answer = yield from _sent(patience, fields, given)
    return (yield from read_report(patience, answer, ReportAnswer, timeout, progress))


def compare(
    patience: Patience,
    batch: str | BatchRecord | ArrayLike | None = None,
    *others: Any,
    maps: str | MapSummary | Sequence[str | MapSummary] = (),
    measures: Requested | None = None,
    reduction: str | None = None,
    correction: Correction = "max-t",
    of: Literal["debiased", "plain"] = "debiased",
    interval: float = 0.95,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[RowArguments],
) -> Steps[ReportAnswer]:
    """Compare stored maps with each other and with the uncalibrated predictions, on the same rows.

    Parameters
    ----------
    batch : str, BatchRecord or array_like, optional
        A stored batch or its id, or predictions.
    *others : array_like, and sequence of str
        Labels of predictions that are given as the first argument; then the maps.
    maps : sequence of str
        The maps: ids, names, ``name:version`` or ``name@alias``.
    correction : {"max-t", "holm"}
        Correction for multiple comparisons.
    of : {"debiased", "plain"}
        Values that are ranked, and of the Pareto fronts: debiased ones if every contestant has one, or plain ones.
    interval : float
        Level of the confidence intervals, in (0, 1).
    measures, reduction, resamples, seed, timeout, progress, **rows
        As for ``evaluate``.

    Returns
    -------
    ReportAnswer
        The report of the uncalibrated predictions; ``comparison`` has the comparison.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> report = client.compare(maps=["spam:1"], predictions=p, labels=y, measures=["brier"])
    >>> [contestant.name for contestant in report.comparison.contestants]
    ['uncalibrated', 'spam:1']
    """
    own_labels = list(others)
    if own_labels and not maps and (isinstance(batch, str | BatchRecord) or len(own_labels) > 1):
        maps = own_labels.pop()
    batch_id, given = with_positional(compare, batch, own_labels, rows)
    if isinstance(maps, Mapping):
        raise TypeError("maps must be a list of ids or names; the comparison has these names")
    refs = [reference(each) for each in ([maps] if isinstance(maps, str | MapSummary) else maps)]
    fields: dict[str, Any] = {"batch": batch_id, "maps": refs, "measures": measures, "reduction": reduction}
    fields |= {"correction": correction, "of": of, "interval": interval, "resamples": resamples, "seed": seed}
    answer = yield from _sent(patience, fields, given)
    return (yield from read_report(patience, answer, ReportAnswer, timeout, progress))


def power_law(
    patience: Patience,
    batches: Sequence[str | BatchRecord],
    *,
    maps: str | MapSummary | Sequence[str | MapSummary] | None = None,
    measures: Requested | None = None,
    reduction: str | None = None,
    interval: float = 0.95,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Steps[ReportsAnswer]:
    """Measure several stored batches and fit the power law between calibration error and classification error.

    Parameters
    ----------
    batches : sequence of str
        Ids of stored batches.
    maps : sequence of str, optional
        Maps to include.
    interval : float
        Level of the confidence intervals, in (0, 1).
    measures, reduction, timeout, progress
        As for ``evaluate``.

    Returns
    -------
    ReportsAnswer
        The report of each batch, and the power laws, None for fewer than five batches.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> stored = [client.upload(p, y).id for _ in range(2)]
    >>> [each.report.n for each in client.power_law(stored, measures=["ece"]).batches]
    [200, 200]
    """
    refs = [maps] if isinstance(maps, str | MapSummary) else maps
    ids = [batches] if isinstance(batches, str | BatchRecord) else list(batches)
    fields = {"batches": ids, "measures": measures, "reduction": reduction, "interval": interval}
    answer = yield from _sent(patience, fields | {"maps": refs and list(refs)}, {})
    return (yield from read_report(patience, answer, ReportsAnswer, timeout, progress))


def report_html(
    patience: Patience,
    batch: str | BatchRecord | ArrayLike | None = None,
    *own_labels: ArrayLike,
    measures: Requested | None = None,
    diagrams: Requested | None = None,
    reduction: str | None = None,
    classes: Sequence[int | str] | None = None,
    map: str | MapSummary | None = None,
    interval: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[RowArguments],
) -> Steps[str]:
    """Create a self-contained HTML report of a stored batch or of rows, with a verdict and a recommended map.

    Parameters
    ----------
    batch, *own_labels
        As for ``evaluate``.
    measures, diagrams : sequence of str or mapping, optional
        As for ``evaluate``; by default chosen by the server.
    reduction, classes, map, interval, resamples, seed, timeout, progress, **rows
        As for ``evaluate``.

    Returns
    -------
    str
        The HTML, which has no scripts and no external resources.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> client.report_html(predictions=p, labels=y).startswith("<!doctype html>")
    True
    """
    batch_id, given = with_positional(report_html, batch, own_labels, rows)
    fields: dict[str, Any] = {"batch": batch_id, "measures": measures, "diagrams": diagrams, "reduction": reduction}
    fields |= {"classes": classes, "map": map, "interval": interval, "resamples": resamples, "seed": seed}
    answer = yield from _sent(patience, fields, given, headers={"Accept": HTML})
    return (yield from read_html(patience, answer, timeout, progress))


def read_html(patience: Patience, answer: Answer, timeout: float | None, progress: Progress | None) -> Steps[str]:
    """Return the HTML report of an answer, or wait for its job and return that of the job."""
    if answer.status == 202:
        job = read(JobAnswer, answer)
        yield from wait(patience, job.id, timeout=timeout, progress=progress)
        answer = yield from send(patience, get(path_of("jobs", job.id), accept=HTML))
    if not answer.headers.get("Content-Type", "").startswith(HTML):
        raise unreadable(answer)
    return answer.content.decode()


def _sent(
    patience: Patience, fields: Mapping[str, Any], rows: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Steps[Answer]:
    refs = [reference(each) for each in (fields.get("map"), *(fields.get("maps") or ()))]
    known = yield from class_names_of(patience, refs, rows)
    arrays, options = split_rows(rows, known)
    request = with_rows("/evaluate", arrays, by_number(fields, options.get("class_names")) | options, headers=headers)
    return (yield from send(patience, request))


def read_report(
    patience: Patience, answer: Answer, kind: type[T], timeout: float | None, progress: Progress | None
) -> Steps[T]:
    """Return the report of an evaluation; waits if it is a job."""
    if answer.status != 202:
        return read(kind, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    try:
        return decode(kind, (job.result or {}).get("report"))
    except Mismatch as error:
        raise unreadable(answer, error) from error
