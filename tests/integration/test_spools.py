"""Files that are sent to the web page while the volume of temporary files has little room, or none."""

from __future__ import annotations

import contextlib
import gzip
import os
import resource
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from service.settings import Settings
from service.stack import Stack
from tests.integration.conftest import own_service, serving
from tests.integration.responses import text_of
from tests.integration.sockets import begun
from tests.integration.visiting import Visitor

pytestmark = pytest.mark.slow

MIB = 1 << 20
#: Bytes of the volume.
VOLUME = 20 * MIB
ROWS = b"0.125,0\n0.875,1\n0.75,0\n0.25,1\n"
_HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\np,y\n'


def _csv(size: int) -> bytes:
    return b"p,y\n" + ROWS * (size // len(ROWS))


@contextlib.contextmanager
def _volume(folder: Path) -> Iterator[bool]:
    """Mount a small volume in memory; whether that is permitted here."""
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={VOLUME}", "tmpfs", str(folder))
    mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(("umount", "--lazy", str(folder)), check=True)


@pytest.fixture
def small(folder: Path, redis_url: str, redis: Redis, tmp_path: Path) -> Iterator[Stack]:
    """A service whose temporary files have 20 MiB: a volume, else, who may mount none, the largest size of a file."""
    spools = tmp_path / "spools"
    with (
        _volume(spools) as mounted,
        own_service(folder / "spools", {"TMPDIR": str(spools)}, redis_url=redis_url) as running,
    ):
        if not mounted:
            _limit_files(running, VOLUME)
        yield running


def _limit_files(running: Stack, size: int) -> None:
    """Have the API write no file beyond a size, as on a disk that is full."""
    resource.prlimit(running.api.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _upload(visitor: Visitor, content: bytes, *, part: bool = False) -> httpx.Response:
    headers = {"HX-Request": "true"} if part else {}
    form = {"csrf_token": visitor.token("/")}
    return visitor.post("/ui/upload", data=form, files={"file": ("a.csv", content)}, headers=headers)


def test_a_file_larger_than_the_volume_gets_507_next_to_its_field_and_the_service_goes_on(small: Stack) -> None:
    with Visitor(small.url) as visitor:
        for part in (True, False):
            refused = text_of(_upload(visitor, _csv(45_000_000), part=part), 507)
            assert '<p id="file-hint" class="error"' in refused
            assert "temporary files" in refused
            assert visitor.get("/health/ready").status_code == 200
            # Its room is free again.
            for _ in range(2):
                assert _upload(visitor, _csv(12_000_000)).status_code == 303


def test_a_file_that_unpacks_to_more_than_the_volume_has_gets_507(small: Stack) -> None:
    packed = gzip.compress(_csv(60_000_000), 1)
    assert len(packed) < MIB
    with Visitor(small.url) as visitor:
        assert _upload(visitor, packed).status_code == 507
        assert _upload(visitor, _csv(2_000_000)).status_code == 303


def test_a_volume_that_is_full_in_the_middle_of_a_file_gives_507(folder: Path, redis_url: str, redis: Redis) -> None:
    with own_service(folder / "spools", redis_url=redis_url) as running, Visitor(running.url) as visitor:
        assert _upload(visitor, _csv(6_000_000)).status_code == 303
        _limit_files(running, 4 * MIB)
        refused = _upload(visitor, _csv(6_000_000))
        assert (refused.status_code, "volume of temporary files is full" in refused.text) == (507, True)
        assert _upload(visitor, gzip.compress(_csv(60_000_000), 1)).status_code == 507
        assert _upload(visitor, _csv(2_000_000)).status_code == 303


def _begun(visitor: Visitor, stated: int, content: bytes = _HEAD) -> socket.socket:
    """An upload of a stated size that has begun and does not go on."""
    origin = str(visitor.base_url).rstrip("/")
    kind = {"Content-Type": "multipart/form-data; boundary=x", "X-CSRF-Token": visitor.token("/"), "Origin": origin}
    cookies = "; ".join(f"{name}={text}" for name, text in visitor.cookies.items())
    return begun(f"{origin}/ui/upload", stated, content, kind | ({"Cookie": cookies} if cookies else {}))


def _status(visitor: Visitor, stated: int) -> int:
    """507 for an upload that has no room; 400 for one that has, whose content is no form."""
    with _begun(visitor, stated, b"nonsense") as connection:
        return int(connection.recv(12)[9:])


def _share_of_free(share: float) -> int:
    return int(shutil.disk_usage(tempfile.gettempdir()).free * share)


def test_an_upload_larger_than_the_volume_is_refused_before_it_is_sent_and_a_disconnect_frees_its_room(
    redis: Redis, redis_url: str
) -> None:
    with serving(Settings(redis_url, max_body_bytes=1 << 60)) as url, Visitor(url) as visitor:
        assert _status(visitor, _share_of_free(2.0)) == 507
        with _begun(visitor, _share_of_free(0.6)):
            # Its room is known to be taken once another has none.
            while _status(visitor, _share_of_free(0.6)) != 507:
                pass
            assert _status(visitor, _share_of_free(0.2)) == 400
        # The connection is closed: room for another, once the service has seen it.
        while _status(visitor, _share_of_free(0.6)) != 400:
            pass


def test_a_tenant_leaves_half_of_the_volume_to_others(redis: Redis, redis_url: str) -> None:
    store = ApiKeyStore(redis)
    keys = [store.create(tenant, tenant=tenant, scope="write").text for tenant in ("one", "other")]
    with serving(Settings(redis_url, max_body_bytes=1 << 60)) as url, Visitor(url) as full, Visitor(url) as other:
        full.sign_in(keys[0])
        other.sign_in(keys[1])
        assert _status(full, _share_of_free(0.7)) == 507
        with _begun(full, _share_of_free(0.4)):
            while _status(full, _share_of_free(0.4)) != 507:
                pass
            assert _status(other, _share_of_free(0.4)) == 400
