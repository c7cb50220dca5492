"""Bodies that unpack to much memory, several at once in every format: the process stays within its budget."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from benchmarks.chaos.bombs import Bomb, bombs
from benchmarks.http.load import peak_bytes, reset_peak
from service.settings import MIB
from service.stack import Stack
from tests.integration.conftest import own_service
from tests.integration.redis_server import until
from tests.integration.responses import code_of
from tests.integration.visiting import ROWS, Visitor
from tests.packed import npz

pytestmark = pytest.mark.slow

BUDGET = 128 * MIB
#: What a process keeps besides the budget: pieces that readers work on, such as the beginning of a file as cells and
#: blocks that pyarrow reads ahead (27 MiB for each of four readers), and fragments of freed memory. Without the budget,
#: the same bodies take more than 1 GiB.
BESIDES = 256 * MIB
SMALL = {bomb.name: bomb for bomb in bombs(1000, 1000)}


@pytest.fixture(scope="module")
def large() -> dict[str, Bomb]:
    """The same bodies, which unpack to more than the budget; making them takes seconds, which a collection must not."""
    return {bomb.name: bomb for bomb in bombs(6_000_000, 1_000_000)}


@pytest.fixture(scope="module")
def bounded(folder: Path) -> Iterator[Stack]:
    """A service with a small budget, a map and a monitor, and with every reader imported."""
    with (
        own_service(folder / "bounded", {"CALIBRANT_MAX_REQUEST_MEMORY": str(BUDGET)}) as running,
        httpx.Client(base_url=running.url, timeout=600) as http,
    ):
        assert http.post("/maps", json=ROWS | {"method": "platt", "name": "m"}).status_code == 201
        assert http.post("/monitors", json={"name": "m"}).status_code == 201
        for bomb in SMALL.values():
            assert _status(running.url, bomb) < 500
        yield running


def _status(url: str, bomb: Bomb) -> int:
    headers = {"Content-Type": bomb.kind, **dict(bomb.headers)}
    headers |= {"Content-Encoding": bomb.encoding} if bomb.encoding else {}
    return httpx.post(url + bomb.path, content=bomb.body, headers=headers, timeout=600).status_code


@pytest.mark.parametrize("name", SMALL)
def test_four_bombs_at_once_stay_within_the_budget(bounded: Stack, large: dict[str, Bomb], name: str) -> None:
    reset_peak(bounded.api.pid)
    before = peak_bytes(bounded.api.pid)
    with ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(lambda _: _status(bounded.url, large[name]), range(4)))
    assert set(statuses) <= {200, 201, 202, 413, 422, 503}
    assert peak_bytes(bounded.api.pid) - before < BUDGET + BESIDES
    assert httpx.post(f"{bounded.url}/evaluate", json=ROWS, timeout=600).status_code == 200


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.npz"])
def test_files_of_forms_stay_within_the_budget(bounded: Stack, name: str) -> None:
    if name == "rows.npz":
        content = npz(np.savez_compressed, p=np.full(20_000_000, 0.5), y=np.zeros(20_000_000, np.int8))
    else:
        # Cells of equal columns are looked through until they are 10 million: here in fewer rows than of two columns.
        content = gzip.compress(b"p,y,a,b,c,d,e,f\n" + b"0.5,1,2,2,2,2,2,2\n" * 4_500_000)
    reset_peak(bounded.api.pid)
    before = peak_bytes(bounded.api.pid)

    def send(_: int) -> httpx.Response:
        with Visitor(bounded.url) as visitor:
            return visitor.upload(content, name)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(send, range(4)))
    assert {answer.status_code for answer in answers} <= {413, 503}
    assert peak_bytes(bounded.api.pid) - before < BUDGET + BESIDES


def test_a_request_too_large_for_ever_gets_413_and_another_says_when_to_try_again(
    bounded: Stack, large: dict[str, Bomb]
) -> None:
    bomb = large["Arrow, dictionaries, /evaluate"]
    until(lambda: _status(bounded.url, bomb) != 503, 120)  # the requests of other tests may still be read
    headers = {"Content-Type": bomb.kind}
    answer = httpx.post(bounded.url + bomb.path, content=bomb.body, headers=headers, timeout=600)
    assert code_of(answer) == (413, "too-large")
    assert f"{BUDGET} bytes of memory" in answer.json()["detail"]
    for refused in _at_once(bounded.url, large["Arrow, columns, /batches"]):
        if refused.status_code == 503:
            assert refused.json()["type"] == "/problems/busy"
            assert int(refused.headers["retry-after"]) >= 1


def _at_once(url: str, bomb: Bomb) -> list[httpx.Response]:
    with ThreadPoolExecutor(8) as threads:
        return list(
            threads.map(
                lambda _: httpx.post(
                    url + bomb.path, content=bomb.body, headers={"Content-Type": bomb.kind}, timeout=600
                ),
                range(8),
            )
        )
