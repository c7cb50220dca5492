"""Rows of a monitor from CloudEvents: the events of a body, and the rows in their data."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import unquote

from starlette.datastructures import Headers

from backend.monitors.row_fields import PredictionColumns
from backend.monitors.rows import MonitorRows, What, together
from schemas.monitor_rows import By
from service.errors import InvalidField, MalformedJson, of_header
from service.formats.documents import check_text, rows_in, rows_of
from service.formats.format import Body, BodyLimits
from service.formats.json_body import LongArray, check_tree, check_values, finite, pieces_of, plain, read_document
from service.formats.media import EVENTS

# --- CloudEvents 1.0 over HTTP: structured, batched and binary mode
#
# HTTP Protocol Binding for CloudEvents 1.0.2, section 3, and JSON Event Format 1.0.2. Binary mode also accepts version
# 0.3, which has the same headers, because MLServer declares it.

#: The attributes that every event has.
REQUIRED = ("specversion", "id", "source", "type")
_PREFIX = "ce-"
_VERSIONS, _BINARY_VERSIONS = ("1.0",), ("1.0", "0.3")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class CloudEvent:
    """One event: its attributes by name, and its data as parsed JSON, None if they are not JSON.

    ``where`` is the pointer of the event in a batch, ``""`` for a single event.
    """

    attributes: Mapping[str, str]
    data: Any
    where: str = ""

    @property
    def type(self) -> str:
        """The type of the event."""
        return self.attributes["type"]

    @property
    def id(self) -> str:
        """The id of the request; Seldon's events have a separate id of their own."""
        return self.attributes.get("requestid") or self.attributes["id"]

    @property
    def id_of_source(self) -> str:
        """The source and the id, which together identify an event according to the specification."""
        return f"{self.attributes['source']}/{self.id}"

    @property
    def time(self) -> str | None:
        """The time of the event."""
        return self.attributes.get("time")


def is_binary(headers: Headers) -> bool:
    """Whether the headers contain the attributes of an event, and the body its data."""
    return "ce-type" in headers and not headers.get("content-type", "").lower().startswith("application/cloudevents")


def read_binary(body: Body, headers: Headers, limits: BodyLimits) -> CloudEvent:
    """Read an event in binary mode; raises ``InvalidField``. Data that are not JSON become None.

    The content type of the data is ignored: KServe sends that of the inference request, which may be anything.
    """
    check_text(body, limits)
    attributes: dict[str, str] = {}
    for name, value in headers.items():
        if name.startswith(_PREFIX):
            if name.removeprefix(_PREFIX) in attributes:
                raise of_header(InvalidField, name[:64], "occurs twice")
            attributes[name.removeprefix(_PREFIX)] = _decoded(value, name)
    _check(attributes, "", _BINARY_VERSIONS)
    return CloudEvent(attributes, _parsed(body, limits))


def read_structured(body: Body, kind: str, limits: BodyLimits) -> Iterator[CloudEvent | None]:
    """Read one event as JSON, or a batch; raises ``MalformedJson``, ``InvalidField``, ``TooLarge``.

    An element of a batch that is not an event, has an invalid ``data_base64``, or has both kinds of data, becomes None;
    the others are read. Long arrays are ``LongArray`` objects.
    """
    check_text(body, limits)
    document = read_document(finite(body), limits)
    if kind != EVENTS:
        yield _event(document, "", limits)
        return
    if not isinstance(document, list | LongArray):
        raise InvalidField.at("", "must be an array of events")
    n_events = 0
    for piece in document.pieces(trees=True) if isinstance(document, LongArray) else [document]:
        limits.check_rows(n_events + len(piece))
        for i, element in enumerate(piece, n_events):
            yield _of_batch(element, f"/{i}", limits)
        n_events += len(piece)


def _of_batch(document: Any, where: str, limits: BodyLimits) -> CloudEvent | None:
    try:
        return _event(document, where, limits)
    except InvalidField:
        return None


def _event(document: Any, where: str, limits: BodyLimits) -> CloudEvent:
    if not isinstance(document, dict):
        raise InvalidField.at(where, "must be an object")
    _check(document, where, _VERSIONS)
    attributes = {name: value for name, value in document.items() if isinstance(value, str) and name != "data"}
    if "data_base64" not in document:
        return CloudEvent(attributes, document.get("data"), where)
    if document.get("data") is not None:  # section 3.1.1 of the JSON event format
        raise InvalidField.at(f"{where}/data", "must be absent if data_base64 is given")
    try:
        raw = base64.b64decode(document["data_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidField.at(f"{where}/data_base64", "must be base64") from error
    return CloudEvent(attributes, _parsed(raw, limits), where)


def _check(attributes: Mapping[str, Any], where: str, versions: Sequence[str]) -> None:
    """Raise ``InvalidField`` for a missing attribute or an unsupported version."""
    for name in REQUIRED:
        value = attributes.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidField.at(f"{where}/{name}", "must be a non-empty string")
    if attributes["specversion"] not in versions:
        raise InvalidField.at(f"{where}/specversion", f"must be {' or '.join(versions)}")


def _parsed(body: Body, limits: BodyLimits) -> Any:
    """Parse data as JSON, as a tree; None if they are not JSON. Raises ``InvalidField`` for a duplicate key."""
    check_values(body, limits)
    try:
        document = read_document(finite(body), limits)
        check_tree(document)
    except MalformedJson:
        return None
    return document


def _decoded(value: str, name: str) -> str:
    """The value of a header: unquoted, then percent-decoded once (section 3.1.3.2)."""
    quoted = _QUOTED.fullmatch(value.strip())
    plain = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value
    try:
        return unquote(plain, errors="strict")
    except UnicodeDecodeError as error:
        raise of_header(InvalidField, name, "must be percent-encoded UTF-8") from error


# --- Predictions in the data of events, including the payloads that inference servers log
#
# - KServe's logger (``pkg/logger``): events of type ``org.kubeflow.serving.inference.request`` and ``.response``, in
# binary mode; ``ce-id`` is the id of the request, which its caller may set with the header ``Ce-Id``. The data are the
#   body of the response: ``{"predictions": [...]}`` (V1), or that of the Open Inference Protocol (V2).
# - Seldon Core 1 (``executor/logger``): ``io.seldon.serving.inference.request`` and ``.response``; ``ce-id`` is the id
#   of the event, ``ce-requestid`` that of the request. The data are ``{"data": {"ndarray" | "tensor": ...}}`` (Seldon's
#   protocol), or V1 or V2. MLServer, used by Seldon Core 2, sends the same types with V2.

#: Calibrant's own event types, and the kind of rows in their data.
OWN: Mapping[str, What] = MappingProxyType({f"com.calibrant.{what}": what for what in get_args(What)})
#: Number of rows of events that are converted to arrays at once.
_AT_ONCE = 8192
#: The types of responses of inference servers.
RESPONSES = ("org.kubeflow.serving.inference.response", "io.seldon.serving.inference.response")


def rows_of_events(
    events: Iterable[CloudEvent | None],
    limits: BodyLimits,
    columns: PredictionColumns,
    output: str | None,
    by: By = "id",
) -> tuple[list[tuple[What, MonitorRows]], int]:
    """Return the rows of events in order, and the number of events of other types; raises as ``documents_of``."""
    runs: list[tuple[What, list[MonitorRows]]] = []
    waiting: list[Any] = []
    ignored = 0

    def flush() -> None:
        if waiting:
            runs[-1][1].append(rows_of(waiting, runs[-1][0], columns))
            waiting.clear()

    for event in events:
        documents = documents_of(event, limits, output, by)
        if documents is None:
            ignored += 1
            continue
        what, pieces = documents
        if not runs or runs[-1][0] != what:
            flush()
            runs.append((what, []))
        for piece in pieces:
            waiting.extend(piece)
            if len(waiting) >= _AT_ONCE:
                flush()
    flush()
    return [(what, together(parts)) for what, parts in runs if parts], ignored


def documents_of(
    event: CloudEvent | None, limits: BodyLimits, output: str | None, by: By = "id"
) -> tuple[What, Iterable[list[Any]]] | None:
    """The rows in an event's data, in pieces, each row with an id; None for an event of another type.

    ``output`` names the V2 output with the predictions; default: the first output of floats. ``by`` determines what the
    ids are made of. An invalid event, and data without predictions in a known form, become one unreadable row. Raises
    ``InvalidField`` for a single event of our own types whose data contain no rows.
    """
    if event is None:
        return "rows", [[None]]
    if event.type in OWN:
        return OWN[event.type], _named(_own(event, limits), event, by)
    if event.type not in RESPONSES:
        return None
    predictions = pieces_of(_predictions(event.data, output), limits, "/data")
    rows = (
        [None if prediction is None else {"prediction": _alone(prediction)} for prediction in piece]
        for piece in predictions
    )
    return "predictions", _named(rows, event, by)


def _own(event: CloudEvent, limits: BodyLimits) -> Iterable[list[Any]]:
    """The rows of an event of our own types; an invalid event in a batch gives None."""
    try:
        return _rows_of(event, limits)
    except InvalidField:
        if event.where:
            return [[None]]
        raise


def _rows_of(event: CloudEvent, limits: BodyLimits) -> Iterable[list[Any]]:
    where = f"{event.where}/data"
    if not isinstance(event.data, dict):
        raise InvalidField.at(where, "must be a row, or an object with rows")
    if "rows" in event.data:
        return pieces_of(rows_in(event.data, where), limits, f"{where}/rows")
    return [[plain(event.data)]]


def _named(pieces: Iterable[list[Any]], event: CloudEvent, by: By) -> Iterator[list[Any]]:
    """Add the event's time and id to rows without their own; several rows get ``id/0``, ``id/1`` and so on."""
    name, time = event.id_of_source if by == "source" else event.id, event.time
    pieces = iter(pieces)
    first, second = next(pieces, []), next(pieces, [])
    several, place = len(first) + len(second) > 1, 0
    for piece in chain((first, second), pieces):
        yield [
            {"id": f"{name}/{i}" if several else name, "timestamp": time}
            | {name: value for name, value in row.items() if value is not None}
            if isinstance(row, dict)
            else row
            for i, row in enumerate(piece, place)
        ]
        place += len(piece)


@dataclass(frozen=True)
class _Tensor:
    """The rows of a tensor whose elements are one long array."""

    elements: LongArray
    width: int

    def pieces(self) -> Iterator[list[Any]]:
        """Yield the rows in pieces."""
        left: list[Any] = []
        for piece in self.elements.pieces():
            left += piece
            whole = len(left) - len(left) % self.width
            yield _rows(left[:whole], self.width)
            left = left[whole:]


def _predictions(data: Any, output: str | None) -> list[Any] | LongArray | _Tensor:
    """The predictions in a payload, one per instance; a single None if the form is unknown."""
    if not isinstance(data, dict):
        return [None]
    if "predictions" in data:
        predictions: Any = data["predictions"]
    elif "outputs" in data:
        predictions = _of_outputs(data["outputs"], output)
    else:
        predictions = _of_seldon(data.get("data"))
    return predictions if isinstance(predictions, list | LongArray | _Tensor) else [None]


def _alone(value: Any) -> Any:
    """The only element of a list with one element; anything else unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _of_outputs(outputs: Any, output: str | None) -> Any:
    """The predictions among V2 outputs."""
    if isinstance(outputs, LongArray):
        outputs = list(outputs.elements())
    tensors = [tensor for tensor in outputs if isinstance(tensor, dict)] if isinstance(outputs, list) else []
    if output is not None:
        tensors = [tensor for tensor in tensors if tensor.get("name") == output]
    floats = [tensor for tensor in tensors if str(tensor.get("datatype")).startswith(("FP", "BF"))]
    return next((_shaped(tensor.get("shape"), tensor.get("data")) for tensor in floats or tensors), None)


def _of_seldon(data: Any) -> Any:
    """The predictions in Seldon's protocol."""
    if not isinstance(data, dict):
        return None
    tensor = data.get("tensor")
    return _shaped(tensor.get("shape"), tensor.get("values")) if isinstance(tensor, dict) else data.get("ndarray")


def _shaped(shape: Any, values: Any) -> list[Any] | LongArray | _Tensor | None:
    """The elements of a tensor of one or two dimensions, by row; None if they do not fill the shape."""
    if not isinstance(values, list | LongArray) or not isinstance(shape, list) or len(shape) not in (1, 2):
        return None
    if any(type(length) is not int or length < 0 for length in shape):
        return None
    first, n = values, 0
    for piece in [values] if isinstance(values, list) else values.pieces():
        first, n = first if n else piece, n + len(piece)
    if len(shape) == 1 or (isinstance(first, list) and first and isinstance(first[0], list)):
        return values if n == shape[0] else None
    width = shape[1]
    if n != math.prod(shape) or not width:
        return None
    return _Tensor(values, width) if isinstance(values, LongArray) else _rows(values, width)


def _rows(values: list[Any], width: int) -> list[Any]:
    return [values[start : start + width] for start in range(0, len(values), width)]
