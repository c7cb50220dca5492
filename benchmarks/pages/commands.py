"""docs/reference/commands.md, generated from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from calibrant.cli.exits import EXIT_CODES
from calibrant.cli.main import app

_HEAD = f"""# Commands

Every command of `calibrant`, with its arguments and flags, generated from the commands (`make reference`). The guide
[Command line](../how-to/command-line.md) shows how to use them. [Settings](settings.md) lists the settings of `api`.

{EXIT_CODES}
"""
#: The settings of the API are a page of their own.
_ELSEWHERE = ("api",)


def commands_page() -> str:
    """The page: a section a command, in the order of ``calibrant --help``."""
    group: Any = typer.main.get_command(app)
    return _HEAD + "".join(_section(name, command) for name, command in all_commands(group))


def all_commands(group: Any, before: str = "calibrant") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its full name."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        full = f"{before} {name}"
        if hasattr(command, "list_commands"):
            yield from all_commands(command, full)
        else:
            yield full, command


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join([name, *(f"{p.name.upper()}" for p in arguments)])
    text = f"\n## {usage}\n\n{_paragraphs(command.help)}\n"
    if arguments:
        text += "\n" + "".join(f"- `{p.name.upper()}`: {p.help}\n" for p in arguments)
    if options and name.split()[-1] not in _ELSEWHERE:
        text += "\n| flag | default | meaning |\n|---|---|---|\n" + "".join(map(_row, options))
    return text


def _row(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    default = "none" if option.default is None or option.default is False else f"`{option.default}`"
    if option.required:
        default = "required"
    variable = f" Environment variable: `{option.envvar}`." if option.envvar else ""
    return f"| {flags} | {default} | {option.help}{variable} |\n"


def _paragraphs(text: str) -> str:
    """A docstring as Markdown."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("``", "`")
