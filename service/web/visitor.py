"""Who looks at a page, whether a request came from it, what every page shows, and what is refused."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

import calibrant
from schemas.keys import Scope as KeyScope
from schemas.problem_table import PREFIX, TABLE
from schemas.problems import Problem
from service.callers import STRANGER, Caller
from service.errors import ForgedRequest
from service.web.environment import render

#: The paths that people look at, and where refusals are shown as pages.
PAGES = "/ui/"


def is_page(path: str) -> bool:
    """Whether a path is a page rather than a call."""
    return path == "/" or path.startswith(PAGES)


class Place(NamedTuple):
    """A place of the navigation; ``inside`` is for those who may come in."""

    title: str
    path: str
    inside: bool = True


PLACES = (
    Place("Evaluate", "/", inside=False),
    Place("Maps", "/ui/maps"),
    Place("Jobs", "/ui/jobs"),
    Place("Compare", "/ui/compare"),
    Place("API docs", "/docs", inside=False),
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """What a page tells of who looks at it; ``token`` goes with every form, ``keyed`` is whether keys are in use."""

    caller: Caller
    path: str
    keyed: bool
    token: str | None = None

    @property
    def inside(self) -> bool:
        """Whether there is more to see than what everyone may."""
        return self.caller is not STRANGER

    def may(self, scope: KeyScope) -> bool:
        """Whether buttons that need a scope are worth showing."""
        return self.inside and self.caller.may(scope)

    @property
    def places(self) -> list[tuple[Place, bool]]:
        """The navigation, and where in it the page stands."""
        return [(place, self._stands_in(place)) for place in PLACES if self.inside or not place.inside]

    def _stands_in(self, place: Place) -> bool:
        return self.path == place.path or (place.path != "/" and self.path.startswith(place.path + "/"))


def visitor_of(scope: Scope, token: str | None = None) -> Visitor:
    """Who asks, as far as a request has got; ``token`` is for forms where there is no session."""
    state = scope.get("state", {})
    session = state.get("session")
    keyed = bool(scope["app"].state.process.keyring)
    return Visitor(state.get("caller", STRANGER), scope["path"], keyed, token if session is None else session.token)


def known(visitor: Visitor) -> dict[str, Any]:
    """What every template knows."""
    return {"visitor": visitor, "version": calibrant.__version__}


def is_of_htmx(headers: Headers) -> bool:
    """Whether htmx asks for a part of a page."""
    return headers.get("hx-request") == "true" and headers.get("hx-boosted") != "true"


# --- What is refused or fails on the web page

SIGN_IN = "/ui/sign-in"


def refusal(document: Problem, headers: Mapping[str, str] | None, scope: Scope) -> Response:
    """The page of a problem; of htmx the message alone; where nobody is signed in the way to do so."""
    sent = Headers(scope=scope)
    code = document.type.removeprefix(PREFIX)
    if code == "unauthorized":
        return _to_sign_in(scope, sent)
    values = known(visitor_of(scope)) | {"problem": document, "mend": TABLE[code].mend}
    template = "problem.html" if is_of_htmx(sent) else "refusal.html"
    return render(template, values, status=document.status, headers=headers)


def _to_sign_in(scope: Scope, sent: Headers) -> Response:
    """The way to sign in, and back to where the visitor wanted to go."""
    path, query = scope["path"], scope["query_string"].decode("latin-1")
    is_reading = scope["method"] == "GET" and not is_of_htmx(sent)
    wanted = (f"{path}?{query}" if query else path) if is_reading else "/"
    if is_reading and sent.get("sec-fetch-site") == "cross-site":
        # A link of another site: the browser kept the cookie back, and sends it when the page itself leads on.
        return render("onward.html", {"path": wanted})
    target = f"{SIGN_IN}?next={quote(wanted, safe='/')}"
    if is_of_htmx(sent):
        return Response(status_code=401, headers={"HX-Redirect": target, "Cache-Control": "no-store"})
    return Response(status_code=303, headers={"Location": target, "Cache-Control": "no-store"})


# --- Requests that another site would have a browser send in its user's name: known by their origin and their token

#: The header in which a script of the page sends its token.
HEADER = "X-CSRF-Token"


def check_origin(scope: Scope) -> None:
    """Refuse a request whose ``Origin`` is not this service under the name by which it was called.

    Every browser tells it with whatever is not a plain reading. The proxy before the service may have taken off TLS:
    ``https`` is right where ``http`` arrives, not the other way round. Raises ``ForgedRequest``.
    """
    headers = Headers(scope=scope)
    if not _is_own(headers.get("origin", ""), headers.get("host", ""), scope["scheme"]):
        raise ForgedRequest("the page's own forms alone are answered: Origin must be this service's")


def check_token(sent: str | None, known: str) -> None:
    """Refuse a request without the token that the page has; raises ``ForgedRequest``."""
    if sent is None or not hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), known.encode()):
        raise ForgedRequest("the page's token is missing or no longer known; load the page again and repeat")


def _is_own(origin: str, host: str, scheme: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return bool(host) and parts.netloc == host.lower() and parts.scheme in {"https", scheme}
