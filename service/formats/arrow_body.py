"""Arrow IPC streams: a column a field, in as many batches as the sender liked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from calibrant.errors import CalibrationError
from service.errors import MalformedArrow, TooLarge
from service.formats.extra import pyarrow
from service.formats.limits import Limits
from service.formats.payload import Arrays, Body
from service.formats.table import check_schema, read_table
from tabular.arrow_messages import check_messages
from tabular.errors import DamagedFile, FileTooLarge

Read = TypeVar("Read")


def read_arrow(body: Body, limits: Limits) -> Arrays:
    """Read a stream; the names of its columns are those of ``service.formats.columns``.

    Numbers may be integers or floats of any width, ``predictions`` also lists of them, ``groups`` strings, each of
    them dictionary-encoded or not. Raises ``MalformedArrow``, ``TooLarge``, or the error of the first bad column or
    row.
    """
    return read_stream(
        body, limits, lambda schema: check_schema(schema, limits), lambda table: read_table(table, limits)
    )


def read_stream(body: Body, limits: Limits, check: Callable[[Any], None], read: Callable[[Any], Read]) -> Read:
    """What ``read`` makes of the table of a stream whose schema ``check`` has let pass, before any row is read.

    Raises ``MalformedArrow``, ``TooLarge``, or what the two raise.
    """
    arrow = pyarrow()
    limits.check_bytes(len(body))
    buffer = arrow.py_buffer(body)
    try:
        check_messages(arrow, buffer, len(body), limits)
        with arrow.ipc.open_stream(buffer) as reader:
            check(reader.schema)
            return read(reader.read_all())
    except CalibrationError:
        raise
    except FileTooLarge as error:
        raise TooLarge(error.detail) from error
    except DamagedFile as error:
        raise MalformedArrow(error.detail) from error
    except (arrow.ArrowException, OSError, MemoryError, IndexError, ValueError) as error:
        raise MalformedArrow("the body is not an Arrow IPC stream, or a damaged one") from error
