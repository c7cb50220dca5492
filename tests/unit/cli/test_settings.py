"""Settings of the services: each has one field, and variables that are no settings are refused."""

from __future__ import annotations

import dataclasses
import re

import pytest

from backend.settings import SharedSettings, settings_of, variable_of
from service.settings import Settings
from tests.unit.cli.conftest import Run
from workers.settings import WorkerSettings


@pytest.mark.parametrize(("command", "kind"), [("api", Settings), ("worker", WorkerSettings)])
def test_settings_are_shown_as_an_environment_file_without_the_store_and_its_password(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, kind: type[SharedSettings]
) -> None:
    monkeypatch.setenv("CALIBRANT_REDIS_URL", "redis://:hidden@127.0.0.1:1")
    monkeypatch.setenv("CALIBRANT_QUOTA_MAPS", "7")
    result = run(command, "--drain-seconds", "3", "--show-settings")
    assert (result.exit_code, "hidden" in result.output) == (0, False)
    shown = dict(line.split("=", 1) for line in result.output.splitlines())
    defaults = {variable_of(setting.name): setting.default for setting in settings_of(kind)}
    changed = {"CALIBRANT_QUOTA_MAPS": 7, "CALIBRANT_DRAIN_SECONDS": 3.0}
    expected = {name: "" if value is None else str(value) for name, value in (defaults | changed).items()}
    assert expected.items() <= shown.items()


@pytest.mark.parametrize("command", ["api", "worker", "serve"])
def test_a_variable_that_is_no_setting_is_refused_with_the_nearest(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CALIBRANT_MAX_ROW", "hidden")
    result = run(command)
    assert (result.exit_code, "hidden" in result.output) == (2, False)
    assert "CALIBRANT_MAX_ROW is not a setting; did you mean CALIBRANT_MAX_ROWS?" in re.sub(
        r"[│\s]+", " ", result.output
    )


@pytest.mark.parametrize("command", ["api", "worker"])
def test_variables_of_other_commands_and_of_the_client_are_accepted(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("MAX_ROWS", "PROCESSES", "DATA", "SERVER", "API_KEY", "URL"):
        monkeypatch.setenv(f"CALIBRANT_{name}", "1")
    assert run(command, "--show-settings").exit_code == 0


def test_settings_of_the_api_and_of_the_workers_are_declared_once() -> None:
    names = [{each.name for each in dataclasses.fields(kind)} for kind in (Settings, WorkerSettings)]
    assert names[0] & names[1] == {each.name for each in dataclasses.fields(SharedSettings)}
