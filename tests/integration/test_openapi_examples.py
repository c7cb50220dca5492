"""Every example of the OpenAPI document, sent to the real service: it is answered as the document shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis

from benchmarks.examples.record import admitting, record, settled
from benchmarks.examples.refusals import REFUSALS
from calibrant.client import Calibrant
from schemas.keys import WRITING
from schemas.problem_table import TABLE
from service.examples import answer_of, problem_example
from service.examples.calls import Example, all_examples
from service.formats.catalogue import FORMATS
from service.route_table import RouteTable
from service.stack import Stack
from tests.integration.redis_server import until_ready
from tests.warm_service import stack

#: Brought about by no single request, or only by a service that is set up otherwise.
NOT_BY_A_REQUEST = {
    "bad-request", "unauthorized", "too-large", "calibration-error", "no-labels", "quota-exceeded", "map-in-use",
    "forged-request", "batch-in-use", "store-full", "too-many-jobs", "queue-full", "precondition-failed",
    "storage-error", "embedded-store-failed", "worker-lost", "internal-error", "unsuitable-store", "store-unavailable",
    "forbidden", "rate-limited", "request-timeout", "deadline-exceeded", "busy", "unknown-key", "key-conflict",
    "too-many-requests", "folder-in-use", "malformed-encoding",
    "job-final", "job-cancelled", "batch-full", "too-many-streams", "idempotency-conflict",
    "idempotency-in-progress", "time-limit", "run-lost", "later-format", "damaged-backup", "store-not-empty",
    "no-bins", "url-too-long",
    "headers-too-large", "unsupported-transfer-coding", "stopping", "too-many-connections", "spool-full",
    "job-not-final", "invalid-token", "issuer-unavailable",
    "source-unreadable", "source-changed", "source-too-large", "target-exists", "engine-unavailable",
    "monitor-full", "proposal-outdated", "unknown-delivery", "unknown-hook", "extra-not-installed",
    # Bodies that are not text cannot be shown.
    *({body_format.malformed.code for body_format in FORMATS} - {"malformed-json", "malformed-npz"}),
}  # fmt: skip

pytestmark = pytest.mark.slow

Answers = list[tuple[Example, httpx.Response]]


@pytest.fixture(scope="module")
def seen() -> Answers:
    return []


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Stack]:
    """A service of its own with the default quotas, which the examples show."""
    with (
        (folder / "examples.log").open("ab") as log,
        stack(
            host="127.0.0.1",
            port=0,
            data=folder / "examples",
            log=log,
            inherited=admitting() | {"CALIBRANT_STORE_TIMEOUT": "60"},
        ) as running,
    ):
        until_ready(running.url)
        yield running


@pytest.fixture(scope="module")
def recorded(service: Stack, seen: Answers) -> dict[str, Any]:
    with httpx.Client(base_url=service.url, timeout=600) as http, Calibrant(service.url) as client:
        return record(http, client.wait, lambda example, answer: seen.append((example, answer)))


def test_every_example_is_answered_with_its_status(recorded: dict[str, Any], seen: Answers) -> None:
    assert [e for e, _ in seen] == [*all_examples(), *REFUSALS]
    assert [(e.call, e.name, a.status_code) for e, a in seen] == [(e.call, e.name, e.status) for e, _ in seen]


def test_every_example_answers_what_the_document_shows(recorded: dict[str, Any]) -> None:
    for call, answers in recorded["answers"].items():
        for name, answer in answers.items():
            shown = answer_of(call, name)
            assert _text(settled(answer, shown)) == _text(shown), f"{call} {name}: run make examples"
    for code, problem in recorded["problems"].items():
        assert problem == problem_example(code), f"{code}: run make examples"


#: Calls that store or count rows, end jobs, or send an event again, which are not in the audit log.
UNAUDITED = {
    "POST /batches",
    "POST /batches/{batch}/rows",
    "DELETE /batches/{batch}",
    "POST /datasets",
    "POST /jobs/{job}/cancel",
    "DELETE /jobs/{job}",
    *(f"POST /monitors/{{name}}/{rows}" for rows in ("rows", "predictions", "labels", "events", "backfill")),
    "POST /monitors/{name}/deliveries/{delivery}/resend",
    "POST /monitors/{name}/hooks/{hook}/test",
}


def test_every_call_that_changes_a_map_monitor_or_hook_has_an_entry_in_the_audit_log(
    recorded: dict[str, Any], seen: Answers, service: Stack
) -> None:
    with Calibrant(service.url) as client:
        audited = {entry.request_id for entry in client.audit_log()}
    table = RouteTable([])
    table.load_all()
    calls = [call for call in table.calls if call.is_documented and call.method != "GET"]
    changing = {str(call) for call in calls if call.access in (*WRITING, "admin")}
    with_entry = {example.call for example, answer in seen if answer.headers["x-request-id"] in audited}
    assert changing - with_entry == UNAUDITED


#: Headers of every HTTP response, and headers of a browser's protection.
_OF_HTTP = {"date", "server", "content-length", "content-type", "connection", "cache-control", "allow"}
_OF_HTTP |= {"content-security-policy", "x-content-type-options", "referrer-policy", "content-disposition"}


def test_every_header_that_is_sent_is_in_the_document(recorded: dict[str, Any], seen: Answers, service: Stack) -> None:
    document = httpx.get(f"{service.url}/openapi.json").json()
    for example, answer in seen:
        method, _, path = example.call.partition(" ")
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is not None:
            headers = operation["responses"][str(answer.status_code)]["headers"]
            missing = set(answer.headers) - {name.lower() for name in headers} - _OF_HTTP
            assert not missing, f"{example.call} {example.name}: {missing}"


def test_every_answer_is_of_the_documents_schema(recorded: dict[str, Any], seen: Answers, service: Any) -> None:
    document = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    for example, answer in seen:
        method, _, path = example.call.partition(" ")
        if method.lower() in document.raw_schema["paths"].get(path, {}):
            document[path][method].validate_response(answer)


def test_a_call_that_only_reads_stores_nothing(recorded: dict[str, Any], service: Any) -> None:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        newest = [http.get(path, params={"limit": "1"}).json() for path in _STORED]
        answered = {example.call for example in _reading() if _sent(http, example).is_success}
        assert [http.get(path, params={"limit": "1"}).json() for path in _STORED] == newest
    assert answered == {example.call for example in _reading()}


def test_every_problem_that_a_request_brings_about_has_a_recorded_example(recorded: dict[str, Any]) -> None:
    assert set(recorded["problems"]) == set(TABLE) - NOT_BY_A_REQUEST
    assert all(problem["type"] == f"/problems/{code}" for code, problem in recorded["problems"].items())


def _text(document: Any) -> str:
    return json.dumps(document, sort_keys=True)


#: Lists of what is stored, newest first.
_STORED = ("/batches", "/maps", "/monitors", "/jobs")


def _reading() -> list[Example]:
    """Examples of calls that read although they have a body, and that refer to no batch and no source."""
    table = RouteTable([])
    table.load_all()
    reading = {str(call) for call in table.calls if call.needed_scope == "maps:read" and call.method != "GET"}
    return [
        example
        for example in all_examples()
        if example.call in reading and not re.search('batch_|"source"', json.dumps(example.body))
    ]


def _sent(http: httpx.Client, example: Example) -> httpx.Response:
    method, _, path = example.call.partition(" ")
    return http.request(method, path.format(**example.path), json=example.body, headers=dict(example.headers))
