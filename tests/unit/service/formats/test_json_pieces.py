"""Large JSON bodies are read in pieces: what comes out, and what is refused, is the same as in one."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson
import pytest

from calibrant.core.errors import CalibrationError
from calibrant.io.strict import CLASSIFICATION
from service.errors import InvalidField, MalformedJson, TooLarge
from service.formats.format import BodyLimits
from service.formats.json_body import (
    LONGEST,
    MOST_MEMBERS,
    MOST_OPTIONS,
    PIECE,
    LongArray,
    check_values,
    plain,
    read_document,
    read_json,
)
from tests.unit.io.refused import refused

LIMITS = BodyLimits(max_unpacked_bytes=1 << 30, max_rows=10_000_000, max_classes=1000, max_json_depth=12)
STRINGS = ["", "a", "é😀", 'quote " and', "back\\slash\\", "[{,:}]", "\\", '\\"', "\n", "x" * 50]


def _value(draw: random.Random, depth: int) -> Any:
    kind = draw.randrange(9 if depth < 4 else 5)
    if kind < 2:
        return draw.choice([0, -6, 1.5, 1e300, 2**63, 0.1])
    if kind < 4:
        return draw.choice(STRINGS)
    if kind == 4:
        return draw.choice([True, False, None])
    size = draw.choice([0, 1, 3, 9])
    if kind < 7:
        return [_value(draw, depth + 1) for _ in range(size)]
    return {f"{draw.choice(STRINGS)}{i}": _value(draw, depth + 1) for i in range(size)}


def _large(seed: int) -> bytes:
    """JSON of several pieces, with long arrays at different depths."""
    draw = random.Random(seed)
    numbers = [draw.random() for _ in range(draw.choice([3, 30_000]))]
    texts = [draw.choice(STRINGS) for _ in range(draw.choice([3, 60_000]))]
    document = {
        "options": [_value(draw, 0) for _ in range(200)],
        "a": {"numbers": numbers, "inner": [1, {"texts": texts}, [[]], {}]},
        "padding": ["x" * (PIECE // 3)] * 4,
        "last": draw.choice(STRINGS),
    }
    return orjson.dumps(document, option=draw.choice([0, orjson.OPT_INDENT_2]))


@pytest.mark.parametrize("seed", range(6))
def test_a_document_in_pieces_is_the_document(seed: int) -> None:
    text = _large(seed)
    assert len(text) > PIECE
    assert plain(read_document(text, LIMITS)) == orjson.loads(text)
    assert plain(read_document(memoryview(text), LIMITS)) == orjson.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_document_is_refused_in_pieces_if_it_is_refused_whole(seed: int) -> None:
    text = _large(seed)
    draw = random.Random(seed)
    for _ in range(12):
        place = draw.randrange(len(text)) if draw.random() < 0.5 else text.rfind(draw.choice(b',:[]{}"').to_bytes())
        inserted = draw.choice([b"", b",", b'"', b"[", b"]", b"}", b"1", b"\\", b"\xff", b" "])
        damaged = text[:place] + inserted + text[place + draw.randrange(2) :]
        try:
            expected = orjson.loads(damaged)
        except orjson.JSONDecodeError:
            with pytest.raises((MalformedJson, InvalidField)):
                plain(read_document(damaged, LIMITS))
        else:
            with suppress(InvalidField):  # of a key that was made to stand twice
                assert plain(read_document(damaged, LIMITS)) == expected


@pytest.mark.parametrize("gap", [b"", b" ", b"1,,2", b"1 2", b"1],[2", b"],["])
def test_commas_without_values_are_refused_at_every_border_of_pieces(gap: bytes) -> None:
    for before in range(PIECE - 4, PIECE + 4):
        text = b'{"a": [' + b"1" * 5 + b"," + b" " * before + gap + b"," + b"3," * PIECE + b"4]}"
        with pytest.raises(MalformedJson):
            plain(read_document(text, LIMITS))


def _assert_read_as_in_one_piece(text: bytes, field: str, place: int) -> None:
    assert len(text) > PIECE
    try:
        numbers = orjson.loads(text)[field]
    except orjson.JSONDecodeError:
        assert refused(partial(read_json, text, LIMITS))[0] == "malformed-json"
        return
    if set(map(type, numbers)) <= {int, float}:
        assert read_json(text, LIMITS).arrays[field].tolist() == numbers
    else:
        assert refused(partial(read_json, text, LIMITS)) == ("not-a-number", f"/{field}/{place}")


@pytest.mark.parametrize(
    "number",
    [b"1e5", b"-0.0", b" 7\n", b"", b" ", b"e", b"1e", b"E5", b"-", b"true", b"null", b'"1"', b"[1]", b"1 2", b"1,"],
)
def test_numbers_at_every_border_of_pieces_are_read_and_refused_as_in_one_piece(number: bytes) -> None:
    numbers = [b"0.25", b"3e-05"] * 25_000
    meets = PIECE // 11 * 2
    for place in (0, *range(meets - 6, meets + 3), len(numbers) - 1):
        text = b'{"predictions": [' + b",".join((*numbers[:place], number, *numbers[place + 1 :])) + b"]}"
        _assert_read_as_in_one_piece(text, "predictions", place)


@pytest.mark.slow
@pytest.mark.parametrize("between", [b",", b", ", b" ,\n\t"])
@pytest.mark.parametrize(
    "label",
    [b"1", b"10", b"01", b"-1", b"1.0", b"1e0", b"1 0", b"- 1", b"", b" ", b",", b"true", b"null", b"[1]", b"a"],
)
def test_labels_of_one_digit_are_read_and_refused_as_in_one_piece(label: bytes, between: bytes) -> None:
    labels = [b"0", b"1", b"9"] * 45_000
    for place in (0, 70_000, len(labels) - 1):
        text = b'{"labels": [' + between.join((*labels[:place], label, *labels[place + 1 :])) + b"]}"
        _assert_read_as_in_one_piece(text, "labels", place)


def test_an_array_of_space_is_empty() -> None:
    assert plain(read_document(b'{"a": [' + b" " * 3 * PIECE + b"]}", LIMITS)) == {"a": []}


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1, "b": [' + b"1," * PIECE + b'1], "a": 2}',
        b'{"b": [' + b"1," * PIECE + b'{"a": 1, "a": 2}]}',
        b'{"b": [' + b"1," * PIECE + b'1], "b": [' + b"1," * PIECE + b"1]}",
        b'{"b": [' + b"1," * PIECE + b'1], "c": [{"\\u0061": 1, "a": 2}]}',
    ],
)
def test_a_duplicate_key_is_refused_in_pieces_too(text: bytes) -> None:
    with pytest.raises(InvalidField):
        plain(read_document(text, LIMITS))


def test_nesting_is_bounded_across_pieces() -> None:
    def nested(depth: int) -> bytes:
        return b"[" * depth + b"1," * PIECE + b"[]" + b"]" * depth

    assert plain(read_document(nested(11), LIMITS))
    for text in (nested(12), nested(13), b"[" * PIECE * 2 + b"]" * PIECE * 2):
        with pytest.raises(TooLarge):
            plain(read_document(text, LIMITS))


def test_values_are_counted_outside_strings() -> None:
    few = replace(LIMITS, max_json_values=1000)
    check_values(b"[" + b"1," * 1000 + b"1]", few)
    check_values(b'{"a": "' + b",:" * 1000 + b'\\",", "b": [' + b"1," * 990 + b"1]}", few)
    for text in (b"[" + b"1," * 1001 + b"1]", b'{"a":"' + b",:" * PIECE + b'\\"","b":[' + b"1," * 1000 + b"1]}"):
        with pytest.raises(TooLarge) as caught:
            check_values(text, few)
        assert "binary formats NPZ, Arrow and Parquet" in caught.value.detail


@pytest.mark.slow
def test_what_is_no_row_has_a_bound_of_its_own() -> None:
    numbers = b"[" + b"1," * (MOST_OPTIONS // 2) + b"1]"
    plain(read_document(b'{"document": ' + numbers + b"}", LIMITS))
    for text in (
        b'{"a": ' + numbers + b', "b": ' + numbers + b', "c": 1}',
        b'{"a": [' + b"[[[[]]]]," * (MOST_OPTIONS // 4) + b"1]}",
        b'{"a": "' + b"x" * LONGEST + b'"}',
        b'{"a": 1' + b"0" * LONGEST + b"}",
    ):
        with pytest.raises(TooLarge):
            plain(read_document(text, LIMITS))


@pytest.mark.slow
def test_a_large_object_has_a_bounded_number_of_members() -> None:
    def members(count: int) -> bytes:
        return b'{"a": {' + b",".join(b'"%d": 0' % i for i in range(count)) + b"}}"

    plain(read_document(members(MOST_MEMBERS), LIMITS))
    with pytest.raises(TooLarge, match="members"):
        plain(read_document(members(MOST_MEMBERS + 1), LIMITS))


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("predictions", np.random.default_rng(1).random(100_000).tolist()),
        ("predictions", np.random.default_rng(2).random((30_000, 3)).tolist()),
        ("predictions", np.random.default_rng(2).random((300, 999)).tolist()),
        ("labels", [0, 1] * 100_000),
        ("labels", [0, 1] * 100_000 + [1.0, 300]),
        ("weights", [1, 2.5] * 100_000),
    ],
)
def test_long_arrays_of_rows_become_arrays(field: str, column: list[Any]) -> None:
    body = read_json(orjson.dumps({field: column, "seed": 3}), LIMITS)
    np.testing.assert_array_equal(body.arrays[field], np.array(column))
    assert body.options == {"seed": 3}


def test_long_arrays_of_names_become_text() -> None:
    names = ["a", "né"] * 50_000 + ["a longer name"] + ["b"] * 50_000
    assert read_json(orjson.dumps({"groups": names}), LIMITS).arrays["groups"].tolist() == names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "piece", "bad", "expected"),
    [
        ("predictions", "0.1,", "true", ("not-a-number", "/predictions/200000")),
        ("predictions", "0.1,", "[0.1]", ("not-a-number", "/predictions/200000")),
        ("predictions", "[0.1,0.9],", "[0.1]", ("wrong-shape", "/predictions/200000")),
        ("predictions", "[0.1,0.9],", "0.1,[0.1,0.9]", ("not-a-number", "/predictions/200000")),
        ("predictions", "[0.1,0.9],", "null,[0.1,0.9]", ("not-a-number", "/predictions/200000")),
        ("predictions", "[0.1,0.9],", '[0.1,"a"]', ("not-a-number", "/predictions/200000/1")),
        ("labels", "1,", "null", ("not-a-number", "/labels/200000")),
        ("groups", '"a",', "1", ("not-a-number", "/groups/200000")),
        ("weights", "1,", "1e999", ("malformed-json", "")),
    ],
)
def test_the_first_bad_row_is_named_in_any_piece(field: str, piece: str, bad: str, expected: tuple[str, str]) -> None:
    text = f'{{"{field}":[{piece * 200_000}{bad}]}}'.encode()
    assert refused(lambda: read_json(text, LIMITS)) == expected


def test_long_arrays_have_the_limit_of_rows_and_other_fields_are_short() -> None:
    text = b'{"labels":[' + b"1," * 200_000 + b"1]}"
    assert refused(lambda: read_json(text, replace(LIMITS, max_rows=1000)))[0] == "too-large"
    assert refused(lambda: read_json(b"[" + b"1," * 200_000 + b"1]", LIMITS)) == ("invalid-field", "")


def test_the_place_of_a_fault_counts_from_the_beginning_of_the_body() -> None:
    text = b'{"labels":[' + b"1," * 200_000 + b"x]}"
    with pytest.raises(MalformedJson) as caught:
        read_json(text, LIMITS)
    assert str(text.index(b"x")) in caught.value.detail


def test_a_long_array_can_be_read_again() -> None:
    array = read_document(b"[" + b"1," * PIECE + b"1]", LIMITS)
    assert isinstance(array, LongArray)
    assert [sum(map(len, array.pieces())) for _ in range(2)] == [PIECE + 1] * 2


@pytest.mark.parametrize(("text", "byte"), [(b'["\xff"]', 2), (b'{"a": "' + b"x" * 99 + b'\xc3("}', 106), (b"\xff", 0)])
def test_the_byte_that_is_not_utf_8_is_named(text: bytes, byte: int) -> None:
    with pytest.raises(CalibrationError) as caught:
        read_document(text, LIMITS)
    assert caught.value.detail.endswith(f"byte {byte}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "unit"),
    [
        ("predictions", "-6,"),
        ("predictions", "[0,1],"),
        ("predictions", "[],"),
        ("labels", "1,"),
        ("groups", '"a",'),
        ("options", "[],"),
        ("options", '"ab",'),
        ("unknown", '{"a":1},'),
    ],
)
def test_memory_at_its_peak_is_at_most_sixteen_times_the_body(field: str, unit: str) -> None:
    size = 2_000_000 if field in CLASSIFICATION.arrays else 8_000_000  # what is no row is refused at a size of its own
    body = f'{{"{field}":[{unit * (size // len(unit))}{unit[:-1]}]}}'.encode()
    tracemalloc.start()
    try:
        with suppress(CalibrationError):
            read_json(body, LIMITS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(body)
