"""Files of a source, read as record batches that are never in memory together."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from calibrant.core.errors import InvalidOption, RefusedPath, SourceChanged, SourceUnreadable, requires
from calibrant.core.progress import report
from calibrant.distributed.arrow import BYTES, NO_COLUMN, ROWS, pieces
from calibrant.distributed.parquet import PARQUETS, PIECE_BYTES, keys_of
from calibrant.distributed.storage import Storage, StoredFile, reading
from calibrant.io.errors import needed_pyarrow
from calibrant.io.texts import quoted

if TYPE_CHECKING:
    import pyarrow as pa

# --- Delta tables: their log is read by deltalake, and their files like all others, below the root

#: Features of readers that do not change what a file contains.
_KNOWN = frozenset({"timestampNtz", "typeWidening", "vacuumProtocolCheck"})


@dataclass(frozen=True)
class DeltaFiles:
    """The files of the newest version of a table, and the values of its partitions by the path of the file."""

    files: list[StoredFile]
    keys: Mapping[str, Mapping[str, str | None]]


def delta_files(storage: Storage, path: str) -> DeltaFiles:
    """Read the log of a table.

    Raises ``SourceUnreadable`` for a path without a table, and for one with deletion vectors or renamed columns, whose
    files have other rows or columns than the table; ``RefusedPath`` for a file that is not below the table.
    """
    with requires("delta"):
        import deltalake
        import pyarrow as pa
        from deltalake.exceptions import DeltaError
    path = path.rstrip("/")
    place, options = storage.location(path)
    try:
        table = deltalake.DeltaTable(place, storage_options=options)
        protocol = table.protocol()
        features = set(protocol.reader_features or ())
        if protocol.min_reader_version == 2 or features - _KNOWN:
            raise SourceUnreadable("the Delta table has deletion vectors, renamed columns or other features of readers")
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except (DeltaError, OSError):
        raise SourceUnreadable("the path has no Delta table that can be read") from None
    files, keys = [], {}
    for action in actions:
        name = unquote(action["path"])
        if "://" in name or name.startswith("/") or ".." in name.split("/"):
            raise RefusedPath.at("/path", "has a table with a file that is not below it")
        with reading():
            file = storage.file(f"{path}/{name}" if path else name)
        if file is None or file.size != action["size_bytes"]:
            raise SourceChanged("a file of the Delta table was replaced or removed")
        files.append(file)
        partition = {name: value for name, value in action.items() if name.startswith("partition.")}
        keys[file.path] = {
            name.removeprefix("partition."): None if value is None else str(value) for name, value in partition.items()
        }
    return DeltaFiles(sorted(files, key=lambda file: file.path), keys)


# --- Files of a source, read as record batches that are never in memory together

#: The format of files by their suffixes.
FORMATS = {
    "parquet": PARQUETS,
    "csv": (".csv", ".csv.gz"),
    "ndjson": (".ndjson", ".jsonl", ".ndjson.gz", ".jsonl.gz"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
#: Read-ahead buffer of a column, and block of text, in bytes; the most bytes of the footer of a Parquet file.
_AHEAD, _BLOCK, _FOOTER = 1 << 20, 1 << 22, 1 << 26
#: The most bytes of a record batch of an Arrow file, on average, since one is read as a whole.
_ARROW_BATCH = 1 << 26

# --- Conditions on columns

Value = str | int | float | bool | None
Condition = tuple[str, str, Value | Sequence[Value]]

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: What a condition compares with: one value, or for membership some.
OPERATORS = (*_COMPARISONS, "in", "not in")
#: The most conditions, and values of one.
_CONDITIONS, _VALUES = 32, 1000


def read_conditions(where: object) -> tuple[Condition, ...]:
    """Check conditions such as ``[["country", "=", "de"]]``, of which every row meets all; raises ``InvalidOption``."""
    if where is None:
        return ()
    if not isinstance(where, list | tuple) or len(where) > _CONDITIONS:
        raise InvalidOption.at("/where", f"must be a list of at most {_CONDITIONS} conditions")
    conditions = tuple(_read_condition(i, condition) for i, condition in enumerate(where))
    for i, condition in enumerate(conditions):
        try:
            _expression(condition)
        except (OverflowError, UnicodeError, TypeError, ValueError):  # those of pyarrow are among them
            accepted = "must have Unicode texts, 64-bit integers and values of one type"
            raise InvalidOption.at(f"/where/{i}", accepted) from None
    return conditions


def _read_condition(i: int, condition: object) -> Condition:
    pointer = f"/where/{i}"
    if not isinstance(condition, list | tuple) or len(condition) != 3 or not isinstance(condition[0], str):
        raise InvalidOption.at(pointer, 'must be a column, an operator and a value, such as ["country", "=", "de"]')
    name, sign, value = condition
    if sign not in OPERATORS:
        raise InvalidOption.at(f"{pointer}/1", f"must be one of: {', '.join(OPERATORS)}")
    if sign in _COMPARISONS:
        if value is None and sign not in ("=", "!="):
            raise InvalidOption.at(f"{pointer}/2", "must not be null, which has no order")
        if not isinstance(value, Value):
            raise InvalidOption.at(f"{pointer}/2", "must be a string, a number, a boolean or null")
        return name, sign, value
    if not isinstance(value, list | tuple) or not 0 < len(value) <= _VALUES:
        raise InvalidOption.at(f"{pointer}/2", f"must be a list of at most {_VALUES} values")
    if not all(isinstance(item, str | int | float | bool) for item in value):
        raise InvalidOption.at(f"{pointer}/2", "must be a list of strings, numbers or booleans")
    return name, sign, tuple(value)


def _expression(condition: Condition) -> Any:
    """Return a condition as an expression of pyarrow; rows with null meet only conditions about null, and != ."""
    pc = needed_pyarrow("compute").compute
    name, sign, value = condition
    column = pc.field(name)
    if value is None:
        return column.is_null() if sign == "=" else ~column.is_null()
    if sign in ("in", "not in"):
        among = column.isin(list(value) if isinstance(value, Sequence) else [value])
        return among if sign == "in" else ~among
    return _COMPARISONS[sign](column, value)


#: Larger integers are not exact in a column of numbers of CSV.
_EXACT = 1 << 53


def _types(conditions: Sequence[Condition], numbers: Sequence[str]) -> dict[str, str]:
    """Return the types of the columns of CSV: that of predictions and labels, and of what others are compared with.

    Raises ``InvalidOption`` for a column of two types, and for an integer that a column of numbers cannot have.
    """
    types = dict.fromkeys(numbers, "number")
    for i, (name, _, value) in enumerate(conditions):
        values = list(value) if isinstance(value, tuple) else [value]
        for typed in values:
            if typed is None:
                continue
            kind = "text" if isinstance(typed, str) else "boolean" if isinstance(typed, bool) else "number"
            if types.setdefault(name, kind) != kind:
                accepted = f"must be of the type {types[name]}, as which the column of CSV is read elsewhere"
                raise InvalidOption.at(f"/where/{i}/2", accepted)
            if isinstance(typed, int | float) and abs(typed) > _EXACT:
                raise InvalidOption.at(f"/where/{i}/2", "must be a number below 2^53, which is exact in CSV")
    return types


#: A number in the names of folders.
_KEY = re.compile(r"[+-]?[0-9]{1,1000}(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _meets(key: str | None, condition: Condition) -> bool:
    """Return whether a key in the names of folders meets a condition; compared as the type of the value."""
    _, sign, value = condition
    if key is None:  # as of a column: null meets only conditions about null, and "not in"
        return sign == "not in" or (sign == "=" and value is None)
    if value is None:
        return sign == "!="
    values = list(value) if isinstance(value, tuple) else [value]
    try:
        typed = [_typed(key, item) for item in values]
    except ValueError:
        raise InvalidOption.at("/where", f"compares {condition[0]}, which is text in the names of folders") from None
    if sign in ("in", "not in"):
        return any(map(operator.eq, typed, values)) == (sign == "in")
    return bool(_COMPARISONS[sign](typed[0], value))


def _typed(key: str, value: Any) -> Value:
    if isinstance(value, bool):
        if key.lower() not in ("true", "false"):
            raise ValueError(key)
        return key.lower() == "true"
    if isinstance(value, str):
        return key
    if _KEY.fullmatch(key) is None:  # float accepts more, such as "1_000" and "nan"
        raise ValueError(key)
    try:
        return int(key)  # exact, unlike a float
    except ValueError:
        return float(key)


# --- Files and their record batches


@dataclass(frozen=True)
class FilePiece:
    """A file, or some row groups of a Parquet file; ``first_row`` is the number of the first row, from 0."""

    file: StoredFile
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0
    size: int = 0


@dataclass(frozen=True)
class Scan:
    """Files of a storage, of which rows that meet all conditions are read.

    ``format`` is by default that of the suffix of each file. Columns of CSV have their ``types``: number, boolean or,
    by default, text.
    """

    storage: Storage
    files: Sequence[StoredFile]
    format: str | None = None
    where: tuple[Condition, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    total: int = 0
    partitions: Mapping[str, Mapping[str, str | None]] | None = None

    @classmethod
    def of(
        cls,
        storage: Storage,
        pattern: str,
        *,
        format: str | None = None,
        where: object = None,
        numbers: Sequence[str] = (),
    ) -> Scan:
        """List the files of a path, a pattern or a folder."""
        if format is not None and format not in (*FORMATS, "delta"):
            raise InvalidOption.at("/format", f"must be one of: {', '.join((*FORMATS, 'delta'))}")
        delta = delta_files(storage, pattern) if format == "delta" else None
        files = storage.files(pattern) if delta is None else delta.files
        if format is None and not any(sign in pattern for sign in "*?["):
            suffixes = tuple(suffix for known in FORMATS.values() for suffix in known)
            files = [file for file in files if file.path.endswith(suffixes)] or files
        conditions = read_conditions(where)
        total = sum(file.size for file in files)
        partitions = None if delta is None else delta.keys
        scan = cls(storage, files, format, conditions, dict.fromkeys(numbers, "number"), total, partitions)
        formats = {scan.format_of(file) for file in files}
        return replace(scan, types=_types(conditions, numbers)) if "csv" in formats else scan

    def format_of(self, file: StoredFile) -> str:
        """Return the format of a file."""
        if self.format is not None:
            return "parquet" if self.format == "delta" else self.format
        for name, suffixes in FORMATS.items():
            if file.path.lower().endswith(suffixes):
                return name
        raise InvalidOption.at("/format", f"is needed for files with other suffixes: {', '.join(FORMATS)}")

    def keys_of(self, file: StoredFile) -> Mapping[str, str | None]:
        """Return the columns in the names of the folders of a file, or of its partition of a Delta table."""
        return keys_of(file.path) if self.partitions is None else self.partitions[file.path]

    def pieces(self) -> Iterator[FilePiece]:
        """Yield the files in order; a large Parquet file in pieces of row groups."""
        for file in self.files:
            if self.meets(self.keys_of(file)) is not False:
                divided = self.format_of(file) == "parquet" and file.size > PIECE_BYTES
                yield from self._divided(file) if divided else [FilePiece(file, size=file.size)]

    def _divided(self, file: StoredFile) -> Iterator[FilePiece]:
        with self._opened(file) as opened, damage(file.path):
            metadata = _parquet(opened).metadata
        groups: list[int] = []
        size, first, row = 0, 0, 0
        for i in range(metadata.num_row_groups):
            groups.append(i)
            size += metadata.row_group(i).total_byte_size
            row += metadata.row_group(i).num_rows
            if size >= PIECE_BYTES or i == metadata.num_row_groups - 1:
                part = file.size * len(groups) // metadata.num_row_groups
                yield FilePiece(file, tuple(groups), first, part)
                groups, size, first = [], 0, row

    def meets(self, keys: Mapping[str, str | None]) -> bool | None:
        """Return whether the keys of a file meet the conditions on them; None if there are none."""
        of_keys = [condition for condition in self.where if condition[0] in keys]
        return all(_meets(keys[condition[0]], condition) for condition in of_keys) if of_keys else None

    def read(
        self, columns: Sequence[str], coded: Collection[str] = (), pieces: Iterable[FilePiece] | None = None
    ) -> Generator[tuple[FilePiece, Any]]:
        """Yield the record batches of some columns with their pieces, by default all; None after those of a piece."""
        for piece in self.pieces() if pieces is None else pieces:
            for batch in self.batches(piece, columns, coded):
                yield piece, batch
            yield piece, None

    def batches(
        self, piece: FilePiece, columns: Sequence[str] | None, coded: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece that meet the conditions, of some columns or of all; empty batches too.

        Columns that the file does not have are left out. The texts of ``coded`` columns may be dictionaries.
        """
        keys = self.keys_of(piece.file)
        conditions = [condition for condition in self.where if condition[0] not in keys]
        needed = None if columns is None else [*dict.fromkeys((*columns, *(name for name, _, _ in conditions)))]
        keep = reduce(operator.and_, map(_expression, conditions)) if conditions else None
        with reading(), self._opened(piece.file) as file, damage(piece.file.path):
            coded = set(coded) - {name for name, _, _ in conditions}  # which are compared as texts
            for batch in _READERS[self.format_of(piece.file)](self, file, piece, needed, coded):
                for part in pieces(batch):
                    yield part if keep is None else _kept(part, keep, conditions)

    @contextmanager
    def _opened(self, file: StoredFile) -> Iterator[Any]:
        """Open a file that does not change from the list to the end of the block; raises ``SourceChanged``."""
        with reading():
            self._check(file)
            with self.storage.open(file.path) as opened:
                yield opened
            self._check(file)

    def _check(self, file: StoredFile) -> None:
        if self.storage.file(file.path) != file:
            raise SourceChanged("a file of the source was replaced or removed while the source was read")

    # --- One reader for each format

    def _parquet_batches(
        self, file: Any, piece: FilePiece, columns: Sequence[str] | None, coded: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        parquet = _parquet(file)
        texts = [field.name for field in parquet.schema_arrow if str(field.type) in ("string", "large_string")]
        if as_dictionaries := sorted(set(coded).intersection(texts)):
            parquet = _parquet(file, metadata=parquet.metadata, read_dictionary=as_dictionaries)
        names = None if columns is None else [name for name in columns if name in set(parquet.schema_arrow.names)]
        return parquet.iter_batches(  # type: ignore[no-any-return]
            _rows_at_once(parquet.metadata, names), row_groups=piece.row_groups, columns=names, use_threads=False
        )

    def _arrow_batches(
        self, file: Any, piece: FilePiece, columns: Sequence[str] | None, _coded: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        arrow = needed_pyarrow("dataset")
        with arrow.ipc.open_file(file) as opened:
            schema, count = opened.schema, opened.num_record_batches
        places = [i for i, name in enumerate(schema.names) if columns is None or name in columns]
        rows = arrow.dataset.IpcFileFormat().make_fragment(file).count_rows()  # which reads no buffers
        unpacked = rows * sum(_least_bits(schema.field(i).type) for i in places) // 8
        if max(piece.size, unpacked) > _ARROW_BATCH * max(count, 1):
            raise SourceUnreadable(f"an Arrow file has record batches of more than {_ARROW_BATCH >> 20} MB")
        with arrow.ipc.open_file(
            file, options=arrow.ipc.IpcReadOptions(included_fields=places, use_threads=False)
        ) as opened:
            for i in range(count):
                batch = opened.get_batch(i)
                batch.validate(full=True)  # unlike the other readers, this one trusts the offsets and indices of a file
                yield batch

    def _csv_batches(
        self, file: Any, piece: FilePiece, columns: Sequence[str] | None, _coded: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        arrow = needed_pyarrow("csv")
        header: Sequence[str] = ()
        try:
            with self._unpacked(file, piece) as text:
                header = arrow.csv.open_csv(text, arrow.csv.ReadOptions(block_size=_BLOCK)).schema.names
            if columns is None and len(set(header)) < len(header):
                raise SourceUnreadable(f"{piece.file.path} has several columns of one name")
            # One of several columns with a name would be read without a word.
            names = header if columns is None else [name for name in columns if header.count(name) == 1]
            known = {"number": arrow.float64(), "boolean": arrow.bool_(), "text": arrow.string()}
            kinds = {name: known[self.types.get(name, "text")] for name in names}
            convert = arrow.csv.ConvertOptions(
                include_columns=names, column_types=kinds, null_values=[""], strings_can_be_null=True
            )
            reading_options = arrow.csv.ReadOptions(block_size=_BLOCK, use_threads=False)
            with (
                self._opened(piece.file) as again,
                self._unpacked(again, piece) as text,
                arrow.csv.open_csv(text, reading_options, convert_options=convert) as reader,
            ):
                yield from reader
        except arrow.ArrowInvalid as error:
            raise _of_csv(error, piece.file.path, header) from None

    def _ndjson_batches(
        self, file: Any, piece: FilePiece, columns: Sequence[str] | None, _coded: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        arrow = needed_pyarrow("json")
        options = arrow.json.ReadOptions(block_size=_BLOCK, use_threads=False)
        with self._unpacked(file, piece) as text, arrow.json.open_json(text, options) as reader:
            schema = reader.schema
            names = schema.names if columns is None else [name for name in columns if name in set(schema.names)]
            # JSON has no times. The reader would take texts for some, in UTC if they have no offset.
            times = [field for field in schema if field.name in names and arrow.types.is_temporal(field.type)]
            if not times:
                yield from (batch.select(names) for batch in reader)
                return
        texts = arrow.json.ParseOptions(
            explicit_schema=arrow.schema([field.with_type(arrow.string()) for field in times])
        )
        with (
            self._opened(piece.file) as again,
            self._unpacked(again, piece) as text,
            arrow.json.open_json(text, options, texts) as reader,
        ):
            yield from (batch.select(names) for batch in reader)

    @contextmanager
    def _unpacked(self, file: Any, piece: FilePiece) -> Iterator[Any]:
        arrow = needed_pyarrow("types")
        opened = file if isinstance(file, arrow.NativeFile) else arrow.PythonFile(file, "r")
        if piece.file.path.endswith(".gz"):
            opened = arrow.CompressedInputStream(opened, "gzip")
        yield opened


_READERS: dict[str, Callable[[Scan, Any, FilePiece, Sequence[str] | None, Collection[str]], Iterator[Any]]] = {
    "parquet": Scan._parquet_batches,
    "csv": Scan._csv_batches,
    "ndjson": Scan._ndjson_batches,
    "arrow": Scan._arrow_batches,
}


_Read = TypeVar("_Read")


def ahead(values: Generator[_Read]) -> Generator[_Read]:
    """Yield the values while another thread reads the next one."""
    with ThreadPoolExecutor(1, "calibrant-read") as reader:
        try:
            following = reader.submit(next, values, None)
            while (value := following.result()) is not None:
                following = reader.submit(next, values, None)
                yield value
        finally:
            reader.submit(values.close)


@contextmanager
def damage(path: str) -> Iterator[None]:
    """Convert the errors of a damaged file, which may repeat its content, to ``SourceUnreadable`` with its path."""
    arrow = needed_pyarrow("types")
    try:
        yield
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowKeyError, arrow.ArrowNotImplementedError, EOFError):
        raise _damaged(path) from None
    except (arrow.lib.ArrowIndexError, UnicodeDecodeError):
        raise _damaged(path) from None
    except OSError as error:
        # Errors of the system have a number, those of an object store the name of its provider.
        if error.errno is not None or re.search("AWS|google|Azure|curl", str(error)):
            raise
        raise _damaged(path) from None


#: What the reader of CSV says of a cell that is no number, and of a line of another length, before it repeats them.
_CELL = re.compile(r"In CSV column #(\d{1,9}): Row #(\d{1,15}): CSV conversion error")
_LINE = re.compile(r"CSV parse error: Row #(\d{1,15}): Expected (\d{1,9}) columns, got (\d{1,9}):")


def _of_csv(error: pa.ArrowInvalid, path: str, header: Sequence[str]) -> SourceUnreadable:
    """Return the error of a file of CSV, with its row from 0, without its content."""
    if (cell := _CELL.match(str(error))) is not None and int(cell[1]) < len(header):
        text = f"{quoted(header[int(cell[1])])} must have only numbers with a decimal point, and empty cells"
        return SourceUnreadable(f"{path}, row {int(cell[2]) - 2}: column {text}; labels are 0, 1 and so on")
    if (line := _LINE.match(str(error))) is not None:
        return SourceUnreadable(f"{path}, row {int(line[1]) - 2}: has {line[3]} cells, but the header has {line[2]}")
    return _damaged(path)


def _damaged(path: str) -> SourceUnreadable:
    return SourceUnreadable(f"{path} is damaged, or a column has values of another type")


#: Bytes of a number in a column of lists or numbers.
_NUMBER = 8


def _least_bits(kind: Any) -> int:
    """Return the bits of a value in a column of an Arrow type, or of its offset if values have any length."""
    try:
        return int(kind.bit_width)
    except ValueError:
        size = getattr(kind, "list_size", 0)
        return size * _least_bits(kind.value_type) if size else 32


def _rows_at_once(metadata: Any, names: Sequence[str] | None) -> int:
    """Return how many rows of a Parquet file are read at once, by the bytes of the widest row group."""
    rows = ROWS
    for i in range(metadata.num_row_groups):
        group, size = metadata.row_group(i), 0
        if not group.num_rows:
            continue
        for k in range(group.num_columns):
            column = group.column(k)
            if names is None or column.path_in_schema.partition(".")[0] in names:
                size += max(column.num_values * _NUMBER, column.total_uncompressed_size)
        rows = min(rows, BYTES * group.num_rows // max(size, 1))
    return max(rows, 1)


def _parquet(file: Any, **options: Any) -> Any:
    parquet = needed_pyarrow("parquet").parquet
    return parquet.ParquetFile(
        file,
        buffer_size=_AHEAD,
        pre_buffer=False,
        thrift_string_size_limit=_FOOTER,
        arrow_extensions_enabled=False,
        **options,
    )


def _kept(batch: pa.RecordBatch, keep: Any, conditions: Sequence[Condition]) -> pa.RecordBatch:
    arrow = needed_pyarrow("types")
    for i, (name, _, _) in enumerate(conditions):
        if batch.schema.get_field_index(name) < 0:
            raise InvalidOption.at(f"/where/{i}", NO_COLUMN)
    try:
        return batch.filter(keep)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError):
        raise InvalidOption.at("/where", "compares a column with a value of another type") from None


class BytesRead:
    """Reports the rows and bytes that were read of a total."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self.rows = max(total, 1), 0, 0

    def add(self, rows: int) -> None:
        """Count rows of the current piece."""
        self.rows += rows
        self._report()

    def end(self, size: int) -> None:
        """Count the bytes of a piece that was read completely."""
        self._done += size
        self._report()

    def _report(self) -> None:
        sizes = f"{self._done / 1e6:,.1f} of {self._total / 1e6:,.1f} MB"
        report(min(self._done, self._total), self._total, f"{self.rows:,} rows, {sizes}")
