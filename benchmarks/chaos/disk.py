"""A disk that can be full: a file system in a file, or in memory, for the store alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_BYTES = 1024 * 1024 * 1024
_FILLER = "filler"


class Disk:
    """A folder on a file system of its own, or on this machine's where none could be made: ``kind`` is None then."""

    def __init__(self, folder: Path, kind: str | None) -> None:
        self.folder = folder
        self.kind = kind

    def fill(self) -> None:
        """Leave no byte free."""
        path = self.folder / _FILLER
        with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def free(self) -> None:
        """Take away what fills it."""
        (self.folder / _FILLER).unlink(missing_ok=True)


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """Mount a file system on ``folder``: ext4 in a file beside it, else one in memory; needs to be root."""
    folder.mkdir()
    image = folder.with_suffix(".image")
    kind = _mounted(folder, image)
    try:
        yield Disk(folder, kind)
    finally:
        if kind is not None:
            _succeeds("umount", "--lazy", str(folder))
        image.unlink(missing_ok=True)


def _mounted(folder: Path, image: Path) -> str | None:
    with image.open("wb") as file:
        os.truncate(file.fileno(), _BYTES)
    if _succeeds("mkfs.ext4", "-q", str(image)) and _succeeds("mount", "-o", "loop", str(image), str(folder)):
        return "ext4 in a file"
    if _succeeds("mount", "-t", "tmpfs", "-o", f"size={_BYTES}", "tmpfs", str(folder)):
        return "tmpfs"
    return None


def _succeeds(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
