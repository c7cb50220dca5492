"""Pictures of what is stored: of jobs, maps and monitors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from calibrant.client.answers import JobSummary, MapSummary
from calibrant.client.frames import moment_of
from calibrant.client.requests import path_of
from calibrant.client.retries import Patience
from calibrant.client.rows import Form, Theme, stored_picture
from calibrant.client.steps import Steps


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
    return (yield from stored_picture(patience, path_of("maps", map, f"diagram.{form}"), form, look))


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
    return (yield from stored_picture(patience, path_of("jobs", job, f"diagram.{form}"), form, look))


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
    return (yield from stored_picture(patience, path_of("monitors", monitor, "diagram.svg"), "svg", look))


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
    return (yield from stored_picture(patience, path_of("monitors", monitor, "series.svg"), "svg", look))
