"""Log lines: one per record, as JSON or text."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import TypeAlias

import orjson

from backend.telemetry.observed import current

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "text")

#: The attribute of a record with its structured fields.
FIELDS = "fields"
Fields: TypeAlias = Mapping[str, str | int | float | None]
_NO_FIELDS: Fields = MappingProxyType({})
_JSON = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z

_Raised: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None
#: Values that need no quotes in a text line: no spaces, quotes, equals signs or control characters.
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+", re.ASCII)
_UNPRINTABLE = re.compile(r"[^ -~]")
#: Errors whose messages come from the system or the store, never from a batch.
_SHOWN_IN_FULL = (OSError, ImportError)
_PACKAGES_SHOWN_IN_FULL = ("redis.", "backend.store.")


def configure(level: str, form: str) -> None:
    """Write the records of the whole process to standard error; ``auto`` is text on a terminal, else JSON."""
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    # No line shows these values, so they are not collected.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    if sys.version_info >= (3, 12):
        logging.logAsyncioTasks = False
    logging.basicConfig(level=level.upper(), handlers=[ToFile(sys.stderr.fileno(), form)], force=True)


def log_event(log: logging.Logger, level: int, message: str, fields: Fields) -> None:
    """Write a record with fields; skips the search for the calling line, which is half the cost of a record."""
    if log.isEnabledFor(level):
        record = logging.LogRecord(log.name, level, "", 0, message, None, None)
        setattr(record, FIELDS, fields)
        log.handle(record)


class ToFile(logging.Handler):
    """Writes each line with a single call, so that lines of processes that share a file do not mix."""

    def __init__(self, file: int, form: str) -> None:
        super().__init__()
        self._file = file
        self._line = json_line if form == "json" else text_line

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record; errors of the reader are ignored."""
        try:
            line = self._line(record)
            while line:
                line = line[os.write(self._file, line) :]
        except Exception:  # like the handlers of the standard library: logging never fails its caller
            self.handleError(record)


def json_line(record: logging.LogRecord) -> bytes:
    """One JSON object; fields without a value are omitted."""
    line = {
        "time": datetime.fromtimestamp(record.created, UTC),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    } | _fields_of(record)
    with contextlib.suppress(TypeError):  # lone surrogates, which UTF-8 cannot encode
        encoded = orjson.dumps(line, option=_JSON)
        if encoded.isascii():
            return encoded
    # Escaped, because some readers also split lines at other characters.
    return json.dumps(line, default=str, separators=(",", ":")).encode() + b"\n"


def text_line(record: logging.LogRecord) -> bytes:
    """Time, level, logger and message, then ``name=value`` per field; control characters are escaped."""
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    message = _UNPRINTABLE.sub(_escaped, record.getMessage())
    fields = "".join(f" {name}={_value(value)}" for name, value in _fields_of(record).items())
    return f"{moment} {record.levelname} {record.name} {message}{fields}\n".encode()


def _fields_of(record: logging.LogRecord) -> dict[str, str | int | float]:
    """The fields of a record and of the current request or task, and its exception."""
    fields: Fields = getattr(record, FIELDS, _NO_FIELDS)
    shown = {name: value for name, value in fields.items() if value is not None}
    observed = current()
    if observed is not None:
        if observed.request_id is not None:
            shown["request_id"] = observed.request_id
        if observed.trace_id is not None:
            shown["trace_id"] = observed.trace_id
    if record.exc_info:
        shown["exception"] = raised(record.exc_info)
    return shown


def raised(info: _Raised) -> str:
    """The frames and type of an exception, and its message only if it cannot contain a caller's data.

    Many libraries repeat the invalid value: "could not convert string to float: '0.25'".
    """
    kind, error, trace = (None, None, None) if info is None else info
    if kind is None or error is None:
        return ""
    frames = "".join(traceback.format_tb(trace))
    in_full = isinstance(error, _SHOWN_IN_FULL) or f"{kind.__module__}.".startswith(_PACKAGES_SHOWN_IN_FULL)
    return f"{frames}{kind.__module__}.{kind.__qualname__}" + (f": {error}" if in_full else "")


def _value(value: str | float) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    return '"' + _UNPRINTABLE.sub(_escaped, text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "backslashreplace").decode("ascii")
