"""Compute how many rows a validation needs for precise estimates of O/E and of the calibration slope.

Describe the expected predictions by a file with predictions like them, by the mean and the standard deviation of normal
log-odds, by a beta distribution, or by the prevalence alone, which has no result for the slope.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.output import Json, write_json, write_lines
from calibrant.cli.rows import Columns, read_rows, reads_a_file

File = Annotated[Path | None, typer.Argument(help="File with predictions like those expected; - for standard input.")]
#: The options of a file for predictions without labels.
_WITHOUT = (
    *("labels", "groups", "weights", "weights_kind", "mapping", "class_names", "pos_label", "ids", "labels_from"),
    *("inner", "times", "clusters", "by", "known", "level", "levels", "reduction", "features"),
)


@reads_a_file(*_WITHOUT)
def sample_size(
    columns: Columns,
    file: File = None,
    prevalence: Annotated[float | None, typer.Option("--prevalence", help="Expected fraction of events.")] = None,
    logit_normal: Annotated[
        tuple[float, float] | None,
        typer.Option("--logit-normal", help="Mean and standard deviation of the log-odds of the predictions."),
    ] = None,
    beta: Annotated[
        tuple[float, float] | None,
        typer.Option("--beta", help="Parameters of a beta distribution of the predictions."),
    ] = None,
    oe_width: Annotated[float, typer.Option("--oe-width", help="Width of the interval of O/E.")] = 0.2,
    slope_width: Annotated[float, typer.Option("--slope-width", help="Width of the interval of the slope.")] = 0.2,
    interval: Annotated[float, typer.Option("--interval", help="Level of the intervals.")] = 0.95,
    as_json: Json = False,
) -> None:

    from calibrant.measures import sample_size as needed

    forms: dict[str, Any] = {"prevalence": prevalence, "logit_normal": logit_normal, "beta": beta}
    if (file is not None) + sum(value is not None for value in forms.values()) != 1:
        raise typer.BadParameter("give one of a file, --prevalence, --logit-normal or --beta")
    with errors_in_a_line():
        if file is not None:
            rows = read_rows(file, columns, labelled=False)
            forms = {"predictions": rows.predictions, "scale": rows.scale}
        size = needed.sample_size(**forms, oe_width=oe_width, slope_width=slope_width, level=interval)
        if as_json:
            write_json(asdict(size))
        else:
            write_lines(repr(size))
