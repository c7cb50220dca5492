"""Pictures of diagrams: of rows, stored batches, jobs, maps and monitors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, Unpack

from calibrant.client.answers import BatchRecord, JobAnswer, JobSummary, MapSummary
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.calls.maps import class_names_of, reference
from calibrant.client.frames import ArrayLike, RowArguments, by_number, moment_of, split_rows, with_positional
from calibrant.client.requests import get, path_of, read, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Answer, Steps

Form: TypeAlias = Literal["svg", "png"]
Theme: TypeAlias = Literal["auto", "light", "dark"]

_MEDIA: Mapping[Form, str] = {"svg": "image/svg+xml", "png": "image/png"}


def media_of(form: Form) -> str:
    """Return the media type of a format of pictures; raises ``ValueError`` for others."""
    if form not in _MEDIA:
        raise ValueError(f"form must be one of {', '.join(_MEDIA)}")
    return _MEDIA[form]


def diagram(
    patience: Patience,
    diagram: str | Mapping[str, Any] = "reliability",
    batch: str | BatchRecord | ArrayLike | None = None,
    *own_labels: ArrayLike,
    batches: Sequence[str | BatchRecord] | None = None,
    form: Form = "svg",
    theme: Theme | None = None,
    width: int | None = None,
    map: str | MapSummary | None = None,
    reduction: str | None = None,
    classes: Sequence[int | str] | None = None,
    interval: float | None = None,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[RowArguments],
) -> Steps[bytes]:
    r"""Draw a diagram of a stored batch or of rows.

    Parameters
    ----------
    diagram : str or mapping
        Name of a diagram, or a mapping with ``name`` and options. In addition to the diagrams of ``diagrams()``:
        ``by-size``, measures on random subsets of increasing size, such as
        ``{"name": "by-size", "measures": ["ece", "ks"]}``; and ``cost-plane``, which of two models has the lower cost,
        for two ``batches`` of the same rows.
    batch, *own_labels
        As for ``evaluate``.
    batches : sequence of str, optional
        Ids of several batches, which are drawn side by side.
    form : {"svg", "png"}
        Format.
    theme : {"auto", "light", "dark"}, optional
        An SVG with ``auto`` follows the colour scheme of the viewer.
    width : int, optional
        Width in pixels, 320 to 2000.
    map : str or MapSummary, optional
        Map; the diagram shows the predictions before and after it, and ``by-size`` the improvement of each measure.
    reduction, classes, interval, resamples, seed, timeout, progress
        As for ``evaluate``; ``interval`` is the level of the interval in the title.
    **rows
        ``predictions``, ``labels``, ``weights``, ``scale`` and ``weights_kind``, instead of a stored batch.

    Returns
    -------
    bytes
        The picture.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> client.diagram("reliability", predictions=p, labels=y, form="png")[:4]
    b'\x89PNG'
    """
    look = {"theme": theme, "width": width}
    batch_id, given = with_positional(_DRAWN, batch, own_labels, rows)
    fields: dict[str, Any] = {"diagram": diagram, "batch": batch_id, "batches": batches, "map": map, **look}
    fields |= {"reduction": reduction, "classes": classes, "interval": interval, "resamples": resamples, "seed": seed}
    known = yield from class_names_of(patience, [reference(map)], given)
    arrays, options = split_rows(given, known)
    fields = by_number(fields, options.get("class_names"))
    request = with_rows("/diagrams", arrays, fields | options, headers={"Accept": media_of(form)})
    return (yield from read_picture(patience, (yield from send(patience, request)), form, look, timeout, progress))


#: The call, whose name is also that of an argument of it.
_DRAWN = diagram


def read_picture(
    patience: Patience,
    answer: Answer,
    form: Form,
    look: Mapping[str, Any],
    timeout: float | None,
    progress: Progress | None,
) -> Steps[bytes]:
    """Return the picture of an answer, or wait for its job and return that of the job."""
    if answer.status != 202:
        return answer.content
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    return (yield from _picture(patience, path_of("jobs", job.id, f"diagram.{form}"), form, look))


def map_diagram(
    patience: Patience,
    map: str | MapSummary,
    form: Form = "svg",
    *,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """Draw the in-sample reliability diagram of a map: the rows of its fit, before and after the map.

    Parameters
    ----------
    map : str or MapSummary
        Id, name, ``name:version`` or ``name@alias``.
    form, theme, width
        As for ``diagram``.

    Returns
    -------
    bytes
        The picture.

    Examples
    --------
    >>> client.map_diagram("spam")[:4]
    b'<svg'
    """
    look = {"theme": theme, "width": width}
    return (yield from _picture(patience, path_of("maps", map, f"diagram.{form}"), form, look))


def job_diagram(
    patience: Patience,
    job: str | JobSummary,
    form: Form = "svg",
    *,
    key: str | None = None,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """Draw a diagram of the report of a job.

    Parameters
    ----------
    job : str
        Id of the job.
    form, theme, width
        As for ``diagram``.
    key : str, optional
        Key of the diagram; by default the first.

    Returns
    -------
    bytes
        The picture.
    """
    look = {"key": key, "theme": theme, "width": width}
    return (yield from _picture(patience, path_of("jobs", job, f"diagram.{form}"), form, look))


def monitor_diagram(
    patience: Patience,
    monitor: str,
    window: str | None = None,
    *,
    group: str | None = None,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """Draw the reliability diagram of a window of a monitor as SVG.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    window : str, optional
        Name of the window; by default the first.
    group : str, optional
        Name of a group; by default all rows.
    theme, width
        As for ``diagram``.

    Returns
    -------
    bytes
        The picture.

    Examples
    --------
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
    start: float | str | datetime | None = None,
    end: float | str | datetime | None = None,
    points: int | None = None,
    theme: Theme | None = None,
    width: int | None = None,
) -> Steps[bytes]:
    """Draw a measure of a monitor over time as SVG.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    measure : str, optional
        Key of the measure; by default the first.
    window, group, start, end, points
        As for ``series``.
    theme, width
        As for ``diagram``.

    Returns
    -------
    bytes
        The picture.

    Examples
    --------
    >>> client.series_diagram("inbox", "ece")[:4]
    b'<svg'
    """
    look: dict[str, Any] = {"measure": measure, "window": window, "group": group, "points": points}
    look |= {"start": moment_of(start), "end": moment_of(end)}
    look |= {"theme": theme, "width": width}
    return (yield from _picture(patience, path_of("monitors", monitor, "series.svg"), "svg", look))


def _picture(patience: Patience, path: str, form: Form, look: Mapping[str, Any]) -> Steps[bytes]:
    answer = yield from send(patience, get(path, look, accept=media_of(form)))
    return answer.content
