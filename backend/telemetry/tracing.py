"""Traces: whether they are on, and the W3C Trace Context header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.telemetry.otlp import OtlpTracer


# --- Whether traces are on, and the tracer

#: The standard's own variables that name a collector.
_STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class MissingTelemetry(Exception):
    """Traces are configured, but the packages that send them are not installed."""


def are_asked_for(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a setting or a standard variable names a collector, and none turns traces off."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return False
    return bool(endpoint) or any(environment.get(name) for name in _STANDARD)


def check_telemetry(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether traces are configured; imports what sends them, so that a fork has it.

    Raises ``MissingTelemetry`` without the extra ``telemetry``.
    """
    if not are_asked_for(endpoint, environment):
        return False
    try:
        import backend.telemetry.otlp  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingTelemetry("traces need the extra telemetry: pip install 'calibrant-server[telemetry]'") from error
    return True


def open_tracer(service: str, endpoint: str | None, environment: Mapping[str, str]) -> OtlpTracer | None:
    """A tracer that sends spans to the configured collector; None, and nothing imported, if there is none.

    Raises ``MissingTelemetry`` without the extra ``telemetry``.
    """
    if not check_telemetry(endpoint, environment):
        return None
    from backend.telemetry.otlp import OtlpTracer

    return OtlpTracer.to(endpoint, service)


# --- The W3C Trace Context header ``traceparent`` (https://www.w3.org/TR/trace-context/)

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


def trace_id_of(traceparent: str) -> str | None:
    """The trace's id, 32 lower-case hexadecimal digits; None for a header that the recommendation refuses."""
    found = _FORM.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, parent, _, more = found.groups()
    # Later versions may say more; version 0 may not, and ff is no version. Ids of zeros name nothing.
    if version == "ff" or (version == "00" and more is not None) or not int(trace, 16) or not int(parent, 16):
        return None
    return trace
