"""The files of the maps of a host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from backend.held_map import HeldMap
from calibrant.core.errors import InvalidDocument
from calibrant.kinds import FittedMap, load_map, try_map
from calibrant.maps.documents import read_document_file
from schemas.base import ID_PREFIX

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class UnusableMap(Exception):
    """A file that is not a map, or a name that no map may have."""


def read_maps(paths: Sequence[Path], names: Sequence[str] = ()) -> dict[str, HeldMap]:
    """Read and check the maps of files, and of the files ``*.json`` of folders, by name; raises ``UnusableMap``.

    ``names`` replace the names of the files, if there are any.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise UnusableMap(f"{', '.join(map(str, paths))} has no file *.json")
    if names and len(names) != len(files):
        raise UnusableMap(
            f"there are {len(files)} maps and {len(names)} names: give --name once per map, or not at all"
        )
    maps: dict[str, HeldMap] = {}
    for file, name in zip(files, names or [file.name.removesuffix(".json") for file in files], strict=True):
        if not _NAME.fullmatch(name) or name.startswith(ID_PREFIX):
            raise UnusableMap(
                f"{file}: a map's name is at most 64 letters, digits, dots, - and _, and does not begin with "
                f"{ID_PREFIX}; set another one with --name"
            )
        if name in maps:
            raise UnusableMap(f"{file}: another map has the name {name}; set names with --name")
        maps[name] = HeldMap(name, _read(file), None)
    return maps


def _read(file: Path) -> FittedMap:
    try:
        fitted = load_map(read_document_file(file), checked=True)
        try_map(fitted)
    except OSError as error:
        raise UnusableMap(f"{file} cannot be read: {error.strerror}") from None
    except InvalidDocument as error:
        raise UnusableMap(f"{file} is not a map: {error.detail}") from None
    return fitted
