"""What the messages of an Arrow stream say that they hold, read before pyarrow believes it.

A compressed buffer begins with its size once unpacked; pyarrow allocates that much, and never unpacks more. So the
sizes that stand there bound what a stream becomes. The messages are flatbuffers, of which pyarrow has checked that
every offset stays inside (Arrow columnar format 1.5, "Encapsulated message format", "RecordBatch message").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tabular.bounds import Limits
from tabular.errors import DamagedFile, FileTooLarge

_DICTIONARY, _RECORDS = 2, 3
#: Places of the fields in their tables.
_HEADER_TYPE, _HEADER = 1, 2
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_DATA_OF_DICTIONARY = 1
#: Reading a message costs more than its bytes: so many are free, and one more for each KiB.
_FREE_MESSAGES, _BYTES_A_MESSAGE = 256, 1024


def check_messages(arrow: Any, buffer: object, n_bytes: int, limits: Limits) -> None:
    """Raise the limits' own error for a stream that states more rows or unpacked bytes than they allow.

    ``arrow`` is pyarrow, ``buffer`` the stream of ``n_bytes`` as a Buffer of it. Raises ``FileTooLarge`` for too many
    messages, and ``DamagedFile`` for a stream that breaks off.
    """
    rows, unpacked = 0, n_bytes
    for count, (metadata, body) in enumerate(_messages(arrow, buffer)):
        if count > _FREE_MESSAGES + n_bytes // _BYTES_A_MESSAGE:
            raise FileTooLarge("the stream has too many messages for its size")
        try:
            batch, is_dictionary = _batch(metadata)
            if batch is None:
                continue
            stated, grown = _stated(batch, body)
        except (struct.error, IndexError) as error:
            raise DamagedFile("the stream has a damaged message") from error
        rows += 0 if is_dictionary else stated
        unpacked += grown
        limits.check_rows(rows)
        limits.check_bytes(unpacked)


def _messages(arrow: Any, buffer: object) -> Iterator[tuple[memoryview, memoryview]]:
    reader = arrow.ipc.MessageReader.open_stream(buffer)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        yield memoryview(message.metadata), memoryview(message.body or b"")


class _Table:
    """One table of a flatbuffer."""

    def __init__(self, data: memoryview, at: int) -> None:
        self.data, self.at = data, at
        self._fields = at - _read("<i", data, at)

    def place(self, field: int) -> int | None:
        """Where a field's value stands; None for a field that is left out."""
        if 4 + 2 * field >= _read("<H", self.data, self._fields):
            return None
        offset = _read("<H", self.data, self._fields + 4 + 2 * field)
        return self.at + offset if offset else None

    def table(self, field: int) -> _Table | None:
        """The table that a field points to."""
        at = self.place(field)
        return None if at is None else _Table(self.data, at + _read("<I", self.data, at))


def _batch(metadata: memoryview) -> tuple[_Table | None, bool]:
    """The record batch of a message, and whether it is a dictionary's."""
    message = _Table(metadata, _read("<I", metadata, 0))
    kind = message.place(_HEADER_TYPE)
    kind = None if kind is None else metadata[kind]
    header = message.table(_HEADER)
    if header is None or kind not in (_DICTIONARY, _RECORDS):
        return None, False
    return (header.table(_DATA_OF_DICTIONARY), True) if kind == _DICTIONARY else (header, False)


def _stated(batch: _Table, body: memoryview) -> tuple[int, int]:
    """The rows of a batch, and the bytes to which its compressed buffers unpack, both as they are stated."""
    at = batch.place(_LENGTH)
    rows = 0 if at is None else _read("<q", batch.data, at)
    place = batch.place(_BUFFERS)
    if batch.place(_COMPRESSION) is None or place is None:
        return _natural(rows), 0
    vector = place + _read("<I", batch.data, place)
    unpacked = 0
    for i in range(_read("<I", batch.data, vector)):
        offset, length = struct.unpack_from("<qq", batch.data, vector + 4 + 16 * i)
        if length:
            # -1 says that this buffer is not compressed.
            unpacked += max(0, _read("<q", body, _natural(offset)))
    return _natural(rows), unpacked


def _natural(number: int) -> int:
    if number < 0:
        raise DamagedFile("the stream states a negative number")
    return number


def _read(form: str, data: memoryview, at: int) -> int:
    value: int = struct.unpack_from(form, data, at)[0]
    return value
