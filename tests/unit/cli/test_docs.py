"""The documentation of the command line: its examples run, and its flags are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.pages.commands import all_commands
from calibrant.cli.main import app
from tests.unit.cli.conftest import Run

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
PAGE = (DOCS / "command-line.md").read_text("utf-8")
COMMANDS: dict[str, Any] = dict(all_commands(typer.main.get_command(app)))


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def _examples() -> Iterator[tuple[list[str], list[str]]]:
    """The words of each command, and the lines that are shown below it."""
    for block in _blocks("console"):
        for example in block.split("$ ")[1:]:
            command, *shown = example.splitlines()
            yield shlex.split(command)[1:], shown


def _written() -> Iterator[list[str]]:
    """The words of every command of the page, pipes and comments taken off."""
    yield from (words for words, _ in _examples())
    for line in "\n".join(_blocks("sh")).splitlines():
        for part in re.split(r"\|\|?", line.partition(" #")[0]):
            if part.strip().startswith("calibrant "):
                yield shlex.split(part)[1:]


def test_the_examples_run_one_after_the_other(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (setup,) = _blocks("python")
    exec(compile(setup, "command-line.md", "exec"), {})
    for words, shown in _examples():
        found = run(*words)
        code = next((int(line.removeprefix("exit ")) for line in shown if line.startswith("exit ")), 0)
        assert found.exit_code == code, (words, found.stderr)
        for line in shown:
            assert line.startswith("exit ") or line in (found.stdout + found.stderr).splitlines()
    assert {"map.json", "calibrated.csv", "report.html"} <= {path.name for path in tmp_path.iterdir()}


def test_every_command_of_the_page_is_one_with_those_flags() -> None:
    for words in _written():
        name = next(
            f"calibrant {' '.join(words[:n])}" for n in (2, 1) if f"calibrant {' '.join(words[:n])}" in COMMANDS
        )
        flags = {flag for option in COMMANDS[name].params for flag in option.opts}
        assert {word for word in words if word.startswith("--")} <= flags, words


def test_every_command_about_data_is_shown() -> None:
    shown = [f"calibrant {' '.join(words)}" for words in _written()]
    others = ("api", "worker", "serve", "demo", "backup", "restore", "keys", "maps show", "jobs watch", "jobs cancel")
    for name in COMMANDS:
        if not name.removeprefix("calibrant ").startswith(others):
            assert any(line.startswith(name) for line in shown), name


def test_every_exit_code_is_told_in_both_places(run: Run) -> None:
    told = run("--help").stdout
    for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE):
        assert re.search(rf"\b{code} ", told), code


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_tells_every_flag(run: Run, name: str) -> None:
    told = run(*name.split()[1:], "--help").stdout
    for option in COMMANDS[name].params:
        if option.param_type_name == "option" and not option.hidden:
            assert option.help
            assert option.opts[0][:20] in told
