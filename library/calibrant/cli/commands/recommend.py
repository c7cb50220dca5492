"""Recommend a calibration map, or none, with the reasons.

Fast methods are compared on held-out rows, as in a report. Prints the command that fits the recommended one.
"""

from __future__ import annotations

import typer

from calibrant.cli.engine import engine_of
from calibrant.cli.options import SEED, Seed
from calibrant.cli.output import Json, say, write_json, write_lines
from calibrant.cli.rows import Columns, File, command_line, note_reduction, read_rows, reads_a_file, reduction_of
from calibrant.cli.server_url import Server


@reads_a_file("features", "groups", "times", "by", "known", "level", "levels")
def recommend(
    context: typer.Context,
    file: File,
    columns: Columns,
    seed: Seed = SEED,
    as_json: Json = False,
    server: Server = None,
) -> None:
    with engine_of(server) as engine:
        rows = note_reduction(read_rows(file, columns), columns["reduction"])
        reduction = reduction_of(rows, columns["reduction"])
        answer = engine.call("recommend", rows, reduction=reduction, seed=seed).to_dict()
    if as_json:
        write_json(answer)
        return
    write_lines(answer["verdict"], answer["headline"], *answer["reasons"])
    if answer["python"] is not None:
        again = command_line(context, without=("--reduction",)).replace(" recommend ", " fit ", 1)
        say(f"to fit it: {again} --method {answer['method']} --reduction {answer['reduction']}")
