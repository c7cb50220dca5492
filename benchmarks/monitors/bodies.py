"""Bodies of calibrated rows with distinct ids."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from service.formats.arrays import ARROW, NPZ
from service.formats.documents import FORMATS_OF_LINES, JSON_FORMAT

Columns = dict[str, Any]
#: A body and its content type.
Body = tuple[bytes, str]


def columns(start: int, n: int, *, ids: bool = True) -> Columns:
    """``n`` rows with ids from ``start``: id, prediction, label."""
    rng = np.random.default_rng(start)
    p = rng.uniform(size=n)
    values: Columns = {"prediction": p, "label": (rng.uniform(size=n) < p).astype(np.int8)}
    return ({"id": [f"request-{i:010d}" for i in range(start, start + n)]} | values) if ids else values


def as_arrow(rows: Columns) -> Body:
    """The rows as an Arrow stream."""
    out, table = io.BytesIO(), pa.table(rows)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue(), ARROW.media_type


def as_npz(rows: Columns) -> Body:
    """The rows as an NPZ archive."""
    out = io.BytesIO()
    arrays: Any = {f"{name}s": np.asarray(values) for name, values in rows.items()}
    np.savez(out, **arrays)
    return out.getvalue(), NPZ.media_type


def documents(rows: Columns) -> list[dict[str, Any]]:
    """The rows as objects."""
    listed = [values if isinstance(values, list) else values.tolist() for values in rows.values()]
    return [dict(zip(rows, values, strict=True)) for values in zip(*listed, strict=True)]


def as_lines(rows: Columns) -> Body:
    """The rows as JSON lines."""
    return b"\n".join(map(orjson.dumps, documents(rows))), FORMATS_OF_LINES[0].media_type


def as_json(rows: Columns) -> Body:
    """The rows as one JSON document."""
    return orjson.dumps({"rows": documents(rows)}), JSON_FORMAT.media_type


def without(rows: Columns, field: str) -> Columns:
    """The rows without a field."""
    return {name: values for name, values in rows.items() if name != field}
