"""Parquet on disk or in a store of objects: which files a source names, and what is read of them at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from calibrant.distributed.arrow import ROWS, Columns, counted
from calibrant.errors import EmptyBatch, InvalidDocument, InvalidOption, requires
from calibrant.monitoring.event_tally import EventTally

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Source = str | PurePath | Sequence[str | PurePath]

#: Bytes of a file that are one piece of work; larger files are divided by their row groups.
PIECE_BYTES = 1 << 28
#: Bytes that a column is read ahead.
_AHEAD = 1 << 20
_SUFFIXES = (".parquet", ".parq", ".pq")
_WILD = re.compile(r"[*?\[]")
#: What Hive calls the folder of nulls.
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Piece:
    """Rows of one file: of some of its row groups, or of all; ``first_row`` is the number of the first, from 0."""

    filesystem: FileSystem
    path: str
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0


def pieces_of(source: Source, piece_bytes: int = PIECE_BYTES) -> list[Piece]:
    """The pieces of the files that a source names: a folder, a pattern, a file, or several; local or by URL.

    Names that begin with ``.`` or ``_`` are not read, nor, of folders, those of other formats.
    """
    several = [source] if isinstance(source, str | PurePath) else source
    found = [piece for one in several for piece in _pieces_of_one(str(one), piece_bytes)]
    if not found:
        raise EmptyBatch.at("/source", "has no Parquet files")
    return found


def count_piece(piece: Piece, columns: Columns) -> EventTally | None:
    """The tally of a piece, or None where it has no rows; a batch of its columns is in memory at a time."""
    keys = _keys(piece.path)
    with piece.filesystem.open_input_file(piece.path) as file:
        parquet = _opened(file, piece.path)
        there = set(parquet.schema_arrow.names)
        wanted = [name for name in columns.named.values() if name in there]
        for argument, name in columns.named.items():
            if name not in there and not (argument in ("group", "fold") and name in keys):
                raise InvalidOption(f"{piece.path}: has no column for {argument}")
        batches = parquet.iter_batches(
            ROWS, row_groups=piece.row_groups, columns=list(dict.fromkeys(wanted)), use_threads=False
        )
        return counted(batches, columns, piece.path, first_row=piece.first_row, keys=keys)


def _pieces_of_one(source: str, most: int) -> list[Piece]:
    filesystem, path = _filesystem(source)
    return [piece for name, size in _files(filesystem, path) for piece in _divided(filesystem, name, size, most)]


def _filesystem(source: str) -> tuple[FileSystem, str]:
    with requires("files"):
        from pyarrow import fs
    if "://" in source:
        found: tuple[FileSystem, str] = fs.FileSystem.from_uri(source)
        return found
    return fs.LocalFileSystem(), str(Path(source).absolute())  # workers may stand in other folders


def _files(filesystem: FileSystem, path: str) -> list[tuple[str, int]]:
    """Names and sizes of the files, in order."""
    with requires("files"):
        from pyarrow import fs
    wild = _WILD.search(path)
    if wild is None:
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.File:
            return [(info.path, info.size)]
        if info.type == fs.FileType.NotFound:
            raise EmptyBatch.at("/source", "names what is not there")
        base = path
    else:
        base = path[: path.rfind("/", 0, wild.start()) + 1] or "."
    infos = filesystem.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    files = [(info.path, info.size) for info in infos if info.type == fs.FileType.File]
    if wild is None:
        return sorted((name, size) for name, size in files if name.endswith(_SUFFIXES) and not _hidden(name, base))
    return sorted((name, size) for name, size in files if _matches(name, path) and not _hidden(name, base))


def _hidden(name: str, base: str) -> bool:
    parts = PurePosixPath(name).parts[len(PurePosixPath(base).parts) :]
    return any(part.startswith((".", "_")) and "=" not in part for part in parts)


def _matches(name: str, pattern: str) -> bool:
    """Whether the name matches part by part: a star is of one part of the path, as in a shell."""
    parts, wanted = PurePosixPath(name).parts, PurePosixPath(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _divided(filesystem: FileSystem, path: str, size: int, most: int) -> list[Piece]:
    """A small file whole, unopened; one of more than ``most`` bytes by row groups of about so many together."""
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
    with requires("files"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        return parquet.ParquetFile(file, buffer_size=_AHEAD, pre_buffer=False)
    except pa.ArrowInvalid:
        raise InvalidDocument(f"{path}: is no Parquet file that can be read") from None


def _keys(path: str) -> Mapping[str, str | None]:
    """The columns that Hive's folders name: ``country=no/part-0.parquet``."""
    folders = [part.partition("=") for part in PurePosixPath(path).parts[:-1] if "=" in part]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in folders}
