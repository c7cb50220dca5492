"""Responses with arrays, in the type that the caller accepts; large ones are streamed in pieces."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from calibrant.core.cells import Floats
from service.errors import NotAcceptable
from service.formats.extra import has_pyarrow, pyarrow
from service.formats.media import ARROW, JSON, NPZ
from service.headers import read_header
from service.threads import iterate_in_thread, run_in_thread

# --- Arrays as JSON, in pieces

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


# --- Content negotiation: the Accept header (RFC 9110, section 12.5.1)

_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def choose(accept: str, offered: Sequence[str]) -> str:
    """The offered type with the highest quality in the header; among equals, the first that is offered.

    The most specific matching range gives the quality: ``type/subtype``, else ``type/*``, else ``*/*``. Without a
    header every type is acceptable. Raises ``NotAcceptable`` if no type is.
    """
    if not accept.strip():
        return offered[0]
    ranges = dict(_range(part) for part in accept.split(",") if part.strip())
    best = max(offered, key=lambda kind: _liked(kind, ranges))
    if not _liked(best, ranges):
        raise NotAcceptable(f"this endpoint supports these types: {', '.join(offered)}")
    return best


def _range(part: str) -> tuple[str, float]:
    """A media range and its quality; an invalid quality counts as 0, and other parameters are ignored."""
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            quality = float(value) if _QUALITY.fullmatch(value.strip()) else 0.0
    return kind, quality


def _liked(kind: str, ranges: dict[str, float]) -> float:
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0


# --- A write-only file whose content is removed as it is sent


class Pieces(io.RawIOBase):
    """A file that holds the bytes written since the last ``drain``; not seekable."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """Keep the bytes until ``drain``."""
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def drain(self) -> bytes:
        """Return and remove the written bytes."""
        written = b"".join(self._pieces)
        self._pieces.clear()
        return written


# --- Arrays as NPZ, in pieces; the text fields are left out

#: Numbers per piece.
_NPZ_BLOCK = 1 << 17


def write_npz(fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Iterator[bytes]:  # noqa: ARG001
    """An archive that ``numpy.load`` can read, with each array under its name."""
    pieces = Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            rows = np.ascontiguousarray(array)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(_header(rows))
                numbers = rows.reshape(-1)
                for start in range(0, numbers.size, _NPZ_BLOCK):
                    member.write(numbers[start : start + _NPZ_BLOCK].tobytes())
                    yield pieces.drain()
    yield pieces.drain()


def _header(array: Floats) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array))
    return out.getvalue()


# --- Arrays as an Arrow IPC stream, in record batches; the text fields become metadata of the schema

#: Numbers per record batch.
_ARROW_BLOCK = 1 << 17


def write_arrow(fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Iterator[bytes]:
    """One column per array: doubles for (n,), lists of K doubles for (n, K)."""
    arrow = pyarrow()
    columns = [(name, _type(array)) for name, array in arrays.items()]
    schema = arrow.schema(columns, metadata=dict(fields))
    widest = max(max(1, array[:1].size) for array in arrays.values())
    height = max(1, _ARROW_BLOCK // widest)
    n = max(map(len, arrays.values()))
    pieces = Pieces()
    with arrow.ipc.new_stream(arrow.PythonFile(pieces, "w"), schema) as writer:
        for start in range(0, n, height):
            blocks = [_column(array[start : start + height]) for array in arrays.values()]
            writer.write_batch(arrow.record_batch(blocks, schema=schema))
            yield pieces.drain()
    yield pieces.drain()


def _type(array: Floats) -> Any:
    arrow = pyarrow()
    number = arrow.from_numpy_dtype(array.dtype)
    return number if array.ndim == 1 else arrow.list_(number, array.shape[1])


def _column(rows: Floats) -> Any:
    arrow = pyarrow()
    flat = arrow.array(np.ascontiguousarray(rows).reshape(-1))
    return flat if rows.ndim == 1 else arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])


# --- Responses with arrays

#: Writers: from text fields and arrays of equal length to pieces of the response.
WRITERS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Floats]], Iterator[bytes]]] = MappingProxyType(
    {JSON: write_json, NPZ: write_npz, ARROW: write_arrow}
)
#: Responses with at most this many bytes of numbers are sent in one piece, with their length.
_SMALL_BYTES = 64 * 1024


def choose_type(request: Request) -> str:
    """Choose the response type; raises ``NotAcceptable``. Call it before the work is done."""
    accepted = read_header(request, b"accept")
    if not accepted:
        return JSON
    offered = [kind for kind in WRITERS if kind != ARROW or has_pyarrow()]
    return choose(accepted, offered)


async def respond(request: Request, kind: str, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Response:
    """Respond with arrays in the chosen type; the pieces of a large response are created in a thread while it is sent.

    HTTP/1.0 has no chunked encoding, so its clients receive the whole response with its length.
    """
    pieces = WRITERS[kind](fields, arrays)
    headers = {"Vary": "Accept"}
    if sum(array.nbytes for array in arrays.values()) <= _SMALL_BYTES:
        if kind == JSON:
            rows = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            return Response(orjson.dumps({**fields, **rows}, option=orjson.OPT_SERIALIZE_NUMPY), 200, headers, kind)
    elif request.scope.get("http_version") != "1.0":
        return StreamingResponse(iterate_in_thread(pieces), headers=headers, media_type=kind)
    content = await run_in_thread(b"".join, pieces)
    return Response(content, headers=headers, media_type=kind)
