"""The client that blocks: each call's steps, taken at once."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

import httpx

from calibrant.client import calls
from calibrant.client.blocking import iterate, run
from calibrant.client.frames import ArrayLike, FrameLike, Series
from calibrant.client.sending import Patience
from calibrant.client.server import headers_of, shown, url_of
from calibrant.client.steps import Items, Steps

P = ParamSpec("P")
T = TypeVar("T")


def _call(steps: Callable[Concatenate[Patience, P], Steps[T]]) -> Callable[Concatenate[Calibrant, P], T]:
    """The method that takes a call's steps, and returns what it returns."""

    @wraps(steps)
    def method(client: Calibrant, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(client._http, steps(client._patience, *args, **kwargs))

    return method


def _each(items: Callable[Concatenate[Patience, P], Items[T]]) -> Callable[Concatenate[Calibrant, P], Iterator[T]]:
    """The method that takes a call's steps, and gives what it gives."""

    @wraps(items)
    def method(client: Calibrant, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate(client._http, items(client._patience, *args, **kwargs))

    return method


class Calibrant:
    """A connection to a server. Use it as a context manager, or ``close`` it.

    Arrays travel as NPZ. What changes something is sent under an idempotency key; anything is sent again where the
    connection breaks or the server has too much to do, up to ``tries`` times within ``timeout`` seconds. Every call
    raises ``ProblemResponse`` for what the server refuses, and ``httpx.TransportError`` where it does not answer.

    Parameters
    ----------
    url
        Of the server; by default that of ``CALIBRANT_SERVER``, else ``http://127.0.0.1:8000``.
    api_key
        By default that of ``CALIBRANT_API_KEY``. It is in no message of the client.
    timeout
        Seconds in which a request and its repetitions must be done; a job that is waited for has the call's own.
    tries
        How often a request is sent at most.
    verify
        A context of TLS of your own, for a private authority or a client certificate.
    transport
        What carries the requests in the place of the network.

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
            base_url=url_of(url), headers=headers_of(api_key), verify=verify or True, transport=transport
        )

    def __repr__(self) -> str:
        return f"Calibrant({shown(self._http.base_url)!r})"

    def __enter__(self) -> Self:
        """Give the client itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    @overload
    def calibrate(self, map: str, predictions: Series, *, scale: str | None = None) -> Series: ...
    @overload
    def calibrate(self, map: str, predictions: FrameLike, *, scale: str | None = None) -> Any: ...
    @overload
    def calibrate(self, map: str, predictions: ArrayLike, *, scale: str | None = None) -> calls.maps.Floats: ...
    @wraps(calls.maps.calibrate)
    def calibrate(self, map: str, predictions: Any, *, scale: str | None = None) -> Any:  # noqa: D102 - wraps tells
        return run(self._http, calls.maps.calibrate(self._patience, map, predictions, scale=scale))

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
