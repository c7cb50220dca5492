"""Parquet files on disk or in an object store, divided into pieces of work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from calibrant.core.errors import EmptyBatch, InvalidDocument, InvalidOption
from calibrant.distributed.arrow import ROWS, Columns, counted
from calibrant.io.errors import needed_pyarrow
from calibrant.monitoring.event_tally import EventTally

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Source = str | PurePath | Sequence[str | PurePath]

#: Size of a piece of work in bytes; larger files are divided by their row groups.
PIECE_BYTES = 1 << 28
#: Read-ahead buffer of a column in bytes.
_AHEAD = 1 << 20
PARQUETS = (".parquet", ".parq", ".pq")
_WILD = re.compile(r"[*?\[]")
#: Name of the folder of nulls in Hive partitioning.
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Piece:
    """Some or all row groups of one file; ``first_row`` is the number of the first row, from 0."""

    filesystem: FileSystem
    path: str
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0


def pieces_of(source: Source, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
    """Return the pieces of the files of a source: a folder, a pattern, a file, or several; local or by URL.

    Names that start with ``.`` or ``_`` are skipped, and in folders also files without a Parquet suffix.
    """
    several = [source] if isinstance(source, str | PurePath) else source
    pieces = [piece for path in several for piece in _pieces_of_one(str(path), piece_bytes)]
    if not pieces:
        raise EmptyBatch.at("/source", "has no Parquet files")
    return pieces


def count_piece(piece: Piece, columns: Columns) -> EventTally | None:
    """Count a piece, one batch in memory at a time; return None if it has no rows."""
    keys = keys_of(piece.path)
    with piece.filesystem.open_input_file(piece.path) as file:
        parquet = _opened(file, piece.path)
        there = set(parquet.schema_arrow.names)
        wanted = [name for name in columns.named.values() if name in there]
        for argument, name in columns.named.items():
            if name not in there and not (argument in ("group", "fold") and name in keys):
                raise InvalidOption(f"{piece.path}: the column for {argument} does not exist")
        batches = parquet.iter_batches(
            ROWS, row_groups=piece.row_groups, columns=list(dict.fromkeys(wanted)), use_threads=False
        )
        return counted(batches, columns, piece.path, first_row=piece.first_row, keys=keys)


def _pieces_of_one(source: str, most: int) -> list[Piece]:
    filesystem, path = _filesystem(source)
    return [piece for name, size in _files(filesystem, path) for piece in _divided(filesystem, name, size, most)]


def _filesystem(source: str) -> tuple[FileSystem, str]:
    fs = needed_pyarrow("fs").fs
    if "://" in source:
        opened: tuple[FileSystem, str] = fs.FileSystem.from_uri(source)
        return opened
    return fs.LocalFileSystem(), str(Path(source).absolute())  # workers may have other working directories


def _files(filesystem: FileSystem, path: str) -> list[tuple[str, int]]:
    """Return names and sizes of the files, sorted."""
    fs = needed_pyarrow("fs").fs
    wild = _WILD.search(path)
    if wild is None:
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.File:
            return [(info.path, info.size)]
        if info.type == fs.FileType.NotFound:
            raise EmptyBatch.at("/source", "does not exist")
        base = path
    else:
        base = path[: path.rfind("/", 0, wild.start()) + 1] or "."
    infos = filesystem.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    files = [(info.path, info.size) for info in infos if info.type == fs.FileType.File]
    if wild is None:
        return sorted((name, size) for name, size in files if name.endswith(PARQUETS) and not _hidden(name, base))
    return sorted((name, size) for name, size in files if _matches(name, path) and not _hidden(name, base))


def _hidden(name: str, base: str) -> bool:
    parts = PurePosixPath(name).parts[len(PurePosixPath(base).parts) :]
    return any(part.startswith((".", "_")) and "=" not in part for part in parts)


def _matches(name: str, pattern: str) -> bool:
    """Return whether the name matches part by part; as in a shell, a star does not match a slash."""
    parts, wanted = PurePosixPath(name).parts, PurePosixPath(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _divided(filesystem: FileSystem, path: str, size: int, most: int) -> list[Piece]:
    """Return a small file as one piece without opening it; divide a larger one by row groups of ``most`` bytes."""
    if size <= most:
        return [Piece(filesystem, path)]
    with filesystem.open_input_file(path) as file:
        metadata = _opened(file, path).metadata
    pieces: list[Piece] = []
    groups: list[int] = []
    held, first, row = 0, 0, 0
    for i in range(metadata.num_row_groups):
        groups.append(i)
        held += metadata.row_group(i).total_byte_size
        row += metadata.row_group(i).num_rows
        if held >= most or i == metadata.num_row_groups - 1:
            pieces.append(Piece(filesystem, path, tuple(groups), first))
            groups, held, first = [], 0, row
    return pieces


def _opened(file: Any, path: str) -> Any:
    arrow = needed_pyarrow("parquet")
    try:
        return arrow.parquet.ParquetFile(file, buffer_size=_AHEAD, pre_buffer=False)
    except arrow.ArrowInvalid:
        raise InvalidDocument(f"{path}: not a readable Parquet file") from None


def keys_of(path: str) -> Mapping[str, str | None]:
    """Return the columns in the names of folders (Hive partitioning), as in ``country=no/part-0.parquet``."""
    folders = [part.partition("=") for part in PurePosixPath(path).parts[:-1] if "=" in part]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in folders}
