"""A monitor's values over time: its buckets, or as many of them together as make the number of points asked for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from monitoring.answers import Reader
from monitoring.gathering import Gathered
from monitoring.readings import read_rows
from monitoring.windows import Span
from schemas.monitor_answers import SeriesPoint
from storage.monitors.series import SPAN


class Asked(NamedTuple):
    """Which values: of which buckets, of all rows or the group of an index, in at most so many points."""

    span: Span
    points: int
    group: int | None = None
    intervals: bool = False


def together(span: Span, points: int) -> int:
    """How many buckets make a point; points begin at multiples of it, so that they stay the same as time goes on."""
    if points == 1:
        return span.last + 1
    width = max(1, -(-(span.last - span.first + 1) // points))
    while span.last // width - span.first // width >= points:
        width += 1
    return width


def read_series(
    reader: Reader,
    asked: Asked,
    begin: Callable[[int], None] = lambda _: None,
    go_on: Callable[[], None] = lambda: None,
) -> list[SeriesPoint]:
    """The points of spans in which something was predicted, oldest first.

    ``begin`` is told how many points there are, and ``go_on`` is called before each; what they raise ends it.
    """
    width = together(asked.span, asked.points)
    numbers = reader.buckets.numbers(asked.span.first, asked.span.last)
    begin(len({bucket // width for bucket in numbers}))
    found = []
    for place, own in groupby(numbers, lambda bucket: bucket // width):
        go_on()
        first = max(place * width, asked.span.first)
        last = min((place + 1) * width - 1, asked.span.last)
        # Spans are fewer lists, and not worth asking after where none fits into a point.
        gathered = reader.gatherer.of(list(own)) if width < 2 * SPAN else reader.gatherer.span(first, last)
        found.append(_point(reader, gathered, Span(first, last, asked.span.bucket), asked))
    return found


def _point(reader: Reader, gathered: Gathered, span: Span, asked: Asked) -> SeriesPoint:
    whole = asked.group is None
    rows = read_rows(
        reader.rows_of(gathered, asked.group), reader.record, reader.kept.memory, intervals=asked.intervals
    )
    return SeriesPoint(
        **dict(rows),
        start=span.start,
        end=span.end,
        predictions=gathered.predictions if whole else None,
        coverage=gathered.coverage if whole else None,
    )
