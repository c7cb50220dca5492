"""Calibrated predictions beside the columns of the file that they were made from."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from types import SimpleNamespace
from typing import Any

import numpy as np

from calibrant.distributions.forecasts import Forecasts
from calibrant.io.arrow import ArrowTable, ParquetTable
from calibrant.io.csv import CsvTable
from calibrant.io.errors import DuplicateColumns, NotUtf8, needed_pyarrow
from calibrant.io.json_lines import JsonLinesTable
from calibrant.io.table import Floats, Ints, OpenTable
from calibrant.io.texts import quoted, with_point

_COLUMN = "calibrated"
#: The ends of the names of the columns of a Venn-Abers map: that of the probability, and those of its two bounds.
BOUNDS = ("", "p0", "p1")
#: Of members of prediction sets, which are integers.
_SET = "set"
#: Rows per piece.
BLOCK = 1 << 14


def calibrated_text(
    table: OpenTable,
    calibrated: Floats | Ints,
    classes: Sequence[str] | None = None,
    *,
    separator: str | None = None,
    decimal: str = ".",
) -> Iterator[bytes]:
    r"""Return the rows of a text file, with the calibrated probabilities as new last columns.

    Parameters
    ----------
    table : OpenTable
        The file. CSV and JSON Lines keep their columns, with unchanged cells; other files have none.
    calibrated : ndarray of float64
        (n,) or (n, K), in the order of the rows; or the members of prediction sets, (n, K), as integers.
    classes : sequence of str, optional
        Names of the K classes, by default their numbers; a column without one is called ``calibrated``.
    separator : str, optional
        Separator of the columns; by default that of the file, or a comma.
    decimal : {".", ","}
        Decimal mark of the new columns.

    Yields
    ------
    bytes
        The header, then blocks of rows as CSV: in the given encoding of a file without byte order mark, or UTF-8.

    Raises
    ------
    DuplicateColumns, NotUtf8
        If the file already has a column with the name of a new one, or its encoding does not have the characters of
        the names of the new ones; before the first block.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from calibrant.io.detection import open_table
    >>> from calibrant.io.limits import FileLimits
    >>> with open_table(io.BytesIO(b"id,p\n7,0.5\n"), "preds.csv", FileLimits()) as table:
    ...     b"".join(calibrated_text(table, np.array([0.25])))
    b'id,p,calibrated\n7,0.5,0.25\n'
    """
    own = table if isinstance(table, CsvTable | JsonLinesTable) else None
    header = [] if own is None else [column.name for column in own.columns]
    marks = separator or (own.separator if isinstance(own, CsvTable) else ",")
    names = _names(header, calibrated, classes)
    encoding = own.encoding if isinstance(own, CsvTable) and own.encoding else "utf-8"
    # Bytes that the encoding does not have were read as lone surrogates; write the same bytes again.
    encode = codecs.getincrementalencoder(encoding)("surrogateescape").encode
    try:
        first = encode(_lines([header + names], marks))
    except UnicodeEncodeError as error:
        raise NotUtf8(f"the names of the classes cannot be written in {encoding}; save the file as UTF-8") from error

    def pieces() -> Iterator[bytes]:
        yield first
        rows = chain(() if own is None else own.rows(), repeat([]))
        columns = calibrated.reshape(len(calibrated), -1)
        for at in range(0, len(columns), BLOCK):
            block = columns[at : at + BLOCK].tolist()
            # repr: the shortest digits that parse to the same double.
            lines = [
                old + [repr(p).replace(".", decimal) for p in new]
                for old, new in zip(islice(rows, len(block)), block, strict=True)
            ]
            yield encode(_lines(lines, marks), at + BLOCK >= len(columns))

    return pieces()


def calibrated_arrow(
    table: OpenTable, calibrated: Floats | Ints, classes: Sequence[str] | None = None, *, decimal: str = "."
) -> Any:
    """Return the columns of a file and the calibrated probabilities as a pyarrow table.

    Parameters
    ----------
    table : OpenTable
        The file. Columns of CSV and JSON Lines become numbers if these would be written as in the file, unlike
        ``007`` or ``+1``; NPZ and NPY files have none.
    calibrated, classes
        As for ``calibrated_text``.
    decimal : {".", ","}
        Decimal mark of the numbers in a text file.

    Returns
    -------
    pyarrow.Table
        The columns of the file, then the new ones.

    Raises
    ------
    DuplicateColumns
        If the file already has a column with the name of a new one.
    MissingExtra
        If pyarrow is not installed.
    """
    arrow = needed_pyarrow("parquet", "a Parquet file")
    whole = table.whole() if isinstance(table, ArrowTable | ParquetTable) else _of_text(table, decimal)
    names = _names([] if whole is None else whole.column_names, calibrated, classes)
    columns = [arrow.array(column.copy()) for column in calibrated.reshape(len(calibrated), -1).T]
    if whole is None:
        return arrow.table(dict(zip(names, columns, strict=True)))
    for name, column in zip(names, columns, strict=True):
        whole = whole.append_column(name, column)
    return whole


def calibrated_lines(
    table: OpenTable, calibrated: Floats | Ints, classes: Sequence[str] | None = None, *, decimal: str = "."
) -> Iterator[bytes]:
    r"""Return the columns of a file and the calibrated probabilities as JSON Lines.

    Parameters
    ----------
    table, calibrated, classes, decimal
        As for ``calibrated_arrow``.

    Yields
    ------
    bytes
        Blocks of lines.

    Raises
    ------
    DuplicateColumns, MissingExtra
        As for ``calibrated_arrow``; before the first block. JSON Lines need no pyarrow.
    """
    columns = calibrated.reshape(len(calibrated), -1)
    if isinstance(table, JsonLinesTable):
        names, rows = _names([column.name for column in table.columns], calibrated, classes), table.objects()
    else:
        whole = calibrated_arrow(table, calibrated, classes, decimal=decimal)
        names, rows = [], (row for batch in whole.to_batches(BLOCK) for row in batch.to_pylist())

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(columns), BLOCK):
            block = columns[at : at + BLOCK].tolist()
            lines = (
                {**old, **dict(zip(names, new, strict=True))} if names else old
                for old, new in zip(islice(rows, len(block)), block, strict=True)
            )
            yield "".join(f"{json.dumps(line, default=str)}\n" for line in lines).encode()

    return pieces()


def forecast_columns(forecasts: Forecasts) -> tuple[Floats, list[str]]:
    """Return calibrated predictive distributions as columns.

    Parameters
    ----------
    forecasts : Forecasts
        Of n rows.

    Returns
    -------
    columns : ndarray of float64, shape (n, K)
        The columns.
    names : list of str
        Their names, such as ``mean`` and ``std``, ``q0.05``, or ``lower`` and ``upper``.
    """
    if forecasts.kind == "normal":
        return np.column_stack([forecasts.mean, np.sqrt(forecasts.variance)]), ["mean", "std"]
    if forecasts.kind == "interval":
        return np.column_stack([forecasts.lower, forecasts.upper]), ["lower", "upper"]
    return forecasts.quantiles, [f"q{level:.10g}" for level in forecasts.levels.tolist()]


def _names(header: Sequence[str], calibrated: Floats | Ints, classes: Sequence[str] | None) -> list[str]:
    """Return the names of the new columns; raises ``DuplicateColumns`` if the file already has one of them."""
    if calibrated.ndim == 1:
        names = [_COLUMN]
    else:
        suffixes = classes if classes is not None else map(str, range(calibrated.shape[1]))
        column = _COLUMN if calibrated.dtype.kind == "f" else _SET
        names = [f"{column}_{suffix}" if suffix else column for suffix in suffixes]
    for name in names:
        if name in header:
            raise DuplicateColumns(f"the file already has a column {quoted(name)}; rename it")
    return names


def _of_text(table: OpenTable, decimal: str) -> Any | None:
    """Return the columns of a text file as a pyarrow table with inferred types; None for other files."""
    arrow = needed_pyarrow("csv", "a Parquet file")
    if not isinstance(table, CsvTable | JsonLinesTable):
        return None
    header = [column.name for column in table.columns]
    keys = list(map(str, range(len(header))))
    rows = list(table.rows())
    strings = arrow.csv.ConvertOptions(column_types=dict.fromkeys(keys, arrow.string()))

    def parsed(rows: Sequence[Sequence[str]], convert: Any = None) -> Any:
        parsing = arrow.csv.ParseOptions(newlines_in_values=True)
        text = io.BytesIO(_lines([keys, *rows], ",").encode("utf-8", "surrogateescape"))
        return arrow.csv.read_csv(text, parse_options=parsing, convert_options=convert).columns

    written = parsed(rows, strings)
    pointed, cells = rows, written
    if decimal == ",":
        pointed = [[with_point(cell) for cell in row] for row in rows]
        cells = parsed(pointed, strings)
    columns = [
        column if column.type != arrow.string() and _is_faithful(arrow, column, numbers) else texts
        for column, numbers, texts in zip(parsed(pointed), cells, written, strict=True)
    ]
    unnamed = header.count("") > 1
    names = [name or (f"column_{i}" if unnamed else "") for i, name in enumerate(header)]
    return arrow.table(columns, names=names)


#: Text that is no number, although it can be read as one: leading zeros, plus signs and long identifiers.
_NO_INTEGER, _NO_FLOAT = r"^\s*(\+|-?0\d)", r"^\s*(\+|-?0\d|-?\d{16,}\s*$)"
_DECIMALS, _ZERO_AT_END = r"\.(?P<decimals>\d*)\s*$", r"\.\d+0\s*$"


def _is_faithful(arrow: Any, column: Any, cells: Any) -> bool:
    """Whether a column with an inferred type has all that its cells have, so that ``007`` and ``1.10`` stay text."""
    compute = needed_pyarrow("compute", "a Parquet file").compute
    types = arrow.types
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        return True
    strange = _NO_INTEGER if types.is_integer(column.type) else _NO_FLOAT
    if compute.any(compute.match_substring_regex(cells, strange)).as_py():
        return False
    if not compute.any(compute.match_substring_regex(cells, _ZERO_AT_END)).as_py():
        return True
    # Zeros at the end are no information if all numbers have as many decimals.
    numbers = cells.filter(column.is_valid())
    decimals = compute.struct_field(compute.extract_regex(numbers, _DECIMALS), "decimals")
    return decimals.null_count == 0 and len(compute.unique(compute.utf8_length(decimals))) == 1


def _lines(rows: Sequence[Sequence[str]], separator: str) -> str:
    lines: list[str] = []
    # A carriage return is quoted only if it is part of the line end, which is then shortened.
    out = SimpleNamespace(write=lambda line: lines.append(f"{line[:-2]}\n"))
    csv.writer(out, delimiter=separator, lineterminator="\r\n").writerows(rows)
    return "".join(lines)
