"""The sum over a part of a source, which a worker of an engine computes.

JSON goes to the worker, and a line of JSON with the bytes of a tally comes back: nothing else travels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calibrant.core.arrays import NO_GROUP
from calibrant.core.batch import InputScale
from calibrant.core.errors import CalibrationError, EngineUnavailable, Offence
from calibrant.core.version import __version__
from calibrant.distributed.arrow import Columns, RowCounter
from calibrant.distributed.scan import FilePiece, Scan, read_conditions
from calibrant.distributed.storage import StoredFile, storage_of
from calibrant.monitoring.event_tally import EventTally

#: About the fewest parts of a source, unless they had more bytes than this, and the most parts.
_FEWEST, _PART_BYTES, _MOST = 64, 1 << 25, 1000


@dataclass(frozen=True)
class SourcePart:
    """Some files of a source, or some row groups of one: the request to count them, and their size in bytes."""

    request: str
    size: int


def parts_of(scan: Scan, root: Mapping[str, str | None], columns: Columns, scale: InputScale) -> Iterator[SourcePart]:
    """Divide a scan into parts of whole files, or of row groups of a large one.

    ``root`` has the arguments of ``storage_of``.
    """
    least = max(min(_PART_BYTES, scan.total // _FEWEST), scan.total // _MOST)
    how = {
        "version": __version__,
        "root": dict(root),
        "columns": asdict(columns),
        "scale": scale,
        "format": scan.format,
        "where": scan.where,
        "types": dict(scan.types),
    }
    pieces: list[dict[str, Any]] = []
    size = 0
    for piece in scan.pieces():
        pieces.append(asdict(piece) | {"keys": dict(scan.keys_of(piece.file))})
        size += piece.size
        if size >= least:
            yield SourcePart(json.dumps(how | {"pieces": pieces}), size)
            pieces, size = [], 0
    if pieces:
        yield SourcePart(json.dumps(how | {"pieces": pieces}), size)


def sum_of_part(request: str) -> bytes:
    """Count the rows of a part; errors are part of the answer, since exceptions would travel as pickles."""
    return answer_of(lambda: _counted(json.loads(request)))


def _counted(request: Mapping[str, Any]) -> tuple[EventTally | None, int]:
    from calibrant.distributed.sources import read_rows  # of workers alone

    if request["version"] != __version__:
        raise EngineUnavailable(f"a worker has calibrant {__version__}, and the caller another version")
    pieces, keys = [], {}
    for fields in request["pieces"]:
        file, groups = StoredFile(**fields["file"]), fields["row_groups"]
        pieces.append(FilePiece(file, None if groups is None else tuple(groups), fields["first_row"], fields["size"]))
        keys[file.path] = fields["keys"]
    prediction = request["columns"]["prediction"]
    named = prediction if isinstance(prediction, str) else tuple(prediction)
    columns = Columns(**{**request["columns"], "prediction": named})
    scan = Scan(
        storage_of(**request["root"]),
        [piece.file for piece in pieces],
        request["format"],
        read_conditions(request["where"]),
        request["types"],
        partitions=keys,
    )
    counter = RowCounter(columns, scale=request["scale"], missing=NO_GROUP)
    read_rows(scan, [(columns, counter)], pieces)
    return counter.result(), counter.n


def answer_of(count: Callable[[], tuple[EventTally | None, int]]) -> bytes:
    """Return a tally and the number of its rows, or an error: a line of JSON, and the bytes of the tally."""
    try:
        tally, rows = count()
    except CalibrationError as error:
        offences = [[offence.pointer, offence.detail] for offence in error.offences]
        return _line({"error": error.code, "detail": error.detail, "offences": offences})
    except OSError as error:
        return _line({"error": None, "detail": f"{type(error).__name__} in a worker of the engine"})
    return _line({"rows": rows}) + (b"" if tally is None else tally.to_bytes())


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def read_answer(answer: bytes) -> tuple[EventTally | None, int]:
    """Return the tally of an answer and the number of its rows.

    Raises the error that the answer has, which is ``OSError`` for one that need not recur.
    """
    line, _, data = answer.partition(b"\n")
    fields = json.loads(line)
    if "error" not in fields:
        return EventTally.from_bytes(data) if data else None, fields["rows"]
    if fields["error"] is None:
        raise OSError(fields["detail"])
    kind = _errors(CalibrationError).get(fields["error"], CalibrationError)
    raise kind(fields["detail"], [Offence(*place) for place in fields["offences"]])


def _errors(base: type[CalibrationError]) -> dict[str, type[CalibrationError]]:
    """Return the classes of errors by their codes; a code names the first class that has it."""
    errors = {base.code: base}
    for error in base.__subclasses__():
        errors = _errors(error) | errors
    return errors
