"""How large what a body unpacks to may be; over a limit is a 413, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from calibrant.io.bounds import LIGHT_BYTES
from service.errors import TooLarge
from service.settings import Settings

_NUMBER_BYTES = 8


class Limits(NamedTuple):
    """The limits of a body's contents: bytes once unpacked, rows, classes, and the nesting and values of JSON.

    ``heavy`` is called before more than 1 MiB is unpacked or read, and raises where that cannot be done now.
    """

    max_unpacked_bytes: int
    max_rows: int
    max_classes: int
    max_json_depth: int
    heavy: Callable[[], None] | None = None
    max_json_values: int = 16 * 1024 * 1024

    @classmethod
    def of(cls, settings: Settings, heavy: Callable[[], None] | None = None) -> Self:
        """Those that the settings name."""
        known = (settings.max_unpacked_bytes, settings.max_rows, settings.max_classes, settings.max_json_depth)
        return cls(*known, heavy, settings.max_json_values)

    def check_rows(self, n: int, pointer: str = "") -> None:
        """Raise ``TooLarge`` for more rows than the limit."""
        if n > self.max_rows:
            raise TooLarge.at(pointer, f"may have at most {self.max_rows} rows")
        self._weigh(n * _NUMBER_BYTES)

    def check_classes(self, n_classes: int, pointer: str = "/predictions") -> None:
        """Raise ``TooLarge`` for more classes than the limit."""
        if n_classes > self.max_classes:
            raise TooLarge.at(pointer, f"may have at most {self.max_classes} classes")

    def check_shape(self, shape: Sequence[int], pointer: str) -> None:
        """Check the rows of an array, and its classes where it has rows of several numbers."""
        if shape:
            self.check_rows(shape[0], pointer)
        if len(shape) > 1:
            self.check_classes(shape[1], pointer)

    def check_bytes(self, n_bytes: int) -> None:
        """Raise ``TooLarge`` for more unpacked bytes than the limit."""
        if n_bytes > self.max_unpacked_bytes:
            raise TooLarge(f"the body unpacks to more than {self.max_unpacked_bytes} bytes")
        self._weigh(n_bytes)

    def _weigh(self, n_bytes: int) -> None:
        if n_bytes > LIGHT_BYTES and self.heavy is not None:
            self.heavy()
