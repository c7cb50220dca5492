"""``calibrant diagram``: draw a diagram of a file's predictions as SVG or PNG."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.options import SEED, Picture, Reduction, Seed, parse_diagram
from calibrant.cli.output import STANDARD, Out, opened
from calibrant.cli.rows import Columns, File, Label, MapLabel, Prediction, ScaleName, Weight, read_rows
from calibrant.cli.server_url import Server

Diagram = Annotated[
    str,
    typer.Option(
        "--diagram",
        help="Diagram: reliability, fit-on-test, corp, logit-logit, ks-graphs or by-size; or a JSON object with "
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
        help="The title of the diagram shows the calibration error with a confidence interval; this is its level. "
        "0.95 by default.",
    ),
]
Theme = Annotated[
    str, typer.Option("--theme", help="light, dark or auto. An SVG with auto follows the color scheme of its viewer.")
]
Width = Annotated[int, typer.Option("--width", help="Width in pixels, 320 to 2000. A PNG has twice as many.")]


def diagram(
    file: File,
    label: Label = None,
    prediction: Prediction = None,
    weight: Weight = None,
    scale: ScaleName = "probability",
    map_label: MapLabel = None,
    diagram: Diagram = "reliability",
    reduction: Reduction = None,
    interval: Interval = None,
    seed: Seed = SEED,
    map_of: MapOf = None,
    theme: Theme = "auto",
    width: Width = 560,
    out: Out = STANDARD,
    server: Server = None,
) -> None:
    """Draw a diagram as SVG or PNG; with --map, before and after the map.

    The format is PNG if --out ends in .png, else SVG.
    """
    if out != STANDARD and out.suffix not in (".svg", ".png"):
        raise typer.BadParameter("must end in .svg or .png, or be - for SVG on standard output", param_hint="--out")
    with engine_of(server) as engine:
        applied = None if map_of is None else read_map(map_of, server)
        png = out.suffix == ".png"
        picture = Picture(parse_diagram(diagram), reduction, applied, interval, seed, theme, width, png)
        picture.check()
        rows = read_rows(file, Columns(prediction, label, weight, None, scale, map_label))
        drawn = engine.draw(rows, picture)
    with errors_in_a_line(), opened(out) as written:
        written.write(drawn)
