"""The file of a backup: lines of JSON, compressed with Zstandard, that prove their integrity.

The last line contains the SHA-256 of all lines before it, so a reader of the whole file knows whether it is intact.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from pydantic import ValidationError
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError

from backend.store.clock import stamp
from backend.store.errors import DamagedBackup
from backend.store.formats import check_format, newest_format
from calibrant import __version__
from schemas.backup import LINE, End, Header, Line

_LEVEL = 3
_BUFFER_BYTES = 1024 * 1024
#: Maximum bytes of a header.
_LONGEST_HEADER = 4096
#: Maximum bytes of another line: the most that the store keeps in one value.
_LONGEST_LINE = 512 * 1024 * 1024


class Text(NamedTuple):
    """One line as JSON without its line end, and its kind."""

    kind: str
    json: bytes


class BackupWriter:
    """Writes lines to a file that stays open; without ``end`` the file is not a valid backup."""

    def __init__(self, out: BinaryIO) -> None:
        # Without a checksum the frame ends with the last line, so that any truncation is detected.
        self._out = ZstdCompressor(_LEVEL, write_checksum=False).stream_writer(out, closefd=False)
        self._digest = hashlib.sha256()
        self._counts: Counter[str] = Counter()
        self._write(Header(version=__version__, created_at=stamp()).model_dump_json().encode())

    def add(self, text: Text) -> None:
        """Write a line."""
        self._counts[text.kind] += 1
        self._write(text.json)

    def end(self) -> dict[str, int]:
        """Write the last line; returns the number of lines of each kind."""
        last = End(counts=dict(self._counts), sha256=self._digest.hexdigest())
        self._write(last.model_dump_json().encode())
        self._out.close()  # type: ignore[no-untyped-call]
        return last.counts

    def _write(self, line: bytes) -> None:
        self._digest.update(line + b"\n")
        self._out.write(line + b"\n")


def read_lines(source: BinaryIO) -> Iterator[Line]:
    """Yield the lines of a backup between header and end; the file must be seekable, and is read from the start.

    Raises ``DamagedBackup`` for an incomplete or damaged backup, at its end at the latest, and ``LaterFormat``.
    """
    source.seek(0)
    unpacked = ZstdDecompressor().stream_reader(source, read_across_frames=True, closefd=False)
    try:
        with io.BufferedReader(cast(Any, unpacked), _BUFFER_BYTES) as texts:
            header = texts.readline(_LONGEST_HEADER)
            _check_header(header)
            yield from _checked(texts, hashlib.sha256(header))
    except ZstdError as error:
        raise DamagedBackup("the file is not a backup, or is damaged") from error


def _checked(texts: io.BufferedReader[Any], digest: hashlib._Hash) -> Iterator[Line]:
    counts: Counter[str] = Counter()
    while text := texts.readline(_LONGEST_LINE):
        line = _read(text)
        if isinstance(line, End):
            if texts.read(1) or line != End(counts=dict(counts), sha256=digest.hexdigest()):
                raise DamagedBackup("the backup is damaged: its contents do not match the last line")
            return
        digest.update(text)
        counts[line.kind] += 1
        yield line
    raise DamagedBackup("the backup is truncated: the last line is missing")


def _check_header(text: bytes) -> None:
    try:
        header = Header.model_validate_json(text)
    except ValidationError as error:
        raise DamagedBackup("the file is not a backup, or is damaged") from error
    check_format(header.format, newest_format(Header))


def _read(text: bytes) -> Line | End:
    try:
        return LINE.validate_json(text)
    except ValidationError as error:
        raise DamagedBackup("the backup is damaged or truncated: it contains an invalid line") from error


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Create a file with mode 0600 that appears at its path only once it is completely on disk.

    Raises ``FileExistsError`` if the path exists, unless ``force`` allows replacing it.
    """
    _refuse_existing(path, force)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        _refuse_existing(path, force)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise FileExistsError(f"{path} already exists; use --force to replace it")
