"""HEAD wherever GET is: the same answer without its body (RFC 9110, 9.3.2)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: What the scope of a HEAD holds: an answer without an end need not begin.
HEAD_ONLY = "calibrant.head"


class HeadAsGet:
    """ASGI middleware that has a HEAD answered as a GET, and keeps the body back."""

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

        # The server measures the answer by the method of its own scope.
        inner = {**scope, "method": "GET", HEAD_ONLY: True}
        try:
            await self._app(inner, receive, without_body)
        finally:
            # What the router noted is read by those around.
            scope.update({name: inner[name] for name in _NOTED if name in inner})


_NOTED = ("route", "endpoint", "path_params")
