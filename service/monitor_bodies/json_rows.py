"""Rows as JSON: an object with the list ``rows``, or a line each."""

from __future__ import annotations

from typing import Any

import orjson

from monitoring.taking.rows import Rows
from monitoring.taking.screening import What
from service.errors import InvalidField
from service.formats.json_body import parse_json
from service.formats.json_structure import check_depth, check_keys, has_keys, skeleton
from service.formats.limits import Limits
from service.formats.payload import Body
from service.monitor_bodies.bounds import lines_of
from service.monitor_bodies.documents import rows_of


def read_json_rows(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read ``{"rows": [...]}``; raises ``MalformedJson`` with the byte at fault, ``InvalidField``, ``TooLarge``."""
    bones = skeleton(body, limits)
    document = parse_json(body, limits)
    check_depth(bones, limits)
    rows = rows_in(document, limits)
    if not has_keys(bones, len(document) + sum(len(row) for row in rows if isinstance(row, dict))):
        check_keys(body, bones, document, len(document))
    return rows_of(rows, what, n_classes)


def rows_in(document: Any, limits: Limits, where: str = "") -> list[Any]:
    """The rows of an object that holds them and nothing else; raises ``InvalidField``, ``TooLarge``."""
    if not isinstance(document, dict):
        raise InvalidField.at(where, "must be an object" if where else "the body must be an object")
    for name in document:
        if name != "rows":
            raise InvalidField.at(f"{where}/{name[:64]}", "is not a field of this request")
    rows = document.get("rows")
    if not isinstance(rows, list):
        raise InvalidField.at(f"{where}/rows", "must be an array")
    limits.check_rows(len(rows), f"{where}/rows")
    return rows


def read_lines(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read a JSON object a line; a line that is none refuses that row alone. Blank lines are no rows.

    Raises ``TooLarge``, and ``InvalidField`` where a key stands twice in an object.
    """
    lines = lines_of(body, limits)
    bones = skeleton(body, limits)
    rows = [_line(line) for line in lines]
    whole = [row for row in rows if isinstance(row, dict)]
    if len(whole) == len(rows) and not has_keys(bones, sum(map(len, whole))):
        check_keys(body, bones, {"rows": rows}, 0)
    return rows_of(rows, what, n_classes)


def _line(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
