"""Delta tables: their log is read by deltalake, and their files like all others, below the root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from calibrant.core.errors import RefusedPath, SourceChanged, SourceUnreadable, requires
from calibrant.distributed.storage import Storage, StoredFile, reading

#: Features of readers that do not change what a file contains.
_KNOWN = frozenset({"timestampNtz", "typeWidening", "vacuumProtocolCheck"})


@dataclass(frozen=True)
class DeltaFiles:
    """The files of the newest version of a table, and the values of its partitions by the path of the file."""

    files: list[StoredFile]
    keys: Mapping[str, Mapping[str, str | None]]


def delta_files(storage: Storage, path: str) -> DeltaFiles:
    """Read the log of a table.

    Raises ``SourceUnreadable`` for a path without a table, and for one with deletion vectors or renamed columns, whose
    files have other rows or columns than the table; ``RefusedPath`` for a file that is not below the table.
    """
    with requires("delta"):
        import deltalake
        import pyarrow as pa
        from deltalake.exceptions import DeltaError
    path = path.rstrip("/")
    place, options = storage.location(path)
    try:
        table = deltalake.DeltaTable(place, storage_options=options)
        protocol = table.protocol()
        features = set(protocol.reader_features or ())
        if protocol.min_reader_version == 2 or features - _KNOWN:
            raise SourceUnreadable("the Delta table has deletion vectors, renamed columns or other features of readers")
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except (DeltaError, OSError):
        raise SourceUnreadable("the path has no Delta table that can be read") from None
    files, keys = [], {}
    for action in actions:
        name = unquote(action["path"])
        if "://" in name or name.startswith("/") or ".." in name.split("/"):
            raise RefusedPath.at("/path", "has a table with a file that is not below it")
        with reading():
            file = storage.file(f"{path}/{name}" if path else name)
        if file is None or file.size != action["size_bytes"]:
            raise SourceChanged("a file of the Delta table was replaced or removed")
        files.append(file)
        partition = {name: value for name, value in action.items() if name.startswith("partition.")}
        keys[file.path] = {
            name.removeprefix("partition."): None if value is None else str(value) for name, value in partition.items()
        }
    return DeltaFiles(sorted(files, key=lambda file: file.path), keys)
