from __future__ import annotations

import json
from typing import Any

import pytest

from calibrant.core.errors import CalibrationError
from service.errors import InvalidField, MalformedJson, TooLarge, UnsupportedMediaType
from service.formats.format import BodyLimits
from service.inference.infer import check_media_type, read_request, split
from tests.refusals import refused_at

LIMITS = BodyLimits(1 << 30, 1_000_000, 1_000, 32)

INPUT: dict[str, Any] = {"name": "predictions", "shape": [2], "datatype": "FP64", "data": [0.1, 0.9]}
BODY = b'{"inputs": []}0123'


@pytest.mark.parametrize(
    ("content_type", "served"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/octet-stream", True),
        ("", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("application/jsonx", False),
    ],
)
def test_the_content_type_must_be_one_of_the_protocols(content_type: str, served: bool) -> None:
    if served:
        check_media_type(content_type)
    else:
        with pytest.raises(UnsupportedMediaType):
            check_media_type(content_type)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([], (BODY, b"")), (["14"], (BODY[:14], b"0123")), (["0"], (b"", BODY)), (["18"], (BODY, b""))],
)
def test_the_length_header_ends_the_json_object(lengths: list[str], expected: tuple[bytes, bytes]) -> None:
    text, raw = split(BODY, lengths)
    assert (bytes(text), bytes(raw)) == expected


@pytest.mark.parametrize(
    "lengths", [["19"], ["-1"], ["1.5"], [""], ["0x10"], ["1_4"], ["१४"], ["9" * 21], ["14", "14"]]
)
def test_an_invalid_length_is_refused(lengths: list[str]) -> None:
    with pytest.raises(InvalidField):
        split(BODY, lengths)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b'{"inputs": [{"data": [NaN]}]}',
        b'{"inputs": [{"data": [-Infinity]}]}',
        b'{"inputs": [{"data": [1e999]}]}',
        b'{"inputs": []} trailing',
    ],
)
def test_an_object_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedJson):
        read_request(memoryview(text), LIMITS)


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        ({}, "/inputs"),
        ({"inputs": []}, "/inputs"),
        ({"inputs": [INPUT] * 202}, "/inputs"),
        ({"inputs": INPUT}, "/inputs"),
        ({"inputs": [INPUT], "output": []}, "/output"),
        ({"inputs": [INPUT], "id": 42}, "/id"),
        ({"inputs": [INPUT], "parameters": []}, "/parameters"),
        ({"inputs": [INPUT], "parameters": {"binary_data_output": 1}}, "/parameters/binary_data_output"),
        ({"inputs": [INPUT], "parameters": {"binary_data_output": "true"}}, "/parameters/binary_data_output"),
        ({"inputs": [INPUT], "parameters": {"x": [1]}}, "/parameters/x"),
        ({"inputs": [INPUT], "parameters": {"x": None}}, "/parameters/x"),
        ({"inputs": [INPUT], "parameters": {"classification": 1}}, "/parameters"),
        ({"inputs": [{}]}, "/inputs/0/name"),
        ({"inputs": [INPUT | {"name": 1}]}, "/inputs/0/name"),
        ({"inputs": [INPUT | {"extra": 1}]}, "/inputs/0/extra"),
        ({"inputs": [INPUT | {"shape": [-1]}]}, "/inputs/0/shape/0"),
        ({"inputs": [INPUT | {"shape": [2**64]}]}, "/inputs/0/shape/0"),
        ({"inputs": [INPUT | {"shape": [2.0]}]}, "/inputs/0/shape/0"),
        ({"inputs": [INPUT | {"shape": [True]}]}, "/inputs/0/shape/0"),
        ({"inputs": [INPUT | {"shape": ["2"]}]}, "/inputs/0/shape/0"),
        ({"inputs": [INPUT | {"shape": [1] * 9}]}, "/inputs/0/shape"),
        ({"inputs": [INPUT | {"shape": 2}]}, "/inputs/0/shape"),
        ({"inputs": [INPUT | {"datatype": "fp64"}]}, "/inputs/0/datatype"),
        ({"inputs": [INPUT | {"data": "0.1"}]}, "/inputs/0/data"),
        ({"inputs": [INPUT | {"data": {"0": 0.1}}]}, "/inputs/0/data"),
        ({"inputs": [INPUT | {"parameters": {"binary_data_size": -8}}]}, "/inputs/0/parameters/binary_data_size"),
        ({"inputs": [INPUT | {"parameters": {"binary_data_size": 2**63}}]}, "/inputs/0/parameters/binary_data_size"),
        ({"inputs": [INPUT | {"parameters": {"binary_data_size": True}}]}, "/inputs/0/parameters/binary_data_size"),
        ({"inputs": [INPUT | {"parameters": {"shared_memory_region": "x"}}]}, "/inputs/0/parameters"),
        ({"inputs": [INPUT], "outputs": [{}]}, "/outputs/0/name"),
        ({"inputs": [INPUT], "outputs": [{"name": "p0", "parameters": {"binary_data": 1}}]},
         "/outputs/0/parameters/binary_data"),
    ],
)  # fmt: skip
def test_a_field_that_is_wrong_is_named(document: Any, pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        read_request(memoryview(json.dumps(document).encode()), LIMITS)


def test_extra_fields_of_clients_are_accepted() -> None:
    document = {
        "id": "42",
        "model_name": "another",
        "model_version": "1",
        "parameters": {"priority": 1, "timeout": 2.5, "content_type": "np", "sequence_start": True},
        "inputs": [INPUT | {"parameters": None}],
        "outputs": None,
    }
    request, _ = read_request(memoryview(json.dumps(document).encode()), LIMITS)
    assert (request.id, request.inputs[0].data, request.outputs) == ("42", [0.1, 0.9], None)
    assert request.parameters is not None
    assert not request.parameters.binary_data_output


def test_what_nests_too_deep_or_names_a_key_twice_is_refused() -> None:
    with pytest.raises(TooLarge):
        read_request(memoryview(b"[" * 100_000), LIMITS)
    with pytest.raises(TooLarge):
        read_request(memoryview(b'{"inputs": ' + b"[" * 40 + b"]" * 40 + b"}"), LIMITS)
    twice = json.dumps({"inputs": [INPUT]}).replace('"datatype"', '"name": "predictions", "datatype"')
    with pytest.raises(InvalidField):
        read_request(memoryview(twice.encode()), LIMITS)
