"""Pictures of monitors: a measure over time, and the reliability diagram of a window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from monitoring.answers import Reader
from monitoring.readable import read_measures
from monitoring.readings import diagram_of
from pictures.diagram import draw
from pictures.drawn import About, Drawn, Format
from pictures.over_time import draw_over_time
from schemas.diagrams import PictureQuery
from schemas.monitor_answers import SeriesPictureQuery, WindowPictureQuery
from schemas.monitor_events import AlarmTold
from service.context import Context
from service.errors import NothingToDraw
from service.reading import asked_of, begin_diagram, group_index, narrowed, reader_of, series_points, window_of
from storage.clock import now, seconds


def series_drawing(here: Context, name: str, query: SeriesPictureQuery) -> Callable[[], Drawn]:
    """Read one measure over time, which may take long; what draws it raises ``NothingToDraw`` if it has no value."""
    whole = reader_of(here, name)
    key = query.measure or read_measures(whole.record.measures, whole.record.reduction or "binary")[0].key
    reader = narrowed(whole, key)
    points = series_points(here, reader, asked_of(whole, query, now().timestamp()))
    told = [
        {"start": point.start, "end": point.end, "value": one.value, "interval": one.interval}
        for point in points
        for one in (point.measures[key],)
    ]
    about = About(sum(point.rows for point in points), reader.record.reduction or "binary", _called(name, query.group))
    shown = {"measure": key, "points": told, "alarms": _alarms(whole, key)}
    return partial(draw_over_time, shown, about, **_look(query))


def window_drawing(here: Context, name: str, query: WindowPictureQuery, form: Format) -> Callable[[], Drawn]:
    """Read the rows of a window, and give what draws their reliability diagram; raises ``NothingToDraw`` for none."""
    reader = reader_of(here, name)
    window = window_of(reader.record, query.window)
    group = group_index(reader, query.group)
    begin_diagram(here, reader.record)
    tally = reader.rows_of(reader.gathered(window, now().timestamp()), group)
    shown = diagram_of(tally, reader.record, reader.kept.memory)
    if shown is None:
        raise NothingToDraw("the window has no labelled rows")
    about = About(len(tally), reader.record.reduction or "binary", _called(f"{name}, {window.name}", query.group))
    return partial(draw, "reliability", shown, about, **{**_look(query), "form": form})


def _alarms(reader: Reader, key: str) -> list[dict[str, Any]]:
    """When alarms were raised that are about a measure, or about calibration as such."""
    told = [(event.timestamp, event.data) for event in reader.raised() if isinstance(event.data, AlarmTold)]
    return [{"at": seconds(at), "rule": data.rule} for at, data in told if data.measure in (None, key)]


def _called(name: str, group: str | None) -> str:
    return name if group is None else f"{name}, {group}"


def _look(query: PictureQuery) -> dict[str, Any]:
    return {"theme": query.theme, "width": query.width}
