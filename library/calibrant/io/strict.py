"""Strict readers of request bodies, whose columns must have exact names and types.

Nothing is inferred. Errors are a ``CalibrationError`` with a JSON Pointer to the field and the first bad row, counted
from 0; they never contain the data. Arrays are views of the body if possible.

``predictions`` is one column of P(Y=1), in Arrow and Parquet also a column of lists [p_1..p_K]; or there are K columns
``predictions.0`` to ``predictions.K-1``, in any order. ``labels``, ``weights``, ``groups`` and
``clusters`` are one column each, and so is each feature, such as ``features/country``: numbers, strings or booleans, of
which some may be missing. A column of CSV holds numbers if each cell is empty or a number of JSON. Labels may be
strings too; those of CSV are if the first one is no number. Labels that need not exclude each other, for calls that
take them, are lists or columns of numbers like the predictions of classes.

Bodies of predictive distributions have ``observed``, and ``mean`` with ``variance`` or ``std``; one column ``q0.05``
for each level, or lists ``quantiles``; columns ``samples.0``, ``samples.1`` and so on, or lists ``samples``; or
``lower`` and ``upper``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, cast
from zipfile import ZipInfo

import numpy as np

from calibrant.core.batch import MAX_NAME
from calibrant.core.errors import CalibrationError, InvalidOption, LengthMismatch, NotANumber, WrongShape
from calibrant.core.features import MAX_FEATURES, Features, read_feature
from calibrant.io import arrow
from calibrant.io.arrow import bytes_to_convert
from calibrant.io.csv import Block, TextRows, read_cells
from calibrant.io.errors import (
    FileTooLarge,
    InvalidField,
    MalformedArrow,
    MalformedCsv,
    MalformedNpy,
    MalformedNpz,
    MalformedParquet,
    TabularError,
    TooLarge,
)
from calibrant.io.limits import MAX_LINE, STRING_BYTES, Limits
from calibrant.io.npz import BROKEN, MAX_START, Archive, ArrayHeader, DamagedArray, array_of, header_of
from calibrant.io.source import View
from calibrant.io.table import Array, Body, Floats, Ints
from calibrant.io.texts import MixedCells, is_number, number, numbers_or_texts


@dataclass(frozen=True)
class Fields:
    """The columns of the bodies of one kind of prediction.

    Attributes
    ----------
    arrays : tuple of str
        Fields with one element per row.
    texts : tuple of str
        Those of strings; all others are of numbers.
    families : mapping of str to Pattern
        For each field with several numbers per row, the name of the column of one of them; its group is the class,
        sample or level.
    shared : tuple of str
        Arrays of NPZ that do not have one element per row.
    models, features : str
        The beginning of the names of the arrays of several models, as in ``models/forest``, and of features; empty if
        there are none.
    """

    arrays: tuple[str, ...]
    texts: tuple[str, ...]
    families: Mapping[str, re.Pattern[str]]
    shared: tuple[str, ...] = ()
    models: str = ""
    features: str = ""

    def is_model(self, name: str) -> bool:
        """Whether an array has the name of the predictions of a model."""
        return _is_below(self.models, name)

    def is_feature(self, name: str) -> bool:
        """Whether an array has the name of a feature."""
        return _is_below(self.features, name)

    def kinds_of(self, name: str) -> str | None:
        """Return the accepted kinds of the dtype of an array of NPZ; None if it is unknown."""
        if self.is_feature(name):
            return FEATURES
        return NUMBERS if self.is_model(name) else self.kinds.get(name)

    @property
    def kinds(self) -> dict[str, str]:
        """The arrays of an NPZ body, each with the accepted kinds of its dtype."""
        kinds = {name: STRINGS if name in self.texts else NUMBERS for name in (*self.arrays, *self.shared)}
        return kinds | {name: LABELS + STRINGS for name in kinds if name == "labels"}


def _is_below(prefix: str, name: str) -> bool:
    own = name.removeprefix(prefix)
    return bool(prefix) and own != name and 0 < len(own) <= MAX_NAME and "/" not in own


#: Kinds of dtypes of numbers, of strings, of labels, which may be booleans or in batches strings, and of features.
NUMBERS, STRINGS, LABELS, FEATURES = "fiu", "U", "fiub", "fiubU"
_NUMBERED = r"(0|[1-9][0-9]{0,8})"
#: Bodies with probabilities of classes, and bodies with predictive distributions of a number.
CLASSIFICATION = Fields(
    ("predictions", "labels", "weights", "groups", "clusters"),
    ("groups", "clusters"),
    {name: re.compile(rf"{name}\.{_NUMBERED}") for name in ("predictions", "labels")},
    models="models/",
    features="features/",
)
REGRESSION = Fields(
    (
        *("observed", "mean", "variance", "std", "quantiles", "samples", "lower", "upper"),
        *("weights", "groups", "clusters", "by", "times", "known"),
    ),
    ("groups", "clusters", "by", "times", "known"),
    {"quantiles": re.compile(r"q(0?\.[0-9]{1,9})"), "samples": re.compile(rf"samples\.{_NUMBERED}")},
    ("levels", "level"),
)
_OF_FAMILY = {field: f"{field}.k" for field in ("predictions", "labels", "samples")}
_OF_FAMILY["quantiles"] = "q with a level, such as q0.05"

Arrays = dict[str, Array]


@contextmanager
def _refusing(malformed: type[CalibrationError]) -> Iterator[None]:
    """Convert errors of files to those of request bodies."""
    try:
        yield
    except FileTooLarge as error:
        raise TooLarge(error.detail) from error
    except TabularError as error:
        raise malformed(error.detail) from error


# --- Which columns of a table belong to which field


def find_columns(
    names: Sequence[str], limits: Limits, fields: Fields = CLASSIFICATION
) -> tuple[dict[str, list[int]], Arrays]:
    """Return the indices of the columns of each field, and the ``levels`` in the names of quantiles.

    ``predictions.k`` and ``samples.k`` are in the order of k, quantiles in the order of their levels.

    Raises ``InvalidField`` for an unknown column, a duplicate or a missing class, and ``TooLarge`` for too many
    columns. Messages give the index of an unknown column, not its name, which may be confidential.
    """
    n_features = sum(map(fields.is_feature, names))
    if n_features > MAX_FEATURES:
        raise InvalidField.at("/features", f"may be at most {MAX_FEATURES}")
    limits.check_classes(len(names) - n_features - len(fields.arrays) + 1, f"/{next(iter(fields.families))}")
    expected = f"{', '.join(fields.arrays)} and {' or '.join(_OF_FAMILY[field] for field in fields.families)}"
    others = {name: name for name in names if fields.is_model(name) or fields.is_feature(name)}
    known = {name: name for name in fields.arrays} | others
    single, families = place_columns(names, known, fields.families, expected)
    columns: dict[str, list[int]] = {}
    levels: Arrays = {}
    for field, members in families.items():
        if field == "quantiles":
            levels["levels"] = np.array(sorted(members))
        elif max(members) != len(members) - 1:
            missing = next(k for k in range(len(members)) if k not in members)
            raise InvalidField.at(f"/{field}", f"has no column {field}.{missing}")
        columns[field] = [members[k] for k in sorted(members)]
    return {**columns, **single}, levels


def place_columns(
    names: Sequence[str], known: Mapping[str, str], families: Mapping[str, re.Pattern[str]], expected: str
) -> tuple[dict[str, list[int]], dict[str, dict[float, int]]]:
    """Find the columns of the fields, and the columns of each class, sample or level of the fields in ``families``.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    known : mapping of str to str
        Field by the name of its column.
    families : mapping of str to Pattern
        By field, matches the name of a column of one class, sample or level; its first group is the number.
    expected : str
        Description of the accepted names, for the message.

    Returns
    -------
    fields : dict of str to list of int
        Index of the column of each field.
    members : dict of str to dict of float to int
        By field, index of the column of each class, sample or level.

    Raises
    ------
    InvalidField
        For an unknown column, a duplicate, or a vector given both as one column and as columns of classes.
    """
    single: dict[str, list[int]] = {}
    members: dict[str, dict[float, int]] = {}
    for at, name in enumerate(names):
        matches = ((field, pattern.fullmatch(name)) for field, pattern in families.items())
        member = next(((field, float(match[1])) for field, match in matches if match is not None), None)
        if member is None and name not in known:
            raise InvalidField.at("", f"column {at + 1} must be one of {expected}")
        field = known[name] if member is None else member[0]
        if (field in single) if member is None else (member[1] in members.get(field, ())):
            raise InvalidField.at(f"/{field}", f"appears twice; the second is column {at + 1}")
        if member is None:
            single[field] = [at]
        else:
            members.setdefault(field, {})[member[1]] = at
    for field in members:
        if field in single:
            what = (
                "class" if field.startswith(("prediction", "labels")) else "level" if field == "quantiles" else "sample"
            )
            raise InvalidField.at(f"/{field}", f"must be either one column or one column per {what}, not both")
    return single, members


def _read_columns(columns: Mapping[str, Sequence[int]], read: Callable[[int, str], Array], limits: Limits) -> Arrays:
    """Read the arrays of all fields; ``read(index, field)`` reads one column."""
    by_field: Arrays = {}
    for field, places in columns.items():
        arrays = [read(at, field) for at in places]
        if len(arrays) > 1:
            limits.reserve(sum(array.nbytes for array in arrays))
        by_field[field] = arrays[0] if len(arrays) == 1 else np.column_stack(arrays)
    return by_field


# --- Names of groups: strings of bounded length, in arrays of objects
#
# In an array of numpy's strings each has the width of the longest, so that one long name would make a million rows a
# gigabyte.

#: Bytes of a reference to a string.
_REFERENCE = 8


class Names:
    """Collects the names of rows as an array of strings, equal ones once in memory; ``field`` is that of the rows."""

    def __init__(self, limits: Limits, field: str = "groups") -> None:
        self._limits, self._field = limits, field
        self._known: dict[Any, Any] = {}
        self._rows: list[Any] = []

    def add(self, values: Sequence[object]) -> None:
        """Add the names of some rows.

        Raises ``NotANumber`` for a value that is not a string, ``InvalidOption`` for a name that is too long or has a
        NUL (numpy drops trailing NULs), and ``TooLarge`` if the array would be too large.
        """
        are_text = set(map(type, values)) <= {str}
        if not (are_text and max(map(len, values), default=0) <= MAX_NAME and "\0" not in "".join(values)):  # type: ignore[arg-type]
            _check_names(values, lambda i: len(self._rows) + i, self._field)
        fresh = set(values).difference(self._known)
        self._limits.check_bytes((len(self._rows) + len(values)) * _REFERENCE)
        # References in the list and in the array, and the new strings.
        self._limits.reserve(2 * len(values) * _REFERENCE + sum(STRING_BYTES + sys.getsizeof(name) for name in fresh))
        self._rows.extend([self._known.setdefault(name, name) for name in values])

    def array(self) -> Array:
        """Return the names of all rows."""
        return _strings(self._rows)


def check_names(arrays: Mapping[str, Array], fields: Sequence[str], n: int, of: str) -> None:
    """Raise ``WrongShape`` or ``LengthMismatch`` for names that are not one for each of the ``n`` rows of others."""
    for name in fields:
        if name in arrays and arrays[name].ndim != 1:
            raise WrongShape.at(f"/{name}", "must be (n,)")
        if name in arrays and len(arrays[name]) != n:
            raise LengthMismatch.at(f"/{name}", f"has {len(arrays[name])} rows, but {of} {n}")


def read_names(values: Sequence[object], limits: Limits, field: str = "groups") -> Array:
    """Convert one name per row to an array of strings; raises as ``Names.add``."""
    names = Names(limits, field)
    names.add(values)
    return names.array()


def feature_array(field: str, values: Sequence[object], limits: Limits) -> Array:
    """Convert the values of a feature to numbers, NaN if missing, or to strings, "" if missing.

    Raises ``NotANumber``, ``InvalidOption`` and ``TooLarge``, whose places are below ``field``.
    """
    limits.reserve(4 * len(values) * _REFERENCE)
    name = field.removeprefix(CLASSIFICATION.features)
    return next(iter(Features((read_feature(name, list(values), escaped=True),)).stored().values()))


def _coded_names(values: Sequence[Any], codes: Ints, limits: Limits, field: str) -> Array:
    """Convert one code per row, an index into ``values``, to an array of strings; raises as ``Names.add``."""
    _check_names(values, lambda code: int(np.argmax(codes == code)) if len(codes) else 0, field)
    limits.check_bytes(len(codes) * _REFERENCE)
    limits.reserve(len(codes) * _REFERENCE)
    return _strings(values)[codes]


def _check_names(names: Sequence[object], row_of: Callable[[int], int], field: str) -> None:
    """Raise the error of the first invalid name; ``row_of`` returns the first row of a name."""
    for i, name in enumerate(names):
        if not isinstance(name, str):
            like = "must be a string like the first" if row_of(i) else "must be a string"
            raise NotANumber.at(f"/{field}/{row_of(i)}", like)
        if len(name) > MAX_NAME or "\0" in name:
            raise InvalidOption.at(f"/{field}/{row_of(i)}", f"must have at most {MAX_NAME} characters and no NUL")


def _strings(values: Sequence[Any]) -> Array:
    """Convert names to an array of strings."""
    strings = np.empty(len(values), dtype=np.object_)
    strings[:] = values
    return strings


# --- NPY and NPZ: one array per field

#: The arrays of a body of predictions of classes, and the accepted kinds of their dtypes.
_KINDS: Mapping[str, str] = MappingProxyType(CLASSIFICATION.kinds)


def read_npy(body: Body, limits: Limits) -> Arrays:
    """Read predictions from an NPY body. Raises ``MalformedNpy`` or ``TooLarge``."""
    limits.check_bytes(len(body))
    try:
        data = memoryview(body)
        header = _read_header(data, len(data), "predictions", limits, MalformedNpy, NUMBERS)
        limits.reserve(header.bytes_to_read)
        return {"predictions": _read_array(data, header, "predictions", MalformedNpy)}
    except CalibrationError:
        raise
    except (ValueError, OSError) as error:
        raise MalformedNpy("the body is not a .npy array, or it is damaged") from error


def read_npz(body: Body, limits: Limits, kinds: Mapping[str, str] = _KINDS, fields: Fields | None = None) -> Arrays:
    """Read the arrays of an NPZ body.

    ``kinds`` are the accepted arrays, each with the accepted kinds of its dtype; the arrays of models are those of
    ``fields``. Arrays that are not compressed, as
    ``numpy.savez`` writes them, are views of the body. Raises ``MalformedNpz``, ``NotANumber`` or ``TooLarge``, the
    latter before anything but the headers is unpacked.
    """
    members: dict[str, tuple[ZipInfo, ArrayHeader]] = {}
    try:
        with _refusing(MalformedNpz):
            archive = Archive(memoryview(body))
            unpacked = 0
            for member in archive.members:
                name = _field_of(member.filename, kinds, fields)
                if name in members:
                    raise MalformedNpz.at(f"/{name}", "appears twice in the archive")
                unpacked += member.file_size
                limits.check_bytes(unpacked)
                start = archive.begin(member, MAX_START)
                kind = (kinds.get(name) if fields is None else fields.kinds_of(name)) or NUMBERS
                header = _read_header(start, member.file_size, name, limits, MalformedNpz, kind)
                members[name] = member, header
            limits.reserve(sum(header.bytes_to_read for _, header in members.values()))
            return {
                name: _read_array(archive.unpack(member), header, name, MalformedNpz)
                for name, (member, header) in members.items()
            }
    except CalibrationError:
        raise
    except BROKEN as error:
        raise MalformedNpz("the body is not an NPZ archive, or it is damaged") from error


def _field_of(filename: str, kinds: Mapping[str, str], fields: Fields | None) -> str:
    name = filename.removesuffix(".npy")
    is_known = name in kinds or (fields is not None and fields.kinds_of(name) is not None)
    if not is_known or name == filename:
        raise MalformedNpz.at("", f"may have only the arrays {', '.join(kinds)}")
    return name


def _read_header(
    data: bytes | memoryview,
    size: int,
    name: str,
    limits: Limits,
    malformed: type[MalformedNpy | MalformedNpz],
    kinds: str,
) -> ArrayHeader:
    """Read the header of the array of a field from its first bytes; the array and its header have ``size`` bytes.

    Arrays of objects are refused, so nothing is unpickled. Booleans are refused unless they are labels, as in JSON: the
    formats accept the same data.
    """
    pointer = f"/{name}"
    try:
        header = header_of(data)
        dtype = header.dtype
        if dtype.kind == "b" and dtype.names is None and "b" not in kinds and kinds != STRINGS:
            raise NotANumber.at(pointer, "holds booleans, not numbers")
        if dtype.hasobject or dtype.kind not in kinds or dtype.names is not None:
            raise malformed.at(pointer, _must_hold(kinds))
        if not header.fills(size):
            raise malformed.at(pointer, "has a shape that does not match its size in bytes")
        limits.check_shape(header.shape, pointer)
        return header
    except DamagedArray as error:
        raise malformed.at(pointer, error.detail) from error


def _read_array(
    data: memoryview, header: ArrayHeader, name: str, malformed: type[MalformedNpy | MalformedNpz]
) -> Array:
    """Read the array of a field; ``data`` may be shorter than an archive declares."""
    try:
        if not header.fills(len(data)):
            raise malformed.at(f"/{name}", "has a shape that does not match its size in bytes")
        return array_of(data, header)
    except DamagedArray as error:
        raise malformed.at(f"/{name}", error.detail) from error


def _must_hold(kinds: str) -> str:
    """Describe the accepted content of an array."""
    if "U" not in kinds:
        return "must hold plain numbers or dates" if "M" in kinds else "must hold plain numbers"
    return "must hold strings or integers" if "i" in kinds else "must hold strings"


# --- Arrow streams and Parquet files: one column per field


#: Reads a table: the body, its limits, a check of the schema before any row is read, and what is made of the table.
TableReader = Callable[[Body, Limits, Callable[[Any], None], Callable[[Any], Any]], Any]


def read_stream(body: Body, limits: Limits, check: Callable[[Any], None], read: Callable[[Any], Any]) -> Any:
    """Call ``calibrant.io.arrow.read_stream`` for a body; raises ``MalformedArrow`` and ``TooLarge``."""
    with _refusing(MalformedArrow):
        return arrow.read_stream(body, limits, check, read)


def read_file(body: Body, limits: Limits, check: Callable[[Any], None], read: Callable[[Any], Any]) -> Any:
    """Call ``calibrant.io.arrow.read_parquet`` for a body; raises ``MalformedParquet`` and ``TooLarge``."""
    with _refusing(MalformedParquet):
        return arrow.read_parquet(body, limits, check, read)


def read_arrow(body: Body, limits: Limits, fields: Fields = CLASSIFICATION) -> Arrays:
    """Read the columns of an Arrow IPC stream.

    Numbers may be integers or floats of any width, fields with several numbers per row also lists of them, and
    ``groups`` strings; all may be dictionary-encoded. Raises ``MalformedArrow``, ``TooLarge``, ``MissingExtra``, or the
    error of the first bad column or row.
    """
    return _read_table(read_stream, body, limits, fields)


def read_parquet(body: Body, limits: Limits, fields: Fields = CLASSIFICATION) -> Arrays:
    """Read a Parquet body with the columns and types of ``read_arrow``; raises ``MalformedParquet`` and the same."""
    return _read_table(read_file, body, limits, fields)


def _read_table(read_table: TableReader, body: Body, limits: Limits, fields: Fields) -> Arrays:
    arrays: Arrays = read_table(
        body,
        limits,
        lambda schema: _check_schema(schema, limits, fields),
        lambda table: _arrays(table, limits, fields),
    )
    return arrays


def _check_schema(schema: Any, limits: Limits, fields: Fields) -> None:
    """Raise the error of the first column with an unknown name or type."""
    for field, places in find_columns(schema.names, limits, fields)[0].items():
        for at in places:
            if fields.is_feature(field):
                inner = arrow.value_type(schema.types[at])
                if not (arrow.is_text(inner) or arrow.is_number(inner) or str(inner) == "bool"):
                    raise NotANumber.at(f"/{field}", "must be a column of numbers, strings or booleans")
                continue
            may_be_lists = (field in fields.families or fields.is_model(field)) and schema.names[at] == field
            if not (schema.names[at] == "labels" and arrow.is_text(arrow.value_type(schema.types[at]))):
                _check_type(schema.types[at], field, is_text=field in fields.texts, may_be_lists=may_be_lists)


def _check_type(kind: Any, field: str, *, is_text: bool, may_be_lists: bool) -> None:
    inner = arrow.value_type(kind)
    if is_text:
        if not arrow.is_text(inner):
            raise NotANumber.at(f"/{field}", "must be a column of strings")
        return
    if may_be_lists and arrow.is_list(kind):
        inner = kind.value_type
        if getattr(kind, "list_size", 1) < 1:
            raise WrongShape.at(f"/{field}", "must have at least one number per row")
    if not arrow.is_number(inner) and not (field == "labels" and str(inner) == "bool"):
        what = "holds booleans, not numbers" if str(inner) == "bool" else "must be a column of numbers"
        raise NotANumber.at(f"/{field}", what)


def _arrays(table: Any, limits: Limits, fields: Fields) -> Arrays:
    columns, levels = find_columns(table.schema.names, limits, fields)

    def read(at: int, field: str) -> Array:
        column = table.column(at)
        is_text = field in fields.texts or (field == "labels" and arrow.is_text(arrow.value_type(column.type)))
        limits.reserve(bytes_to_convert(column, is_text=is_text or fields.is_feature(field)))
        if fields.is_feature(field) and not arrow.is_text(arrow.value_type(column.type)):
            return feature_array(field, arrow.decoded(column).to_pylist(), limits)
        if not fields.is_feature(field):
            _refuse_null(column, lambda row: f"/{field}/{row}")
        if is_text or fields.is_feature(field):
            codes, values = arrow.codes_of(column, limits)
            texts = ["" if value is None else value.strip() if field == "labels" else value for value in values]
            return _coded_names([*texts, ""] if fields.is_feature(field) else texts, codes, limits, field)
        return _vectors(column, field, limits) if arrow.is_list(column.type) else arrow.number_array(column)

    return _read_columns(columns, read, limits) | levels


def _refuse_null(column: Any, pointer: Callable[[int], str]) -> None:
    if len(nulls := arrow.null_rows(column)):
        raise NotANumber.at(pointer(int(nulls[0])), "is null")


def _vectors(column: Any, field: str, limits: Limits) -> Array:
    """Convert a column of lists to (n, K); all lists must have the same length."""
    lengths, flat = arrow.lists_of(column)
    width = int(lengths[0]) if len(lengths) else 0
    limits.check_classes(width, f"/{field}")
    if np.any(lengths != width):
        row = int(np.flatnonzero(lengths != width)[0])
        raise WrongShape.at(f"/{field}/{row}", "must have the same length as the rows before it")
    _refuse_null(flat, lambda at: f"/{field}/{at // width}/{at % width}")
    return arrow.number_array(flat).reshape(len(lengths), width)


# --- CSV in UTF-8 with a header, read by the standard library
#
# A million rows take one to two seconds; Arrow takes milliseconds. But this needs no extra, rounds like Python, and its
# errors do not contain the data.

#: Characters per cell in the limit of a line.
_CELL = 64


@contextmanager
def csv_table(body: Body, limits: Limits) -> Iterator[tuple[list[str], TextRows]]:
    """The header of a CSV body and the rows after it; raises ``MalformedCsv`` or ``TooLarge``."""
    limits.check_bytes(len(body))
    with _refusing(MalformedCsv):
        longest = max(MAX_LINE, limits.max_classes * _CELL)
        rows = TextRows(cast(BinaryIO, View(memoryview(body))), "utf-8-sig", strict=True, longest=longest)
        header = rows.header()
        if not header:
            raise MalformedCsv("the body has no header row")
        yield header, rows


def read_csv(body: Body, limits: Limits, fields: Fields = CLASSIFICATION) -> Arrays:
    """Read a CSV body with a header.

    Raises ``MalformedCsv`` or ``NotANumber`` with the first bad row, counted from 0 after the header, ``InvalidField``
    or ``TooLarge``.
    """
    parse = float if body.isascii() and b"_" not in body else number
    names: dict[str, Names] = {}

    def is_text(field: str) -> bool:
        return field in fields.texts or fields.is_feature(field)

    with csv_table(body, limits) as (header, rows):
        columns, levels = find_columns(header, limits, fields)
        label_cells = _LabelCells(parse, Names(limits, "labels") if len(columns.get("labels", ())) == 1 else None)
        numbers = {
            at: label_cells if field == "labels" else partial(_cells, field=field, parse=parse)
            for field, places in columns.items()
            for at in places
            if not is_text(field)
        }
        names = {field: Names(limits, field) for field in columns if is_text(field)}
        adding = {columns[field][0]: texts.add for field, texts in names.items()}
        cells = read_cells(rows, len(header), numbers, adding, limits)

    def read_names_of(field: str) -> Array:
        array = names[field].array()
        if not fields.is_feature(field):
            return array
        try:
            return numbers_or_texts(array.tolist())
        except MixedCells as error:
            text = (
                "is a number among texts, in a longer form than needed: as a category its text, as a number another "
                "one; send the feature as text in JSON, NPZ, Arrow or Parquet, or shorten it"
            )
            raise NotANumber.at(f"/{field}/{error.row}", text) from None

    arrays = _read_columns(
        columns,
        lambda at, field: read_names_of(field) if field in names else cells[at],
        limits,
    )
    if label_cells.kind == "texts" and label_cells.texts is not None:
        arrays["labels"] = label_cells.texts.array()
    elif label_cells.kind == "words":
        arrays["labels"] = arrays["labels"].astype(np.bool_)
    return arrays | levels


class _LabelCells:
    """Convert the cells of labels: numbers, or in all rows ``true`` and ``false`` in any case; or collect ``texts``."""

    def __init__(self, parse: Callable[[str], float], texts: Names | None) -> None:
        self._parse, self.texts = parse, texts
        self.kind: Literal["words", "numbers", "texts"] | None = None

    def __call__(self, cells: Sequence[str], block: Block) -> Floats:
        if self.kind is None and cells:
            first = cells[0].strip()
            are_texts = self.texts is not None and first and not is_number(first)
            self.kind = "words" if first.lower() in WORDS else "texts" if are_texts else "numbers"
        if self.kind == "texts" and self.texts is not None:
            self.texts.add(_filled([cell.strip() for cell in cells], block))
            return np.empty(0)
        if self.kind != "words":
            return _cells(cells, block, field="labels", parse=self._parse)
        values = [WORDS.get(cell.strip().lower()) for cell in cells]
        if None in values:
            row = block.row + values.index(None)
            raise NotANumber.at(f"/labels/{row}", "must be true or false, as the labels before it")
        return np.array(values, dtype=np.float64)


def _filled(texts: list[str], block: Block) -> list[str]:
    if "" in texts:
        raise NotANumber.at(f"/labels/{block.row + texts.index('')}", "is empty")
    return texts


#: Labels that are words, in lower case.
WORDS = MappingProxyType({"true": 1.0, "false": 0.0})


def _cells(cells: Sequence[str], block: Block, *, field: str, parse: Callable[[str], float]) -> Floats:
    """Convert cells to numbers."""
    try:
        return np.array([*map(parse, cells)], dtype=np.float64)
    except ValueError:
        row = next(i for i, text in enumerate(cells) if not is_number(text))
        what = "is not a number" if cells[row].strip() else "is empty"
        raise NotANumber.at(f"/{field}/{block.row + row}", what) from None
