"""The formats of bodies and responses."""

from __future__ import annotations

from collections.abc import Mapping

from service.formats.arrays import ARROW, NPY, NPZ, PARQUET
from service.formats.documents import CSV, FORMATS_OF_LINES, JSON_FORMAT
from service.formats.format import Format, Reader, RowsReader, Writer

#: In the order of the reference; the first is the default of responses.
FORMATS = (JSON_FORMAT, *FORMATS_OF_LINES, NPZ, NPY, ARROW, PARQUET, CSV)
BY_TYPE: Mapping[str, Format] = {known.media_type: known for known in FORMATS}
#: What reads bodies of arrays and rows of monitors, and what writes responses, by content type.
READERS: Mapping[str, Reader] = {known.media_type: known.read for known in FORMATS if known.read is not None}
ROWS_READERS: Mapping[str, RowsReader] = {
    known.media_type: known.read_rows for known in FORMATS if known.read_rows is not None
}
WRITERS: Mapping[str, Writer] = {known.media_type: known.write for known in FORMATS if known.write is not None}
