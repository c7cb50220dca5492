"""Draw a diagram as SVG or PNG; with --map, before and after the map.

The format is PNG if --out ends in .png, otherwise SVG. Without --out, the file is named after the diagram.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.commands.evaluate import EvaluateFlags, evaluated
from calibrant.cli.engine import Engine, engine_of, read_map
from calibrant.cli.exits import Refused
from calibrant.cli.options import SEED, Seed, map_option, read_request
from calibrant.cli.output import STANDARD, bar, in_a_folder, opened, say
from calibrant.cli.regression import FAN_TIME, map_for
from calibrant.cli.rows import (
    Columns,
    File,
    Regression,
    batch_of,
    columns_for,
    name_of,
    read_forecast_rows,
    read_rows,
    reads_a_file,
    reduction_of,
)
from calibrant.cli.server_url import Server
from calibrant.core.errors import CalibrationError, InvalidOption

if TYPE_CHECKING:
    from calibrant.io.table import ForecastSheet, Sheet
    from calibrant.plots.canvas import Format

# --- Drawing, in this process or on a server

#: Allowed widths of a picture in pixels.
_MIN_WIDTH, _MAX_WIDTH = 320, 2000
#: Default level of the interval in the title of a diagram.
_LEVEL = 0.95


@dataclass(frozen=True)
class PictureFlags:
    """Options of a diagram; ``map`` is a reference on the server or a map document."""

    diagram: str | dict[str, Any]
    reduction: str | None = None
    map: Any = None
    interval: float | None = None
    seed: int = SEED
    theme: str = "auto"
    width: int = 560
    png: bool = False

    def check(self) -> None:
        """Check all options but the map before a long file is read or sent; raises ``CalibrationError``."""
        from calibrant.core.options import read_seed
        from calibrant.measures.intervals import Resampling
        from calibrant.reports.pictures import BY_SIZE, COST_PLANE, is_picture, read_by_size, read_diagram

        if self.theme not in ("auto", "light", "dark"):
            raise InvalidOption.at("/theme", "must be auto, light or dark")
        if not _MIN_WIDTH <= self.width <= _MAX_WIDTH:
            raise InvalidOption.at("/width", f"must be from {_MIN_WIDTH} to {_MAX_WIDTH}")
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


def _drawn(engine: Engine, rows: Sheet, request: PictureFlags) -> bytes:
    """Draw a diagram of the rows; returns the SVG or PNG of ``POST /diagrams``."""
    form: Format = "png" if request.png else "svg"
    if engine.client is not None:
        options = {name: value for name, value in vars(request).items() if name != "png"}
        content: bytes = engine.call("diagram", rows, form=form, **options)
        return content
    from calibrant.core.inputs import reduction_with_name
    from calibrant.plots.canvas import PictureError
    from calibrant.reports.pictures import BY_SIZE, draw_report, is_picture, keys_of

    request.check()
    report = _by_size(rows, request) if is_picture(request.diagram, BY_SIZE) else _with_error(engine, rows, request)
    # The title names the class.
    reductions = [
        reduction_with_name(reduction_name, rows.classes) for reduction_name in report["reduction"].split(", ")
    ]
    report = {**report, "reduction": ", ".join(reductions)}
    try:
        return draw_report(report, keys_of(report)[0], form=form, theme=request.theme, width=request.width).content
    except PictureError as error:
        raise Refused(error.detail) from error


def _with_error(engine: Engine, rows: Sheet, request: PictureFlags) -> dict[str, Any]:
    """The report for a diagram of the catalogue, with the error for its title."""
    from calibrant.reports.pictures import read_diagram, shown_error

    diagram = read_diagram(request.diagram)
    error = shown_error({"name": diagram.diagram.name, **diagram.options}) | {"as": "error"}
    interval = _LEVEL if request.interval is None else request.interval
    measured = EvaluateFlags([error], [request.diagram], request.reduction, request.map, interval, seed=request.seed)
    return evaluated(engine, rows, measured)


def _by_size(rows: Sheet, request: PictureFlags) -> dict[str, Any]:
    from calibrant.maps.calibration_map import check_class_names, load
    from calibrant.measures.cross_fitting import UNKNOWN, training_of
    from calibrant.reports.pictures import below_diagram, by_size_report, read_by_size

    batch = batch_of(rows)
    fitted = None if request.map is None else load(request.map)
    check_class_names(fitted, rows.classes)
    training = UNKNOWN if fitted is None else training_of(fitted)
    task = read_by_size(request.diagram, request.reduction, request.seed, fitted, training)
    try:
        with bar() as shown:
            return by_size_report(task, task.check(batch), shown)
    except CalibrationError as error:
        raise below_diagram(error) from None


def _drawn_forecasts(
    engine: Engine,
    rows: ForecastSheet,
    diagram: str | dict[str, Any],
    applied: Any,
    seed: int,
    style: Mapping[str, Any],
    name: str,
) -> bytes:
    """Draw a diagram of the rows of the file with this ``name``."""
    if engine.client is not None:
        content: bytes = engine.call("distribution_diagram", rows, diagram=diagram, map=applied, seed=seed, **style)
        return content
    from calibrant.kinds.distributions import DistributionEvaluation
    from calibrant.plots.canvas import Caption
    from calibrant.plots.diagram import draw

    document = DistributionEvaluation.read([], [diagram], map=applied, seed=seed).document(rows)
    ((key, shown),) = document["diagrams"].items()
    after = None
    if document["after"] is not None:
        after = document["after"]["diagrams"][key], Caption(document["n"], document["after"]["kind"])
    about = Caption(document["n"], document["kind"], name)
    return draw(shown["definition"]["name"], shown, about, after=after, **style).content


# --- The command

Diagram = Annotated[
    str | None,
    typer.Option(
        "--diagram",
        help="Diagram: reliability (default), fit-on-test, corp, logit-logit, ks-graphs, calibration-belt, "
        "calibration-curve or by-size; with --regression coverage (default), pit, quantile-reliability, mean-variance, "
        'sharpness or fan; or a JSON object with options, such as {"name": "by-size", "measures": ["ece", "ks"]}.',
    ),
]
MapOf = Annotated[str | None, map_option("the diagram overlays the predictions before and after it")]
Interval = Annotated[
    float | None,
    typer.Option(
        "--interval",
        help="Level of the confidence interval in the title of the diagram; 0.95 by default.",
    ),
]
Theme = Annotated[
    str, typer.Option("--theme", help="light, dark or auto. An SVG with auto follows the color scheme of its viewer.")
]
PictureOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        callback=in_a_folder,
        help="Output file; by default the name of the diagram, such as reliability.svg; - for SVG on standard output.",
    ),
]
Width = Annotated[
    int,
    typer.Option(
        "--width",
        help="Width in pixels, 320 to 2000. A PNG has twice this width and height, for sharp displays.",
    ),
]


@reads_a_file("known", "features", "groups", "clusters", times=FAN_TIME)
def diagram(
    file: File,
    columns: Columns,
    regression: Regression = False,
    diagram: Diagram = None,
    interval: Interval = None,
    seed: Seed = SEED,
    map_of: MapOf = None,
    theme: Theme = "auto",
    width: Width = 560,
    out: PictureOut = None,
    server: Server = None,
) -> None:
    if out is not None and out != STANDARD and out.suffix not in (".svg", ".png"):
        raise typer.BadParameter("must end in .svg or .png, or be - for SVG on standard output", param_hint="--out")
    time, reduction = columns["times"], columns["reduction"]
    if time is not None and not regression:
        raise typer.BadParameter("needs --regression", param_hint="--time")
    if interval is not None and regression:
        raise typer.BadParameter("cannot be combined with --regression", param_hint="--interval")
    if columns["by"] and map_of is None:
        raise typer.BadParameter("needs --map", param_hint="--by")
    requested = read_request(diagram or ("coverage" if regression else "reliability"), "--diagram")
    name = requested if isinstance(requested, str) else str(requested.get("name"))
    target = Path(f"{name}.svg") if out is None else out
    png = target.suffix == ".png"
    with engine_of(server) as engine:
        applied = read_map(map_of, server)
        if regression:
            style = {"form": "png" if png else "svg", "theme": theme, "width": width}
            fitted, sheet = map_for(applied), read_forecast_rows(file, columns)
            content = _drawn_forecasts(engine, sheet, requested, fitted, seed, style, name_of(file))
        else:
            picture = PictureFlags(requested, reduction, applied, interval, seed, theme, width, png)
            of_class = reduction is not None and reduction.startswith("class:")  # perhaps a name in the file
            (replace(picture, reduction=None) if of_class else picture).check()
            rows = read_rows(file, columns_for(columns, engine.document(applied)))
            content = _drawn(engine, rows, replace(picture, reduction=reduction_of(rows, reduction)))
        with opened(target) as written:
            written.write(content)
    if out is None:
        say(f"wrote {target}")
