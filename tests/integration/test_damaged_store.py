"""An embedded store whose files a power failure, a disk or a person has damaged."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from backend.store.errors import EmbeddedStoreFailed
from backend.store.server.append_only import Damage, cut, find_damage
from backend.store.server.embedded import embedded
from tests.store_folder import store_folder

KEYS = 50


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a store with keys in its base file and in the file that is appended to."""
    with store_folder() as folder:
        directory = folder / "data"
        with (
            (folder / "log").open("ab") as log,
            embedded(directory, log=log) as server,
            Redis.from_url(server.url) as redis,
        ):
            _write(redis, "base")
            redis.bgrewriteaof()
            while redis.info("persistence")["aof_rewrite_in_progress"] or not _files(directory, "base.rdb"):
                redis.blpop("nothing", timeout=0.05)
            _write(redis, "appended")
            with redis.pipeline() as pipe:
                pipe.set("in", "one").set("transaction", "two").execute()
        yield directory


def _write(redis: Redis, prefix: str) -> None:
    for i in range(KEYS):
        redis.set(f"{prefix}-{i}", "a value\r\n*1\r\n of two lines")


def _files(directory: Path, end: str) -> list[Path]:
    return sorted((directory / "appendonlydir").glob(f"*.{end}"))


@pytest.fixture
def store(written: Path) -> Iterator[Path]:
    with store_folder() as folder:
        yield Path(shutil.copytree(written, folder / "data"))


def _appended(directory: Path) -> Path:
    return _files(directory, "incr.aof")[-1]


def _keys(directory: Path, *, repair: bool = False) -> int:
    """The number of keys of a store that starts."""
    with (
        (directory / "redis.log").open("ab") as log,
        embedded(directory, log=log, repair=repair) as server,
        Redis.from_url(server.url) as redis,
    ):
        return int(redis.dbsize())


def _refusal(directory: Path) -> str:
    with pytest.raises(EmbeddedStoreFailed) as refused:
        _keys(directory)
    return refused.value.detail


def _garbage(length: int) -> bytes:
    return random.Random(0).randbytes(length)


def _add(content: bytes) -> Callable[[bytes], bytes]:
    return lambda before: before + content


def test_the_files_of_a_store_that_was_stopped_are_complete(store: Path) -> None:
    assert find_damage(store) is None
    assert _keys(store) == 2 * KEYS + 2


@pytest.mark.parametrize(
    ("change", "words", "lost"),
    [
        pytest.param(
            _add(_garbage(300)), "the last 300 of the {size:,} bytes of {file} are no complete record", 0, id="garbage"
        ),
        pytest.param(
            _add(bytes(4096)), "the last 4,096 of the {size:,} bytes of {file} are zeros", 0, id="zeros at the end"
        ),
        pytest.param(lambda before: before[:-10] + bytes(4096), "later records are among them", 2, id="torn-and-zeros"),
        pytest.param(
            lambda before: before[: len(before) // 2] + _garbage(99) + before[len(before) // 2 + 99 :],
            "later records are among them",
            None,
            id="middle",
        ),
        pytest.param(
            lambda before: bytes(len(before)),
            "the last {size:,} of the {size:,} bytes of {file} are zeros",
            KEYS + 2,
            id="only-zeros",
        ),
    ],
)
@pytest.mark.slow
def test_an_unreadable_end_is_named_and_removed_only_on_request(
    store: Path, change: Callable[[bytes], bytes], words: str, lost: int | None
) -> None:
    file = _appended(store)
    damaged = change(file.read_bytes())
    file.write_bytes(damaged)
    for _ in range(2):
        refusal = _refusal(store)
        for part in (words.format(size=len(damaged), file=file), str(store / "redis.log"), "--repair-store"):
            assert part in refusal
        assert file.read_bytes() == damaged
    keys = _keys(store, repair=True)
    assert keys == 2 * KEYS + 2 - lost if lost is not None else KEYS < keys < 2 * KEYS + 2
    (removed,) = store.glob("*.from-byte-*")
    assert removed.stat().st_mode & 0o777 == 0o600
    start = int(removed.name.rpartition("-")[2])
    assert removed.read_bytes() == damaged[start:]
    assert file.read_bytes()[:start] == damaged[:start]
    assert _keys(store) == keys


def test_a_repair_of_a_complete_file_removes_nothing(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = _appended(store).read_bytes()
    assert _keys(store, repair=True) == 2 * KEYS + 2
    assert _appended(store).read_bytes()[: len(before)] == before
    assert "nothing was removed" in caplog.text
    assert list(store.glob("*.from-byte-*")) == []


def test_a_record_that_was_being_written_is_removed_with_a_warning(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _appended(store)
    os.truncate(file, file.stat().st_size - 10)
    damage = find_damage(store)
    assert isinstance(damage, Damage)
    assert damage.records == 2  # those of the unfinished transaction
    with caplog.at_level(logging.WARNING):
        assert _keys(store) == 2 * KEYS
    assert "incomplete" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "change", "place"),
    [
        pytest.param("base.rdb", None, "appendonlydir", id="no base file"),
        pytest.param("incr.aof", None, "appendonlydir", id="no appended file"),
        pytest.param(
            "base.rdb",
            lambda content: content[: len(content) // 2].ljust(len(content), b"\0"),
            "appendonlydir",
            id="half a base file",
        ),
        pytest.param("manifest", lambda _: b"", "manifest", id="empty manifest"),
        pytest.param("manifest", lambda _: bytes(100), "manifest", id="manifest of zeros"),
    ],
)
def test_a_missing_or_damaged_file_is_reported_with_the_log(
    store: Path, end: str, change: Callable[[bytes], bytes] | None, place: str
) -> None:
    (file,) = _files(store, end)
    content = file.read_bytes()
    file.unlink()
    if change is not None:
        file.write_bytes(change(content))
    refusal = _refusal(store)
    for part in (place, file.name if change is None else "", str(store / "redis.log"), "restore a backup"):
        assert part in refusal


def test_a_store_without_its_manifest_does_not_start_empty(store: Path) -> None:
    (manifest,) = _files(store, "manifest")
    saved = manifest.read_bytes()
    manifest.unlink()
    refusal = _refusal(store)
    assert str(manifest) in refusal
    assert "restore a backup" in refusal
    manifest.write_bytes(saved)
    assert _keys(store) == 2 * KEYS + 2


def test_a_store_that_is_damaged_again_at_the_same_byte_is_repaired_again(store: Path) -> None:
    file = _appended(store)
    size = file.stat().st_size
    ends = [bytes(64), _garbage(64), bytes(32)]
    for end in ends:
        file.write_bytes(file.read_bytes()[:size] + end)
        damage = find_damage(store)
        assert damage is not None
        cut(damage)
    removed = [store / f"{file.name}.from-byte-{size}{number}" for number in ("", ".2", ".3")]
    assert [path.read_bytes() for path in removed] == ends
    assert file.stat().st_size == size
