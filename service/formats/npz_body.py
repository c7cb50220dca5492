"""NPZ and NPY bodies, read without trusting a single size that they state."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.errors import CalibrationError, NotANumber
from service.errors import MalformedNpy, MalformedNpz
from service.formats.limits import Limits
from service.formats.payload import ARRAYS, Array, Arrays, Body
from service.formats.tables import View

# --- One .npy array, read without trusting a single size that it states

#: The kinds of numpy's types that hold numbers, and those that hold text.
NUMBERS, STRINGS = "fiu", "U"
#: The arrays of a body of rows, each with the kinds that it may have.
FIELDS: Mapping[str, str] = MappingProxyType({name: STRINGS if name == "groups" else NUMBERS for name in ARRAYS})
#: A .npy header is a short Python literal; a longer one is an attack on its parser.
_MAX_HEADER = 4096
#: The magic, the version and the length before it.
_BEFORE_HEADER = 12


def read_npy(body: Body, limits: Limits) -> Arrays:
    """Read a body that is one array, the predictions. Raises ``MalformedNpy`` or ``TooLarge``."""
    limits.check_bytes(len(body))
    try:
        return {"predictions": read_array(memoryview(body), "predictions", limits, MalformedNpy)}
    except (ValueError, OSError) as error:
        if hasattr(error, "code"):
            raise
        raise MalformedNpy("the body is not a .npy array, or a damaged one") from error


def read_array(
    data: memoryview, name: str, limits: Limits, refusal: type[MalformedNpy | MalformedNpz], kinds: str = NUMBERS
) -> Array:
    """Read the array of a field, on the bytes where they stand if it can be; its shape must account for all of them.

    Nothing is unpickled: arrays of objects are refused. Booleans are no labels and no numbers, as in JSON: the same
    data get the same answer in every format.
    """
    pointer = f"/{name}"
    shape, fortran, dtype, start = _header(data, pointer, refusal)
    if dtype.kind == "b" and dtype.names is None and kinds != STRINGS:
        raise NotANumber.at(pointer, "holds booleans, not numbers")
    if dtype.hasobject or dtype.kind not in kinds or dtype.names is not None:
        raise refusal.at(pointer, _must_hold(kinds))
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise refusal.at(pointer, "has a shape that its bytes do not fill")
    limits.check_shape(shape, pointer)
    flat: Array = np.frombuffer(data, dtype=dtype, offset=start)
    if dtype.kind == "U" and not _are_characters(flat, data, start):
        raise refusal.at(pointer, "must hold Unicode text")
    array = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    native = array.astype(dtype.newbyteorder("="), copy=False)
    return native if native.flags.aligned else native.copy()


def _header(
    data: memoryview, pointer: str, refusal: type[MalformedNpy | MalformedNpz]
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and type that a header states, and where the numbers begin."""
    stream = io.BytesIO(data[: _MAX_HEADER + _BEFORE_HEADER])
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise refusal.at(pointer, "is a .npy of an unknown version")
    try:
        shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
    except Exception as error:  # the header is a Python literal, and a hostile one fails in many ways
        raise refusal.at(pointer, "has a damaged header") from error
    return shape, fortran, dtype, stream.tell()


def _are_characters(flat: Array, data: memoryview, start: int) -> bool:
    """Whether the 4-byte units of a text array are Unicode characters; numpy itself does not look."""
    order = ">" if flat.dtype.byteorder == ">" else "<"
    units = np.frombuffer(data, dtype=f"{order}u4", offset=start)
    return not np.any((units > 0x10FFFF) | ((units >= 0xD800) & (units <= 0xDFFF)))


def _must_hold(kinds: str) -> str:
    """What arrays of some kinds hold, in words."""
    if "U" not in kinds:
        return "must hold plain numbers, or dates" if "M" in kinds else "must hold plain numbers"
    return "must hold strings or integers" if "i" in kinds else "must hold strings"


# --- NPZ bodies: a zip of .npy arrays, read without trusting a single size that it states

#: Before a member's name in the archive; where the lengths of the name and of what follows it stand.
_LOCAL_HEADER, _NAME_LENGTH, _EXTRA_LENGTH = 30, slice(26, 28), slice(28, 30)
_ENCRYPTED = 1


def read_npz(body: Body, limits: Limits, fields: Mapping[str, str] = FIELDS) -> Arrays:
    """Read the arrays of an archive that unpacks to at most ``max_unpacked_bytes``.

    ``fields`` are the arrays that it may hold, each with the kinds of numpy's types that it may have. Raises
    ``MalformedNpz`` or ``TooLarge``. Arrays that are stored as they are, which is how numpy.savez stores them, are not
    copied out of the body.
    """
    view = memoryview(body)
    arrays: Arrays = {}
    try:
        with zipfile.ZipFile(io.BufferedReader(View(view))) as archive:
            unpacked = 0
            for member in archive.infolist():
                name = _field(member.filename, fields)
                if name in arrays:
                    raise MalformedNpz.at(f"/{name}", "stands twice in the archive")
                limits.check_bytes(unpacked + member.file_size)
                data = _unpack(archive, view, member)
                unpacked += len(data)
                arrays[name] = read_array(data, name, limits, MalformedNpz, fields[name])
    except CalibrationError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise MalformedNpz("the body is not an NPZ archive, or a damaged one") from error
    return arrays


def _field(filename: str, fields: Mapping[str, str]) -> str:
    name = filename.removesuffix(".npy")
    if name not in fields or name == filename:
        raise MalformedNpz.at("", f"the archive may hold {', '.join(fields)} and nothing else")
    return name


def _unpack(archive: zipfile.ZipFile, view: memoryview, member: zipfile.ZipInfo) -> memoryview:
    """The bytes of a member: at most as many as its header says, whose sum has been checked."""
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & _ENCRYPTED:
        return _stored(view, member)
    if member.compress_type != zipfile.ZIP_DEFLATED:
        # The readers of other methods inflate a member whole before they look at any size.
        raise MalformedNpz("the archive is compressed by another method than deflate, or encrypted")
    with archive.open(member) as file:
        return memoryview(file.read(member.file_size))


def _stored(view: memoryview, member: zipfile.ZipInfo) -> memoryview:
    """The bytes of a member that is not compressed, where they stand."""
    at = member.header_offset
    header = view[at : at + _LOCAL_HEADER]
    begin = at + _LOCAL_HEADER + sum(int.from_bytes(header[part], "little") for part in (_NAME_LENGTH, _EXTRA_LENGTH))
    data = view[begin : begin + member.file_size]
    if bytes(header[:4]) != b"PK\3\4" or len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise MalformedNpz("the archive is damaged")
    return data
