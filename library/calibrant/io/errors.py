"""The errors of reading a person's file."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal

# --- The errors of reading a person's file: what is wrong, with which of the form's fields, and what would mend it
#
# A message tells the names of columns and the texts of labels, cleaned and cut short, for they are what the reader
# needs to choose; numbers of the file are never repeated. Nothing is lost by an error: the file stays as it was.

Field = Literal["file", "predictions", "labels", "weights", "groups", "scale", "mapping"]
#: A mapping of labels, or columns or a value to choose from.
Offer = Mapping[str, int] | tuple[str, ...]


class TabularError(ValueError):
    """Base of every error of a file; ``field`` says next to which choice its ``detail`` belongs."""

    code: ClassVar[str] = "tabular-error"

    def __init__(self, detail: str, *, field: Field = "file", offer: Offer | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field: Field = field
        self.offer = offer


class UnreadableFile(TabularError):
    """The operating system does not give the file."""

    code = "unreadable-file"


class NoRoom(TabularError):
    """No room for a temporary file: of what is unpacked, or comes through a pipe."""

    code = "spool-full"


class WrongKind(TabularError):
    """A file of another kind than those that are read."""

    code = "wrong-kind-of-file"


class MissingExtra(TabularError):
    """A kind of file that needs a package which is not installed."""

    code = "extra-not-installed"


class DamagedFile(TabularError):
    """A file that is of a known kind, and broken."""

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
    """A table whose first line names no columns."""

    code = "no-header"


class DuplicateColumns(TabularError):
    """Two columns of one name."""

    code = "duplicate-columns"


class RaggedRow(TabularError):
    """A row with another number of cells than the header."""

    code = "ragged-row"


class UnclosedQuote(TabularError):
    """A quotation mark that opens and does not close, or text after one that closed."""

    code = "unclosed-quote"


class MissingValue(TabularError):
    """A cell that is empty, or says that it has no value."""

    code = "missing-value"


class NotANumber(TabularError):
    """Text where a number must stand."""

    code = "not-a-number"


class DecimalComma(TabularError):
    """Numbers with a comma where the point must stand."""

    code = "decimal-comma"


class NotFinite(TabularError):
    """An infinity."""

    code = "not-finite"


class UnknownColumn(TabularError):
    """A column was asked for that the file has not."""

    code = "unknown-column"


class UnclearColumns(TabularError):
    """Several columns could be meant."""

    code = "unclear-columns"


class NoPredictions(TabularError):
    """No column is known to hold predictions."""

    code = "no-predictions"


class NoLabels(TabularError):
    """No column is known to hold labels."""

    code = "no-labels"


class TooManyGroups(TabularError):
    """More different groups than the library compares."""

    code = "too-many-groups"


class LooksLikePercent(TabularError):
    """Predictions that seem to be percent."""

    code = "looks-like-percent"


class LooksLikeLogits(TabularError):
    """Predictions that seem to be logits, or whose name says so, where probabilities were asked for."""

    code = "looks-like-logits"


class OutOfRange(TabularError):
    """Predictions that are no probabilities, and neither percent nor logits by their looks."""

    code = "out-of-range"


class WrongShape(TabularError):
    """Arrays whose shapes do not fit."""

    code = "wrong-shape"


class NotLabels(TabularError):
    """A column that cannot be labels: fractions, or more values than there are classes."""

    code = "not-labels"


class LabelsNeedMapping(TabularError):
    """Labels whose order of classes only a person knows; ``offer`` is a mapping to confirm, where one can be made."""

    code = "labels-need-mapping"


class UnmappedLabel(TabularError):
    """A label that the mapping does not hold."""

    code = "unmapped-label"


class BadMapping(TabularError):
    """A mapping onto something else than classes."""

    code = "bad-mapping"


# --- pyarrow, which is an extra: imported when the first file needs it


@cache
def pyarrow(part: str) -> Any | None:
    """Give the module with a part of it (``csv``, ``parquet``, ``ipc``), or None where it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        return None
    return arrow


def needed_pyarrow(part: str, kind: str) -> Any:
    """The module; raises ``MissingExtra`` where it is not installed, and says how it is."""
    arrow = pyarrow(part)
    if arrow is None:
        raise MissingExtra(f"{kind} files need the extra: pip install 'calibrant[files]'; or save it as CSV or NPZ")
    return arrow
