"""A wall clock that can be set, for the API and the workers alone: a few lines of C between them and the kernel's.

libfaketime was tried first: with the monotonic clock left alone every sleep of Python fails in it.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The wall clock of the processes that have its environment, ahead of the kernel's by what ``set`` was told."""

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        self._library = library
        self._file.write_bytes(struct.pack("q", 0))

    def environment(self) -> dict[str, str]:
        """What makes a process see this clock."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set it so far ahead of the kernel's, or behind; seen at once."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))


def made_clock(folder: Path) -> Clock | None:
    """A clock whose files lie in ``folder``; None where there is no C compiler."""
    compiler, library = shutil.which("cc"), folder / "clock.so"
    if compiler is None:
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    built = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    return None if built.returncode else Clock(folder / "clock", library)
