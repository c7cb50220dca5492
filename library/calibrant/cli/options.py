"""Command-line options shared by evaluations, fits and diagrams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

Measure = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        help='Measure: a name, such as ks, or a JSON object, such as {"name": "ece", "n_bins": 20, "as": "ece-20"}; '
        "repeatable. Default: ece, ece-equal-width, ece-sweep and ks; under canonical brier, log-loss and "
        "ks-by-predicted-class.",
    ),
]
Interval = Annotated[
    float | None, typer.Option("--interval", help="Level of the confidence intervals, such as 0.95; none by default.")
]
Resamples = Annotated[int, typer.Option("--resamples", help="Number of bootstrap resamples for the intervals.")]
AllowShapeChange = Annotated[
    bool,
    typer.Option(
        "--allow-shape-change",
        help="Allow the shape of the output to differ from that of the newest map with this name.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed for resamples, tests and folds.")]
SEED, RESAMPLES = 0, 1000
#: Allowed widths of a picture in pixels.
MIN_WIDTH, MAX_WIDTH = 320, 2000


@dataclass(frozen=True)
class EvaluateFlags:
    """Options of an evaluation; ``map`` is a reference on the server or a map document."""

    measures: list[str | dict[str, Any]] | None = None
    diagrams: list[str | dict[str, Any]] | None = None
    reduction: str | None = None
    map: str | dict[str, Any] | None = None
    interval: float | None = None
    resamples: int = RESAMPLES
    seed: int = SEED

    def options(self) -> dict[str, Any]:
        """Return the options of ``POST /evaluate``, without those that are None."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Fit:
    """Options of a fit."""

    method: str
    options: dict[str, Any]
    name: str | None = None
    reduction: str | None = None
    seed: int = SEED
    allow_shape_change: bool = False
    group_folds: bool = False


@dataclass(frozen=True)
class PictureFlags:
    """Options of a diagram; ``map`` is a reference on the server or a map document."""

    diagram: str | dict[str, Any]
    reduction: str | None = None
    map: str | dict[str, Any] | None = None
    interval: float | None = None
    seed: int = SEED
    theme: str = "auto"
    width: int = 560
    png: bool = False

    def check(self) -> None:
        """Check all options but the map before a long file is read or sent; raises ``CalibrationError``."""
        from calibrant.core.errors import InvalidOption
        from calibrant.core.options import read_seed
        from calibrant.measures.intervals import Resampling
        from calibrant.reports.pictures import BY_SIZE, COST_PLANE, is_picture, read_by_size, read_diagram

        if self.theme not in ("auto", "light", "dark"):
            raise InvalidOption.at("/theme", "must be auto, light or dark")
        if not MIN_WIDTH <= self.width <= MAX_WIDTH:
            raise InvalidOption.at("/width", f"must be from {MIN_WIDTH} to {MAX_WIDTH}")
        read_seed(self.seed)
        if is_picture(self.diagram, COST_PLANE):
            raise InvalidOption.at(
                "/diagram", f"cannot be {COST_PLANE}, which needs two models; in Python use calibrant.cost_plane"
            )
        if is_picture(self.diagram, BY_SIZE):
            if self.interval is not None:
                raise InvalidOption.at("/interval", f"is not an option of {BY_SIZE}")
            read_by_size(self.diagram, self.reduction, self.seed)
        else:
            Resampling.read(self.interval)
            read_diagram(self.diagram, models=1)


def parse_diagram(given: str) -> str | dict[str, Any]:
    """Parse ``--diagram``: a name, or a JSON object with a name and options."""
    if not given.lstrip().startswith("{"):
        return given
    return _object(given, "--diagram")


def read_json(text: str | bytes) -> Any:
    """Parse strict JSON; raises ``json.JSONDecodeError``, also for NaN and for a duplicate key."""
    import orjson

    found = orjson.loads(text)  # rejects NaN
    json.loads(text, object_pairs_hook=_each_once)
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise json.JSONDecodeError("an object has a duplicate key", "", 0)


def read_measures(given: Sequence[str] | None) -> list[str | dict[str, Any]] | None:
    """Parse ``--measure``: names and JSON objects."""
    for text in given or ():
        names = text.replace(",", " ").split()
        if len(names) > 1 and not text.lstrip().startswith("{"):
            repeated = " ".join(f"--measure {name}" for name in names)
            raise typer.BadParameter(f"takes one measure; repeat it: {repeated}", param_hint="--measure")
    return [_object(text) if text.lstrip().startswith("{") else text for text in given] if given else None


def _object(text: str, flag: str = "--measure") -> dict[str, Any]:
    try:
        read: dict[str, Any] = read_json(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            f"is not valid JSON: {error.msg}, at character {error.pos + 1}", param_hint=flag
        ) from None
    return read


def read_options(given: Sequence[str] | None) -> dict[str, Any]:
    """Parse ``name=value`` pairs; a value that is not JSON is a string."""
    options: dict[str, Any] = {}
    for pair in given or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter("must be name=value, such as folds=5", param_hint="--option")
        if name in options:
            raise typer.BadParameter(f"sets {name} twice", param_hint="--option")
        try:
            options[name] = read_json(text)
        except json.JSONDecodeError:
            options[name] = text
    return options
