"""Log lines: one record a line, as JSON or as text, whatever a record holds."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO, TypeAlias

import orjson

from telemetry.observed import current

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "text")

#: The attribute of a record that holds its fields, set by ``extra={FIELDS: ...}``.
FIELDS = "fields"
Fields: TypeAlias = Mapping[str, str | int | float | None]

_Raised: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None
#: What needs quotes in a line of text: spaces, quotes, equals signs and all that could begin a line of its own.
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+", re.ASCII)
_UNPRINTABLE = re.compile(r"[^ -~]")
#: Errors whose words are the system's or the store's, never made of a batch.
_SAID_IN_FULL = (OSError, ImportError)
_ROOMS_SAID_IN_FULL = ("redis", "storage")


def configure(level: str, form: str) -> None:
    """Write the records of the whole process to standard error; ``auto`` is text on a terminal, else JSON."""
    stream = sys.stderr
    if form == "auto":
        form = "text" if stream.isatty() else "json"
    logging.basicConfig(level=level.upper(), handlers=[_handler(stream, form)], force=True)


def _handler(stream: TextIO, form: str) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    return handler


class Lines(logging.Formatter):
    """What both forms say of a record: the fields it has, those of the work under way, and what was raised."""

    def said(self, record: logging.LogRecord) -> Iterator[tuple[str, str | int | float]]:
        """The fields of a record that have a value, in order."""
        fields: Fields = getattr(record, FIELDS, {})
        yield from ((name, value) for name, value in fields.items() if value is not None)
        observed = current()
        if observed is not None:
            if observed.request_id is not None and "request_id" not in fields:
                yield "request_id", observed.request_id
            if observed.trace_id is not None:
                yield "trace_id", observed.trace_id
        if record.exc_info:
            yield "exception", raised(record.exc_info)


class JsonLines(Lines):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **dict(self.said(record)),
        }
        return orjson.dumps(_decodable(line)).decode()


class TextLines(Lines):
    """Time, level, logger and message, then ``name=value`` for each field."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end; what a terminal would obey is escaped."""
        message = _UNPRINTABLE.sub(_escaped, record.getMessage())
        head = f"{_time(record)} {record.levelname} {record.name} {message}"
        return " ".join([head, *(f"{name}={_value(value)}" for name, value in self.said(record))])


def raised(info: _Raised) -> str:
    """The frames and the type of an error, and its words only where they cannot hold a caller's data.

    Libraries repeat the value that they refuse: "could not convert string to float: '0.25'".
    """
    kind, error, trace = (None, None, None) if info is None else info
    if kind is None or error is None:
        return ""
    frames = "".join(traceback.format_tb(trace))
    in_full = isinstance(error, _SAID_IN_FULL) or kind.__module__.partition(".")[0] in _ROOMS_SAID_IN_FULL
    return f"{frames}{kind.__module__}.{kind.__qualname__}" + (f": {error}" if in_full else "")


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _decodable(line: dict[str, str | int | float]) -> dict[str, str | int | float]:
    """Half characters, which UTF-8 cannot write, are escaped: a header or a file's name may hold them."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in line.items()
    }


def _value(value: str | float) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    return '"' + _UNPRINTABLE.sub(_escaped, text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "backslashreplace").decode("ascii")
