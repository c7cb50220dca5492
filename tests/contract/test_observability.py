"""docs/how-to/observability.md tells every metric and every field of a line, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message

from backend.store.census import Census
from backend.store.jobs.events import Ended
from backend.telemetry.observed import Observed
from service.metrics import Metrics
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


def _metrics() -> Metrics:
    """One of everything that has labels."""
    ended = Ended(number=1)
    ended.seconds.add(1.0)
    monitor = {
        "name": "inbox",
        "looked_at": 1e9,
        "counts": {"predictions": 1},
        "windows": {"day": {"rows": 1, "coverage": 1.0, "measures": {"ece": 0.1, "log-loss": 0.5}}},
        "errors": ["ece"],
        "alarms": {"evidence": False},
    }
    latest = {("default", "monitor_1"): monitor}
    work = ({("look", "done"): 1}, {"succeeded": 1})
    metrics = Metrics(lambda: Census({"fits": 1}, 1, 1, {("fit", "failed"): ended}, 1, {"fits": 0.5}, latest, *work))
    metrics.requests.count("/maps", "POST", 201, seconds=0.1, received=1, answered=1, rows=1)
    return metrics


def test_every_metric_is_on_the_page_with_its_type_and_labels_and_the_other_way_round() -> None:
    text = _metrics().text().decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found = {label for sample in family.samples for label in sample.labels} - {"le"}
        labels[family.name + "_total" if family.type == "counter" else family.name] = found
    told = {row[0].strip("| `"): (row[1], _names(row[2])) for row in _rows("Metrics")}
    assert told == {name: (kind, labels[name]) for name, kind in types.items()}
    assert f"`GET {METRICS_PATH}`" in PAGE


def test_names_follow_the_rules_of_prometheus() -> None:
    text = _metrics().text().decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        assert re.fullmatch(r"(calibrant|process)_[a-z_]+", name)
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith(("_seconds", "_bytes")), name
        assert f"# HELP {name} " in text


def test_every_field_of_a_line_is_on_the_page_and_the_other_way_round() -> None:
    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/", "state": {}}
    request = set(Exchange(scope, receive, send, b"x").fields("/", 200, 0.1))
    task = set(fields(ObservedRun("job_x", "default", "fit"), Observed(), 0.1))
    told = {name: row[1] for row in _rows("Log lines") for name in _names(row[0].strip("| "))}
    both = {"request_id", "trace_id"}
    assert {name for name, of in told.items() if "request" in of} == request | both
    assert {name for name, of in told.items() if "task" in of} == task | both
    assert set(told) == request | task | both | {"exception"}
