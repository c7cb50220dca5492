"""``calibrant calibrate``: apply a calibration map to a file of predictions."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import Refused
from calibrant.cli.output import STANDARD, Out, bar, opened, plain
from calibrant.cli.rows import (
    Columns,
    Decimal,
    File,
    Prediction,
    ScaleName,
    columns_for,
    name_of,
    read_rows,
    source_of,
)
from calibrant.cli.server_url import Server

if TYPE_CHECKING:
    from calibrant.cells import Floats
    from calibrant.io.table import Table


# --- Writing the calibrated probabilities; for a text file, next to its own columns

#: Allowed suffixes of the output file.
FORMS = (".csv", ".tsv", ".txt", ".npz", ".parquet")
_COLUMN = "calibrated"
#: Rows per write.
_BLOCK = 1 << 14


def write_calibrated(
    source: BinaryIO, file: Path, calibrated: Floats, classes: Sequence[str] | None, out: Path, decimal: str = "."
) -> None:
    """Write ``calibrated`` (n,) or (n, K), after the columns of ``source`` if that is a text file or both are Parquet.

    ``file`` is the path of the source, ``classes`` are the names of the classes, and ``decimal`` is the decimal mark
    of text. Raises ``Refused`` if the source already has a column of that name.
    """
    if out.suffix.lower() == ".npz":
        import numpy as np

        with opened(out) as npz:
            np.savez(npz, allow_pickle=False, calibrated=calibrated)
        return
    from calibrant.io.arrow import ArrowTable, ParquetTable
    from calibrant.io.csv import CsvTable
    from calibrant.io.files import open_table
    from calibrant.io.limits import FileLimits

    with open_table(source, name_of(file), FileLimits()) as table:
        if out.suffix.lower() == ".parquet":
            header = [column.name for column in table.columns]
            kept = table.whole() if isinstance(table, ArrowTable | ParquetTable) else _of_text(table)
            _write_parquet(kept, _names(header if kept is not None else [], calibrated, classes), calibrated, out)
            return
        text = table if isinstance(table, CsvTable) else None
        separator = "\t" if out.suffix.lower() == ".tsv" else "," if text is None else text.separator
        header = [] if text is None else [column.name for column in table.columns]
        rows = chain(() if text is None else text.rows(), repeat([]))
        with opened(out) as written, bar() as shown:
            written.write(_lines([header + _names(header, calibrated, classes)], separator))
            columns = calibrated.reshape(len(calibrated), -1)
            for at in range(0, len(columns), _BLOCK):
                block = columns[at : at + _BLOCK].tolist()
                # repr: the shortest digits that parse to the same double.
                lines = [
                    old + [repr(p).replace(".", decimal) for p in new]
                    for old, new in zip(islice(rows, len(block)), block, strict=True)
                ]
                written.write(_lines(lines, separator))
                shown(at + len(block), len(columns), "writing")


def _names(header: Sequence[str], calibrated: Floats, classes: Sequence[str] | None) -> list[str]:
    """The names of the new columns; raises ``Refused`` if the file already has one of them."""
    if calibrated.ndim == 1:
        names = [_COLUMN]
    else:
        suffixes = classes if classes is not None else map(str, range(calibrated.shape[1]))
        names = [f"{_COLUMN}_{suffix}" for suffix in suffixes]
    for name in names:
        if name in header:
            raise Refused(f"the file already has a column '{plain(name)}'; rename it")
    return names


def _of_text(table: Table) -> Any | None:
    """Return the columns of a text file as a pyarrow table with inferred types; None for other files."""
    from calibrant.io.csv import CsvTable
    from calibrant.io.errors import needed_pyarrow

    arrow = needed_pyarrow("csv", "a Parquet file")
    if not isinstance(table, CsvTable):
        return None
    header = [column.name for column in table.columns]
    text = _lines([[name or f"column_{i}" for i, name in enumerate(header)], *table.rows()], ",")
    return arrow.csv.read_csv(io.BytesIO(text), parse_options=arrow.csv.ParseOptions(newlines_in_values=True))


def _write_parquet(kept: Any | None, names: Sequence[str], calibrated: Floats, out: Path) -> None:
    from calibrant.io.errors import needed_pyarrow

    arrow = needed_pyarrow("parquet", "a Parquet file")
    found = arrow.table({}) if kept is None else kept
    for name, column in zip(names, calibrated.reshape(len(calibrated), -1).T, strict=True):
        found = found.append_column(name, arrow.array(column.copy()))
    with opened(out) as written:
        arrow.parquet.write_table(found, written)


def _lines(rows: Sequence[Sequence[str]], separator: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    # Bytes that are not UTF-8 were read as lone surrogates; write the same bytes again.
    return text.getvalue().encode("utf-8", "surrogateescape")


# --- The command

MapOf = Annotated[
    str,
    typer.Option("--map", help="Calibration map: a JSON file, or with --server an id, name, name:3 or name@alias."),
]


def calibrate(
    file: File,
    map_of: MapOf,
    prediction: Prediction = None,
    scale: ScaleName = "probability",
    decimal: Decimal = ".",
    out: Out = STANDARD,
    server: Server = None,
) -> None:
    """Apply a calibration map to a file of predictions.

    For a text file, the output is the file with a new last column ``calibrated``, or with one column per class, such as
    ``calibrated_bird``. For other files, the output has only the calibrated columns. A text file keeps its separator;
    for other files the output is CSV. If --out ends in .tsv, the separator is a tab; if it ends in .npz, the output is
    NPZ with only the calibrated probabilities; if it ends in .parquet, the output is Parquet, also with the columns of
    a Parquet or Arrow file.
    """
    if out != STANDARD and out.suffix.lower() not in FORMS:
        raise typer.BadParameter(f"must end in one of {', '.join(FORMS)}", param_hint="--out")
    with engine_of(server) as engine:
        applied = read_map(map_of, server)
        document = engine.document(applied)
        with source_of(file) as source:
            columns = Columns(prediction=prediction, scale=scale, decimal=decimal)
            if document.get("n_classes") is not None:
                columns = columns_for(columns, document)
            rows = read_rows(file, columns, labelled=False, source=source)
            calibrated = engine.calibrate(rows, applied)
            names = document.get("class_names") or rows.classes
            write_calibrated(source, file, calibrated, names, out, decimal)
