from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from cli.main import app as command
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
        ("/batches", "post"),
        ("/batches/{batch_id}", "get"),
        ("/batches/{batch_id}", "delete"),
        ("/evaluate", "post"),
        ("/maps", "post"),
        ("/maps", "get"),
        ("/maps/import", "post"),
        ("/maps/{ref}", "get"),
        ("/maps/{ref}", "patch"),
        ("/maps/{ref}", "delete"),
        ("/maps/{ref}/document", "get"),
        ("/maps/{name}/aliases", "get"),
        ("/maps/{name}/aliases/{alias}", "get"),
        ("/maps/{name}/aliases/{alias}", "put"),
        ("/maps/{name}/aliases/{alias}", "delete"),
        ("/calibrate", "post"),
        ("/jobs/{job_id}", "get"),
    }
    readme = (ROOT / "docs" / "api.md").read_text("utf-8")
    for path, method in calls:
        assert f"`{method.upper()} {path}`" in readme


def test_bodies_are_described_for_every_content_type(openapi: dict[str, Any]) -> None:
    for path in ("/batches", "/evaluate", "/maps", "/calibrate"):
        content = openapi["paths"][path]["post"]["requestBody"]["content"]
        assert set(content) == {"application/json", "application/x-npz"}
        assert content["application/json"]["schema"]["properties"]


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
