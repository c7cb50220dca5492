"""The synchronous client."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

import httpx

from calibrant.client import calls
from calibrant.client.answers import MapSummary
from calibrant.client.frames import ArrayLike, FrameLike, Series
from calibrant.client.retries import Patience
from calibrant.client.server import context_of, headers_of, noted, shown, url_of
from calibrant.client.steps import (
    Answer,
    Done,
    Item,
    Items,
    NextLine,
    Open,
    Outcome,
    Pause,
    Step,
    Steps,
    advance,
    httpx_options,
)

P = ParamSpec("P")
T = TypeVar("T")


# --- Running the steps of a call


def _run(http: httpx.Client, steps: Steps[T]) -> T:
    """Run the steps of a call and return its result."""
    with _Wire(http) as wire:
        at = advance(steps)
        while not isinstance(at, Done):
            at = advance(steps, wire.take(at))
        found: T = at.value
        return found


def _iterate(http: httpx.Client, items: Items[T]) -> Iterator[T]:
    """Run the steps of a call and yield its items as they arrive."""
    with _Wire(http) as wire:
        at = advance(items)
        while not isinstance(at, Done):
            if isinstance(at, Item):
                yield at.value
                at = advance(items)
            else:
                at = advance(items, wire.take(at))


class _Wire:
    """The connection during one call; at most one stream is open, and it is closed at the end."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._stream = ExitStack()
        self._lines: Iterator[str] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def take(self, step: Step) -> Outcome:
        """Run a step and return its outcome."""
        try:
            return self._take(step), None
        except httpx.TransportError as error:
            return None, noted(error, self._http.base_url)

    def _take(self, step: Step) -> Answer | str | None:
        if isinstance(step, NextLine):
            return next(self._lines, None)
        self._stream.close()
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        options = httpx_options(step.request, step.seconds)
        if isinstance(step, Open):
            return self._open(options)
        response = self._http.request(**options)
        return Answer(response.status_code, response.headers, response.content)

    def _open(self, options: dict[str, Any]) -> Answer:
        response = self._stream.enter_context(self._http.stream(**options))
        content = b"" if response.is_success else response.read()
        self._lines = response.iter_lines()
        return Answer(response.status_code, response.headers, content)


# --- The client


def _call(steps: Callable[Concatenate[Patience, P], Steps[T]]) -> Callable[Concatenate[Calibrant, P], T]:
    """Make a method from the steps of a call."""

    @wraps(steps)
    def method(client: Calibrant, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _run(client._http, steps(client._patience, *args, **kwargs))

    return method


def _each(items: Callable[Concatenate[Patience, P], Items[T]]) -> Callable[Concatenate[Calibrant, P], Iterator[T]]:
    """Make an iterating method from the steps of a call."""

    @wraps(items)
    def method(client: Calibrant, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return _iterate(client._http, items(client._patience, *args, **kwargs))

    return method


class Calibrant:
    """A synchronous client of a Calibrant server. Use it as a context manager, or ``close`` it.

    Arrays are sent as NPZ. Requests are retried if the connection breaks or the server is overloaded, up to ``tries``
    times within ``timeout`` seconds; requests that change something have an idempotency key, so retries are safe. Every
    method raises ``ProblemResponse`` if the server refuses the request, and ``httpx.TransportError`` if it does not
    respond.

    Parameters
    ----------
    url : str, optional
        URL of the server. Default: the environment variable ``CALIBRANT_SERVER``, else ``http://127.0.0.1:8000``.
    api_key : str, optional
        API key. Default: the environment variable ``CALIBRANT_API_KEY``. No message of the client contains it.
    timeout : float
        Seconds for a request with its retries. Waiting for a job has a timeout of its own.
    tries : int
        The most times a request is sent.
    verify : ssl.SSLContext, optional
        TLS context, for example for a private certificate authority or a client certificate.
    transport : httpx.BaseTransport, optional
        Replaces the network transport of httpx.

    Examples
    --------
    >>> with Calibrant(url) as client:
    ...     fitted = client.fit("platt", predictions=p, labels=y)
    ...     client.calibrate(fitted.id, p).shape
    (200,)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        tries: int = 4,
        verify: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._patience = Patience(tries, timeout)
        self._http = httpx.Client(
            base_url=url_of(url), headers=headers_of(api_key), verify=context_of(verify), transport=transport
        )

    def __repr__(self) -> str:
        return f"Calibrant({shown(self._http.base_url)!r})"

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    @overload
    def calibrate(self, map: str | MapSummary, predictions: Series, *, scale: str | None = None) -> Series: ...
    @overload
    def calibrate(self, map: str | MapSummary, predictions: FrameLike, *, scale: str | None = None) -> Any: ...
    @overload
    def calibrate(
        self, map: str | MapSummary, predictions: ArrayLike, *, scale: str | None = None
    ) -> calls.maps.Floats: ...
    @wraps(calls.maps.calibrate)
    def calibrate(self, map: str | MapSummary, predictions: Any, *, scale: str | None = None) -> Any:  # noqa: D102 - docstring by wraps
        return _run(self._http, calls.maps.calibrate(self._patience, map, predictions, scale=scale))

    upload = _call(calls.batches.upload)
    append = _call(calls.batches.append)
    batch = _call(calls.batches.batch)
    batches = _each(calls.batches.batches)
    delete_batch = _call(calls.batches.delete_batch)

    evaluate = _call(calls.evaluate.evaluate)
    compare = _call(calls.evaluate.compare)
    power_law = _call(calls.evaluate.power_law)
    report_html = _call(calls.evaluate.report_html)

    diagram = _call(calls.pictures.diagram)
    map_diagram = _call(calls.pictures.map_diagram)
    job_diagram = _call(calls.pictures.job_diagram)

    fit = _call(calls.maps.fit)
    bounds = _call(calls.maps.bounds)
    map = _call(calls.maps.map)
    maps = _each(calls.maps.maps)
    describe = _call(calls.maps.describe)
    delete_map = _call(calls.maps.delete_map)
    export_map = _call(calls.maps.export_map)
    import_map = _call(calls.maps.import_map)

    evaluate_distribution = _call(calls.distributions.evaluate_distribution)
    fit_distribution = _call(calls.distributions.fit_distribution)
    calibrate_distribution = _call(calls.distributions.calibrate_distribution)
    recalibrate_in_order = _call(calls.distributions.recalibrate_in_order)
    upload_distribution = _call(calls.distributions.upload_distribution)
    append_distribution = _call(calls.distributions.append_distribution)
    distribution_measures = _call(calls.distributions.distribution_measures)
    distribution_diagram = _call(calls.distributions.distribution_diagram)
    distribution_diagrams = _call(calls.distributions.distribution_diagrams)
    distribution_report_html = _call(calls.distributions.distribution_report_html)
    distribution_methods = _call(calls.distributions.distribution_methods)

    alias = _call(calls.aliases.alias)
    aliases = _call(calls.aliases.aliases)
    delete_alias = _call(calls.aliases.delete_alias)

    job = _call(calls.jobs.job)
    jobs = _each(calls.jobs.jobs)
    events = _each(calls.jobs.events)
    wait = _call(calls.jobs.wait)
    cancel = _call(calls.jobs.cancel)

    create_monitor = _call(calls.monitors.create_monitor)
    monitor = _call(calls.monitors.monitor)
    series = _call(calls.monitors.series)
    monitors = _each(calls.monitors.monitors)
    change_monitor = _call(calls.monitors.change_monitor)
    delete_monitor = _call(calls.monitors.delete_monitor)
    monitor_diagram = _call(calls.pictures.monitor_diagram)
    series_diagram = _call(calls.pictures.series_diagram)

    send_rows = _call(calls.monitor_rows.send_rows)
    send_predictions = _call(calls.monitor_rows.send_predictions)
    send_labels = _call(calls.monitor_rows.send_labels)

    alarms = _call(calls.monitor_alarms.alarms)
    alarm_events = _each(calls.monitor_alarms.alarm_events)
    acknowledge = _call(calls.monitor_alarms.acknowledge)
    audit = _each(calls.monitor_alarms.audit)
    recalibrate = _call(calls.monitor_alarms.recalibrate)
    proposal = _call(calls.monitor_alarms.proposal)
    accept_proposal = _call(calls.monitor_alarms.accept_proposal)
    reject_proposal = _call(calls.monitor_alarms.reject_proposal)
    deliveries = _each(calls.monitor_alarms.deliveries)
    resend = _call(calls.monitor_alarms.resend)

    measures = _call(calls.catalogue.measures)
    methods = _call(calls.catalogue.methods)
    diagrams = _call(calls.catalogue.diagrams)
    limits = _call(calls.catalogue.limits)
    live = _call(calls.catalogue.live)
    ready = _call(calls.catalogue.ready)
