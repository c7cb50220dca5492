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
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(array))
    return out.getvalue()


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def parquet(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(table), out, **options)
    return out.getvalue()


def arrow(table: Any, *, file: bool = False, chunk: int | None = None, **options: Any) -> bytes:
    """A stream of Arrow, or a file."""
    table, out = pa.table(table), io.BytesIO()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(
        out, table.schema, options=pa.ipc.IpcWriteOptions(**options)
    ) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return out.getvalue()


def feather(table: Any, compression: str = "zstd") -> bytes:
    out = io.BytesIO()
    pa.feather.write_feather(pa.table(table), out, compression=compression)
    return out.getvalue()
