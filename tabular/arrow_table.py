"""Parquet files, Arrow (Feather) files and Arrow streams, read by pyarrow once what they state has been looked at."""

from __future__ import annotations

import io
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from calibrant.errors import CalibrationError
from tabular.arrays import numbers_of, stacked, texts_of
from tabular.arrow_messages import check_messages
from tabular.bounds import Bounds
from tabular.errors import (
    DamagedFile,
    DuplicateColumns,
    EmptyFile,
    Field,
    MissingValue,
    NotANumber,
    NotLabels,
    TabularError,
    WrongShape,
)
from tabular.extra import needed_pyarrow
from tabular.parquet_pages import check_file
from tabular.sheet import Floats
from tabular.table import Coded, Column, Places, Values
from tabular.texts import Coding
from tabular.told import listed, quoted, row_of

_SAMPLE_ROWS = 1000
#: Before the stream that an Arrow file holds.
_FILE_MAGIC = b"ARROW1\0\0"


class _Columns(ABC):
    """A ``Table`` of pyarrow's; ``first`` are its first rows, ``whole`` reads some columns by name."""

    said: tuple[str, ...] = ()

    def __init__(self, arrow: Any, first: Any, bounds: Bounds) -> None:
        self._arrow, self._bounds = arrow, bounds
        with _damage(arrow):
            names = first.schema.names
            bounds.check_columns(len(names))
            if len(set(names)) < len(names):
                twice = sorted({name for name in names if names.count(name) > 1})
                raise DuplicateColumns(f"the file has {listed(twice)} more than once: rename one of them")
            if not first.num_rows:
                raise EmptyFile("the file has no rows")
            first.validate(full=True)
            self.columns = tuple(self._column(name, first.column(name)) for name in names)

    def read(self, places: Places) -> Values:
        """Read some columns of every row; raises the ``TabularError`` of the first bad one."""
        with _damage(self._arrow):
            names = [self.columns[at].name for at in (*places.numbers, *places.texts)]
            table = self._whole(names)
            table.validate(full=True)
            self._bounds.check_rows(table.num_rows, sum(self.columns[at].width for at in places.numbers))
            return self._values(table, places)

    def texts(self, at: int) -> list[str]:
        """The cells of one column of every row, as texts; null is empty."""
        name = self.columns[at].name
        with _damage(self._arrow):
            column = self._whole([name]).column(name)
            if not (self._is_plain(column.type) or self._arrow.types.is_timestamp(column.type)):
                raise NotLabels(
                    f"column {quoted(name)} holds no texts or numbers, but {_kind(column.type)}", field="file"
                )
            column.validate(full=True)
            cells = column.to_pylist()
        return ["" if cell is None else cell.isoformat() if hasattr(cell, "isoformat") else str(cell) for cell in cells]

    @abstractmethod
    def _whole(self, names: list[str]) -> Any:
        """The table of these columns."""

    def _values(self, table: Any, places: Places) -> Values:
        def column(at: int) -> Any:
            return table.column(self.columns[at].name)

        def name(at: int) -> str:
            return self.columns[at].name

        predictions = [self._numbers(column(at), name(at), "predictions") for at in places.predictions]
        weights, labels, groups = places.weights, places.labels, places.groups
        return Values(
            stacked(predictions),
            None if weights is None else self._numbers(column(weights), name(weights), "weights"),
            None if labels is None else self._texts(column(labels), name(labels), "labels"),
            None if groups is None else self._texts(column(groups), name(groups), "groups"),
        )

    def _column(self, name: str, first: Any) -> Column:
        """A column by its first rows; of lists, how many numbers the first has."""
        if self._is_list(first.type):
            row = first[0].as_py() or ()
            return Column(name, (), max(1, len(row)))
        if not self._is_plain(first.type):
            return Column(name, ("a value of another kind",))
        return Column(name, tuple("" if value is None else str(value) for value in first.to_pylist()))

    def _numbers(self, column: Any, name: str, field: Field) -> Floats:
        types = self._arrow.types
        if self._is_list(column.type) and field == "predictions":
            return self._lists(column, name)
        if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
            raise NotANumber(f"column {quoted(name)} holds no numbers, but {_kind(column.type)}", field=field)
        self._refuse_null(column, name, field)
        return numbers_of(column.cast(self._arrow.float64(), safe=False).to_numpy(), name, field)

    def _lists(self, column: Any, name: str) -> Floats:
        """A column of lists as (n, K)."""
        self._refuse_null(column, name, "predictions")
        rows = column.combine_chunks()
        rows = rows.combine_chunks() if isinstance(rows, self._arrow.ChunkedArray) else rows
        lengths = rows.value_lengths().to_numpy(zero_copy_only=False)
        width = int(lengths[0])
        if not width or np.any(lengths != width):
            row = row_of(int(np.argmax(lengths != width)))
            raise WrongShape(f"{row} of column {quoted(name)} has another length than the first", field="predictions")
        flat = self._arrow.chunked_array([rows.flatten()])
        if flat.null_count:
            at = int(np.flatnonzero(flat.is_null().to_numpy())[0]) // width
            raise MissingValue(f"{row_of(at)} of column {quoted(name)} holds an empty number", field="predictions")
        return numbers_of(self._numbers(flat, name, "predictions").reshape(-1, width), name, "predictions")

    def _texts(self, column: Any, name: str, field: Field) -> Coded:
        types = self._arrow.types
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_string(kind) or types.is_large_string(kind):
            coding = Coding(name, field)
            coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
            for chunk in coded.chunks:
                values = chunk.dictionary.to_pylist()
                if chunk.null_count or None in values:
                    self._refuse_null(column.cast(kind), name, field)
                coding.add_coded([value or "" for value in values], chunk.indices.to_numpy(zero_copy_only=False))
            return coding.done()
        plain = column.cast(kind) if types.is_dictionary(column.type) else column
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise NotLabels(f"column {quoted(name)} holds no {field}, but {_kind(kind)}", field=field)
        self._refuse_null(plain, name, field)
        return texts_of(plain.to_numpy(), name, field)

    def _refuse_null(self, column: Any, name: str, field: Field) -> None:
        if column.null_count:
            row = row_of(int(np.flatnonzero(column.is_null().to_numpy())[0]))
            n, where = column.null_count, f"column {quoted(name)}"
            told = f"{n:,} rows of {where} are empty, the first is {row}" if n > 1 else f"{row} of {where} is empty"
            raise MissingValue(
                f"{told}: fill {'them' if n > 1 else 'it'} in or leave the {'rows' if n > 1 else 'row'} out",
                field=field,
            )

    def _is_list(self, kind: Any) -> bool:
        types = self._arrow.types
        return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))

    def _is_plain(self, kind: Any) -> bool:
        types = self._arrow.types
        plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_string)
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return any(fits(kind) for fits in (*plain, types.is_large_string))


class ParquetTable(_Columns):
    """A ``Table`` of a Parquet file; raises ``MissingExtra``, ``DamagedFile`` or ``FileTooLarge``."""

    def __init__(self, file: BinaryIO, bounds: Bounds) -> None:
        arrow = needed_pyarrow("parquet", "Parquet")
        self._body = _bytes_of(file)
        with _damage(arrow):
            check_file(self._body, bounds)
            schema = arrow.parquet.read_schema(self._source(arrow))
            # Names stay codes: one long name and a million codes are not written out.
            self._coded = [name for name, kind in zip(schema.names, schema.types, strict=True) if _is_text(arrow, kind)]
            batches = self._open(arrow).iter_batches(_SAMPLE_ROWS, use_threads=False)
            first = next((batch for batch in batches if batch.num_rows), None)
            table = schema.empty_table() if first is None else arrow.Table.from_batches([first])
        super().__init__(arrow, table, bounds)

    def _whole(self, names: list[str]) -> Any:
        return self._open(self._arrow).read(columns=names, use_threads=False)

    def _open(self, arrow: Any) -> Any:
        return arrow.parquet.ParquetFile(self._source(arrow), read_dictionary=self._coded)

    def _source(self, arrow: Any) -> Any:
        return arrow.BufferReader(arrow.py_buffer(self._body))


class ArrowTable(_Columns):
    """A ``Table`` of an Arrow stream, or of a file, which holds one; raises as ``ParquetTable`` does."""

    def __init__(self, file: BinaryIO, bounds: Bounds) -> None:
        arrow = needed_pyarrow("ipc", "Arrow and Feather")
        body = _bytes_of(file)
        stream = body[len(_FILE_MAGIC) :] if bytes(body[: len(_FILE_MAGIC)]) == _FILE_MAGIC else body
        self._buffer = arrow.py_buffer(stream)
        with _damage(arrow):
            check_messages(arrow, self._buffer, len(stream), bounds)
            with arrow.ipc.open_stream(self._buffer) as reader:
                first = next((batch for batch in reader if batch.num_rows), None)
                table = reader.schema.empty_table() if first is None else arrow.Table.from_batches([first])
        super().__init__(arrow, table.slice(0, _SAMPLE_ROWS), bounds)

    def _whole(self, names: list[str]) -> Any:
        with self._arrow.ipc.open_stream(self._buffer) as reader:
            return reader.read_all().select(names)


def _is_text(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_string(kind) or arrow.types.is_large_string(kind))


def _kind(kind: Any) -> str:
    """The name of a type, without what it may be made of."""
    return str(kind).split("<", 1)[0].split("[", 1)[0]


def _bytes_of(file: BinaryIO) -> memoryview:
    """The bytes of a file where they lie, if it lies on a disk."""
    try:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        file.seek(0)
        return memoryview(file.read())


@contextmanager
def _damage(arrow: Any) -> Iterator[None]:
    """Turn what a damaged file raises into ``DamagedFile``."""
    broken = (arrow.ArrowException, OSError, MemoryError, LookupError, ValueError, NotImplementedError)
    try:
        yield
    except (TabularError, CalibrationError):  # the latter is of the caller's own bounds
        raise
    except broken as error:
        raise DamagedFile("the file is a damaged Parquet or Arrow file, or one that is cut off") from error
