"""Tallies of Arrow record batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import MAX_NAME, Batch, InputScale, Integers, Scale, read_batch
from calibrant.core.cells import WeightsKind
from calibrant.core.docstrings import shares
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidOption,
    NotANumber,
    NotFinite,
    Offence,
    UnknownReduction,
    WrongShape,
)
from calibrant.io.arrow import is_list, is_number, lists_of, null_rows, number_array
from calibrant.io.errors import needed_pyarrow
from calibrant.monitoring.event_tally import EventTally, check_groups, count, merge, read_folds
from calibrant.monitoring.tally import CellTable

if TYPE_CHECKING:
    import pyarrow as pa

#: What is wrong with a column of a source, and with a source.
NO_COLUMN = "names a column that does not exist or is not unique"
NO_ROWS = "has no rows that meet the conditions"

# --- The columns of a table


@dataclass(frozen=True)
class Columns:
    """Names of the columns, and the reduction and scale of the predictions.

    ``prediction`` is one column of numbers or of lists of K numbers, or K columns.
    """

    prediction: str | tuple[str, ...]
    label: str
    group: str | None = None
    fold: str | None = None
    weight: str | None = None
    reduction: str | None = None
    scale: Scale = "probability"

    @classmethod
    def read(cls, **arguments: Any) -> Columns:
        """Check the names of the columns."""
        prediction = arguments["prediction"]
        if isinstance(prediction, list | tuple):
            if len(prediction) < 2 or not all(isinstance(name, str) for name in prediction):
                raise InvalidOption.at("/prediction", "must be the name of a column, or of at least two")
            arguments["prediction"] = tuple(prediction)
        elif not isinstance(prediction, str):
            raise InvalidOption.at("/prediction", "must be the name of a column, or of at least two")
        for name in ("label", "group", "fold", "weight"):
            value = arguments.get(name)
            if not (isinstance(value, str) or (value is None and name != "label")):
                raise InvalidOption.at(f"/{name}", "must be the name of a column")
        if arguments.get("reduction") is not None and not isinstance(arguments["reduction"], str):
            raise UnknownReduction.at("/reduction", "must be the name of a reduction")
        if arguments.get("scale", "probability") not in get_args(Scale):
            raise InvalidOption.at("/scale", "must be one of: probability, logit")
        return cls(**arguments)

    @property
    def predictions(self) -> tuple[str, ...]:
        """Names of the columns of the predictions."""
        return (self.prediction,) if isinstance(self.prediction, str) else self.prediction

    @property
    def named(self) -> dict[str, str]:
        """Columns to read, by the argument that names them."""
        columns = {
            "prediction" if isinstance(self.prediction, str) else f"prediction/{i}": name
            for i, name in enumerate(self.predictions)
        }
        others = {"label": self.label, "group": self.group, "fold": self.fold, "weight": self.weight}
        return columns | {argument: name for argument, name in others.items() if name is not None}


def check_order(columns: Columns, classes: Sequence[str] | None = None) -> None:
    """Raise ``InvalidOption`` if the columns of predictions are named after the classes, but in another order.

    ``classes`` are by default the numbers from 0.
    """
    names = [name.casefold() for name in columns.predictions]
    wanted = [str(name).casefold() for name in classes or range(len(names))]
    if len(names) < 2 or len(wanted) != len(names):
        return
    for name in wanted:
        before, there, after = names[0].rpartition(name)
        ordered = [f"{before}{other}{after}" for other in wanted]
        if there and names != ordered and set(names) == set(ordered):
            raise InvalidOption.at("/prediction", "has columns in another order than the classes, which they name")


NAMES = tuple(field.name for field in fields(Columns))


def divided(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split arguments into those of ``Columns`` and the others."""
    return {k: v for k, v in arguments.items() if k in NAMES}, {k: v for k, v in arguments.items() if k not in NAMES}


# --- The place of an invalid row: its file or partition, and its number there

_ROW = re.compile(r"/(\w+)/(\d+)(/\d+)?\Z")


def placed(error: CalibrationError, where: str, first_row: int) -> CalibrationError:
    """Return the error with row numbers in the whole source (from 0), for rows that start at ``first_row``."""
    offences = [Offence(_moved(offence.pointer, first_row), offence.detail) for offence in error.offences]
    place = _ROW.match(offences[0].pointer) if offences else None
    if place is None:
        placed_offences = [Offence(offence.pointer, f"{offence.detail}, in {where}") for offence in offences]
        return type(error)(f"{where}: {error.detail}", placed_offences)
    return type(error)(f"{where}, row {place[2]}: {place[1]} {offences[0].detail}", offences)


def _moved(pointer: str, first_row: int) -> str:
    match = _ROW.match(pointer)
    return pointer if match is None else f"/{match[1]}/{int(match[2]) + first_row}{match[3] or ''}"


# --- Sections of the docstrings of Arrow, Dask, DuckDB and Spark

TALLY = """
Parameters
----------
prediction : str or sequence of str
    Column of the predictions (numbers, or lists of K numbers), or K columns.
label : str
    Column of the labels.
group : str, optional
    Column of group names: strings, integers or dates; null means no group.
fold : str, optional
    Column of folds, integers from 0 to 4.
weight : str, optional
    Column of integer weights.
reduction : str, optional
    As for ``calibrant.tally``.
scale : {"probability", "logit"}, default "probability"
    Scale of the predictions.

Returns
-------
EventTally
    Counts of all rows.

Raises
------
CalibrationError
    If an argument or a row is invalid; the error names the file, the partition or the relation, and the row there, from
    0.

See Also
--------
calibrant.tally : Counts arrays.
calibrant.evaluate_tally : Evaluates counts.
"""
EVALUATE = """
Parameters
----------
source : object
    As for ``tally``.
connection : duckdb.DuckDBPyConnection, optional
    As for ``tally``.
**options : object
    Columns as for ``tally``, and options of ``calibrant.evaluate_tally``: ``measures``, ``diagrams``, ``map``,
    ``interval``, ``resamples`` and ``seed``.

Returns
-------
Report
    As from ``calibrant.evaluate_tally``.

Raises
------
CalibrationError
    As for ``tally``.

See Also
--------
tally : Counts the rows.
"""
FIT = """
Parameters
----------
source : object
    As for ``tally``.
method : str
    Name in ``calibrant.METHODS``.
connection : duckdb.DuckDBPyConnection, optional
    As for ``tally``.
**options : object
    Columns as for ``tally``, and options of ``calibrant.fit_tally``: ``seed``, ``device`` and those of the method.

Returns
-------
CalibrationMap
    The fitted map.

Raises
------
CalibrationError
    As for ``tally`` and ``calibrant.fit_tally``.

See Also
--------
tally : Counts the rows.
"""


# --- Tallies of Arrow record batches

#: Rows that are counted at once, their bytes, and tallies that are merged at once.
ROWS, BYTES, WAITING = 1 << 17, 1 << 25, 16


@shares(TALLY)
def tally(
    batches: Iterable[Any],
    *,
    prediction: str | Sequence[str],
    label: str,
    group: str | None = None,
    fold: str | None = None,
    weight: str | None = None,
    reduction: str | None = None,
    scale: Scale = "probability",
) -> EventTally:
    """Count the rows of Arrow record batches, one batch in memory at a time.

    Parameters
    ----------
    batches : pyarrow.RecordBatchReader, pyarrow.Table or iterable of pyarrow.RecordBatch
        Rows to count.

    Raises
    ------
    CalibrationError
        If a row is invalid (the error has its number among all rows), or there are no rows (``EmptyBatch``).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from calibrant.distributed import arrow
    >>> table = pa.table({"p": [0.1, 0.4, 0.6, 0.9], "y": [0, 1, 1, 1]})
    >>> len(arrow.tally(table, prediction="p", label="y"))
    4
    """
    columns = Columns.read(
        prediction=prediction, label=label, group=group, fold=fold, weight=weight, reduction=reduction, scale=scale
    )
    counts = counted(batches.to_batches() if hasattr(batches, "to_batches") else batches, columns, "the batches")
    if counts is None:
        raise EmptyBatch.at("/batches", "has no rows")
    return counts


def counted(
    batches: Iterable[Any],
    columns: Columns,
    where: str,
    *,
    first_row: int = 0,
    keys: Mapping[str, str | None] | None = None,
) -> EventTally | None:
    """Count the rows; return None if there are none. ``keys`` holds columns of a single value, from folder names."""
    counter = RowCounter(columns)
    for batch in batches:
        for part in pieces(batch):
            try:
                counter.add(part, keys or {})
            except CalibrationError as error:
                raise placed(error, where, first_row) from None
            first_row += part.num_rows
    return counter.result()


#: The most groups of a table of cells.
_TABLE_GROUPS = 256


class RowCounter:
    """Counts the rows of record batches.

    Most rows need little: probabilities of one event and labels without weights, in at most 256 groups. They are
    counted in a table of cells; all others, and those that are invalid, as tallies. ``missing`` is the group of rows
    without one, by default none. ``n`` is the number of rows.
    """

    def __init__(self, columns: Columns, *, scale: InputScale | None = None, missing: str | None = None) -> None:
        self._columns, self._scale, self._missing = columns, scale or columns.scale, missing
        self._tallies: list[EventTally] = []
        self._n_classes: int | str | None = "unknown"
        self._is_plain = (
            self._scale == "probability"
            and isinstance(columns.prediction, str)
            and columns.reduction in (None, "binary")
            and (columns.weight, columns.fold) == (None, None)
        )
        self._table, self._groups = CellTable(), dict[str, int]()
        self._dictionary, self._numbers = None, np.zeros(1, np.int64)
        self.n = 0

    def add(self, batch: pa.RecordBatch, keys: Mapping[str, str | None]) -> None:
        """Count the rows of a batch; raises the errors of invalid rows, and ``WrongShape`` for other classes."""
        self.n += batch.num_rows
        if batch.num_rows and not (self._is_plain and self._add_plain(batch, keys)):
            tally = self._tally(batch, keys)
            if tally is not None:
                self.merge(tally)

    def _tally(self, batch: pa.RecordBatch, keys: Mapping[str, str | None]) -> EventTally | None:
        columns = self._columns
        part = checked_part(batch, columns, keys, scale=self._scale, missing=self._missing)
        if part is None:
            return None
        folds = None if columns.fold is None else read_folds(_folds(batch, columns.fold, keys), batch.num_rows)
        return count(part.rows, columns.reduction, names=part.names, members=part.members, folds=folds)

    def merge(self, tally: EventTally) -> None:
        """Add counts of the same event."""
        self._check_classes(tally.n_classes)
        self._tallies.append(tally)
        if len(self._tallies) == WAITING:
            self._tallies = [merge(self._tallies)]

    def _check_classes(self, n_classes: int | None) -> None:
        if self._n_classes not in ("unknown", n_classes):
            raise WrongShape.at("/predictions", "must have the same number of classes in all files")
        self._n_classes = n_classes

    def result(self) -> EventTally | None:
        """Return the counts of all rows, or None if there are none."""
        held = set(self._table.held())
        if held:
            names = sorted(name for name, number in self._groups.items() if number in held)
            table = self._table.tally([0, *(self._groups[name] for name in names)])
            self._tallies.append(EventTally(table, "binary", groups=tuple(names)))
            self._table = CellTable()
        return merge(self._tallies) if self._tallies else None

    # --- Rows that need little

    def _add_plain(self, batch: pa.RecordBatch, keys: Mapping[str, str | None]) -> bool:
        """Count a batch in the table; return False for one that needs more, or may have invalid rows."""
        types = needed_pyarrow("types").types
        columns = self._columns
        places = [batch.schema.get_field_index(name) for name in (*columns.predictions, columns.label)]
        if min(places) < 0:
            return False
        predictions, outcomes = (batch.column(place) for place in places)
        numbers = types.is_float64(predictions.type) or types.is_float32(predictions.type)
        labels = types.is_integer(outcomes.type) or types.is_boolean(outcomes.type)
        if not (numbers and labels) or predictions.null_count or outcomes.null_count:
            return False
        p, y = number_array(predictions), number_array(outcomes)
        if not (p.min() >= 0.0 and p.max() <= 1.0 and y.min() >= 0 and y.max() <= 1):  # NaN compares as false
            return False
        codes = None if columns.group is None else self._codes(batch, columns.group, keys)
        if codes is None and columns.group is not None:
            return False
        self._check_classes(None)
        self._table.add(p, y.astype(np.int8, copy=False), codes, self._numbers)
        return True

    def _codes(self, batch: pa.RecordBatch, name: str, keys: Mapping[str, str | None]) -> npt.NDArray[Any] | None:
        """Return the position of the group of each row in ``_numbers``; None for groups that need more than a table."""
        types = needed_pyarrow("types").types
        place = batch.schema.get_field_index(name)
        if place < 0:
            known = name in keys and self._numbered([keys[name]])
            return np.zeros(batch.num_rows, np.int8) if known else None
        column = batch.column(place)
        column = column if types.is_dictionary(column.type) else column.dictionary_encode()
        text = types.is_string(column.type.value_type) or types.is_large_string(column.type.value_type)
        if not text or len(column.dictionary) > _TABLE_GROUPS:
            return None
        if self._dictionary is None or not column.dictionary.equals(self._dictionary):
            try:
                names = column.dictionary.to_pylist()
            except UnicodeDecodeError:
                return None
            if not self._numbered(names):
                return None
            self._dictionary = column.dictionary
        return _indices(column)

    def _numbered(self, names: Sequence[str | None]) -> bool:
        """Number the groups of a dictionary, and of null; return False if a table cannot have them."""
        self._dictionary = None
        known = [self._missing if name is None else name for name in (*names, None)]
        new = [name for name in dict.fromkeys(known) if name is not None and name not in self._groups]
        if len(self._groups) + len(new) > _TABLE_GROUPS or any(len(name) > MAX_NAME for name in new):
            return False
        self._groups |= {name: 1 + i for i, name in enumerate(new, len(self._groups))}
        self._numbers = np.array([0 if name is None else self._groups[name] for name in known])
        return True


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a record batch in slices that are counted at once."""
    rows = max(1, min(ROWS, BYTES * batch.num_rows // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


@dataclass(frozen=True)
class CheckedPart:
    """Checked rows of a record batch.

    ``predictions``, ``labels`` and ``weights`` are as given, and ``members`` are 0, or 1 plus the position of the group
    in ``names``.
    """

    rows: Batch
    predictions: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None = None
    names: Sequence[str] = ()
    members: Integers | None = None


def checked_part(
    batch: pa.RecordBatch,
    columns: Columns,
    keys: Mapping[str, str | None],
    kind: WeightsKind = "frequency",
    scale: InputScale | None = None,
    missing: str | None = None,
) -> CheckedPart | None:
    """Check the rows of a record batch; None if all weights are 0.

    ``scale`` is by default that of the columns, and ``missing`` the group of rows without one.
    """
    for argument, name in columns.named.items():
        if batch.schema.get_field_index(name) < 0 and not (argument in ("group", "fold") and name in keys):
            raise InvalidOption.at(f"/{argument}", NO_COLUMN)
    weights = None if columns.weight is None else _numbers(batch.column(columns.weight), "/weights")
    if weights is not None and weights.dtype.kind in "iuf" and not weights.any():
        return None
    labels, predictions = _numbers(batch.column(columns.label), "/labels"), predictions_of(batch, columns)
    checked = read_batch(predictions, labels, weights, scale=scale or columns.scale, kind=kind)
    if columns.group is None:
        return CheckedPart(checked, predictions, labels, weights)
    names, members = _members(batch, columns.group, keys)
    if missing is not None and not members.all():
        names = names if missing in names else [*names, missing]
        members = np.where(members == 0, 1 + names.index(missing), members)
    return CheckedPart(checked, predictions, labels, weights, names, members)


def predictions_of(batch: pa.RecordBatch, columns: Columns) -> npt.NDArray[Any]:
    """Return the predictions of a record batch: (n,) or (n, K)."""
    if len(columns.predictions) > 1:
        return np.column_stack([_numbers(batch.column(name), "/predictions") for name in columns.predictions])
    column = batch.column(columns.predictions[0])
    if not is_list(column.type):
        return _numbers(column, "/predictions")
    if len(empty := null_rows(column)):
        raise NotFinite.at(f"/predictions/{empty[0]}", "must not be null")
    lengths, flat = lists_of(column)
    if len(odd := np.flatnonzero(lengths != lengths[0])):
        raise WrongShape.at(f"/predictions/{odd[0]}", "must have as many classes as the rows before")
    return _numbers(flat, "/predictions").reshape(len(column), int(lengths[0]))


def _numbers(column: pa.Array, pointer: str) -> npt.NDArray[Any]:
    """Return the column as numbers, with NaN for null; labels may be booleans."""
    arrow = needed_pyarrow("types")
    kind = column.type
    if arrow.types.is_boolean(kind) and pointer == "/labels":
        column = column.cast(arrow.int8())
    elif arrow.types.is_decimal(kind) or arrow.types.is_null(kind):
        column = column.cast(arrow.float64())
    elif not is_number(kind):
        raise NotANumber.at(pointer, "must contain only numbers")
    return number_array(column)


def _folds(batch: pa.RecordBatch, name: str, keys: Mapping[str, str | None]) -> npt.NDArray[Any]:
    if batch.schema.get_field_index(name) >= 0:
        return _numbers(batch.column(name), "/folds")
    key = keys[name] or ""
    if not key.isascii() or not key.isdigit():
        raise InvalidOption.at("/fold", "must be an integer in the names of folders")
    return np.full(batch.num_rows, int(key[:9]))


def _members(batch: pa.RecordBatch, name: str, keys: Mapping[str, str | None]) -> tuple[list[str], Integers]:
    """Return the group names, and for each row 0 or 1 plus the position of its group in them."""
    arrow = needed_pyarrow("types")
    if batch.schema.get_field_index(name) < 0:
        key = keys[name]
        return ([], np.zeros(batch.num_rows, np.int64)) if key is None else ([key], np.ones(batch.num_rows, np.int64))
    column = batch.column(name)
    if not arrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    kind = column.type.value_type
    types = arrow.types
    known = (types.is_string, types.is_large_string, types.is_integer, types.is_date, types.is_null)
    if not any(is_one(kind) for is_one in known):
        raise InvalidOption.at("/group", "must contain strings, integers or dates")
    at = _indices(column).astype(np.int64, copy=False)
    met = np.flatnonzero(np.bincount(at + 1)[1:])
    try:
        chosen = arrow.Array.from_buffers(arrow.int64(), len(met), [None, arrow.py_buffer(met)])
        values = column.dictionary.take(chosen).to_pylist()
    except UnicodeDecodeError:  # which has the bytes
        raise InvalidOption.at("/group", "must contain texts in UTF-8") from None
    of_value = ["" if value is None else str(value) for value in values]
    names = sorted({text for text, value in zip(of_value, values, strict=True) if value is not None})
    check_groups(names)
    place = {text: 1 + i for i, text in enumerate(names)}
    number = np.zeros(len(column.dictionary) + 1, np.int64)  # the last entry, at index -1, is for null
    for where, text, value in zip(met.tolist(), of_value, values, strict=True):
        number[where] = 0 if value is None else place[text]
    return names, number[at]


def _indices(column: Any) -> npt.NDArray[Any]:
    """Return the positions of the values of a column in its dictionary, and -1 for null."""
    indices = column.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)
    return number_array(indices)
