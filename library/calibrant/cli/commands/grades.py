"""Test whether the default probabilities (PDs) of rating grades are too low.

A row is an obligor, with its PD as --prediction, its grade as --group and whether it defaulted as --label. With --count
a row is a grade, and --label the number of its defaults.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.engine import Engine, engine_of
from calibrant.cli.exits import Refused
from calibrant.cli.output import Json, write_json, write_lines
from calibrant.cli.rows import Columns, File, batch_of, name_of, options_of, read_rows, reads_a_file, source_of
from calibrant.cli.server_url import Server
from calibrant.io.errors import LabelsNeedMapping, NotLabels

if TYPE_CHECKING:
    from calibrant.io.table import Sheet

Count = Annotated[
    str | None,
    typer.Option("--count", help="Column of the number of obligors of each row; --label then counts defaults."),
]
Correlation = Annotated[
    float | None,
    typer.Option("--correlation", help="Asset correlation, such as 0.12, for p-values of the one-factor model."),
]
Confidence = Annotated[
    float | None, typer.Option("--confidence", help="Confidence of prudent PDs, such as 0.75; none by default.")
]


@reads_a_file(
    "features", "times", "clusters", "by", "known", "level", "levels", "reduction", groups="Column of the grades."
)
def grades(
    file: File,
    columns: Columns,
    count: Count = None,
    correlation: Correlation = None,
    confidence: Confidence = None,
    as_json: Json = False,
    server: Server = None,
) -> None:
    for flag, missing in (("--group", not columns["groups"]), ("--label", count and not columns["labels"])):
        if missing:
            what = "the grades" if flag == "--group" else "the numbers of defaults"
            raise typer.BadParameter(f"name the column of {what}", param_hint=flag)
    if count and columns["weights"]:
        raise typer.BadParameter("cannot be combined with --weight", param_hint="--count")
    with engine_of(server) as engine:
        rows = _of_rows(file, columns) if count is None else _of_counts(file, columns, count)
        tests = _tested(engine, rows, correlation=correlation, confidence=confidence)
        if as_json:
            write_json(tests)
            return
        from calibrant.core.results import from_plain_json
        from calibrant.decisions.grades import GradeTests

        write_lines(repr(from_plain_json(GradeTests, tests)))


def _tested(engine: Engine, rows: Sheet, **options: Any) -> dict[str, Any]:
    """Test the grades of the rows; returns the JSON of ``POST /grades``."""
    if engine.client is not None:
        return engine.call("grade_tests", rows, **options).to_dict()  # type: ignore[no-any-return]
    from calibrant.core.groups import Groups
    from calibrant.decisions.grades import grade_results

    return grade_results(batch_of(rows), Groups(rows.groups or ()), **options).to_dict()


def _of_rows(file: Path, columns: Columns) -> Sheet:
    try:
        return read_rows(file, columns)
    except Refused as error:
        if not isinstance(error.__cause__, LabelsNeedMapping | NotLabels):
            raise
        hint = "If the labels are numbers of defaults, name the column of obligors with --count."
        raise Refused(f"{error}\n{hint}", error.code) from None


def _of_counts(file: Path, columns: Columns, count: str) -> Sheet:
    """Return two rows for each row of a table of grades: its defaults and its other obligors, as weights."""
    import numpy as np

    from calibrant.core.column_names import integer
    from calibrant.io.files import read_columns

    with source_of(file) as source:
        table = {**columns, "labels": None, "weights": count, "weights_kind": "frequency"}
        rows = read_rows(file, table, labelled=False, source=source)
        texts = read_columns(source, [columns["labels"]], name=name_of(file), encoding=options_of(columns).encoding)[0]
    n = np.zeros(len(rows)) if rows.weights is None else rows.weights
    numbers = range(len(texts)) if rows.row_numbers is None else rows.row_numbers.tolist()
    defaults = [integer(texts[i]) for i in numbers]
    for i, number, most in zip(numbers, defaults, n.tolist(), strict=True):
        if number is None or not 0 <= number <= most:
            where = f"{name_of(file)}: column '{columns['labels']}'"
            raise Refused(f"{where} must have whole numbers from 0 to '{count}'; row {i + 1} has none")
    bad = np.array(defaults, dtype=np.float64)
    return replace(
        rows,
        row_numbers=None,
        predictions=np.concatenate([rows.predictions] * 2),
        labels=np.repeat([1, 0], len(rows)),
        weights=np.concatenate([bad, n - bad]),
        groups=[*(rows.groups or ())] * 2,
    )
