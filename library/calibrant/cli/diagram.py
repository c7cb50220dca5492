"""``calibrant diagram``: draw a diagram of a file's predictions as SVG or PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.options import SEED, Picture, Reduction, Seed, parse_diagram
from calibrant.cli.output import STANDARD, in_a_folder, opened, say
from calibrant.cli.rows import (
    ClassNames,
    Columns,
    Decimal,
    File,
    Label,
    MapLabel,
    PosLabel,
    Prediction,
    ScaleName,
    Weight,
    columns_for,
    read_rows,
)
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
Width = Annotated[int, typer.Option("--width", help="Width in pixels, 320 to 2000. A PNG has twice as many.")]


def diagram(
    file: File,
    label: Label = None,
    prediction: Prediction = None,
    weight: Weight = None,
    scale: ScaleName = "probability",
    map_label: MapLabel = None,
    class_names: ClassNames = None,
    pos_label: PosLabel = None,
    decimal: Decimal = ".",
    diagram: Diagram = "reliability",
    reduction: Reduction = None,
    interval: Interval = None,
    seed: Seed = SEED,
    map_of: MapOf = None,
    theme: Theme = "auto",
    width: Width = 560,
    out: PictureOut = None,
    server: Server = None,
) -> None:
    """Draw a diagram as SVG or PNG; with --map, before and after the map.

    The format is PNG if --out ends in .png, else SVG. Without --out, the file is named after the diagram.
    """
    if out is not None and out != STANDARD and out.suffix not in (".svg", ".png"):
        raise typer.BadParameter("must end in .svg or .png, or be - for SVG on standard output", param_hint="--out")
    with engine_of(server) as engine:
        applied = None if map_of is None else read_map(map_of, server)
        requested = parse_diagram(diagram)
        name = requested if isinstance(requested, str) else str(requested.get("name"))
        target = Path(f"{name}.svg") if out is None else out
        png = target.suffix == ".png"
        picture = Picture(requested, reduction, applied, interval, seed, theme, width, png)
        picture.check()
        columns = Columns(prediction, label, weight, None, scale, map_label, class_names, pos_label, decimal)
        rows = read_rows(file, columns_for(columns, applied))
        drawn = engine.draw(rows, picture)
    with errors_in_a_line(), opened(target) as written:
        written.write(drawn)
    if out is None:
        say(f"wrote {target}")
