"""Tracing: whether it is enabled, and the W3C Trace Context header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.telemetry.otlp import OtlpTracer


# --- Whether tracing is enabled, and the tracer

#: Standard variables that name a collector.
_STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class MissingTelemetry(Exception):
    """Tracing is configured, but its packages are not installed."""


def is_configured(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a setting or standard variable names a collector, and none disables tracing."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return False
    return bool(endpoint) or any(environment.get(name) for name in _STANDARD)


def check_telemetry(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether tracing is enabled; imports its packages, so that forks have them.

    Raises ``MissingTelemetry`` without the extra ``telemetry``.
    """
    if not is_configured(endpoint, environment):
        return False
    try:
        import backend.telemetry.otlp  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingTelemetry(
            "tracing needs the extra telemetry: pip install 'calibrant-server[telemetry]'"
        ) from error
    return True


def open_tracer(service: str, endpoint: str | None, environment: Mapping[str, str]) -> OtlpTracer | None:
    """A tracer that sends spans to the configured collector; None, without any import, if there is none.

    Raises ``MissingTelemetry`` without the extra ``telemetry``.
    """
    if not check_telemetry(endpoint, environment):
        return None
    from backend.telemetry.otlp import OtlpTracer

    return OtlpTracer.to(endpoint, service)


# --- The W3C Trace Context header ``traceparent`` (https://www.w3.org/TR/trace-context/)

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


def trace_id_of(traceparent: str) -> str | None:
    """The trace id, 32 lower-case hexadecimal digits; None for an invalid header."""
    match = _FORM.fullmatch(traceparent)
    if match is None:
        return None
    version, trace, parent, _, more = match.groups()
    # Later versions may have more fields, version 0 may not, and ff is invalid. Ids of zeros are invalid.
    if version == "ff" or (version == "00" and more is not None) or not int(trace, 16) or not int(parent, 16):
        return None
    return trace
