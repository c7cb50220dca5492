"""A service below a path of a proxy: everything that leads somewhere leads below that path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from calibrant.client import Calibrant
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.visiting import Visitor

ROOT = "/models/calibrant"
ROWS: dict[str, Any] = {"predictions": [0.1, 0.4, 0.6, 0.9] * 10, "labels": [0, 0, 1, 1, 0, 1, 0, 1] * 5}


@pytest.fixture
def below(redis: Redis, redis_url: str) -> Iterator[str]:
    """The address of the service, without the path of the proxy."""
    with serving(Settings(redis_url, root_path=ROOT)) as url:
        yield url


@pytest.mark.slow
def test_every_link_of_every_page_leads_below_the_root_path(below: str) -> None:
    with Visitor(below) as visitor, Calibrant(below + ROOT) as client:
        client.fit(**ROWS, method="platt", name="m")
        client.create_monitor("watch")
        sampled = visitor.submit(f"{ROOT}/ui/sample", {}, part=True)
        assert sampled.headers["hx-redirect"].startswith(f"{ROOT}/ui/")
        to_visit = [ROOT, f"{ROOT}/docs", sampled.headers["hx-redirect"]]
        visited: set[str] = set()
        while to_visit:
            path = to_visit.pop()
            if path in visited or path.startswith(
                f"{ROOT}/problems/"
            ):  # these pages are alike, and have relative links
                continue
            visited.add(path)
            answer = visitor.get(path)
            assert answer.status_code == 200, path
            if answer.headers["content-type"].startswith("text/html"):
                links = re.findall(r'(?<!value)="(/[^"]*)"', answer.text)
                assert [link for link in links if not link.startswith(ROOT)] == [], path
                base = httpx.URL(below + path)
                followed = re.findall(r' (?:href|src|hx-get)="(?!data:)([^"#]+)', answer.text)
                joined = [base.join(link.replace("&amp;", "&")) for link in followed]
                to_visit += [str(link.raw_path, "ascii") for link in joined if link.host == base.host]
        assert {f"{ROOT}/ui/maps/m", f"{ROOT}/ui/monitors/watch", f"{ROOT}/assets/page.css"} <= visited
        assert all(path.startswith(ROOT) for path in visited)


@pytest.mark.parametrize(
    "sent",
    [ROOT, pytest.param("", marks=pytest.mark.slow)],
    ids=["kept by the proxy", "removed by the proxy"],
)
def test_headers_and_the_openapi_document_name_the_root_path(below: str, sent: str) -> None:
    with httpx.Client(base_url=below + sent, timeout=600) as http:
        for _ in range(2):
            fitted = http.post("/maps", json=ROWS | {"method": "platt"})
            assert fitted.headers["location"].startswith(f"{ROOT}/maps/")
            assert httpx.get(below + fitted.headers["location"], timeout=600).status_code == 200
        pages = http.get("/maps", params={"limit": 1})
        assert pages.links["next"]["url"].startswith(f"{ROOT}/maps?")
        assert httpx.get(below + pages.links["next"]["url"], timeout=600).status_code == 200
        assert http.get("/openapi.json").json()["servers"] == [{"url": ROOT}]
        assert http.get("/health/ready").status_code == 200
        assert http.get("/v2/models/unknown").json().keys() == {"error"}


def test_a_visitor_is_sent_to_the_sign_in_page_below_the_root_path(redis: Redis, redis_url: str) -> None:
    key = ApiKeyStore(redis).create("visitor", tenant="default", scope="write").text
    with serving(Settings(redis_url, root_path=ROOT)) as url, Visitor(url) as visitor:
        refused = visitor.get(f"{ROOT}/ui/maps?name=m")
        assert (refused.status_code, refused.headers["location"]) == (
            303,
            f"{ROOT}/ui/sign-in?next=/ui/maps%3Fname%3Dm",
        )
        onward = visitor.get(f"{ROOT}/ui/maps", headers={"Sec-Fetch-Site": "cross-site"})
        assert f'content="0; url={ROOT}/ui/maps"' in onward.text
        form = {"key": key, "next": "/ui/maps?name=m"}
        signed_in = visitor.post(f"{ROOT}/ui/sign-in", data=form)
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, f"{ROOT}/ui/maps?name=m")
        assert visitor.get(signed_in.headers["location"]).status_code == 200
