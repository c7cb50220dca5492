"""Size limits of files and request bodies, checked against declared sizes before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from calibrant.io.errors import FileTooLarge, TooLarge

#: Requests that need more bytes than this are heavy.
LIGHT_BYTES = 1 << 20
#: Bytes of the longest line of text, and of the beginning of a file that is inspected before reading.
MAX_LINE = 1 << 20
#: Bytes of a number in an array, and of a string in memory besides its characters.
NUMBER_BYTES, STRING_BYTES = 8, 64


@dataclass(frozen=True)
class Limits:
    """The limits of a request body; every check raises ``TooLarge``.

    Parameters
    ----------
    max_unpacked_bytes : int
        Bytes after decompression.
    max_rows : int or None
        Rows; None for no limit.
    max_classes : int
        Columns of predictions.
    budget : callable, optional
        Called with a number of bytes before a reader allocates them. A ``CalibrationError`` that it raises reaches the
        caller.
    """

    max_unpacked_bytes: int
    max_rows: int | None
    max_classes: int
    budget: Callable[[int], None] | None = field(default=None, kw_only=True)

    def reserve(self, size: int) -> None:
        """Reserve bytes that are about to be allocated, and that live as long as the arrays or the reader."""
        if size and self.budget is not None:
            self.budget(size)

    def check_rows(self, rows: int, pointer: str = "", *, width: int = 1) -> None:  # noqa: ARG002
        """Check the number of rows; each has ``width`` numbers."""
        if self.max_rows is not None and rows > self.max_rows:
            self._refuse(self.max_rows, "rows", pointer)

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
        """Check the number of bytes after decompression."""
        if size > self.max_unpacked_bytes:
            self._refuse(self.max_unpacked_bytes, "bytes after decompression", None)

    def _refuse(self, most: int, what: str, pointer: str | None) -> NoReturn:
        if pointer is None:
            raise TooLarge(f"the body may have at most {most} {what}")
        raise TooLarge.at(pointer, f"may have at most {most} {what}")


@dataclass(frozen=True)
class FileLimits(Limits):
    """The limits of a file; every check raises ``FileTooLarge``.

    As ``Limits``, except that ``max_classes`` bounds the number of all columns. ``spool`` is called with the size that
    a temporary file is about to reach; like ``budget`` it may raise a ``CalibrationError``.
    """

    max_unpacked_bytes: int = 2 << 30
    max_rows: int | None = None
    max_classes: int = 10_000
    #: Numbers in memory: 800 MB.
    max_numbers: int = 100_000_000
    spool: Callable[[int], None] | None = None

    def check_rows(self, rows: int, pointer: str = "", *, width: int = 1) -> None:
        """Check the number of rows, and the number of values in rows of ``width``."""
        super().check_rows(rows, pointer, width=width)
        if rows * width > self.max_numbers:
            self._refuse(self.max_numbers // width, f"rows of {width} numbers", pointer)

    def _refuse(self, most: int, what: str, pointer: str | None) -> NoReturn:  # noqa: ARG002
        hint = "; use a sample of the rows" if what.startswith("rows") else ""
        name = "columns" if what == "classes" else what
        raise FileTooLarge(f"the file has more than the limit of {most:,} {name}{hint}")
