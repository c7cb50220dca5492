"""A disk that can be filled: a file system in a file or in memory, only for the store."""

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
    """A folder on its own file system; on the machine's, with ``kind`` None, if none can be mounted."""

    def __init__(self, folder: Path, kind: str | None) -> None:
        self.folder = folder
        self.kind = kind

    def fill(self) -> None:
        """Fill the disk."""
        path = self.folder / _FILLER
        with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def free(self) -> None:
        """Remove the file that fills the disk."""
        (self.folder / _FILLER).unlink(missing_ok=True)


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """Mount a file system on ``folder``: ext4 in a file beside it, or one in memory; requires root."""
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
