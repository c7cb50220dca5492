"""Errors of reading: of files, with hints for a person, and of request bodies, with JSON Pointers for a program."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from calibrant.core.errors import CalibrationError, requires

# --- Errors of files: the cause, the option that it concerns, and values to choose from
#
# Messages show column names and label strings, cleaned and shortened, because a user needs them to choose. They never
# show numbers from the file.

Field = Literal[
    "file",
    "predictions",
    "labels",
    "predicted",
    "weights",
    "groups",
    "times",
    "scale",
    "mapping",
    "reduction",
    "class_names",
    "pos_label",
    "weights_kind",
    "decimal",
    "encoding",
    "ids",
    "labels_from",
    "inner",
    "drop_missing",
    # Of predictive distributions
    "observed",
    "mean",
    "variance",
    "std",
    "quantiles",
    "levels",
    "samples",
    "lower",
    "upper",
    "level",
    "clusters",
    "features",
    "categorical",
    "by",
    "known",
]
#: Fields with several numbers per row, and fields of strings.
VECTORS: tuple[Field, ...] = ("predictions", "quantiles", "samples")
TEXTS: tuple[Field, ...] = ("labels", "groups")
#: The class of each label, None if it is not known; or columns or values to choose from.
Offer = Mapping[str, int | None] | tuple[str, ...]


class TabularError(ValueError):
    """Base class of all errors of files.

    Attributes
    ----------
    code : str
        Stable name of the error.
    detail : str
        Message for the user.
    field : str
        The option that the error concerns, such as ``labels``, or ``file``.
    offer : mapping, tuple of str or None
        Values of the option to choose from.
    columns : tuple of str
        Columns of the file, if no column of predictions was found.
    encoding : str or None
        Encoding that the file may have, if it is not UTF-8.
    """

    code: ClassVar[str] = "tabular-error"
    #: The option that such errors concern, unless one names another.
    about: ClassVar[Field] = "file"

    def __init__(
        self,
        detail: str,
        *,
        field: Field | None = None,
        offer: Offer | None = None,
        columns: tuple[str, ...] = (),
        encoding: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field: Field = field or self.about
        self.offer = offer
        self.columns = columns
        self.encoding = encoding


class UnreadableFile(TabularError):
    """A file that the operating system cannot open or read."""

    code = "unreadable-file"


class NoRoom(TabularError):
    """No space for a temporary file, which holds decompressed data and data from a pipe."""

    code = "spool-full"


class WrongKind(TabularError):
    """A file of an unsupported kind."""

    code = "wrong-kind-of-file"


class DamagedFile(TabularError):
    """A file of a supported kind that is damaged."""

    code = "damaged-file"


class PickledObjects(TabularError):
    """An array of Python objects, which would need pickle, or of records."""

    code = "pickled-objects"


class EmptyFile(TabularError):
    """No rows."""

    code = "empty-file"


class FileTooLarge(TabularError):
    """More bytes, rows, columns or numbers than the limit."""

    code = "file-too-large"


class NotUtf8(TabularError):
    """Text that is neither UTF-8 nor UTF-16 with a byte order mark."""

    code = "not-utf-8"


class NoHeader(TabularError):
    """A table whose first line does not name the columns."""

    code = "no-header"


class DuplicateColumns(TabularError):
    """Two columns with the same name."""

    code = "duplicate-columns"


class RaggedRow(TabularError):
    """A row whose number of cells differs from the header's."""

    code = "ragged-row"


class UnclosedQuote(TabularError):
    """A quotation mark that is not closed, or text after a closing one."""

    code = "unclosed-quote"


class MissingValue(TabularError):
    """A cell that is empty or marked as missing."""

    code = "missing-value"
    #: Whether other rows are known to be complete.
    leaves_rows = False
    #: The only label of a file whose other labels are missing, which may mean the other label.
    only_label: str | None = None


class TextInNumbers(TabularError):
    """Text instead of a number."""

    code = "not-a-number"


class DecimalComma(TabularError):
    """Numbers with a decimal comma instead of a point, or with commas that may separate thousands."""

    code = "decimal-comma"

    def __init__(self, detail: str, *, field: Field, unclear: bool) -> None:
        super().__init__(detail, field=field)
        self.unclear = unclear


class InfiniteNumber(TabularError):
    """An infinity."""

    code = "not-finite"


class InvalidFileOption(TabularError):
    """An option of a file with a value that it does not accept."""

    code = "invalid-file-option"


class UnknownColumn(TabularError):
    """A column that the options name and the file does not have."""

    code = "unknown-column"


class UnmatchedIds(TabularError):
    """Ids of rows that occur twice in a file, or that are not in all files of a join."""

    code = "unmatched-ids"


class MixedFeature(TabularError):
    """A column of a feature with texts, and a number that is another category if all cells are numbers."""

    code = "mixed-feature"
    about = "categorical"


class UnclearColumns(TabularError):
    """Several columns that fit, or a column given for two purposes.

    ``readings`` are the values of each choice, and ``options`` the option that takes them if it is not ``field``.
    ``models`` are columns that are probably those of several models.
    """

    code = "unclear-columns"
    about = "predictions"
    models: tuple[str, ...] = ()

    def __init__(
        self,
        detail: str,
        *,
        field: Field | None = None,
        offer: Offer | None = None,
        readings: tuple[tuple[str, ...], ...] = (),
        options: tuple[Field, ...] = (),
    ) -> None:
        super().__init__(detail, field=field, offer=offer)
        self.readings = readings
        self.options = options or (self.field,) * len(readings)


class UnclearOrder(UnclearColumns):
    """Columns of numbered classes in the order of the file or of their names; ``readings`` are both."""

    code = "unclear-order"


class NoPredictions(TabularError):
    """A file in which no column of predictions was found; ``logits`` are columns that can be logits together."""

    code = "no-predictions"
    about = "predictions"
    logits: tuple[tuple[str, ...], ...] = ()


class InvalidForecasts(TabularError):
    """Predictive distributions that are not valid, such as quantiles that cross or a variance of 0."""

    code = "invalid-forecasts"


class NoLabelColumn(TabularError):
    """A file in which no column of labels was found."""

    code = "no-labels"
    about = "labels"


class InvalidTimes(TabularError):
    """A cell that is not a time, or times beside groups."""

    code = "invalid-times"


class TooManyGroups(TabularError):
    """More distinct groups than the library compares."""

    code = "too-many-groups"
    about = "groups"


class LooksLikePercent(TabularError):
    """Predictions that look like percentages."""

    code = "looks-like-percent"
    about = "scale"


class LooksLikeLogits(TabularError):
    """Predictions that look like logits, or have such a name, although the scale is probability."""

    code = "looks-like-logits"
    about = "scale"


class UnclearScale(TabularError):
    """Predictions outside [0, 1] that look like neither percentages nor logits."""

    code = "out-of-range"
    about = "predictions"


class UnmatchedArrays(TabularError):
    """Arrays with an invalid shape or with shapes that do not match."""

    code = "wrong-shape"


class NotLabels(TabularError):
    """A column that cannot be labels: it has fractions, or more values than there are classes."""

    code = "not-labels"
    about = "labels"


class LabelsNeedMapping(TabularError):
    """Labels without a known order of classes; ``offer`` is a suggested mapping, if there is one.

    ``has_columns`` is whether each class has a column of predictions, so that the order of the columns is unknown too.
    """

    code = "labels-need-mapping"
    about = "mapping"
    has_columns: bool = False


class UnmappedLabel(TabularError):
    """A label that is not in the mapping."""

    code = "unmapped-label"
    about = "mapping"


class BadMapping(TabularError):
    """A mapping to values that are not classes, or to a single class."""

    code = "bad-mapping"
    about = "mapping"


# --- Errors of request bodies: places are JSON Pointers, rows are counted from 0


class TooLarge(CalibrationError):
    """A body whose bytes, decompressed bytes, rows, classes or nesting exceed the limit."""

    code = "too-large"


class InvalidField(CalibrationError):
    """A field that is missing, unknown, of the wrong type or outside its range."""

    code = "invalid-field"


class MalformedNpz(CalibrationError):
    """A body that is not an NPZ archive of plain arrays."""

    code = "malformed-npz"


class MalformedNpy(CalibrationError):
    """A body that is not one .npy array of plain numbers."""

    code = "malformed-npy"


class MalformedArrow(CalibrationError):
    """A body that is not a valid Arrow IPC stream."""

    code = "malformed-arrow"


class MalformedParquet(CalibrationError):
    """A body that is not a valid Parquet file."""

    code = "malformed-parquet"


class MalformedCsv(CalibrationError):
    """A body that is not UTF-8 CSV with a header and rows of the same length."""

    code = "malformed-csv"


# --- pyarrow, an optional dependency that is imported on first use


def pyarrow(part: str) -> Any | None:
    """Import pyarrow with a submodule (``csv``, ``parquet``, ``ipc``); returns None if it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        return None
    return arrow


def needed_pyarrow(part: str, what: str | None = None) -> Any:
    """Import pyarrow with a submodule, which ``what`` needs; raises ``MissingExtra`` if it is not installed."""
    with requires("files") if what is None else requires("files", what, instead="or save it as CSV or NPZ"):
        importlib.import_module(f"pyarrow.{part}")
    return importlib.import_module("pyarrow")
