"""Access control: with API keys each caller acts in the key's tenant; without keys only local requests are served."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.store.budget import Budget
from backend.store.errors import StoreFull, problem_of
from backend.store.link import Link
from backend.store.server.connection import UNAVAILABLE, StoreRefuses
from schemas.keys import KEY_PREFIX
from schemas.problem_table import problem
from service.callers import LOCAL, STRANGER, Caller, Keyring, require_scope
from service.error_handlers import unavailable_response
from service.errors import (
    Forbidden,
    ForeignOrigin,
    InvalidToken,
    IssuerUnavailable,
    RateLimited,
    RequestError,
    Unauthorized,
)
from service.guard import Starts
from service.issuer import Issuer
from service.last_known import LastKnown
from service.problems import RETRY_AFTER, refused, respond
from service.rates import Rates, RequestAllowance
from service.route_table import RouteTable
from service.sessions import Sessions, SignedIn, cookie_of
from service.settings import is_loopback
from service.threads import work_for
from service.web.visitor import HEADER, PAGES, check_origin, check_token

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_READING = ("GET", "HEAD", "OPTIONS")
#: Refusals that no other API key would change, so that they do not depend on whether the keys are known.
_CERTAIN = (Forbidden, InvalidToken, IssuerUnavailable, RateLimited)


class Access:
    """ASGI middleware that rejects unauthorized requests before their body is read, and identifies the caller.

    The scope's state contains the caller as ``caller``, and the session of a signed-in user of the web page as
    ``session``.
    """

    def __init__(
        self,
        app: ASGIApp,
        table: RouteTable,
        keyring: Keyring,
        link: Link,
        last_known: LastKnown,
        rates: Rates,
        sessions: Sessions,
        budget: Budget,
        issuer: Issuer | None = None,
        *,
        rate_limit: int,
        origins: Collection[str] = (),
    ) -> None:
        self._app = app
        self._table = table
        self._keyring = keyring
        self._link = link
        self._last_known = last_known
        self._rates = rates
        self._sessions = sessions
        self._budget = budget
        self._issuer = issuer
        self._rate_limit = rate_limit
        self._starts = Starts()
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or respond with its problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        table, method, path = self._table, scope["method"], scope["path"]
        await table.load(path)
        is_visit = table.is_personal(path) and self._may_be_signed_in(scope)
        is_free = table.is_open(path) and not is_visit
        waits = self._needs_link(method, path, is_free=is_free) and not self._link.fresh
        is_stale = waits and table.works_from_memory(path) and self._last_known.usable
        if waits and not is_stale and not await self._link.settled(self._link.patience):
            await self._away()(scope, receive, send)
            return
        allowance: RequestAllowance | None = None
        session: SignedIn | None = None
        try:
            if is_free and (self._keyring or not (table.needs_store(path) or self._link.reached)):
                caller = STRANGER
            elif is_visit and self._keyring:
                session = await self._sessions.find(scope)
                caller = STRANGER if session is None else session.caller
            elif self._keyring:
                session = await self._signed_in(scope, path)
                caller = await self._bearer(scope) if session is None else session.caller
                require_scope(caller, table.needed_scope(method, path))
                allowance = self._counted(caller)
            else:
                caller = self._local(scope)
        except UNAVAILABLE as error:
            await (unavailable_response(error) if isinstance(error, StoreRefuses) else self._away())(
                scope, receive, send
            )
            return
        except RequestError as refusal:
            if not self._link.reached and not isinstance(refusal, _CERTAIN):
                # The API keys are not known yet, or were those of an earlier process.
                await self._away()(scope, receive, send)
                return
            await respond(problem_of(refusal), refusal.headers)(scope, receive, send)
            return
        if table.stores(method, path):
            try:
                self._budget.check(caller.tenant)
            except StoreFull as full:
                await refused(full)(scope, receive, send)
                return
        scope.setdefault("state", {}).update(caller=caller, session=session)
        if is_stale:
            scope["state"]["stale_seconds"] = int(self._link.age)
        work_for(scope)
        await self._starts.wait(caller.tenant)
        await self._app(scope, receive, self._sender(send, allowance, table.changes_maps(method, path)))

    def _sender(self, send: Send, allowance: RequestAllowance | None, changes_maps: bool) -> Send:
        if allowance is not None:
            send = _with_rate_headers(allowance, send)
        return _after_changes(self._link, send) if changes_maps else send

    def _may_be_signed_in(self, scope: Scope) -> bool:
        """Whether an open page may be personal: there is a cookie, or it is not yet known whether keys are in use."""
        return cookie_of(scope) is not None if self._keyring else not self._link.reached

    def _needs_link(self, method: str, path: str, *, is_free: bool) -> bool:
        if is_free:
            return False
        storeless = method in ("GET", "HEAD") and not self._table.needs_store(path)
        return not storeless or bool(self._keyring) or not self._link.reached

    def _away(self) -> Response:
        if self._link.refusal is not None:
            return respond(problem_of(self._link.refusal), {"Retry-After": RETRY_AFTER})
        unavailable_response = problem("store-unavailable", "Redis cannot be reached")
        return respond(unavailable_response, {"Retry-After": RETRY_AFTER})

    async def _signed_in(self, scope: Scope, path: str) -> SignedIn | None:
        """The session of the web page, if the request has no key; changes must come from the page itself."""
        if "authorization" in Headers(scope=scope):
            return None
        session = await self._sessions.find(scope)
        # The routes of the page check the token themselves: without scripts it is in the form.
        if session is not None and scope["method"] not in _READING and not path.startswith(PAGES):
            check_origin(scope)
            check_token(Headers(scope=scope).get(HEADER), session.token)
        return session

    async def _bearer(self, scope: Scope) -> Caller:
        """The caller of an API key, which begins with its prefix, or of a token of the issuer.

        No token begins like a key: its header would not be a JSON object.
        """
        sent = Headers(scope=scope).getlist("authorization")
        kind, _, key = (sent[0] if len(sent) == 1 else "").partition(" ")  # of several, it is not clear who calls
        if kind.lower() == "bearer" and self._issuer is not None and not key.strip().startswith(f"{KEY_PREFIX}_"):
            return await self._issuer.identify(key.strip())
        caller = self._keyring.find(key.strip())
        if caller is None or kind.lower() != "bearer":
            refusal = Unauthorized("send a valid API key: Authorization: Bearer KEY")
            raise refusal.with_headers({"WWW-Authenticate": "Bearer"})
        return caller

    def _counted(self, caller: Caller) -> RequestAllowance | None:
        limit = self._rate_limit if caller.rate_limit is None else caller.rate_limit
        if not limit or caller.key_id is None:
            return None
        allowance = self._rates.admit(caller.key_id, limit)
        if not allowance.allowed:
            raise RateLimited(f"the key may send {limit} requests per minute").with_headers(
                allowance.headers() | {"Retry-After": str(allowance.reset)}
            )
        return allowance

    def _local(self, scope: Scope) -> Caller:
        """Reject requests of web pages: a browser page can reach this service, but not with a local host and origin."""
        host = origin = None
        for name, value in scope["headers"]:  # once, for both
            if name == b"host" and host is None:
                host = value.decode("latin-1")
            elif name == b"origin" and origin is None:
                origin = value.decode("latin-1")
        peer = scope.get("client")
        if _host_of(f"//{host or ''}") not in LOCAL_HOSTS or (peer is not None and not is_loopback(peer[0])):
            raise ForeignOrigin(
                "without API keys, only requests to 127.0.0.1, localhost or [::1] from this machine are allowed"
            )
        if origin is not None and origin not in self._origins and _host_of(origin) not in LOCAL_HOSTS:
            raise ForeignOrigin("without API keys, requests from other origins are not allowed")
        return LOCAL


def _with_rate_headers(allowance: RequestAllowance, send: Send) -> Send:
    async def add_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in allowance.headers().items():
                headers[name] = value
        await send(message)

    return add_headers


def _after_changes(link: Link, send: Send) -> Send:
    """Respond once this process has received the changes of the request, so that the next one finds them."""

    async def catch_up(message: Message) -> None:
        if message["type"] == "http.response.start":
            await link.catch_up()
        await send(message)

    return catch_up


@lru_cache(maxsize=1024)
def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
