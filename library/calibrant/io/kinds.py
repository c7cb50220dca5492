"""What kind a file is, by its first bytes, and files packed by gzip or Zstandard."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import zstandard

from calibrant.io.arrow import ArrowTable, ParquetTable
from calibrant.io.bounds import Bounds
from calibrant.io.csv import CsvTable
from calibrant.io.errors import DamagedFile, WrongKind
from calibrant.io.npz import NpyTable, NpzTable
from calibrant.io.source import Kept, copy, spooled
from calibrant.io.table import Table
from calibrant.io.texts import quoted

# --- Files packed by gzip or Zstandard, unpacked into a file of bounded size

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: What a frame may ask to be remembered: 128 MiB, as zstd's own command.
_MAX_WINDOW = 1 << 27

Unpack = Callable[[BinaryIO, BinaryIO, Bounds], None]


def packing(head: bytes) -> Unpack | None:
    """What unpacks a file that begins so, to no more than the limit; None for one that is not packed."""
    if head.startswith(_GZIP):
        return _gunzip
    return _unzstd if head.startswith(_ZSTD) else None


def _gunzip(file: BinaryIO, target: BinaryIO, bounds: Bounds) -> None:
    file.seek(0)
    try:
        with gzip.GzipFile(fileobj=Kept(file)) as plain:
            copy(cast(BinaryIO, plain), target, bounds)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedFile("the file is packed by gzip, and damaged or cut off") from error


def _unzstd(file: BinaryIO, target: BinaryIO, bounds: Bounds) -> None:
    file.seek(0)
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
            cast(BinaryIO, Kept(file)), read_across_frames=True
        )
        with reader as plain:
            copy(cast(BinaryIO, plain), target, bounds)
    except zstandard.ZstdError as error:
        raise DamagedFile("the file is packed by Zstandard, and damaged or cut off") from error


# --- What kind a file is, by its first bytes; its name decides nothing

#: The beginnings of files that are none of ours, and what people call them.
_OTHERS = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"RIFF", "an image, sound or film (RIFF)"),
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Office document: save it as CSV"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"BZh", "packed by bzip2: unpack it, or pack it by gzip"),
    (b"\xfd7zXZ\0", "packed by xz: unpack it, or pack it by gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it"),
    (b"Rar!", "a RAR archive: unpack it"),
    (b"\x7fELF", "a program"),
    (b"{\\rtf", "an RTF document"),
    (b"FEA1", "an old Feather file: save it as Feather version 2 or Parquet"),
    (b"Obj\x01", "an Avro file: save it as CSV or Parquet"),
    (b"ORC", "an ORC file: save it as CSV or Parquet"),
)
_ZIP, _NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_HEAD = 512


@contextmanager
def open_table(file: BinaryIO, name: str, bounds: Bounds) -> Iterator[Table]:
    """Open a file as the table that it is; raises ``WrongKind``, or what the kind's own reader raises."""
    file.seek(0)
    head = file.read(_HEAD)
    if (unpack := packing(head)) is not None:
        with spooled() as plain:
            unpack(file, plain, bounds)
            plain.seek(0)
            head = plain.read(_HEAD)
            if packing(head) is not None:
                raise WrongKind(f"{quoted(name)} is packed twice: unpack it")
            yield _table(plain, head, name, bounds)
    else:
        yield _table(file, head, name, bounds)


def _table(file: BinaryIO, head: bytes, name: str, bounds: Bounds) -> Table:
    if head.startswith(_ZIP):
        return NpzTable(file, bounds, name)
    if head.startswith(_NPY):
        return NpyTable(file, bounds)
    if head.startswith(_PARQUET):
        return ParquetTable(file, bounds)
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return ArrowTable(file, bounds)
    _refuse_others(head, name)
    return CsvTable(file, bounds)


def _refuse_others(head: bytes, name: str) -> None:
    for magic, kind in _OTHERS:
        if head.startswith(magic):
            raise _wrong(name, kind)
    if head.startswith(_PICKLES):
        raise _wrong(name, "a Python pickle, which is never opened: it could run any program; save it as NPZ or CSV")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg")):
        raise _wrong(name, "an HTML or XML page")
    if text.startswith((b"{", b"[")):
        raise _wrong(name, "JSON: save it as CSV, or send it to the API")


def _wrong(name: str, kind: str) -> WrongKind:
    return WrongKind(f"{quoted(name)} is {kind}. CSV, NPZ, NPY, Parquet and Arrow files are read")
