"""Read files of users: the format is detected from the content, columns are inferred or given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from calibrant.core.docstrings import shares
from calibrant.io.cells import JoinedTable, complete, ids_at, matching_rows, texts_at
from calibrant.io.detection import open_table
from calibrant.io.errors import InvalidFileOption, UnclearColumns
from calibrant.io.kinds import classes, distributions
from calibrant.io.limits import FileLimits
from calibrant.io.options import FileOptions
from calibrant.io.rules import Choice
from calibrant.io.source import opened
from calibrant.io.table import ForecastSheet, ModelSheets, OpenTable, Sheet, complete_in_all
from calibrant.io.texts import TextCells, quoted

__all__ = [
    "FileOptions",
    "ForecastSheet",
    "Sheet",
    "read_columns",
    "read_forecast_sheet",
    "read_models",
    "read_sheet",
]

# --- Reading a file as a sheet, or some of its columns as strings

_FILE = """
Parameters
----------
source : Path or binary stream
    A seekable stream is read from its beginning. A stream stays open.
name : str
    Name of the file in messages.
max_rows : int or None
    The most rows. With None, only the limit of 1e8 numbers applies.
max_bytes : int
    The most bytes after decompression.
budget : callable, optional
    Called with a number of bytes before they are allocated. A ``CalibrationError`` that it raises ends the reading.
    With it, Excel workbooks are refused, since a hostile one could fill the memory.
spool : callable, optional
    Called with the size that a temporary file is about to reach. A ``CalibrationError`` that it raises ends the
    reading.
"""


@shares(_FILE)
def read_sheet(
    source: Path | BinaryIO,
    *,
    name: str,
    options: FileOptions = FileOptions(),  # noqa: B008 - frozen
    max_rows: int | None,
    labelled: bool | None = True,
    max_bytes: int = FileLimits.max_unpacked_bytes,
    budget: Callable[[int], None] | None = None,
    spool: Callable[[int], None] | None = None,
) -> Sheet:
    r"""Read a CSV, JSON, NPZ, NPY, Parquet, Arrow or Excel (xlsx) file.

    It may be compressed with gzip, bzip2, xz or Zstandard, or be the only file of a ZIP archive. The format is detected
    from the content, not from the name.

    Parameters
    ----------
    options : FileOptions
        Columns, scale and mapping of labels; what is None is inferred.
    labelled : bool or None
        If False, labels are read only if the options name their column; if None, if the file has any.

    Returns
    -------
    Sheet
        The arrays, and notes on what was inferred.

    Raises
    ------
    TabularError
        If the content cannot be read; no other error is raised for any content.
    MissingExtra
        If the format needs pyarrow, zstandard or openpyxl and it is not installed.

    Examples
    --------
    >>> import io
    >>> from calibrant.io.files import read_sheet
    >>> sheet = read_sheet(io.BytesIO(b"label,p\n1,0.8\n0,0.3\n"), name="preds.csv", max_rows=None)
    >>> sheet.predictions.tolist(), sheet.labels.tolist()
    ([0.8, 0.3], [1, 0])
    >>> sheet.notes[0]
    "labels: column 'label' (inferred from its name)"
    """
    limits = FileLimits(max_bytes, max_rows, budget=budget, spool=spool)
    with _opened_tables(source, name, options, limits) as table:
        return classes.read_table(table, options, limits, labelled=labelled)


@contextmanager
def _opened_tables(source: Path | BinaryIO, name: str, options: FileOptions, limits: FileLimits) -> Iterator[OpenTable]:
    """Open a file as a table; joined with the file of the labels, if the options name one."""
    cells = TextCells(options.decimal, options.encoding, percent=options.scale == "percent")
    with ExitStack() as stack:
        table = stack.enter_context(open_table(stack.enter_context(opened(source, limits)), name, limits, cells))
        if options.labels_from is None:
            yield table
            return
        if options.ids is None:
            raise InvalidFileOption("needs --id, the column on which the files are joined", field="labels_from")
        path, ids = Path(options.labels_from), options.ids.strip()
        other = stack.enter_context(open_table(stack.enter_context(opened(path, limits)), path.name, limits, cells))
        tables = {name: table, path.name if path.name != name else str(path): other}
        rows = {file: ids_at(own, ids, file) for file, own in tables.items()}
        yield JoinedTable(tables, ids, *matching_rows(rows, inner=bool(options.inner)))


@shares(_FILE)
def read_models(
    source: Path | BinaryIO,
    *,
    name: str,
    options: FileOptions,
    max_rows: int | None,
    max_bytes: int = FileLimits.max_unpacked_bytes,
    budget: Callable[[int], None] | None = None,
    spool: Callable[[int], None] | None = None,
) -> ModelSheets:
    r"""Read the predictions of several models from a file of the formats of ``read_sheet``.

    Parameters
    ----------
    options : FileOptions
        Each of its ``predictions`` names the column of a model, or with a wildcard such as ``rf_*`` a column for each
        class; without them, the file has one model, whose columns are inferred.

    Returns
    -------
    ModelSheets
        A sheet for each model, by the name in the options; ``predictions`` if its columns are inferred.

    Raises
    ------
    TabularError
        If the content cannot be read, or the columns of two models are those of different classes.
    InvalidFileOption
        If a model is named twice.

    Examples
    --------
    >>> import io
    >>> from calibrant.io.files import FileOptions, read_models
    >>> file = io.BytesIO(b"y,rf,xgb\n1,0.8,0.7\n0,0.3,0.1\n")
    >>> models = read_models(file, name="f.csv", options=FileOptions(predictions=("rf", "xgb")), max_rows=None)
    >>> {name: sheet.predictions.tolist() for name, sheet in models.sheets.items()}
    {'rf': [0.8, 0.3], 'xgb': [0.7, 0.1]}
    """
    stated = options.predictions or ()
    if len(set(stated)) < len(stated):
        raise InvalidFileOption("must be a different column for each model", field="predictions")
    limits, sheets = FileLimits(max_bytes, max_rows, budget=budget, spool=spool), dict[str, Sheet]()
    with _opened_tables(source, name, options, limits) as table:
        for model in stated:
            sheets[model] = classes.read_table(table, replace(options, predictions=(model,)), limits)
        if not stated:
            sheets["predictions"] = classes.read_table(table, options, limits)
    sheets = complete_in_all(sheets)
    first = next(iter(sheets))
    for model, sheet in sheets.items():
        if sheet.classes != sheets[first].classes or sheet.predictions.shape != sheets[first].predictions.shape:
            raise UnclearColumns(f"the columns of {quoted(model)} are those of other classes than {quoted(first)}")
    return ModelSheets(sheets)


@shares(_FILE)
def read_forecast_sheet(
    source: Path | BinaryIO,
    *,
    name: str,
    options: FileOptions = FileOptions(),  # noqa: B008 - frozen
    max_rows: int | None,
    labelled: bool = True,
    max_bytes: int = FileLimits.max_unpacked_bytes,
    budget: Callable[[int], None] | None = None,
    spool: Callable[[int], None] | None = None,
) -> ForecastSheet:
    r"""Read predictive distributions of a number from a file of the formats of ``read_sheet``.

    Parameters
    ----------
    options : FileOptions
        Columns and levels; what is None is inferred from the names of the columns.
    labelled : bool
        If False, outcomes are read only if the options name their column.

    Returns
    -------
    ForecastSheet
        The distributions and outcomes, and notes on what was inferred.

    Raises
    ------
    TabularError
        If the content cannot be read or is no valid distribution; the error names the column and the first rows.
    MissingExtra
        If the format needs pyarrow, zstandard or openpyxl and it is not installed.

    Examples
    --------
    >>> import io
    >>> from calibrant.io.files import read_forecast_sheet
    >>> sheet = read_forecast_sheet(io.BytesIO(b"y,mean,std\n1.5,1,2\n0.5,0,3\n"), name="f.csv", max_rows=None)
    >>> sheet.forecasts.variance.tolist(), sheet.observed.tolist()
    ([4.0, 9.0], [1.5, 0.5])
    >>> sheet.notes[0]
    "observed: column 'y' (inferred from its name)"
    """
    limits = FileLimits(max_bytes, max_rows, budget=budget, spool=spool)
    with _opened_tables(source, name, options, limits) as table:
        return distributions.read_table(table, options, limits, labelled=labelled)


@shares(_FILE)
def read_columns(
    source: Path | BinaryIO,
    names: Sequence[str],
    *,
    name: str,
    max_bytes: int = FileLimits.max_unpacked_bytes,
    encoding: str | None = None,
) -> list[list[str]]:
    """Read some columns as strings, without surrounding blanks.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    encoding : str, optional
        As for ``FileOptions``.

    Returns
    -------
    list of list of str
        The cells of each column.

    Raises
    ------
    TabularError
        If the file cannot be read, has no such column, or a cell is empty.
    """
    limits = FileLimits(max_bytes)
    with opened(source, limits) as file, open_table(file, name, limits, TextCells(encoding=encoding)) as table:
        places = [Choice(table.columns, FileOptions()).find(column, "file") for column in names]
        columns = zip(places, texts_at(table, places), strict=True)
        return [complete(cells, table.columns[at].name) for at, cells in columns]
