"""Parquet bodies: a column a field."""

from __future__ import annotations

from calibrant.errors import CalibrationError
from service.errors import MalformedParquet, TooLarge
from service.formats.extra import pyarrow
from service.formats.limits import Limits
from service.formats.payload import Arrays, Body
from service.formats.table import check_schema, read_table
from tabular.errors import DamagedFile, FileTooLarge
from tabular.parquet_pages import check_file


def read_parquet(body: Body, limits: Limits) -> Arrays:
    """Read a file; columns and types are those of ``service.formats.arrow_body``.

    Raises ``MalformedParquet``, ``TooLarge``, or the error of the first bad column or row.
    """
    arrow = pyarrow()
    limits.check_bytes(len(body))
    try:
        # Names stay codes: a dictionary of one long name and a million codes is not written out.
        coded = ["groups"] if "groups" in check_file(memoryview(body), limits) else None
        with arrow.BufferReader(arrow.py_buffer(body)) as source:
            file = arrow.parquet.ParquetFile(source, read_dictionary=coded)
            check_schema(file.schema_arrow, limits)
            return read_table(file.read(use_threads=False), limits)
    except CalibrationError:
        raise
    except FileTooLarge as error:
        raise TooLarge(error.detail) from error
    except DamagedFile as error:
        raise MalformedParquet(error.detail) from error
    except (arrow.ArrowException, OSError, MemoryError, LookupError, ValueError) as error:
        raise MalformedParquet("the body is not a Parquet file, or a damaged one") from error
