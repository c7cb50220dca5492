"""Templates and their responses: escaped, not cached, and limited to this service's own files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from jinja2 import Environment

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
