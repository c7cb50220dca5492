"""A format of bodies: its content type, its readers and writer, what readers return, and their limits."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from backend.monitors.row_fields import PredictionColumns
from backend.monitors.rows import MonitorRows, What
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidLabel, WrongShape
from calibrant.io.limits import Limits
from calibrant.io.strict import CLASSIFICATION, REGRESSION, Arrays, Fields
from calibrant.io.table import Array as Array
from calibrant.io.table import Body as Body
from service.errors import InvalidField
from service.settings import ScoringSettings

# --- What readers return, and the limits that they enforce


def fields_of_kind(options: Mapping[str, Any]) -> Fields:
    """The arrays of a body with these options, by the prediction kind that they declare."""
    return REGRESSION if options.get("prediction_kind") == "regression" else CLASSIFICATION


@dataclass(frozen=True)
class Payload:
    """``arrays`` by field name; ``options`` as JSON values, or as strings if they come from a query.

    If it ``is_text``, the body does not tell numbers from strings.
    """

    arrays: Mapping[str, Array]
    options: Mapping[str, Any]
    from_query: bool
    is_text: bool = False


def with_numbers(payload: Payload) -> Payload:
    """The same rows with labels that are booleans as numbers: true is the event.

    Raises ``InvalidLabel`` if there are several events, or if the classes have names.
    """
    labels, predictions = payload.arrays.get("labels"), payload.arrays.get("predictions")
    if labels is None or labels.dtype.kind != "b":
        return payload
    if labels.ndim == 1 and predictions is not None and predictions.ndim == 2 and predictions.shape[1] > 2:
        classes = predictions.shape[1] - 1
        raise InvalidLabel.at("/labels", f"must be classes from 0 to {classes}, not booleans, for several classes")
    if payload.options.get("class_names") is not None:
        raise InvalidLabel.at("/labels", "must be names in class_names, or 0 and 1, not booleans")
    return replace(payload, arrays={**payload.arrays, "labels": labels.astype(np.uint8)})


@dataclass(frozen=True)
class BodyLimits(Limits):
    """The limits of a request body: its unpacked size and rows, and the nesting and values of JSON."""

    max_rows: int
    max_json_depth: int
    max_json_values: int = 16 * 1024 * 1024

    @classmethod
    def of(cls, settings: ScoringSettings, budget: Callable[[int], None] | None = None) -> Self:
        """Create the limits from the settings."""
        known = (settings.max_unpacked_bytes, settings.max_rows, settings.max_classes, settings.max_json_depth)
        return cls(*known, settings.max_json_values, budget=budget)


# --- A format

#: Reads the arrays and the options of a body; the last argument is the query.
Reader = Callable[[Body, BodyLimits, Mapping[str, str]], Payload]
#: Reads the rows of a monitor from the body of a call.
RowsReader = Callable[[Body, BodyLimits, What, PredictionColumns], MonitorRows]
#: Writes fields and arrays of equal length as the pieces of a response.
Writer = Callable[[Mapping[str, Any], Mapping[str, Floats]], Iterator[bytes]]

_BOUNDS = "tests/unit/service/formats/test_memory_bounds.py::"
#: The tests of the memory of all formats: that readers reserve what they allocate, and stop before they do.
RESERVES = f"{_BOUNDS}test_a_reader_reserves_what_it_allocates"
STOPS = f"{_BOUNDS}test_a_reader_without_memory_stops_before_it_allocates"


@dataclass(frozen=True)
class Memory:
    """A line of the table of memory bounds: what a reader reserves before it allocates, other bounds, and the test."""

    reserves: str
    bounds: str = ""
    test: str = RESERVES


@dataclass(frozen=True)
class Format:
    """A format of bodies.

    ``malformed`` is the error of a body that cannot be read. ``read`` is None if bodies of arrays do not have the
    format, ``read_rows`` if rows of monitors do not, and ``write`` if responses do not. ``request``, ``rows`` and
    ``response`` describe each for the reference. ``options_in_body`` are not in the query. If ``makes_objects``, rows
    become Python objects: those of monitors then have the limits of text. ``is_available`` is whether what writes a
    response is installed.
    """

    media_type: str
    malformed: type[CalibrationError]
    read: Reader | None = None
    read_rows: RowsReader | None = None
    write: Writer | None = None
    request: str = ""
    rows: str = ""
    response: str = ""
    memory: Memory | None = None
    rows_memory: Memory | None = None
    options_in_body: bool = False
    makes_objects: bool = field(kw_only=True)
    is_available: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        """Raise ``TypeError`` if the reference would lack what a reader or the writer takes or reserves."""
        for function, described in (
            ("read", self.request and self.memory),
            ("read_rows", self.rows and self.rows_memory),
            ("write", self.response),
        ):
            if getattr(self, function) is not None and not described:
                raise TypeError(f"{self.media_type}: describe what `{function}` takes, and its memory if it reads")


def with_query(read: Callable[[Body, BodyLimits, Fields], Arrays], *, is_text: bool = False) -> Reader:
    """The reader of a format whose options are in the query; ``read`` reads the arrays of a prediction kind."""

    def read_with_query(body: Body, limits: BodyLimits, query: Mapping[str, str]) -> Payload:
        arrays = read(body, limits, fields_of_kind(query))
        options: dict[str, Any] = dict(query)
        if "level" in arrays:  # of intervals: an option, which an archive may hold as an array
            level = arrays.pop("level")
            if "level" in options:
                raise InvalidField.at("/level", "occurs in the body and in the query")
            if level.size != 1:
                raise WrongShape.at("/level", "must be one number")
            options["level"] = float(level.reshape(()))
        return Payload(arrays, options, from_query=True, is_text=is_text)

    return read_with_query


class Pieces(io.RawIOBase):
    """A file that holds the bytes written since the last ``drain``; not seekable."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """Keep the bytes until ``drain``."""
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        """The number of bytes written."""
        return self._position

    def drain(self) -> bytes:
        """Return and remove the written bytes."""
        written = b"".join(self._pieces)
        self._pieces.clear()
        return written
