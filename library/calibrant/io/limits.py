"""The limits of reading: how much a file or a body may hold, checked against what it states before that is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from calibrant.io.errors import FileTooLarge, TooLarge

#: More unpacked bytes, or bytes of numbers, than these are heavy work.
LIGHT_BYTES = 1 << 20
#: Bytes of a line of text, and of what is examined before anything is read.
MAX_LINE = 1 << 20
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class Limits:
    """The limits of a body; every check raises ``TooLarge``. None is no limit.

    ``max_classes`` bounds the columns of predictions. ``heavy`` is called, at least once, before more than
    ``LIGHT_BYTES`` are unpacked or read; it may raise a ``CalibrationError``, which reaches the caller as it is.
    """

    max_unpacked_bytes: int
    max_rows: int | None
    max_classes: int
    heavy: Callable[[], None] | None = field(default=None, kw_only=True)

    def check_rows(self, rows: int, pointer: str = "", *, width: int = 1) -> None:
        """Check the number of rows, each of ``width`` numbers."""
        if self.max_rows is not None and rows > self.max_rows:
            self._refuse(self.max_rows, "rows", pointer)
        self._weigh(rows * width * _NUMBER_BYTES)

    def check_classes(self, n_classes: int, pointer: str = "/predictions") -> None:
        """Check the number of columns of predictions."""
        if n_classes > self.max_classes:
            self._refuse(self.max_classes, "classes", pointer)

    def check_shape(self, shape: Sequence[int], pointer: str) -> None:
        """Check the rows of an array and, if a row has several numbers, its classes."""
        if shape:
            self.check_rows(shape[0], pointer)
        if len(shape) > 1:
            self.check_classes(shape[1], pointer)

    def check_bytes(self, size: int) -> None:
        """Check the number of bytes, unpacked."""
        if size > self.max_unpacked_bytes:
            self._refuse(self.max_unpacked_bytes, "bytes, unpacked", None)
        self._weigh(size)

    def _weigh(self, size: int) -> None:
        if size > LIGHT_BYTES and self.heavy is not None:
            self.heavy()

    def _refuse(self, most: int, what: str, pointer: str | None) -> NoReturn:
        if pointer is None:
            raise TooLarge(f"the body may have at most {most} {what}")
        raise TooLarge.at(pointer, f"may have at most {most} {what}")


@dataclass(frozen=True)
class FileLimits(Limits):
    """The limits of a file of people, where ``max_classes`` bounds all columns; every check raises ``FileTooLarge``.

    ``spool`` is called with the size that a temporary file is about to have, and may raise as ``heavy`` may.
    """

    max_unpacked_bytes: int = 2 << 30
    max_rows: int | None = None
    max_classes: int = 10_000
    #: Numbers that are held at once: 800 MB.
    max_numbers: int = 100_000_000
    spool: Callable[[int], None] | None = None

    def check_rows(self, rows: int, pointer: str = "", *, width: int = 1) -> None:
        """Check the number of rows, and the numbers in rows of ``width``."""
        super().check_rows(rows, pointer, width=width)
        if rows * width > self.max_numbers:
            self._refuse(self.max_numbers // width, f"rows of {width} numbers", pointer)

    def _refuse(self, most: int, what: str, pointer: str | None) -> NoReturn:  # noqa: ARG002
        hint = ": take a sample of them" if what.startswith("rows") else ""
        name = "columns" if what == "classes" else what
        raise FileTooLarge(f"the file has more than {most:,} {name}, which is the limit{hint}")
