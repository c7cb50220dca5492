"""Measure how often prediction sets have the label of their row, by class, size and group, and how large they are.

Each --prediction is the column of a class, with 1 in the rows whose set has the class, and 0 in the others.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calibrant.cli.engine import arguments_of, engine_of
from calibrant.cli.output import Json, working, write_json, write_lines
from calibrant.cli.rows import Columns, File, read_rows, reads_a_file
from calibrant.cli.server_url import Server

Alpha = Annotated[
    float | None, typer.Option("--alpha", help="Error level of the sets, such as 0.1 for a nominal coverage of 0.9.")
]
Interval = Annotated[float, typer.Option("--interval", help="Level of the intervals.")]


@reads_a_file(
    *("times", "drop_missing", "clusters", "by", "known", "level", "levels", "reduction", "scale", "features"),
    predictions="Column of a class, with 1 if the set has it and else 0; repeat it for each class, in their order.",
)
def coverage(
    file: File,
    columns: Columns,
    alpha: Alpha = None,
    interval: Interval = 0.95,
    as_json: Json = False,
    server: Server = None,
) -> None:
    with engine_of(server) as engine:
        rows = arguments_of(read_rows(file, columns, unused=("scale",)))
        rows.pop("scale", None)
        options: dict[str, Any] = {"alpha": alpha, "interval": interval, **rows}
        with working("coverage"):
            sets, labels = options.pop("predictions"), options.pop("labels")
            evaluation = engine.function("evaluate_sets")(sets, labels, **options).to_dict()
        if as_json:
            write_json(evaluation)
            return
        from calibrant.core.results import from_plain_json
        from calibrant.sets.evaluation import SetEvaluation

        write_lines(repr(from_plain_json(SetEvaluation, evaluation)))
