"""NPZ and NPY files: arrays of numpy by name, of which only those that are needed are read."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from calibrant.io.bounds import Bounds
from calibrant.io.errors import (
    DamagedFile,
    Field,
    FileTooLarge,
    MissingValue,
    NotANumber,
    NotFinite,
    NotLabels,
    PickledObjects,
    TabularError,
    WrongKind,
    WrongShape,
)
from calibrant.io.table import Coded, Column, Floats, Places, Values
from calibrant.io.texts import Coding, quoted, row_of

# --- Arrays of numpy as columns: finite numbers, or texts

Array = npt.NDArray[Any]
#: Rows of text that are worked on at once.
_BLOCK = 1 << 16


def numbers_of(array: Array, name: str, field: Field) -> Floats:
    """An array as float64; raises the error of what it holds else, or of its first number that is not finite."""
    if array.dtype.kind not in "fiu":
        raise NotANumber(f"{quoted(name)} holds {_kind(array)}, not numbers", field=field)
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim not in ((1, 2) if field == "predictions" else (1,)) or not flat.size:
        raise WrongShape(f"{quoted(name)} has the shape {array.shape}: a number a row is needed", field=field)
    found = np.ascontiguousarray(flat, dtype=np.float64)
    finite = np.isfinite(found)
    if not finite.all():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), found.shape))
        where = f"{row_of(place[0])} of {quoted(name)}"
        if np.isnan(found[place]):
            raise MissingValue(f"{where} is NaN, which is no value: fill it in or leave the row out", field=field)
        raise NotFinite(f"{where} is infinite: every number must be finite", field=field)
    return found


def texts_of(array: Array, name: str, field: Field) -> Coded:
    """An array of labels or names as texts: integers as they are written, booleans as False and True."""
    if array.dtype.kind not in "fiubU":
        raise NotLabels(f"{quoted(name)} holds {_kind(array)}: numbers or texts are needed", field=field)
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1:
        hint = ": of one-hot rows take the argmax" if flat.ndim == 2 else ""
        raise NotLabels(
            f"{quoted(name)} has {flat.ndim} dimensions where one {field[:-1]} a row is needed{hint}", field=field
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
    """The values of an array as texts; raises ``WrongShape`` where there is not one a row."""
    if array.ndim != 1 or array.dtype.kind not in "fiuU":
        raise WrongShape(f"{quoted(name)} holds {_kind(array)} of the shape {array.shape}: one text or number a row")
    return [str(value) for value in array.tolist()]


def stacked(columns: Sequence[Floats]) -> Floats:
    """One column as it is, several as a column a class; raises ``WrongShape`` for those that do not fit."""
    if len(columns) == 1:
        return columns[0]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim > 1:
        raise WrongShape("the predictions of several classes need a number a row each", field="predictions")
    return np.column_stack(columns)


def _kind(array: Array) -> str:
    kinds = {
        "O": "Python objects, which are never opened",
        "b": "booleans",
        "U": "texts",
        "S": "bytes",
        "c": "complex numbers",
    }
    return kinds.get(array.dtype.kind, "values of another kind")


# --- NPZ and NPY files: arrays of numpy by name, of which only those that are needed are unpacked. No pickle is
#     opened

#: A header is a short Python literal; a longer one is an attack on its parser.
_MAX_HEADER = 4096
_SAMPLE_ROWS = 1000
_ENCRYPTED = 1
#: The end of an archive: its mark, the size of the list of its members, and where that stands; the same in ZIP64.
_END, _END_64, _TAIL = b"PK\x05\x06", b"PK\x06\x06", 1 << 17
_MAX_LIST = 4 << 20


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class NpzTable:
    """A ``Table`` of an archive of arrays; raises ``DamagedFile``, ``WrongKind`` or ``FileTooLarge``."""

    said: tuple[str, ...] = ()

    def __init__(self, file: BinaryIO, bounds: Bounds, name: str) -> None:
        self._bounds = bounds
        _check_list(file)
        with _damage():
            self._archive = zipfile.ZipFile(file)
        self._members = [member for member in self._archive.infolist() if member.filename.endswith(".npy")]
        if not self._members:
            raise WrongKind(
                f"{quoted(name)} is {_other(self._archive)}. CSV, NPZ, NPY, Parquet and Arrow files are read"
            )
        bounds.check_columns(len(self._members))
        self._headers = [self._header(member) for member in self._members]
        self.columns = tuple(map(self._column, self._members, self._headers))

    def read(self, places: Places) -> Values:
        """Read some arrays; raises the ``TabularError`` of the first bad one."""
        return values_of(self.columns, places, self._array)

    def texts(self, at: int) -> list[str]:
        """The values of one array, as texts."""
        return plain_texts(self._array(at), self.columns[at].name)

    def _array(self, at: int) -> Array:
        member, header = self._members[at], self._headers[at]
        check_header(header, self.columns[at].name, member.file_size, self._bounds)
        with _damage(), self._archive.open(member) as data:
            return _read(data, header, header.n_bytes)

    def _header(self, member: zipfile.ZipInfo) -> _Header:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
            # The readers of other methods inflate a member whole before they look at any size.
            raise DamagedFile("the archive is encrypted, or packed by another method than numpy's")
        with _damage(), self._archive.open(member) as data:
            return read_header(data)

    def _column(self, member: zipfile.ZipInfo, header: _Header) -> Column:
        name = member.filename.removesuffix(".npy")
        if len(header.shape) != 1 or header.dtype.kind not in "fiubU" or header.dtype.itemsize > _MAX_HEADER:
            return Column(name, (), header.shape[1] if len(header.shape) > 1 else 1)
        rows = min(header.shape[0], _SAMPLE_ROWS)
        with _damage(), self._archive.open(member) as data:
            first = _read(data, _Header((rows,), False, header.dtype, header.length), rows * header.dtype.itemsize)
            return Column(name, tuple(map(str, first.tolist())))


class NpyTable:
    """A ``Table`` of one array, the predictions."""

    said: tuple[str, ...] = ()

    def __init__(self, file: BinaryIO, bounds: Bounds) -> None:
        self._file, self._bounds = file, bounds
        file.seek(0)
        with _damage():
            self._header = read_header(file)
        shape = self._header.shape
        self.columns = (Column("predictions", (), shape[1] if len(shape) > 1 else 1),)

    def read(self, places: Places) -> Values:
        """Read the array; raises the ``TabularError`` of what it is instead."""
        return values_of(self.columns, places, self._array)

    def texts(self, at: int) -> list[str]:
        """The values of the array, as texts."""
        return plain_texts(self._array(at), self.columns[at].name)

    def _array(self, at: int) -> Array:
        check_header(self._header, self.columns[at].name, self._file.seek(0, io.SEEK_END), self._bounds)
        self._file.seek(0)
        return _read(self._file, self._header, self._header.n_bytes)


def values_of(columns: tuple[Column, ...], places: Places, array: Any) -> Values:
    """The arrays at some places, as the columns that they were chosen for."""

    def numbers(at: int, field: Field) -> Any:
        return numbers_of(array(at), columns[at].name, field)

    predictions = [numbers(at, "predictions") for at in places.predictions]
    return Values(
        stacked(predictions),
        None if places.weights is None else numbers(places.weights, "weights"),
        None if places.labels is None else texts_of(array(places.labels), columns[places.labels].name, "labels"),
        None if places.groups is None else texts_of(array(places.groups), columns[places.groups].name, "groups"),
    )


def read_header(data: IO[bytes]) -> _Header:
    """Shape, order and type that a header states, and how long it is; raises ``DamagedFile``."""
    begin = io.BytesIO(data.read(_MAX_HEADER + 12))
    version = np.lib.format.read_magic(begin)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DamagedFile("an array is of an unknown version of NPY")
    try:
        shape, fortran, dtype = readers[version](begin, max_header_size=_MAX_HEADER)
    except Exception as error:  # the header is a Python literal, and a hostile one fails in many ways
        raise DamagedFile("an array has a damaged header") from error
    return _Header(shape, fortran, dtype, begin.tell())


def check_header(header: _Header, name: str, size: int, bounds: Bounds) -> None:
    """Raise the error of an array whose shape its bytes do not fill, that is too large, or holds objects."""
    if header.dtype.hasobject or header.dtype.names is not None:
        raise PickledObjects(
            f"{quoted(name)} holds Python objects or records, which are never opened (they are pickles): save plain "
            "numbers, as by np.asarray(x, dtype=float)"
        )
    if any(length < 0 for length in header.shape) or header.n_bytes != size - header.length:
        raise DamagedFile(f"{quoted(name)} has a shape that its bytes do not fill: the file is damaged or cut off")
    bounds.check_bytes(size)
    if header.shape:
        bounds.check_rows(header.shape[0], math.prod(header.shape[1:]))
        bounds.check_columns(math.prod(header.shape[1:]))


def _read(data: IO[bytes], header: _Header, n_bytes: int) -> Array:
    data.read(header.length)
    found = data.read(n_bytes)
    if len(found) != n_bytes:
        raise DamagedFile("an array is cut off: the file is damaged")
    flat: Array = np.frombuffer(found, dtype=header.dtype)
    array = flat.reshape(header.shape[::-1]).T if header.fortran else flat.reshape(header.shape)
    return array.astype(header.dtype.newbyteorder("="), copy=False)


def _other(archive: zipfile.ZipFile) -> str:
    """What an archive is that holds no arrays."""
    names = archive.namelist()
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook: save it as CSV"
    if "[Content_Types].xml" in names or "mimetype" in names:
        return "an Office document: save it as CSV"
    if any(name.endswith(".pkl") for name in names):
        return "a PyTorch or other archive with pickles, which are never opened: save it as NPZ"
    return "a zip archive without arrays: unpack it and choose one of its files"


@contextmanager
def _damage() -> Iterator[None]:
    """Turn what a damaged archive raises into ``DamagedFile``."""
    try:
        yield
    except TabularError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise DamagedFile("the file is a damaged or cut off archive of arrays") from error


def _check_list(file: BinaryIO) -> None:
    """Raise ``FileTooLarge`` for an archive whose list of members alone would fill the memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    for mark, place, width in ((_END, 12, 4), (_END_64, 40, 8)):
        at = tail.rfind(mark)
        stated = int.from_bytes(tail[at + place : at + place + width], "little") if at >= 0 else 0
        if stated > _MAX_LIST and stated != 0xFFFFFFFF:
            raise FileTooLarge(f"the archive lists more members than fit {_MAX_LIST:,} bytes, which is the limit")
