"""Routing: idempotency keys, HEAD requests, and a shortcut for short calls."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.store.errors import StorageError, problem_of
from backend.store.idempotency import RENEWALS, Reservation, pack, unpack
from backend.store.server.connection import UNAVAILABLE
from calibrant.core.errors import CalibrationError
from schemas.jobs import StoredAnswer
from service.context import Context, context_of
from service.error_handlers import unavailable_response
from service.errors import InvalidField, of_header
from service.formats.body import bounded
from service.formats.format import Body
from service.headers import Preferences, read_header, read_headers
from service.problems import refused
from service.threads import run_in_thread

# --- ``Idempotency-Key``: a repeated POST gets the same response, and takes effect once
#
# Every POST of the API is such a route. Routes take the ids of new objects from
# ``Context.new_id``, which returns the same ids for the same key.

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

#: Seconds between two attempts to end a reservation while the store is unavailable; and the tasks that do so.
_AGAIN_SECONDS = 0.2
_ending: set[asyncio.Task[None]] = set()
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
#: Response headers that are stored with the response.
_KEPT = (
    "content-type",
    "location",
    "retry-after",
    "preference-applied",
    "etag",
    "link",
    "vary",
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "inference-header-content-length",
    "calibrant-map",
    "calibrant-map-version",
)
#: Request headers that change what a request does, besides the attributes of an event (``ce-*``).
_MEANT = (b"if-match", b"if-none-match", b"inference-header-content-length")


class Idempotent(APIRoute):
    """A route that supports the header ``Idempotency-Key``.

    If the store is unavailable, a call that is answered ``from_memory`` and stores nothing ignores the header.
    """

    from_memory = False

    def own_handler(self) -> Handler:
        """The handler without idempotency."""
        return super().get_route_handler()

    def get_route_handler(self) -> Handler:
        """The handler, which runs once per key."""
        handle = self.own_handler()

        async def once(request: Request) -> Response:
            keys = read_headers(request, b"idempotency-key")
            return await _once(handle, request, _read(keys), self.from_memory) if keys else await handle(request)

        return once


def _read(values: Sequence[str]) -> str:
    if len(values) > 1 or not _KEY.fullmatch(values[0]):
        raise of_header(InvalidField, "Idempotency-Key", "must occur once, with 1 to 255 visible ASCII characters")
    return values[0]


async def _once(handle: Handler, request: Request, key: str, from_memory: bool) -> Response:
    here = await context_of(request)
    body = await bounded(request, here.settings.max_body_bytes)
    try:
        held = await run_in_thread(_reserve, here, key, request, body)
    except UNAVAILABLE:
        if not from_memory:
            raise
        return _ignoring(await handle(Request(request.scope, _again(body, request.receive))))
    if isinstance(held, StoredAnswer):
        return Response(unpack(held), held.status, {**held.headers, "Idempotency-Replayed": "true"})
    request = Request(request.scope, _again(body, request.receive))
    request.state.seed = held.seed
    renewing = asyncio.create_task(_renew(here, held))
    try:
        response = await handle(request)
    except Exception as error:
        with contextlib.suppress(*UNAVAILABLE):
            await _end(here, partial(_refused, here, held, error))
        raise
    finally:
        renewing.cancel()
    try:
        await _end(here, partial(_answered, here, held, response))
    except UNAVAILABLE:
        if not from_memory:
            raise
        return _ignoring(response)
    return response


def _ignoring(response: Response) -> Response:
    response.headers["Idempotency-Ignored"] = "true"
    return response


def _reserve(here: Context, key: str, request: Request, body: Body) -> Reservation | StoredAnswer:
    here.check_room()
    settings = here.settings
    return here.store.idempotency.reserve(
        key,
        _fingerprint(request, body, here.prefer),
        ttl=settings.idempotency_ttl,
        lease=settings.idempotency_lease,
    )


async def _renew(here: Context, held: Reservation) -> None:
    """Renew the lease of a request until cancelled."""
    lease = here.settings.idempotency_lease
    while True:
        await asyncio.sleep(lease / RENEWALS)
        with contextlib.suppress(*UNAVAILABLE):
            await run_in_thread(here.store.idempotency.renew, held, lease=lease)


async def _end(here: Context, end: Callable[[], None]) -> None:
    """End a reservation; if the store is unavailable, as soon as it is back, while the lease lasts."""
    try:
        await run_in_thread(end)
    except UNAVAILABLE:
        task = asyncio.create_task(_end_later(here, end))
        _ending.add(task)
        task.add_done_callback(_ending.discard)
        raise


async def _end_later(here: Context, end: Callable[[], None]) -> None:
    until = time.monotonic() + here.settings.idempotency_lease
    while time.monotonic() < until:
        await asyncio.sleep(_AGAIN_SECONDS)
        with contextlib.suppress(*UNAVAILABLE):
            await run_in_thread(end)
            return


def _fingerprint(request: Request, body: Body, prefer: Preferences) -> str:
    """A digest of what makes two requests equal: method, path, query, the headers that matter, and body.

    It includes the preference for a job, because a map fitted directly and one fitted by a job have different ids, and
    the header ``Accept`` unless it asks for JSON. Requests without the headers of ``_MEANT`` have the digest that they
    had before these were included, so keys in use stay valid.
    """
    parts: tuple[str, ...] = (
        request.method,
        request.url.path,
        request.url.query,
        read_header(request, b"content-type"),
        read_header(request, b"content-encoding"),
        "respond-async" if prefer.respond_async else "",
    )
    if (accept := read_header(request, b"accept")) not in ("", "*/*", "application/json"):
        parts += (accept,)
    meant = [(name, value) for name, value in request.scope["headers"] if name in _MEANT or name.startswith(b"ce-")]
    # The order of headers has a meaning only among those of one name.
    parts += tuple(f"{name.decode()}: {value.decode('latin-1')}" for name, value in sorted(meant, key=itemgetter(0)))
    digest = hashlib.sha256("\n".join(f"{len(part)} {part}" for part in parts).encode())
    digest.update(b"\n")
    digest.update(body)
    return digest.hexdigest()


def _answered(here: Context, held: Reservation, response: Response) -> None:
    """Store a response; after a server error, or if it is too large to store, a repeated request runs again."""
    store, ttl = here.store.idempotency, here.settings.idempotency_ttl
    headers = {name: response.headers[name] for name in _KEPT if name in response.headers}
    body = getattr(response, "body", None)  # streamed responses have none
    answer = None if body is None or response.status_code >= 500 else pack(response.status_code, headers, bytes(body))
    if answer is None:
        store.leave(held, ttl=ttl)
    else:
        store.settle(held, answer, ttl=ttl)


def _refused(here: Context, held: Reservation, error: Exception) -> None:
    """Release the key of a rejected request, which had no effect, so that a corrected request may use it."""
    store, ttl = here.store.idempotency, here.settings.idempotency_ttl
    if isinstance(error, CalibrationError | StorageError) and problem_of(error).status < 500:
        store.free(held, ttl=ttl)
    else:
        store.leave(held, ttl=ttl)


def _again(body: Body, receive: Receive) -> Receive:
    """Receive a body that was already read, then whatever follows it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return first.pop() if first else await receive()

    return received


# --- HEAD for every GET route: the same response without its body (RFC 9110, section 9.3.2)

#: Marks the scope of a HEAD request: an endless response need not start.
HEAD_ONLY = "calibrant.head"


class HeadAsGet:
    """ASGI middleware that processes HEAD as GET and drops the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # The server determines the body length by the method in its own scope.
        inner = {**scope, "method": "GET", HEAD_ONLY: True}
        try:
            await self._app(inner, receive, without_body)
        finally:
            # Outer middleware reads what the router sets.
            scope.update({name: inner[name] for name in _NOTED if name in inner})


_NOTED = ("route", "endpoint", "path_params")


# --- A shortcut around FastAPI for paths without parameters whose work is shorter than the overhead
#
# Route matching, dependency injection and FastAPI's context stacks take half of the time of a ``POST /calibrate`` of
# ten scores. The OpenAPI document and other methods still use FastAPI's route.


class Direct(Idempotent):
    """A route whose endpoint takes only the request."""

    def own_handler(self) -> Handler:
        """The endpoint itself."""
        return cast(Handler, self.endpoint)


class Shortcut:
    """ASGI middleware that calls the handlers of ``Direct`` routes itself."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        direct = [route for route in routes if isinstance(route, Direct)]
        self._handlers: dict[tuple[str, str], tuple[Handler, APIRoute]] = {
            (method, route.path): (route.get_route_handler(), route)
            for route in direct
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request of a direct route; pass on any other."""
        direct = self._handlers.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if direct is None:
            await self._app(scope, receive, send)
            return
        handle, scope["route"] = direct
        try:
            response = await handle(Request(scope, receive))
        except (CalibrationError, StorageError) as error:
            response = refused(error, scope)
        except UNAVAILABLE as error:
            response = unavailable_response(error)
        await response(scope, receive, send)
