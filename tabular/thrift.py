"""Thrift structs in the compact protocol, of which Parquet's footer and page headers are made.

pyarrow's own view of a footer ends the process where a list of the footer is shorter than another says; a forged
file must do no more than be refused.
"""

from __future__ import annotations

from typing import Any

from tabular.errors import DamagedFile

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
#: A varint of 64 bits, and how deep structs and lists of Parquet may nest.
_MOST_BITS, _DEEPEST = 63, 12
#: A list that is longer says so in a varint.
_LONG_LIST = 15

Struct = dict[int, Any]


def read_struct(data: memoryview, at: int, depth: int = 0) -> tuple[Struct, int]:
    """One struct: values by the number of their field, and where it ends.

    Raises ``DamagedFile``, or ``IndexError`` where the bytes end before it does.
    """
    if depth > _DEEPEST:
        raise DamagedFile("a header nests too deep")
    found: Struct = {}
    field = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _signed(data, at)
        # The type of a boolean field is its value.
        found[field], at = (head & 15 == _TRUE, at) if head & 15 <= _FALSE else _value(data, at, head & 15, depth)
    return found, at + 1


def _value(data: memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_I16, _I32, _I64):
        return _signed(data, at)
    if kind == _BINARY:
        length, at = _unsigned(data, at)
        return bytes(data[at : at + length]), at + length
    if kind == _STRUCT:
        return read_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
        return data[at], at + (8 if kind == _DOUBLE else 1)
    raise DamagedFile("a header holds what none has")


def _list(data: memoryview, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _DEEPEST:
        raise DamagedFile("a header nests too deep")
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length == _LONG_LIST:
        length, at = _unsigned(data, at)
    found = []
    for _ in range(length):
        value, at = _value(data, at, kind, depth)
        found.append(value)
    return found, at


def _signed(data: memoryview, at: int) -> tuple[int, int]:
    number, at = _unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


def _unsigned(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > _MOST_BITS:
            raise DamagedFile("a header holds too long a number")
