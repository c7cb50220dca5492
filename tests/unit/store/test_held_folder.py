"""The folder of maps in memory: what is read from it, and which folders are not used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backend.held_folder import HeldFolder, digest_of
from schemas.held import CachedMap, CachedState

_URL = "redis://:secret@localhost:6379/0"
_DOCUMENT = {"method": "identity"}


@pytest.fixture
def folder(tmp_path: Path) -> HeldFolder:
    return HeldFolder(tmp_path / "held", _URL)


def _state(folder: HeldFolder, *digests: str) -> CachedState:
    maps = [
        CachedMap(tenant="a", id="map_1", name=None, version=None, created_at="", references=[], digest=digest)
        for digest in digests
    ]
    return CachedState(store=folder.store, as_of=1.0, keys=[], maps=maps)


def _written(folder: HeldFolder) -> str:
    digest = folder.write_map("a", "map_1", _DOCUMENT)
    assert digest is not None
    folder.write(_state(folder, digest))
    return digest


def test_a_state_and_its_maps_are_read_again(folder: HeldFolder) -> None:
    digest = _written(folder)
    assert folder.read() == _state(folder, digest)
    assert folder.read_map("a", "map_1", digest) == _DOCUMENT


def test_a_state_of_another_version_is_not_used(folder: HeldFolder, tmp_path: Path) -> None:
    content = _state(folder).model_dump_json().replace('"format":1', '"format":2').encode()
    (tmp_path / "held" / "state").write_bytes(digest_of(content).encode() + b"\n" + content)
    assert folder.read() is None


def test_a_map_is_read_for_its_own_tenant_and_id_alone(folder: HeldFolder) -> None:
    digest = _written(folder)
    assert folder.read_map("b", "map_1", digest) is None
    assert folder.read_map("a", "map_2", digest) is None
    assert folder.read_map("a", "map_1", digest_of(b"")) is None


def test_the_password_of_the_store_is_not_in_the_folder(folder: HeldFolder, tmp_path: Path) -> None:
    _written(folder)
    assert all(b"secret" not in path.read_bytes() for path in (tmp_path / "held").iterdir())
    folder.close()
    assert HeldFolder(tmp_path / "held", _URL.replace("secret", "changed")).read() is not None
    with pytest.raises(OSError, match="Resource temporarily unavailable"):
        HeldFolder(tmp_path / "held", _URL)


def test_files_that_are_not_part_of_the_state_are_deleted(folder: HeldFolder, tmp_path: Path) -> None:
    digest = _written(folder)
    folder.write_map("a", "map_2", _DOCUMENT)
    (tmp_path / "held" / f"{digest}.new").touch()
    folder.read()
    assert {path.name for path in (tmp_path / "held").iterdir()} == {"state", "lock", digest}


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(OSError, match="it has other files"):
        HeldFolder(tmp_path, _URL)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_files_and_folders_of_other_users_are_not_used(
    folder: HeldFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = _written(folder)
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    assert folder.read_map("a", "map_1", digest) is None
    with pytest.raises(PermissionError, match="it belongs to another user"):
        HeldFolder(tmp_path / "held", _URL)
    assert folder.read() is None


def test_a_link_in_the_folder_is_not_followed(folder: HeldFolder, tmp_path: Path) -> None:
    _written(folder)
    state = tmp_path / "held" / "state"
    state.rename(tmp_path / "state")
    state.symlink_to(tmp_path / "state")
    assert folder.read() is None
