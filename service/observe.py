"""Observation of requests: request id, trace, log line and metrics."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Awaitable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.telemetry.logs import log_event
from backend.telemetry.observed import Observed, Spread, enter, leave
from backend.telemetry.tracing import trace_id_of
from service.problems import internal_error

if TYPE_CHECKING:
    from backend.telemetry.otlp import OtlpTracer, Root

# --- Counts of requests by route and method

#: The path of the metrics.
METRICS_PATH = "/metrics"
#: The route label of unmatched requests: their paths come from callers and are unbounded.
UNMATCHED = "unmatched"
#: Methods that are used as labels; any other is ``other``.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BYTES = tuple(float(4**power) for power in range(3, 16, 2))


class _OfRoute:
    """The counts of one route and method."""

    __slots__ = ("answered", "received", "rows", "seconds", "stale", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = Spread(_SECONDS)
        self.received = Spread(_BYTES)
        self.answered = Spread(_BYTES)
        self.rows = 0
        self.stale = 0


class RequestMetrics(Collector):
    """Metrics of the requests that this process answered.

    All updates happen on the event loop, so they need none of the locks of the Prometheus client's counters; a scrape
    in another thread may see a request in one metric slightly before it appears in the next.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], _OfRoute] = {}

    def count(
        self,
        route: str,
        method: str,
        status: int,
        *,
        seconds: float,
        received: int,
        answered: int,
        rows: int,
        is_stale: bool = False,
    ) -> None:
        """Count one request."""
        key = (route, method if method in _METHODS else "other")
        of = self._routes.get(key)
        if of is None:
            of = self._routes[key] = _OfRoute()
        of.statuses[status] = of.statuses.get(status, 0) + 1
        of.seconds.add(seconds)
        of.received.add(received)
        of.answered.add(answered)
        of.rows += rows
        of.stale += is_stale

    def describe(self) -> list[Metric]:
        """Every metric without values."""
        return list(_families())

    def collect(self) -> Iterable[Metric]:
        """Every metric with a value for each route and method."""
        requests, seconds, received, answered, rows, stale = families = _families()
        worked: dict[str, int] = {}
        for (route, method), of in list(self._routes.items()):
            for status, number in list(of.statuses.items()):
                requests.add_metric([route, method, str(status)], number)
            seconds.add_metric([route, method], of.seconds.cumulative(), of.seconds.total)
            received.add_metric([route, method], of.received.cumulative(), of.received.total)
            answered.add_metric([route, method], of.answered.cumulative(), of.answered.total)
            worked[route] = worked.get(route, 0) + of.rows
            if of.stale:
                stale.add_metric([route, method], of.stale)
        for route, number in worked.items():
            if number:
                rows.add_metric([route], number)
        return families


_Families = tuple[
    CounterMetricFamily,
    HistogramMetricFamily,
    HistogramMetricFamily,
    HistogramMetricFamily,
    CounterMetricFamily,
    CounterMetricFamily,
]


def _families() -> _Families:
    of = ("route", "method")
    return (
        CounterMetricFamily("calibrant_http_requests", "Completed requests.", labels=[*of, "status"]),
        HistogramMetricFamily(
            "calibrant_http_request_duration_seconds",
            "Time from the headers of a request to the last byte of its response.",
            labels=of,
        ),
        HistogramMetricFamily("calibrant_http_request_body_bytes", "Bytes of request bodies, as received.", labels=of),
        HistogramMetricFamily("calibrant_http_response_body_bytes", "Bytes of response bodies.", labels=of),
        CounterMetricFamily(
            "calibrant_rows", "Rows processed, from request bodies and stored batches.", labels=["route"]
        ),
        CounterMetricFamily(
            "calibrant_http_stale_responses",
            "Responses from maps and API keys in memory while the store was unavailable.",
            labels=of,
        ),
    )


class Metrics:
    """The metrics of one application, with a registry of its own, so that two in one process share nothing."""

    def __init__(self, *collectors: Collector) -> None:
        self.requests = RequestMetrics()
        self._registry = CollectorRegistry()
        for collector in (self.requests, *collectors):
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """All metrics in the text format; those of the store read it, so this may block."""
        return generate_latest(self._registry)


# --- The middleware

log = logging.getLogger(__name__)

REQUEST_ID = b"x-request-id"
#: Seconds since the keys and maps in memory were known to be those of the store; absent while the store is available.
STALE = b"calibrant-stale"
#: A caller's request id is kept if it is short, visible ASCII.
_SANE = re.compile(rb"[!-~]{1,128}")
#: Generated ids must be unique but not secret, so they need no random bytes from the system.
_IDS = random.Random()  # noqa: S311
#: Probes arrive every few seconds, and are logged only at debug level.
_PROBES = ("/health/", METRICS_PATH)
#: The status recorded if the client disconnected before the response; HTTP defines none.
_GONE = 499


class Observe:
    """ASGI middleware around all others, so that it observes rejected requests too."""

    def __init__(self, app: ASGIApp, requests: RequestMetrics, tracer: OtlpTracer | None = None) -> None:
        self._app = app
        self._requests = requests
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and record its outcome."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value for name, value in scope["headers"] if name in _READ}
        exchange = Exchange(scope, receive, send, _request_id(headers.get(REQUEST_ID)))
        if self._tracer is None:
            _pass_on(exchange.observed, headers)
            await self._serve(exchange, None)
            return
        carrier = {name.decode(): headers[name].decode("latin-1") for name in _CONTEXT if name in headers}
        with self._tracer.root("request", carrier, serves=True) as root:
            exchange.observed.trace_id, exchange.observed.tracer = root.trace_id, self._tracer
            await self._serve(exchange, root)

    async def _serve(self, exchange: Exchange, root: Root | None) -> None:
        """Run the application; respond with an internal error if it raises one."""
        token = enter(exchange.observed)
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            exchange.status = exchange.status or _GONE
        except Exception:
            if exchange.status:  # the response has begun: the server aborts it and logs the error
                raise
            log.exception("request failed")
            await internal_error()(exchange.scope, exchange.receive, exchange.send)
        finally:
            self._report(exchange, root)
            leave(token)

    def _report(self, exchange: Exchange, root: Root | None) -> None:
        """Count the request, write its log line and name its span."""
        scope, observed = exchange.scope, exchange.observed
        route = route_of(scope)
        method, status = scope["method"], exchange.status or _GONE
        took = time.perf_counter() - exchange.began
        self._requests.count(
            route,
            method,
            status,
            seconds=took,
            received=exchange.received,
            answered=exchange.answered,
            rows=observed.n or 0,
            is_stale=exchange.is_stale,
        )
        level = logging.DEBUG if route.startswith(_PROBES) else logging.WARNING if status >= 500 else logging.INFO
        if log.isEnabledFor(level):
            log_event(log, level, "request", exchange.fields(route, status, took))
        if root is not None:
            attributes = {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "calibrant.request_id": observed.request_id,
                "calibrant.rows": observed.n,
            }
            root.describe(f"{method} {route}", attributes, failed=status >= 500)


class Exchange:
    """One request and its response, measured as they pass."""

    __slots__ = ("_receive", "_send", "answered", "began", "is_stale", "observed", "received", "scope", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self.began = time.perf_counter()
        self.observed = Observed(request_id.decode())
        self.status = 0
        self.is_stale = False
        self.received = 0
        self.answered = 0

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
            if not message.get("more_body", False) and self.observed.tracer is not None:
                self.observed.body_read = time.time_ns()
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Send a part of the response; its headers get the request id, and the age of outdated keys and maps."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            name = (REQUEST_ID, (self.observed.request_id or "").encode())
            message["headers"] = [*message.get("headers", ()), name]
            age = self.scope.get("state", {}).get("stale_seconds")
            if age is not None and self.status < 500:
                self.is_stale = True
                message["headers"].append((STALE, b"%d" % age))
        elif message["type"] == "http.response.body":
            self.answered += len(message.get("body", b""))
        return self._send(message)

    def fields(self, route: str, status: int, took: float) -> dict[str, str | int | float | None]:
        """The fields of the log line."""
        caller = self.scope.get("state", {}).get("caller")
        client = self.scope.get("client")
        return {
            "client": client[0] if client else None,
            "tenant": getattr(caller, "tenant", None),
            "key": getattr(caller, "name", None),
            "key_id": getattr(caller, "key_id", None),
            "method": self.scope["method"],
            "route": route,
            "status": status,
            "problem": self.observed.problem,
            "seconds": round(took, 6),
            "bytes_in": self.received,
            "bytes_out": self.answered,
            "n": self.observed.n,
            "K": self.observed.n_classes,
        }


#: The headers of W3C Trace Context.
_CONTEXT = (b"traceparent", b"tracestate")
_READ = frozenset({REQUEST_ID, *_CONTEXT})


def _pass_on(observed: Observed, headers: dict[bytes, bytes]) -> None:
    """Without a tracer, add the caller's trace id to log lines and pass the trace on to jobs."""
    if _CONTEXT[0] in headers:
        parent = headers[_CONTEXT[0]].decode("latin-1")
        observed.trace_id = trace_id_of(parent)
        if observed.trace_id is not None:
            observed.traceparent = parent


def route_of(scope: Scope) -> str:
    """The path template of the request's route; never the path itself, which may contain names and ids."""
    if "route" in scope:
        return str(scope["route"].path)
    if "endpoint" in scope and not scope.get("path_params"):
        # Starlette's own routes do not set "route"; without parameters the path is the template.
        return str(scope.get("root_path") or scope["path"])
    # The request was refused before the router saw it.
    return match_route(scope["app"].router.routes, scope) if "app" in scope else UNMATCHED


def match_route(routes: Iterable[BaseRoute], scope: Scope) -> str:
    """The path template of the route that serves a request, or would serve it with another method."""
    matches = [(route.matches(scope)[0].value, str(getattr(route, "path", UNMATCHED))) for route in routes]
    best, path = max(matches, key=itemgetter(0), default=(Match.NONE.value, UNMATCHED))
    return path if best else UNMATCHED


def _request_id(chosen: bytes | None) -> bytes:
    if chosen is not None and _SANE.fullmatch(chosen):
        return chosen
    return b"%032x" % _IDS.getrandbits(128)
