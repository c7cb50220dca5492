"""Signing in on the page with an API key, and out."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from service.callers import drop_cookie, set_cookie
from service.web.forms import Form, page_router, text_of
from service.web.visit import Visit, Visiting

router = page_router()

#: Where the page leads after signing in: its own paths alone.
_WITHIN = re.compile(r"/(ui/[\w.~@:%/-]*(\?[\w.~@:%/&=+-]*)?)?", re.ASCII)
_REFUSED = "This is not a live API key. It is one that was cut off, has expired or was revoked, or none at all."


class _Refusal(NamedTuple):
    """Why nobody was signed in: the status, and the message next to the field."""

    status: int
    message: str
    headers: dict[str, str]


@router.get("/sign-in")
async def sign_in(request: Request, visit: Visiting) -> Response:
    """The form; for whoever needs none the way on."""
    wanted = _within(request.query_params.get("next", "/"))
    if visit.visitor.inside:
        return RedirectResponse(wanted, 303)
    return visit.page("sign_in.html", wanted=wanted, refused=None)


@router.post("/sign-in")
async def post_sign_in(request: Request, visit: Visiting, form: Form) -> Response:
    """Open a session for a live key."""
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


@router.post("/sign-out")
async def post_sign_out(request: Request, visit: Visiting) -> Response:
    """End the session, in the store and in the browser."""
    await visit.here.process.sessions.end(request.scope)
    answer = RedirectResponse("/", 303, {"Cache-Control": "no-store"})
    drop_cookie(answer, request.scope)
    return answer


def _over_the_rate(visit: Visit) -> _Refusal | None:
    """Why an address may not try again now, if so: it has tried too often in this minute."""
    most = visit.here.settings.sign_in_rate
    if not most:
        return None
    allowance = visit.here.process.rates.admit(f"sign-in {peer_of(visit.request)}", most)
    if allowance.allowed:
        return None
    message = f"Too many attempts from this address; try again in {allowance.reset} seconds."
    return _Refusal(429, message, {"Retry-After": str(allowance.reset)})


def peer_of(request: Request) -> str:
    """Whose attempts are counted together: an address, of IPv6 the network that one subscriber has."""
    host = "" if request.client is None else request.client.host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host


def _within(path: str) -> str:
    return path if _WITHIN.fullmatch(path) and "//" not in path else "/"
