"""The pages of the service: what they say, what they load, and what they may."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import httpx
import pytest

from calibrant.calibrators import METHODS
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from schemas.problem_table import TABLE
from service.assets import Assets
from tests.integration.responses import body_of, code_of

ASSETS = Path(__file__).parents[2] / "service" / "assets"
PAGES = ("/", "/docs", "/problems", "/problems/out-of-range")


def _loads(text: str) -> list[str]:
    return re.findall(r'(?:src|href|action|data)="([^"]*)"', text)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_a_page_links_to_this_service_alone_and_every_link_leads_somewhere(http: httpx.Client, path: str) -> None:
    answer = http.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = _loads(answer.text)
    assert links
    for link in links:
        assert "//" not in link
        target = http.get(str(answer.url.join(link)))
        assert target.status_code == 200 or "POST" in target.headers.get("allow", ""), link  # where a form is sent


@pytest.mark.parametrize("path", PAGES)
def test_a_page_may_run_no_script_but_the_services_own(http: httpx.Client, path: str) -> None:
    answer = http.get(path, headers={"Accept": "text/html"})
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy.get("script-src", "'none'") == ("'self'" if path in ("/", "/docs") else "'none'")
    assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|<style|\sstyle=", answer.text)


def test_the_page_of_the_calls_reads_this_services_document(http: httpx.Client) -> None:
    assert 'url: "openapi.json"' in http.get("/assets/docs.js").text
    assert http.get("/openapi.json").json()["info"]["title"] == "Calibrant"


def test_the_openapi_document_is_built_once_and_304_with_its_tag(http: httpx.Client) -> None:
    first = http.get("/openapi.json")
    tag = {"If-None-Match": first.headers["etag"]}
    assert http.get("/openapi.json").headers["etag"] == first.headers["etag"]
    known = http.get("/openapi.json", headers=tag)
    assert (known.status_code, known.content) == (304, b"")
    assert http.head("/openapi.json").headers["content-length"] == first.headers["content-length"]
    assert http.post("/openapi.json").status_code == 405


@pytest.mark.parametrize(("name", "entries"), [("measures", MEASURES), ("diagrams", DIAGRAMS), ("methods", METHODS)])
def test_the_front_page_leads_to_catalogues_for_people(
    http: httpx.Client, name: str, entries: dict[str, object]
) -> None:
    assert f'href="/ui/{name}"' in http.get("/", headers={"Accept": "text/html"}).text
    answer = http.get(f"/ui/{name}", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert re.findall(r'<h2 id="([^"]+)">', answer.text) == list(entries)
    assert all(f'href="#{entry}"' in answer.text for entry in entries)
    assert f'href="/{name}">The catalogue as JSON' in answer.text


def test_every_type_of_a_problem_leads_to_its_cause_and_its_remedy(http: httpx.Client) -> None:
    for code, row in TABLE.items():
        document = http.get(f"/problems/{code}", headers={"Accept": "application/json"}).json()
        assert document == {"type": f"/problems/{code}", "code": code, **row._asdict()}
        page = http.get(f"/problems/{code}", headers={"Accept": "text/html"}).text
        assert f"<dd>{row.status}</dd>" in page
    every = http.get("/problems", headers={"Accept": "application/json"}).json()
    assert [document["code"] for document in every["items"]] == list(TABLE)
    assert http.get("/problems/nothing").json()["type"] == "/problems/not-found"
    assert "&lt;" not in http.get("/problems/nothing%3Cb%3E").text


def test_assets_are_cached_checked_and_alone_in_their_folder(http: httpx.Client) -> None:
    script = http.get("/assets/swagger-ui-bundle.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "max-age" in script.headers["cache-control"]
    again = http.get("/assets/swagger-ui-bundle.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("__init__.py", "README.md", "", "..%2Fapp.py", "swagger-ui.LICENSE"):
        refused = http.get(f"/assets/{path}")
        assert code_of(refused) == (404, "not-found"), path
    assert http.post("/assets/docs.js").status_code == 405


def test_the_vendored_files_have_the_digests_of_the_readme(http: httpx.Client) -> None:
    digests = dict(re.findall(r"\| `(\S+)` \| `([0-9a-f]{64})` \|", (ASSETS / "README.md").read_text("utf-8")))
    assert len(digests) == 5
    for name, digest in digests.items():
        assert hashlib.sha256(http.get(f"/assets/{name}").content).hexdigest() == digest, name
    assert Assets().directory == ASSETS


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/", "/docs", "/openapi.json", "/measures"])
def test_head_is_answered_as_get_without_a_body(http: httpx.Client, path: str) -> None:
    head, get = http.head(path), http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == get.headers[name]


def test_a_405_lists_every_method_of_the_path(http: httpx.Client) -> None:
    paths = {"/batches/x": "HEAD, GET, DELETE", "/evaluate": "POST", "/health/live": "HEAD, GET"}
    for path, allowed in (paths | {"/assets/docs.js": "HEAD, GET"}).items():
        refused = http.patch(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
        assert refused.json()["detail"] == f"this path supports the methods {allowed}"
    assert http.head("/evaluate").status_code == 405


def test_a_trailing_slash_is_404_and_not_redirected(http: httpx.Client) -> None:
    refused = body_of(http.get("/measures/"), 404)
    assert refused["detail"] == "there is nothing at this path; remove the slash at its end"
    assert http.get("/nothing").json()["detail"] == "there is nothing at this path; GET /docs lists the endpoints"
