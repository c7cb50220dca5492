"""Evaluation: measures and diagrams of rows or of a stored batch, comparisons of maps, reports to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Unpack

from calibrant.client.answers import Correction, JobAnswer, Mismatch, ReportAnswer, ReportsAnswer, decode
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.errors import unreadable
from calibrant.client.frames import Rows, split_rows
from calibrant.client.requests import T, get, path_of, read, with_rows
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import Answer, Request, Steps

#: Names from a catalogue, or objects with ``name``, options and ``as``.
Asked: TypeAlias = Sequence[str | Mapping[str, Any]]

_HTML = "text/html"


def evaluate(
    patience: Patience,
    batch: str | None = None,
    *,
    measures: Asked | None = None,
    diagrams: Asked | None = None,
    reduction: str | None = None,
    classes: Sequence[int] | None = None,
    by_group: bool | None = None,
    map: str | None = None,
    interval: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[Rows],
) -> Steps[ReportAnswer]:
    """Measure a stored batch, or ``predictions`` and ``labels``; with ``map``, before and after it.

    Waits where a measure or diagram is a job; ``progress`` is called with it. Raises ``JobFailed`` for a job that ended
    without a report, ``JobTimeout`` after ``timeout`` seconds.

    >>> report = client.evaluate(predictions=p, labels=y, measures=["ece", "brier"], interval=0.95)
    >>> list(report.measures), report.measures["ece"].interval is not None
    (['ece', 'brier'], True)
    """
    fields: dict[str, Any] = {
        "batch": batch,
        "measures": measures,
        "diagrams": diagrams,
        "reduction": reduction,
        "classes": classes,
        "by_group": by_group,
    }
    fields |= {"map": map, "interval": interval, "resamples": resamples, "seed": seed}
    answer = yield from ask(patience, _with_rows("/evaluate", fields, rows))
    return (yield from _report(patience, answer, ReportAnswer, timeout, progress))


def compare(
    patience: Patience,
    batch: str | None = None,
    maps: Sequence[str] = (),
    *,
    measures: Asked | None = None,
    reduction: str | None = None,
    correction: Correction = "max-t",
    interval: float = 0.95,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[Rows],
) -> Steps[ReportAnswer]:
    """Compare stored maps on a stored batch, or on rows, with each other and with the predictions as they are.

    The answer is in ``comparison``. Raises as ``evaluate``.

    >>> report = client.compare(maps=["spam:1"], predictions=p, labels=y, measures=["brier"])
    >>> [contestant.name for contestant in report.comparison.contestants]
    ['uncalibrated', 'spam:1']
    """
    fields: dict[str, Any] = {"batch": batch, "maps": list(maps), "measures": measures, "reduction": reduction}
    fields |= {"correction": correction, "interval": interval, "resamples": resamples, "seed": seed}
    answer = yield from ask(patience, _with_rows("/evaluate", fields, rows))
    return (yield from _report(patience, answer, ReportAnswer, timeout, progress))


def power_law(
    patience: Patience,
    batches: Sequence[str],
    *,
    maps: Sequence[str] | None = None,
    measures: Asked | None = None,
    reduction: str | None = None,
    interval: float = 0.95,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Steps[ReportsAnswer]:
    """Measure several stored batches, and the power law between calibration and classification error over them.

    Raises as ``evaluate``.

    >>> stored = [client.upload(p, y).id for _ in range(2)]
    >>> [each.report.n for each in client.power_law(stored, measures=["ece"]).batches]
    [200, 200]
    """
    fields = {"batches": list(batches), "measures": measures, "reduction": reduction, "interval": interval}
    answer = yield from ask(patience, _with_rows("/evaluate", fields | {"maps": maps and list(maps)}, {}))
    return (yield from _report(patience, answer, ReportsAnswer, timeout, progress))


def report_html(
    patience: Patience,
    batch: str | None = None,
    *,
    measures: Asked | None = None,
    diagrams: Asked | None = None,
    reduction: str | None = None,
    classes: Sequence[int] | None = None,
    map: str | None = None,
    interval: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[Rows],
) -> Steps[str]:
    """A report to read, in one HTML file that needs no network: the verdict first, and the map to fit.

    Of a stored batch, or of ``predictions`` and ``labels``; with measures and diagrams of its own choice where none are
    named. Raises as ``evaluate``.

    >>> client.report_html(predictions=p, labels=y).startswith("<!doctype html>")
    True
    """
    fields: dict[str, Any] = {"batch": batch, "measures": measures, "diagrams": diagrams, "reduction": reduction}
    fields |= {"classes": classes, "map": map, "interval": interval, "resamples": resamples, "seed": seed}
    answer = yield from ask(patience, _with_rows("/evaluate", fields, rows, headers={"Accept": _HTML}))
    if answer.status == 202:
        job = read(JobAnswer, answer)
        yield from wait(patience, job.id, timeout=timeout, progress=progress)
        answer = yield from ask(patience, get(path_of("jobs", job.id), accept=_HTML))
    if not answer.headers.get("Content-Type", "").startswith(_HTML):
        raise unreadable(answer)
    return answer.content.decode()


def _with_rows(
    path: str, fields: Mapping[str, Any], rows: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> Request:
    arrays, options = split_rows(rows)
    return with_rows(path, arrays, {**fields, **options}, headers=headers)


def _report(
    patience: Patience, answer: Answer, kind: type[T], timeout: float | None, progress: Progress | None
) -> Steps[T]:
    """The report of an evaluation, waited for where it is a job."""
    if answer.status != 202:
        return read(kind, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    try:
        return decode(kind, (job.result or {}).get("report"))
    except Mismatch as error:
        raise unreadable(answer, error) from error
