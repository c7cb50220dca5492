"""The settings of the API as flags and variables of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from service.settings import Setting, all_settings


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a flag for every setting; they reach its ``settings`` argument as a dictionary.

    typer reads a command's flags from its signature, so one is written here.
    """
    own = inspect.signature(command, eval_str=True).parameters
    settings = list(all_settings())
    flags = [_parameter(setting) for setting in settings if setting.name not in own]
    kept = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.items() if name != "settings"]

    def run(**given: Any) -> None:
        command(
            **{name: value for name, value in given.items() if name in own},
            settings={setting.name: given[setting.name] for setting in settings},
        )

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    signature = inspect.Signature([*kept, *flags])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return run


def _parameter(setting: Setting) -> inspect.Parameter:
    option = typer.Option(setting.flag, envvar=setting.variable, help=_sentence(setting.meaning), min=setting.low)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.default,
        annotation=Annotated[setting.kind, option],
    )


def _sentence(meaning: str) -> str:
    return meaning[:1].upper() + meaning[1:] + "."
