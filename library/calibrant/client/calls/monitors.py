"""Monitors of live models: create, read, change, list and delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import orjson

from calibrant.client.answers import MonitorAnswer, MonitorReading, MonitorsAnswer, SeriesAnswer
from calibrant.client.calls.pages import pages
from calibrant.client.requests import get, path_of, read, with_fields
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import JSON, Items, Request, Steps


class Watched(TypedDict, total=False):
    """What of a monitor may be changed later.

    ``windows`` are objects with ``name`` and ``seconds`` or ``rows``; ``measures`` are as of ``evaluate``; ``rules``
    are objects of kind ``evidence`` or ``threshold``; ``interval`` is the level of the intervals; ``reference`` is what
    windows are compared with; ``hooks`` are where alarms are delivered to; ``recalibration`` is what is done on an
    alarm; ``retention`` the seconds that counts are kept.
    """

    description: str | None
    windows: Sequence[Mapping[str, Any]]
    measures: Sequence[str | Mapping[str, Any]]
    interval: float | None
    rules: Sequence[Mapping[str, Any]]
    reference: Mapping[str, Any] | None
    hooks: Sequence[Mapping[str, Any]]
    recalibration: Mapping[str, Any]
    retention: int


def create_monitor(
    patience: Patience,
    name: str,
    *,
    reduction: str | None = None,
    n_classes: int | None = None,
    scale: str | None = None,
    map: str | None = None,
    bucket: int | None = None,
    horizon: int | None = None,
    skew: int | None = None,
    max_groups: int | None = None,
    max_ids: int | None = None,
    **watched: Unpack[Watched],
) -> Steps[MonitorAnswer]:
    """Begin to watch a model; what is not given is the server's own choice.

    ``map`` is applied to every prediction first; predictions of several columns need ``n_classes``. ``horizon`` is the
    seconds that a prediction waits for its label. Secrets that the server makes for hooks are in this answer alone.

    >>> made = client.create_monitor("inbox", windows=[{"name": "day", "seconds": 86400}], measures=["ece", "ks"])
    >>> [window.name for window in made.windows]
    ['day']
    """
    fields: dict[str, Any] = {"name": name, "reduction": reduction, "n_classes": n_classes, "scale": scale, "map": map}
    fields |= {"bucket": bucket, "horizon": horizon, "skew": skew, "max_groups": max_groups, "max_ids": max_ids}
    answer = yield from ask(patience, with_fields("POST", "/monitors", fields | {**watched}))
    return read(MonitorAnswer, answer)


def monitor(patience: Patience, name: str, *, windows: Sequence[str] = ()) -> Steps[MonitorReading]:
    """What a monitor says now: its counts, and of each window, or of those named, measures, diagram and coverage.

    >>> client.monitor("inbox", windows=["day"]).counts.predictions
    0
    """
    query = {"windows": ",".join(windows) or None}
    answer = yield from ask(patience, get(path_of("monitors", name), query))
    return read(MonitorReading, answer)


def series(
    patience: Patience,
    name: str,
    *,
    window: str | None = None,
    measure: str | None = None,
    group: str | None = None,
    start: float | None = None,
    end: float | None = None,
    points: int | None = None,
) -> Steps[SeriesAnswer]:
    """A monitor's measures over time, in at most so many points; ``start`` and ``end`` are seconds since 1970.

    >>> client.series("inbox", measure="ece").points
    []
    """
    query = {"window": window, "measure": measure, "group": group, "start": start, "end": end, "points": points}
    answer = yield from ask(patience, get(path_of("monitors", name, "series"), query))
    return read(SeriesAnswer, answer)


def monitors(patience: Patience) -> Items[MonitorAnswer]:
    """The monitors, read page by page as they are iterated over.

    >>> "inbox" in [monitor.name for monitor in client.monitors()]
    True
    """
    yield from pages(patience, "/monitors", {}, MonitorsAnswer)


def change_monitor(patience: Patience, name: str, **watched: Unpack[Watched]) -> Steps[MonitorAnswer]:
    """Change what is given of a monitor; its counts stay. ``description``, ``interval``, ``reference``: None removes.

    >>> client.change_monitor("inbox", description="mails of the live model").description
    'mails of the live model'
    """
    headers = {"Accept": JSON, "Content-Type": JSON}
    request = Request("PATCH", path_of("monitors", name), headers=headers, content=orjson.dumps({**watched}))
    return read(MonitorAnswer, (yield from ask(patience, request)))


def delete_monitor(patience: Patience, name: str) -> Steps[None]:
    """Forget a monitor and all that it has counted.

    >>> made = client.create_monitor("short-lived")
    >>> client.delete_monitor("short-lived")
    """
    yield from ask(patience, Request("DELETE", path_of("monitors", name), headers={"Accept": JSON}, forgets=True))
