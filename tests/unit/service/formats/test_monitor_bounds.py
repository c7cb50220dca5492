"""Bodies of rows as text are bounded before anything of them is made."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.core.errors import WrongShape
from service.errors import TooLarge
from service.formats.catalogue import ROWS_READERS
from service.formats.documents import (
    MOST_BYTES,
    MOST_ROWS,
    check_text,
    lines_of,
    of_text,
    read_json_rows,
    read_lines,
)
from service.formats.format import BodyLimits
from tests.body_formats import ARROW, NPZ, class_monitor

LIMITS = BodyLimits(max_unpacked_bytes=10_000, max_rows=4, max_classes=10, max_json_depth=8)
WIDE = replace(LIMITS, max_unpacked_bytes=1 << 22)


def _lines(body: bytes) -> list[bytes]:
    return [line for piece in lines_of(body, LIMITS) for line in piece]


def test_text_has_bounds_of_its_own_where_those_of_the_service_are_wider() -> None:
    wide = of_text(BodyLimits(2**40, 2**40, 10, 8))
    assert (wide.max_rows, wide.max_unpacked_bytes) == (MOST_ROWS, MOST_BYTES)
    assert of_text(LIMITS) == LIMITS


def test_blank_lines_are_no_rows() -> None:
    assert _lines(b"{}\n\n \r\n{}") == [b"{}", b"{}"]
    assert _lines(b"") == []


@pytest.mark.parametrize("body", [b"\n" * 5, b"{}\n" * 5, b"{}\n\n\n\n{}"])
def test_blank_lines_count_against_the_most_rows(body: bytes) -> None:
    with pytest.raises(TooLarge):
        _lines(body)


def test_as_many_lines_as_rows_are_allowed_are_read_with_or_without_the_last_end() -> None:
    assert len(_lines(b"{}\n" * 4)) == len(_lines(b"{}\n{}\n{}\n{}")) == 4


def test_brackets_beyond_the_most_rows_are_refused_before_they_are_parsed() -> None:
    body = b"[" * 2**21  # no JSON, which nobody finds out
    with pytest.raises(TooLarge):
        read_json_rows(body, WIDE, "rows", class_monitor())
    with pytest.raises(TooLarge):
        read_lines(body, WIDE, "rows", class_monitor())


def test_rows_over_several_pieces_of_a_body_are_read_alike() -> None:
    body = b'{"prediction": 0.5, "label": 1, "group": "' + b"g" * 2**20 + b'"}\n{"prediction": 0.25, "label": 0}'
    rows = read_lines(body, WIDE, "rows", class_monitor())
    assert isinstance(rows.predictions, np.ndarray)
    assert rows.predictions.tolist() == [0.5, 0.25]


def test_values_without_number_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(TooLarge):
        check_text(b"1," * 1001, replace(LIMITS, max_json_values=1000))
    check_text(b"1," * 1000, replace(LIMITS, max_json_values=1000))
    with pytest.raises(TooLarge):
        check_text(b" " * 10_001, LIMITS)


def test_ids_of_a_dictionary_count_as_if_each_row_had_its_own() -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int8)), pa.array(["x" * 199]))
    file = io.BytesIO()
    table = pa.table({"id": ids, "prediction": np.full(1000, 0.5), "label": np.zeros(1000, np.int8)})
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    wide = replace(LIMITS, max_rows=1000, max_unpacked_bytes=200_000)
    assert len(ROWS_READERS[ARROW](file.getvalue(), wide, "rows", class_monitor()).ids or ()) == 1000
    with pytest.raises(TooLarge):
        ROWS_READERS[ARROW](file.getvalue(), replace(wide, max_unpacked_bytes=100_000), "rows", class_monitor())


@pytest.mark.parametrize("field", ["predictions", "labels"])
def test_an_array_without_dimensions_has_the_wrong_shape(field: str) -> None:
    body = io.BytesIO()
    arrays: dict[str, Any] = {"predictions": np.array([0.5]), "labels": np.array([1])} | {field: np.array(1.0)}
    np.savez(body, **arrays)
    with pytest.raises(WrongShape):
        ROWS_READERS[NPZ](body.getvalue(), LIMITS, "rows", class_monitor())
