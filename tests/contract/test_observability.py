"""docs/how-to/observability.md lists every field of a log line; metrics follow Prometheus's naming rules."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.types import Message

from backend.telemetry.observed import Observed
from benchmarks.pages.metrics import sample_metrics
from service.observe import METRICS_PATH, Exchange
from workers.tasks import ObservedRun, fields

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "observability.md").read_text("utf-8")


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def _rows(title: str) -> list[list[str]]:
    """The cells of the section's table, without its head."""
    rows = [line.strip("|").split(" | ") for line in _section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def _names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_names_follow_the_rules_of_prometheus() -> None:
    text = sample_metrics().text().decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        assert re.fullmatch(r"(calibrant|process)_[a-z_]+", name)
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith(("_seconds", "_bytes")), name
        assert f"# HELP {name} " in text


def test_the_page_names_the_path_of_the_metrics() -> None:
    assert f"`GET {METRICS_PATH}`" in PAGE


def test_every_field_of_a_line_is_on_the_page_and_the_other_way_round() -> None:
    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/", "state": {}}
    request = set(Exchange(scope, receive, send, b"x").fields("/", 200, 0.1))
    task = set(fields(ObservedRun("job_x", "default", "fit"), Observed(), 0.1))
    required = {name: row[1] for row in _rows("Log lines") for name in _names(row[0].strip("| "))}
    both = {"request_id", "trace_id"}
    assert {name for name, of in required.items() if "request" in of} == request | both
    assert {name for name, of in required.items() if "task" in of} == task | both
    assert set(required) == request | task | both | {"exception"}


def test_the_sample_has_every_label_of_every_gauge_of_monitors() -> None:
    text = sample_metrics().text().decode()
    gauges = re.findall(r"^# TYPE (calibrant_monitor\S+) gauge$", text, re.MULTILINE)
    assert len(gauges) > 20
    for name in gauges:
        assert re.search(rf'^{name}{{[^}}]*monitor="inbox"', text, re.MULTILINE), name
