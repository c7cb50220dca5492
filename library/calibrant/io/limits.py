"""Size limits of files and request bodies, checked against declared sizes before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from calibrant.io.errors import FileTooLarge, TooLarge

#: ``heavy`` is called before more bytes than this are decompressed or converted.
LIGHT_BYTES = 1 << 20
#: Bytes of the longest line of text, and of the beginning of a file that is inspected before reading.
MAX_LINE = 1 << 20
_NUMBER_BYTES = 8


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
    heavy : callable, optional
        Called at least once before more than ``LIGHT_BYTES`` are decompressed or read. A ``CalibrationError`` that it
        raises reaches the caller.
    """

    max_unpacked_bytes: int
    max_rows: int | None
    max_classes: int
    heavy: Callable[[], None] | None = field(default=None, kw_only=True)

    def check_rows(self, rows: int, pointer: str = "", *, width: int = 1) -> None:
        """Check the number of rows; each has ``width`` numbers."""
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
        """Check the number of bytes after decompression."""
        if size > self.max_unpacked_bytes:
            self._refuse(self.max_unpacked_bytes, "bytes after decompression", None)
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
    """The limits of a file; every check raises ``FileTooLarge``.

    As ``Limits``, except that ``max_classes`` bounds the number of all columns. ``spool`` is called with the size that
    a temporary file is about to reach; like ``heavy`` it may raise a ``CalibrationError``.
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
