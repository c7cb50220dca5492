"""The connection of ``Calibrant``, generated from ``async_connection.py`` by `make reference`."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from calibrant.client.retries import Patience
from calibrant.client.server import context_of, credentials_of, noted, shown, url_of
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

T = TypeVar("T")


class _Wire:
    """The connection during one call; at most one stream is open, and it is closed at the end."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._stream = ExitStack()
        self._lines: Iterator[str] | None = None

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
            return None if self._lines is None else next(self._lines, None)
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


class Connection:
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
    token : str or callable, optional
        Bearer token of the issuer that the server accepts, in place of a key; or a function without arguments that
        returns it. The function is called for every request, so it should keep a token until shortly before its end.
    timeout : float
        Seconds for a request with its retries. Waiting for a job has a timeout of its own.
    tries : int
        The most times a request is sent.
    note : str, optional
        Why the changes are made, for the audit log of the server; at most 500 characters. Default: the environment
        variable ``CALIBRANT_NOTE``.
    verify : ssl.SSLContext, optional
        TLS context, for example for a private certificate authority or a client certificate.
    transport : httpx.BaseTransport, optional
        Replaces the network transport of httpx.

    Examples
    --------
    >>> def calibrated():
    ...     with Calibrant(url) as client:
    ...         fitted = client.fit("platt", predictions=p, labels=y)
    ...         return client.calibrate(fitted.id, p)
    >>> calibrated().shape
    (200,)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        token: str | Callable[[], str] | None = None,
        timeout: float = 60.0,
        tries: int = 4,
        note: str | None = None,
        verify: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._patience = Patience(tries, timeout)
        headers, auth = credentials_of(api_key, token, note)
        self._http = httpx.Client(
            base_url=url_of(url), headers=headers, auth=auth, verify=context_of(verify), transport=transport
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self._http.base_url)!r})"

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _run(self, steps: Steps[T]) -> T:
        """Run the steps of a call and return its result."""
        with _Wire(self._http) as wire:
            at = advance(steps)
            while not isinstance(at, Done):
                at = advance(steps, wire.take(at))
            result: T = at.value
            return result

    def _iterate(self, items: Items[T]) -> Iterator[T]:
        """Run the steps of a call and yield its items as they arrive."""
        with _Wire(self._http) as wire:
            at = advance(items)
            while not isinstance(at, Done):
                if isinstance(at, Item):
                    yield at.value
                    at = advance(items)
                else:
                    at = advance(items, wire.take(at))
