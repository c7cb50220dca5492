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
from calibrant.cli.exits import ABOVE, AWAY, REFUSED, USAGE
from calibrant.cli.main import app
from tests.unit.cli.conftest import Run

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
#: Guides whose examples run without a server, and whether ``preds.csv`` is their own.
GUIDES = {
    **dict.fromkeys(("command-line", "compare-models", "german-excel"), True),
    **dict.fromkeys(("ci-gate", "groups", "weights"), False),
}
PAGE = (DOCS / "command-line.md").read_text("utf-8")
COMMANDS: dict[str, Any] = dict(all_commands(typer.main.get_command(app)))


def _blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def _examples(block: str) -> Iterator[tuple[list[str], list[str]]]:
    """The arguments of each command, and the lines that are shown below it."""
    for example in block.split("$ ")[1:]:
        command, *shown = example.splitlines()
        yield shlex.split(command)[1:], shown


def _written(page: str) -> Iterator[list[str]]:
    """The arguments of every command of a page, without pipes and comments."""
    for kind, block in _blocks(page):
        if kind == "console":
            yield from (arguments for arguments, _ in _examples(block))
        elif kind in ("sh", "yaml"):
            for part in re.split(r"\|\|?|\n", re.sub(r" #.*", "", block).replace("- run: ", "")):
                if part.strip().startswith("calibrant "):
                    yield shlex.split(part)[1:]


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_the_examples_of_a_guide_run_one_after_the_other(
    run: Run, guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if not GUIDES[guide]:
        (setup,) = (block for kind, block in _blocks(PAGE) if kind == "python")
        exec(compile(setup, "command-line.md", "exec"), {})
    names: dict[str, Any] = {}
    for kind, block in _blocks((DOCS / f"{guide}.md").read_text("utf-8")):
        if kind == "text":
            (tmp_path / "preds.csv").write_text(block, "utf-8")
        elif kind == "python":
            exec(compile(block, f"{guide}.md", "exec"), names)
        elif kind == "console":
            for arguments, shown in _examples(block):
                _check(run, arguments, shown)


def _check(run: Run, arguments: list[str], shown: list[str]) -> None:
    completed = run(*arguments)
    code = next((int(line.removeprefix("exit ")) for line in shown if line.startswith("exit ")), 0)
    assert completed.exit_code == code, (arguments, completed.stderr)
    for line in shown:
        assert line.startswith("exit ") or line in (completed.stdout + completed.stderr).splitlines()
    if "--out" in arguments:
        assert Path(arguments[arguments.index("--out") + 1]).is_file()


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_of_a_guide_exists_with_its_flags(guide: str) -> None:
    for arguments in _written((DOCS / f"{guide}.md").read_text("utf-8")):
        name = next(
            f"calibrant {' '.join(arguments[:n])}" for n in (2, 1) if f"calibrant {' '.join(arguments[:n])}" in COMMANDS
        )
        flags = {flag for option in COMMANDS[name].params for flag in option.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= flags, arguments


def test_every_command_about_data_is_shown_in_a_guide() -> None:
    pages = [page.read_text("utf-8") for page in DOCS.glob("*.md")]
    shown = [f"calibrant {' '.join(arguments)}" for page in pages for arguments in _written(page)]
    others = ("api", "worker", "serve", "demo", "backup", "restore", "keys", "maps show", "jobs watch", "jobs cancel")
    for name in COMMANDS:
        if not name.removeprefix("calibrant ").startswith(others):
            assert any(line.startswith(name) for line in shown), name


def test_the_help_names_every_exit_code(run: Run) -> None:
    help_text = run("--help").stdout
    for code in (0, REFUSED, USAGE, AWAY, ABOVE, 130):
        assert re.search(rf"\b{code} ", help_text), code


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_lists_every_flag(run: Run, name: str) -> None:
    output = run(*name.split()[1:], "--help").stdout
    for option in COMMANDS[name].params:
        if option.param_type_name == "option" and not option.hidden:
            assert option.help
            assert option.opts[0][:20] in output
