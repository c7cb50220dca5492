"""Signing in with an API key, and signing out."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from service.calls import Call
from service.sessions import drop_cookie, set_cookie
from service.web.forms import Form, page_calls, text_of
from service.web.visit import Visit, Visiting

calls = page_calls()

#: Paths that a sign-in may redirect to: only the page's own.
_WITHIN = re.compile(r"/(ui/[\w.~@:%/-]*(\?[\w.~@:%/&=+-]*)?)?", re.ASCII)
_REFUSED = "This is not a valid API key. It may be incomplete, expired or revoked."


class _Refusal(NamedTuple):
    """The reason for a rejected sign-in: the status, and the message next to the field."""

    status: int
    message: str
    headers: dict[str, str]


@calls.add(Call("GET", "/ui/sign-in", access="personal"))
async def sign_in(request: Request, visit: Visiting) -> Response:
    """The sign-in form; redirects if no sign-in is needed."""
    wanted = _within(request.query_params.get("next", "/"))
    if visit.visitor.inside:
        return RedirectResponse(wanted, 303)
    return visit.page("sign_in.html", wanted=wanted, refused=None)


@calls.add(Call("POST", "/ui/sign-in", access="personal"))
async def post_sign_in(request: Request, visit: Visiting, form: Form) -> Response:
    """Open a session for a valid key."""
    wanted = _within(text_of(form, "next"))
    if not visit.visitor.keyed:
        return RedirectResponse(wanted, 303)
    sessions = visit.here.process.sessions
    refused = _over_the_rate(visit)
    text = None if refused else await sessions.open(text_of(form, "key"))
    if text is None:
        status, message, headers = refused or _Refusal(403, _REFUSED, {})
        return visit.page("sign_in.html", status=status, headers=headers, wanted=wanted, refused=message)
    await sessions.end(request.scope)
    answer = RedirectResponse(wanted, 303, {"Cache-Control": "no-store"})
    set_cookie(answer, request.scope, text)
    return answer


@calls.add(Call("POST", "/ui/sign-out", access="personal"))
async def post_sign_out(request: Request, visit: Visiting) -> Response:
    """End the session in the store and in the browser."""
    await visit.here.process.sessions.end(request.scope)
    answer = RedirectResponse("/", 303, {"Cache-Control": "no-store"})
    drop_cookie(answer, request.scope)
    return answer


def _over_the_rate(visit: Visit) -> _Refusal | None:
    """The error for an address with too many attempts in this minute, if any."""
    most = visit.here.settings.sign_in_rate
    if not most:
        return None
    allowance = visit.here.process.rates.admit(f"sign-in {peer_of(visit.request)}", most)
    if allowance.allowed:
        return None
    message = f"Too many attempts from this address. Try again in {allowance.reset} seconds."
    return _Refusal(429, message, {"Retry-After": str(allowance.reset)})


def peer_of(request: Request) -> str:
    """The address whose attempts are counted together; for IPv6 the /64 network of one subscriber."""
    host = "" if request.client is None else request.client.host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host


def _within(path: str) -> str:
    return path if _WITHIN.fullmatch(path) and "//" not in path else "/"
