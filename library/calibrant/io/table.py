"""The sheet that a file is read into, and the interface of an open table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Scale
from calibrant.core.cells import WeightsKind
from calibrant.distributions.forecasts import ForecastRows
from calibrant.io.errors import TEXTS, Field, UnclearColumns, UnmatchedArrays

# --- The sheet that a file is read into

#: A request body, as received or decompressed.
Body = bytes | bytearray
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sheet:
    """The content of a file as arrays.

    Attributes
    ----------
    predictions : ndarray of float64
        (n,) for P(Y=1) or its logit, (n, K) for one column per class. Values are not changed; probabilities may lie
        outside [0, 1] by up to 1e-4.
    labels : ndarray of int64 or None
        (n,), classes 0 to K - 1.
    weights : ndarray of float64 or None
        (n,).
    groups : list of str or None
        One name per row.
    scale : {"probability", "logit"}
        Scale of the predictions.
    classes : tuple of str or None
        Names of the classes in order, if the file has them.
    notes : tuple of str
        What was inferred, and unusual properties of the file.
    times : list of str or None
        One time per row, as written in the file.
    reduction : str or None
        ``confidence`` if the file has the confidence in a predicted class, and whether it is right, as labels 0 and 1.
    weights_kind : {"importance", "frequency"}
        Meaning of the weights.
    clusters : list of str or None
        The cluster of each row, as written in the file.
    ids : list of str or None
        One id per row.
    row_numbers : ndarray of int64 or None
        The numbers of the rows in the file, from 0, if rows with missing values were left out.
    features : dict of str to ndarray, or None
        Columns of numbers, NaN if missing, or of texts, "" if missing.
    """

    predictions: Floats
    labels: Ints | None
    weights: Floats | None
    groups: list[str] | None
    scale: Scale
    classes: tuple[str, ...] | None
    notes: tuple[str, ...]
    times: list[str] | None = None
    reduction: str | None = None
    weights_kind: WeightsKind = "importance"
    clusters: list[str] | None = None
    ids: list[str] | None = None
    features: Mapping[str, Array] | None = None
    row_numbers: Ints | None = None

    def __len__(self) -> int:
        return len(self.predictions)

    def taken(self, selected: npt.NDArray[np.bool_] | Ints) -> Sheet:
        """Return the rows for which ``selected (n,)`` is true, or those with the numbers in ``selected``."""
        rows = np.flatnonzero(selected) if selected.dtype.kind == "b" else selected
        arrays = {name: getattr(self, name) for name in ("predictions", "labels", "weights", "row_numbers")}
        names = {name: getattr(self, name) for name in ("groups", "times", "clusters", "ids")}
        chosen: dict[str, Any] = {name: values[rows] for name, values in arrays.items() if values is not None}
        chosen |= {name: [values[row] for row in rows] for name, values in names.items() if values is not None}
        if self.features is not None:
            chosen["features"] = {name: column[rows] for name, column in self.features.items()}
        return replace(self, **chosen)


@dataclass(frozen=True)
class ModelSheets:
    """The rows of several models: a sheet for each, by the name of the model, with the same labels and weights."""

    sheets: Mapping[str, Sheet]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all sheets, equal ones once."""
        return tuple(dict.fromkeys(note for sheet in self.sheets.values() for note in sheet.notes))


def complete_in_all(sheets: Mapping[str, Sheet]) -> dict[str, Sheet]:
    """Return sheets of one file without the rows that any of them has left out.

    Raises ``UnclearColumns`` if no row is left.
    """
    complete = [sheet.row_numbers for sheet in sheets.values() if sheet.row_numbers is not None]
    if not complete:
        return dict(sheets)
    common = reduce(np.intersect1d, complete)
    if not len(common):
        raise UnclearColumns("no row has the predictions of all models, a label, and a weight if there are weights")
    joint = (
        (f"rows: {len(common):,} are complete for all models",) if any(len(r) > len(common) for r in complete) else ()
    )
    taken = {
        name: sheet.taken(common if sheet.row_numbers is None else np.isin(sheet.row_numbers, common))
        for name, sheet in sheets.items()
    }
    return {name: replace(sheet, notes=(*sheet.notes, *joint)) for name, sheet in taken.items()}


@dataclass(frozen=True)
class ForecastSheet(ForecastRows):
    """The content of a file of predictive distributions of n outcomes.

    Attributes
    ----------
    notes : tuple of str
        What was inferred, and unusual properties of the file.
    """

    notes: tuple[str, ...] = ()


# --- An open table: its columns, their first values, and a method to read some of them


@dataclass(frozen=True)
class Coded:
    """A dictionary-encoded column of strings: the distinct strings, and for every row an index into them."""

    texts: tuple[str, ...]
    codes: npt.NDArray[np.int64]

    def first(self, code: int) -> int:
        """Return the first row with a code."""
        return int(np.argmax(self.codes == code))


@dataclass(frozen=True)
class Column:
    """A column: its name, its first values as strings, and the numbers per row.

    ``signs`` if percent signs of its predictions are read with the scale percent.
    """

    name: str
    sample: tuple[str, ...]
    width: int = 1
    signs: bool = False


@dataclass(frozen=True)
class ColumnPlaces:
    """The indices of the columns to read, by their field; those of predicted classes are read as labels."""

    by_field: Mapping[Field, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Mapping[Field, tuple[int, ...] | int | None]) -> ColumnPlaces:
        """Return the places of one or several columns by field; fields without a column are left out."""
        several = {name: of if isinstance(of, tuple) else (of,) for name, of in columns.items() if of is not None}
        return cls({name: of for name, of in several.items() if of})

    def __getitem__(self, name: Field) -> tuple[int, ...]:
        """Return the indices of a field, empty if it has no column."""
        return self.by_field.get(name, ())

    @cached_property
    def fields(self) -> Mapping[int, Field]:
        """The field that each column is read as."""
        read_as = {name: "labels" if name == "predicted" else name for name in self.by_field}
        return {at: cast("Field", read_as[name]) for name, places in self.by_field.items() for at in places}

    @property
    def numbers(self) -> tuple[int, ...]:
        """Indices of numeric columns."""
        return tuple(at for at, name in self.fields.items() if name not in TEXTS)

    @property
    def texts(self) -> tuple[int, ...]:
        """Indices of string columns."""
        return tuple(at for at, name in self.fields.items() if name in TEXTS)


@dataclass(frozen=True)
class Values:
    """The columns that were read, by field: numbers (n,) or (n, K), and columns of strings."""

    numbers: Mapping[Field, Floats]
    texts: Mapping[Field, tuple[Coded, ...]]

    @classmethod
    def of(cls, places: ColumnPlaces, read: Callable[[int, Field], Any]) -> Values:
        """Read some columns with ``read(index, field)``; several columns of numbers of a field become (n, K).

        Raises ``UnmatchedArrays`` for columns of a field with different shapes.
        """
        numbers: dict[Field, Floats] = {}
        texts: dict[Field, tuple[Coded, ...]] = {}
        for name, indices in places.by_field.items():
            columns = [read(at, places.fields[at]) for at in indices]
            if places.fields[indices[0]] in TEXTS:
                texts[name] = tuple(columns)
            else:
                numbers[name] = _stacked(columns, name)
        return cls(numbers, texts)

    def text(self, name: Field) -> Coded | None:
        """Return the column of strings of a field, None if there is none."""
        return next(iter(self.texts.get(name, ())), None)


def _stacked(columns: Sequence[Floats], name: Field) -> Floats:
    """Return one column unchanged, several as (n, K)."""
    if len(columns) == 1:
        return columns[0]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim > 1:
        raise UnmatchedArrays(f"each column of {name} must have one number per row", field=name)
    return np.column_stack(columns)


#: The most rows and cells from which columns are inferred.
_SAMPLE_ROWS, _SAMPLE_CELLS = 1000, 1 << 20


def sample_rows(width: int) -> int:
    """Return how many rows of ``width`` cells columns are inferred from."""
    return max(1, min(_SAMPLE_ROWS, _SAMPLE_CELLS // max(1, width)))


class OpenTable(Protocol):
    """An open file."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns in file order."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on unusual properties of the file."""
        ...

    def read(self, places: ColumnPlaces) -> Values:
        """Read some columns of every row; raises the ``TabularError`` of the first bad one."""
        ...

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on the cells of some columns as strings, with the index of their column, in one pass over the file.

        A missing value is empty; vectors are written in brackets. ``add`` may be called for several blocks of rows.
        """
        ...


def cells_at(table: OpenTable, places: Sequence[int]) -> list[list[str]]:
    """Read some columns as strings; a missing value is empty. Raises ``UnmatchedArrays`` for a column of vectors."""
    for at in places:
        if table.columns[at].width > 1:
            raise UnmatchedArrays(
                f"column '{table.columns[at].name}' has vectors; one string or number per row is required"
            )
    texts: dict[int, list[str]] = {at: [] for at in places}
    table.scan(places, lambda at, cells: texts[at].extend(cells))
    return [texts[at] for at in places]
