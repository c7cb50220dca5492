"""Files as people have them, of the same few rows."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from tests.packed import arrow, feather, parquet, zipped
from tests.packed import npz as saved

LABELS = [2, 0, 1, 0]
PROBS = [[0.125, 0.25, 0.625], [1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.75, 0.25, 0.0]]
WEIGHTS = [1.0, 2.0, 0.5, 0.0]
GROUPS = ["é", "b", "b", "é"]


def csv(separator: str = ",", end: str = "\n") -> str:
    """A column a class."""
    lines = [["label", "prob_0", "prob_1", "prob_2", "weight", "group"]]
    rows = zip(LABELS, PROBS, WEIGHTS, GROUPS, strict=True)
    lines += [[str(label), *map(str, probs), str(w), group] for label, probs, w, group in rows]
    return "".join(separator.join(line) + end for line in lines)


def npz(*, packed: bool = False, order: Any = "C", dtype: str = "<f8") -> bytes:
    """An array a field."""
    probs = np.array(PROBS, dtype=dtype, order=order)
    return saved(
        np.savez_compressed if packed else np.savez, labels=LABELS, probs=probs, weights=WEIGHTS, groups=GROUPS
    )


def table(*, lists: bool = False, coded: bool = False) -> pa.Table:
    """A column a class, or one of lists."""
    columns: dict[str, Any] = {"label": LABELS, "weight": WEIGHTS, "group": GROUPS}
    if coded:
        columns["group"] = pa.array(GROUPS).dictionary_encode()
    if lists:
        columns["probs"] = pa.array(PROBS, type=pa.list_(pa.float32()))
    else:
        columns |= {f"prob_{k}": [row[k] for row in PROBS] for k in range(3)}
    return pa.table(columns)


ALL = {
    "csv": csv().encode(),
    "csv with a mark": csv().encode("utf-8-sig"),
    "csv of Windows": csv(end="\r\n").encode(),
    "csv of an old Mac": csv(end="\r").encode(),
    "csv without the last end": csv().encode().rstrip(),
    "csv with blank lines": csv(end="\n\n").encode(),
    "csv in UTF-16": csv("\t").encode("utf-16"),
    "semicolons": csv(";").encode(),
    "tabs": csv("\t").encode(),
    "csv.gz": gzip.compress(csv().encode()),
    "csv.zst": zstandard.compress(csv().encode()),
    "csv.bz2": bz2.compress(csv().encode()),
    "csv.xz": lzma.compress(csv().encode()),
    "csv.zip": zipped(
        {"folder/": b"", "folder/a.csv": csv().encode(), "__MACOSX/folder/._a.csv": b"x"}, zipfile.ZIP_DEFLATED
    ),
    "parquet.zip": zipped({"a.parquet": parquet(table())}, zipfile.ZIP_DEFLATED),
    "npz": npz(),
    "packed npz": npz(packed=True),
    "npz by columns": npz(order="F", packed=True),
    "npz of a big-endian machine": npz(dtype=">f4"),
    "npz.gz": gzip.compress(npz()),
    "parquet": parquet(table()),
    "parquet of lists": parquet(table(lists=True)),
    "parquet of codes": parquet(table(coded=True)),
    "arrow stream": arrow(table(), chunk=3),
    "arrow file": arrow(table(lists=True, coded=True), file=True, chunk=3),
    "feather": feather(table()),
}
