"""Visitors of the page over HTTP: who signs in as a browser does, and sends the forms that a page holds."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from service.route_table import RouteTable

ROWS: dict[str, Any] = {"predictions": [0.1] * 20 + [0.9] * 20, "labels": [0, 0, 0, 1] * 5 + [1, 1, 1, 0] * 5}
_TOKEN = re.compile(r'<meta name="csrf-token" content="([^"]+)">')


class Visitor(httpx.Client):
    """A browser without scripts: it keeps cookies, tells its origin and follows nothing by itself."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(base_url=url, timeout=600, headers={"Origin": url}, **options)

    def sign_in(self, key: str, to: str = "/ui/maps") -> httpx.Response:
        """Send the form with a key."""
        return self.post("/ui/sign-in", data={"key": key, "next": to})

    def token(self, path: str = "/ui/maps") -> str:
        """What a page says to send with its forms."""
        match = _TOKEN.search(self.get(path).text)
        assert match is not None
        return html.unescape(match[1])

    def upload(
        self, content: bytes, name: str = "rows.csv", to: str = "/ui/upload", *, part: bool = False, **fields: Any
    ) -> httpx.Response:
        """Send the form with a file and the page's token; ``part`` as htmx does."""
        fields.setdefault("csrf_token", self.token("/"))
        headers = {"HX-Request": "true"} if part else {}
        return self.post(to, data=fields, files={"file": (name, content)}, headers=headers)

    def submit(self, path: str, fields: dict[str, str], *, part: bool = False) -> httpx.Response:
        """Send a form with the page's token; ``part`` as htmx does."""
        headers = {"HX-Request": "true"} if part else {}
        return self.post(path, data={"csrf_token": self.token(), **fields}, headers=headers)


def routes_of_pages() -> list[APIRoute]:
    """All routes of the web page."""
    routes: list[BaseRoute] = []
    RouteTable(routes).load_all()
    return [route for route in routes if isinstance(route, APIRoute) and route.path.startswith("/ui/")]


def message_beside(answer: httpx.Response, field: str) -> str:
    """The error beside a field of a form that was refused."""
    assert answer.status_code == 422, answer.text
    _, place, rest = answer.text.partition(f'id="{field}-hint" class="error"')
    assert place, answer.text
    return rest.partition("</p>")[0]


def hidden(text: str, form: str, name: str) -> str:
    """The value of a hidden field in the form whose button has this id."""
    before = text[: text.index(f'id="{form}"')]
    inside = before[before.rindex("<form") :]
    match = re.search(rf'name="{name}" value="([^"]*)"', inside)
    assert match is not None
    return html.unescape(match[1])
