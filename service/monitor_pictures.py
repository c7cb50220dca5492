"""Pictures of monitors: a measure over time, and the reliability diagram of a window."""

from __future__ import annotations

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
from service.reading import asked_of, group_index, narrowed, reader_of, series_points, window_of
from storage.clock import now, seconds


def draw_series(here: Context, name: str, query: SeriesPictureQuery) -> Drawn:
    """Draw one measure over time; raises ``NothingToDraw`` where it has no value."""
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
    return draw_over_time({"measure": key, "points": told, "alarms": _alarms(whole, key)}, about, **_look(query))


def draw_window(here: Context, name: str, query: WindowPictureQuery, form: Format) -> Drawn:
    """Draw the reliability diagram of a window; raises ``NothingToDraw`` where it has no labelled rows."""
    reader = reader_of(here, name)
    window = window_of(reader.record, query.window)
    group = group_index(reader, query.group)
    tally = reader.rows_of(reader.gathered(window, now().timestamp()), group)
    shown = diagram_of(tally, reader.record, reader.kept.memory)
    if shown is None:
        raise NothingToDraw("the window has no labelled rows")
    about = About(len(tally), reader.record.reduction or "binary", _called(f"{name}, {window.name}", query.group))
    return draw("reliability", shown, about, **{**_look(query), "form": form})


def _alarms(reader: Reader, key: str) -> list[dict[str, Any]]:
    """When alarms were raised that are about a measure, or about calibration as such."""
    told = [(event.timestamp, event.data) for event in reader.raised() if isinstance(event.data, AlarmTold)]
    return [{"at": seconds(at), "rule": data.rule} for at, data in told if data.measure in (None, key)]


def _called(name: str, group: str | None) -> str:
    return name if group is None else f"{name}, {group}"


def _look(query: PictureQuery) -> dict[str, Any]:
    return {"theme": query.theme, "width": query.width}
