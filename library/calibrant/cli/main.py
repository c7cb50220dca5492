"""The commands by name: the library's own, and those that other packages add. Each is loaded when it is needed.

A package adds a command with an entry point of the group ``calibrant.commands``: a function that typer makes a command
of, or a ``typer.Typer`` of several. A command that cannot be loaded says so and leaves the others as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from calibrant.cli.exits import EXIT_CODES

GROUP = "calibrant.commands"
#: The library's own commands, each in the module of its name, with the first line of its help: a list of commands is
#: written without loading them.
OWN: Mapping[str, str] = MappingProxyType(
    {
        "evaluate": "Measure how well predictions are calibrated; with --map before and after it.",
        "fit": "Fit a calibration map.",
        "calibrate": "Write the file with its calibrated probabilities.",
        "report": "Write a full report as one HTML file: the verdict, the diagrams, the measures and what they mean.",
        "diagram": "Draw a diagram as SVG, or as PNG where --out ends so; with --map before and after it.",
        "sample": "Write a naive Bayes classifier's predictions of 1,797 handwritten digits as CSV.",
        "maps": "List, show, export, import, delete and alias the maps of a server.",
        "jobs": "List, watch and cancel the jobs of a server.",
        "monitors": "Make, list, show and delete the monitors of a server; send them rows; watch their alarms.",
    }
)


class Commands(TyperGroup):
    """The commands, loaded one by one; a list of them needs a line of each, and none of their flags."""

    _is_listed = False

    @cached_property
    def _added(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=GROUP) if point.name not in OWN}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, the library's first."""
        return [*OWN, *self._added]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """The command of a name, or None."""
        if cmd_name in OWN and self._is_listed:
            return typer.core.TyperCommand(cmd_name, help=OWN[cmd_name])
        if cmd_name in OWN:
            return self._command(cmd_name, getattr(import_module(f"calibrant.cli.{cmd_name}"), cmd_name))
        if cmd_name not in self._added:
            return None
        point = self._added[cmd_name]
        try:
            return self._command(cmd_name, point.load())
        except Exception as error:  # whatever another package raises
            problem = f"the command of {point.value} cannot be loaded: {type(error).__name__}: {error}"
            return _broken(cmd_name, problem)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        with self._listed():
            super().format_help(ctx, formatter)

    @contextmanager
    def _listed(self) -> Iterator[None]:
        self._is_listed = True
        try:
            yield
        finally:
            self._is_listed = False

    def _command(self, name: str, target: Any) -> Any:
        if self._is_listed:
            text = target.info.help if isinstance(target, typer.Typer) else inspect.getdoc(target)
            return typer.core.TyperCommand(name, help=text)
        if not isinstance(target, typer.Typer):
            function, target = target, _app()
            target.command(name)(function)
        command = typer.main.get_command(target)
        command.name = name
        return command


def _app(**options: Any) -> typer.Typer:
    return typer.Typer(pretty_exceptions_enable=False, add_completion=False, **options)


def _broken(name: str, problem: str) -> Any:
    def fail() -> None:
        typer.echo(f"calibrant: {problem}", err=True)
        raise typer.Exit(1)

    return typer.core.TyperCommand(
        name, callback=fail, help=problem, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
    )


app = _app(
    name="calibrant",
    cls=Commands,
    help="Is a classifier calibrated, and if not, what would make it so.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)


def _version(is_given: bool) -> None:
    if is_given:
        from calibrant import __version__

        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Read the options that stand before the command."""
