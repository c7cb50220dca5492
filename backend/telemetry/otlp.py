"""OpenTelemetry traces over OTLP/HTTP. The only module that imports OpenTelemetry."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Iterator, Mapping

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from backend.telemetry.observed import Attribute

_VERSION = importlib.metadata.version("calibrant")
#: The path for spans below the address of a collector.
_TRACES_PATH = "/v1/traces"
#: Timeout of an export in seconds, unless one of these variables is set; a slow collector must not block a worker.
_EXPORT_SECONDS = 2.0
_TIMEOUTS = {"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"}

_CONTEXT = TraceContextTextMapPropagator()


class Root:
    """The span of a whole request or task."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def trace_id(self) -> str:
        """The id of the trace, 32 hexadecimal digits."""
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def describe(self, name: str, attributes: Mapping[str, Attribute | None], *, failed: bool) -> None:
        """Set the name, the attributes and the status of the span at its end."""
        self._span.update_name(name)
        self._span.set_attributes({key: value for key, value in attributes.items() if value is not None})
        if failed:
            # Without a description, because the message of an error may contain data of the caller.
            self._span.set_status(StatusCode.ERROR)


class OtlpTracer:
    """The tracer of one process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("calibrant", _VERSION)

    @classmethod
    def to(cls, endpoint: str | None, service: str) -> OtlpTracer:
        """Send spans to the collector at ``endpoint``, or to the one in the standard OpenTelemetry variables.

        The standard variables for service name, resource attributes, headers and sampling also apply.
        """
        url = None if endpoint is None else endpoint.rstrip("/") + _TRACES_PATH
        resource = Resource.create({SERVICE_VERSION: _VERSION})
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: service}))
        # No atexit handler: a forked task ends without it, and the API closes its tracer itself.
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        seconds = None if _TIMEOUTS & os.environ.keys() else _EXPORT_SECONDS
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=seconds)))
        return cls(provider)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    @contextlib.contextmanager
    def root(self, name: str, carrier: Mapping[str, str], *, serves: bool) -> Iterator[Root]:
        """The span of a served request or of a queued task, as part of its caller's trace."""
        kind = SpanKind.SERVER if serves else SpanKind.CONSUMER
        with self._tracer.start_as_current_span(
            name, _CONTEXT.extract(carrier), kind, record_exception=False, set_status_on_exception=False
        ) as span:
            yield Root(span)

    @contextlib.contextmanager
    def span(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> Iterator[None]:
        """A span of the current work."""
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_status(StatusCode.ERROR)
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def past(self, name: str, began: int, ended: int) -> None:
        """A span in the past."""
        self._tracer.start_span(name, start_time=began).end(ended)

    def carrier(self) -> dict[str, str]:
        """The headers of the current span."""
        carrier: dict[str, str] = {}
        _CONTEXT.inject(carrier)
        return carrier
