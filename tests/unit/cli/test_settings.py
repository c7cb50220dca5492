"""Settings of the services: each has one field, and variables that are no settings are refused."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from backend.settings import (
    Setting,
    SharedSettings,
    setting,
    settings_of,
    shared_setting,
    variable_of,
    variables_of,
)
from service.settings import Settings
from tests.unit.cli.conftest import Run
from workers.alive import given_url
from workers.settings import WorkerSettings


def shown_by(completed: Result) -> dict[str, str]:
    """The settings that a command printed."""
    return dict(line.split("=", 1) for line in completed.output.splitlines())


def message_of(completed: Result) -> str:
    """The error of a command without its frame."""
    return re.sub(r"[│\s]+", " ", completed.output)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """A file of settings, whose variables are unset again after the test."""
    before = dict(os.environ)
    yield tmp_path / "calibrant.toml"
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(("command", "kind"), [("api", Settings), ("worker", WorkerSettings)])
def test_settings_are_shown_as_an_environment_file_without_the_store_and_its_password(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, kind: type[SharedSettings]
) -> None:
    monkeypatch.setenv("CALIBRANT_REDIS_URL", "redis://:hidden@127.0.0.1:1")
    monkeypatch.setenv("CALIBRANT_QUOTA_MAPS", "7")
    completed = run(command, "--drain-seconds", "3", "--show-settings")
    assert (completed.exit_code, "hidden" in completed.output) == (0, False)
    shown = shown_by(completed)
    assert shown["CALIBRANT_REDIS_URL"] == "redis://127.0.0.1:1/0"
    defaults = {variable_of(setting.name): setting.default for setting in settings_of(kind)}
    changed = {"CALIBRANT_QUOTA_MAPS": 7, "CALIBRANT_DRAIN_SECONDS": 3.0}
    expected = {name: "" if setting is None else str(setting) for name, setting in (defaults | changed).items()}
    assert expected.items() <= shown.items()


def test_serve_shows_the_settings_that_it_passes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRANT_PROCESSES", "3")
    monkeypatch.setenv("CALIBRANT_OTLP_ENDPOINT", "http://me:hidden@collector:4318")
    shown = shown_by(run("serve", "--host", "0.0.0.0", "--show-settings"))
    assert {variable_of(setting.name) for kind in (Settings, WorkerSettings) for setting in settings_of(kind)} <= set(
        shown
    )
    assert (shown["CALIBRANT_HOST"], shown["CALIBRANT_PROCESSES"]) == ("0.0.0.0", "3")
    assert shown["CALIBRANT_OTLP_ENDPOINT"] == "http://***@collector:4318"


@pytest.mark.parametrize("command", ["api", "worker", "serve"])
def test_a_variable_that_is_no_setting_is_refused_with_the_nearest(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CALIBRANT_MAX_ROW", "hidden")
    completed = run(command)
    assert (completed.exit_code, "hidden" in completed.output) == (2, False)
    assert "CALIBRANT_MAX_ROW is not a setting; did you mean CALIBRANT_MAX_ROWS?" in message_of(completed)


@pytest.mark.parametrize("command", ["api", "worker"])
def test_variables_of_other_commands_and_of_the_client_are_accepted(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("MAX_ROWS", "PROCESSES", "DATA", "SERVER", "API_KEY", "URL"):
        monkeypatch.setenv(f"CALIBRANT_{name}", "1")
    assert run(command, "--show-settings").exit_code == 0


def test_settings_of_the_api_and_of_the_workers_are_declared_once() -> None:
    names = [{field.name for field in dataclasses.fields(kind)} for kind in (Settings, WorkerSettings)]
    assert names[0] & names[1] == {field.name for field in dataclasses.fields(SharedSettings)}


# --- Settings of a supervisor reach its workers


def _other_than_default(setting: Setting) -> object:
    if setting.value_type is bool:
        return not setting.default
    return setting.example or "any" if setting.value_type is str else setting.value_type(setting.high)


def test_each_setting_of_a_supervisor_is_read_by_its_workers_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {setting.name: _other_than_default(setting) for setting in settings_of(WorkerSettings)}
    defaults = {setting.name: setting.default for setting in settings_of(SharedSettings)}
    for name in changed:
        monkeypatch.delenv(variable_of(name), raising=False)
    assert {name: shared_setting(name) for name in defaults} == defaults
    for variable, text in variables_of(WorkerSettings("redis://h", **changed)).items():  # type: ignore[arg-type]
        monkeypatch.setenv(variable, text)
    assert {name: shared_setting(name) for name in defaults} == {name: changed[name] for name in defaults}
    assert {os.environ[variable_of(name)] for name in changed} == set(map(str, changed.values()))


def test_a_misspelt_setting_is_an_error_in_a_worker() -> None:
    with pytest.raises(KeyError):
        shared_setting("quota_map")


# --- Texts that are checked


@pytest.mark.parametrize(
    "checked",
    [setting for kind in (Settings, WorkerSettings) for setting in settings_of(kind) if setting.check is not None],
    ids=lambda checked: checked.name,
)
def test_the_example_of_a_setting_is_a_valid_text_that_is_not_the_default(checked: Setting) -> None:
    assert checked.check is not None
    assert checked.example is not None
    checked.check(checked.example)
    if checked.default is not None:
        checked.check(checked.default)
    assert checked.example != checked.default
    assert "{example}" not in checked.meaning


def test_a_setting_that_checks_its_text_needs_an_example_and_a_number_its_lowest() -> None:
    with pytest.raises(TypeError, match="example=TEXT"):
        setting("", "a text", check=lambda text: None)
    with pytest.raises(TypeError, match="low=0"):
        setting(5, "a number")


# --- Values out of range


def _outside() -> list[tuple[str, Setting, str]]:
    """Each command, a number of it, and a value on either side of its bounds."""
    numbers = [
        (command, setting, setting.low)
        for command, kind in (("api", Settings), ("worker", WorkerSettings))
        for setting in settings_of(kind)
        if setting.low is not None
    ]
    below = [
        (command, setting, str(low - 1 if setting.kind is float else int(low) - 1)) for command, setting, low in numbers
    ]
    above = [(command, setting, str(setting.high + 1)) for command, setting, _ in numbers]
    floats = [(command, setting, "nan") for command, setting, _ in numbers if setting.kind is float]
    return below + [case for case in above if float(case[2]) > case[1].high] + floats


@pytest.mark.slow
@pytest.mark.parametrize(("command", "setting", "text"), _outside(), ids=str)
def test_a_number_out_of_range_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, setting: Setting, text: str
) -> None:
    monkeypatch.setenv(variable_of(setting.name), text)
    completed = run(command, "--show-settings")
    assert completed.exit_code == 2
    assert variable_of(setting.name) in completed.output


@pytest.mark.parametrize(
    ("command", "name", "text", "message"),
    [
        ("api", "cors_origins", "app.example.com", "must be origins such as https://app.example.com"),
        ("api", "cors_origins", "https://a.example.com/path", "must be origins"),
        ("api", "preload", "spam, ham@", "must be maps such as spam"),
        ("api", "preload", "a/b/spam", "must be maps"),
        ("api", "trusted_proxies", "10.0.0.0/33", "must be addresses or networks such as 10.0.0.0/8"),
        ("api", "trusted_proxies", "proxy.internal", "must be addresses or networks"),
        ("api", "otlp_endpoint", "localhost:4318", "must start with https:// or http://"),
        ("api", "root_path", "calibrant", "must be a path such as /calibrant"),
        ("api", "root_path", "/calibrant/", "must be a path such as /calibrant"),
        ("api", "root_path", "/models/../calibrant", "must be a path such as /calibrant"),
        ("worker", "public_url", "calibrant.example.com", "must start with https:// or http://"),
        ("worker", "queues", "fits,fast", "must be one or more of"),
        ("api", "sources", "{", "must be JSON"),
        ("worker", "sources", '["s3://bucket"]', "must be an object"),
        ("worker", "sources", '{"Scores": {"root": "s3://bucket"}}', "lower-case"),
        ("worker", "sources", '{"a": {}}', "invalid root"),
        ("worker", "sources", '{"a": {"root": "s3://key:secret@bucket"}}', "without credentials"),
        ("worker", "sources", '{"a": {"root": "s3://bucket/x?endpoint_override=h"}}', "without credentials"),
        ("worker", "sources", '{"a": {"root": "http://127.0.0.1/x"}}', "must have a root"),
        ("worker", "sources", '{"a": {"root": "file:///data/../etc"}}', "without .."),
        ("worker", "sources", '{"a": {"root": "s3://b", "password": "x"}}', "invalid password"),
        ("worker", "sources", '{"a": {"root": "s3://b", "endpoint": "ftp://h"}}', "invalid endpoint"),
        ("worker", "sources", '{"a": {"root": "gs://b", "endpoint": "http://h"}}', "only of a root s3://"),
        ("worker", "sources", '{"a": {"root": "file:///b", "region": "eu-1"}}', "only of a root s3://"),
    ],
)
def test_a_text_that_could_have_no_effect_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, name: str, text: str, message: str
) -> None:
    monkeypatch.setenv(variable_of(name), text)
    completed = run(command, "--show-settings")
    assert completed.exit_code == 2
    assert message in message_of(completed)


# --- Files of settings


def test_a_file_of_settings_yields_to_variables_and_flags(
    run: Run, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    config.write_text(
        'quota_maps = 7\nrate_limit = 8\nmax_rows = 9\nprocesses = 4\ncors_origins = ["https://a.example", "*"]\n'
        'drain_seconds = 2.5\nwarm = true\nredis_url = "redis://:hidden@h:1/2"\n'
    )
    monkeypatch.setenv("CALIBRANT_RATE_LIMIT", "80")
    monkeypatch.setenv("CALIBRANT_QUOTA_MAPS", "")  # like a variable that is not set
    monkeypatch.setenv("CALIBRANT_CONFIG", str(config))
    shown = shown_by(run("api", "--max-rows", "90", "--show-settings"))
    names = ("QUOTA_MAPS", "RATE_LIMIT", "MAX_ROWS", "CORS_ORIGINS", "DRAIN_SECONDS", "REDIS_URL")
    expected = ("7", "80", "90", "https://a.example,*", "2.5", "redis://h:1/2")
    assert tuple(shown[f"CALIBRANT_{name}"] for name in names) == expected
    of_worker = shown_by(run("worker", "--show-settings"))
    assert (of_worker["CALIBRANT_WARM"], of_worker["CALIBRANT_PROCESSES"]) == ("True", "4")


def test_a_table_of_the_file_declares_no_sources(run: Run, config: Path) -> None:
    config.write_text('[sources.scores]\nroot = "s3://bucket/x"\nwrite = true\ntenants = ["risk"]\n')
    for command in ("api", "worker"):
        shown = shown_by(run(command, "--config", config, "--show-settings"))
        declared = json.loads(shown["CALIBRANT_SOURCES"])
        assert declared == {"scores": {"root": "s3://bucket/x", "write": True, "tenants": ["risk"]}}


def test_the_store_of_the_environment_replaces_the_store_of_the_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    config.write_text('redis_url_file = "/of/the/file"')
    monkeypatch.setenv("CALIBRANT_REDIS_URL", "redis://h:1")
    shown = shown_by(run("worker", "--config", config, "--show-settings"))
    assert (shown["CALIBRANT_REDIS_URL"], shown["CALIBRANT_REDIS_URL_FILE"]) == ("redis://h:1/0", "")


@pytest.mark.parametrize("command", [("api",), ("worker",), ("serve",), ("keys", "list"), ("backup", "-")])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("max_row = 1", "max_row is not a setting; did you mean max_rows?"),
        ("CALIBRANT_MAX_ROWS = 1", "is not a setting"),
        ("[api]\nmax_rows = 1", "api must be a text, a number, a boolean or a list of texts"),
        ("max_rows = [1]", "max_rows must be a text"),
        ("max_rows = ", "is not a TOML file"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_of_settings_is_refused(
    run: Run, config: Path, command: tuple[str, ...], content: str | None, message: str
) -> None:
    if content is not None:
        config.write_text(content)
    completed = run(*command, "--config", config)
    assert completed.exit_code == 2
    assert message in message_of(completed)


def test_the_health_check_of_workers_reads_the_file_of_settings(config: Path) -> None:
    config.write_text('redis_url = "redis://h:1"')
    assert given_url({"CALIBRANT_CONFIG": str(config)}) == "redis://h:1"
    assert given_url({"CALIBRANT_CONFIG": str(config), "CALIBRANT_REDIS_URL": "redis://h:2"}) == "redis://h:2"
