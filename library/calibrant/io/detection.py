"""The format of a file, detected from its first bytes, and the table that it is opened as."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from calibrant.io.arrow import ArrowTable, ParquetTable
from calibrant.io.csv import CsvTable
from calibrant.io.errors import DamagedFile, FileTooLarge, WrongKind
from calibrant.io.json_lines import JsonLinesTable, lines_of, read_workbook
from calibrant.io.limits import FileLimits
from calibrant.io.npz import NpyTable, NpzTable, blocks_of_archive, is_workbook, wrong_kind
from calibrant.io.source import FILE, bytes_of, spooled, unpacked, write_blocks
from calibrant.io.table import OpenTable
from calibrant.io.texts import PLAIN_CELLS, TextCells, quoted

# --- The format of a file, detected from its first bytes, and the table that it is opened as

_PICKLE = "a Python pickle, which is never loaded because it can run any code: save it as NPZ or CSV"
#: First bytes of unsupported formats, and what the message calls them.
_OTHERS = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"RIFF", "an image, audio or video file (RIFF)"),
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Office document: save it as CSV"),
    (b"\x89HDF", "an HDF5 file: save it as NPZ or CSV"),
    (b"MATLAB ", "a MATLAB file: save it as CSV, such as with writetable"),
    (b"<stata_dta>", _STATA := "a Stata file: save it as CSV, with export delimited or pandas"),
    *((bytes([version, order, 1, 0]), _STATA) for version in range(105, 116) for order in (1, 2)),
    (b"\0" * 12 + b"\xc2\xea\x81\x60", "a SAS data set: save it as CSV, with proc export or pandas"),
    (b"HEADER RECORD*******", "a SAS transport file: save it as CSV, with proc export or pandas"),
    (b"$FL2@(#)", _SPSS := "an SPSS file: save it as CSV"),
    (b"$FL3@(#)", _SPSS),
    (b"X\n\0\0\0", _R := "an R data file: save it as CSV, with write.csv(data, file, row.names = FALSE)"),
    (b"RDX2\n", _R),
    (b"RDX3\n", _R),
    (b"SQLite format 3\0", "an SQLite database: save the table as CSV"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: extract it"),
    (b"Rar!", "a RAR archive: extract it"),
    (b"\x5d\0\0", "an LZMA file: compress it with xz"),
    (b"\x7fELF", "an executable"),
    (b"{\\rtf", "an RTF document"),
    (b"FEA1", "an old Feather file: save it as Feather version 2 or Parquet"),
    (b"Obj\x01", "an Avro file: save it as CSV or Parquet"),
    (b"ORC", "an ORC file: save it as CSV or Parquet"),
    *((b"\x80" + bytes([protocol]), _PICKLE) for protocol in range(2, 6)),
)
#: Bytes at a place in the head, and the beginning of a text in lower case.
_INSIDE = ((257, b"ustar", "a tar archive: extract it"), (6, b'\0\0{"', "a safetensors file: save it as NPZ"))
_TEXTS = (
    (b"@relation", "an ARFF file: save it as CSV"),
    *((begin, "an HTML or XML page") for begin in (b"<!doctype", b"<html", b"<?xml", b"<svg")),
)
_ZIP, _NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_HEAD = 512
#: The byte order mark of UTF-8.
_MARK = b"\xef\xbb\xbf"


@contextmanager
def open_table(
    file: BinaryIO,
    name: str,
    limits: FileLimits,
    cells: TextCells = PLAIN_CELLS,
) -> Iterator[OpenTable]:
    """Open a file as a table, with the ``cells`` of text; raises ``WrongKind``, or the error of the reader."""
    with spooled() as plain, spooled() as lines:
        if (blocks := _unpacked(file, name, limits)) is not None:
            write_blocks(blocks, plain, limits)
            file = plain
            if _unpacked(file, name, limits) is not None:
                raise WrongKind(f"{quoted(name)} is compressed twice; decompress it once")
        yield _table(file, _head(file), name, limits, cells, lines)


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(_HEAD)


def _unpacked(file: BinaryIO, name: str, limits: FileLimits) -> Iterator[bytes] | None:
    """Return the blocks of a compressed file, or of the only file of a ZIP archive; None for other files."""
    head = _head(file)
    if head.startswith(_ZIP):
        return blocks_of_archive(bytes_of(file), name, limits)
    encoding = next((encoding for magic, encoding in _PACKED.items() if head.startswith(magic)), None)
    return None if encoding is None else _decompressed(file, encoding)


def _decompressed(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    try:
        yield from unpacked(bytes_of(file), encoding, FILE)
    except FileTooLarge as error:
        raise FileTooLarge(f"{error}; compress the file with a smaller one") from error
    except DamagedFile as error:
        name = "Zstandard" if encoding == "zstd" else encoding
        raise DamagedFile(f"the {name} file is damaged or truncated") from error


def _table(file: BinaryIO, head: bytes, name: str, limits: FileLimits, cells: TextCells, lines: BinaryIO) -> OpenTable:
    """Open a table; a JSON document or Excel workbook is converted to ``lines``, an empty temporary file."""
    if head.startswith(_ZIP):
        if not is_workbook(bytes_of(file)):
            return NpzTable(file, limits)
        if limits.budget is not None:
            raise wrong_kind(name, "an Excel workbook: save it as CSV")
        note, rows = read_workbook(file, limits)
        write_blocks(rows, lines, limits)
        return JsonLinesTable(lines, limits, note)
    if head.startswith(_NPY):
        return NpyTable(file, limits)
    if head.startswith(_PARQUET):
        return ParquetTable(file, limits)
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return ArrowTable(file, limits)
    _refuse_others(head, name)
    text = head.removeprefix(_MARK).lstrip()
    if text.startswith(b"{"):
        with suppress(WrongKind):
            return JsonLinesTable(file, limits)
    elif not text.startswith(b"["):
        return CsvTable(file, limits, cells)
    write_blocks(lines_of(file), lines, limits)
    return JsonLinesTable(lines, limits, "the file is one JSON document")


def _refuse_others(head: bytes, name: str) -> None:
    text = head.removeprefix(_MARK).lstrip().lower()
    kinds = [kind for magic, kind in _OTHERS if head.startswith(magic)]
    kinds += [kind for place, magic, kind in _INSIDE if head.startswith(magic, place)]
    kinds += [kind for magic, kind in _TEXTS if text.startswith(magic)]
    if kinds:
        raise wrong_kind(name, kinds[0])
