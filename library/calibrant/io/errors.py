"""The errors of reading: those of files, which a person mends, and those of bodies, which a program does."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal

from calibrant.errors import CalibrationError, requires

# --- The errors of files: what is wrong, which of the options it concerns, and what would mend it
#
# A message shows names of columns and texts of labels, cleaned and cut short, because the reader needs them to choose;
# it never repeats numbers of the file. An error never changes the file.

Field = Literal["file", "predictions", "labels", "weights", "groups", "scale", "mapping"]
#: A mapping of labels, or columns or a value to choose from.
Offer = Mapping[str, int] | tuple[str, ...]


class TabularError(ValueError):
    """Base of every error of a file; ``field`` is the option that it concerns."""

    code: ClassVar[str] = "tabular-error"

    def __init__(self, detail: str, *, field: Field = "file", offer: Offer | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field: Field = field
        self.offer = offer


class UnreadableFile(TabularError):
    """A file that the operating system cannot open or read."""

    code = "unreadable-file"


class NoRoom(TabularError):
    """No room for a temporary file, which holds what is unpacked or comes through a pipe."""

    code = "spool-full"


class WrongKind(TabularError):
    """A file of an unsupported kind."""

    code = "wrong-kind-of-file"


class DamagedFile(TabularError):
    """A file of a supported kind that is damaged."""

    code = "damaged-file"


class PickledObjects(TabularError):
    """An array of Python objects, which are pickles."""

    code = "pickled-objects"


class EmptyFile(TabularError):
    """No rows."""

    code = "empty-file"


class FileTooLarge(TabularError):
    """More bytes, rows, columns or numbers than the limit, which the message names."""

    code = "file-too-large"


class NotUtf8(TabularError):
    """Text in another encoding than UTF-8, or UTF-16 with its mark."""

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
    """A quotation mark that opens and does not close, or text after one that closed."""

    code = "unclosed-quote"


class MissingValue(TabularError):
    """A cell that is empty or marked as missing."""

    code = "missing-value"


class NotANumber(TabularError):
    """Text instead of a number."""

    code = "not-a-number"


class DecimalComma(TabularError):
    """Numbers with a decimal comma instead of a point."""

    code = "decimal-comma"


class NotFinite(TabularError):
    """An infinity."""

    code = "not-finite"


class UnknownColumn(TabularError):
    """A column that the options name and the file does not have."""

    code = "unknown-column"


class UnclearColumns(TabularError):
    """Several columns that could be meant."""

    code = "unclear-columns"


class NoPredictions(TabularError):
    """A file without a column that is known to hold predictions."""

    code = "no-predictions"


class NoLabels(TabularError):
    """A file without a column that is known to hold labels."""

    code = "no-labels"


class TooManyGroups(TabularError):
    """More different groups than the library compares."""

    code = "too-many-groups"


class LooksLikePercent(TabularError):
    """Predictions that seem to be percent."""

    code = "looks-like-percent"


class LooksLikeLogits(TabularError):
    """Predictions that look like logits, or are named so, although the scale is probability."""

    code = "looks-like-logits"


class OutOfRange(TabularError):
    """Predictions outside [0, 1] that look like neither percent nor logits."""

    code = "out-of-range"


class WrongShape(TabularError):
    """Arrays whose shapes do not fit."""

    code = "wrong-shape"


class NotLabels(TabularError):
    """A column that cannot be labels: fractions, or more values than there are classes."""

    code = "not-labels"


class LabelsNeedMapping(TabularError):
    """Labels whose order of classes is not evident; ``offer`` is a mapping to confirm, if one can be suggested."""

    code = "labels-need-mapping"


class UnmappedLabel(TabularError):
    """A label that is not in the mapping."""

    code = "unmapped-label"


class BadMapping(TabularError):
    """A mapping onto something other than classes."""

    code = "bad-mapping"


# --- The errors of bodies, which are read strictly: their places are JSON Pointers, rows are counted from 0


class TooLarge(CalibrationError):
    """A body, what it unpacks to, its rows, its classes or its nesting over the limit."""

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
    """A body that is not an Arrow IPC stream of columns that can be read."""

    code = "malformed-arrow"


class MalformedParquet(CalibrationError):
    """A body that is not a Parquet file of columns that can be read."""

    code = "malformed-parquet"


class MalformedCsv(CalibrationError):
    """A body that is not CSV in UTF-8 with a header and rows of its length."""

    code = "malformed-csv"


# --- pyarrow and zstandard, which are extras: imported when the first file needs them


@cache
def pyarrow(part: str) -> Any | None:
    """Return the module with a part of it (``csv``, ``parquet``, ``ipc``), or None if it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        return None
    return arrow


def needed_pyarrow(part: str, what: str) -> Any:
    """Import pyarrow with a part of it; raises ``MissingExtra`` if it is not installed."""
    with requires("files", what, instead="or save it as CSV or NPZ"):
        importlib.import_module(f"pyarrow.{part}")
    return importlib.import_module("pyarrow")
