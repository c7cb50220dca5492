"""``calibrant calibrate``: a map applied to a file of predictions."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import Refused
from calibrant.cli.output import STANDARD, Out, bar, opened, plain
from calibrant.cli.rows import Columns, File, Prediction, ScaleName, name_of, read_rows, source_of
from calibrant.cli.server_url import Server

if TYPE_CHECKING:
    from calibrant.cells import Floats


# --- Calibrated probabilities as a file: beside the columns that they came from, where those are text

#: How a file that is written may end.
FORMS = (".csv", ".tsv", ".txt", ".npz")
_COLUMN = "calibrated"
#: Rows that are written at once.
_BLOCK = 1 << 14


def write_calibrated(
    source: BinaryIO, file: Path, calibrated: Floats, classes: Sequence[str] | None, out: Path
) -> None:
    """Write ``calibrated`` (n,) or (n, K); after the columns of ``source`` where it is text; raises ``Refused``.

    ``file`` is what the source is called, ``classes`` are the names of its classes.
    """
    if out.suffix.lower() == ".npz":
        import numpy as np

        with opened(out) as npz:
            np.savez(npz, allow_pickle=False, calibrated=calibrated)
        return
    from calibrant.io.csv import CsvTable
    from calibrant.io.files import open_table
    from calibrant.io.limits import FileLimits

    with open_table(source, name_of(file), FileLimits()) as table:
        text = table if isinstance(table, CsvTable) else None
        separator = "\t" if out.suffix.lower() == ".tsv" else "," if text is None else text.separator
        header = [] if text is None else [column.name for column in table.columns]
        rows = chain(() if text is None else text.rows(), repeat([]))
        with opened(out) as written, bar() as shown:
            written.write(_lines([header + _names(header, calibrated, classes)], separator))
            columns = calibrated.reshape(len(calibrated), -1)
            for at in range(0, len(columns), _BLOCK):
                block = columns[at : at + _BLOCK].tolist()
                # The shortest digits that are read as the same number again.
                lines = [old + [repr(p) for p in new] for old, new in zip(islice(rows, len(block)), block, strict=True)]
                written.write(_lines(lines, separator))
                shown(at + len(block), len(columns), "writing")


def _names(header: Sequence[str], calibrated: Floats, classes: Sequence[str] | None) -> list[str]:
    """The names of the new columns, none of which may be there already."""
    if calibrated.ndim == 1:
        names = [_COLUMN]
    else:
        suffixes = classes if classes is not None else map(str, range(calibrated.shape[1]))
        names = [f"{_COLUMN}_{suffix}" for suffix in suffixes]
    for name in names:
        if name in header:
            raise Refused(f"the file has a column '{plain(name)}' already: rename it")
    return names


def _lines(rows: Sequence[Sequence[str]], separator: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    # Bytes of other columns that are no UTF-8 were read as lone surrogates, and are written as they were.
    return text.getvalue().encode("utf-8", "surrogateescape")


# --- ``calibrant calibrate``: a map applied to a file of predictions

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
