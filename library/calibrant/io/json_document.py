"""Conversion of a JSON document with a table, as pandas, R and services write it, to JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from calibrant.io.errors import DamagedFile, DuplicateColumns, EmptyFile, WrongKind
from calibrant.io.json_lines import DuplicateKey, each_once
from calibrant.io.texts import quoted

Row = dict[str, Any]
#: The most bytes of a document, which is read as a whole, in some 26 times its memory at most.
MAX_DOCUMENT = 8 << 20
#: How to save JSON Lines.
_INSTEAD = "save JSON Lines, with pandas as df.to_json(path, orient='records', lines=True)"


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    r"""Yield the rows of a document as lines of JSON.

    The document is a list of rows, a mapping of columns as lists or mappings, a mapping of rows, or an object with one
    of these, beside other values. Raises ``WrongKind`` for another or too large document, ``EmptyFile``,
    ``DamagedFile``, and ``DuplicateColumns`` for a key that an object has twice.

    >>> import io
    >>> [*lines_of(io.BytesIO(b'{"model": "a", "rows": [{"label": 1, "p": 0.5}]}'))]
    [b'{"label": 1, "p": 0.5}\n']
    >>> [*lines_of(io.BytesIO(b'{"label": {"0": 1}, "p": {"0": 0.5}}'))]
    [b'{"label": 1, "p": 0.5}\n']
    """
    file.seek(0)
    data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise WrongKind(f"the file is one JSON document of more than {MAX_DOCUMENT >> 20} MiB; {_INSTEAD}")
    try:
        document = json.loads(data, object_pairs_hook=each_once)
    except DuplicateKey as error:
        raise DuplicateColumns(f"an object of the file has the key {quoted(str(error))} twice") from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile("the file is neither a JSON document nor JSON Lines, with one object per line") from error
    rows = _rows(document)
    if rows is None:
        raise WrongKind(f"the file is JSON without a table of rows or columns; {_INSTEAD}")
    row: Row | None = None
    for row in rows:
        yield json.dumps(row).encode() + b"\n"
    if row is None:
        raise EmptyFile("the file has no rows")


def _rows(document: Any) -> Iterable[Row] | None:
    """Return the rows of a document, or None if there are none; rows of columns are made one by one."""
    if isinstance(document, list):
        return document if all(isinstance(row, dict) for row in document) else None
    if not isinstance(document, dict):
        return None
    if isinstance(names := document.get("columns"), list) and isinstance(rows := document.get("data"), list):
        if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return None
        keys = [*map(str, names)]
        return (dict(zip(keys, row, strict=True)) for row in rows)  # orient="split"
    inner = {name: value for name, value in document.items() if isinstance(value, list | dict) and value}
    lists = {name: value for name, value in inner.items() if isinstance(value, list)}
    if lists:
        longest = max(map(len, lists.values()))
        columns = {name: value for name, value in lists.items() if len(value) == longest}
        if len(columns) == 1 and (of_column := _rows(*columns.values())) is not None:
            return of_column
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    of = [value for value in inner.values() if isinstance(value, dict)]
    if len(of) == 1:
        return _rows(of[0])
    if not of or len(inner) < len(document) or any(value.keys() != of[0].keys() for value in of):
        return None
    numbered = all(map(str.isdecimal, of[0]))
    if all(map(str.isdecimal, inner)) or (len(inner) > len(of[0]) and not numbered):
        return of  # orient="index"
    return ({name: value[key] for name, value in inner.items()} for key in of[0])
