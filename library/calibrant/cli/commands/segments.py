"""Find segments of features in which predictions are too high or too low.

Each column of --feature is a feature. Numbers are put into bins, and segments are categories, ranges of
numbers and of the prediction, and pairs of them. The gap is the mean label minus the mean prediction.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calibrant.cli.engine import engine_of
from calibrant.cli.options import SEED, Seed
from calibrant.cli.output import Json, write_json, write_lines
from calibrant.cli.rows import Columns, File, note_reduction, read_rows, reads_a_file, reduction_of
from calibrant.cli.server_url import Server


@reads_a_file(
    "known", "drop_missing", "groups", "clusters", "times", "by", "level", "levels", "ids", "labels_from", "inner"
)
def segments(
    file: File,
    columns: Columns,
    max_order: Annotated[int, typer.Option("--max-order", help="The most features of a segment, from 0 to 3.")] = 2,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of numbers and of the prediction.")] = 10,
    min_rows: Annotated[
        int | None,
        typer.Option("--min-rows", help="Rows that a segment needs. Default: 50, of many rows a thousandth."),
    ] = None,
    n_segments: Annotated[int, typer.Option("--n-segments", help="The most segments that are listed.")] = 20,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Confidence that no segment is listed without a gap.")
    ] = 0.95,
    held_out: Annotated[
        float | None,
        typer.Option("--held-out", help="Share of the rows that test segments found in the others. Default: none."),
    ] = None,
    error: Annotated[
        bool, typer.Option("--multicalibration", help="Print the multicalibration error instead, with its p-value.")
    ] = False,
    seed: Seed = SEED,
    as_json: Json = False,
    server: Server = None,
) -> None:
    if not columns["features"]:
        raise typer.BadParameter("name a column", param_hint="--feature")
    with engine_of(server) as engine:
        rows = note_reduction(read_rows(file, columns), columns["reduction"])
        options: dict[str, Any] = {"reduction": reduction_of(rows, columns["reduction"]), "seed": seed}
        if error:
            answer = engine.call("multicalibration_error", rows, **options).to_dict()
        else:
            options |= {"max_order": max_order, "n_bins": n_bins, "min_rows": min_rows, "n_segments": n_segments}
            answer = engine.call("find_segments", rows, confidence=confidence, held_out=held_out, **options).to_dict()
    if as_json:
        write_json(answer)
        return
    from calibrant.core.results import from_plain_json
    from calibrant.decisions.segments import SegmentSearch
    from calibrant.measures.multicalibration import Multicalibration

    write_lines(repr(from_plain_json(Multicalibration if error else SegmentSearch, answer)))
