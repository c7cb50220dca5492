from __future__ import annotations

import shutil
import tempfile

import pytest

from service.callers import LOCAL, Caller
from service.errors import SpoolFull
from service.shares import Spools

ONE, OTHER = Caller(tenant="one", key_id="1"), Caller(tenant="other", key_id="2")


def _free() -> int:
    """Bytes that are free where temporary files are; other programs write there too."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def test_all_files_together_have_no_more_room_than_the_volume_has_free() -> None:
    spools = Spools()
    with spools.spool(LOCAL) as first, spools.spool(LOCAL) as second:
        first.reserve(int(_free() * 0.6))
        with pytest.raises(SpoolFull, match="this process"):
            second.reserve(int(_free() * 0.6))
        second.reserve(int(_free() * 0.3))
    with spools.spool(LOCAL) as third:
        third.reserve(int(_free() * 0.6))


def test_a_tenant_leaves_half_of_the_room_to_others() -> None:
    spools = Spools()
    with spools.spool(ONE) as first, spools.spool(ONE) as second, spools.spool(OTHER) as other:
        first.reserve(int(_free() * 0.4))
        with pytest.raises(SpoolFull, match="the tenant"):
            second.reserve(int(_free() * 0.4))
        other.reserve(int(_free() * 0.4))


def test_what_is_written_is_not_counted_twice() -> None:
    spools = Spools()
    size = 32 << 20
    with spools.spool(ONE) as first, tempfile.TemporaryFile() as file:
        first.reserve(size)
        file.write(bytes(size))
        file.flush()
        first.grow(size)
        # Half of what is free and what the file has taken, less the file itself.
        with spools.spool(ONE) as second:
            second.reserve(int((_free() + size) * 0.49) - size)


def test_a_file_that_grows_is_refused_where_the_volume_ends() -> None:
    with Spools().spool(LOCAL) as spool:
        for part in range(1, 10):
            spool.grow(part * 1000)
        with pytest.raises(SpoolFull):
            spool.grow(_free() * 2)


def test_there_is_no_room_without_a_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with Spools().spool(LOCAL) as spool, pytest.raises(SpoolFull, match="no folder"):
        spool.reserve(1)


def test_a_volume_that_may_not_be_filled_has_a_bound_of_its_own() -> None:
    spools = Spools(1000)
    with spools.spool(ONE) as first, spools.spool(OTHER) as other:
        first.grow(500)
        with pytest.raises(SpoolFull, match="the tenant may currently have at most 500 bytes"):
            first.grow(501)
        other.grow(500)
