"""Arrow IPC streams: a column a field, in as many batches as the sender liked."""

from __future__ import annotations

from calibrant.errors import CalibrationError
from service.errors import MalformedArrow, TooLarge
from service.formats.extra import pyarrow
from service.formats.limits import Limits
from service.formats.payload import Arrays, Body
from service.formats.table import check_schema, read_table
from tabular.arrow_messages import check_messages
from tabular.errors import DamagedFile, FileTooLarge


def read_arrow(body: Body, limits: Limits) -> Arrays:
    """Read a stream; the names of its columns are those of ``service.formats.columns``.

    Numbers may be integers or floats of any width, ``predictions`` also lists of them, ``groups`` strings, each of
    them dictionary-encoded or not. Raises ``MalformedArrow``, ``TooLarge``, or the error of the first bad column or
    row.
    """
    arrow = pyarrow()
    limits.check_bytes(len(body))
    buffer = arrow.py_buffer(body)
    try:
        check_messages(arrow, buffer, len(body), limits)
        with arrow.ipc.open_stream(buffer) as reader:
            check_schema(reader.schema, limits)
            return read_table(reader.read_all(), limits)
    except CalibrationError:
        raise
    except FileTooLarge as error:
        raise TooLarge(error.detail) from error
    except DamagedFile as error:
        raise MalformedArrow(error.detail) from error
    except (arrow.ArrowException, OSError, MemoryError, IndexError, ValueError) as error:
        raise MalformedArrow("the body is not an Arrow IPC stream, or a damaged one") from error
