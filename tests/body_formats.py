"""Bodies in every format of the service: ``service.formats.catalogue`` has their readers, this module their writers.

A new format needs a writer here; the tests of all formats then cover it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from service.formats.arrays import ARROW as ARROW_FORMAT
from service.formats.arrays import NPY as NPY_FORMAT
from service.formats.arrays import NPZ as NPZ_FORMAT
from service.formats.arrays import PARQUET as PARQUET_FORMAT
from service.formats.documents import CSV as CSV_FORMAT
from service.formats.documents import FORMATS_OF_LINES, JSON_FORMAT
from tests.packed import arrow, npy, npz, parquet

if TYPE_CHECKING:
    from backend.monitors.kinds import ClassMonitor

JSON, NPZ, NPY = JSON_FORMAT.media_type, NPZ_FORMAT.media_type, NPY_FORMAT.media_type
ARROW, PARQUET, CSV = ARROW_FORMAT.media_type, PARQUET_FORMAT.media_type, CSV_FORMAT.media_type
NDJSON, JSONL = (lines.media_type for lines in FORMATS_OF_LINES)

Arrays = Mapping[str, Any]
Documents = Sequence[Mapping[str, Any]]


def csv_of(columns: Arrays) -> bytes:
    """Text with one column per column of the arrays; None becomes an empty cell."""
    lists = {name: np.asarray(column, dtype=object) for name, column in columns.items()}
    named = {
        (name if array.ndim == 1 else f"{name}.{k}"): array if array.ndim == 1 else array[:, k]
        for name, array in lists.items()
        for k in range(1 if array.ndim == 1 else array.shape[1])
    }
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(named)
    writer.writerows(zip(*named.values(), strict=True))
    return file.getvalue().encode()


def _lists(arrays: Arrays) -> dict[str, Any]:
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}


#: Writers of arrays by name, (n,) or (n, K), as bodies of a batch.
WRITE_ARRAYS: Mapping[str, Callable[[Arrays], bytes]] = {
    JSON: lambda arrays: json.dumps(_lists(arrays)).encode(),
    NPZ: lambda arrays: npz(**arrays),
    NPY: lambda arrays: npy(arrays["predictions"]),
    ARROW: lambda arrays: arrow(_lists(arrays)),
    PARQUET: lambda arrays: parquet(_lists(arrays)),
    CSV: csv_of,
}


def columns_of(rows: Documents) -> dict[str, list[Any]]:
    """The rows of a monitor by field, None where a row lacks it."""
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def _archive(rows: Documents) -> bytes:
    columns = columns_of(rows)
    columns |= {"group": [name or "" for name in columns["group"]]} if "group" in columns else {}
    if "timestamp" in columns:
        columns["timestamp"] = [np.datetime64(time.replace(tzinfo=None), "us") for time in columns["timestamp"]]
    return npz(**{f"{name}s": np.array(column) for name, column in columns.items()})


def _cells(rows: Documents) -> bytes:
    columns: dict[str, Any] = columns_of(rows)
    if isinstance(vectors := columns.get("prediction"), list) and isinstance(vectors[0], list):
        del columns["prediction"]
        columns |= {f"prediction.{k}": list(column) for k, column in enumerate(zip(*vectors, strict=True))}
    return csv_of(columns)


def _line(document: Any) -> bytes:
    return json.dumps(document, default=datetime.isoformat).encode()


#: Writers of rows of a monitor, whose times are aware datetimes.
WRITE_ROWS: Mapping[str, Callable[[Documents], bytes]] = {
    JSON: lambda rows: _line({"rows": list(rows)}),
    **dict.fromkeys((NDJSON, JSONL), lambda rows: b"\r\n".join(map(_line, rows))),
    NPZ: _archive,
    ARROW: lambda rows: arrow(columns_of(rows), chunk=max(1, len(rows) // 3)),
    PARQUET: lambda rows: parquet(columns_of(rows)),
    CSV: _cells,
}
#: Formats in which a value of a row may be missing.
WITH_NULL = [kind for kind in WRITE_ROWS if kind != NPZ]


def class_monitor(n_classes: int | None = None) -> ClassMonitor:
    """The kind of a monitor whose predictions are numbers, or of several columns."""
    from backend.monitors.kinds import ClassMonitor  # which takes most of a second, that hooks of the fuzzer would wait
    from schemas.monitors import MonitorBody

    return ClassMonitor(MonitorBody(name="m", n_classes=n_classes))
