"""Templates and the answers that they become: escaped, never stored, and loading nothing but this service's files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from service.web.text import FILTERS

#: No script and no style but the service's own files; pictures may also be data, which run nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it a browser tells the origin of a form as null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # What is shown is a tenant's own: no cache and no other visitor of the browser may have it.
    "Cache-Control": "no-store",
    "Vary": "Cookie, HX-Request",
}


@cache
def environment() -> Environment:
    """The templates, read once."""
    found = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= FILTERS
    return found


def load() -> None:
    """Compile every template: what a page extends and includes would else be compiled by its first visitor."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def render(
    template: str, values: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """The answer that a template gives."""
    text = environment().get_template(template).render(values)
    return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})
