"""A wall clock that can be changed for only the API and the workers, by a small preloaded C library.

libfaketime does not work here: with an unchanged monotonic clock every sleep of Python fails.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The wall clock of the processes with its environment: the kernel's plus the seconds given to ``set``."""

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        self._library = library
        self._file.write_bytes(struct.pack("q", 0))

    def environment(self) -> dict[str, str]:
        """The environment that makes a process use this clock."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set the offset from the kernel's clock in seconds; it takes effect at once."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))


def made_clock(folder: Path) -> Clock | None:
    """A clock with its files in ``folder``; None without a C compiler."""
    compiler, library = shutil.which("cc"), folder / "clock.so"
    if compiler is None:
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    built = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    return None if built.returncode else Clock(folder / "clock", library)
