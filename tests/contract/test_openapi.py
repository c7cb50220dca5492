from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from calibrant.calibrators import METHODS
from calibrant.cli.main import app as command
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from schemas.inference import InferenceRequest
from schemas.problem_table import PREFIX, TABLE
from schemas.problems import Problem
from service.calls import OF_ENDED_JOBS
from service.examples.calls import all_examples
from service.formats.catalogue import READERS
from service.formats.media import JSON
from service.inference.errors import uses_protocol
from service.openapi import ANYWHERE, BEHIND_A_KEY, OF_BODIES, operations, problem_codes
from service.problems import MEDIA_TYPE, PROBLEM_HEADERS

ROOT = Path(__file__).parents[2]


def test_the_page_lists_every_call_of_the_document(openapi: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "reference" / "http-calls.md").read_text("utf-8")
    calls = [f"{method.upper()} {path}" for path, method, _ in operations(openapi)]
    assert len(calls) > 70
    assert [call for call in calls if f"| `{call}` |" not in page] == []


def test_every_post_honours_an_idempotency_key(openapi: dict[str, Any]) -> None:
    posts = [methods["post"] for methods in openapi["paths"].values() if "post" in methods]
    for post in posts:
        assert "Idempotency-Key" in {p["name"] for p in post["parameters"] if p["in"] == "header"}


def test_every_change_with_an_entry_of_the_audit_log_takes_a_note(openapi: dict[str, Any]) -> None:
    for path, method in (("/audit/hooks/{hook}", "put"), ("/audit/hooks/{hook}", "delete"), ("/maps/{map}", "delete")):
        assert "Calibrant-Note" in {parameter.get("name") for parameter in openapi["paths"][path][method]["parameters"]}
    for path in ("/audit/hooks", "/metrics"):
        parameters = openapi["paths"][path]["get"].get("parameters", [])
        assert "Calibrant-Note" not in {parameter.get("name") for parameter in parameters}


def test_bodies_are_described_for_every_content_type(openapi: dict[str, Any]) -> None:
    for path in ("/batches", "/evaluate", "/diagrams", "/maps", "/calibrate"):
        content = openapi["paths"][path]["post"]["requestBody"]["content"]
        assert tuple(content) == tuple(READERS)
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        schema = openapi["components"]["schemas"][name]
        assert schema.get("properties") or len(schema["anyOf"]) > 1


def test_every_call_has_an_example_of_what_is_sent_and_of_every_answer(openapi: dict[str, Any]) -> None:
    lacking = []
    for path, method, operation in operations(openapi):
        places = {
            f"answer {status}": response.get("content", {}) for status, response in operation["responses"].items()
        }
        places["body"] = operation.get("requestBody", {}).get("content", {})
        for place, content in places.items():
            lacking += [
                f"{method.upper()} {path}: {place} as {kind}; see Call.samples"
                for kind in (JSON, MEDIA_TYPE)
                if kind in content and not content[kind].get("examples")
            ]
    assert not lacking


def test_inference_is_described_with_its_bodies_and_its_errors(openapi: dict[str, Any]) -> None:
    for path in ("/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer"):
        call = openapi["paths"][path]["post"]
        taken, answer = call["requestBody"]["content"], call["responses"]["200"]
        assert set(taken) == set(answer["content"]) == {"application/json", "application/octet-stream"}
        assert taken["application/json"]["schema"] == {"$ref": "#/components/schemas/InferenceRequest"}
        for example in taken["application/json"]["examples"].values():
            InferenceRequest.model_validate(example["value"], strict=True)
        header = "Inference-Header-Content-Length"
        assert header in answer["headers"]
        assert header in {parameter["name"] for parameter in call["parameters"]}
    for path, method, operation in operations(openapi):
        refused = [r for status, r in operation["responses"].items() if int(status) >= 400]
        kinds = {kind for response in refused for kind in response["content"]}
        assert kinds == ({JSON} if uses_protocol(path) else {MEDIA_TYPE}), f"{method} {path}"


def test_every_call_documents_every_status_and_what_it_does(openapi: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(openapi)]
    assert len(set(names)) == len(names)
    for path, method, operation in operations(openapi):
        call = f"{method.upper()} {path}"
        assert operation["summary"], call
        if uses_protocol(path):
            continue
        codes = {code for known in problem_codes(operation).values() for code in known}
        assert codes >= set(ANYWHERE), call
        assert not operation["security"] or codes >= set(BEHIND_A_KEY), call
        assert "requestBody" not in operation or codes >= set(OF_BODIES), call
        assert "{" not in path or "not-found" in codes, call
        # A bare call of a stored thing by its id must say that the id may be unknown.
        creates = call == "PUT /audit/hooks/{hook}"
        is_known = "{" not in path or path.startswith("/problems") or creates
        assert is_known or any(c.startswith("unknown-") for c in codes), call
        for status in map(int, operation["responses"]):
            assert status < 400 or problem_codes(operation)[str(status)], f"{call} {status}: see its declaration"


def test_every_example_is_of_a_call(openapi: dict[str, Any]) -> None:
    calls = {f"{method.upper()} {path}" for path, method, _ in operations(openapi)}
    assert {example.call for example in all_examples()} <= calls


def test_examples_of_problems_are_problem_documents_of_their_code(openapi: dict[str, Any]) -> None:
    for _, _, operation in operations(openapi):
        for status, codes in problem_codes(operation).items():
            examples = operation["responses"][status]["content"][MEDIA_TYPE]["examples"]
            for code in codes:
                problem = Problem.model_validate(examples[code]["value"])
                assert (problem.type, problem.status, problem.title) == (PREFIX + code, int(status), TABLE[code].title)


def test_every_problem_documents_its_cause_and_remedy() -> None:
    for code, row in TABLE.items():
        for text in (row.cause, row.remedy):
            assert text.endswith("."), code
            assert text[0].isupper(), code
        assert not row.title.endswith("."), code


def _properties(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each property in a schema with its place."""
    if isinstance(schema, list):
        for part in schema:
            yield from _properties(part, place)
    if not isinstance(schema, dict):
        return
    for key, part in schema.items():
        if key == "properties":
            for name, field in part.items():
                yield f"{place}.{name}", field
                yield from _properties(field, f"{place}.{name}")
        elif key not in ("examples", "example", "default"):
            yield from _properties(part, place)


def test_every_property_parameter_and_header_has_a_description(openapi: dict[str, Any]) -> None:
    described = list(_properties(openapi["components"]["schemas"], ""))
    for path, method, operation in operations(openapi):
        described += [(f"{method} {path} {about['name']}", about) for about in operation.get("parameters", ())]
    described += openapi["components"]["headers"].items()
    assert len(described) > 1000
    assert [place for place, about in described if not about.get("description")] == []


def test_every_property_with_a_time_as_text_has_its_format(openapi: dict[str, Any]) -> None:
    for place, field in _properties(openapi["components"]["schemas"], ""):
        kinds = field.get("anyOf", [field])
        if place.endswith("_at") and "string" in {kind.get("type") for kind in kinds}:
            assert "date-time" in {kind.get("format") for kind in kinds}, place


def test_every_time_in_an_example_is_of_a_property_with_the_format(openapi: dict[str, Any]) -> None:
    names = {
        place.rpartition(".")[2]
        for place, field in _properties(openapi["components"]["schemas"], "")
        if "date-time" in json.dumps(field)
    }
    times = set[str]()
    for _, _, operation in operations(openapi):
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                times |= set(_names_of_times(content.get("examples", {})))
    assert len(times) > 5
    assert times <= names


def _names_of_times(part: Any, name: str = "") -> Iterator[str]:
    if isinstance(part, dict):
        for key, inner in part.items():
            yield from _names_of_times(inner, key)
    elif isinstance(part, list):
        for inner in part:
            yield from _names_of_times(inner, name)
    elif isinstance(part, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*", part):
        yield name


def test_every_call_lists_the_headers_of_its_responses(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        headers = {header["name"] for header in operation.get("parameters", ()) if header["in"] == "header"}
        expected = {"X-Request-Id"}
        expected |= {"RateLimit", "RateLimit-Policy"} if operation["security"] else set()
        expected |= {"Idempotency-Replayed"} if "Idempotency-Key" in headers else set()
        expected |= {"Preference-Applied"} if "Prefer" in headers else set()
        for status, response in operation["responses"].items():
            assert expected <= response["headers"].keys(), f"{method} {path} {status}"
        if method == "get" and "If-None-Match" in headers:
            assert all("ETag" in operation["responses"][status]["headers"] for status in ("200", "304")), path


def test_every_header_of_a_problem_is_listed_with_its_status(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for status, codes in problem_codes(operation).items():
            sent = {name for code in codes for name in PROBLEM_HEADERS.get(code, ())}
            sent |= {"Accept-Encoding"} if "unsupported-media-type" in codes else set()
            sent |= {"Accept-Patch"} if (method, status) == ("patch", "415") else set()
            assert sent <= operation["responses"][status]["headers"].keys(), f"{method} {path} {status}"


def test_no_schema_is_that_of_fastapis_own_refusals(openapi: dict[str, Any]) -> None:
    assert "ValidationError" not in json.dumps(openapi)
    assert openapi["openapi"].startswith("3.1")


def test_every_problem_and_every_setting_is_documented() -> None:
    problems = (ROOT / "docs" / "reference" / "problems.md").read_text("utf-8")
    assert all(f"### `{code}`" in problems for code in TABLE)
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    group = typer.main.get_command(command)
    for sub in group.commands.values():  # type: ignore[attr-defined]
        for option in sub.params:
            if option.envvar:
                assert f"`{option.envvar}`" in settings, option.envvar
                assert f"`{option.opts[0]}`" in settings, option.opts


@pytest.mark.parametrize(
    ("page", "catalogue"),
    [("measures", MEASURES), ("diagrams", DIAGRAMS), ("methods", METHODS)],
    ids=["measures", "diagrams", "methods"],
)
def test_everything_of_a_catalogue_is_documented(page: str, catalogue: Mapping[str, Any]) -> None:
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text("utf-8")
    assert [name for name in catalogue if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/evaluate", "post"),
        ("/maps", "post"),
        ("/diagrams", "post"),
        ("/jobs/{job}/diagram.svg", "get"),
        ("/jobs/{job}/diagram.png", "get"),
    ],
)
def test_a_call_that_waits_for_a_job_names_every_problem_of_its_end(
    openapi: dict[str, Any], path: str, method: str
) -> None:
    named: set[str] = set()
    for answer in openapi["paths"][path][method]["responses"].values():
        named |= set(answer.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {}))
    assert named >= {*OF_ENDED_JOBS, "job-cancelled", "time-limit", "worker-lost", "internal-error", "not-converged"}
