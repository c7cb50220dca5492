"""Readers of NPZ and NPY files, which decompress only the arrays that are needed and never unpickle."""

from __future__ import annotations

import io
import math
import mmap
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, cast

import numpy as np

from calibrant.io.errors import (
    TEXTS,
    VECTORS,
    DamagedFile,
    Field,
    FileTooLarge,
    InfiniteNumber,
    MissingValue,
    NotLabels,
    PickledObjects,
    TextInNumbers,
    UnmatchedArrays,
    WrongKind,
)
from calibrant.io.limits import FileLimits
from calibrant.io.options import FORMAT_NAMES
from calibrant.io.source import View, blocks_of, bytes_of
from calibrant.io.table import Array, Coded, Column, ColumnPlaces, Floats, Values, sample_rows
from calibrant.io.texts import Coding, listed, quoted, row_of

# --- Arrays as columns of finite numbers or of strings

#: Rows of strings per step.
_BLOCK = 1 << 16


def numbers_of(array: Array, name: str, field: Field) -> Floats:
    """Convert an array to float64; raises the error of a wrong type or shape, or of the first non-finite number."""
    if array.dtype.kind not in "fiu":
        raise TextInNumbers(f"{quoted(name)} has {_kind(array)}, not numbers", field=field)
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim not in ((1, 2) if field in VECTORS else (1,)) or not flat.size:
        raise UnmatchedArrays(
            f"{quoted(name)} has the shape {array.shape}; one number per row is required", field=field
        )
    numbers = np.ascontiguousarray(flat, dtype=np.float64)
    finite = np.isfinite(numbers)
    if not finite.all():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), numbers.shape))
        where = f"{row_of(place[0])} of {quoted(name)}"
        if np.isnan(numbers[place]):
            raise MissingValue(f"{where} is NaN; fill it in or remove the row", field=field)
        raise InfiniteNumber(f"{where} is infinite; numbers must be finite", field=field)
    return numbers


def texts_of(array: Array, name: str, field: Field) -> Coded:
    """Convert an array of labels or names to strings; booleans become ``False`` and ``True``."""
    if array.dtype.kind not in "fiubU":
        raise NotLabels(f"{quoted(name)} has {_kind(array)}; {field} must be numbers or strings", field=field)
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1:
        hint = "; for one-hot rows, take the argmax" if flat.ndim == 2 else ""
        raise NotLabels(
            f"{quoted(name)} has {flat.ndim} dimensions, but one {field[:-1]} per row is required{hint}", field=field
        )
    coding = Coding(name, field)
    if flat.dtype.kind == "U":
        for start in range(0, len(flat), _BLOCK):
            coding.add(flat[start : start + _BLOCK].tolist())
    else:
        values, codes = np.unique(flat, return_inverse=True)
        coding.add_coded([str(value) for value in values.tolist()], codes)
    return coding.done()


def plain_texts(array: Array, name: str) -> list[str]:
    """Convert an array (n,) or (n, K) to a string per row; raises ``UnmatchedArrays`` for another type or shape."""
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiubUM":
        raise UnmatchedArrays(
            f"{quoted(name)} has {_kind(array)} of the shape {array.shape}; one string or number per row is required"
        )
    return [str(value) for value in array.tolist()]


def _kind(array: Array) -> str:
    kinds = {
        "O": "Python objects, which are never loaded",
        "b": "booleans",
        "U": "strings",
        "S": "bytes",
        "c": "complex numbers",
    }
    return kinds.get(array.dtype.kind, "values of an unsupported type")


# --- One .npy array; its declared sizes are not trusted

#: A header is a short Python literal; a longer one could exhaust the parser.
_MAX_HEADER = 4096
#: Bytes of the longest header with the magic string, the version and its length.
MAX_START = _MAX_HEADER + 12


class DamagedArray(DamagedFile):
    """An array that is damaged; ``detail`` continues a sentence that begins with its name."""


@dataclass(frozen=True)
class ArrayHeader:
    """The shape, order and dtype of an array, and the number of bytes of its header."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int

    @property
    def bytes_to_read(self) -> int:
        """The most bytes that reading the array allocates: of its data, and of a copy in native byte order.

        Text is checked in three quarters of its bytes.
        """
        copies = 1 if self.dtype.isnative and self.dtype.kind != "U" else 2
        return math.prod(self.shape) * self.dtype.itemsize * copies

    def fills(self, size: int) -> bool:
        """Whether the array and its header have exactly ``size`` bytes."""
        return self.length + math.prod(self.shape) * self.dtype.itemsize == size


def header_of(data: bytes | memoryview) -> ArrayHeader:
    """Read the header of an array; raises ``DamagedArray``, or ``ValueError`` if the data is not an array."""
    stream = io.BytesIO(data[:MAX_START])
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DamagedArray("has an unknown .npy version")
    try:
        shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
    except Exception as error:  # the header is a Python literal, which can be invalid in many ways
        raise DamagedArray("has a damaged header") from error
    if not all(type(length) is int and length >= 0 for length in shape):  # numpy accepts True and -1
        raise DamagedArray("has a damaged header")
    return ArrayHeader(shape, fortran, dtype, stream.tell())


def array_of(data: memoryview, header: ArrayHeader) -> Array:
    """Return the array of a header that ``fills`` its data, in native byte order; a view if the data is aligned.

    Raises ``DamagedArray`` for invalid Unicode, which numpy does not check.
    """
    flat: Array = np.frombuffer(data, dtype=header.dtype, offset=header.length)
    if header.dtype.kind == "U":
        _check_units(
            np.frombuffer(data, dtype=f"{'>' if header.dtype.byteorder == '>' else '<'}u4", offset=header.length)
        )
    array = flat.reshape(header.shape[::-1]).T if header.fortran else flat.reshape(header.shape)
    native = array.astype(header.dtype.newbyteorder("="), copy=False)
    return native if native.flags.aligned else native.copy()


def _check_units(units: Array) -> None:
    if np.any((units > 0x10FFFF) | ((units >= 0xD800) & (units <= 0xDFFF))):
        raise DamagedArray("must hold Unicode text")


def _checked(field: Array) -> Array:
    """Return a field of a structured array in native byte order; raises ``DamagedArray`` for invalid Unicode."""
    native = np.ascontiguousarray(field.astype(field.dtype.newbyteorder("="), copy=False))
    if native.dtype.kind == "U":
        _check_units(native.view(np.uint32))
    return native


# --- An NPZ archive: a ZIP file of .npy arrays; its declared sizes are not trusted

_ENCRYPTED = 1
#: Signatures of the end of the central directory, also for ZIP64, and the bytes at the end that are searched for them.
_END, _END_64, _TAIL = b"PK\x05\x06", b"PK\x06\x06", 1 << 17
_MAX_LIST = 4 << 20
#: Bytes that are decompressed at once.
_PIECE = 1 << 20
#: Size of a local file header, and the bytes of the lengths of the name and of the extra field.
_LOCAL_HEADER, _NAME_LENGTH, _EXTRA_LENGTH = 30, slice(26, 28), slice(28, 30)
#: Errors of zipfile for damaged archives.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)


class Archive:
    """The members of an archive; raises ``FileTooLarge`` if the list of members is too large, or ``BROKEN``."""

    def __init__(self, data: memoryview) -> None:
        _check_list(data)
        self._data = data
        self._zip = zipfile.ZipFile(io.BufferedReader(View(data)))
        self.members = self._zip.infolist()

    def begin(self, member: zipfile.ZipInfo, size: int) -> bytes:
        """Read the first bytes of a member."""
        self._check_method(member)
        with self._zip.open(member) as data:
            return data.read(size)

    def unpack(self, member: zipfile.ZipInfo) -> memoryview:
        """Return the bytes of a member, at most its declared size; a view if it is not compressed."""
        self._check_method(member)
        if member.compress_type == zipfile.ZIP_STORED:
            return self._stored(member)
        data, read = memoryview(bytearray(member.file_size)), 0
        with self._zip.open(member) as file:
            while piece := file.read(min(_PIECE, len(data) - read)):
                data[read : read + len(piece)] = piece
                read += len(piece)
        return data[:read]

    def blocks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """Decompress a member in blocks, at most its declared size."""
        self._check_method(member)
        with self._zip.open(member) as file:
            yield from blocks_of(cast(BinaryIO, file))

    @staticmethod
    def _check_method(member: zipfile.ZipInfo) -> None:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
            # The readers of other methods decompress a whole member before they check its size.
            raise DamagedFile("the archive is encrypted, or its compression method is not deflate")

    def _stored(self, member: zipfile.ZipInfo) -> memoryview:
        at = member.header_offset
        header = self._data[at : at + _LOCAL_HEADER]
        lengths = (int.from_bytes(header[part], "little") for part in (_NAME_LENGTH, _EXTRA_LENGTH))
        begin = at + _LOCAL_HEADER + sum(lengths)
        data = self._data[begin : begin + member.file_size]
        if bytes(header[:4]) != b"PK\3\4" or len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise DamagedFile("the archive is damaged")
        return data


def _check_list(data: memoryview) -> None:
    """Raise ``FileTooLarge`` if the list of members is too large."""
    tail = bytes(data[-_TAIL:])
    for mark, place, width in ((_END, 12, 4), (_END_64, 40, 8)):
        at = tail.rfind(mark)
        stated = int.from_bytes(tail[at + place : at + place + width], "little") if at >= 0 else 0
        if stated > _MAX_LIST and stated != 0xFFFFFFFF:
            raise FileTooLarge(f"the list of members of the archive has more than the limit of {_MAX_LIST:,} bytes")


# --- NPZ and NPY files as tables

#: Names of an array of the names of the classes.
_CLASSES = frozenset(("classes", "class_names", "classnames", "label_names", "target_names"))


class _OfArrays(ABC):
    """A ``Table`` whose columns are arrays."""

    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...]

    @abstractmethod
    def _array(self, at: int) -> Array:
        """Read the array of a column."""

    def read(self, places: ColumnPlaces) -> Values:
        """Read some arrays; raises the ``TabularError`` of the first bad one."""

        def read(at: int, field: Field) -> Any:
            values, name = self._array(at), self.columns[at].name
            values = np.atleast_1d(values) if field == "level" else values
            return texts_of(values, name, field) if field in TEXTS else numbers_of(values, name, field)

        return Values.of(places, read)

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on some arrays as strings."""
        for at in places:
            self._scan(at, partial(add, at))

    def _scan(self, at: int, add: Callable[[Sequence[str]], object]) -> None:
        array = self._array(at)
        size = sample_rows(array.shape[1]) if array.ndim == 2 else max(1, array.size)
        for start in range(0, len(array) if array.ndim else 1, size):
            add(plain_texts(array[start : start + size] if array.ndim else array, self.columns[at].name))


class NpzTable(_OfArrays):
    """A ``Table`` of an NPZ archive; raises ``DamagedFile`` or ``FileTooLarge``.

    ``class_names`` are those in an array such as ``classes``, which is then no column.
    """

    def __init__(self, file: BinaryIO, limits: FileLimits) -> None:
        self._limits = limits
        with _damage():
            self._archive = Archive(bytes_of(file))
        self._members = [member for member in self._archive.members if member.filename.endswith(".npy")]
        limits.check_classes(len(self._members))
        with _damage():
            self._headers = [header_of(self._archive.begin(member, MAX_START)) for member in self._members]
            self.columns = tuple(map(self._column, self._members, self._headers))
        self.class_names = self._take_class_names()

    def _array(self, at: int) -> Array:
        member, header, name = self._members[at], self._headers[at], self.columns[at].name
        check_header(header, name, member.file_size, self._limits)
        self._limits.reserve(header.bytes_to_read)
        with _damage(name):
            return _kept(array_of(self._archive.unpack(member), header))

    def _take_class_names(self) -> tuple[str, ...] | None:
        """Remove the array of the names of the classes, one for each column of a matrix, and return it."""
        place = next((at for at in range(len(self.columns)) if self._is_class_names(at)), None)
        if place is None:
            return None
        name, names = self.columns[place].name, plain_texts(self._array(place), self.columns[place].name)
        others = [at for at in range(len(self.columns)) if at != place]
        self.columns = tuple(self.columns[at] for at in others)
        self._members, self._headers = [self._members[at] for at in others], [self._headers[at] for at in others]
        if len(set(names)) < len(names) or names == [str(k) for k in range(len(names))]:
            return None
        self.notes = (f"classes: {listed(names)}, in this order (array {quoted(name)})",)
        return tuple(names)

    def _is_class_names(self, at: int) -> bool:
        header = self._headers[at]
        if self.columns[at].name.strip("_").lower() not in _CLASSES or header.dtype.kind not in "iuU":
            return False
        # An array with one element per row may be the labels.
        shapes = [other.shape for other in self._headers if len(other.shape) == 2]
        matrices = shapes or [
            (other.shape[0], 2) for other in self._headers if len(other.shape) == 1 and other != header
        ]
        return any(header.shape == (width,) and rows != width for rows, width in matrices)

    def _column(self, member: zipfile.ZipInfo, header: ArrayHeader) -> Column:
        name = member.filename.removesuffix(".npy")
        itemsize = header.dtype.itemsize
        if len(header.shape) != 1 or header.dtype.kind not in "fiubU" or not 0 < itemsize <= _MAX_HEADER:
            return Column(name, (), header.shape[1] if len(header.shape) > 1 else 1)
        rows = min(header.shape[0], sample_rows(len(self._members)))
        first = memoryview(self._archive.begin(member, header.length + rows * itemsize))
        return Column(name, tuple(map(str, array_of(first, replace(header, shape=(rows,))).tolist())))


class NpyTable(_OfArrays):
    """A ``Table`` of an NPY file, which holds the predictions, or columns as the fields of a structured array."""

    def __init__(self, file: BinaryIO, limits: FileLimits) -> None:
        self._data, self._limits = bytes_of(file), limits
        with _damage():
            self._header = header_of(self._data)
        shape, dtype = self._header.shape, self._header.dtype
        self._records: Array | None = None
        self.columns = (Column("predictions", (), shape[1] if len(shape) > 1 else 1),)
        if dtype.names is not None and not dtype.hasobject and len(shape) == 1:
            limits.check_classes(len(dtype.names))
            check_header(self._header, "predictions", len(self._data), limits, records=True)
            limits.reserve(self._header.bytes_to_read)
            with _damage():
                self._records = array_of(self._data, self._header)
            self.columns = tuple(self._column(name, self._records[name]) for name in dtype.names)
            limits.check_classes(max(column.width for column in self.columns))

    def _column(self, name: str, column: Array) -> Column:
        if column.ndim > 1 or column.dtype.kind not in "fiubU":
            return Column(name, (), column.shape[1] if column.ndim > 1 else 1)
        with _damage(name):
            return Column(name, tuple(map(str, _checked(column[: sample_rows(1)]).tolist())))

    def _array(self, at: int) -> Array:
        name = self.columns[at].name
        if self._records is not None:
            with _damage(name):
                return _checked(np.array(self._records[name]))
        check_header(self._header, name, len(self._data), self._limits)
        self._limits.reserve(self._header.bytes_to_read)
        with _damage(name):
            return _kept(array_of(self._data, self._header))


def _kept(array: Array) -> Array:
    """Copy an array that is a view of a memory-mapped file, which another process might change."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    base = owner.base.obj if isinstance(owner.base, memoryview) else owner.base
    return array.copy() if isinstance(base, mmap.mmap) else array


def check_header(header: ArrayHeader, name: str, size: int, limits: FileLimits, *, records: bool = False) -> None:
    """Raise the error of an array that holds objects, does not match its size, or is too large.

    Structured arrays are accepted only if ``records``.
    """
    if header.dtype.hasobject or (header.dtype.names is not None and not records):
        raise PickledObjects(
            f"{quoted(name)} has Python objects or records, which are never loaded; save plain numbers, such as "
            "np.asarray(x, dtype=float)"
        )
    if not header.fills(size):
        raise DamagedFile(f"{quoted(name)} has a shape that does not match its size; the file is damaged or truncated")
    limits.check_bytes(size)
    if header.shape:
        limits.check_rows(header.shape[0], width=math.prod(header.shape[1:]))
        limits.check_classes(math.prod(header.shape[1:]))


#: Names of the files that macOS adds to archives.
_OF_MACOS = re.compile(r"__MACOSX/|(.*/)?\.DS_Store$")


def blocks_of_archive(data: memoryview, name: str, limits: FileLimits) -> Iterator[bytes] | None:
    """Return the blocks of the only file of a ZIP archive, or None for an archive of arrays or an Excel workbook.

    Raises ``WrongKind`` for other archives, or ``DamagedFile``, both also from the iterator.
    """
    with _damage():
        archive = Archive(data)
    members = [member for member in archive.members if not member.is_dir() and not _OF_MACOS.match(member.filename)]
    names = [member.filename for member in members]
    if any(filename.endswith(".npy") for filename in names):
        return None
    if _is_workbook(names):
        limits.check_bytes(sum(member.file_size for member in members))
        return None
    if (kind := _other(names)) is None and len(names) != 1:
        kind = f"a ZIP archive of {len(names):,} files: extract it and use one of its files"
    if kind is not None:
        raise wrong_kind(name, kind)
    limits.check_bytes(members[0].file_size)
    return _only_file(archive, members[0])


def wrong_kind(name: str, kind: str) -> WrongKind:
    """Return the error of a file that is of another ``kind`` than those that are read."""
    *others, last = FORMAT_NAMES
    return WrongKind(f"{quoted(name)} is {kind}. Supported formats are {', '.join(others)} and {last}")


def is_workbook(data: memoryview) -> bool:
    """Whether a ZIP archive is an Excel workbook; raises ``DamagedFile``."""
    with _damage():
        return _is_workbook([member.filename for member in Archive(data).members])


def _is_workbook(names: Sequence[str]) -> bool:
    return "xl/workbook.xml" in names


def _only_file(archive: Archive, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with _damage():
        yield from archive.blocks(member)


def _other(names: Sequence[str]) -> str | None:
    """Describe an archive of another kind with these members, or return None."""
    if "xl/workbook.bin" in names:
        return "a binary Excel workbook: save it as xlsx or CSV"
    if "[Content_Types].xml" in names or "mimetype" in names:
        return "an Office document: save it as CSV"
    if any(name.endswith(".pkl") for name in names):
        return "a PyTorch or other archive with pickles, which are never loaded: save it as NPZ"
    return None


@contextmanager
def _damage(name: str | None = None) -> Iterator[None]:
    """Convert the errors of a damaged archive to a ``DamagedFile`` that names the array."""
    try:
        yield
    except DamagedArray as error:
        raise DamagedFile(f"{'an array' if name is None else quoted(name)} {error.detail}") from error
    except (DamagedFile, FileTooLarge):
        raise
    except BROKEN as error:
        raise DamagedFile("the NPZ, NPY or ZIP file is damaged or truncated") from error
