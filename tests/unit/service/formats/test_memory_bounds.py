"""What a reader allocates is reserved before; docs/reference/memory.md is the table of the bounds."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from benchmarks.chaos.bombs import ARROW, JSON, PARQUET, Bomb, bombs
from calibrant.core.errors import InvalidOption
from calibrant.io.csv import TextRows
from calibrant.io.declared_sizes import check_file
from calibrant.io.files import read_sheet
from service.errors import TooLarge
from service.formats.body import Sent, read_body, unpack
from service.formats.catalogue import READERS, ROWS_READERS
from service.formats.format import BodyLimits
from service.inference.infer import read_request, read_tensor, split
from tests.body_formats import WRITE_ARRAYS, WRITE_ROWS, class_monitor
from tests.unit.io.memory import peak_of

ROWS, VALUES = 2_000_000, 400_000
#: Bytes that a reader may allocate besides: pieces of text and of compressed data.
PIECES = 14 << 20


def _of_every_format(n: int) -> Iterator[Bomb]:
    """A body of many equal rows in every format that has none among the bombs."""
    known = {(bomb.kind, bomb.path.startswith("/monitors")) for bomb in bombs(10, 10)}
    arrays = {"predictions": np.full(n, 0.5), "labels": np.ones(n, np.int8)}
    rows = [{"id": "a", "prediction": 0.5, "label": 1, "group": "ab"}] * n
    for kind, write in WRITE_ARRAYS.items():
        if (kind, False) not in known:
            yield Bomb(f"{kind}, equal rows", "/evaluate", kind, zstandard.compress(write(arrays)), "zstd")
    for kind, write_rows in WRITE_ROWS.items():
        if (kind, True) not in known:
            path = "/monitors/m/rows"
            yield Bomb(f"monitor, {kind}, equal rows", path, kind, zstandard.compress(write_rows(rows)), "zstd")


SMALL = {bomb.name: bomb for bomb in (*bombs(10, 10), *_of_every_format(10))}


@pytest.fixture(scope="module")
def large() -> dict[str, Bomb]:
    """The bodies; making them takes seconds, which a collection must not."""
    return {bomb.name: bomb for bomb in (*bombs(ROWS, VALUES), *_of_every_format(VALUES // 4))}


def test_every_format_has_a_body() -> None:
    assert set(WRITE_ARRAYS) == set(READERS)
    assert set(WRITE_ROWS) == set(ROWS_READERS)


class Budget:
    """Counts what is reserved; refuses more than ``most``."""

    def __init__(self, most: int = 1 << 40) -> None:
        self.most, self.reserved = most, 0

    def __call__(self, size: int) -> None:
        if self.reserved + size > self.most:
            raise TooLarge("too much memory")
        self.reserved += size


def _reading(bomb: Bomb, budget: Budget) -> Callable[[], Any]:
    limits = BodyLimits(1 << 30, 50_000_000, 10_000, 32, budget=budget)
    encoding = bomb.encoding or None
    if bomb.path.startswith("/monitors"):
        return lambda: Sent(bomb.kind, bomb.body, encoding, limits).rows("rows", class_monitor())
    if bomb.path.startswith("/v2"):

        def infer() -> Any:
            plain = unpack(bomb.body, bomb.encoding, limits)
            text, raw = split(plain, [text for _, text in bomb.headers])
            request, elements = read_request(text, limits)
            return read_tensor(request.inputs[0], raw, "/inputs/0", elements, limits.reserve)

        return infer
    return partial(read_body, bomb.body, bomb.kind, encoding, {}, limits)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_reader_reserves_what_it_allocates(large: dict[str, Bomb], name: str) -> None:
    budget = Budget()
    read = _reading(large[name], budget)
    if "nulls" in name:
        with pytest.raises(Exception, match="null"):
            read()
        return
    _reading(SMALL[name], Budget())()  # imports what is needed
    assert peak_of(read) <= budget.reserved + PIECES


def _long_name(kind: str) -> bytes:
    """A body with a name of many ASCII characters and one that makes Python use four bytes for each."""
    rows = {"predictions": [0.5], "labels": [1], "groups": ["x" * (16 << 20) + "\N{GRINNING FACE}"]}
    file = io.BytesIO()
    if kind == PARQUET:
        pq.write_table(pa.table(rows), file, compression="zstd")
    else:
        with pa.ipc.new_stream(file, pa.table(rows).schema) as stream:
            stream.write_table(pa.table(rows))
    return file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ARROW, PARQUET])
def test_a_long_name_is_refused_before_it_becomes_a_string_of_python(kind: str) -> None:
    body, budget = _long_name(kind), Budget()

    def refused() -> None:
        with pytest.raises(InvalidOption, match="256 characters"):
            read_body(body, kind, None, {}, BodyLimits(1 << 30, 50_000_000, 10_000, 32, budget=budget))

    refused()
    budget.reserved = 0
    assert peak_of(refused) <= budget.reserved + PIECES


@pytest.mark.parametrize("last", ["\N{GRINNING FACE}".encode(), rb"\ud83d\ude00"])
def test_a_long_string_that_is_not_ascii_reserves_four_bytes_per_character(last: bytes) -> None:
    budget = Budget()
    body = b'{"predictions": [0.5], "options": {"name": "' + b"x" * (1 << 20) + last + b'"}}'
    read_body(body, JSON, None, {}, BodyLimits(1 << 30, 50_000_000, 10_000, 32, budget=budget))
    assert budget.reserved >= 4 << 20


def test_the_footer_of_a_parquet_file_reserves_what_it_becomes() -> None:
    file, budget = io.BytesIO(), Budget()
    columns = {f"predictions.{k}": [0.5] for k in range(2000)} | {"labels": [1]}
    pq.write_table(pa.table(columns), file)
    limits = BodyLimits(1 << 30, 50_000_000, 10_000, 32, budget=budget)
    assert peak_of(lambda: check_file(memoryview(file.getvalue()), limits)) <= budget.reserved


@pytest.mark.slow
def test_a_file_of_long_vectors_reserves_what_its_reader_allocates() -> None:
    vector = ",".join(["0.125"] * 8 + ["0"] * 992)
    rows = [f'{row % 1000},"[{vector}]"' for row in range(1001)]
    table = "\n".join(["label,probs", *rows]).encode()
    budget = Budget()

    def read() -> None:
        read_sheet(io.BytesIO(table), name="vectors", max_rows=None, budget=budget)

    read()
    budget.reserved = 0
    assert peak_of(read) <= budget.reserved + 2 * PIECES


def test_a_block_of_long_rows_is_short() -> None:
    text = "predictions,groups\n" + f"0.5,{'x' * (1 << 16)}\n" * 100
    rows = TextRows(io.BytesIO(text.encode()), "utf-8")
    rows.header()
    blocks = [len(block.rows) for block in rows.blocks(1 << 16)]
    assert sum(blocks) == 100
    assert max(blocks) < 50


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_reader_without_memory_stops_before_it_allocates(large: dict[str, Bomb], name: str) -> None:
    read = _reading(large[name], Budget(1 << 20))

    def refused() -> None:
        with pytest.raises(TooLarge):
            read()

    refused()
    assert peak_of(refused) <= (1 << 20) + PIECES
