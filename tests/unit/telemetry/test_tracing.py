from __future__ import annotations

import subprocess
import sys

import pytest

from backend.telemetry.observed import Observed, Spread, carried, enter, leave, note_rows, span
from backend.telemetry.tracing import is_configured, trace_id_of

COLLECTOR = "http://localhost:4318"


@pytest.mark.parametrize(
    ("endpoint", "environment", "expected"),
    [
        (None, {}, False),
        (COLLECTOR, {}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": COLLECTOR}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": COLLECTOR}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": COLLECTOR, "OTEL_TRACES_EXPORTER": "none"}, False),
        (COLLECTOR, {"OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_traces_are_off_until_a_collector_is_named(
    endpoint: str | None, environment: dict[str, str], expected: bool
) -> None:
    assert is_configured(endpoint, environment) is expected


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.slow
def test_the_exporter_of_traces_is_loaded_only_on_request() -> None:
    loaded = _python(
        "import sys, service.app, workers.worker\n"
        "from service.settings import Settings\n"
        "service.app.create_app(Settings(redis_url='unix:///nowhere'))\n"
        "extra = ('opentelemetry.sdk.trace', 'opentelemetry.exporter', 'opentelemetry.proto')\n"
        "extra += ('backend.telemetry.otlp',)\n"
        "print([name for name in sys.modules if name.startswith(extra)])"
    )
    assert loaded.stdout.strip() == "[]", loaded.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["api", "worker"])
def test_requested_traces_without_the_extra_are_refused_at_the_start(command: str) -> None:
    refused = _python(
        "import sys; sys.modules['opentelemetry.sdk'] = None  # FastAPI itself needs the API of OpenTelemetry\n"
        "from calibrant.cli.main import app\n"
        f"app(['{command}', '--redis-url', 'unix:///nowhere', '--otlp-endpoint', '{COLLECTOR}'])"
    )
    assert refused.returncode == 2
    assert "calibrant-server[telemetry]" in refused.stderr


def test_outside_of_a_request_nothing_is_noted_and_nothing_carried() -> None:
    note_rows((3, 4))
    assert carried() == {}
    with span("work"):
        pass


def test_a_job_remembers_its_request_and_a_trace_that_is_only_passed_on() -> None:
    observed = Observed("the-id", traceparent="00-x")
    token = enter(observed)
    try:
        note_rows((3, 4))
        assert carried() == {"request_id": "the-id", "traceparent": "00-x"}
    finally:
        leave(token)
    assert (observed.n, observed.n_classes) == (3, 4)


def test_a_number_is_counted_in_the_first_bucket_whose_end_is_not_below_it() -> None:
    spread = Spread((1.0, 2.0))
    for number in (0.5, 1.0, 1.5, 2.5):
        spread.add(number)
    assert spread.cumulative() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert spread.total == 5.5


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "header", [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01-what-is-to-come"]
)
def test_the_trace_of_a_header_is_read(header: str) -> None:
    assert trace_id_of(header) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        TRACE,
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE[:-1]}٣-{PARENT}-01",
    ],
)
def test_a_header_that_the_recommendation_refuses_names_no_trace(header: str) -> None:
    assert trace_id_of(header) is None
