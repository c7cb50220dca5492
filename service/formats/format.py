"""A format of bodies: its content type, its readers and writer, and what the reference says of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.monitors.row_fields import PredictionColumns
from backend.monitors.rows import MonitorRows, What
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, WrongShape
from calibrant.io.strict import Arrays, Fields
from service.errors import InvalidField
from service.formats.payload import Body, BodyLimits, Payload, fields_of_kind

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

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """Keep the bytes until ``drain``."""
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def drain(self) -> bytes:
        """Return and remove the written bytes."""
        written = b"".join(self._pieces)
        self._pieces.clear()
        return written
