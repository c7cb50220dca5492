"""How a report says that it was made: the command as it was typed, and Python that reads the same file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.output import STANDARD

if TYPE_CHECKING:
    from tabular.sheet import Asked

#: What the lines call a file that came through a pipe.
_PIPED = "predictions.csv"


def command_line(context: typer.Context) -> str:
    """The command with what was said on the command line, for a shell; the variables, a key among them, stay out."""
    return shlex.join([*context.command_path.split(), *_words(context)])


def _words(context: typer.Context) -> Iterator[str]:
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        given = context.params[name]
        for value in given if isinstance(given, list | tuple) else [given]:
            if parameter.param_type_name == "argument":
                yield str(value)
            elif "@" not in str(value) or name != "server":  # a URL may hold a password
                yield from (parameter.opts[0], str(value))


def loading(file: Path, asked: Asked) -> tuple[str, ...]:
    """Lines of Python that read the ``rows`` as the command did."""
    path = _PIPED if file == STANDARD else str(file)
    told = ((field, getattr(asked, field.name)) for field in fields(asked))
    said = ", ".join(f"{field.name}={value!r}" for field, value in told if value != field.default)
    return (
        "import json",
        "from pathlib import Path",
        "",
        "import calibrant",
        "from tabular.reading import Asked, read_sheet",
        "",
        *(["# The file that standard input was."] if file == STANDARD else []),
        f"file = Path({path!r})",
        f"rows = read_sheet(file, name=file.name, asked=Asked({said}), max_rows=None)",
    )


def applying(map_of: str | None, applied: str | dict[str, Any] | None) -> str | None:
    """The expression of a map that was read from a file; None of none, and of one that a server keeps."""
    return f"calibrant.load(json.loads(Path({map_of!r}).read_text('utf-8')))" if isinstance(applied, dict) else None
