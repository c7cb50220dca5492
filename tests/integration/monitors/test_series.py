"""A monitor's values over time, and its pictures."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.clock import at, seconds, stamp
from backend.store.keyspace import Keyspace
from backend.store.monitors.standings import StandingChange, Standings
from schemas.monitor_alarms import AlarmData, MonitorEvent
from tests.integration.monitors.writing import Floats, Outcomes, Writer
from tests.integration.responses import body_of, patched, place_of
from tests.rows import draw_event

HOUR, DAY = 3600, 86_400


@pytest.fixture
def writer(api: httpx.Client, redis: Redis) -> Writer:
    windows = [{"name": "day", "seconds": DAY}, {"name": "last", "rows": 1000}]
    answer = api.post("/monitors", json={"name": "inbox", "measures": ["brier", "ece"], "windows": windows})
    assert answer.status_code == 201, answer.text
    return Writer(redis, "inbox")


def _drawn(n: int, seed: int) -> tuple[Floats, Outcomes]:
    return draw_event(n, seed, dtype=np.int8)


def _hours(writer: Writer, hours: int, **how: Any) -> tuple[float, list[tuple[Floats, Outcomes]]]:
    """So many hours of 50 rows each; the start of the first, and the rows."""
    start = (time.time() // HOUR - hours + 1) * HOUR
    rows = [_drawn(50, hour) for hour in range(hours)]
    for hour, own in enumerate(rows):
        writer.labelled(*own, start + hour * HOUR, **how)
    return start, rows


def _series(api: httpx.Client, **query: Any) -> dict[str, Any]:
    """A series; times of the query and of the points are seconds since 1970."""
    times = {name: at(query[name]) for name in ("start", "end") if name in query}
    series = body_of(api.get("/monitors/inbox/series", params=query | times))
    for point in series["points"]:
        point |= {name: seconds(point[name]) for name in ("start", "end")}
    return series


def test_a_bucket_is_a_point(api: httpx.Client, writer: Writer) -> None:
    start, rows = _hours(writer, 6)
    series = _series(api, window="day", measure="brier")
    assert series["span"] == HOUR
    assert [point["start"] for point in series["points"]] == [start + hour * HOUR for hour in range(6)]
    for point, (p, y) in zip(series["points"], rows, strict=True):
        assert set(point["measures"]) == {"brier"}
        assert point["measures"]["brier"]["value"] == pytest.approx(float(np.mean((p - y) ** 2)), abs=1e-5)
        assert (point["rows"], point["predictions"], point["coverage"]) == (50, 50, 1.0)


@pytest.mark.parametrize("points", [1, 2, 3, 7, 24])
def test_a_series_has_at_most_the_requested_points_and_every_row(
    api: httpx.Client, writer: Writer, points: int
) -> None:
    start, rows = _hours(writer, 24)
    returned = _series(api, points=points, start=start, end=start + 24 * HOUR)["points"]
    assert 1 <= len(returned) <= points
    assert sum(point["rows"] for point in returned) == 24 * 50
    means = [point["mean_prediction"] * point["rows"] for point in returned]
    assert sum(means) == pytest.approx(sum(p.sum() for p, _ in rows))
    assert all(earlier["end"] <= other["start"] for earlier, other in pairwise(returned))


@pytest.mark.slow
@pytest.mark.parametrize("points", [1, 4])
def test_many_buckets_are_few_points(api: httpx.Client, writer: Writer, points: int) -> None:
    start, rows = _hours(writer, 200, groups=["a"] * 25 + ["b"] * 25)
    asked = {"points": points, "start": start + 3 * HOUR, "end": start + 200 * HOUR}
    for group in (None, "a"):
        returned = _series(api, **asked, **({} if group is None else {"group": group}))["points"]
        own = [p if group is None else p[:25] for p, _ in rows[3:]]
        assert sum(point["rows"] for point in returned) == sum(map(len, own))
        means = [point["mean_prediction"] * point["rows"] for point in returned]
        assert sum(means) == pytest.approx(sum(p.sum() for p in own))
    assert 1 <= len(returned) <= points


def test_a_span_of_time_takes_the_buckets_that_touch_it(api: httpx.Client, writer: Writer) -> None:
    start, _ = _hours(writer, 6)
    returned = _series(api, start=start + 2 * HOUR, end=start + 4 * HOUR)["points"]
    assert [point["start"] for point in returned] == [start + 2 * HOUR, start + 3 * HOUR]


def test_a_series_of_one_group_has_its_rows_alone(api: httpx.Client, writer: Writer) -> None:
    _hours(writer, 3, groups=["a"] * 20 + ["b"] * 30)
    series = _series(api, group="b", window="day")
    assert series["group"] == "b"
    assert [(point["rows"], point["predictions"]) for point in series["points"]] == [(30, None)] * 3


def test_a_series_has_intervals_on_request(api: httpx.Client, writer: Writer) -> None:
    _hours(writer, 2)
    assert all(p["measures"]["ece"]["interval"] is None for p in _series(api, window="day")["points"])
    for point in _series(api, window="day", intervals=True)["points"]:
        low, high = point["measures"]["ece"]["interval"]
        assert low <= point["measures"]["ece"]["value"] <= high


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"measure": "log-loss"}, "?measure"),
        ({"group": "nobody"}, "?group"),
        ({"window": "week"}, "?window"),
        ({"window": "last"}, "?window"),
        ({"window": "day", "start": at(5)}, "?window"),
        ({"start": at(2000), "end": at(1000)}, "?end"),
        ({"start": 2000}, "?start"),
        ({"end": "1769860800.5"}, "?end"),
        ({"end": "2026-01-31T12:00:00"}, "?end"),
        ({"points": 0}, "?points"),
        ({"points": 1001}, "?points"),
    ],
)
def test_an_invalid_query_names_its_parameter(
    api: httpx.Client, writer: Writer, query: dict[str, Any], pointer: str
) -> None:
    answer = api.get("/monitors/inbox/series", params=query)
    assert (answer.status_code, place_of(answer.json()["errors"][0])) == (422, pointer)


def test_a_series_is_drawn_with_its_alarms(api: httpx.Client, writer: Writer, redis: Redis) -> None:
    start, _ = _hours(writer, 6)
    at = stamp(datetime.fromtimestamp(start + 3.5 * HOUR, UTC))
    alarm = AlarmData(monitor="inbox", rule="evidence", kind="evidence")
    event = MonitorEvent(id="event_" + 30 * "0", type="monitor.alarm.raised", timestamp=at, data=alarm)
    Standings(redis, Keyspace(), writer.record).change(lambda _, standing: StandingChange(standing, [event]))
    answer = api.get("/monitors/inbox/series.svg", params={"window": "day", "measure": "ece", "width": 400})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert re.search(r"ece over time.*300 rows.*6 time spans.*Alarms raised: 1; evidence at", answer.text, re.DOTALL)


def test_a_window_is_drawn(api: httpx.Client, writer: Writer) -> None:
    _hours(writer, 3, groups=["a"] * 20 + ["b"] * 30)
    whole = api.get("/monitors/inbox/diagram.svg", params={"window": "day"})
    assert "150 rows" in whole.text
    group = api.get("/monitors/inbox/diagram.svg", params={"window": "last", "group": "b", "theme": "dark"})
    assert "90 rows" in group.text
    png = api.get("/monitors/inbox/diagram.png")
    assert png.content.startswith(b"\x89PNG")


@pytest.mark.parametrize("picture", ["series.svg", "diagram.svg", "diagram.png"])
def test_a_monitor_without_rows_has_no_picture(api: httpx.Client, writer: Writer, picture: str) -> None:
    answer = api.get(f"/monitors/{writer.record.name}/{picture}")
    assert answer.json()["type"] == "/problems/nothing-to-draw"


#: What takes long even of cells.
FITS = ["ece-platt", "ece-beta", "ece-isotonic", "ece-es-cv", "ece-ew-cv", "ece-bbq", "ece-kde", "brier"]


@pytest.mark.slow
def test_a_series_that_would_take_too_long_is_refused_with_a_remedy(api: httpx.Client, writer: Writer) -> None:
    start, _ = _hours(writer, 200)
    assert patched(api, "/monitors/inbox", {"measures": FITS}).status_code == 200
    asked: dict[str, str | int] = {"points": 1000, "start": at(start)}
    answer = body_of(api.get("/monitors/inbox/series", params=asked), 422)
    [error] = answer["errors"]
    assert place_of(error) == "?points"
    advice = re.search(r"request at most (\d+) points, or one measure", error["detail"])
    assert advice is not None
    assert 50 < int(advice[1]) < 200
    response = api.get("/monitors/inbox/series", params=asked | {"measure": "brier"})
    assert (response.status_code, len(response.json()["points"])) == (200, 200)


def test_a_series_of_too_many_groups_is_refused(api: httpx.Client, writer: Writer) -> None:
    writer.labelled(*_drawn(50, 1), time.time())
    assert patched(api, "/monitors/inbox", {"measures": FITS}).status_code == 200
    answer = body_of(api.get("/monitors/inbox", params={"groups": 1000}), 422)
    assert place_of(answer["errors"][0]) == "?groups"
    assert api.get("/monitors/inbox").status_code == 200


def test_the_series_of_a_new_monitor_starts_at_its_first_rows(api: httpx.Client, writer: Writer) -> None:
    start, rows = _hours(writer, 3)
    series = _series(api)
    assert series["span"] == HOUR
    assert [point["start"] for point in series["points"]] == [start, start + HOUR, start + 2 * HOUR]
    assert [point["rows"] for point in series["points"]] == [len(p) for p, _ in rows]


def test_the_series_of_a_monitor_without_rows_is_empty(api: httpx.Client, writer: Writer) -> None:
    assert _series(api)["points"] == []


def test_the_axis_of_a_picture_starts_at_the_first_rows(api: httpx.Client, writer: Writer) -> None:
    start, _ = _hours(writer, 3)
    drawn = api.get("/monitors/inbox/series.svg", params={"points": 5})
    first = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d %H:%M")
    assert f"From {first} to " in drawn.text
    assert "3 time spans" in drawn.text
