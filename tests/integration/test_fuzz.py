"""Schemathesis on a live service, bounded; `make fuzz` runs it in full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.examples.record import admitting
from schemas.audit import AuditQuery
from service.stack import Stack
from tests.fuzz import fuzz
from tests.fuzz.hosts import fuzzed_host
from tests.integration.conftest import own_service

pytestmark = pytest.mark.slow

#: Examples a call and phase. The phase that covers every schema is the longest, and does not depend on them.
EXAMPLES = 4


@pytest.fixture(scope="module")
def fuzzed(folder: Path) -> Iterator[Stack]:
    """A service of its own: what is fuzzed holds what no other test should meet."""
    with own_service(folder / "fuzzed", admitting()) as running:
        yield running


def test_every_response_matches_the_openapi_document(fuzzed: Stack) -> None:
    run = fuzz(fuzzed.url, examples=EXAMPLES)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "No issues found" in run.stdout
    assert httpx.get(f"{fuzzed.url}/health/ready", timeout=600).status_code == 200


def test_every_call_and_parameter_of_the_audit_log_is_fuzzed(fuzzed: Stack, tmp_path: Path) -> None:
    document = httpx.get(f"{fuzzed.url}/openapi.json", timeout=600).json()
    paths = {path: calls for path, calls in document["paths"].items() if path.startswith("/audit")}
    assert {f"{method} {path}" for path, calls in paths.items() for method in calls} == {
        *("get /audit", "get /audit/hooks", "put /audit/hooks/{hook}", "delete /audit/hooks/{hook}"),
    }
    parameters = {parameter["name"] for parameter in paths["/audit"]["get"]["parameters"]}
    assert parameters >= set(AuditQuery.model_fields)
    document["paths"] = paths
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document), "utf-8")
    run = fuzz(fuzzed.url, examples=10 * EXAMPLES, document=file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "No issues found" in run.stdout


def test_every_response_of_a_host_matches_its_document(folder: Path) -> None:
    with fuzzed_host(folder / "host") as host:
        run = fuzz(host.url, examples=EXAMPLES, document=host.document, is_host=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "No issues found" in run.stdout
        assert httpx.get(f"{host.url}/health/ready", timeout=600).status_code == 200


def test_undocumented_problems_and_statuses_are_detected(fuzzed: Stack, tmp_path: Path) -> None:
    document = httpx.get(f"{fuzzed.url}/openapi.json", timeout=600).json()
    document["paths"] = {path: document["paths"][path] for path in ("/maps/{map}", "/jobs/{job}")}
    response = document["paths"]["/maps/{map}"]["get"]["responses"]["404"]
    del response["content"]["application/problem+json"]["examples"]["unknown-map"]
    del document["paths"]["/jobs/{job}"]["get"]["responses"]["404"]
    wrong = tmp_path / "openapi.json"
    wrong.write_text(json.dumps(document), "utf-8")
    run = fuzz(fuzzed.url, examples=5, phases="examples", document=wrong)
    assert run.returncode == 1
    assert "unknown-map is not among the problems of this call" in run.stdout
    assert "Undocumented status code" in run.stdout
