"""Whether traces are asked for, and who keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.otlp import OtlpTracer

#: The standard's own variables that name a collector.
_STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class MissingTelemetry(Exception):
    """Traces are asked for, and the packages that send them are not installed."""


def are_asked_for(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a setting or a standard variable names a collector, and none turns traces off."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return False
    return bool(endpoint) or any(environment.get(name) for name in _STANDARD)


def check_telemetry(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Whether traces are asked for; imports what sends them, so that a fork has it.

    Raises ``MissingTelemetry`` without the extra ``telemetry``.
    """
    if not are_asked_for(endpoint, environment):
        return False
    try:
        import telemetry.otlp  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingTelemetry("traces need the extra telemetry: pip install 'calibrant[telemetry]'") from error
    return True


def open_tracer(service: str, endpoint: str | None, environment: Mapping[str, str]) -> OtlpTracer | None:
    """A tracer that sends spans to the collector asked for; None, and nothing imported, where none is.

    Raises ``MissingTelemetry`` without the extra ``telemetry``.
    """
    if not check_telemetry(endpoint, environment):
        return None
    from telemetry.otlp import OtlpTracer

    return OtlpTracer.to(endpoint, service)
