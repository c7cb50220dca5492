"""``calibrant fit``: fit a calibration map to a file of predictions and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli.engine import engine_of
from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.options import SEED, Fit, Seed, read_options
from calibrant.cli.output import STANDARD, counted, in_a_folder, say, write_json, write_lines
from calibrant.cli.rows import Columns, File, Label, MapLabel, Prediction, ScaleName, Weight, read_rows
from calibrant.cli.server_url import Server

if TYPE_CHECKING:
    from calibrant.cli.engine import Fitted

Method = Annotated[str, typer.Option("--method", help="Calibration method, such as averaged, isotonic or temperature.")]
Options = Annotated[
    list[str] | None, typer.Option("--option", help="Option of the method, such as folds=5; repeatable.")
]
Name = Annotated[
    str | None,
    typer.Option("--name", help="Name of the map on the server; an existing name gets a new version."),
]
FitReduction = Annotated[
    str | None,
    typer.Option(
        "--reduction",
        help="Reduction: the event whose probability the map calibrates, such as binary, confidence, class:3, "
        "classwise, ranks or canonical.",
    ),
]
FitJson = Annotated[bool, typer.Option("--json", help="Print the map as JSON, also with --out or --server.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        callback=in_a_folder,
        help="JSON file for the map; - for standard output, the default without --server.",
    ),
]


def fit(
    file: File,
    method: Method = "averaged",
    label: Label = None,
    prediction: Prediction = None,
    weight: Weight = None,
    scale: ScaleName = "probability",
    map_label: MapLabel = None,
    reduction: FitReduction = None,
    option: Options = None,
    seed: Seed = SEED,
    name: Name = None,
    out: Out = None,
    as_json: FitJson = False,
    server: Server = None,
) -> None:
    """Fit a calibration map.

    Without a server, the command prints the map as JSON. With --server, the server stores the map and the command
    prints its name and version, or its id.
    """
    if not server and name is not None:
        raise typer.BadParameter("needs --server; to write the map to a file, use --out", param_hint="--name")
    with engine_of(server) as engine:
        from calibrant.calibrators import Fitting

        options = read_options(option)
        Fitting.read(method, options, reduction, where="/options")
        rows = read_rows(file, Columns(prediction, label, weight, None, scale, map_label))
        fitted = engine.fit(rows, Fit(method, options, name, reduction, seed))
    with errors_in_a_line():
        _summarize(fitted, len(rows))
        if out is not None and out != STANDARD:
            write_json(fitted.document, out)
        if as_json or out == STANDARD or (out is None and fitted.ref is None):
            write_json(fitted.document)
        elif fitted.ref is not None:
            write_lines(fitted.ref)


def _summarize(fitted: Fitted, n: int) -> None:
    """Print the method, the number of rows and the in-sample scores."""
    document, scores = fitted.document, fitted.in_sample
    say(f"fitted {document['method']} ({document['reduction']}) to {counted(n)}")
    if scores is not None:
        changes = (
            f"{name.replace('_', ' ')} {scores['before'][name]:.4f} -> {scores['after'][name]:.4f}"
            for name in ("log_loss", "brier", "ece")
        )
        say(f"in-sample scores (optimistic): {', '.join(changes)}")
