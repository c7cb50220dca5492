"""Bodies that were made to break the reader: each is refused, and afterwards the service answers and is no larger."""

from __future__ import annotations

import gzip
import io
import json
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from service.formats.catalogue import BY_TYPE, READERS, ROWS_READERS
from service.stack import Stack
from tests.body_formats import (
    ARROW,
    CSV,
    JSON,
    NPY,
    NPZ,
    PARQUET,
    WRITE_ARRAYS,
    WRITE_ROWS,
)
from tests.integration.responses import body_of, code_of, place_of
from tests.packed import arrow, npz, parquet, zipped

ZEROS = bytes(1 << 24)
P = np.random.default_rng(0).random(5000)
Y = (P > 0.5).astype(int)
TABLE = pa.table({"predictions": P, "labels": Y})
#: Bytes by which the service may have grown once all is over, less than one of the largest bodies. Each thread that
#: reads bodies has a heap of its own that keeps some tens of megabytes; how many threads read depends on the machine.
GROWTH = 250 * 1024 * 1024


def _memory(service: Stack) -> int:
    status = Path(f"/proc/{service.api.pid}/status").read_text("utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


@pytest.fixture(scope="module", autouse=True)
def unharmed(service: Stack) -> Iterator[None]:
    """Warm every reader up first; afterwards the service answers and has given the memory back."""
    with httpx.Client(base_url=service.url, timeout=600) as http:
        for kind, body in GOOD.items():
            assert _post(http, kind, body).status_code == 200, kind
        before = _memory(service)
        yield
        assert http.get("/health/ready").status_code == 200
        assert _post(http, NPZ, GOOD[NPZ]).status_code == 200
    assert service.api.poll() is None
    assert _memory(service) < before + GROWTH


GOOD = {kind: write({"predictions": P, "labels": Y}) for kind, write in WRITE_ARRAYS.items() if kind != NPY}


def _post(http: httpx.Client, kind: str, body: bytes, encoding: str | None = None) -> httpx.Response:
    headers = {"Content-Type": kind} | ({} if encoding is None else {"Content-Encoding": encoding})
    return http.post("/evaluate", content=body, headers=headers)


def _gzip_bomb() -> bytes:
    return gzip.compress(ZEROS) * 80


def _zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(ZEROS) for _ in range(80)) + packer.flush()


def _zipped(stated: int) -> bytes:
    """A member that unpacks to 64 MB, and says that it has as many bytes as ``stated``."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("predictions.npy", "w") as member,
    ):
        member.write(_forged_npy(f"({2**23},)")[:128])
        for _ in range(4):
            member.write(ZEROS)
    body = bytearray(file.getvalue())
    directory = body.rindex(b"PK\1\2")
    body[directory + 24 : directory + 28] = stated.to_bytes(4, "little")
    return bytes(body)


def _forged_npy(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


def _npz_of_true() -> bytes:
    return zipped(dict.fromkeys(("predictions.npy", "labels.npy"), _forged_npy("(True,)")[: 128 + 8]))


def _lying_arrow() -> bytes:
    """A compressed buffer that says that it unpacks to 2^62 bytes."""
    body = arrow(TABLE, compression="lz4")
    at = body.index((P.nbytes).to_bytes(8, "little"), 400)
    return body[:at] + (2**62).to_bytes(8, "little") + body[at + 8 :]


def _parquet_bomb() -> bytes:
    return parquet(pa.table({"predictions": np.zeros(2**28)}), use_dictionary=False, compression="zstd")


def _lying_parquet() -> bytes:
    """A footer that says that it begins before the file does."""
    body = parquet(TABLE)
    return body[:-8] + (2**31).to_bytes(4, "little") + body[-4:]


PLAIN: dict[str, tuple[str, Callable[[], bytes], tuple[int, str]]] = {
    "zip bomb": (NPZ, lambda: _zipped(2**31), (413, "too-large")),
    "zip bomb that lies": (NPZ, lambda: _zipped(1000), (400, "malformed-npz")),
    "npy of 2^60 rows": (NPY, lambda: _forged_npy("(2**60,)"), (400, "malformed-npy")),
    "npy of too many rows": (NPY, lambda: _forged_npy(f"({2**60},)"), (400, "malformed-npy")),
    "npy of no rows and many": (NPY, lambda: _forged_npy(f"(0, {2**62})"), (400, "malformed-npy")),
    "npy of negative rows": (NPY, lambda: _forged_npy("(-8, -1)"), (400, "malformed-npy")),
    "npy of True rows": (NPY, lambda: _forged_npy("(True,)")[: 128 + 8], (400, "malformed-npy")),
    "npz of True rows": (NPZ, _npz_of_true, (400, "malformed-npz")),
    "npy that nests": (NPY, lambda: _forged_npy("(" * 50), (400, "malformed-npy")),
    "arrow that lies": (ARROW, _lying_arrow, (413, "too-large")),
    "arrow bomb": (
        ARROW,
        lambda: arrow(pa.table({"predictions": np.zeros(2**28)}), compression="zstd"),
        (413, "too-large"),
    ),
    "parquet bomb": (PARQUET, _parquet_bomb, (413, "too-large")),
    "parquet that lies": (PARQUET, _lying_parquet, (400, "malformed-parquet")),
    "deep json": (JSON, lambda: b'{"options":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", (413, "too-large")),
    "empty arrays": (JSON, lambda: b'{"options":[' + b"[]," * 17_000_000 + b"1]}", (413, "too-large")),
    "strings": (JSON, lambda: b'{"options":[' + b'"ab",' * 17_000_000 + b"1]}", (413, "too-large")),
    "deep objects": (JSON, lambda: b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000, (413, "too-large")),
    "nested options": (JSON, lambda: b'{"options":' + b"[" * 50 + b"]" * 50 + b"}", (413, "too-large")),
    "NaN": (JSON, lambda: b'{"predictions":[0.1,NaN],"labels":[0,1]}', (400, "malformed-json")),
    "Infinity": (JSON, lambda: b'{"predictions":[0.1,-Infinity],"labels":[0,1]}', (400, "malformed-json")),
    "two equal keys": (JSON, lambda: b'{"labels":[1],"predictions":[0.5],"labels":[0]}', (422, "invalid-field")),
    "a million options": (JSON, lambda: json.dumps({str(i): i for i in range(10**6)}).encode(), (413, "too-large")),
    "a million measures": (JSON, lambda: b'{"measures":[' + b"1," * 999_999 + b"1]}", (422, "invalid-field")),
    "csv of one line": (CSV, lambda: b"labels\n" + b"0," * 4_000_000, (413, "too-large")),
    "csv of commas": (CSV, lambda: b"," * 8_000_000, (413, "too-large")),
    "csv of quotes": (CSV, lambda: b'groups\n"' + b'""' * 4_000_000, (413, "too-large")),
    "npz as json": (JSON, lambda: GOOD[NPZ], (400, "malformed-json")),
    "json as npz": (NPZ, lambda: GOOD[JSON], (400, "malformed-npz")),
    "npz as npy": (NPY, lambda: GOOD[NPZ], (400, "malformed-npy")),
    "parquet as arrow": (ARROW, lambda: GOOD[PARQUET], (400, "malformed-arrow")),
    "arrow as parquet": (PARQUET, lambda: GOOD[ARROW], (400, "malformed-parquet")),
    "npz as csv": (CSV, lambda: GOOD[NPZ], (400, "malformed-csv")),
    "a type unknown": ("application/x-pickle", lambda: b"", (415, "unsupported-media-type")),
    "another charset": ("text/csv; charset=utf-16", lambda: b"", (415, "unsupported-media-type")),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", PLAIN)
def test_a_hostile_body_is_refused(http: httpx.Client, case: str) -> None:
    kind, make, expected = PLAIN[case]
    assert code_of(_post(http, kind, make())) == expected
    assert http.get("/health/live").status_code == 200


#: Bytes that are a body in no format.
JUNK = b"\x00\xff\xc1 no format\n" * 100


@pytest.mark.parametrize("kind", READERS)
def test_bytes_of_no_format_are_malformed_in_every_format(http: httpx.Client, kind: str) -> None:
    assert code_of(_post(http, kind, JUNK)) == (400, BY_TYPE[kind].malformed.code)


@pytest.fixture(scope="module")
def monitor(service: Stack) -> str:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        http.post("/monitors", json={"name": "hostile", "n_classes": 2}).raise_for_status()
    return "/monitors/hostile/rows"


def _parquet_rows() -> bytes:
    return parquet({"prediction": np.zeros(2**28)}, use_dictionary=False, compression="zstd")


_HEAD = b"prediction.0,prediction.1,label\n"
OF_MONITORS: dict[str, tuple[str, Callable[[], bytes], tuple[int, str]]] = {
    "arrow bomb": (ARROW, lambda: arrow({"label": np.zeros(2**28)}, compression="zstd"), (413, "too-large")),
    "parquet bomb": (PARQUET, _parquet_rows, (413, "too-large")),
    "parquet that lies": (PARQUET, _lying_parquet, (400, "malformed-parquet")),
    "arrow as parquet": (PARQUET, lambda: GOOD[ARROW], (400, "malformed-parquet")),
    "csv of one line": (CSV, lambda: _HEAD + b"0," * 4_000_000, (413, "too-large")),
    "csv of commas": (CSV, lambda: b"," * 8_000_000, (413, "too-large")),
    "csv of quotes": (CSV, lambda: _HEAD + b'"' + b'""' * 4_000_000, (413, "too-large")),
    "csv of classes": (CSV, lambda: _many_classes(), (413, "too-large")),
    "csv of a far class": (CSV, lambda: b"prediction.0,prediction.99999999,label\n.5,.5,1\n", (422, "wrong-shape")),
    "csv of short rows": (CSV, lambda: _HEAD + b"0.5\n", (400, "malformed-csv")),
    "npz as csv": (CSV, lambda: GOOD[NPZ], (400, "malformed-csv")),
}


def _many_classes() -> bytes:
    return ",".join(f"prediction.{k}" for k in range(30_000)).encode() + b",label\n"


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_MONITORS)
def test_a_hostile_body_of_rows_is_refused(http: httpx.Client, monitor: str, case: str) -> None:
    kind, make, expected = OF_MONITORS[case]
    answer = http.post(monitor, content=make(), headers={"Content-Type": kind})
    assert code_of(answer) == expected
    assert http.get("/health/live").status_code == 200


@pytest.mark.parametrize("kind", ROWS_READERS)
def test_junk_and_beginnings_of_bodies_of_rows_are_answered(http: httpx.Client, monitor: str, kind: str) -> None:
    body = WRITE_ROWS[kind]([{"prediction": [0.25, 0.75], "label": i % 2} for i in range(200)])
    for content in (JUNK, *(body[:cut] for cut in (0, 1, 7, 100, len(body) // 2))):
        answer = http.post(monitor, content=content, headers={"Content-Type": kind})
        assert answer.status_code in (200, 400, 422), content[:20]
        if answer.status_code == 200:  # lines before the end count, others are refused rows
            assert answer.json()["accepted"] <= 200


PACKED: dict[str, tuple[str, Callable[[], bytes], tuple[int, str]]] = {
    "gzip bomb": ("gzip", _gzip_bomb, (413, "too-large")),
    "zstd bomb": ("zstd", _zstd_bomb, (413, "too-large")),
    "gzip cut off": ("gzip", lambda: gzip.compress(GOOD[NPZ])[:-9], (400, "malformed-encoding")),
    "zstd cut off": ("zstd", lambda: zstandard.compress(GOOD[NPZ])[:-9], (400, "malformed-encoding")),
    "members without content": ("gzip", lambda: gzip.compress(b"") * 100_000, (400, "malformed-encoding")),
    "not packed": ("gzip", lambda: GOOD[NPZ], (400, "malformed-encoding")),
    "packed twice": ("gzip", lambda: gzip.compress(gzip.compress(GOOD[NPZ])), (400, "malformed-npz")),
    "two encodings": ("gzip, gzip", lambda: GOOD[NPZ], (415, "unsupported-media-type")),
    "an encoding unknown": ("br", lambda: GOOD[NPZ], (415, "unsupported-media-type")),
}


def test_a_window_that_is_too_large_is_named(http: httpx.Client) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=24)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    response = _post(http, NPZ, packer.compress(GOOD[NPZ]) + packer.flush(), "zstd")
    assert code_of(response) == (400, "malformed-encoding")
    assert response.json()["detail"].endswith("the zstd data has a dictionary or window of more than 8 MiB")


@pytest.mark.slow
@pytest.mark.parametrize("case", PACKED)
def test_a_hostile_encoding_is_refused(http: httpx.Client, case: str) -> None:
    encoding, make, expected = PACKED[case]
    assert code_of(_post(http, NPZ, make(), encoding)) == expected
    assert http.get("/health/live").status_code == 200


#: Formats in which what is left of a body may be a whole one.
_OF_LINES = (CSV,)


@pytest.mark.parametrize("kind", [kind for kind in GOOD if kind not in _OF_LINES])
def test_a_body_that_is_cut_off_anywhere_is_refused(http: httpx.Client, kind: str) -> None:
    body = GOOD[kind]
    for cut in (0, 1, 7, 100, len(body) // 2, len(body) - 30):
        response = _post(http, kind, body[:cut])
        assert response.status_code in (400, 422), cut
        assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("encoding", ["gzip", pytest.param("zstd", marks=pytest.mark.slow)])
def test_packed_bodies_give_the_same_report(http: httpx.Client, kind: str, encoding: str) -> None:
    packed = gzip.compress(GOOD[kind]) if encoding == "gzip" else zstandard.compress(GOOD[kind])
    assert body_of(_post(http, kind, packed, encoding)) == _post(http, NPZ, GOOD[NPZ]).json()


@pytest.mark.slow
def test_a_chunked_body_over_the_limit_is_refused_before_it_ends(service: Stack) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    head = f"POST /evaluate HTTP/1.1\r\nHost: {host}\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % len(ZEROS) + ZEROS + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(256 * 1024 * 1024 // len(ZEROS) + 1):
                connection.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has hung up on us, with its answer on the way
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_stated_length_over_the_limit_is_refused_unread(service: Stack) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    head = f"POST /evaluate HTTP/1.1\r\nHost: {host}\r\nContent-Type: {NPZ}\r\nContent-Length: {10**12}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        connection.sendall(head.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_options_in_the_query_beside_json_and_duplicates_are_refused(http: httpx.Client) -> None:
    for kind, query, pointer in ((JSON, "seed=1", "?seed"), (NPZ, "seed=1&seed=2", "?seed")):
        response = http.post(f"/evaluate?{query}", content=GOOD[kind], headers={"Content-Type": kind})
        assert code_of(response) == (422, "invalid-field")
        assert place_of(response.json()["errors"][0]) == pointer


@pytest.mark.parametrize(
    ("method", "name", "value", "expected"),
    [
        ("POST", "Accept", "image/png", (406, "not-acceptable")),
        ("POST", "Content-Type", "image/png", (415, "unsupported-media-type")),
        ("POST", "Content-Type", f"{JSON}; charset=latin-1", (415, "unsupported-media-type")),
        ("POST", "Content-Encoding", "br", (415, "unsupported-media-type")),
        ("GET", "If-Match", '"another"', (412, "precondition-failed")),
        ("PATCH", "If-None-Match", "*", (412, "precondition-failed")),
        ("PATCH", "Content-Type", JSON, (415, "unsupported-media-type")),
    ],
)
def test_the_problem_of_a_header_names_it(
    http: httpx.Client, method: str, name: str, value: str, expected: tuple[int, str]
) -> None:
    fit = {"predictions": P.tolist(), "labels": (P > 0.3).astype(int).tolist(), "method": "platt"}
    fitted = body_of(http.post("/maps", json=fit), 201)["id"]
    path = "/calibrate" if method == "POST" else f"/maps/{fitted}"
    kind = "application/merge-patch+json" if method == "PATCH" else JSON
    content = json.dumps({"map": fitted, "predictions": [0.5]} if method == "POST" else {"description": "new"})
    sent: dict[str, Any] = {} if method == "GET" else {"content": content}
    response = http.request(method, path, headers={"Content-Type": kind, name: value}, **sent)
    assert code_of(response) == expected
    problem = response.json()
    assert [place_of(error) for error in problem["errors"]] == [f"{name}:"]
    assert problem["detail"].startswith(f"{name}: ")


def test_answers_come_in_the_type_accepted(http: httpx.Client) -> None:
    fit = {"predictions": P.tolist(), "labels": (P > 0.3).astype(int).tolist(), "method": "isotonic"}
    fitted = body_of(http.post("/maps", json=fit), 201)
    for predictions in (P[:50], np.tile(P, 20)):
        content: dict[str, Any] = {"content": npz(predictions=predictions), "params": {"map": fitted["id"]}}
        sent = {"Content-Type": NPZ}
        plain = http.post("/calibrate", headers=sent, **content)
        assert plain.headers["content-type"] == JSON
        packed = http.post("/calibrate", headers=sent | {"Accept": f"{NPZ}, {JSON};q=0.5"}, **content)
        streamed = http.post("/calibrate", headers=sent | {"Accept": ARROW}, **content)
        expected = np.array(plain.json()["predictions"])
        with np.load(io.BytesIO(packed.content), allow_pickle=False) as archive:
            np.testing.assert_array_equal(archive["predictions"], expected)
        table = pa.ipc.open_stream(streamed.content).read_all()
        np.testing.assert_array_equal(table["predictions"].to_numpy(), expected)
        assert table.schema.metadata == {b"map": fitted["id"].encode()}
        refused = http.post("/calibrate", headers=sent | {"Accept": "image/png"}, **content)
        assert code_of(refused) == (406, "not-acceptable")
