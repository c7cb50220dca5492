"""Files of people: what kind a file is by its content, which column is what, and the arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from calibrant.evaluation import MAX_GROUPS
from calibrant.io.arrow import ArrowTable, ParquetTable
from calibrant.io.columns import Chosen, check_scale, choose
from calibrant.io.compression import FILE, unpacked
from calibrant.io.csv import CsvTable
from calibrant.io.errors import DamagedFile, MissingValue, TooManyGroups, UnknownColumn, WrongKind, WrongShape
from calibrant.io.labels import Classes, read_labels
from calibrant.io.limits import FileLimits
from calibrant.io.npz import NpyTable, NpzTable
from calibrant.io.source import bytes_of, opened, spooled, write_blocks
from calibrant.io.table import Coded, Sheet, SheetOptions, Table, Values
from calibrant.io.texts import listed, quoted, row_of, span

__all__ = ["Sheet", "SheetOptions", "open_table", "read_columns", "read_sheet"]

# --- Reading a file as a sheet, or some of its columns as texts


def read_sheet(
    source: Path | BinaryIO,
    *,
    name: str,
    options: SheetOptions = SheetOptions(),  # noqa: B008 - frozen
    max_rows: int | None,
    labelled: bool = True,
    max_bytes: int = FileLimits.max_unpacked_bytes,
    heavy: Callable[[], None] | None = None,
    spool: Callable[[int], None] | None = None,
) -> Sheet:
    """Read a CSV, NPZ, NPY, Parquet or Arrow file, also one packed by gzip or Zstandard.

    Parameters
    ----------
    source
        A path, or a stream, which stays open; one that can seek is read from its beginning.
    name
        The file's name for messages.
    options
        What is not to be inferred.
    max_rows, max_bytes
        More rows, or more bytes once unpacked, are refused. None is no limit of rows but that of 1e8 numbers.
    labelled
        Whether labels are needed. If not, none are looked for: a column of them is read only if the options name it.
    heavy
        Called before more than 1 MiB is unpacked or read; a ``CalibrationError`` that it raises ends the reading.
    spool
        Called with the size that a temporary file is about to have; a ``CalibrationError`` ends the reading as well.

    Raises
    ------
    TabularError
        What is wrong, and which option it concerns; nothing else is raised for any content.
    """
    limits = FileLimits(max_bytes, max_rows, heavy=heavy, spool=spool)
    with opened(source, limits) as file, open_table(file, name, limits) as table:
        chosen = choose(table.columns, options, labelled=labelled)
        return _sheet(table, chosen, options, table.read(chosen.places))


def _sheet(table: Table, chosen: Chosen, options: SheetOptions, values: Values) -> Sheet:
    names = [table.columns[at].name for at in chosen.places.predictions]
    predictions = values.predictions
    _check_shapes(values)
    scale_notes = check_scale(predictions, options.scale, span(names))
    classes = _classes(table, chosen, options, values)
    return Sheet(
        predictions,
        None if classes is None else classes.labels,
        values.weights,
        None if values.groups is None else _groups(values.groups, table, chosen),
        options.scale,
        None if classes is None else classes.names,
        (*table.notes, *chosen.notes, *(() if classes is None else classes.notes), *scale_notes),
    )


def _check_shapes(values: Values) -> None:
    """Raise ``WrongShape`` for columns that are not of one length, which arrays of an archive may be."""
    n = len(values.predictions)
    lengths = {
        "labels": None if values.labels is None else len(values.labels.codes),
        "weights": None if values.weights is None else len(values.weights),
        "groups": None if values.groups is None else len(values.groups.codes),
    }
    for field, length in lengths.items():
        if length is not None and length != n:
            raise WrongShape(f"there are {length:,} {field} for {n:,} rows of predictions")


def _classes(table: Table, chosen: Chosen, options: SheetOptions, values: Values) -> Classes | None:
    if values.labels is None or chosen.places.labels is None:
        return None
    n_classes = 2 if values.predictions.ndim == 1 else values.predictions.shape[1]
    name = table.columns[chosen.places.labels].name
    return read_labels(values.labels, name, chosen.classes, n_classes, options.mapping)


def _groups(coded: Coded, table: Table, chosen: Chosen) -> list[str]:
    name = "" if chosen.places.groups is None else table.columns[chosen.places.groups].name
    if len(coded.texts) > MAX_GROUPS:
        raise TooManyGroups(f"column {quoted(name)} has more than {MAX_GROUPS:,} different groups", field="groups")
    if "" in coded.texts:
        row = row_of(coded.first(coded.texts.index("")))
        raise MissingValue(f"{row} of column {quoted(name)} is empty", field="groups")
    return [coded.texts[code] for code in coded.codes.tolist()]


def read_columns(
    source: Path | BinaryIO, names: Sequence[str], *, name: str, max_bytes: int = FileLimits.max_unpacked_bytes
) -> list[list[str]]:
    """The cells of some columns of every row, without the blanks around them; ``name`` is what the file is called.

    Raises the ``TabularError`` of a file that cannot be read, of a column that it has not, or of the first empty cell.
    """
    limits = FileLimits(max_bytes)
    with opened(source, limits) as file, open_table(file, name, limits) as table:
        places = [_place(table, column) for column in names]
        return [_whole(table.texts(at), table.columns[at].name) for at in places]


def _place(table: Table, stated: str) -> int:
    names = [column.name for column in table.columns]
    name = stated.strip()
    if name not in names:
        raise UnknownColumn(f"the file has no column {quoted(name)}; it has {listed(names)}")
    return names.index(name)


def _whole(cells: list[str], name: str) -> list[str]:
    found = [cell.strip() for cell in cells]
    if "" in found:
        raise MissingValue(f"{row_of(found.index(''))} of column {quoted(name)} is empty")
    return found


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
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_HEAD = 512


@contextmanager
def open_table(file: BinaryIO, name: str, limits: FileLimits) -> Iterator[Table]:
    """Open a file as the table that it is; raises ``WrongKind``, or what the kind's own reader raises."""
    head = _head(file)
    packed = _packed(head)
    if packed is None:
        yield _table(file, head, name, limits)
        return
    with spooled() as plain:
        _unpack(file, packed, plain, limits)
        head = _head(plain)
        if _packed(head) is not None:
            raise WrongKind(f"{quoted(name)} is packed twice: unpack it")
        yield _table(plain, head, name, limits)


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(_HEAD)


def _packed(head: bytes) -> str | None:
    """How a file that begins so is packed; None if it is not."""
    return next((encoding for magic, encoding in _PACKED.items() if head.startswith(magic)), None)


def _unpack(file: BinaryIO, encoding: str, target: BinaryIO, limits: FileLimits) -> None:
    try:
        write_blocks(unpacked(bytes_of(file), encoding, FILE), target, limits)
    except DamagedFile as error:
        name = "Zstandard" if encoding == "zstd" else encoding
        raise DamagedFile(f"the file is packed by {name}, and damaged or cut off") from error


def _table(file: BinaryIO, head: bytes, name: str, limits: FileLimits) -> Table:
    if head.startswith(_ZIP):
        return NpzTable(file, limits, name)
    if head.startswith(_NPY):
        return NpyTable(file, limits)
    if head.startswith(_PARQUET):
        return ParquetTable(file, limits)
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return ArrowTable(file, limits)
    _refuse_others(head, name)
    return CsvTable(file, limits)


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
