"""Files in an object store: a real S3 server on loopback, with the failures of real ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import calibrant
from calibrant.core.errors import EmptyBatch, SourceUnreadable, TargetExists
from calibrant.distributed.arrow import Columns
from calibrant.distributed.scan import Scan
from calibrant.distributed.sources import gather
from calibrant.distributed.storage import Storage, storage_of
from calibrant.distributed.target import MANIFEST, Scoring
from tests.integration.object_store import Fault, Proxy, object_store, proxied, put
from tests.packed import parquet

FILES, ROWS = 5, 400
COLUMNS = Columns.read(prediction="p", label="y")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with object_store() as url:
        for i in range(FILES):
            put(url, f"scores/day={i}/part.parquet", _file(i))
        put(url, "scores-of-others/part.parquet", _file(99))
        yield url


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    with proxied(server, page=2) as proxy:
        yield proxy


def _rows(i: int) -> tuple[Any, Any]:
    random = np.random.default_rng(i)
    p = random.random(ROWS)
    return p, (random.random(ROWS) < p).astype(np.int64)


def _file(i: int) -> bytes:
    p, y = _rows(i)
    return parquet({"p": p, "y": y})


def _storage(url: str) -> Storage:
    return storage_of("s3://bucket/scores", endpoint=url, region="us-east-1")


def _gathered(url: str, pattern: str = "**/*.parquet") -> Any:
    gathered: Any = gather(Scan.of(_storage(url), pattern), COLUMNS).value
    return gathered.arrays["predictions"]


def test_a_list_of_several_pages_lacks_files_or_has_those_of_another_prefix(proxy: Proxy) -> None:
    gathered = _gathered(proxy.url)
    assert_allclose(np.sort(gathered), np.sort(np.concatenate([_rows(i)[0] for i in range(FILES)])), rtol=0)
    assert sum("list-type=2" in request for request in proxy.requests) > 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["throttle", "truncate", "slow"])
def test_a_failure_of_the_store_changes_the_rows(proxy: Proxy, fault: Fault) -> None:
    expected = _gathered(proxy.url)
    proxy.faults.extend([fault] * 3)
    assert np.array_equal(_gathered(proxy.url), expected)
    assert not proxy.faults


def test_a_bucket_or_file_that_is_absent_has_rows(server: str) -> None:
    with pytest.raises(EmptyBatch):
        _gathered(server, "day=77/*.parquet")
    with pytest.raises((EmptyBatch, SourceUnreadable)):
        gather(Scan.of(storage_of("s3://absent/x", endpoint=server, region="us-east-1"), "*.parquet"), COLUMNS)


@pytest.mark.slow
def test_a_data_set_in_a_bucket_is_partial_or_written_twice(proxy: Proxy) -> None:
    p, y = _rows(0)
    fitted = calibrant.fit("platt", p, y)
    storage = _storage(proxy.url)
    scan = Scan.of(storage, "**/*.parquet")
    scored = Scoring(storage, "scored", "job_1").run(scan, COLUMNS, fitted)
    assert (scored.rows, scored.files) == (FILES * ROWS, FILES)
    written = [request for request in proxy.requests if request.startswith("PUT") and "/scored/" in request]
    assert MANIFEST in written[-1]
    assert Scoring(storage, "scored", "job_1").run(scan, COLUMNS, fitted) == scored
    with pytest.raises(TargetExists):
        Scoring(storage, "scored", "job_2").run(scan, COLUMNS, fitted)
    report = calibrant.evaluate_source(
        f"s3://bucket/scores/scored/*.parquet?endpoint_override={proxy.url.removeprefix('http://')}&scheme=http",
        prediction="calibrated",
        label="y",
        measures=["brier"],
    )
    assert report.n == FILES * ROWS


def test_the_redirect_of_an_endpoint_is_followed(proxy: Proxy) -> None:
    class Redirects(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: Any) -> None:
            """Keep the output of the tests clean."""

        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{proxy.url}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - names of the handler

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(SourceUnreadable, match="redirects"):
            _gathered(f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert proxy.requests == []
