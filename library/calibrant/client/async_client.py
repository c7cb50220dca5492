"""The client that awaits: each call's steps, taken as a coroutine."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, overload

import httpx

from calibrant.client import calls
from calibrant.client.awaiting import iterate, run
from calibrant.client.frames import ArrayLike, FrameLike, Series
from calibrant.client.sending import Patience
from calibrant.client.server import headers_of, shown, url_of
from calibrant.client.steps import Items, Steps

P = ParamSpec("P")
T = TypeVar("T")
_Awaited: TypeAlias = "Callable[Concatenate[AsyncCalibrant, P], Coroutine[Any, Any, T]]"
_Iterated: TypeAlias = "Callable[Concatenate[AsyncCalibrant, P], AsyncIterator[T]]"


def _call(
    steps: Callable[Concatenate[Patience, P], Steps[T]],
) -> _Awaited[P, T]:
    """The method that takes a call's steps, and returns what it returns."""

    @wraps(steps)
    async def method(client: AsyncCalibrant, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(client._http, steps(client._patience, *args, **kwargs))

    return method


def _each(
    items: Callable[Concatenate[Patience, P], Items[T]],
) -> _Iterated[P, T]:
    """The method that takes a call's steps, and gives what it gives."""

    @wraps(items)
    def method(client: AsyncCalibrant, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return iterate(client._http, items(client._patience, *args, **kwargs))

    return method


class AsyncCalibrant:
    """A connection to a server. Use it as an asynchronous context manager, or ``close`` it.

    The same calls as ``Calibrant``, each to be awaited; lists and events are for ``async for``.
    A task that is cancelled leaves its request, and closes its stream of events; what the server has begun goes on.

    Parameters
    ----------
    url, api_key, timeout, tries, verify, transport
        As of ``Calibrant``.

    Examples
    --------
    >>> async def calibrated():
    ...     async with AsyncCalibrant(url) as client:
    ...         fitted = await client.fit("platt", predictions=p, labels=y)
    ...         return await client.calibrate(fitted.id, p)
    >>> asyncio.run(calibrated()).shape
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._patience = Patience(tries, timeout)
        self._http = httpx.AsyncClient(
            base_url=url_of(url), headers=headers_of(api_key), verify=verify or True, transport=transport
        )

    def __repr__(self) -> str:
        return f"AsyncCalibrant({shown(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        """Give the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    @overload
    async def calibrate(self, map: str, predictions: Series, *, scale: str | None = None) -> Series: ...
    @overload
    async def calibrate(self, map: str, predictions: FrameLike, *, scale: str | None = None) -> Any: ...
    @overload
    async def calibrate(self, map: str, predictions: ArrayLike, *, scale: str | None = None) -> calls.maps.Floats: ...
    @wraps(calls.maps.calibrate)
    async def calibrate(self, map: str, predictions: Any, *, scale: str | None = None) -> Any:  # noqa: D102 - wraps tells
        return await run(self._http, calls.maps.calibrate(self._patience, map, predictions, scale=scale))

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
