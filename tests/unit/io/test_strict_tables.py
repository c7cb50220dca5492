"""The same columns as CSV, as an Arrow stream and as Parquet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from calibrant.core.errors import CalibrationError
from calibrant.io.limits import Limits
from calibrant.io.strict import Arrays, read_arrow, read_csv, read_parquet
from tests.packed import arrow, parquet
from tests.unit.io.refused import refused

Read = Callable[[Any, Limits], Arrays]


WAYS: dict[str, tuple[Callable[[Any], bytes], Read]] = {
    "arrow": (arrow, read_arrow),
    "arrow in chunks": (lambda table: arrow(table, chunk=2), read_arrow),
    "arrow lz4": (lambda table: arrow(table, compression="lz4"), read_arrow),
    "arrow zstd": (lambda table: arrow(table, compression="zstd"), read_arrow),
    "parquet": (parquet, read_parquet),
    "parquet in groups": (lambda table: parquet(table, row_group_size=2), read_parquet),
    "parquet gzip v2": (
        lambda table: parquet(table, compression="gzip", data_page_version="2.0", use_dictionary=False),
        read_parquet,
    ),
}
FIXED = pa.FixedSizeListArray.from_arrays(pa.array([0.1, 0.9, 0.4, 0.6, 1.0, 0.0]), 2)
VECTORS = [[0.1, 0.9], [0.4, 0.6], [1.0, 0.0]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"predictions": [0.1, 0.4, 0.9], "labels": [0, 1, 1]}, {"predictions": [0.1, 0.4, 0.9], "labels": [0, 1, 1]}),
        ({"predictions": pa.array([0.25, 0.5, 1], pa.float32())}, {"predictions": [0.25, 0.5, 1]}),
        ({"predictions": pa.array(np.array([0.25, 0.5, 1], np.float16))}, {"predictions": [0.25, 0.5, 1]}),
        ({"labels": pa.array([0, 1, 2], pa.uint8())}, {"labels": [0, 1, 2]}),
        ({"labels": pa.array([0, 1, 0]).dictionary_encode()}, {"labels": [0, 1, 0]}),
        ({"labels": [True, False, True]}, {"labels": [True, False, True]}),
        ({"weights": pa.array([0, 1, 2], pa.int16())}, {"weights": [0, 1, 2]}),
        ({"groups": ["a", "b\u00e9", "a"]}, {"groups": ["a", "b\u00e9", "a"]}),
        ({"groups": pa.array(["a", "b", "a"], pa.large_string())}, {"groups": ["a", "b", "a"]}),
        ({"groups": pa.array(["a", "bcd", "a"]).dictionary_encode()}, {"groups": ["a", "bcd", "a"]}),
        ({"predictions": VECTORS}, {"predictions": VECTORS}),
        ({"predictions": FIXED}, {"predictions": VECTORS}),
        (
            {"predictions.1": [0.9, 0.6, 0.0], "labels": [1, 1, 0], "predictions.0": [0.1, 0.4, 1.0]},
            {"predictions": VECTORS, "labels": [1, 1, 0]},
        ),
        ({"labels": [[0, 1], [1, 1], [0, 0]]}, {"labels": [[0, 1], [1, 1], [0, 0]]}),
        ({"labels": [[True, False], [True, True]]}, {"labels": [[True, False], [True, True]]}),
        ({"labels.1": [1, 0], "labels.0": [0, 1]}, {"labels": [[0, 1], [1, 0]]}),
        ({"predictions": pa.array([], pa.float64())}, {"predictions": []}),
    ],
)
def test_a_table_becomes_arrays(way: str, columns: dict[str, Any], expected: dict[str, Any], limits: Limits) -> None:
    write, read = WAYS[way]
    arrays = read(write(pa.table(columns)), limits)
    assert set(arrays) == set(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(arrays[name], np.array(column))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"patient": [1.0]}, ("invalid-field", "")),
        ({"predictions": [0.5], "predictions.0": [0.5]}, ("invalid-field", "/predictions")),
        ({"predictions.0": [0.5], "predictions.2": [0.5]}, ("invalid-field", "/predictions")),
        ({"predictions.00": [0.5]}, ("invalid-field", "")),
        ({"predictions": [0.1, 0.2, 0.3, None]}, ("not-a-number", "/predictions/3")),
        ({"labels": [None, 1, 0]}, ("not-a-number", "/labels/0")),
        ({"groups": ["a", "b", None]}, ("not-a-number", "/groups/2")),
        ({"groups": pa.array(["a", "b", None]).dictionary_encode()}, ("not-a-number", "/groups/2")),
        ({"groups": [1, 2]}, ("not-a-number", "/groups")),
        ({"groups": ["a", "a" * 257]}, ("invalid-option", "/groups/1")),
        ({"groups": ["a", "a", "b\0"]}, ("invalid-option", "/groups/2")),
        ({"predictions": [True, False]}, ("not-a-number", "/predictions")),
        ({"predictions": ["0.5"]}, ("not-a-number", "/predictions")),
        ({"predictions": [[True]]}, ("not-a-number", "/predictions")),
        ({"predictions": pa.nulls(3)}, ("not-a-number", "/predictions")),
        ({"labels": [[0, 1], [1]]}, ("wrong-shape", "/labels/1")),
        ({"labels": [1], "labels.0": [0]}, ("invalid-field", "/labels")),
        ({"labels.1": [0]}, ("invalid-field", "/labels")),
        ({"predictions": [[0.1, 0.9], [0.5, 0.5], [1.0]]}, ("wrong-shape", "/predictions/2")),
        ({"predictions": [[0.1, 0.9], [0.5, None], [1.0, 0.0]]}, ("not-a-number", "/predictions/1/1")),
        ({"predictions": [[0.1, 0.9], None]}, ("not-a-number", "/predictions/1")),
        ({"predictions": [[0.5] * 21]}, ("too-large", "/predictions")),
        ({f"predictions.{k}": [0.5] for k in range(30)}, ("too-large", "/predictions")),
        ({"predictions": np.zeros(1001)}, ("too-large", "")),
    ],
)
def test_a_wrong_table_is_refused(way: str, columns: dict[str, Any], expected: tuple[str, str], limits: Limits) -> None:
    write, read = WAYS[way]
    assert refused(lambda: read(write(pa.table(columns)), limits)) == expected


@pytest.mark.parametrize("way", ["arrow", "arrow lz4", "parquet"])
def test_a_table_that_is_cut_off_or_damaged_is_refused(way: str, limits: Limits) -> None:
    write, read = WAYS[way]
    body = write(pa.table({"predictions": np.linspace(0, 1, 100), "groups": ["a", "b"] * 50}))
    for cut in (0, 1, 4, len(body) // 3, len(body) // 2, len(body) - 20):
        if way == "arrow" and cut == 0:
            continue
        assert refused(lambda cut=cut: read(body[:cut], limits))[0].startswith("malformed-")  # type: ignore[misc]


@pytest.mark.parametrize("way", ["arrow", "arrow lz4", "arrow zstd", "parquet", "parquet gzip v2"])
def test_no_flipped_byte_breaks_a_reader(way: str, limits: Limits) -> None:
    write, read = WAYS[way]
    body = write(pa.table({"predictions": [[0.1, 0.9]] * 3, "groups": ["a", "b", "a"], "labels": [0, 1, 1]}))
    random = np.random.default_rng(0)
    for place in range(0, len(body), 3):
        spoiled = bytearray(body)
        spoiled[place] ^= int(random.integers(1, 256))
        try:
            arrays = read(spoiled, limits)
        except CalibrationError:
            continue
        assert sum(array.nbytes for array in arrays.values()) < 1_000_000


def test_a_stream_that_unpacks_to_too_much_is_refused_before_it_does(limits: Limits) -> None:
    zeros = pa.table({"predictions": np.zeros(10_000_000)})
    wide = Limits(limits.max_unpacked_bytes, 10**9, limits.max_classes)
    body = arrow(zeros, compression="zstd")
    assert len(body) < 20_000
    before = pa.total_allocated_bytes()
    assert refused(lambda: read_arrow(body, wide))[0] == "too-large"
    forged = arrow(pa.table({"predictions": np.zeros(100)}), compression="lz4")
    start = forged.index((800).to_bytes(8, "little"), 200)
    forged = forged[:start] + (2**62).to_bytes(8, "little") + forged[start + 8 :]
    assert refused(lambda: read_arrow(forged, wide))[0] == "too-large"
    assert pa.total_allocated_bytes() <= before


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"use_dictionary": False, "compression": "zstd"}])
def test_a_file_that_unpacks_to_too_much_is_refused_before_it_does(options: dict[str, Any], limits: Limits) -> None:
    wide = Limits(limits.max_unpacked_bytes, 10**9, limits.max_classes)
    body = parquet(pa.table({"predictions": np.zeros(10_000_000)}), **options)
    assert len(body) < 100_000
    assert refused(lambda: read_parquet(body, wide))[0] == "too-large"


def test_an_encoding_that_repeats_prefixes_is_refused(limits: Limits) -> None:
    table = pa.table({"groups": ["a" * 100] * 100})
    body = parquet(table, use_dictionary=False, column_encoding={"groups": "DELTA_BYTE_ARRAY"})
    assert refused(lambda: read_parquet(body, limits))[0] == "malformed-parquet"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("predictions,labels\n0.1,0\n0.9,1\n", {"predictions": [0.1, 0.9], "labels": [0, 1]}),
        ("predictions,labels\r\n0.1,0\r\n0.9,1", {"predictions": [0.1, 0.9], "labels": [0, 1]}),
        ("\ufefflabels\n1\n", {"labels": [1]}),
        ('"predictions", groups\n 1e-3,"a,\n""b"""\n', {"predictions": [0.001], "groups": ['a,\n"b"']}),
        ("groups\n1_0\n2\n", {"groups": ["1_0", "2"]}),
        ("predictions.1,predictions.0\n0.9,0.1\n0.6,0.4\n", {"predictions": [[0.1, 0.9], [0.4, 0.6]]}),
        ("predictions,labels\n", {"predictions": [], "labels": []}),
    ],
)
def test_csv_becomes_arrays(body: str, expected: dict[str, Any], limits: Limits) -> None:
    arrays = read_csv(body.encode(), limits)
    assert set(arrays) == set(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(arrays[name], np.array(column))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ("malformed-csv", "")),
        (b"\n", ("malformed-csv", "")),
        (b"labels\n\xff\n", ("malformed-csv", "")),
        (b'labels\n"1', ("malformed-csv", "")),
        (b"labels\n1\n\n0\n", ("malformed-csv", "")),
        (b"predictions,labels\n0.5,1\n0.5\n", ("malformed-csv", "")),
        (b"predictions,labels\n0.5,1\n0.5,1,2\n", ("malformed-csv", "")),
        (b"0.5\n0.6\n", ("invalid-field", "")),
        (b"labels,patient\n1,2\n", ("invalid-field", "")),
        (b"labels,labels\n1,2\n", ("invalid-field", "/labels")),
        (b"predictions\n0.5\n\xc2\xbd\n", ("not-a-number", "/predictions/1")),
        (b"weights,labels\n1,0\n,1\n", ("not-a-number", "/weights/1")),
        (b"predictions\n0.5\n0.1_5\n", ("not-a-number", "/predictions/1")),
        (b"predictions.0,predictions.1\n0.5,0.5\n0.5,x\n", ("not-a-number", "/predictions/1")),
        (b"predictions\n" + b"0.5\n" * 1001, ("too-large", "")),
        (b"," * 50 + b"\n", ("too-large", "/predictions")),
        (b"labels\n" + b"0," * 499_000, ("malformed-csv", "")),
        (b"labels\n" + b"0" * 1_000_000, ("too-large", "")),
        (b"groups\n" + b"a" * 257 + b"\n", ("invalid-option", "/groups/0")),
    ],
)
def test_wrong_csv_is_refused(body: bytes, expected: tuple[str, str], limits: Limits) -> None:
    assert refused(lambda: read_csv(body, limits)) == expected


@pytest.mark.slow
def test_a_bad_row_far_down_is_named(limits: Limits) -> None:
    wide = Limits(10_000_000, 10**6, limits.max_classes)
    body = b"predictions,labels\n" + b"0.5,1\n" * 200_000
    assert refused(lambda: read_csv(body + b"0.5,x\n", wide)) == ("not-a-number", "/labels/200000")
    with pytest.raises(Exception, match="row 200000 has 1 cells"):
        read_csv(body + b"0.5\n", wide)
