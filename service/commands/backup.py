"""``calibrant backup`` and ``calibrant restore``: the contents of a store as one file."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from backend.command_options import DATA, Config, Data, Note, RedisUrl, RedisUrlFile, command_author, store_url

if TYPE_CHECKING:
    from redis import Redis

_STANDARD = Path("-")
#: Timeout in seconds for replies of the store, which may contain up to 64 MB of a batch.
_PATIENCE = 60.0
#: Kind of line -> singular and plural of its content; the other kinds are parts of these.
_NOUNS = {
    "key": ("API key", "API keys"),
    "batch": ("batch", "batches"),
    "map": ("map", "maps"),
    "alias": ("alias", "aliases"),
    "job": ("job", "jobs"),
    "monitor": ("monitor", "monitors"),
    "audit": ("entry of the audit log", "entries of the audit log"),
    "answer": ("idempotency key", "idempotency keys"),
}


def backup(
    file: Annotated[Path, typer.Argument(help="File to write; - for standard output.")],
    config: Config = None,  # noqa: ARG001 - sets variables
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    data: Data = DATA,
    batches: Annotated[
        bool,
        typer.Option(
            "--batches/--no-batches",
            help="Include stored batches of rows, and the queued and running jobs that need them.",
        ),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the contents of the store to a file. The service can keep running."""
    from backend.store.backup.contents import write_backup

    with (
        _reported(),
        _connected(store_url(redis_url, redis_url_file), data, new=False) as redis,
        _output(file, force) as out,
    ):
        counts = write_backup(redis, out, batches=batches)
    typer.echo(f"backed up: {_counted(counts)}", err=True)


def restore(
    file: Annotated[Path, typer.Argument(help="File to read; - for standard input.")],
    config: Config = None,  # noqa: ARG001 - sets variables
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    data: Data = DATA,
    merge: Annotated[
        bool, typer.Option("--merge", help="Restore into a store that is not empty; existing data is kept unchanged.")
    ] = False,
    note: Note = None,
) -> None:
    """Restore a backup into a store; jobs that had not ended are queued again."""
    from backend.store.backup.restoring import restore as write_into
    from backend.store.server.connection import check_durability

    with _reported(), _input(file) as source, _connected(store_url(redis_url, redis_url_file), data, new=True) as redis:
        check_durability(redis)
        restored = write_into(redis, source, merge=merge, author=command_author(note))
    typer.echo(f"restored: {_counted(restored.written)}", err=True)
    if any(restored.left[kind] for kind in _NOUNS):
        typer.echo(f"skipped because the store already has them: {_counted(restored.left)}", err=True)


def _counted(counts: Mapping[str, int]) -> str:
    """The counts with their nouns."""
    counted = [f"{counts[kind]:,} {nouns[counts[kind] != 1]}" for kind, nouns in _NOUNS.items() if counts.get(kind)]
    return ", ".join(counted) or "nothing"


@contextlib.contextmanager
def _connected(redis_url: str | None, data: Path, *, new: bool) -> Iterator[Redis]:
    """Connect to the given store, or to the embedded one, which is created only if ``new``."""
    from backend.store.server.connection import connect
    from backend.store.server.embedded import store_of

    if redis_url is None and not new and not data.is_dir():
        raise FileNotFoundError(f"there is no store in {data}")
    with store_of(data) if redis_url is None else contextlib.nullcontext(redis_url) as url:
        redis = connect(url, timeout=_PATIENCE)
        try:
            yield redis
        finally:
            redis.close()


@contextlib.contextmanager
def _output(file: Path, force: bool) -> Iterator[BinaryIO]:
    if file != _STANDARD:
        from backend.store.backup.file import new_file

        with new_file(file, force=force) as out:
            yield out
        return
    if sys.stdout.isatty():
        raise OSError("a backup is binary; give a file name, or redirect standard output")
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def _input(file: Path) -> Iterator[BinaryIO]:
    """Open the file; standard input is copied, because a backup is validated completely before anything is written."""
    if file != _STANDARD:
        with file.open("rb") as source:
            yield source
        return
    with tempfile.TemporaryFile() as copy:
        copyfileobj(sys.stdin.buffer, copy)
        yield cast(BinaryIO, copy)


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Report errors in one line."""
    from backend.store.errors import StorageError
    from backend.store.server.connection import UNAVAILABLE, error_name

    try:
        yield
    except StorageError as error:
        raise typer.Exit(_failed(error.detail)) from error
    except UNAVAILABLE as error:
        raise typer.Exit(_failed(f"the store cannot be reached ({error_name(error)})")) from None
    except OSError as error:
        raise typer.Exit(_failed(str(error))) from error


def _failed(what: str) -> int:
    typer.echo(f"calibrant: {what}", err=True)
    return 1
