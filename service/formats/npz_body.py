"""NPZ bodies: a zip of .npy arrays, read without trusting a single size that it states."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping

from calibrant.errors import CalibrationError
from service.errors import MalformedNpz
from service.formats.limits import Limits
from service.formats.npy import FIELDS, read_array
from service.formats.payload import Arrays, Body
from service.formats.view import View

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
