"""The memory that use cases reserve for rows; tests/unit/test_work_copies.py compares it with what they take."""

from __future__ import annotations

from calibrant.io.limits import NUMBER_BYTES

#: Copies of the rows as doubles: of checking and storing them or applying a map, of reading a stored batch, and of an
#: evaluation or fit besides its events.
_WORK_COPIES, _READ_COPIES, _EVENT_COPIES = 5, 3, 3
#: The most bytes of an evaluation or fit for each row: its event, in several orders and on several scales.
_ROW_BYTES = 256
#: The most bytes for simulated and resampled rows, which are made in blocks, and those for each row.
_SIMULATED_BYTES, _SIMULATED_ROW_BYTES = 64 << 20, 8 << 10


def work_bytes(size: int) -> int:
    """The most bytes for checking, storing or calibrating rows of ``size`` numbers in all."""
    return _WORK_COPIES * NUMBER_BYTES * size


def stored_bytes(size: int) -> int:
    """The most bytes for reading a stored batch of ``size`` numbers, and for such work on it."""
    return _READ_COPIES * NUMBER_BYTES * size + work_bytes(size)


def inline_bytes(n: int, size: int) -> int:
    """The most bytes for evaluating, or fitting to, ``n`` rows of ``size`` numbers in all."""
    return _EVENT_COPIES * NUMBER_BYTES * size + _ROW_BYTES * n + min(_SIMULATED_BYTES, _SIMULATED_ROW_BYTES * n)
