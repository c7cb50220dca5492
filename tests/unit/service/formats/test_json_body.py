from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.core.errors import NotANumber
from service.errors import MalformedJson
from service.formats.format import BodyLimits
from service.formats.json_body import read_json
from tests.traced import PeakOf
from tests.unit.io.refused import refused


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"predictions": [0.1, 0.9]}', {"predictions": [0.1, 0.9]}),
        ('{"predictions": [0, 1, 0.5]}', {"predictions": [0.0, 1.0, 0.5]}),
        ('{"predictions": [1e-3, 2E-1]}', {"predictions": [0.001, 0.2]}),
        ('{"predictions": [[0.1, 0.9], [1, 0]]}', {"predictions": [[0.1, 0.9], [1.0, 0.0]]}),
        ('{"predictions": []}', {"predictions": []}),
        ('{"labels": [0, 1, 255]}', {"labels": [0, 1, 255]}),
        ('{"labels": [0, 256, -1]}', {"labels": [0, 256, -1]}),
        ('{"labels": [0.0, 1.0]}', {"labels": [0.0, 1.0]}),
        ('{"labels": [0, 1], "bounds": true}', {"labels": [0, 1]}),
        ('{"weights": [18446744073709551615, 0]}', {"weights": [2.0**64, 0.0]}),
        ('{"groups": ["a", "bc", "\\u00e9"]}', {"groups": ["a", "bc", "\u00e9"]}),
        ('{"predictions": null, "labels": [1]}', {"labels": [1]}),
    ],
)
def test_json_becomes_arrays(body: str, expected: dict[str, Any], limits: BodyLimits) -> None:
    read = read_json(body.encode(), limits).arrays
    assert set(read) == set(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(read[name], np.array(column))


@pytest.mark.parametrize("pad", [0, 1 << 20])
@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_the_error_says_that_json_has_no_nan(name: str, pad: int, limits: BodyLimits) -> None:
    # what Python's json writes: https://github.com/SeldonIO/MLServer/issues/1154
    body = b'{"predictions": [0.5, %s]%s}' % (name.encode(), b" " * pad)
    with pytest.raises(MalformedJson, match=r"at byte 2[23], which has no NaN and no infinite numbers"):
        read_json(body, limits)


def test_the_error_names_a_byte_order_mark(limits: BodyLimits) -> None:
    with pytest.raises(MalformedJson, match="at byte 0, a byte order mark; send UTF-8 without it"):
        read_json(b'\xef\xbb\xbf{"predictions": [0.5]}', limits)


def test_json_fields_that_are_not_arrays_are_options(limits: BodyLimits) -> None:
    payload = read_json(b'{"labels": [1], "measures": ["ks"], "seed": 3}', limits)
    assert (payload.options, payload.from_query) == ({"measures": ["ks"], "seed": 3}, False)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", ("malformed-json", "")),
        ('{"predictions": [NaN]}', ("malformed-json", "")),
        ('{"predictions": [-Infinity]}', ("malformed-json", "")),
        ("3", ("invalid-field", "")),
        ('{"predictions": [true]}', ("not-a-number", "/predictions/0")),
        ('{"labels": [0, false]}', ("not-a-number", "/labels/1")),
        ('{"weights": [1, null]}', ("not-a-number", "/weights/1")),
        ('{"predictions": [[0.1, "true"]]}', ("not-a-number", "/predictions/0/1")),
        ('{"predictions": [0.1, [0.2]]}', ("not-a-number", "/predictions/1")),
        ('{"predictions": [{"a": 1, "a": 2}]}', ("not-a-number", "/predictions/0")),
        ('{"predictions": [[1], [1, 2]]}', ("wrong-shape", "/predictions/1")),
        ('{"predictions": [[0.1, 0.9], [1, 0], null, [1, 0]]}', ("not-a-number", "/predictions/2")),
        ('{"predictions": [[0.1, 0.9], 0.3, [1, 0]]}', ("not-a-number", "/predictions/1")),
        ('{"predictions": [[0.1, 0.9], ["a", 0], null]}', ("not-a-number", "/predictions/1/0")),
        ('{"predictions": {}}', ("wrong-shape", "/predictions")),
        ('{"groups": ["a", 1]}', ("not-a-number", "/groups/1")),
    ],
)
def test_json_arrays_that_are_not_of_numbers_are_refused(
    body: str, expected: tuple[str, str], limits: BodyLimits
) -> None:
    assert refused(lambda: read_json(body.encode(), limits)) == expected


def test_only_the_rows_that_are_not_arrays_are_named(limits: BodyLimits) -> None:
    body = b'{"predictions": [[0.1, 0.9], null, [1, 0], 0.5, [0, 1]]}'
    with pytest.raises(NotANumber) as caught:
        read_json(body, limits)
    assert [(offence.pointer, offence.detail) for offence in caught.value.offences] == [
        ("/predictions/1", "must be an array of numbers, not null"),
        ("/predictions/3", "must be an array of numbers, not a number"),
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"seed": 1, "seed": 1}', "/seed"),
        ('{"labels": [0], "labels": [1]}', "/labels"),
        ('{"a/b": 1, "a\\/b": 2}', "/a~1b"),
        ('{"p1": 1, "p1": 2, "p2": 3}', "/p1"),
        ('{"s\\u0065ed": 1, "seed": 2}', "/seed"),
        ('{"a": ":\\"", "b": "\\\\", "a": 1}', "/a"),
        ('{"options": {"folds": 1, "folds": 2}}', "/options/folds"),
        ('{"measures": ["ks", {"name": "ece", "name": "ks"}]}', "/measures/1/name"),
        ('{"rows": [{"id": 1}, {"id": 2, "id/": 3, "id\\u002f": 4}]}', "/rows/1/id~1"),
    ],
)
def test_a_duplicate_key_is_refused_at_any_depth(body: str, pointer: str, limits: BodyLimits) -> None:
    assert refused(lambda: read_json(body.encode(), limits)) == ("invalid-field", pointer)


@pytest.mark.parametrize(
    "body",
    [
        '{"p1": 1, "p2": 2, "1": 3, "": 4}',
        '{"a": ":", "b": "::\\":", "c": "\\\\", "d": "x\\\\\\":"}',
        '{"options": {"a": 1}, "other": {"a": 1, "b": [{"a": 2}, {"a": 3}]}}',
        '{"groups": ["a:1", "b:2"], "seed": 1}',
    ],
)
def test_colons_in_strings_and_equal_keys_of_different_objects_are_let_through(body: str, limits: BodyLimits) -> None:
    read_json(body.encode(), limits)


def test_nesting_is_bounded_and_brackets_in_strings_do_not_nest(limits: BodyLimits) -> None:
    deep = '{"options": ' + "[" * 7 + "]" * 7 + "}"
    assert (
        refused(lambda: read_json(deep.replace("[", "[[", 1).replace("]", "]]", 1).encode(), limits))[0] == "too-large"
    )
    assert (
        refused(lambda: read_json(b'{"options": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", limits))[0]
        == "too-large"
    )
    read_json(deep.encode(), limits)
    read_json(('{"name": "' + "[" * 50 + '"}').encode(), limits)
    read_json(('{"options": [' + ",".join(["[]"] * 50) + "]}").encode(), limits)


def test_rows_and_classes_are_bounded(limits: BodyLimits) -> None:
    rows, classes = [0.5] * (limits.max_rows + 1), [0.5] * (limits.max_classes + 1)
    for body, pointer in (
        ({"predictions": rows}, "/predictions"),
        ({"labels": [0] * len(rows)}, "/labels"),
        ({"groups": ["a"] * len(rows)}, "/groups"),
        ({"predictions": [classes]}, "/predictions"),
    ):
        text = repr(body).replace("'", '"').encode()
        assert refused(lambda text=text: read_json(text, limits)) == ("too-large", pointer)  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("long", ["groups", "clusters"])
def test_one_long_name_does_not_make_all_names_wide(long: str, peak_of: PeakOf) -> None:
    kind = '"prediction_kind": "regression", ' if long == "clusters" else ""
    names = '["' + "a" * 256 + '"' + ', "b"' * 999_999 + "]"
    body = f'{{{kind}"{long}": {names}}}'.encode()
    limits = BodyLimits(max_unpacked_bytes=1 << 28, max_rows=1_000_000, max_classes=20, max_json_depth=8)
    assert peak_of(read_json, body, limits) < 16 * len(body)
    assert read_json(body, limits).arrays[long].tolist() == ["a" * 256, *["b"] * 999_999]


def test_a_number_beyond_doubles_is_named(limits: BodyLimits) -> None:
    with pytest.raises(MalformedJson, match="the number at byte 22 is too large for double precision"):
        read_json(b'{"predictions": [0.5, 1e999]}', limits)
