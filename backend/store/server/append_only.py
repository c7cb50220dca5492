"""The append-only file of an embedded server: whether it can be read, and the removal of an unreadable end.

The folder ``appendonlydir`` has a manifest that lists a base file and the files that were appended to it. Each record
is a command in the protocol of Redis. After a power failure, the last file may end with zeros or with a part of a
record. The server removes an incomplete record by itself, but does not start with anything else.
"""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from backend.store.errors import EmbeddedStoreFailed

_MANIFEST = "appendonly.aof.manifest"
_LISTED = re.compile(rb'file "?([^\s"]+)"? seq ([0-9]+) type ([bih])')
_HEAD = re.compile(rb"\*([0-9]{1,9})\r\n")
_LENGTH = re.compile(rb"\$([0-9]{1,10})\r\n")
_COMMENT = re.compile(rb"#[^\r\n]{0,200}\r\n")
#: The start of a record; two bytes of its end precede it.
_RECORD = re.compile(rb"\r\n\*[0-9]{1,9}\r\n\$[0-9]{1,10}\r\n")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Damage:
    """The part of an append-only file from byte ``start`` on, which cannot be read; ``records`` follow in it."""

    file: Path
    start: int
    size: int
    records: int
    only_zeros: bool

    def __str__(self) -> str:
        unread = self.size - self.start
        if self.records:
            content = f"cannot be read, and {self.records:,} later records are among them"
        else:
            content = "are zeros" if self.only_zeros else "are no complete record"
        return f"the last {unread:,} of the {self.size:,} bytes of {self.file} {content}"


def check_manifest(folder: Path) -> None:
    """Raise ``EmbeddedStoreFailed`` if a data folder has files without a manifest: a server would start empty."""
    place = folder / "appendonlydir"
    manifest = place / _MANIFEST
    if manifest.exists() or not place.is_dir():
        return
    stored = [path for path in sorted(place.glob("appendonly.aof.*")) if path.stat().st_size]
    if stored:
        raise EmbeddedStoreFailed(
            f"{stored[0]} has data, but the list of such files, {manifest}, is missing, and the store would start "
            "without the data; put the list back, or move the folder away and restore a backup"
        )


def find_damage(folder: Path) -> Damage | None:
    """The unreadable end of the last append-only file of a data folder; None if there is none, or no such file."""
    file = _last_file(folder / "appendonlydir")
    size = 0 if file is None else file.stat().st_size
    if file is None or not size:
        return None
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = _readable(content)
        if start == size:
            return None
        records = sum(1 for _ in _RECORD.finditer(content, start + 1))
        only_zeros = all(not content[i : i + _CHUNK].strip(b"\0") for i in range(start, size, _CHUNK))
    return Damage(file, start, size, records, only_zeros)


def cut(damage: Damage) -> Path:
    """Remove an unreadable end; returns the file that keeps the removed bytes, a new one also after earlier repairs."""
    place, name = damage.file.parent.parent, f"{damage.file.name}.from-byte-{damage.start}"
    names = chain([name], (f"{name}.{number}" for number in count(2)))
    removed = next(path for path in map(place.joinpath, names) if not path.exists())
    with damage.file.open("r+b") as file, removed.open("xb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        file.seek(damage.start)
        while part := file.read(_CHUNK):
            copy.write(part)
        copy.flush()
        os.fsync(copy.fileno())
        file.truncate(damage.start)
        os.fsync(file.fileno())
    return removed


def _last_file(place: Path) -> Path | None:
    """The file that the server appends to, if the manifest lists one."""
    try:
        manifest = (place / _MANIFEST).read_bytes()
    except OSError:
        return None
    listed = [(int(seq), name) for name, seq, kind in _LISTED.findall(manifest) if kind == b"i"]
    file = place / os.fsdecode(max(listed)[1]) if listed else None
    return file if file is not None and file.is_file() else None


def _readable(content: mmap.mmap) -> int:
    """The number of bytes up to the last complete record that is not part of an unfinished transaction."""
    at, readable, in_transaction = 0, 0, False
    while at < len(content):
        if comment := _COMMENT.match(content, at):
            at = comment.end()
        else:
            command = _read_record(content, at)
            if command is None:
                break
            at, name = command
            in_transaction = name == b"MULTI" or (in_transaction and name != b"EXEC")
        if not in_transaction:
            readable = at
    return readable


def _read_record(content: mmap.mmap, at: int) -> tuple[int, bytes] | None:
    """The end of the record at a byte, and its command in upper case; None if it is not a complete record."""
    head = _HEAD.match(content, at)
    if head is None or not int(head[1]):
        return None
    at, name = head.end(), b""
    for i in range(int(head[1])):
        length = _LENGTH.match(content, at)
        if length is None:
            return None
        start = length.end()
        at = start + int(length[1]) + 2
        if content[at - 2 : at] != b"\r\n":
            return None
        if i == 0:
            name = content[start : at - 2][:20].upper()
    return at, name
