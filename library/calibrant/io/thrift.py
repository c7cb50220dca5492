"""Thrift structs in the compact protocol, the format of the footer and page headers of Parquet.

pyarrow aborts the process on a footer with inconsistent list lengths, so the footer is parsed and checked here first.
"""

from __future__ import annotations

from typing import Any

from calibrant.io.errors import DamagedFile, FileTooLarge

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
#: The largest shift of a 64-bit varint, and the deepest nesting of structs and lists.
_MOST_BITS, _DEEPEST = 63, 12
#: Length code of a list whose length is in a varint.
_LONG_LIST = 15

Struct = dict[int, Any]


class ThriftReader:
    """A parser of structs that reads at most ``most`` values; strings are views of the data.

    Raises ``DamagedFile`` or ``FileTooLarge``, or ``IndexError`` for a truncated struct.
    """

    def __init__(self, data: memoryview, most: int) -> None:
        self._data, self._left = data, most

    def struct(self, at: int, depth: int = 0) -> tuple[Struct, int]:
        """Parse a struct; returns its values by field number, and the offset of its end."""
        if depth > _DEEPEST:
            raise DamagedFile("a header is nested too deeply")
        fields: Struct = {}
        field = 0
        while head := self._data[at]:
            at += 1
            if head >> 4:
                field += head >> 4
            else:
                field, at = _signed(self._data, at)
            self._count()
            # The type of a boolean field is its value.
            if head & 15 <= _FALSE:
                fields[field] = head & 15 == _TRUE
            else:
                fields[field], at = self._value(at, head & 15, depth)
        return fields, at + 1

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise FileTooLarge("a header of the file has too many values")

    def _value(self, at: int, kind: int, depth: int) -> tuple[Any, int]:
        data = self._data
        if kind in (_I16, _I32, _I64):
            return _signed(data, at)
        if kind == _BINARY:
            length, at = _unsigned(data, at)
            return data[at : at + length], at + length
        if kind == _STRUCT:
            return self.struct(at, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(at, depth + 1)
        if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            return data[at], at + (8 if kind == _DOUBLE else 1)
        raise DamagedFile("a header has a field of an unknown type")

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        if depth > _DEEPEST:
            raise DamagedFile("a header is nested too deeply")
        length, kind = self._data[at] >> 4, self._data[at] & 15
        at += 1
        if length == _LONG_LIST:
            length, at = _unsigned(self._data, at)
        elements = []
        for _ in range(length):
            self._count()
            value, at = self._value(at, kind, depth)
            elements.append(value)
        return elements, at


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
            raise DamagedFile("a header has a number of more than 64 bits")
