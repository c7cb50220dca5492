"""The binary tensor extension, written from its text with struct alone: what the tests send and read."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

CODES = {
    "FP64": "d", "FP32": "f", "FP16": "e", "INT64": "q", "INT32": "i", "INT16": "h", "INT8": "b",
    "UINT64": "Q", "UINT32": "I", "UINT16": "H", "UINT8": "B",
}  # fmt: skip


def packed(numbers: Sequence[float], datatype: str) -> bytes:
    """The elements, little-endian, one after the other."""
    return struct.pack(f"<{len(numbers)}{CODES[datatype]}", *numbers)


def request(numbers: Sequence[float], datatype: str, shape: Sequence[int], **fields: Any) -> tuple[int, bytes]:
    """A body with the input ``predictions`` as binary data, and the length of its JSON object."""
    raw = packed(numbers, datatype)
    parameters = {"binary_data_size": len(raw)}
    tensor = {"name": "predictions", "shape": list(shape), "datatype": datatype, "parameters": parameters}
    head = json.dumps({"inputs": [tensor], **fields}).encode()
    return len(head), head + raw


def answered(body: bytes, length: int | None) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The JSON object of an answer, and its outputs' elements by name, however each was sent."""
    head = body if length is None else body[:length]
    document, at = json.loads(head), len(head)
    outputs = {}
    for output in document["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            outputs[output["name"]] = output["data"]
            continue
        assert "data" not in output
        code = CODES[output["datatype"]]
        outputs[output["name"]] = [number for (number,) in struct.iter_unpack(f"<{code}", body[at : at + size])]
        at += size
    assert at == len(body)
    return document, outputs
