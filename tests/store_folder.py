"""Where stores of tests keep their data."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: A file system in memory, and the bytes that it must have free.
_MEMORY, _NEEDED = Path("/dev/shm"), 2 << 30


@contextlib.contextmanager
def store_folder() -> Iterator[Path]:
    """A folder for the data of stores and services, removed at the end.

    It is in memory if there is room: a store answers only once the disk has its writes, which takes seconds while
    something else writes much, such as an installation before the tests. The path is short, because that of a unix
    socket may have about 100 characters.
    """
    in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _NEEDED
    with tempfile.TemporaryDirectory(prefix="calibrant-test-", dir=_MEMORY if in_memory else None) as path:
        yield Path(path)
