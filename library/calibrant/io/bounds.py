"""How much of a file is read; what is larger is refused with the limit named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from calibrant.io.errors import FileTooLarge

#: Bytes of a file, unpacked.
MAX_BYTES = 2 << 30
#: Numbers that are held at once: 800 MB.
_MAX_NUMBERS = 100_000_000
_MAX_COLUMNS = 10_000
#: Bytes of a line of text, and of what is looked at before anything is read.
MAX_LINE = 1 << 20
#: More unpacked bytes, or bytes of numbers, than these are heavy work.
LIGHT_BYTES = 1 << 20
_NUMBER_BYTES = 8


class Limits(Protocol):
    """What is asked before anything is believed that a binary file states; each raises where it is too much."""

    def check_rows(self, n: int, /) -> None:
        """So many rows."""
        ...

    def check_classes(self, n_classes: int, /) -> None:
        """So many columns of predictions."""
        ...

    def check_bytes(self, n_bytes: int, /) -> None:
        """So many bytes, unpacked."""
        ...


@dataclass(frozen=True)
class Bounds:
    """``rows`` None is no limit but that of the numbers.

    ``heavy`` is called, at least once, before more than ``LIGHT_BYTES`` are unpacked or read; it may raise a
    ``CalibrationError``, which reaches the caller as it is. ``spool`` is called with the size that a temporary file is
    about to have, and may raise the same.
    """

    rows: int | None = None
    bytes: int = MAX_BYTES
    numbers: int = _MAX_NUMBERS
    columns: int = _MAX_COLUMNS
    heavy: Callable[[], None] | None = None
    spool: Callable[[int], None] | None = None

    def check_rows(self, rows: int, width: int = 1) -> None:
        """Raise ``FileTooLarge`` for more rows, or more numbers in rows of ``width``, than the limits."""
        if self.rows is not None and rows > self.rows:
            raise FileTooLarge(f"the file has more than {self.rows:,} rows, which is the limit: take a sample of them")
        if rows * width > self.numbers:
            raise FileTooLarge(
                f"the file has more than {self.numbers // width:,} rows of {width} numbers, which is the limit "
                f"({self.numbers:,} numbers): take a sample of them"
            )
        self._weigh(rows * width * _NUMBER_BYTES)

    def check_classes(self, n_classes: int) -> None:
        """Raise ``FileTooLarge`` for more columns than the limit."""
        self.check_columns(n_classes)

    def check_columns(self, columns: int) -> None:
        """Raise ``FileTooLarge`` for more columns than the limit."""
        if columns > self.columns:
            raise FileTooLarge(f"the file has more than {self.columns:,} columns, which is the limit")

    def check_bytes(self, size: int) -> None:
        """Raise ``FileTooLarge`` for more bytes than the limit."""
        if size > self.bytes:
            raise FileTooLarge(f"the file unpacks to or has more than {self.bytes:,} bytes, which is the limit")
        self._weigh(size)

    def _weigh(self, size: int) -> None:
        if size > LIGHT_BYTES and self.heavy is not None:
            self.heavy()
