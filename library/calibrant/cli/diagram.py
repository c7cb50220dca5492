"""``calibrant diagram``: a picture of a file's rows, as SVG or PNG."""

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
        help="Diagram: reliability, fit-on-test, corp, logit-logit, ks-graphs or by-size, or a JSON object, such as "
        '{"name": "by-size", "measures": ["ece", "ks"]}.',
    ),
]
MapOf = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Map to draw before and after, one over the other: a file with its document, or with a server its id, "
        "name, name:3 or name@alias.",
    ),
]
Interval = Annotated[
    float | None, typer.Option("--interval", help="Level of the error's interval in the title; 0.95 by default.")
]
Theme = Annotated[
    str, typer.Option("--theme", help="auto, which in SVG follows the reader's own preference, light or dark.")
]
Width = Annotated[int, typer.Option("--width", help="Pixels, 320 to 2000; a PNG has twice as many.")]


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
    """Draw a diagram as SVG, or as PNG where --out ends so; with --map before and after it."""
    if out != STANDARD and out.suffix not in (".svg", ".png"):
        raise typer.BadParameter("must end in .svg or .png, or be - for an SVG", param_hint="--out")
    with engine_of(server) as engine:
        applied = None if map_of is None else read_map(map_of, server)
        png = out.suffix == ".png"
        picture = Picture(parse_diagram(diagram), reduction, applied, interval, seed, theme, width, png)
        picture.check()
        rows = read_rows(file, Columns(prediction, label, weight, None, scale, map_label))
        drawn = engine.draw(rows, picture)
    with errors_in_a_line(), opened(out) as written:
        written.write(drawn)
