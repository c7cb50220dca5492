"""Read files of users: the format is detected from the content, columns are inferred or given."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from calibrant.core.arrays import NO_GROUP, joined
from calibrant.core.batch import TOLERANCE, Scale, without_rounding
from calibrant.core.docstrings import shares
from calibrant.core.groups import MAX_GROUPS
from calibrant.core.inputs import are_of_other_class, of_other_class
from calibrant.distributions.forecasts import FIELDS
from calibrant.io.columns import check_confidence, choose, numbered_classes
from calibrant.io.csv import CsvTable
from calibrant.io.detection import open_table
from calibrant.io.errors import (
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
)
from calibrant.io.forecast_columns import ForecastChoice, read_distributions
from calibrant.io.join import JoinedTable, matching_rows
from calibrant.io.labels import (
    ClassLabels,
    are_of_two_classes,
    check_other_label,
    in_order,
    read_labels,
    whether_equal,
)
from calibrant.io.limits import STRING_BYTES, FileLimits
from calibrant.io.npz import NpzTable
from calibrant.io.options import FileOptions
from calibrant.io.rules import MAX_OFFERED, ColumnChoice
from calibrant.io.scale import check_scale
from calibrant.io.source import opened, spooled, write_blocks
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
    complete_in_all,
)
from calibrant.io.texts import (
    DASHES,
    MAX_LISTED,
    MAX_TEXT,
    check_points,
    csv_lines,
    feature_of,
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
        return _read_sheet(table, options, limits, labelled=labelled)


@contextmanager
def _opened_tables(source: Path | BinaryIO, name: str, options: FileOptions, limits: FileLimits) -> Iterator[OpenTable]:
    """Open a file as a table; joined with the file of the labels, if the options name one."""
    how: Any = {"decimal": options.decimal, "encoding": options.encoding, "percent": options.scale == "percent"}
    with ExitStack() as stack:
        table = stack.enter_context(open_table(stack.enter_context(opened(source, limits)), name, limits, **how))
        if options.labels_from is None:
            yield table
            return
        if options.ids is None:
            raise InvalidFileOption("needs --id, the column on which the files are joined", field="labels_from")
        path, ids = Path(options.labels_from), options.ids.strip()
        other = stack.enter_context(open_table(stack.enter_context(opened(path, limits)), path.name, limits, **how))
        tables = {name: table, path.name if path.name != name else str(path): other}
        rows = {file: _ids(own, ids, file) for file, own in tables.items()}
        yield JoinedTable(tables, ids, *matching_rows(rows, inner=bool(options.inner)))


def _ids(table: OpenTable, name: str, file: str) -> list[str]:
    """Read the ids of the rows; raises ``UnknownColumn`` and ``MissingValue``."""
    names = tuple(column.name for column in table.columns)
    if name not in names:
        has = f"{quoted(file)} has no column {quoted(name)}; it has {listed(names)}"
        raise UnknownColumn(has, field="ids", offer=names[:MAX_OFFERED])
    return _whole(_texts(table, [names.index(name)])[0], name, is_missing)


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
            sheets[model] = _read_sheet(table, replace(options, predictions=(model,)), limits)
        if not stated:
            sheets["predictions"] = _read_sheet(table, options, limits)
    sheets = complete_in_all(sheets)
    first = next(iter(sheets))
    for model, sheet in sheets.items():
        if sheet.classes != sheets[first].classes or sheet.predictions.shape != sheets[first].predictions.shape:
            raise UnclearColumns(f"the columns of {quoted(model)} are those of other classes than {quoted(first)}")
    return ModelSheets(sheets)


def _read_sheet(table: OpenTable, options: FileOptions, limits: FileLimits, *, labelled: bool | None = True) -> Sheet:
    if labelled is None:
        try:
            return _read_sheet(table, options, limits)
        except (NoLabelColumn, UnknownColumn) as error:
            if error.field != "labels":
                raise
            return _read_sheet(table, replace(options, labels=None), limits, labelled=False)
    try:
        chosen = choose(table.columns, options, partial(_distinct, table), labelled=labelled)
        try:
            return _sheet(table, chosen, options, table.read(chosen.places))
        except MissingValue as error:
            if chosen.labels is not None and chosen.width < 3:
                texts = _distinct(table, [chosen.labels]).get(chosen.labels, set())
                check_other_label(chosen.names[chosen.labels], texts, options, error)
            if options.drop_missing:
                return _without_missing(table, chosen, options, error, limits)
            known = {name for names in chosen.classes for name in names}
            raise _all_missing(table, chosen.places, error, known) from error
    except (NotLabels, NoLabelColumn, LabelsNeedMapping, UnclearColumns) as error:
        if error.field in ("labels", "mapping"):
            _check_long(table, error)
        raise


def _without_missing(
    table: OpenTable, chosen: ColumnChoice, options: FileOptions, error: MissingValue, limits: FileLimits
) -> Sheet:
    """Return the rows without missing values; raises ``error`` if there are none.

    Rows with missing values are read as copies of the first complete row, so that errors name the rows of the file.
    """
    places, known = chosen.places, {name for names in chosen.classes for name in names}
    columns = [*places.numbers, *places.texts]
    cells: dict[int, list[str]] = {at: [] for at in columns}

    def add(at: int, block: Sequence[str]) -> None:
        limits.reserve(sum(STRING_BYTES + len(cell) for cell in block))
        cells[at].extend(block)

    table.scan(columns, add)
    gaps = {
        at: np.array([(lacks_number if at in places.numbers else is_missing)(cell) for cell in cells[at]])
        & ~np.isin(cells[at], [*known])
        for at in columns
        if at not in places.groups
    }
    missing = np.any([*gaps.values()], axis=0)
    if missing.all() or not missing.any():
        raise error
    source = np.where(missing, int(np.argmin(missing)), np.arange(len(missing)))
    limits = replace(limits, spool=None)  # the copy is smaller than the cells in memory
    with spooled() as file:
        names = [table.columns[at].name for at in columns]
        rows = zip(*(map(of.__getitem__, source) for of in cells.values()), strict=True)
        write_blocks(csv_lines([names], rows), file, limits)
        moved = {at: place for place, at in enumerate(columns)}
        is_text = isinstance(table, CsvTable | JoinedTable)
        decimal, percent = options.decimal if is_text else ".", is_text and options.scale == "percent"
        values = CsvTable(file, limits, decimal, percent=percent).read(
            ColumnPlaces(
                tuple(moved[at] for at in places.predictions),
                None if places.labels is None else moved[places.labels],
                None if places.weights is None else moved[places.weights],
                tuple(moved[at] for at in places.groups),
                None if places.predicted is None else moved[places.predicted],
            )
        )
    lacking = listed([table.columns[at].name for at, empty in gaps.items() if empty.any()])
    note = (
        f"rows: {missing.sum():,} of {len(missing):,} left out, as values are missing in {lacking}, first in "
        f"{row_of(int(np.argmax(missing)))}"
    )
    sheet = replace(_sheet(table, chosen, options, values), row_numbers=np.arange(len(missing))).taken(~missing)
    return replace(sheet, notes=(*sheet.notes, note))


#: The most cells in which missing values are counted, or distinct values are looked for.
_MOST_COUNTED = 10_000_000
#: About the most distinct values of a column that are collected.
_MOST_DISTINCT = 1000


class _Enough(Exception):
    """Ends a scan of a table."""


def _distinct(table: OpenTable, places: Sequence[int]) -> dict[int, set[str]]:
    """Return the distinct values of some columns: some of many, and in up to ``_MOST_COUNTED`` cells."""
    values: dict[int, set[str]] = {at: set() for at in places}
    total = 0

    def add(at: int, cells: Sequence[str]) -> None:
        nonlocal total
        total += len(cells)
        if len(values[at]) <= _MOST_DISTINCT:
            values[at].update(cells)
        if total > _MOST_COUNTED:
            raise _Enough

    try:
        table.scan(places, add)
    except _Enough:
        pass
    except TabularError:
        return {}  # raised again when the columns are read
    return values


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
            allowed = set() if at in without_dashes else dashes
            gaps[at] = {mark: where for mark, where in gaps[at].items() if is_missing(mark) or mark in allowed}
    counts = {at: sum(count for count, _ in marks.values()) for at, marks in gaps.items() if marks}
    first = min((row for marks in gaps.values() for _, row in marks.values()), default=None)
    leaves_rows = sum(counts.values()) < max(read.values())
    if first is None or sum(counts.values()) < 2:
        error.leaves_rows = leaves_rows
        return error
    listing = [f"{count:,} of column {quoted(table.columns[at].name)}" for at, count in counts.items()]
    unit = "row" if next(iter(counts.values())) == 1 else "rows"
    rest = len(listing) - MAX_LISTED
    shown = ", ".join(listing[:MAX_LISTED]) + (f" and those of {rest} more columns" if rest > 0 else "")
    missing = MissingValue(
        f"values are missing in {shown.replace(' of', f' {unit} of', 1)}, first in {row_of(first)}; fill them in or "
        "remove the rows",
        field=error.field,
    )
    missing.leaves_rows = leaves_rows
    return missing


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
    if options.scale == "percent":
        values = replace(values, vectors={**values.vectors, "predictions": values.predictions / 100.0})
    scale: Scale = "logit" if options.scale == "logit" else "probability"
    is_probability = scale == "probability"
    if values.labels is not None and is_probability:
        check_confidence(chosen.places, table.columns, values.predictions, len(values.labels.texts))
    rounded = without_rounding(values.predictions) if is_probability and values.predictions.ndim == 2 else None
    predictions, what = (values.predictions, "") if rounded is None else rounded
    _check_models(table, chosen, options, predictions, values.labels)
    rounding = (f"predictions: {what}; each row is divided by its sum",) if what else ()
    classes = _classes(table, chosen, options, values)
    if options.pos_label is not None and predictions.ndim == 2 and classes is not None:
        predictions = _positive_last(predictions, classes.names, _own_names(table), chosen)
    if classes is not None and are_of_other_class(predictions, classes.labels):
        scale_notes = (*scale_notes, f"predictions: {of_other_class(predictions, scale)}")
    times, clusters, ids = (chosen.beside[field] for field in ("times", "clusters", "ids"))
    cells = {table.columns[at].name: _cells(table, at, with_gaps=True) for at in chosen.features}
    features = {name: feature_of(name, column, options.categorical or ()) for name, column in cells.items()} or None
    return Sheet(
        predictions,
        None if classes is None else classes.labels,
        values.weights,
        _groups(values.groups, table, chosen.places),
        scale,
        _own_names(table) if classes is None else classes.names,
        (*table.notes, *chosen.notes, *(() if classes is None else classes.notes), *scale_notes, *rounding),
        None if times is None else _whole(_texts(table, [times])[0], table.columns[times].name, is_missing),
        chosen.reduction,
        options.weights_kind,
        None if clusters is None else _cells(table, clusters),
        None if ids is None else _ids(table, table.columns[ids].name, "the file"),
        features,
    )


def _check_models(
    table: OpenTable, chosen: ColumnChoice, options: FileOptions, predictions: Floats, labels: Coded | None
) -> None:
    """Raise ``UnclearColumns`` for columns that the options name and that are not those of two or more classes.

    Columns of 0 and 1 may say whether a prediction set has each class.
    """
    places = chosen.places.predictions
    if options.scale == "logit" or len(places) < 2 or not options.predictions:
        return
    away = np.flatnonzero(np.abs(predictions.sum(axis=1) - 1.0) > TOLERANCE)
    if not len(away) or (labels is not None and len(labels.texts) > 2) or np.isin(predictions, (0.0, 1.0)).all():
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
    lengths = {field: len(vector) for field, vector in values.vectors.items() if field not in ("levels", "level")} | {
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
        labels = read_labels(
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
    if chosen.class_names is not None and (labels.names is None or options.pos_label is not None):
        return replace(labels, names=chosen.class_names)  # so that a map finds its columns in any order
    if labels.names is None and (
        numbered := numbered_classes(chosen, table.columns, values.predictions, labels.labels)
    ):
        names, notes = numbered
        return ClassLabels(labels.labels, names, (*labels.notes, *notes))
    return labels


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
            for field, at in chosen.beside.items()
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


def _texts(table: OpenTable, places: Sequence[int]) -> list[list[str]]:
    """Read some columns as strings; raises ``NotUtf8`` for lone surrogates, which stand for undecodable bytes."""
    columns = cells_at(table, places)
    for at, cells in zip(places, columns, strict=True):
        bad = next((row for row, cell in enumerate(cells) if not cell.isascii() and _SURROGATE.search(cell)), None)
        if bad is not None:
            where = f"{row_of(bad)} of column {quoted(table.columns[at].name)}"
            raise not_encoded(where, table.encoding if isinstance(table, CsvTable) else None)
    return columns


_SURROGATE = re.compile("[\ud800-\udfff]")


def _whole(cells: list[str], name: str, is_gap: Callable[[str], bool] = operator.not_) -> list[str]:
    stripped = [cell.strip() for cell in cells]
    rows = [row for row, cell in enumerate(stripped) if is_gap(cell)]
    if rows:
        many = f"values are missing in {len(rows):,} rows of column {quoted(name)}, first in {row_of(rows[0])}"
        raise MissingValue(many if len(rows) > 1 else f"{row_of(rows[0])} of column {quoted(name)} is empty")
    return stripped


def _with_gaps(table: OpenTable, at: int, decimal: str) -> Floats:
    """Read a column of numbers of which some are missing: NaN."""
    cells = cells_at(table, [at])[0]
    numbers = np.full(len(cells), np.nan)
    if decimal == ",":
        check_points(cells, table.columns[at].name, "observed", 0, lambda _: None)
    for row, cell in enumerate(cells):
        text = with_point(cell) if decimal == "," else cell
        if not lacks_number(text):
            if not is_number(text) or not math.isfinite(number(text)):
                raise refusal(text, table.columns[at].name, "observed", row)
            numbers[row] = number(text)
    return numbers


def _cells(table: OpenTable, at: int, *, with_gaps: bool = False) -> list[str]:
    """Read a column of names; raises an error for missing ones, unless there may be gaps."""
    cells, name = _texts(table, [at])[0], table.columns[at].name
    names = ["" if is_missing(cell) else cell.strip() for cell in cells] if with_gaps else _whole(cells, name)
    if max(map(len, names), default=0) > MAX_TEXT:
        raise NotLabels(f"column {quoted(name)} has a value of more than {MAX_TEXT} characters", field="file")
    return names
