"""NPZ bodies: a zip of .npy arrays, read without trusting a single size that it states."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import CalibrationError
from service.errors import MalformedNpz, TooLarge
from service.formats.payload import ARRAYS, Payload

#: A .npy header is a short Python literal; a longer one is an attack on its parser.
_MAX_HEADER = 4096


def read_npz(body: bytes, query: dict[str, str], max_bytes: int) -> Payload:
    """Read the arrays of an archive that unpacks to at most ``max_bytes``; the options come from the query.

    Raises ``MalformedNpz`` or ``TooLarge``. Nothing is unpickled: arrays of objects are refused.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            arrays: dict[str, npt.NDArray[Any]] = {}
            left = max_bytes
            for member in archive.infolist():
                name = _field(member.filename)
                if name in arrays:
                    raise MalformedNpz.at(f"/{name}", "stands twice in the archive")
                data = _unpack(archive, member, left)
                left -= len(data)
                arrays[name] = _array(data, name)
    except CalibrationError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise MalformedNpz("the body is not an NPZ archive, or a damaged one") from error
    return Payload(arrays, query, from_query=True)


def _field(filename: str) -> str:
    name = filename.removesuffix(".npy")
    if name not in ARRAYS or name == filename:
        raise MalformedNpz.at("", f"the archive may hold {', '.join(ARRAYS)} and nothing else")
    return name


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
    """Read a member, at most ``limit`` bytes of it whatever its header says."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The readers of other methods inflate a member whole before they look at any size.
        raise MalformedNpz("the archive is compressed by another method than deflate")
    if member.file_size > limit:
        raise TooLarge("the archive unpacks to more than the limit")
    with archive.open(member) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLarge("the archive unpacks to more than the limit")
    return data


def _array(data: bytes, name: str) -> npt.NDArray[Any]:
    """Read one .npy; its shape must account for its bytes exactly."""
    pointer = f"/{name}"
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise MalformedNpz.at(pointer, "is a .npy of an unknown version")
    try:
        shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
    except Exception as error:  # the header is a Python literal, and a hostile one fails in many ways
        raise MalformedNpz.at(pointer, "has a damaged header") from error
    allowed = "U" if name == "groups" else "fiub"
    if dtype.hasobject or dtype.kind not in allowed or dtype.names is not None:
        raise MalformedNpz.at(pointer, "must hold strings" if name == "groups" else "must hold plain numbers")
    start = stream.tell()
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise MalformedNpz.at(pointer, "has a shape that its bytes do not fill")
    flat = np.frombuffer(data, dtype=dtype, offset=start)
    if dtype.kind == "U" and not _are_characters(flat, data, start):
        raise MalformedNpz.at(pointer, "must hold Unicode text")
    array = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    if name == "predictions" and dtype.kind == "b":
        raise MalformedNpz.at(pointer, "must hold plain numbers")
    return array.astype(dtype.newbyteorder("="), copy=False)


def _are_characters(flat: npt.NDArray[Any], data: bytes, start: int) -> bool:
    """Whether the 4-byte units of a text array are Unicode characters; numpy itself does not look."""
    order = ">" if flat.dtype.byteorder == ">" else "<"
    units = np.frombuffer(data, dtype=f"{order}u4", offset=start)
    return not np.any((units > 0x10FFFF) | ((units >= 0xD800) & (units <= 0xDFFF)))
