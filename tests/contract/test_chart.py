"""The Helm chart's generated files, before helm renders it: tests/e2e/test_chart.py does."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import jsonschema_rs
import pytest
import yaml

from backend.settings import SharedSettings, settings_of
from benchmarks.pages import chart
from service.settings import ScoringSettings, Settings
from tests.chart.programs import CHART, MANIFESTS, REPOSITORY
from tests.chart.value_sets import VALUE_SETS
from workers.settings import WorkerSettings

SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
CONTENT = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
#: Options of the log, which are no fields of a class of settings.
LOG = {"log_level", "log_format"}


@pytest.mark.parametrize("name", chart.files())
def test_a_generated_file_of_the_chart_is_current(name: str) -> None:
    assert (CHART / name).read_text("utf-8") == chart.files()[name], "run make reference"


def _names(kind: type[Any]) -> set[str]:
    return {setting.name for setting in settings_of(kind)}


def _section(path: str) -> dict[str, Any]:
    """The schema of a section of settings."""
    part: dict[str, Any] = SCHEMA
    for name in path.split("."):
        part = part["properties"][name]
        if "$ref" in part:
            part = SCHEMA["$defs"][part["$ref"].rpartition("/")[2]]
    return part


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("settings", _names(SharedSettings) | LOG),
        ("api.settings", _names(Settings) - _names(SharedSettings)),
        ("worker.settings", _names(WorkerSettings) - _names(SharedSettings)),
        ("workerGpu.settings", _names(WorkerSettings) - _names(SharedSettings)),
        ("host.settings", _names(ScoringSettings) | LOG),
    ],
)
def test_every_setting_can_be_set_in_exactly_one_section_of_the_process_that_reads_it(
    section: str, names: set[str]
) -> None:
    schema = _section(section)
    assert schema["properties"].keys() == names
    assert schema["additionalProperties"] is False
    text = (CHART / "values.yaml").read_text("utf-8")
    assert all(re.search(rf"^ +(# )?{name}:", text, re.MULTILINE) for name in names)


@pytest.mark.parametrize("values", [VALUES, *VALUE_SETS.values()], ids=["defaults", *VALUE_SETS])
def test_the_schema_accepts_the_values(values: dict[str, Any]) -> None:
    jsonschema_rs.validate(SCHEMA, values)


def _examples() -> list[dict[str, Any]]:
    """The values that the guide shows."""
    text = (REPOSITORY / "docs/how-to/helm.md").read_text("utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


@pytest.mark.parametrize("values", _examples())
def test_the_schema_accepts_the_values_of_the_guide(values: dict[str, Any]) -> None:
    jsonschema_rs.validate(SCHEMA, values)


def test_the_chart_and_its_images_have_the_version_of_the_project() -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert CONTENT["version"] == CONTENT["appVersion"] == version
    assert VALUES["image"]["tag"] == ""


def test_the_chart_runs_the_redis_of_the_manifests() -> None:
    manifest = (MANIFESTS / "components/redis/redis.yaml").read_text("utf-8")
    assert f"image: {VALUES['redis']['server']['image']}\n" in manifest


def test_the_dashboard_and_the_rules_of_the_chart_are_those_of_the_other_deployments() -> None:
    for name, original in (("calibrant.json", "grafana/calibrant.json"), ("rules.yaml", "prometheus/rules.yaml")):
        assert (CHART / "files" / name).resolve() == REPOSITORY / "deploy" / original


def test_the_values_contain_no_secret() -> None:
    text = (CHART / "values.yaml").read_text("utf-8")
    assert not re.search(r"kind: Secret\b", "".join(path.read_text("utf-8") for path in CHART.glob("templates/*")))
    assert not re.search(r"^\s*(password|token|apiKey|url):", text, re.MULTILINE)


def _value_names(part: dict[str, Any]) -> set[str]:
    """The names of values in a part of the schema, without those of settings."""
    if "$ref" in part:
        part = SCHEMA["$defs"][part["$ref"].rpartition("/")[2]]
    below = {name: _value_names(inner) for name, inner in part.get("properties", {}).items() if name != "settings"}
    return {*below, *(name for names in below.values() for name in names)}


def test_the_templates_read_every_value() -> None:
    text = "".join(path.read_text("utf-8") for path in CHART.glob("templates/*"))
    # Helm hands `global` to every chart, and settings are read as a whole.
    unread = {name for name in _value_names(SCHEMA) - {"global"} if not re.search(rf"\.{name}\b", text)}
    assert unread == set()
