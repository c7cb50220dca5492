"""The registry of commands, built in or added by other packages; each is imported on first use.

A package adds a command with an entry point in the group ``calibrant.commands``. The entry point is a function that
typer turns into a command, or a ``typer.Typer`` with subcommands. If a command cannot be loaded, running it prints the
reason and exits with 1; the other commands work.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from calibrant.cli import commands
from calibrant.cli.exits import EXIT_CODES
from calibrant.core.errors import one_of, plain_name
from calibrant.core.version import __version__

GROUP = "calibrant.commands"
#: The first commands of the list; others of ``calibrant.cli.commands`` follow by name, then those of other packages.
_FIRST = ("evaluate", "compare", "fit", "calibrate", "report", "diagram", "sample", "maps", "jobs", "monitors")


@cache
def own_commands() -> Mapping[str, str]:
    """Return the help of each command of the library, the docstring of its module, without importing it."""
    sources = {
        path.stem.replace("_", "-"): path for folder in commands.__path__ for path in Path(folder).glob("[!_]*.py")
    }
    names = [*(name for name in _FIRST if name in sources), *sorted(sources.keys() - set(_FIRST))]
    return {name: sources[name].read_text("utf-8").split('"""', 2)[1].strip() for name in names}


#: Names that other tools use -> commands and options.
_FAMILIAR_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "apply": "calibrate",
        "predict": "calibrate",
        "transform": "calibrate",
        "train": "fit",
        "measure": "evaluate",
        "score": "evaluate",
        "ece": "evaluate",
        **dict.fromkeys(("dca", "decision-curve", "threshold", "thresholds"), "decide"),
        **dict.fromkeys(("prior", "shift-prior"), "fit --method prior-shift"),
        "plot": "diagram",
        "draw": "diagram",
        "html": "report",
        **dict.fromkeys(("advise", "suggest"), "recommend"),
        "version": "--version",
    }
)
_FAMILIAR_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "-m": "--measure, --method or --map",
        "-o": "--out",
        "--output": "--out",
        "--measures": "--measure, once for each measure",
        "--metric": "--measure",
        "--metrics": "--measure, once for each measure",
        "--method": "--map, for a map that calibrant fit has written",
        "--target": "--label",
        "--y": "--label",
        "--pred": "--prediction",
        "--proba": "--prediction",
        **dict.fromkeys(("--ci", "--confidence"), "--interval"),
        **dict.fromkeys(("--labels", "--label-file", "--labels-file"), "--labels-from FILE --id COLUMN"),
        **dict.fromkeys(("--join", "--key", "--on"), "--id"),
        "--sep": "no option; the separator is detected",
        "--delimiter": "no option; the separator is detected",
        "--bins": """--measure '{"name": "ece", "n_bins": 20}'""",
        "--n-bins": """--measure '{"name": "ece", "n_bins": 20}'""",
        "--n_bins": """--measure '{"name": "ece", "n_bins": 20}'""",
    }
)

#: The same for single commands, in place of the hints above.
_FAMILIAR_OF: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "evaluate": {
            **dict.fromkeys(("-o", "--out", "--output"), "--json > result.json"),
            "--format": "--json",
            "--holdout": "calibrant fit --holdout",
        },
        "calibrate": {"--regression": "no option; the map has the kind of its predictions"},
        "diagram": dict.fromkeys(("--kind", "--name", "--type"), "--diagram"),
        "compare": dict.fromkeys(("--model", "--models"), "--prediction"),
        "decide": {
            "--cost": "--costs 1,5",
            "--threshold": "--thresholds 0.1,0.2",
            **dict.fromkeys(("-k", "--k", "--top"), "--capacity"),
        },
        "grades": {
            "--pd": "--prediction",
            "--grade": "--group",
            **dict.fromkeys(("--default", "--defaults"), "--label"),
            "--n": "--count",
        },
        "segments": {
            **dict.fromkeys(("--features", "--column", "--columns"), "--feature"),
            **dict.fromkeys(("--depth", "--max-depth"), "--max-order"),
            **dict.fromkeys(("--alpha", "--level"), "--confidence"),
        },
        "fit": {
            **dict.fromkeys(("--bins", "--n-bins", "--n_bins"), "--method histogram --option n_bins=20"),
            **dict.fromkeys(("--test-size", "--test_size", "--split", "--val-size"), "--holdout"),
        },
    }
)

#: Options whose values are separated by commas.
_LISTED = ("--costs", "--thresholds", "--levels", "--class-names")
#: How the values of numeric options are written.
_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Command(TyperCommand):
    """A command that suggests an option for the name of another tool, and reads numbers in plain digits."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an option that takes one value may be given once, since the last would win."""
        flags = [arg.split("=")[0] for arg in args[: args.index("--") if "--" in args else None]]
        for parameter in self.params:
            times = sum(flags.count(name) for name in parameter.opts)
            if times > 1 and not (getattr(parameter, "multiple", True) or getattr(parameter, "is_flag", False)):
                ctx.fail(f"{parameter.opts[0]} takes one value, and was given {times} times")
        copied = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except Exception as error:  # a usage error, whose class differs between versions of typer
            option = getattr(error, "option_name", "")
            familiar = {**_FAMILIAR_OPTIONS, **_FAMILIAR_OF.get(str(self.name), {})}.get(option)
            if familiar:
                ctx.fail(f"No such option: {option}; did you mean {familiar}?")
            listed = [flag for flag in _LISTED if flag in flags]
            if listed and "extra argument" in str(error):
                ctx.fail(f"{listed[0]} takes values that are separated by commas, without blanks, such as 1,5")
            raise
        self._check_numbers(ctx, copied)
        return list(rest)

    def _check_numbers(self, ctx: Any, args: list[str]) -> None:
        """Refuse numbers such as ``1_0``, ``5.0`` for an integer, and digits of other scripts, which typer accepts."""
        values = self.make_parser(ctx).parse_args(args)[0]
        for parameter in self.params:
            text, kind = parameter.consume_value(ctx, values)[0], type(ctx.params.get(parameter.name))
            if not isinstance(text, str) or kind not in (int, float):
                continue
            if kind is int and not _WHOLE.fullmatch(text):
                ctx.fail(f"{parameter.opts[0]} must be a whole number in plain digits")
            if kind is float and not _NUMBER.fullmatch(text):
                ctx.fail(f"{parameter.opts[0]} must be a number in plain digits")


class Commands(TyperGroup):
    """A group that imports a command when it is used; the list of commands needs only the help lines."""

    _is_listed = False

    @cached_property
    def _added(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=GROUP) if point.name not in own_commands()}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, built-in ones first."""
        return [*own_commands(), *self._added]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Return the command with this name, or None."""
        text = own_commands().get(cmd_name)
        if text is not None and self._is_listed:
            return typer.core.TyperCommand(cmd_name, help=text)
        if text is not None:
            name = cmd_name.replace("-", "_")
            module = import_module(f"{commands.__name__}.{name}")
            return self._command(cmd_name, getattr(module, name), text)
        if cmd_name not in self._added:
            return None
        point = self._added[cmd_name]
        try:
            target = point.load()
            text = target.info.help if isinstance(target, typer.Typer) else inspect.getdoc(target)
            return self._command(cmd_name, target, text)
        except Exception as error:  # whatever another package raises
            problem = f"the command {cmd_name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            return _broken(cmd_name, problem)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; for an unknown one, suggest the nearest."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            familiar = {**_by_catalogue(args[0]), **_FAMILIAR_COMMANDS}
            ctx.fail(f"Command '{args[0]}' {one_of(args[0], self.list_commands(ctx), familiar)}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without importing the built-in commands."""
        with self._listed():
            super().format_help(ctx, formatter)

    @contextmanager
    def _listed(self) -> Iterator[None]:
        self._is_listed = True
        try:
            yield
        finally:
            self._is_listed = False

    def _command(self, name: str, target: Any, text: str | None) -> Any:
        if self._is_listed:
            return typer.core.TyperCommand(name, help=text)
        if not isinstance(target, typer.Typer):
            function, target = target, _app()
            target.command(name)(function)
        for registered in target.registered_commands:
            registered.cls = Command
        command = typer.main.get_command(target)
        command.name, command.help = name, text
        return command


def _by_catalogue(name: str) -> dict[str, str]:
    """Return the command for the name of a measure, a method or a diagram, by this name."""
    from calibrant.calibrators.fitting import METHODS
    from calibrant.diagrams.catalogue import DIAGRAMS
    from calibrant.measures.catalogue import MEASURES

    catalogues = {"fit --method": METHODS, "evaluate --measure": MEASURES, "diagram --diagram": DIAGRAMS}
    known = plain_name(name)
    command = next((command for command, catalogue in catalogues.items() if known in catalogue), None)
    return {} if command is None else {known: f"{command} {known}"}


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
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Measure and correct the calibration of classifiers and of forecasts of a number.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)


def _version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Handle the options before the command."""
