"""Rows as JSON: an object with the list ``rows``, or a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import orjson

from monitoring.taking.rows import Rows, together
from monitoring.taking.screening import What
from service.errors import InvalidField, MalformedJson
from service.formats.json_pieces import PIECE, LongArray, plain, read_document
from service.formats.json_structure import check_keys, has_keys, skeleton
from service.formats.limits import Limits
from service.formats.payload import Body
from service.monitor_bodies.bounds import lines_of
from service.monitor_bodies.documents import rows_of


def read_json_rows(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read ``{"rows": [...]}``; raises ``MalformedJson`` with the byte at fault, ``InvalidField``, ``TooLarge``."""
    document = read_document(body, limits)
    return together([rows_of(piece, what, n_classes) for piece in pieces_of(rows_in(document), limits)])


def rows_in(document: Any, where: str = "") -> list[Any] | LongArray:
    """The rows of an object that holds them and nothing else; raises ``InvalidField``."""
    if not isinstance(document, dict):
        raise InvalidField.at(where, "must be an object" if where else "the body must be an object")
    for name in document:
        if name != "rows":
            raise InvalidField.at(f"{where}/{name[:64]}", "is not a field of this request")
    rows = document.get("rows")
    if not isinstance(rows, list | LongArray):
        raise InvalidField.at(f"{where}/rows", "must be an array")
    return rows


class InPieces(Protocol):
    """An array that is read some elements at a time."""

    def pieces(self) -> Iterator[list[Any]]: ...  # noqa: D102


def pieces_of(rows: list[Any] | InPieces, limits: Limits, where: str = "/rows") -> Iterator[list[Any]]:
    """An array some elements at a time; raises ``TooLarge`` for more than the most rows."""
    found = 0
    for piece in [rows] if isinstance(rows, list) else rows.pieces():
        found += len(piece)
        limits.check_rows(found, where)
        yield piece


def read_lines(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read a JSON object a line; a line that is none refuses that row alone. Blank lines are no rows.

    Raises ``TooLarge``, and ``InvalidField`` where a key stands twice in an object.
    """
    parts = [rows_of(_documents(lines, limits), what, n_classes) for lines in lines_of(body, limits)]
    return together(parts) if parts else rows_of([], what, n_classes)


def _documents(lines: list[bytes], limits: Limits) -> list[Any]:
    documents = [_document(line, limits) for line in lines]
    text = b"\n".join(lines)
    bones = skeleton(text, limits)
    # The quotes of a line that is not JSON may hide the keys of those after it.
    if not all(isinstance(one, dict) for one in documents) or not has_keys(bones, sum(map(len, documents))):
        for line, one in zip(lines, documents, strict=True):
            if isinstance(one, dict):
                check_keys(line, skeleton(line, limits), {"": one}, 0)
    return documents


def _document(line: bytes, limits: Limits) -> Any:
    try:
        return plain(read_document(line, limits)) if len(line) > PIECE else orjson.loads(line)
    except (orjson.JSONDecodeError, MalformedJson):
        return None
