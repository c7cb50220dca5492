"""What one request may take: so many seconds, and one of few places for heavy work."""

from __future__ import annotations

import asyncio
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import Busy, DeadlineExceeded, TooSlow
from service.problems import respond
from storage.problems import problem_of

#: Seconds after which a caller may try again where all places are taken.
_RETRY_AFTER = "1"
#: The methods whose requests have no body.
_WITHOUT_BODY = ("GET", "HEAD")


class Places:
    """The places for heavy work, of which a request holds at most one until it ends."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._counting = Lock()

    def take(self, scope: Scope) -> None:
        """Take a place for a request that has none yet; raises ``Busy`` where none is free."""
        state = scope["state"]
        if state.get("holds_place"):
            return
        with self._counting:
            if not self._free:
                raise Busy("as many heavy requests are under way as this service takes").with_headers(
                    {"Retry-After": _RETRY_AFTER}
                )
            self._free -= 1
        state["holds_place"] = True

    @staticmethod
    def take_for(scope: Scope) -> None:
        """Take a place for a request that turns out to be heavy; raises ``Busy``."""
        places: Places = scope["state"]["places"]
        places.take(scope)

    def give_back(self, scope: Scope) -> None:
        """Give back the place that a request holds, if it does."""
        if scope["state"].pop("holds_place", False):
            with self._counting:
                self._free += 1


class Guard:
    """ASGI middleware that answers with a problem where a request takes longer than ``seconds``.

    Work that a thread has begun goes on unheard, and holds its place until it ends, or sees that its request
    ``is_over``. An answer that has begun, such as a stream of events, may take as long as it likes.
    """

    def __init__(self, app: ASGIApp, *, seconds: float, places: Places) -> None:
        self._app = app
        self._seconds = seconds
        self._places = places

    @staticmethod
    def is_over(scope: Scope) -> bool:
        """Whether a request has been answered in the application's place."""
        return bool(scope.get("state", {}).get("is_over", False))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request under its deadline."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["places"] = self._places
        watched = _Watched(scope, receive, send)
        alarm = asyncio.get_running_loop().call_later(self._seconds, watched.expire)
        try:
            await self._app(scope, watched.receive, watched.send)
        finally:
            alarm.cancel()
            self._places.give_back(scope)


class _Watched:
    """One request's channel, closed to the application once its deadline has passed."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body_ended = scope["method"] in _WITHOUT_BODY  # of which nobody asks for the body
        self._else = "less" if self._body_ended else "it as a job"
        self._answer_begun = False
        self._refusal: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._body_ended = True
        return message

    async def send(self, message: Message) -> None:
        if self._refusal is None:
            self._answer_begun = True
            await self._send(message)

    def expire(self) -> None:
        """Answer in the application's place, unless it has begun to."""
        if self._answer_begun:
            return
        self._scope["state"]["is_over"] = True
        error = (
            DeadlineExceeded(f"the answer was not there in time; ask for {self._else}")
            if self._body_ended
            else TooSlow("the body was not there in time")
        )
        response = respond(problem_of(error), {"Connection": "close", "Retry-After": _RETRY_AFTER})
        self._refusal = asyncio.ensure_future(response(self._scope, self._receive, self._send))
