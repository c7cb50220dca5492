"""A clock that can be set: libfaketime between the API and the workers and their wall clock, told by a file."""

from __future__ import annotations

from pathlib import Path

_LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"


def faketime_library() -> Path | None:
    """The library, where Debian's package ``faketime`` is installed."""
    return next(iter(sorted(Path("/").glob(_LIBRARIES.lstrip("/")))), None)


class Clock:
    """The wall clock of the processes that have its environment, ahead of this machine's by what ``set`` was told."""

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        self._library = library
        self.set(0)

    def environment(self) -> dict[str, str]:
        """What makes a process see this clock. The monotonic clock is left alone, as when a clock is set."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        """Set it so far ahead of this machine's, or behind; seen within a second."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)
