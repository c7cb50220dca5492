from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.main import app as command
from schemas.inference import InferenceRequest
from service.app import create_app
from service.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return create_app(Settings(redis_url="unix:///nowhere")).openapi()


def test_the_document_lists_every_call_of_the_readme(openapi: dict[str, Any]) -> None:
    calls = {(path, method) for path, methods in openapi["paths"].items() for method in methods}
    assert calls == {
        ("/health/live", "get"),
        ("/health/ready", "get"),
        ("/measures", "get"),
        ("/diagrams", "get"),
        ("/methods", "get"),
        ("/limits", "get"),
        ("/batches", "post"),
        ("/batches/{batch_id}", "get"),
        ("/batches/{batch_id}", "delete"),
        ("/evaluate", "post"),
        ("/maps", "post"),
        ("/maps/{ref}", "get"),
        ("/calibrate", "post"),
        ("/jobs/{job_id}", "get"),
        ("/v2", "get"),
        ("/v2/health/live", "get"),
        ("/v2/health/ready", "get"),
        ("/v2/models/{name}", "get"),
        ("/v2/models/{name}/ready", "get"),
        ("/v2/models/{name}/infer", "post"),
        ("/v2/models/{name}/versions/{version}", "get"),
        ("/v2/models/{name}/versions/{version}/ready", "get"),
        ("/v2/models/{name}/versions/{version}/infer", "post"),
    }
    readme = (ROOT / "docs" / "api.md").read_text("utf-8")
    for path, method in calls:
        assert f"`{method.upper()} {path}`" in readme


def test_bodies_are_described_for_every_content_type(openapi: dict[str, Any]) -> None:
    for path in ("/batches", "/evaluate", "/maps", "/calibrate"):
        content = openapi["paths"][path]["post"]["requestBody"]["content"]
        assert set(content) == {"application/json", "application/x-npz"}
        assert content["application/json"]["schema"]["properties"]


def test_inference_is_described_with_its_bodies_and_its_errors(openapi: dict[str, Any]) -> None:
    for path in ("/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer"):
        call = openapi["paths"][path]["post"]
        taken, given = call["requestBody"]["content"], call["responses"]["200"]
        assert set(taken) == set(given["content"]) == {"application/json", "application/octet-stream"}
        assert "$ref" not in json.dumps(taken)
        InferenceRequest.model_validate(taken["application/json"]["example"], strict=True)
        header = "Inference-Header-Content-Length"
        assert header in given["headers"]
        assert header in {parameter["name"] for parameter in call["parameters"]}
    for path, methods in openapi["paths"].items():
        for call in methods.values():
            told = call["responses"]["default"]["content"]["application/json"]["schema"]["$ref"]
            assert told.endswith("/InferenceError") == path.startswith("/v2"), path


def test_every_problem_and_every_setting_is_documented() -> None:
    from service.problems import TABLE

    problems = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert all(f"`{code}`" in problems for code in TABLE)
    settings = (ROOT / "docs" / "settings.md").read_text("utf-8")
    group = typer.main.get_command(command)
    for sub in group.commands.values():  # type: ignore[attr-defined]
        for option in sub.params:
            if option.envvar:
                assert f"`{option.envvar}`" in settings, option.envvar
                assert f"`{option.opts[0]}`" in settings, option.opts
