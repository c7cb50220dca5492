"""Read files of users: the format is detected from the content, columns are inferred or given."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from calibrant.core.arrays import NO_GROUP, joined
from calibrant.core.batch import TOLERANCE, without_rounding
from calibrant.core.inputs import are_of_other_class, of_other_class
from calibrant.distributions.forecasts import FIELDS
from calibrant.evaluation import MAX_GROUPS
from calibrant.io.arrow import ArrowTable, ParquetTable
from calibrant.io.columns import check_confidence, choose, numbered_classes
from calibrant.io.compression import FILE, unpacked
from calibrant.io.csv import CsvTable
from calibrant.io.errors import (
    DamagedFile,
    FileTooLarge,
    InvalidFileOption,
    LabelsNeedMapping,
    MissingValue,
    NoLabelColumn,
    NotLabels,
    TabularError,
    TooManyGroups,
    UnclearColumns,
    UnknownColumn,
    UnmatchedArrays,
    WrongKind,
)
from calibrant.io.excel import read_workbook
from calibrant.io.forecast_columns import ForecastChoice, read_distributions
from calibrant.io.join import JoinedTable, matching_rows
from calibrant.io.json_document import lines_of
from calibrant.io.json_lines import JsonLinesTable
from calibrant.io.labels import ClassLabels, are_of_two_classes, in_order, read_labels, whether_equal
from calibrant.io.limits import FileLimits
from calibrant.io.npz import NpyTable, NpzTable, blocks_of_archive, is_workbook
from calibrant.io.options import FileOptions
from calibrant.io.rules import MAX_OFFERED, ColumnChoice
from calibrant.io.scale import check_scale
from calibrant.io.source import bytes_of, opened, spooled, write_blocks
from calibrant.io.table import (
    Coded,
    ColumnPlaces,
    Floats,
    ForecastSheet,
    ModelSheets,
    OpenTable,
    Sheet,
    Values,
    cells_at,
)
from calibrant.io.texts import (
    DASHES,
    MAX_LISTED,
    MAX_TEXT,
    check_points,
    is_missing,
    is_number,
    lacks_number,
    listed,
    not_encoded,
    number,
    plain,
    quoted,
    refusal,
    row_of,
    span,
    with_point,
)

__all__ = [
    "FileOptions",
    "ForecastSheet",
    "Sheet",
    "open_table",
    "read_columns",
    "read_forecast_sheet",
    "read_models",
    "read_sheet",
]

# --- Reading a file as a sheet, or some of its columns as strings


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
    source : Path or binary stream
        A seekable stream is read from its beginning. A stream stays open.
    name : str
        Name of the file in messages.
    options : FileOptions
        Columns, scale and mapping of labels; what is None is inferred.
    max_rows : int or None
        The most rows. With None, only the limit of 1e8 numbers applies.
    labelled : bool or None
        If False, labels are read only if the options name their column; if None, if the file has any.
    max_bytes : int
        The most bytes after decompression.
    budget : callable, optional
        Called with a number of bytes before they are allocated. A ``CalibrationError`` that it raises ends the reading.
        With it, Excel workbooks are refused, since a hostile one could fill the memory.
    spool : callable, optional
        Called with the size that a temporary file is about to reach. A ``CalibrationError`` that it raises ends the
        reading.

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
        return _read_sheet(table, options, labelled=labelled)


@contextmanager
def _opened_tables(source: Path | BinaryIO, name: str, options: FileOptions, limits: FileLimits) -> Iterator[OpenTable]:
    """Open a file as a table; joined with the file of the labels, if the options name one."""
    how = (limits, options.decimal, options.encoding)
    with ExitStack() as stack:
        table = stack.enter_context(open_table(stack.enter_context(opened(source, limits)), name, *how))
        if options.labels_from is None:
            yield table
            return
        if options.ids is None:
            raise InvalidFileOption("needs --id, the column on which the files are joined", field="labels_from")
        path, ids = Path(options.labels_from), options.ids.strip()
        other = stack.enter_context(open_table(stack.enter_context(opened(path, limits)), path.name, *how))
        names = (name, path.name if path.name != name else str(path))
        tables = dict(zip(names, (table, other), strict=True))
        rows = {file: _ids(own, ids, file) for file, own in tables.items()}
        yield JoinedTable(tables, ids, *matching_rows(rows, inner=bool(options.inner)))


def _ids(table: OpenTable, name: str, file: str) -> list[str]:
    """Read the ids of the rows; raises ``UnknownColumn`` and ``MissingValue``."""
    names = tuple(column.name for column in table.columns)
    if name not in names:
        has = f"{quoted(file)} has no column {quoted(name)}; it has {listed(names)}"
        raise UnknownColumn(has, field="ids", offer=names[:MAX_OFFERED])
    return _whole(_texts(table, [names.index(name)])[0], name, is_missing)


def read_models(
    source: Path | BinaryIO,
    *,
    name: str,
    options: FileOptions,
    max_rows: int | None,
    max_bytes: int = FileLimits.max_unpacked_bytes,
) -> ModelSheets:
    r"""Read the predictions of several models from a file of the formats of ``read_sheet``.

    Parameters
    ----------
    source : Path or binary stream
        A seekable stream is read from its beginning. A stream stays open.
    name : str
        Name of the file in messages.
    options : FileOptions
        Each of its ``predictions`` names the column of a model, or with a wildcard such as ``rf_*`` a column for each
        class; without them, the file has one model, whose columns are inferred.
    max_rows, max_bytes
        As for ``read_sheet``.

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
    limits, sheets = FileLimits(max_bytes, max_rows), dict[str, Sheet]()
    with _opened_tables(source, name, options, limits) as table:
        for model in stated:
            sheets[model] = _read_sheet(table, replace(options, predictions=(model,)))
        if not stated:
            sheets["predictions"] = _read_sheet(table, options)
    first = next(iter(sheets))
    for model, sheet in sheets.items():
        if sheet.classes != sheets[first].classes or sheet.predictions.shape != sheets[first].predictions.shape:
            raise UnclearColumns(f"the columns of {quoted(model)} are those of other classes than {quoted(first)}")
    return ModelSheets(sheets)


def _read_sheet(table: OpenTable, options: FileOptions, *, labelled: bool | None = True) -> Sheet:
    if labelled is None:
        try:
            return _read_sheet(table, options)
        except (NoLabelColumn, UnknownColumn) as error:
            if error.field != "labels":
                raise
            return _read_sheet(table, replace(options, labels=None), labelled=False)
    try:
        chosen = choose(table.columns, options, partial(_distinct, table), labelled=labelled)
        try:
            return _sheet(table, chosen, options, table.read(chosen.places))
        except MissingValue as error:
            known = {name for names in chosen.classes for name in names}
            raise _all_missing(table, chosen.places, error, known) from error
    except (NotLabels, NoLabelColumn, LabelsNeedMapping, UnclearColumns) as error:
        if error.field in ("labels", "mapping"):
            _check_long(table, error)
        raise


#: The most cells in which missing values are counted, or distinct values are looked for.
_MOST_COUNTED = 10_000_000
#: About the most distinct values of a column that are collected.
_MOST_DISTINCT = 1000


class _Enough(Exception):
    """Ends a scan of a table."""


def _distinct(table: OpenTable, places: Sequence[int]) -> dict[int, set[str]]:
    """Return the distinct values of some columns: some of many, and in up to ``_MOST_COUNTED`` cells."""
    found: dict[int, set[str]] = {at: set() for at in places}
    total = 0

    def add(at: int, cells: Sequence[str]) -> None:
        nonlocal total
        total += len(cells)
        if len(found[at]) <= _MOST_DISTINCT:
            found[at].update(cells)
        if total > _MOST_COUNTED:
            raise _Enough

    try:
        table.scan(places, add)
    except _Enough:
        pass
    except TabularError:
        return {}  # raised again when the columns are read
    return found


def _all_missing(
    table: OpenTable, places: ColumnPlaces, error: MissingValue, known: AbstractSet[str] = frozenset()
) -> MissingValue:
    """Return the error that counts the missing values of all columns; ``error`` if there is one, or too many cells.

    ``known`` are names of classes, which are not missing values.
    """
    columns = (*places.numbers, *(at for at in places.texts if at not in places.groups))
    gaps: dict[int, dict[str, tuple[int, int]]] = {at: {} for at in columns}  # marker -> cells, first row
    read, total = dict.fromkeys(columns, 0), 0
    without_dashes = set[int]()  # the labels + and -

    def add(at: int, cells: Sequence[str]) -> None:
        nonlocal total
        total += len(cells) * table.columns[at].width
        if total > _MOST_COUNTED:
            raise error
        distinct = set(cells)
        if at not in places.numbers and "+" in map(str.strip, distinct):
            without_dashes.add(at)
        missing = {cell for cell in distinct if lacks_number(cell) and cell.strip() not in known}
        for row, cell in enumerate(cells, read[at]) if missing else ():
            if cell in missing:
                mark = "" if table.columns[at].width > 1 else cell.strip()
                count, first = gaps[at].get(mark, (0, row))
                gaps[at][mark] = count + 1, first
        read[at] += len(cells)

    try:
        table.scan(columns, add)
    except TabularError:
        return error
    dashes = DASHES if error.field == "labels" else DASHES & {mark for at in places.numbers for mark in gaps[at]}
    for at in columns:
        if at not in places.numbers:
            kept = set() if at in without_dashes else dashes
            gaps[at] = {mark: found for mark, found in gaps[at].items() if is_missing(mark) or mark in kept}
    counts = {at: sum(count for count, _ in marks.values()) for at, marks in gaps.items() if marks}
    first = min((row for marks in gaps.values() for _, row in marks.values()), default=None)
    if first is None or sum(counts.values()) < 2:
        return error
    listing = [f"{count:,} of column {quoted(table.columns[at].name)}" for at, count in counts.items()]
    unit = "row" if next(iter(counts.values())) == 1 else "rows"
    rest = len(listing) - MAX_LISTED
    shown = ", ".join(listing[:MAX_LISTED]) + (f" and those of {rest} more columns" if rest > 0 else "")
    return MissingValue(
        f"values are missing in {shown.replace(' of', f' {unit} of', 1)}, first in {row_of(first)}; fill them in or "
        "remove the rows",
        field=error.field,
    )


#: The most columns among which those of a long file are looked for, and their cells.
_MOST_LONG, _MOST_LONG_CELLS = 20, 2_000_000


def _check_long(table: OpenTable, error: TabularError) -> None:
    """Raise an error instead of ``error`` if each row of the file is one class of a case, whose rows sum to 1."""
    names = [column.name for column in table.columns]
    places = [at for at, name in enumerate(names) if name and table.columns[at].width == 1]
    if not 3 <= len(places) <= _MOST_LONG:
        return
    columns: dict[int, list[str]] = {at: [] for at in places}

    def add(at: int, cells: Sequence[str]) -> None:
        columns[at].extend(cells)
        if sum(map(len, columns.values())) > _MOST_LONG_CELLS:
            raise _Enough

    try:
        table.scan(places, add)
    except (_Enough, TabularError):
        return
    codes = {at: np.unique(cells, return_inverse=True)[1] for at, cells in columns.items()}
    for values, cells in columns.items():
        if not all(map(is_number, cells)) or not any(number(cell) % 1 for cell in cells):
            continue
        p = np.array([*map(number, cells)])
        for case, of_class in permutations(set(places) - {values}, 2):
            counts, k = np.bincount(codes[case]), codes[of_class].max() + 1
            if len(counts) < 2 or k < 2 or (counts != k).any():
                continue
            if len(np.unique(codes[case] * k + codes[of_class])) < len(p):
                continue
            if p.min() < 0 or abs(np.bincount(codes[case], p) - 1).max() > _OF_ONE:
                continue
            others = set(places) - {values, case, of_class}
            fixed = [at for at in sorted(others) if len(np.unique(codes[case] * len(p) + codes[at])) == len(counts)]
            if isinstance(error, LabelsNeedMapping) and len(fixed) < len(others):
                continue  # perhaps each row is an event, such as the victory of one of two teams
            index = [plain(names[at]) for at in (case, *fixed)]
            raise UnmatchedArrays(
                f"the file is long, with a row for each {quoted(names[case])} and {quoted(names[of_class])}; pivot it "
                f"to a column per class, as pandas does with frame.pivot(index={index if fixed else index[0]!r}, "
                f"columns={plain(names[of_class])!r}, values={plain(names[values])!r}).reset_index()"
            ) from error


#: How far the probabilities of the classes of a case may sum from 1.
_OF_ONE = 0.01


def _sheet(table: OpenTable, chosen: ColumnChoice, options: FileOptions, values: Values) -> Sheet:
    names = [table.columns[at].name for at in chosen.places.predictions]
    _check_shapes(values, len(values.predictions), "predictions")
    scale_notes = check_scale(values.predictions, options.scale, names)
    if values.labels is not None and options.scale == "probability":
        check_confidence(chosen.places, table.columns, values.predictions, len(values.labels.texts))
    is_probability = options.scale == "probability"
    rounded = without_rounding(values.predictions) if is_probability and values.predictions.ndim == 2 else None
    predictions, what = (values.predictions, "") if rounded is None else rounded
    _check_models(table, chosen, options, predictions, values.labels)
    rounding = (f"predictions: {what}; each row is divided by its sum",) if what else ()
    classes = _classes(table, chosen, options, values)
    if options.pos_label is not None and predictions.ndim == 2 and classes is not None:
        predictions = _positive_last(predictions, classes.names, _own_names(table), chosen)
    if classes is not None and are_of_other_class(predictions, classes.labels):
        scale_notes = (*scale_notes, f"predictions: {of_other_class(predictions, options.scale)}")
    return Sheet(
        predictions,
        None if classes is None else classes.labels,
        values.weights,
        _groups(values.groups, table, chosen.places),
        options.scale,
        _own_names(table) if classes is None else classes.names,
        (*table.notes, *chosen.notes, *(() if classes is None else classes.notes), *scale_notes, *rounding),
        None if chosen.times is None else _times(table, chosen.times),
        chosen.reduction,
        options.weights_kind,
        None if chosen.clusters is None else _cells(table, chosen.clusters),
        None if chosen.ids is None else _ids(table, table.columns[chosen.ids].name, "the file"),
    )


def _check_models(
    table: OpenTable, chosen: ColumnChoice, options: FileOptions, predictions: Floats, labels: Coded | None
) -> None:
    """Raise ``UnclearColumns`` for columns that the options name and that are not those of two or more classes."""
    places = chosen.places.predictions
    if options.scale == "logit" or len(places) < 2 or not options.predictions:
        return
    away = np.flatnonzero(np.abs(predictions.sum(axis=1) - 1.0) > TOLERANCE)
    if not len(away) or (labels is not None and len(labels.texts) > 2):
        return
    names = [table.columns[at].name for at in places]
    error = UnclearColumns(
        f"{span(names)} are read as the probabilities of {len(names)} classes, but {len(away):,} of "
        f"{len(predictions):,} rows do not sum to 1, first {row_of(int(away[0]))}; if each is P(Y=1) of a model, "
        "compare the models, or evaluate one at a time",
        offer=tuple(names),
        readings=tuple((name,) for name in names),
    )
    error.models = tuple(names)
    raise error


def _positive_last(
    predictions: Floats, names: tuple[str, ...] | None, own: tuple[str, ...] | None, chosen: ColumnChoice
) -> Floats:
    """Return two columns that are not named after their classes, with the positive one last.

    Raises ``LabelsNeedMapping`` unless class 1 is also the last of the sorted labels, or the archive has their order.
    """
    named = {name.casefold() for aliases in chosen.classes for name in aliases}
    if names is None or named & {name.casefold() for name in names}:  # chosen with the positive class last
        return predictions
    order = own if own is not None and {*own} == {*names} else sorted(names, key=in_order)
    if order[0] == names[0] or names[0] == f"not {names[1]}":
        return predictions
    if own is None and not are_of_two_classes(names):
        error = LabelsNeedMapping(
            f"the first or the second of two columns of predictions can be that of {quoted(names[1])}, as neither is "
            "named after a label; name the classes in the order of the columns",
            offer={name: k for k, name in enumerate(names)},
        )
        error.has_columns = True
        raise error
    return predictions[:, ::-1]


def _check_shapes(values: Values, n: int, of: str) -> None:
    """Raise ``UnmatchedArrays`` for columns of another length than ``n``, which the arrays of an archive can have.

    ``of`` is the field with ``n`` rows.
    """
    lengths = {field: len(found) for field, found in values.vectors.items() if field not in ("levels", "level")} | {
        "labels": None if values.labels is None else len(values.labels.codes),
        "weights": None if values.weights is None else len(values.weights),
        "groups": next((len(column.codes) for column in values.groups if len(column.codes) != n), None),
        "predicted classes": None if values.predicted is None else len(values.predicted.codes),
    }
    for field, length in lengths.items():
        if length is not None and length != n:
            raise UnmatchedArrays(f"{field} has length {length:,}, but {of} has length {n:,}")


def _classes(table: OpenTable, chosen: ColumnChoice, options: FileOptions, values: Values) -> ClassLabels | None:
    if values.labels is None or chosen.places.labels is None:
        return None
    n_classes = 2 if values.predictions.ndim == 1 else values.predictions.shape[1]
    class_names = options.class_names
    if options.mapping is None and options.pos_label is None:
        class_names = class_names or _own_names(table)
    if values.predicted is not None:
        return ClassLabels(whether_equal(values.labels, values.predicted), None)
    try:
        found = read_labels(
            values.labels,
            table.columns[chosen.places.labels].name,
            chosen.classes,
            n_classes,
            options.mapping,
            class_names=class_names,
            pos_label=options.pos_label,
        )
    except LabelsNeedMapping as error:
        error.has_columns = values.predictions.ndim == 2
        raise
    if chosen.class_names is not None and (found.names is None or options.pos_label is not None):
        return replace(found, names=chosen.class_names)  # so that a map finds its columns in any order
    if found.names is None and (numbered := numbered_classes(chosen, table.columns, values.predictions, found.labels)):
        names, notes = numbered
        return ClassLabels(found.labels, names, (*found.notes, *notes))
    return found


def _own_names(table: OpenTable) -> tuple[str, ...] | None:
    return table.class_names if isinstance(table, NpzTable) else None


def _groups(columns: Sequence[Coded], table: OpenTable, places: ColumnPlaces) -> list[str] | None:
    """Return the group of every row, of missing and of several values as ``calibrant.core.arrays`` names them."""
    if not columns:
        return None
    names = [table.columns[at].name for at in places.groups]
    columns = [replace(coded, texts=tuple(text or NO_GROUP for text in coded.texts)) for coded in columns]
    coded = columns[0]
    _check_groups(len(coded.texts), names)
    for other in columns[1:]:
        pairs, codes = np.unique(coded.codes * len(other.texts) + other.codes, return_inverse=True)
        _check_groups(len(pairs), names)
        pairs_of_codes = (divmod(pair, len(other.texts)) for pair in pairs.tolist())
        coded = Coded(tuple(joined((coded.texts[i], other.texts[j])) for i, j in pairs_of_codes), codes)
    return [coded.texts[code] for code in coded.codes.tolist()]


def _check_groups(count: int, names: Sequence[str]) -> None:
    if count > MAX_GROUPS:
        of = f"column {quoted(names[0])} has" if len(names) == 1 else f"columns {listed(names)} together have"
        raise TooManyGroups(f"{of} more than {MAX_GROUPS:,} distinct groups")


# --- Files of predictive distributions


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
    source : Path or binary stream
        A seekable stream is read from its beginning. A stream stays open.
    name : str
        Name of the file in messages.
    options : FileOptions
        Columns and levels; what is None is inferred from the names of the columns.
    max_rows : int or None
        The most rows.
    labelled : bool
        If False, outcomes are read only if the options name their column.
    max_bytes, budget, spool
        As for ``read_sheet``.

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
        chosen = ForecastChoice(table.columns, options, labelled=labelled)
        numbers = dict(chosen.places.forecasts)
        with_gaps = numbers.pop("observed", ()) if options.known is not None else ()
        places = replace(chosen.places, forecasts=numbers) if with_gaps else chosen.places
        try:
            values = table.read(places)
        except MissingValue as error:
            raise _all_missing(table, places, error) from error
        forecasts, notes = read_distributions(values.vectors, chosen)
        _check_shapes(values, len(forecasts), FIELDS[forecasts.kind][0])
        texts: dict[str, Any] = {
            field: None if at is None else _cells(table, at, with_gaps=field == "known")
            for field, at in chosen.texts.items()
        }
        observed = [_with_gaps(table, at, options.decimal) for at in with_gaps]
        for field, cells in {**texts, "observed": observed[0] if observed else None}.items():
            if cells is not None and len(cells) != len(forecasts):
                raise UnmatchedArrays(
                    f"{field} has length {len(cells):,}, but the forecasts have {len(forecasts):,} rows"
                )
        return ForecastSheet(
            forecasts,
            observed[0] if observed else values.vectors.get("observed"),
            values.weights,
            options.weights_kind,
            _groups(values.groups, table, chosen.places),
            notes=(*table.notes, *chosen.notes, *notes),
            **texts,
        )


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
    source : Path or binary stream
        As for ``read_sheet``.
    names : sequence of str
        Names of the columns.
    name : str
        Name of the file in messages.
    max_bytes : int
        The most bytes after decompression.
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
    with opened(source, limits) as file, open_table(file, name, limits, encoding=encoding) as table:
        places = [_place(table, column) for column in names]
        columns = zip(places, _texts(table, places), strict=True)
        return [_whole(cells, table.columns[at].name) for at, cells in columns]


def _place(table: OpenTable, stated: str) -> int:
    names = [column.name for column in table.columns]
    name = stated.strip()
    if name not in names:
        raise UnknownColumn(f"the file has no column {quoted(name)}; it has {listed(names)}")
    return names.index(name)


def _times(table: OpenTable, at: int) -> list[str]:
    return _whole(_texts(table, [at])[0], table.columns[at].name, is_missing)


def _texts(table: OpenTable, places: Sequence[int]) -> list[list[str]]:
    """Read some columns as strings; raises ``NotUtf8`` for lone surrogates, which stand for undecodable bytes."""
    found = cells_at(table, places)
    for at, cells in zip(places, found, strict=True):
        bad = next((row for row, cell in enumerate(cells) if not cell.isascii() and _SURROGATE.search(cell)), None)
        if bad is not None:
            where = f"{row_of(bad)} of column {quoted(table.columns[at].name)}"
            raise not_encoded(where, table.encoding if isinstance(table, CsvTable) else None)
    return found


_SURROGATE = re.compile("[\ud800-\udfff]")


def _whole(cells: list[str], name: str, is_gap: Callable[[str], bool] = operator.not_) -> list[str]:
    found = [cell.strip() for cell in cells]
    rows = [row for row, cell in enumerate(found) if is_gap(cell)]
    if rows:
        many = f"values are missing in {len(rows):,} rows of column {quoted(name)}, first in {row_of(rows[0])}"
        raise MissingValue(many if len(rows) > 1 else f"{row_of(rows[0])} of column {quoted(name)} is empty")
    return found


def _with_gaps(table: OpenTable, at: int, decimal: str) -> Floats:
    """Read a column of numbers of which some are missing: NaN."""
    cells = cells_at(table, [at])[0]
    found = np.full(len(cells), np.nan)
    if decimal == ",":
        check_points(cells, table.columns[at].name, "observed", 0, lambda _: None)
    for row, cell in enumerate(cells):
        text = with_point(cell) if decimal == "," else cell
        if not lacks_number(text):
            if not is_number(text) or not math.isfinite(number(text)):
                raise refusal(text, table.columns[at].name, "observed", row)
            found[row] = number(text)
    return found


def _cells(table: OpenTable, at: int, *, with_gaps: bool = False) -> list[str]:
    """Read a column of names; raises an error for missing ones, unless there may be gaps."""
    cells, name = _texts(table, [at])[0], table.columns[at].name
    found = ["" if is_missing(cell) else cell.strip() for cell in cells] if with_gaps else _whole(cells, name)
    if max(map(len, found), default=0) > MAX_TEXT:
        raise NotLabels(f"column {quoted(name)} has a value of more than {MAX_TEXT} characters", field="file")
    return found


# --- Detection of the format from the first bytes

#: First bytes of unsupported formats, and what the message calls them.
_OTHERS = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"RIFF", "an image, audio or video file (RIFF)"),
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Office document: save it as CSV"),
    (b"\x89HDF", "an HDF5 file: save it as NPZ or CSV"),
    (b"MATLAB ", "a MATLAB file: save it as CSV, such as with writetable"),
    (b"<stata_dta>", _STATA := "a Stata file: save it as CSV, with export delimited or pandas"),
    *((bytes([version, order, 1, 0]), _STATA) for version in range(105, 116) for order in (1, 2)),
    (b"\0" * 12 + b"\xc2\xea\x81\x60", "a SAS data set: save it as CSV, with proc export or pandas"),
    (b"HEADER RECORD*******", "a SAS transport file: save it as CSV, with proc export or pandas"),
    (b"$FL2@(#)", _SPSS := "an SPSS file: save it as CSV"),
    (b"$FL3@(#)", _SPSS),
    (b"X\n\0\0\0", _R := "an R data file: save it as CSV, with write.csv(data, file, row.names = FALSE)"),
    (b"RDX2\n", _R),
    (b"RDX3\n", _R),
    (b"SQLite format 3\0", "an SQLite database: save the table as CSV"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: extract it"),
    (b"Rar!", "a RAR archive: extract it"),
    (b"\x5d\0\0", "an LZMA file: compress it with xz"),
    (b"\x7fELF", "an executable"),
    (b"{\\rtf", "an RTF document"),
    (b"FEA1", "an old Feather file: save it as Feather version 2 or Parquet"),
    (b"Obj\x01", "an Avro file: save it as CSV or Parquet"),
    (b"ORC", "an ORC file: save it as CSV or Parquet"),
)
_ZIP, _NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_HEAD = 512
#: The byte order mark of UTF-8.
_MARK = b"\xef\xbb\xbf"


@contextmanager
def open_table(
    file: BinaryIO, name: str, limits: FileLimits, decimal: str = ".", encoding: str | None = None
) -> Iterator[OpenTable]:
    """Open a file as a table; raises ``WrongKind`` for an unsupported format, or the error of the reader.

    ``decimal`` is the decimal mark of a text file, and ``encoding`` its encoding, by default UTF-8.
    """
    with spooled() as plain, spooled() as lines:
        if (blocks := _unpacked(file, name, limits)) is not None:
            write_blocks(blocks, plain, limits)
            file = plain
            if _unpacked(file, name, limits) is not None:
                raise WrongKind(f"{quoted(name)} is compressed twice; decompress it once")
        yield _table(file, _head(file), name, limits, partial(CsvTable, decimal=decimal, encoding=encoding), lines)


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(_HEAD)


def _unpacked(file: BinaryIO, name: str, limits: FileLimits) -> Iterator[bytes] | None:
    """Return the blocks of a compressed file, or of the only file of a ZIP archive; None for other files."""
    head = _head(file)
    if head.startswith(_ZIP):
        return blocks_of_archive(bytes_of(file), name, limits)
    encoding = next((encoding for magic, encoding in _PACKED.items() if head.startswith(magic)), None)
    return None if encoding is None else _decompressed(file, encoding)


def _decompressed(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    try:
        yield from unpacked(bytes_of(file), encoding, FILE)
    except FileTooLarge as error:
        raise FileTooLarge(f"{error}; compress the file with a smaller one") from error
    except DamagedFile as error:
        name = "Zstandard" if encoding == "zstd" else encoding
        raise DamagedFile(f"the {name} file is damaged or truncated") from error


def _table(
    file: BinaryIO, head: bytes, name: str, limits: FileLimits, text_table: Callable[..., OpenTable], lines: BinaryIO
) -> OpenTable:
    """Open a table; a JSON document or Excel workbook is converted to ``lines``, an empty temporary file."""
    if head.startswith(_ZIP):
        if not is_workbook(bytes_of(file)):
            return NpzTable(file, limits)
        if limits.budget is not None:
            raise _wrong(name, "an Excel workbook: save it as CSV")
        note, rows = read_workbook(file, limits)
        write_blocks(rows, lines, limits)
        return JsonLinesTable(lines, limits, note)
    if head.startswith(_NPY):
        return NpyTable(file, limits)
    if head.startswith(_PARQUET):
        return ParquetTable(file, limits)
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return ArrowTable(file, limits)
    _refuse_others(head, name)
    text = head.removeprefix(_MARK).lstrip()
    if text.startswith(b"{"):
        with suppress(WrongKind):
            return JsonLinesTable(file, limits)
    elif not text.startswith(b"["):
        return text_table(file, limits)
    write_blocks(lines_of(file), lines, limits)
    return JsonLinesTable(lines, limits, "the file is one JSON document")


def _refuse_others(head: bytes, name: str) -> None:
    for magic, kind in _OTHERS:
        if head.startswith(magic):
            raise _wrong(name, kind)
    if head.startswith(_PICKLES):
        raise _wrong(name, "a Python pickle, which is never loaded because it can run any code: save it as NPZ or CSV")
    if head[257:262] == b"ustar":
        raise _wrong(name, "a tar archive: extract it")
    if head[6:10] == b'\0\0{"':
        raise _wrong(name, "a safetensors file: save it as NPZ")
    text = head.removeprefix(_MARK).lstrip().lower()
    if text.startswith(b"@relation"):
        raise _wrong(name, "an ARFF file: save it as CSV")
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg")):
        raise _wrong(name, "an HTML or XML page")


def _wrong(name: str, kind: str) -> WrongKind:
    return WrongKind(f"{quoted(name)} is {kind}. Supported formats are CSV, JSON, NPZ, NPY, Parquet and Arrow")
