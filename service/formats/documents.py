"""JSON bodies, and rows of monitors as JSON documents: limited, parsed in pieces, and validated one by one."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from backend.monitors.row_fields import FIELDS, ROW_BYTES, PredictionColumns, Whys, find_columns, refuse_long
from backend.monitors.rows import MOST_NAMED, MonitorRows, What, Why, together
from backend.store.monitors.ids import Ids
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import WrongShape
from calibrant.io.errors import MalformedCsv
from calibrant.io.limits import NUMBER_BYTES, STRING_BYTES
from calibrant.io.strict import WORDS, csv_table, read_csv
from calibrant.io.texts import number
from calibrant.sets.prediction_sets import PredictionSets
from schemas.base import seconds_of
from service.errors import InvalidField, MalformedJson, TooLarge
from service.formats.format import Array, Body, BodyLimits, Format, Memory, with_query
from service.formats.json_body import (
    NOT_FINITE,
    PIECE,
    LongArray,
    check_keys,
    check_values,
    finite,
    has_keys,
    may_be_infinite,
    pieces_of,
    plain,
    read_document,
    read_json,
    skeleton,
)
from service.formats.media import JSON

# --- Limits of text: rows become Python objects, which use more memory than their bytes

#: Maximum rows and unpacked bytes of a JSON body; for formats without Python objects the general limits apply.
MOST_ROWS = 1_000_000
MOST_BYTES = 256 * 1024 * 1024
#: Copies of text in memory, as which its rows count at most: one without NaN, and the values of the rows.
_TEXT_COPIES = 3


def of_text(limits: BodyLimits) -> BodyLimits:
    """The limits of a JSON body: the smaller of the service's limits and these."""
    return replace(
        limits,
        max_rows=min(limits.max_rows, MOST_ROWS),
        max_unpacked_bytes=min(limits.max_unpacked_bytes, MOST_BYTES),
    )


def check_text(body: Body, limits: BodyLimits) -> None:
    """Check an unpacked JSON body before it is parsed, and reserve the memory of its rows.

    Raises ``TooLarge`` if it has too many bytes or values.
    """
    if len(body) > limits.max_unpacked_bytes:
        raise TooLarge(f"a JSON body may have at most {limits.max_unpacked_bytes} bytes")
    check_values(body, limits)
    limits.reserve(_TEXT_COPIES * len(body))


def lines_of(body: Body, limits: BodyLimits) -> Iterator[list[bytes]]:
    """Yield the non-blank lines of a body in lists; raises ``TooLarge`` for too many lines, including blank ones."""
    unended = len(body) > 0 and not body.endswith(b"\n")
    limits.check_rows(_lines(body, limits.max_rows) + unended)
    start = 0
    while start < len(body):
        end = body.rfind(b"\n", start, start + PIECE) + 1 or body.find(b"\n", start + PIECE) + 1 or len(body)
        yield [line for line in bytes(body[start:end]).split(b"\n") if line and not line.isspace()]
        start = end


def _lines(body: Body, enough: int) -> int:
    """Count the line ends of a body; may stop once there are more than ``enough``."""
    characters, line_ends = np.frombuffer(body, dtype=np.uint8), 0
    for start in range(0, len(characters), PIECE):
        line_ends += int(np.count_nonzero(characters[start : start + PIECE] == ord("\n")))
        if line_ends > enough:
            break
    return line_ends


# --- Rows as JSON: an object with the list ``rows``, or one object per line


def read_json_rows(body: Body, limits: BodyLimits, what: What, columns: PredictionColumns) -> MonitorRows:
    """Read ``{"rows": [...]}``; raises ``MalformedJson`` with the byte offset, ``InvalidField`` or ``TooLarge``."""
    check_text(body, limits)
    document = read_document(finite(body), limits)
    return together([rows_of(piece, what, columns) for piece in pieces_of(rows_in(document), limits)])


def rows_in(document: Any, where: str = "") -> list[Any] | LongArray:
    """The rows of an object with the single field ``rows``; raises ``InvalidField``."""
    if not isinstance(document, dict):
        raise InvalidField.at(where, "must be an object")
    for name in document:
        if name != "rows":
            raise InvalidField.at(f"{where}/{name[:64]}", "is not a field of this request")
    rows = document.get("rows")
    if not isinstance(rows, list | LongArray):
        raise InvalidField.at(f"{where}/rows", "must be an array")
    return rows


def read_lines(body: Body, limits: BodyLimits, what: What, columns: PredictionColumns) -> MonitorRows:
    """Read one JSON object per line; a line that is not an object, or has a duplicate key, is a refused row.

    Blank lines are ignored. Raises ``TooLarge``.
    """
    check_text(body, limits)
    parts = [rows_of(_documents(lines, limits), what, columns) for lines in lines_of(body, limits)]
    return together(parts) if parts else rows_of([], what, columns)


def _documents(lines: list[bytes], limits: BodyLimits) -> list[Any]:
    text = b"\n".join(lines)
    if may_be_infinite(text):  # once for all lines, which are short
        lines = [bytes(finite(line)) for line in lines]
        text = b"\n".join(lines)
    documents = [_document(line, limits) for line in lines]
    bones = skeleton(text, limits)
    # The quotes of an invalid line may hide the keys of the lines after it.
    if not all(isinstance(document, dict) for document in documents) or not has_keys(bones, sum(map(len, documents))):
        return [_with_unique_keys(line, document, limits) for line, document in zip(lines, documents, strict=True)]
    return documents


def _with_unique_keys(line: bytes, document: Any, limits: BodyLimits) -> Any:
    try:
        check_keys(b"", skeleton(line, limits), {"": document}, 0)
    except InvalidField:
        return None
    return document


def _document(line: bytes, limits: BodyLimits) -> Any:
    try:
        return plain(read_document(line, limits)) if len(line) > PIECE else orjson.loads(line)
    except (orjson.JSONDecodeError, MalformedJson, InvalidField):
        return None


# --- Parsed JSON objects, converted to arrays column by column

_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NUMBERS = {int, float}
_NONE = type(None)


def rows_of(documents: Sequence[Any], what: What, columns: PredictionColumns) -> MonitorRows:
    """Convert parsed JSON to rows; a row with an invalid value is refused. O(n K)."""
    documents = columns.renamed(documents, FIELDS[what])
    why = np.zeros(len(documents), np.uint8)
    if set(map(type, documents)) - {dict}:
        _mark(why, documents, lambda document: not isinstance(document, dict), Why.UNREADABLE)
        documents = [document if isinstance(document, dict) else {} for document in documents]
    fields = FIELDS[what]
    unknown: dict[int, str] = {}
    if set().union(*documents) - set(fields):
        _mark(why, documents, lambda document: _other_field(document, fields) is not None, Why.UNKNOWN_FIELD)
        for row in np.flatnonzero(why == Why.UNKNOWN_FIELD)[:MOST_NAMED].tolist():
            name = _other_field(documents[row], fields) or ""
            if _FIELD_NAME.fullmatch(name):  # anything else may be data
                unknown[row] = name
    column = {field: [document.get(field) for document in documents] for field in fields}
    return replace(rows_of_columns(column, why, columns), unknown=unknown)


def rows_of_columns(column: Mapping[str, list[Any]], why: Whys, columns: PredictionColumns) -> MonitorRows:
    """Convert the values of each field to rows; those that ``why`` does not refuse yet may be refused. O(n K)."""
    groups, names = _groups(column["group"], why) if "group" in column else (None, ())
    values = column.get("prediction")
    predictions, places = (None, None) if values is None else _predictions(values, columns.width, why)
    return MonitorRows(
        why,
        np.arange(len(why)),
        _ids(column["id"], why) if "id" in column else None,
        predictions,
        _labels(column["label"], why, columns) if "label" in column else None,
        _times(column["timestamp"], why) if "timestamp" in column else None,
        groups,
        names,
        places=places,
    )


def _other_field(row: dict[str, Any], fields: Sequence[str]) -> str | None:
    """The first unknown field of a row that is not null."""
    return next((name for name, value in row.items() if name not in fields and value is not None), None)


def _mark(why: Whys, values: Sequence[Any], wrong: Callable[[Any], bool], reason: Why) -> None:
    """Refuse the rows of some values; the first reason found is kept."""
    for i, value in enumerate(values):
        if not why[i] and wrong(value):
            why[i] = reason


def _ids(values: list[Any], why: Whys) -> Ids | None:
    kinds = set(map(type, values))
    if kinds <= {_NONE}:
        return None
    if kinds != {str} or "" in values:
        _mark(why, values, lambda value: type(value) not in (str, int, _NONE), Why.INVALID_ID)
        _mark(why, values, lambda value: value == "", Why.EMPTY_ID)
        values = [value if type(value) is str else str(value) if type(value) is int else "" for value in values]
    text = "".join(values)
    if text.isascii():
        return Ids(text.encode(), np.cumsum(list(map(len, values)), dtype=np.uint32))
    return Ids.of([value.encode() for value in values])


def _predictions(values: list[Any], n_classes: int | None, why: Whys) -> tuple[Floats, Integers | None]:
    """The predictions, and their places if some rows have none."""
    return (_numbers(values, why, _of_prediction), None) if n_classes is None else _vectors(values, n_classes, why)


def _labels(values: list[Any], why: Whys, columns: PredictionColumns) -> Floats:
    if columns.takes_booleans and bool in set(map(type, values)):
        values = [int(value) if type(value) is bool else value for value in values]
    return _numbers(values, why, lambda value: Why.NO_LABEL if value is None else Why.INVALID_LABEL)


def _of_prediction(value: Any) -> Why:
    if value is None:
        return Why.NO_PREDICTION
    if value == NOT_FINITE:
        return Why.NOT_FINITE
    return Why.WRONG_SHAPE if isinstance(value, list) else Why.NOT_A_NUMBER


def _numbers(values: list[Any], why: Whys, reason: Callable[[Any], Why]) -> Floats:
    """Numbers as doubles, NaN for other values, whose rows are refused with ``reason``."""
    if set(map(type, values)) <= _NUMBERS:
        return np.array(values, dtype=np.float64)
    numbers = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        if type(value) in _NUMBERS:
            numbers[i] = value
        elif not why[i]:
            why[i] = reason(value)
    return numbers


def _vectors(values: list[Any], n_classes: int, why: Whys) -> tuple[Floats, Integers | None]:
    """Vectors as (m, K), and their places if rows are refused for having none."""
    if set(map(type, values)) == {list} and set(map(len, values)) == {n_classes}:
        flat = [number for row in values for number in row]
        if set(map(type, flat)) <= _NUMBERS:
            return np.array(flat, dtype=np.float64).reshape(-1, n_classes), None
    vectors: list[list[float]] = []
    places = np.full(len(values), -1)
    for i, value in enumerate(values):
        reason = _of_vector(value, n_classes)
        if reason is None:
            places[i] = len(vectors)
            vectors.append(value)
        elif not why[i]:
            why[i] = reason
    return np.array(vectors, dtype=np.float64).reshape(-1, n_classes), places


def _of_vector(value: Any, n_classes: int) -> Why | None:
    if value is None:
        return Why.NO_PREDICTION
    if not isinstance(value, list) or len(value) != n_classes:
        return Why.WRONG_SHAPE
    if set(map(type, value)) <= _NUMBERS:
        return None
    return Why.NOT_FINITE if NOT_FINITE in value else Why.NOT_A_NUMBER


def _times(values: list[Any], why: Whys) -> Floats | None:
    if set(map(type, values)) <= {_NONE}:
        return None
    times = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        seconds = None if value is None else seconds_of(value)
        if seconds is not None:
            times[i] = seconds
        elif value is not None and not why[i]:
            why[i] = Why.INVALID_TIME
    return times


def _groups(values: list[Any], why: Whys) -> tuple[npt.NDArray[np.int64] | None, Sequence[str]]:
    """The index of each row's name in the list of names, -1 for none."""
    kinds = set(map(type, values))
    if kinds <= {_NONE}:
        return None, ()
    if not kinds <= {str, _NONE}:
        _mark(why, values, lambda value: type(value) not in (str, _NONE), Why.INVALID_GROUP)
        values = [value if type(value) is str else None for value in values]
    names = [name for name in dict.fromkeys(values) if name is not None]
    place: dict[str | None, int] = {name: i for i, name in enumerate(names)} | {None: -1}
    codes = np.array([place[name] for name in values], dtype=np.int64)
    refuse_long(codes, names, why)
    return codes, names


# --- Rows as CSV in UTF-8 with a header

#: Cells that are converted at once.
_BLOCK_CELLS = 1 << 16
#: Copies of numbers and ids: the pieces, and the arrays that they become.
_COPIES = 2


def read_csv_rows(body: Body, limits: BodyLimits, what: What, columns: PredictionColumns) -> MonitorRows:
    """Read the columns ``id``, ``prediction``, ``label``, ``timestamp`` and ``group``, or their plurals.

    ``prediction`` may be K columns ``prediction.0`` and so on; empty cells are missing values. Raises
    ``MalformedCsv``, ``TooLarge``, or an error about a whole column; a row with an invalid cell is refused.
    """
    width, parts, n = columns.width, list[MonitorRows](), 0
    with csv_table(body, limits) as (header, rows):
        limits.check_classes(len(header), "/prediction")
        places = find_columns(header, what, width)
        if width is not None and "prediction" in places and len(places["prediction"]) != width:
            raise WrongShape.at("/prediction", f"must be the {width} columns prediction.0 to prediction.{width - 1}")
        for block in rows.blocks(max(1, _BLOCK_CELLS // len(header))):
            n += len(block.rows)
            limits.check_rows(n)
            column = {field: _cells(block.rows, own, field, width) for field, own in places.items()}
            _reserve(column, len(block.rows), width, limits)
            parts.append(rows_of_columns(column, np.zeros(len(block.rows), np.uint8), columns))
    return (
        together(parts) if parts else rows_of_columns({field: [] for field in places}, np.zeros(0, np.uint8), columns)
    )


def _cells(rows: Sequence[Sequence[str]], places: Sequence[int], field: str, width: int | None) -> list[Any]:
    """The values of a field: None for an empty cell, and the text of a cell that is not what it has to be."""
    if field in ("id", "group", "timestamp"):
        return [row[places[0]] or None for row in rows]
    if field == "label":
        return [_label_of(row[places[0]]) for row in rows]
    if width is None:
        return [_number_of(row[places[0]]) for row in rows]
    return [_vector_of([row[at] for at in places]) for row in rows]


def _number_of(cell: str) -> float | str | None:
    try:
        return number(cell)
    except ValueError:
        return cell if cell.strip() else None


def _label_of(cell: str) -> float | str | bool | None:
    word = WORDS.get(cell.strip().lower())
    return _number_of(cell) if word is None else bool(word)


def _vector_of(cells: Sequence[str]) -> list[float | str | None] | None:
    values = [_number_of(cell) for cell in cells]
    return None if all(value is None for value in values) else values


def _reserve(column: dict[str, list[Any]], n: int, width: int | None, limits: BodyLimits) -> None:
    """Reserve the memory of a block of rows: its numbers, ids and names of groups."""
    ids = sum(4 * len(row_id) for row_id in column.get("id", ()) if row_id is not None)
    names = sum(STRING_BYTES + sys.getsizeof(name) for name in {*column.get("group", ())} - {None})
    limits.reserve(_COPIES * (n * (ROW_BYTES + NUMBER_BYTES * (width or 1)) + ids) + names)


# --- Responses as JSON, in pieces

#: Numbers per piece.
_JSON_BLOCK = 1 << 16


def write_json(fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Iterator[bytes]:
    """One object with the fields and the arrays: (n,) as a list of numbers, (n, K) as a list of lists."""
    yield orjson.dumps(fields)[:-1]
    before = b"," if fields else b""
    for name, array in arrays.items():
        yield before + orjson.dumps(name) + b":["
        before = b","
        height = max(1, _JSON_BLOCK // max(1, array[:1].size))
        for start in range(0, len(array), height):
            rows = np.ascontiguousarray(array[start : start + height])
            piece = orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
            yield b"," + piece if start else piece
        yield b"]"
    yield b"}"


def write_sets(fields: Mapping[str, Any], members: Array, name: str = "sets") -> Iterator[bytes]:
    """One object with the fields and the array ``name``: for each row of ``members`` (n, K) a list of ``classes``."""
    others = {key: value for key, value in fields.items() if key != "classes"}
    yield orjson.dumps(others)[:-1] + b","[: len(others)] + orjson.dumps(name) + b":["
    height = max(1, _JSON_BLOCK // members.shape[1])
    for start in range(0, len(members), height):
        sets = PredictionSets(members[start : start + height], tuple(fields["classes"]), None)
        yield b","[: start > 0] + orjson.dumps(sets.to_lists())[1:-1]
    yield b"]}"


# --- The formats

_TEXT_MEMORY = Memory(
    "three times the text",
    "256 MiB, a million rows",
    "tests/unit/service/formats/test_monitor_bounds.py::"
    "test_brackets_beyond_the_most_rows_are_refused_before_they_are_parsed",
)
_LINES = Format(
    "application/x-ndjson",
    MalformedJson,
    read_rows=read_lines,
    rows="one row per line",
    rows_memory=_TEXT_MEMORY,
    makes_objects=True,
)
FORMATS_OF_LINES = (_LINES, replace(_LINES, media_type="application/jsonl"))
JSON_FORMAT = Format(
    JSON,
    MalformedJson,
    read=read_json,
    read_rows=read_json_rows,
    write=write_json,
    request="one object with all fields",
    rows='`{"rows": [...]}`',
    response="default",
    memory=Memory(
        "16 bytes per number and row of a name, each distinct name, other values and their text; characters count four "
        "times if some are not ASCII",
        "`max_json_values`, `max_json_depth`; pieces of 1 MiB",
    ),
    rows_memory=_TEXT_MEMORY,
    options_in_body=True,
    makes_objects=True,
)


CSV = Format(
    "text/csv",
    MalformedCsv,
    read=with_query(read_csv, is_text=True),
    read_rows=read_csv_rows,
    request="UTF-8 with a header row",
    rows="columns as those of Arrow, vectors as `prediction.0` to `prediction.K-1`; empty cells are missing",
    memory=Memory("16 bytes per number and row of a name, in blocks, and each distinct name", "longest line"),
    rows_memory=Memory(
        "twice 64 bytes and the numbers of each row, in blocks, eight bytes per character of ids, and names"
    ),
    makes_objects=False,
)
