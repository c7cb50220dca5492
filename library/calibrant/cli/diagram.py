"""``calibrant diagram``: draw a diagram of a file's predictions as SVG or PNG."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.options import SEED, PictureFlags, Seed, parse_diagram
from calibrant.cli.output import STANDARD, in_a_folder, opened, say
from calibrant.cli.regression import FAN_TIME, check_alone, forecasts_of
from calibrant.cli.rows import (
    Columns,
    File,
    Regression,
    columns_for,
    name_of,
    read_forecast_rows,
    read_rows,
    reads_a_file,
    reduction_of,
)
from calibrant.cli.server_url import Server

Diagram = Annotated[
    str | None,
    typer.Option(
        "--diagram",
        help="Diagram: reliability (default), fit-on-test, corp, logit-logit, ks-graphs or by-size; with --regression "
        "coverage (default), pit, quantile-reliability, mean-variance, sharpness or fan; or a JSON object with "
        'options, such as {"name": "by-size", "measures": ["ece", "ks"]}.',
    ),
]
MapOf = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Calibration map; the diagram overlays the predictions before and after it. A JSON file, or with --server "
        "an id, name, name:3 or name@alias.",
    ),
]
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


@reads_a_file("known", "groups", "clusters", times=FAN_TIME)
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
    """Draw a diagram as SVG or PNG; with --map, before and after the map.

    The format is PNG if --out ends in .png, otherwise SVG. Without --out, the file is named after the diagram.
    """
    if out is not None and out != STANDARD and out.suffix not in (".svg", ".png"):
        raise typer.BadParameter("must end in .svg or .png, or be - for SVG on standard output", param_hint="--out")
    time, reduction = columns["times"], columns["reduction"]
    check_alone(regression=regression, columns=columns)
    if time is not None and not regression:
        raise typer.BadParameter("needs --regression", param_hint="--time")
    requested = parse_diagram(diagram or ("coverage" if regression else "reliability"))
    name = requested if isinstance(requested, str) else str(requested.get("name"))
    target = Path(f"{name}.svg") if out is None else out
    if regression:
        style = {"form": "png" if target.suffix == ".png" else "svg", "theme": theme, "width": width}
        with forecasts_of(server) as forecasts:
            fitted: Any = forecasts.map(read_map(map_of, server))
            content = forecasts.draw(read_forecast_rows(file, columns), requested, fitted, seed, style, name_of(file))
            with opened(target) as written:
                written.write(content)
        if out is None:
            say(f"wrote {target}")
        return
    with engine_of(server) as engine:
        applied = read_map(map_of, server)
        png = target.suffix == ".png"
        picture = PictureFlags(requested, reduction, applied, interval, seed, theme, width, png)
        of_class = reduction is not None and reduction.startswith("class:")  # perhaps a name in the file
        (replace(picture, reduction=None) if of_class else picture).check()
        sheet = read_rows(file, columns_for(columns, applied))
        drawn = engine.draw(sheet, replace(picture, reduction=reduction_of(sheet, reduction)))
    with errors_in_a_line(), opened(target) as written:
        written.write(drawn)
    if out is None:
        say(f"wrote {target}")
