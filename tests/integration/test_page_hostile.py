"""Every route of the page with hostile paths, queries, forms and files: an answer below 500, and nothing echoed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute
from redis import Redis

from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.visiting import ROWS, Visitor, routes_of_pages

pytestmark = pytest.mark.slow

#: Requests with hostile values to each route.
REQUESTS = 40
MARK = "<script>alert('hostile')</script>"
VALUES = (
    "", " ", "0", "-1", "1e400", "nan", "9" * 40, "true", "null", "[]", "{}", MARK, f'"{MARK}', "{{ 7 * 7 }}", "${x}",
    "../../etc/passwd", "%2e%2e%2f", "//evil.example", "javascript:alert(1)", "\x00", "\r\nX-Injected: 1", "\ud7ff",
    "a" * 5_000, "é" * 300, "champion", "spam", "spam:1", "spam@champion", "class:0", "pl", "2026-13-01", "P1D",
    "?", "*",
)  # fmt: skip
TEMPLATES = Path(__file__).parents[2] / "service" / "web" / "templates"
FIELDS = sorted(
    {name for path in TEMPLATES.glob("*.html") for name in re.findall(r'name="([\w-]+)"', path.read_text())}
)
FILES = (
    b"",
    b"\x00" * 100,
    b"p,y\n",
    b"p,y\n0.5,1\nx,0\n",
    b"PK\x03\x04" + b"\x00" * 50,
    b"PAR1PAR1",
    b"p,y\n" + b"9" * 9_999,
)


@pytest.fixture
def known(redis: Redis, redis_url: str) -> Iterator[tuple[Visitor, dict[str, str]]]:
    """A visitor of a service that has a map, a batch, a job and a monitor, and their names."""
    with serving(Settings(redis_url)) as url, Visitor(url) as visitor:
        names = {
            "ref": visitor.post("/maps", json=ROWS | {"method": "platt", "name": "spam"}).json()["id"],
            "batch_id": visitor.post("/batches", json=ROWS).json()["id"],
            "job_id": visitor.post("/maps", json=ROWS | {"method": "pl"}).json()["id"],
            "name": "spam",
            "alias": "champion",
            "monitor": "seen",
            "key": "volume",
            "rule": "calibration",
            "delivery_id": "del_0",
        }
        assert visitor.post("/monitors", json={"name": "seen"}).status_code == 201
        yield visitor, names


def test_no_hostile_request_to_the_page_is_a_500(
    known: tuple[Visitor, dict[str, str]],
) -> None:
    visitor, names = known
    routes = routes_of_pages()
    assert len(routes) > 25
    assert len(FIELDS) > 20
    draw = random.Random(7)
    token = visitor.token()
    statuses: dict[str, set[int]] = {}
    for route in routes:
        for method in sorted((route.methods or set()) - {"HEAD"}):
            for _ in range(REQUESTS):
                answer = _send(visitor, draw, method, route, names, token)
                statuses.setdefault(f"{method} {route.path}", set()).add(answer.status_code)
                assert answer.status_code < 500, f"{method} {answer.request.url}: {answer.status_code}"
                assert MARK not in answer.text, f"{method} {answer.request.url}"
                assert "x-injected" not in answer.headers
                assert answer.headers.get("location", "/").startswith("/")
                assert not answer.headers.get("location", "/").startswith("//")
    assert visitor.get("/health/ready").json()["status"] == "ok"
    # The names lead to what is there, so that the requests do not only test unknown names.
    reached = {route for route, seen in statuses.items() if seen & {200, 202, 303, 409, 422}}
    assert len(reached) >= 0.8 * len(statuses), statuses.keys() - reached


def _send(
    visitor: Visitor, draw: random.Random, method: str, route: APIRoute, names: dict[str, str], token: str
) -> httpx.Response:
    """Send one request: parts of the path known or hostile, queries and fields drawn from all that the page has."""

    def part(match: re.Match[str]) -> str:
        name = names["monitor" if "monitors" in route.path and match[1] == "name" else match[1]]
        return quote(name if draw.random() < 0.7 else draw.choice(VALUES) or "-", safe="")

    path = re.sub(r"\{([^}:]+)[^}]*\}", part, route.path)
    queries = {draw.choice(FIELDS): draw.choice(VALUES) for _ in range(draw.randrange(4))}
    queries |= {field.alias: draw.choice(VALUES) for field in route.dependant.query_params if draw.random() < 0.5}
    if method == "GET":
        with visitor.stream(method, path, params=queries) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
            else:
                answer._content = b""  # an endless stream of events: its status is enough
        return answer
    fields = {"csrf_token": token} | {draw.choice(FIELDS): draw.choice(VALUES) for _ in range(draw.randrange(8))}
    fields["csrf_token"] = token
    if draw.random() < 0.5:
        file = (draw.choice(["x.csv", "x.parquet", "x.npz", MARK, "../x"]), draw.choice(FILES))
        return visitor.post(path, params=queries, data=fields, files={"file": file})
    return visitor.post(path, params=queries, data=fields)
