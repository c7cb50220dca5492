"""HTTP clients that people have, each in the ways in which it sends bodies and reads answers."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import numpy as np
import pytest
import requests
import zstandard
from prometheus_client.parser import text_string_to_metric_families

from calibrant.client import Calibrant
from service.stack import Stack
from tests.integration.responses import body_of
from tests.rows import draw_event

P, Y = draw_event(60_000, 20)
JSON = {"Content-Type": "application/json"}
#: Over 1 MiB: curl then waits for ``100 Continue``, and the service counts the request as heavy.
BODY = json.dumps({"measures": ["ece"], "predictions": P.tolist(), "labels": Y.tolist()}).encode()
SMALL = {"map": "http-clients", "predictions": P[:3].tolist()}
#: Its answer is over 64 KiB, and sent in pieces.
LARGE = json.dumps({"map": "http-clients", "predictions": P[:20_000].tolist()}).encode()

Answer = tuple[int, Any]


@pytest.fixture(scope="module")
def service_with_map(service: Stack) -> Stack:
    with Calibrant(service.url) as client:
        client.fit("platt", predictions=P[:1000], labels=Y[:1000], name="http-clients")
    return service


@pytest.fixture
def url(service_with_map: Stack) -> str:
    return service_with_map.url


@pytest.fixture(scope="module")
def evaluated(service_with_map: Stack) -> Any:
    """The answer to ``BODY``."""
    answer = body_of(httpx.post(f"{service_with_map.url}/evaluate", content=BODY, headers=JSON, timeout=600))
    assert len(BODY) > 1024 * 1024
    return answer


@pytest.fixture(scope="module")
def calibrated(service_with_map: Stack) -> Any:
    """The answer to ``LARGE``."""
    return httpx.post(f"{service_with_map.url}/calibrate", content=LARGE, headers=JSON, timeout=600).json()


def pieces(body: bytes, size: int = 64 * 1024) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


# --- httpx


@pytest.mark.slow
@pytest.mark.parametrize("size", [1000, 64 * 1024])
@pytest.mark.parametrize("encoding", [None, "gzip", "zstd"])
def test_httpx_sends_a_body_from_a_generator(url: str, evaluated: Any, size: int, encoding: str | None) -> None:
    pack: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress}
    body, headers = (BODY, JSON) if encoding is None else (pack[encoding](BODY), {**JSON, "Content-Encoding": encoding})
    with httpx.Client(http2=False, timeout=600) as client:
        answer = client.post(f"{url}/evaluate", content=pieces(body, size), headers=headers)
    assert answer.request.headers["transfer-encoding"] == "chunked"
    assert (answer.status_code, answer.json()) == (200, evaluated)


# --- requests


def test_requests_sends_json_generators_and_files_in_one_session(url: str, evaluated: Any) -> None:
    with requests.Session() as session:
        assert len(session.post(f"{url}/calibrate", json=SMALL, timeout=600).json()["predictions"]) == 3
        for body in (pieces(BODY), io.BytesIO(BODY), BODY):
            answer = session.post(f"{url}/evaluate", data=body, headers=JSON, timeout=600)
            assert (answer.status_code, answer.json()) == (200, evaluated)
        assert session.get(f"{url}/measures", timeout=600).status_code == 200
        assert session.head(f"{url}/measures", timeout=600).status_code == 200


def test_requests_reads_a_large_answer_piece_by_piece(url: str, calibrated: Any) -> None:
    with requests.post(f"{url}/calibrate", data=LARGE, headers=JSON, stream=True, timeout=600) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        assert json.loads(b"".join(answer.iter_content(1000))) == calibrated


def test_requests_uploads_a_file_to_the_page(url: str) -> None:
    rows = b"p,y\n" + b"".join(b"%f,%d\n" % row for row in zip(P[:200], Y[:200], strict=True))
    with requests.Session() as session:
        session.headers["Origin"] = url
        token = re.search(r'name="csrf-token" content="([^"]+)"', session.get(f"{url}/ui/upload", timeout=600).text)
        assert token is not None
        fields, files = {"csrf_token": token[1]}, {"file": ("rows.csv", rows, "text/csv")}
        answer = session.post(f"{url}/ui/upload", data=fields, files=files, timeout=600)
    assert (answer.status_code, answer.history[0].status_code) == (200, 303)
    assert "/ui/reports/" in answer.url


# --- urllib, of the standard library


def by_urllib(url: str, body: Any, headers: dict[str, str]) -> Answer:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=600) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


@pytest.mark.parametrize("body", [lambda: BODY, lambda: pieces(BODY), lambda: io.BytesIO(BODY)])
def test_urllib_sends_bytes_iterables_and_files(url: str, evaluated: Any, body: Callable[[], Any]) -> None:
    assert by_urllib(f"{url}/evaluate", body(), JSON) == (200, evaluated)


def test_urllib_without_a_content_type_sends_that_of_a_form_and_is_refused(url: str) -> None:
    status, problem = by_urllib(f"{url}/calibrate", json.dumps(SMALL).encode(), {})
    assert (status, problem["type"]) == (415, "/problems/unsupported-media-type")
    assert "application/json" in problem["detail"]
    status, problem = by_urllib(f"{url}/v2/models/http-clients/infer", b"{}", {})
    assert (status, list(problem)) == (415, ["error"])


# --- aiohttp


async def generated() -> AsyncIterator[bytes]:
    for piece in pieces(BODY):
        yield piece


@pytest.mark.parametrize(
    "options",
    [
        {"data": generated},
        {"data": lambda: io.BytesIO(BODY)},
        {"data": lambda: io.BytesIO(BODY), "compress": "gzip"},
        {"data": lambda: io.BytesIO(BODY), "compress": "deflate"},
        {"data": lambda: io.BytesIO(BODY), "expect100": True},
    ],
    ids=["generator", "file", "gzip", "deflate", "expect"],
)
def test_aiohttp_sends_generators_files_and_packed_bodies(url: str, evaluated: Any, options: dict[str, Any]) -> None:
    async def answers() -> Answer:
        async with aiohttp.ClientSession(headers=JSON) as session:
            sent = {**options, "data": options["data"]()}
            async with session.post(f"{url}/evaluate", **sent) as answer:
                return answer.status, await answer.json()

    assert asyncio.run(answers()) == (200, evaluated)


# --- Prometheus


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain;version=0.0.4",
        "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3",
        "application/vnd.google.protobuf;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3",
    ],
    ids=["text", "openmetrics", "protobuf"],
)
def test_a_scrape_is_in_the_format_that_it_says_it_is(url: str, accept: str) -> None:
    answer = requests.get(f"{url}/metrics", headers={"Accept": accept}, timeout=600)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["calibrant_http_requests"].type == "counter"
    durations = families["calibrant_http_request_duration_seconds"]
    assert {sample.name.rpartition("_")[2] for sample in durations.samples} == {"bucket", "count", "sum"}


# --- curl


@pytest.fixture
def curl(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], list[str], bytes]]:
    """Runs curl: what it counted, the heads of the answers and the last answer's body."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    (tmp_path / "body.json").write_bytes(BODY)
    (tmp_path / "large.json").write_bytes(LARGE)
    (tmp_path / "small.json").write_text(json.dumps(SMALL))

    def run(*arguments: str, stdin: bytes | None = None) -> tuple[dict[str, Any], list[str], bytes]:
        command = ["curl", "-sS", "--max-time", "60", "-D", "heads", "-o", "out", "-w", "%{json}\n", *arguments]
        done = subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        heads = (tmp_path / "heads").read_text().strip().lower().split("\n\n")
        return json.loads(done.stdout.splitlines()[-1]), heads, (tmp_path / "out").read_bytes()

    return run


Curl = Callable[..., tuple[dict[str, Any], list[str], bytes]]
CURL_JSON = ("-H", "Content-Type: application/json")


@pytest.mark.parametrize(
    "arguments",
    [["--compressed"], *(["-H", f"Accept-Encoding: {name}"] for name in ("gzip", "br", "zstd", "*", "gzip;q=0"))],
    ids=" ".join,
)
def test_curl_reads_answers_whatever_encoding_it_accepts(url: str, curl: Curl, arguments: list[str]) -> None:
    counted, _, body = curl(*arguments, *CURL_JSON, "--data-binary", "@small.json", f"{url}/calibrate")
    assert (counted["http_code"], len(json.loads(body)["predictions"])) == (200, 3)


def test_curl_uploads_standard_input_in_chunks(url: str, curl: Curl, evaluated: Any) -> None:
    counted, _, body = curl("-X", "POST", "-T", "-", *CURL_JSON, f"{url}/evaluate", stdin=BODY)
    assert (counted["http_code"], json.loads(body)) == (200, evaluated)


def test_curl_gets_100_continue_before_it_sends_a_large_body(url: str, curl: Curl, evaluated: Any) -> None:
    expect = ["-H", "Expect: 100-continue", "--expect100-timeout", "50", "--data-binary", "@body.json"]
    counted, heads, body = curl(*expect, *CURL_JSON, f"{url}/evaluate")
    assert [head.split()[1] for head in heads] == ["100", "200"]
    assert (counted["http_code"], json.loads(body)) == (200, evaluated)
    assert counted["time_total"] < 50


def test_curl_does_not_send_a_body_that_is_refused_by_its_head(url: str, curl: Curl) -> None:
    expect = ["-H", "Expect: 100-continue", "--expect100-timeout", "50", "--data-binary", "@body.json"]
    for arguments, status in ((["-H", "Content-Type: text/plain", f"{url}/evaluate"], 415), ([f"{url}/nothing"], 404)):
        counted, heads, body = curl(*expect, *arguments)
        assert [head.split()[1] for head in heads] == [str(status)]
        assert (counted["size_upload"], json.loads(body)["status"]) == (0, status)


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize("accept", ["application/json", "application/x-npz"])
def test_a_large_answer_to_http_1_0_is_whole_and_not_in_chunks(
    url: str, curl: Curl, calibrated: Any, connection: str, accept: str
) -> None:
    old = ["--http1.0", "--raw", "-H", f"Connection: {connection}", "-H", f"Accept: {accept}"]
    counted, (head,), body = curl(*old, *CURL_JSON, "--data-binary", "@large.json", f"{url}/calibrate")
    assert counted["http_code"] == 200
    assert "transfer-encoding" not in head
    assert f"content-length: {len(body)}" in head
    if accept == "application/json":
        assert json.loads(body) == calibrated
    else:
        with np.load(io.BytesIO(body)) as arrays:
            np.testing.assert_array_equal(arrays["predictions"], calibrated["predictions"])


@pytest.mark.parametrize("name", ["small", "body"])
def test_an_offer_of_http_2_is_passed_over_and_the_body_is_read(
    url: str, curl: Curl, evaluated: Any, name: str
) -> None:
    path = "calibrate" if name == "small" else "evaluate"
    counted, _, body = curl("--http2", "-H", "Expect:", *CURL_JSON, "--data-binary", f"@{name}.json", f"{url}/{path}")
    assert (counted["http_code"], counted["http_version"]) == (200, "1.1")
    answer = json.loads(body)
    assert len(answer["predictions"]) == 3 if name == "small" else answer == evaluated


def test_curl_keeps_a_connection_of_http_1_1_and_not_one_of_1_0(url: str, curl: Curl) -> None:
    for version, connects in (("--http1.1", 0), ("--http1.0", 1)):
        counted, heads, _ = curl(version, "-o", "first", f"{url}/measures", f"{url}/methods")
        assert counted["num_connects"] == connects
        assert [head.split()[1] for head in heads] == ["200", "200"]
