from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from calibrant.core.errors import CalibrationError
from schemas.inference import InferenceInput
from service.inference.infer import DTYPES, read_tensor, to_bytes
from tests.wire import packed

RAW = memoryview(packed([0.25, 0.5, 0.75, 1.0], "FP64"))
NOTHING = memoryview(b"")


def _input(**fields: Any) -> InferenceInput:
    text = json.dumps({"name": "predictions", "shape": [2], "datatype": "FP64"} | fields)
    return InferenceInput.model_validate_json(text, strict=True)


def _binary(raw: memoryview, **fields: Any) -> InferenceInput:
    return _input(parameters={"binary_data_size": len(raw)}, **fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"data": [0.1, 0.9]}, np.array([0.1, 0.9])),
        ({"data": [0, 1]}, np.array([0.0, 1.0])),
        ({"shape": [2, 2], "data": [0.1, 0.9, 0.4, 0.6]}, np.array([[0.1, 0.9], [0.4, 0.6]])),
        ({"shape": [2, 2], "data": [[0.1, 0.9], [0.4, 0.6]]}, np.array([[0.1, 0.9], [0.4, 0.6]])),
        ({"datatype": "FP32", "data": [0.1, 0.9]}, np.array([0.1, 0.9], np.float32)),
        ({"datatype": "FP32", "data": [0.10000000149011612, 0.9]}, np.array([0.1, 0.9], np.float32)),
        ({"datatype": "FP16", "data": [0.1, 0.5]}, np.array([0.1, 0.5], np.float16)),
        ({"datatype": "INT8", "data": [-128, 127]}, np.array([-128, 127], np.int8)),
        ({"datatype": "UINT64", "data": [0, 2**64 - 1]}, np.array([0, 2**64 - 1], np.uint64)),
    ],
)
def test_json_data_become_the_array_of_their_datatype(fields: dict[str, Any], expected: np.ndarray) -> None:
    array = read_tensor(_input(**fields), NOTHING, "/inputs/0")
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("datatype", DTYPES)
def test_the_bytes_of_every_datatype_are_read_as_the_protocol_writes_them(datatype: str) -> None:
    bits = [0, 1, 1, 0, 1, 0]
    raw = memoryview(packed(bits, datatype))
    array = read_tensor(_binary(raw, shape=[3, 2], datatype=datatype), raw, "/inputs/0")
    assert array.dtype == DTYPES[datatype].newbyteorder("=")
    np.testing.assert_array_equal(array, np.reshape(bits, (3, 2)))


@pytest.mark.parametrize("offset", range(8))
def test_a_tensor_that_begins_at_any_byte_is_aligned(offset: int) -> None:
    numbers = np.random.default_rng(offset).random(4)
    raw = memoryview(bytes(offset) + numbers.tobytes())[offset:]
    array = read_tensor(_binary(raw, shape=[4]), raw, "/inputs/0")
    assert array.flags.aligned
    np.testing.assert_array_equal(array, numbers)


_DATA, _SHAPE = "/inputs/0/data", "/inputs/0/shape"
_SIZE = "/inputs/0/parameters/binary_data_size"


@pytest.mark.parametrize(
    ("fields", "raw", "expected"),
    [
        ({"data": [0.1]}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"data": [0.1, 0.2, 0.3]}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"data": []}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [], "data": [0.1]}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [1, 1, 2], "data": [0.1, 0.2]}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [2**63, 4], "data": [0.1, 0.2]}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [2**64 - 1], "data": [0.1, 0.2]}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [2**32, 2**32], "data": []}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [0], "data": []}, NOTHING, ("empty-batch", _SHAPE)),
        ({"shape": [2**63, 0], "data": []}, NOTHING, ("empty-batch", _SHAPE)),
        ({"shape": [2, 2], "data": [[0.1, 0.9]]}, NOTHING, ("wrong-shape", _DATA)),
        ({"shape": [2, 2], "data": [[0.1, 0.9], [0.4]]}, NOTHING, ("wrong-shape", f"{_DATA}/1")),
        ({"shape": [2, 2], "data": [[0.1, 0.9], 0.4]}, NOTHING, ("wrong-shape", f"{_DATA}/1")),
        ({"shape": [2, 2], "data": [[0.1, 0.9], [0.4, [1]]]}, NOTHING, ("not-a-number", f"{_DATA}/1/1")),
        ({"shape": [1, 2], "data": [0.1, [0.9]]}, NOTHING, ("not-a-number", f"{_DATA}/1")),
        ({"data": [[0.1], [0.9]]}, NOTHING, ("not-a-number", f"{_DATA}/0")),
        ({"data": [0.1, True]}, NOTHING, ("not-a-number", f"{_DATA}/1")),
        ({"data": [0.1, "0.2"]}, NOTHING, ("not-a-number", f"{_DATA}/1")),
        ({"data": [None, 0.2]}, NOTHING, ("not-a-number", f"{_DATA}/0")),
        ({"datatype": "INT32", "data": [0, 0.5]}, NOTHING, ("not-a-number", f"{_DATA}/1")),
        ({"datatype": "INT8", "data": [0, 128]}, NOTHING, ("invalid-field", _DATA)),
        ({"datatype": "UINT8", "data": [0, -1]}, NOTHING, ("invalid-field", _DATA)),
        ({"datatype": "FP32", "data": [0, 1e300]}, NOTHING, ("invalid-field", _DATA)),
        ({"datatype": "FP16", "data": [0, 70000]}, NOTHING, ("invalid-field", _DATA)),
        ({}, NOTHING, ("invalid-field", _DATA)),
        ({"data": [0.1, 0.2]}, RAW, ("invalid-field", _SIZE)),
        ({"data": [0.1] * 4, "shape": [4], "parameters": {"binary_data_size": 32}}, RAW, ("invalid-field", _DATA)),
        ({"shape": [4], "parameters": {"binary_data_size": 31}}, RAW, ("invalid-field", _SIZE)),
        ({"shape": [4], "parameters": {"binary_data_size": 2**62}}, RAW, ("invalid-field", _SIZE)),
        ({"shape": [4], "parameters": {"binary_data_size": 32}}, NOTHING, ("invalid-field", _SIZE)),
        ({"shape": [4], "parameters": {"binary_data_size": 0}}, NOTHING, ("wrong-shape", _SHAPE)),
        ({"shape": [5], "parameters": {"binary_data_size": 32}}, RAW, ("wrong-shape", _SHAPE)),
        ({"shape": [2**61], "parameters": {"binary_data_size": 32}}, RAW, ("wrong-shape", _SHAPE)),
        ({"shape": [4], "datatype": "FP32", "parameters": {"binary_data_size": 32}}, RAW, ("wrong-shape", _SHAPE)),
    ],
)
def test_tensors_that_do_not_match_are_refused_at_their_place(
    fields: dict[str, Any], raw: memoryview, expected: tuple[str, str]
) -> None:
    with pytest.raises(CalibrationError) as caught:
        read_tensor(_input(**fields), raw, "/inputs/0")
    assert (caught.value.code, caught.value.offences[0].pointer) == expected


def test_at_most_five_places_are_named() -> None:
    with pytest.raises(CalibrationError) as caught:
        read_tensor(_input(shape=[9], data=[None] * 9), NOTHING, "/inputs/0")
    assert [o.pointer for o in caught.value.offences] == [f"{_DATA}/{i}" for i in range(5)]


@pytest.mark.parametrize("numbers", [[0.1, math.pi, 5e-324], [[0.1, 0.9], [0.4, 0.6]]])
def test_written_bytes_are_little_endian_row_by_row(numbers: Any) -> None:
    flat = np.asarray(numbers).ravel().tolist()
    for array in (np.asarray(numbers), np.asfortranarray(numbers), np.asarray(numbers, ">f8")):
        assert bytes(to_bytes(array)) == packed(flat, "FP64")
