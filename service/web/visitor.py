"""Visitors of the pages: who they are, whether a request came from the page, and how errors are shown."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

import calibrant
from schemas.keys import Scope as KeyScope
from schemas.problem_table import TABLE
from schemas.problems import Problem
from service.callers import STRANGER, Caller
from service.errors import ForgedRequest

if TYPE_CHECKING:
    from jinja2 import Environment

# --- Templates and their responses: escaped, not cached, and limited to this service's own files

#: Only the service's own scripts and styles; images may also be data URLs, which cannot run code.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer, because browsers then send "null" as the origin of a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Pages contain data of a tenant: no cache and no other user of the browser may see them.
    "Cache-Control": "no-store",
    "Vary": "Cookie, HX-Request",
}


@cache
def environment() -> Environment:
    """The template environment, created once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from service.web.text import FILTERS

    created = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    created.filters |= FILTERS
    return created


#: The beginning of each path in a page. Values never match, because their quotes are escaped.
_PATH = re.compile(r'( (?:href|src|action|hx-get|hx-post|sse-connect)="|content="0; url=)/')


def render(
    template: str, values: Mapping[str, Any], *, root: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Render a template as a response, whose links are below ``root``."""
    text = environment().get_template(template).render(values)
    if root:
        text = _PATH.sub(rf"\1{root}/", text)
    return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})


# --- Visitors of the pages: who they are, whether a request came from the page, and how errors are shown

#: Prefix of the pages, where errors are shown as HTML.
PAGES = "/ui/"


def is_page(scope: Scope) -> bool:
    """Whether a request is for a page rather than an API endpoint."""
    path: str = scope["path"]
    return (path == "/" or path.startswith(PAGES)) and bool(scope["app"].state.process.has_pages)


class NavigationEntry(NamedTuple):
    """An entry of the navigation; one with a ``scope`` needs a visitor who is signed in with a key that has it."""

    title: str
    path: str
    scope: KeyScope | None = None


PLACES = (
    NavigationEntry("Evaluate", "/"),
    NavigationEntry("Reports", "/ui/reports", "maps:read"),
    NavigationEntry("Maps", "/ui/maps", "maps:read"),
    NavigationEntry("Monitors", "/ui/monitors", "monitors:read"),
    NavigationEntry("Jobs", "/ui/jobs", "maps:read"),
    NavigationEntry("API docs", "/docs"),
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """The visitor of a page.

    ``token`` is part of every form, ``keyed`` is whether the service uses keys, ``root`` is where a proxy serves it.
    """

    caller: Caller
    path: str
    keyed: bool
    root: str
    token: str | None = None

    @property
    def inside(self) -> bool:
        """Whether the visitor may see more than the open pages."""
        return self.caller is not STRANGER

    def may(self, scope: KeyScope) -> bool:
        """Whether to show buttons that need a scope."""
        return self.inside and self.caller.may(scope)

    @property
    def places(self) -> list[tuple[NavigationEntry, bool]]:
        """The entries of the navigation, each with whether it is the current page."""
        return [(place, self._stands_in(place)) for place in PLACES if place.scope is None or self.may(place.scope)]

    def _stands_in(self, place: NavigationEntry) -> bool:
        return self.path == place.path or (place.path != "/" and self.path.startswith(place.path + "/"))


def visitor_of(scope: Scope, token: str | None = None) -> Visitor:
    """The visitor of a request; ``token`` is for forms without a session."""
    state = scope.get("state", {})
    session = state.get("session")
    keyed = bool(scope["app"].state.process.keyring)
    token = token if session is None else session.token
    return Visitor(state.get("caller", STRANGER), scope["path"], keyed, scope.get("app_root_path", ""), token)


def known(visitor: Visitor) -> dict[str, Any]:
    """Values that every template uses."""
    return {"visitor": visitor, "version": calibrant.__version__}


def is_of_htmx(headers: Headers) -> bool:
    """Whether htmx requests a part of a page."""
    return headers.get("hx-request") == "true" and headers.get("hx-boosted") != "true"


# --- Errors on the web page

SIGN_IN = "/ui/sign-in"
#: Remedies in terms of the forms of the page, instead of those in terms of the API.
_REMEDIES = {
    "output-shape-changed": "Use another name, or select “Allow another output shape than earlier versions” and try "
    "again."
}


def refusal(document: Problem, headers: Mapping[str, str] | None, scope: Scope) -> Response:
    """The page of a problem; for htmx only the message; a redirect to the sign-in page if no one is signed in."""
    sent = Headers(scope=scope)
    code = document.code
    if code == "unauthorized":
        return _to_sign_in(scope, sent)
    visitor = visitor_of(scope)
    values = known(visitor) | {"problem": document, "remedy": _REMEDIES.get(code, TABLE[code].remedy)}
    template = "problem.html" if is_of_htmx(sent) else "refusal.html"
    return render(template, values, root=visitor.root, status=document.status, headers=headers)


def _to_sign_in(scope: Scope, sent: Headers) -> Response:
    """Redirect to the sign-in page, which then leads back."""
    path, query = scope["path"], scope["query_string"].decode("latin-1")
    is_reading = scope["method"] == "GET" and not is_of_htmx(sent)
    wanted = (f"{path}?{query}" if query else path) if is_reading else "/"
    if is_reading and sent.get("sec-fetch-site") == "cross-site":
        # After a link from another site, the browser withholds the cookie, but sends it when our own page redirects.
        return render("onward.html", {"path": wanted}, root=scope.get("app_root_path", ""))
    target = f"{SIGN_IN}?next={quote(wanted, safe='/')}"
    if is_of_htmx(sent):
        return Response(status_code=401, headers={"HX-Redirect": target, "Cache-Control": "no-store"})
    return Response(status_code=303, headers={"Location": target, "Cache-Control": "no-store"})


# --- Cross-site request forgery: checks of origin and token

#: The header in which scripts of the page send the token.
HEADER = "X-CSRF-Token"


def check_origin(scope: Scope) -> None:
    """Reject a request whose ``Origin`` is not this service, under the host name of the request.

    Browsers send ``Origin`` with every request that is not a plain read. A proxy may terminate TLS, so an ``https``
    origin is accepted for an ``http`` request, but not the reverse. Raises ``ForgedRequest``.
    """
    headers = Headers(scope=scope)
    if not _is_own(headers.get("origin", ""), headers.get("host", ""), scope["scheme"]):
        raise ForgedRequest("the request must come from a page of this service (Origin header)")


def check_token(sent: str | None, known: str) -> None:
    """Reject a request without the token of the page; raises ``ForgedRequest``."""
    if sent is None or not hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), known.encode()):
        raise ForgedRequest("the token of the page is missing or has expired; reload the page and try again")


def _is_own(origin: str, host: str, scheme: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return bool(host) and parts.netloc == host.lower() and parts.scheme in {"https", scheme}
