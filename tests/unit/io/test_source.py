from __future__ import annotations

import contextlib
import io
import resource
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

from calibrant.io.errors import NoRoom
from calibrant.io.limits import FileLimits
from calibrant.io.source import blocks_of, opened, spooled, write_blocks

MIB = 1 << 20


class _Pipe(io.BytesIO):
    """A stream that is read once."""

    def seekable(self) -> bool:
        return False


@contextlib.contextmanager
def _full_at(size: int) -> Iterator[None]:
    """No file grows beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_pipe_that_does_not_fit_on_the_disk_is_reported() -> None:
    pipe = cast(BinaryIO, _Pipe(bytes(40 * MIB)))
    with (
        _full_at(34 * MIB),
        pytest.raises(NoRoom, match="no space left for temporary files"),
        opened(pipe, FileLimits()),
    ):
        pass


def test_a_temporary_file_is_announced_before_it_is_written() -> None:
    sizes: list[int] = []
    with spooled() as target:
        write_blocks(blocks_of(io.BytesIO(bytes(31 * MIB))), target, FileLimits(spool=sizes.append))
    assert sizes == []  # in memory
    with spooled() as target:
        write_blocks(blocks_of(io.BytesIO(bytes(34 * MIB))), target, FileLimits(spool=sizes.append))
    assert sizes == [33 * MIB, 34 * MIB]
