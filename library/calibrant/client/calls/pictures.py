"""Pictures: diagrams of rows, of stored batches, of the reports of jobs and of the fits of maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

from calibrant.client.answers import JobAnswer
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.frames import Rows, split_rows
from calibrant.client.requests import get, path_of, read, with_rows
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import Steps

Form: TypeAlias = Literal["svg", "png"]
Theme: TypeAlias = Literal["auto", "light", "dark"]

_MEDIA: Mapping[Form, str] = {"svg": "image/svg+xml", "png": "image/png"}


def diagram(
    patience: Patience,
    diagram: str | Mapping[str, Any] = "reliability",
    batch: str | None = None,
    *,
    batches: Sequence[str] | None = None,
    form: Form = "svg",
    theme: Theme | None = None,
    width: int | None = None,
    map: str | None = None,
    reduction: str | None = None,
    classes: Sequence[int] | None = None,
    interval: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[Rows],
) -> Steps[bytes]:
    r"""A picture of a stored batch, or of ``predictions`` and ``labels``; with ``map``, before and after it.

    ``diagram`` is a name, or an object with ``name`` and options; of ``batches`` there is a picture of each, side by
    side. ``width`` is in pixels; ``interval`` is the level of the interval in the title.
    ``{"name": "by-size", "measures": ["ece", "ks"]}`` are measures on random subsets of growing size, and
    ``cost-plane`` is whose decisions cost less, those of the one or the other of two ``batches`` of the same rows.

    Raises as ``evaluate``.

    >>> client.diagram("reliability", predictions=p, labels=y, form="png")[:4]
    b'\x89PNG'
    """
    look = {"theme": theme, "width": width}
    fields: dict[str, Any] = {"diagram": diagram, "batch": batch, "batches": batches, "map": map, **look}
    fields |= {"reduction": reduction, "classes": classes, "interval": interval, "resamples": resamples, "seed": seed}
    arrays, options = split_rows(rows)
    request = with_rows("/diagrams", arrays, fields | options, headers={"Accept": _MEDIA[form]})
    answer = yield from ask(patience, request)
    if answer.status != 202:
        return answer.content
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    return (yield from _picture(patience, path_of("jobs", job.id, f"diagram.{form}"), form, look))


def map_diagram(
    patience: Patience, ref: str, form: Form = "svg", *, theme: Theme | None = None, width: int | None = None
) -> Steps[bytes]:
    """A picture of the rows that a map was fitted to, before and after it: in sample, so no proof of what it gains.

    >>> client.map_diagram("spam")[:4]
    b'<svg'
    """
    look = {"theme": theme, "width": width}
    return (yield from _picture(patience, path_of("maps", ref, f"diagram.{form}"), form, look))


def job_diagram(
    patience: Patience,
    job_id: str,
    form: Form = "svg",
    *,
    key: str | None = None,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """A picture of a diagram of a job's report: that of ``key``, or the first."""
    look = {"key": key, "theme": theme, "width": width}
    return (yield from _picture(patience, path_of("jobs", job_id, f"diagram.{form}"), form, look))


def monitor_diagram(
    patience: Patience,
    monitor: str,
    window: str | None = None,
    *,
    group: str | None = None,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """A picture, as SVG, of how reliable a monitor's predictions are: those of its first window, where none is named.

    >>> client.monitor_diagram("inbox")[:4]
    b'<svg'
    """
    look = {"window": window, "group": group, "theme": theme, "width": width}
    return (yield from _picture(patience, path_of("monitors", monitor, "diagram.svg"), "svg", look))


def series_diagram(
    patience: Patience,
    monitor: str,
    measure: str | None = None,
    *,
    window: str | None = None,
    group: str | None = None,
    start: float | None = None,
    end: float | None = None,
    points: int | None = None,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """A picture, as SVG, of a monitor's measure over time: its first, where none is named. The rest as of ``series``.

    >>> client.series_diagram("inbox", "ece")[:4]
    b'<svg'
    """
    look = {"measure": measure, "window": window, "group": group, "start": start, "end": end, "points": points}
    look |= {"theme": theme, "width": width}
    return (yield from _picture(patience, path_of("monitors", monitor, "series.svg"), "svg", look))


def _picture(patience: Patience, path: str, form: Form, look: Mapping[str, Any]) -> Steps[bytes]:
    answer = yield from ask(patience, get(path, look, accept=_MEDIA[form]))
    return answer.content
