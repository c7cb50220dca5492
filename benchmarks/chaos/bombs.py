"""Small bodies that unpack to much memory, in every format that the service reads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import zstandard

JSON, NPZ, NPY, CSV = "application/json", "application/x-npz", "application/x-npy", "text/csv"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
NDJSON, TENSORS = "application/x-ndjson", "application/octet-stream"


class Bomb(NamedTuple):
    """A request whose body is small as sent: ``encoding`` is its Content-Encoding, ``headers`` are further ones."""

    name: str
    path: str
    kind: str
    body: bytes
    encoding: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def bombs(rows: int, values: int) -> Iterator[Bomb]:
    """Bodies of about ``rows`` rows in binary formats, and of ``values`` values or rows in JSON and CSV.

    They refer to a map ``m`` and a monitor ``m`` of probabilities.
    """
    half, zero = pa.array(np.full(rows, 0.5)), pa.array(np.zeros(rows, np.int8))
    codes = pa.array(np.zeros(rows, np.int8))
    # As strings of Python, each character takes four bytes because of the last one.
    wide = [f"{i:0200d}\N{GRINNING FACE}" for i in range(values // 10)]
    tables = {
        "columns": pa.table({"predictions": half, "labels": zero}),
        "dictionaries": pa.table(
            {name: pa.DictionaryArray.from_arrays(codes, pa.array([0.0])) for name in ("predictions", "labels")}
        ),
        "names": pa.table(
            {"predictions": codes, "labels": zero, "groups": pa.DictionaryArray.from_arrays(codes, pa.array(["a"]))}
        ),
        "wide names": pa.table({"predictions": half[: len(wide)], "labels": zero[: len(wide)], "groups": wide}),
        "nulls": pa.table({"predictions": half, "labels": pa.nulls(rows, pa.float64())}),
        "lists": pa.table(
            {
                "predictions": pa.FixedSizeListArray.from_arrays(pa.array(np.full(rows // 10 * 10, 0.1)), 10),
                "labels": zero[: rows // 10],
            }
        ),
    }
    for name, table in tables.items():
        for path in ("/evaluate", "/batches"):
            yield Bomb(f"Arrow, {name}, {path}", path, ARROW, _arrow(table))
        yield Bomb(f"Parquet, {name}", "/evaluate", PARQUET, _parquet(table))
    of_rows = {"predictions": np.full(rows, 0.5), "labels": np.zeros(rows, np.int8)}
    for path in ("/evaluate", "/batches", "/maps?method=isotonic"):
        yield Bomb(f"NPZ, {path}", path, NPZ, _npz(**of_rows))
    yield Bomb("NPZ, names", "/evaluate", NPZ, _npz(**of_rows, groups=np.full(rows, "ab")))
    yield Bomb("NPZ, big-endian", "/evaluate", NPZ, _npz(**{k: v.astype(">f8") for k, v in of_rows.items()}))
    flat = io.BytesIO()
    np.save(flat, of_rows["predictions"])
    yield Bomb("NPY, /batches", "/batches", NPY, _packed(flat.getvalue()), "zstd")
    yield Bomb("NPY, /calibrate", "/calibrate?map=m", NPY, _packed(flat.getvalue()), "zstd")
    for name, text in (
        ("numbers", b"predictions,labels\n" + b".5,1\n" * values),
        ("names", b"predictions,labels,groups\n" + b".5,1,ab\n" * values),
        ("wide names", ("predictions,labels,groups\n" + "".join(f".5,1,{name}\n" for name in wide)).encode()),
    ):
        yield Bomb(f"CSV, {name}", "/evaluate", CSV, _packed(text), "zstd")
    n = values // 2
    for name, document in (
        ("numbers", b'{"predictions":[' + b"0.5," * (n - 1) + b'0.5],"labels":[' + b"1," * (n - 1) + b"1]}"),
        (
            "names",
            b'{"class_names":["ab","cd"],"predictions":['
            + b"0.5," * (n - 1)
            + b'0.5],"labels":['
            + b'"ab",' * (n - 1)
            + b'"ab"]}',
        ),
        (
            "vectors",
            b'{"predictions":[' + b"[0.5,0.5]," * (n // 2) + b'[0.5,0.5]],"labels":[' + b"1," * (n // 2) + b"1]}",
        ),
        ("options", b'{"predictions":[0.5],"labels":[1],"options":{"names":["' + '","'.join(wide).encode() + b'"]}}'),
    ):
        yield Bomb(f"JSON, {name}", "/evaluate", JSON, _packed(document), "zstd")
    monitor = "/monitors/m/rows"
    yield Bomb("monitor, NPZ", monitor, NPZ, _npz(predictions=of_rows["predictions"], labels=of_rows["labels"]))
    yield Bomb(
        "monitor, NPZ with ids", monitor, NPZ, _npz(**of_rows, ids=np.zeros(rows, np.int64), groups=np.full(rows, "ab"))
    )
    for name, ids in (("", codes), (" with shared ids", pa.DictionaryArray.from_arrays(codes, pa.array(["a" * 32])))):
        table = pa.table({"prediction": half, "label": zero, "id": ids})
        yield Bomb(f"monitor, Arrow{name}", monitor, ARROW, _arrow(table))
        yield Bomb(f"monitor, Parquet{name}", monitor, PARQUET, _parquet(table))
    for name, head, row in (
        ("numbers", b"prediction,label\n", b".5,1\n"),
        ("ids and groups", b"id,prediction,label,group\n", b"a,.5,1,ab\n"),
    ):
        yield Bomb(f"monitor, CSV, {name}", monitor, CSV, _packed(head + row * values), "zstd")
    named = "id,prediction,label,group\n" + "".join(f"{name},.5,1,{name}\n" for name in wide)
    yield Bomb("monitor, CSV, wide names", monitor, CSV, _packed(named.encode()), "zstd")
    line = b'{"id":"a","prediction":0.5,"label":1,"group":"ab"}'
    yield Bomb("monitor, lines", monitor, NDJSON, _packed((line + b"\n") * min(n // 4, 1_000_000)), "zstd")
    yield Bomb(
        "monitor, JSON",
        monitor,
        JSON,
        _packed(b'{"rows":[' + (line + b",") * min(n // 4, 999_999) + line + b"]}"),
        "zstd",
    )
    tensor = b'{"inputs":[{"name":"predictions","datatype":"FP64","shape":[%d],"parameters":{"binary_data_size":%d}}]}'
    head = tensor % (rows, rows * 8)
    yield Bomb(
        "inference, bytes", "/v2/models/m/infer", TENSORS, _packed(head + of_rows["predictions"].tobytes()), "zstd",
        (("Inference-Header-Content-Length", str(len(head))),),
    )  # fmt: skip
    numbers = b'{"inputs":[{"name":"predictions","datatype":"FP64","shape":[%d],"data":[' % values
    yield Bomb(
        "inference, JSON", "/v2/models/m/infer", JSON, _packed(numbers + b"0.5," * (values - 1) + b"0.5]}]}"), "zstd"
    )


def _packed(data: bytes) -> bytes:
    return zstandard.compress(data, 3)


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return out.getvalue()


def _arrow(table: Any) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return out.getvalue()


def _parquet(table: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()
