"""``calibrant calibrate``: a map applied to a file of predictions."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.calibrated_file import FORMS, write_calibrated
from cli.engine import engine_of, read_map
from cli.output import STANDARD, Out
from cli.rows import Columns, File, Prediction, ScaleName, read_rows, source_of
from cli.server_url import Server

MapOf = Annotated[
    str,
    typer.Option("--map", help="Map: a file with its document, or with a server its id, name, name:3 or name@alias."),
]


def calibrate(
    file: File,
    map_of: MapOf,
    prediction: Prediction = None,
    scale: ScaleName = "probability",
    out: Out = STANDARD,
    server: Server = None,
) -> None:
    """Write the file with its calibrated probabilities.

    A text file is written as it is, with the column ``calibrated`` after its own, or a column a class,
    ``calibrated_0`` and so on; of other files the calibrated columns alone, as CSV, or as NPZ where --out ends so.
    """
    if out != STANDARD and out.suffix.lower() not in FORMS:
        raise typer.BadParameter(f"must end in {', '.join(FORMS)}", param_hint="--out")
    with engine_of(server) as engine:
        applied = read_map(map_of, server)
        with source_of(file) as source:
            rows = read_rows(file, Columns(prediction=prediction, scale=scale), labelled=False, source=source)
            write_calibrated(source, file, engine.calibrate(rows, applied), rows.classes, out)
