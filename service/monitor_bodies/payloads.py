"""The payloads that inference servers log, as predictions.

- KServe's logger (``pkg/logger``): events of type ``org.kubeflow.serving.inference.request`` and ``.response``, in
  binary mode; ``ce-id`` is the id of the request, which its caller may set by the header ``Ce-Id``. The data are the
  body of the answer: ``{"predictions": [...]}`` (V1), or that of the Open Inference Protocol (V2).
- Seldon Core 1 (``executor/logger``): ``io.seldon.serving.inference.request`` and ``.response``; ``ce-id`` is the
  event's own, ``ce-requestid`` the request's. The data are ``{"data": {"ndarray" | "tensor": ...}}`` (Seldon's
  protocol), or V1 or V2. MLServer, of Seldon Core 2, names the same types and V2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal

from backend.monitors.rows import Rows, What, together
from service.errors import InvalidField
from service.formats.json_pieces import LongArray, plain
from service.formats.limits import Limits
from service.monitor_bodies.documents import rows_of
from service.monitor_bodies.events import Event
from service.monitor_bodies.rows import pieces_of, rows_in

#: What an id is made of: that of the event alone, or its source and its id.
By = Literal["id", "source"]
#: The types of events of our own, and what their data bring.
OWN: Mapping[str, What] = MappingProxyType(
    {f"com.calibrant.{what}": what for what in ("rows", "predictions", "labels")}
)
#: Rows of events that become arrays at once.
_AT_ONCE = 8192
#: The types of answers of inference servers.
RESPONSES = ("org.kubeflow.serving.inference.response", "io.seldon.serving.inference.response")


def rows_of_events(
    events: Iterable[Event | None], limits: Limits, n_classes: int | None, output: str | None, by: By = "id"
) -> tuple[list[tuple[What, Rows]], int]:
    """The rows of some events, in their order, and how many events were of another type; raises as ``documents_of``."""
    found: list[tuple[What, list[Rows]]] = []
    waiting: list[Any] = []
    ignored = 0

    def flush() -> None:
        if waiting:
            found[-1][1].append(rows_of(waiting, found[-1][0], n_classes))
            waiting.clear()

    for event in events:
        documents = documents_of(event, limits, output, by)
        if documents is None:
            ignored += 1
            continue
        what, pieces = documents
        if not found or found[-1][0] != what:
            flush()
            found.append((what, []))
        for piece in pieces:
            waiting.extend(piece)
            if len(waiting) >= _AT_ONCE:
                flush()
    flush()
    return [(what, together(parts)) for what, parts in found if parts], ignored


def documents_of(
    event: Event | None, limits: Limits, output: str | None, by: By = "id"
) -> tuple[What, Iterable[list[Any]]] | None:
    """The rows that an event tells of, some at a time, each with an id; None for one of another type.

    ``output`` names the output of V2 that holds the predictions; default: the first of floats. ``by`` says what the
    ids are made of. What is no event, and data that hold no predictions in a form that is known, are one row that
    cannot be read. Raises ``InvalidField`` for data of our own types that hold no rows, of an event alone.
    """
    if event is None:
        return "rows", [[None]]
    if event.type in OWN:
        return OWN[event.type], _named(_own(event, limits), event, by)
    if event.type not in RESPONSES:
        return None
    predictions = pieces_of(_predictions(event.data, output), limits, "/data")
    rows = ([None if one is None else {"prediction": _alone(one)} for one in piece] for piece in predictions)
    return "predictions", _named(rows, event, by)


def _own(event: Event, limits: Limits) -> Iterable[list[Any]]:
    """The rows of an event of ours: those of its data, or its data; of one in a batch without any, None."""
    try:
        return _rows_of(event, limits)
    except InvalidField:
        if event.where:
            return [[None]]
        raise


def _rows_of(event: Event, limits: Limits) -> Iterable[list[Any]]:
    where = f"{event.where}/data"
    if not isinstance(event.data, dict):
        raise InvalidField.at(where, "must be a row, or an object with rows")
    if "rows" in event.data:
        return pieces_of(rows_in(event.data, where), limits, f"{where}/rows")
    return [[plain(event.data)]]


def _named(pieces: Iterable[list[Any]], event: Event, by: By) -> Iterator[list[Any]]:
    """The rows with the event's time and id where they have none; several have ``id/0``, ``id/1`` and so on."""
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
    """The elements of a tensor by row, where they are one long array."""

    elements: LongArray
    width: int

    def pieces(self) -> Iterator[list[Any]]:
        """The rows, some at a time."""
        left: list[Any] = []
        for piece in self.elements.pieces():
            left += piece
            whole = len(left) - len(left) % self.width
            yield _rows(left[:whole], self.width)
            left = left[whole:]


def _predictions(data: Any, output: str | None) -> list[Any] | LongArray | _Tensor:
    """The predictions of a payload, one an instance; one None where they are in no form that is known."""
    if not isinstance(data, dict):
        return [None]
    if "predictions" in data:
        found: Any = data["predictions"]
    elif "outputs" in data:
        found = _of_outputs(data["outputs"], output)
    else:
        found = _of_seldon(data.get("data"))
    return found if isinstance(found, list | LongArray | _Tensor) else [None]


def _alone(value: Any) -> Any:
    """One number in a list of its own is that number."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _of_outputs(outputs: Any, output: str | None) -> Any:
    """The predictions among the outputs of V2."""
    if isinstance(outputs, LongArray):
        outputs = list(outputs.elements())
    tensors = [one for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    if output is not None:
        tensors = [one for one in tensors if one.get("name") == output]
    floats = [one for one in tensors if str(one.get("datatype")).startswith(("FP", "BF"))]
    return next((_shaped(one.get("shape"), one.get("data")) for one in floats or tensors), None)


def _of_seldon(data: Any) -> Any:
    """The predictions of Seldon's protocol."""
    if not isinstance(data, dict):
        return None
    tensor = data.get("tensor")
    return _shaped(tensor.get("shape"), tensor.get("values")) if isinstance(tensor, dict) else data.get("ndarray")


def _shaped(shape: Any, values: Any) -> list[Any] | LongArray | _Tensor | None:
    """The elements of a tensor of one or two dimensions, by row; None where they do not fill its shape."""
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
