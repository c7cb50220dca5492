"""The file of a backup: lines of JSON, compressed by zstandard, which prove that they are whole.

The last line tells the SHA-256 of all lines before it. Whoever reads the file to its end so knows whether it is as it
was written.
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
#: No header is longer.
_LONGEST_HEADER = 4096


class Text(NamedTuple):
    """One line as JSON without its end, and the kind that it tells."""

    kind: str
    json: bytes


class BackupWriter:
    """Writes lines to a file that stays open; without ``end`` it is no backup."""

    def __init__(self, out: BinaryIO) -> None:
        # Without a checksum of its own the frame ends with the last line: no byte can be cut off unseen.
        self._out = ZstdCompressor(_LEVEL, write_checksum=False).stream_writer(out, closefd=False)
        self._digest = hashlib.sha256()
        self._counts: Counter[str] = Counter()
        self._write(Header(version=__version__, created_at=stamp()).model_dump_json().encode())

    def add(self, text: Text) -> None:
        """Write a line."""
        self._counts[text.kind] += 1
        self._write(text.json)

    def end(self) -> dict[str, int]:
        """Write the last line; give how many there are of each kind."""
        last = End(counts=dict(self._counts), sha256=self._digest.hexdigest())
        self._write(last.model_dump_json().encode())
        self._out.close()  # type: ignore[no-untyped-call]
        return last.counts

    def _write(self, line: bytes) -> None:
        self._digest.update(line + b"\n")
        self._out.write(line + b"\n")


def read_lines(source: BinaryIO) -> Iterator[Line]:
    """The lines of a backup between its header and its end; reads a file that can be sought from its beginning.

    Raises ``DamagedBackup`` for what is no whole backup, at its end at the latest, and ``LaterFormat``.
    """
    source.seek(0)
    unpacked = ZstdDecompressor().stream_reader(source, read_across_frames=True, closefd=False)
    try:
        with io.BufferedReader(cast(Any, unpacked), _BUFFER_BYTES) as texts:
            header = texts.readline(_LONGEST_HEADER)
            _check_header(header)
            yield from _checked(texts, hashlib.sha256(header))
    except ZstdError as error:
        raise DamagedBackup("the file is no backup, or is damaged") from error


def _checked(texts: io.BufferedReader[Any], digest: hashlib._Hash) -> Iterator[Line]:
    counts: Counter[str] = Counter()
    for text in texts:
        line = _read(text)
        if isinstance(line, End):
            if texts.read(1) or line != End(counts=dict(counts), sha256=digest.hexdigest()):
                raise DamagedBackup("the backup is damaged: it is not what its last line says")
            return
        digest.update(text)
        counts[line.kind] += 1
        yield line
    raise DamagedBackup("the backup is cut off: its last line is missing")


def _check_header(text: bytes) -> None:
    try:
        header = Header.model_validate_json(text)
    except ValidationError as error:
        raise DamagedBackup("the file is no backup, or is damaged") from error
    check_format(header.format, newest_format(Header))


def _read(text: bytes) -> Line | End:
    try:
        return LINE.validate_json(text)
    except ValidationError as error:
        raise DamagedBackup("the backup is damaged or cut off: a line is none that a backup has") from error


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file, mode 0600, that stands at its path when all of it is on the disk, and not at all before.

    Raises ``FileExistsError`` where there is one already, unless by ``force`` it is to be replaced.
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
        raise FileExistsError(f"{path} is there already; --force replaces it")
