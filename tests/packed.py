"""The bytes of arrays and tables in the formats of files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet


def npz(save: Any = np.savez, /, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array))
    return buffer.getvalue()


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def parquet(table: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table(table), buffer, **options)
    return buffer.getvalue()


def arrow(table: Any, *, file: bool = False, chunk: int | None = None, **options: Any) -> bytes:
    """A stream of Arrow, or a file."""
    table, buffer = pa.table(table), io.BytesIO()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(
        buffer, table.schema, options=pa.ipc.IpcWriteOptions(**options)
    ) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return buffer.getvalue()


def feather(table: Any, compression: str = "zstd") -> bytes:
    buffer = io.BytesIO()
    pa.feather.write_feather(pa.table(table), buffer, compression=compression)
    return buffer.getvalue()
